"""What the NumPy engine publishes about its operations, for shapes of several depths."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from model.blueprint import Blueprint
from model.operations import Kind, Operation
from model.random_model import llama_blueprint, random_decoder
from model.rotary import Rotary
from model.shape import ModelShape

SHARED = ModelShape(
    depth=2,
    model_dim=8,
    num_heads=4,
    kv_heads=2,
    gated=True,
    context_length=12,
    vocabulary=20,
)


def operations(depth: int, *, tied: bool = True) -> tuple[Operation, ...]:
    shape = ModelShape(depth=depth, model_dim=8, num_heads=2, context_length=12, vocabulary=1234)
    return random_decoder(shape, tied=tied).operations


def test_the_labels_of_a_block_in_order() -> None:
    assert [o.label for o in operations(1)] == [
        "Embedding + position",
        "LayerNorm",
        "Q, K, V",
        "Append K, V to cache",
        "Scores q·k/√d",
        "Softmax",
        "Weighted values",
        "Output projection",
        "Residual add",
        "LayerNorm",
        "MLP up",
        "GELU",
        "MLP down",
        "Residual add",
        "Final LayerNorm",
        "Logits",
        "Sample",
    ]


def test_the_labels_of_other_blocks() -> None:
    shape = replace(SHARED, depth=1)
    full = replace(llama_blueprint(shape), qk_norm=True)
    assert [o.short_name for o in random_decoder(full).operations if o.layer == 0] == [
        "ln1",
        "attn.q",
        "attn.q_norm",
        "attn.rot_q",
        "cache",
        "attn.scores",
        "attn.pattern",
        "attn.z",
        "attn.out",
        "resid_mid",
        "ln2",
        "mlp.gate",
        "mlp.pre",
        "mlp.post",
        "mlp.out",
        "resid_post",
    ]
    side = Blueprint(shape=replace(shape, gated=False), rotary=Rotary(2), parallel=True)
    operations = {o.short_name: o for o in random_decoder(side).operations}
    assert "resid_mid" not in operations
    assert operations["ln2"].inputs == ("blocks.0.resid_pre",)
    assert len(operations["resid_post"].inputs) == 3
    assert operations["cache"].inputs == ("blocks.0.attn.rot_k", "blocks.0.attn.v")


@pytest.mark.parametrize("depth", [1, 2, 12])
def test_names_are_unique_and_every_input_was_an_output_before(depth: int) -> None:
    published = operations(depth)
    assert len({o.name for o in published}) == len(published) == 4 + 13 * depth
    assert [o.kind for o in published if o.layer == depth - 1].count(Kind.RESIDUAL) == 2
    assert published[-1].name == "sample"
    known: set[str] = set()
    for operation in published:
        assert set(operation.inputs) <= known, operation.name
        assert not set(operation.outputs) & known, operation.name
        known.update(operation.outputs)
        if operation.outputs:
            assert operation.name == operation.outputs[0]
            assert operation.axes[0] == "batch"


def test_every_operation_points_to_the_line_that_computes_it() -> None:
    for operation in operations(2):
        source = operation.source()
        assert operation.mark in source.lines[source.marked], operation.name
        assert re.fullmatch(r"model/\w+\.py", source.file), operation.name
        assert "=" in source.lines[source.marked] or "return" in source.lines[source.marked]


def test_every_operation_is_described_in_a_plain_sentence() -> None:
    for operation in operations(2, tied=False):
        sentence = operation.describe(queries=3, keys=7, heads=2, layer=1, width=8)
        assert sentence.endswith(".")
        assert not re.search(r"[{}!]", sentence), operation.name
        assert not re.search(r"[{}!]", operation.formula), operation.name
        assert 20 < len(sentence) < 220, operation.name
    logits = operations(1)[-2]
    assert "1,234" in logits.describe()
