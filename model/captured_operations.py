"""The operations of a capture: those whose results were recorded, in the order of a pass.

Labels and sentences are those of :mod:`model.decoder_operations` as far as the capture says what a
part is; of other parts nothing is claimed. What code computed them is not known, so none is shown.
"""

from __future__ import annotations

from dataclasses import replace

from model.blueprint import Blueprint
from model.captured_run import Capture
from model.decoder_operations import decoder_operations
from model.operations import Kind, Operation

BIASES = {Kind.QKV: "qkv_bias", Kind.LINEAR: "mlp_bias"}
NORM_SENTENCE = "The vector of each position is brought to one size for the next part to read."
EMBED_SENTENCE = "Each token becomes {width} numbers; what its position adds was not recorded."
BEND_SENTENCE = "Each number is bent by the activation function; the rule was not recorded."


def captured_operations(capture: Capture, blueprint: Blueprint) -> tuple[Operation, ...]:
    """What can be stepped to; the last one is ``sample``, as in every engine."""
    names = {name for step in capture.steps for name in step.arrays}
    made = decoder_operations(blueprint, _elsewhere, _elsewhere, _elsewhere)
    return tuple(
        _claiming_less(operation, capture, blueprint)
        for each in made
        if (operation := _recorded(each, names)) is not None
    )


def whole_run(blueprint: Blueprint) -> list[str]:
    """Names of all arrays of a step, in order."""
    made = decoder_operations(blueprint, _elsewhere, _elsewhere, _elsewhere)
    return [name for operation in made for name in operation.outputs]


def _recorded(operation: Operation, names: set[str]) -> Operation | None:
    """The operation with the outputs that were recorded, or None if there are none."""
    if operation.kind is Kind.SAMPLE:
        return operation
    if operation.kind is Kind.CACHE:
        inputs = tuple(name for name in operation.inputs if name in names)
        return replace(operation, inputs=inputs) if inputs else None
    outputs = tuple(name for name in operation.outputs if name in names)
    return replace(operation, outputs=outputs) if outputs else None


def _claiming_less(operation: Operation, capture: Capture, blueprint: Blueprint) -> Operation:
    """Without the code, and without what the capture does not say of the part."""
    said = capture.blueprint
    changes: dict[str, str] = {}
    match operation.kind:
        case Kind.EMBED if "pos_embed" not in operation.outputs and blueprint.rotary is None:
            changes = {"label": "Embedding", "formula": "", "sentence": EMBED_SENTENCE}
        case Kind.NORM if said.get("norm") is None:
            label = "Norm" if operation.layer is not None else "Final norm"
            label = "Q, K norm" if operation.name.endswith("q_norm") else label
            changes = {"label": label, "formula": "", "sentence": NORM_SENTENCE}
        case Kind.ACTIVATION if said.get("activation") != str(blueprint.activation):
            changes = {
                "label": str(said.get("activation") or "Activation"),
                "formula": "",
                "sentence": BEND_SENTENCE,
            }
        case Kind.ROTARY if said.get("rotary") is None:
            changes = {
                "formula": "t = position · frequency of the pair",
                "sentence": "Pairs of coordinates of each query and key are turned by an angle "
                "that grows with the position, so that a score depends on how far apart the two "
                "are.",
            }
        case Kind.QKV | Kind.LINEAR:
            field = BIASES[operation.kind]
            field = "out_bias" if operation.name.endswith("attn.out") else field
            if said.get(field) is None:
                changes = {"formula": f"{operation.formula} (+ b)"}
    return replace(operation, function=_elsewhere, mark="", **changes)  # type: ignore[arg-type]


def _elsewhere(*_: object) -> object:
    """Stands for code that is not here: it has no line that computes anything."""
    raise LookupError("the code that computed a capture is not recorded")
