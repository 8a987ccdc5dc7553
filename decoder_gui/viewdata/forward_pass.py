"""The operations of the step in hand as a tree, with the source behind the current one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_positions, format_shape
from model.operations import Kind, Operation, SourceLines
from model.shape import ModelShape
from model.trace import Phase, Step


class Progress(Enum):
    """Where a row stands relative to the cursor; the value is how it is said in words."""

    DONE = "done"
    NOW = "in hand"
    TO_COME = "to come"


@dataclass(frozen=True)
class OperationRow:
    """One operation. ``index`` is its place in the model's list; ``detail`` its shape in words."""

    index: int
    label: str
    detail: str
    progress: Progress


@dataclass(frozen=True)
class BlockRow:
    """One block with its operations; its progress is NOW while the operation in hand is inside."""

    layer: int
    label: str
    progress: Progress
    operations: tuple[OperationRow, ...]


@dataclass(frozen=True)
class ForwardPassView:
    """Everything that the Forward pass panel shows.

    Attributes:
        rows: the top level of the tree, in order.
        open_layer: the block that is open by itself: that of the operation in hand, or the nearest
            one, so that the tree keeps its length from one operation to the next.
        source: lines of the code that computed the operation in hand, marked; None if there is no
            text of it on this machine.
    """

    title: str
    hint: str
    rows: tuple[OperationRow | BlockRow, ...]
    current: int
    open_layer: int | None
    source: SourceLines | None
    formula: str
    sentence: str


def build_forward_pass(moment: Moment) -> ForwardPassView | None:
    """The panel's content at a moment, or None before anything was computed."""
    step, cursor, operation = moment.step, moment.cursor, moment.operation
    if step is None or cursor is None or operation is None:
        return None
    rows: list[OperationRow | BlockRow] = []
    inside: list[OperationRow] = []
    operations = moment.trace.operations
    for index, each in enumerate(operations):
        row = OperationRow(
            index, each.label, _detail(moment, step, each), _progress(index, cursor.operation)
        )
        if each.layer is None:
            rows.append(row)
            continue
        inside.append(row)
        following = operations[index + 1] if index + 1 < len(operations) else None
        if following is None or following.layer != each.layer:
            rows.append(_block(each.layer, inside))
            inside = []
    return ForwardPassView(
        title="Forward pass",
        hint=describe_step(step),
        rows=tuple(rows),
        current=cursor.operation,
        open_layer=_open_layer(operations, cursor.operation),
        source=source_of(operation),
        formula=operation.formula,
        sentence=describe(operation, step, moment.model.shape),
    )


def describe_step(step: Step) -> str:
    """The step in words: ``decode, token 12`` or ``prefill, tokens 0–7``."""
    noun = "token" if step.last - step.first == 1 else "tokens"
    phase = "prefill" if step.phase is Phase.PREFILL else "decode"
    return f"{phase}, {noun} {format_positions(step.first, step.last)}"


def describe(operation: Operation, step: Step, shape: ModelShape) -> str:
    """The operation's sentence with the numbers of a step."""
    return operation.describe(
        queries=len(step.token_ids),
        keys=step.last,
        heads=shape.num_heads,
        layer=0 if operation.layer is None else operation.layer,
        width=shape.model_dim,
    )


def source_of(operation: Operation) -> SourceLines | None:
    """The operation's source lines, or None where the program has no text of them."""
    try:
        return operation.source()
    except (LookupError, OSError, TypeError):
        return None


def _progress(index: int, current: int) -> Progress:
    if index == current:
        return Progress.NOW
    return Progress.DONE if index < current else Progress.TO_COME


def _block(layer: int, inside: list[OperationRow]) -> BlockRow:
    first, last = inside[0].progress, inside[-1].progress
    progress = last if first is last else Progress.NOW
    return BlockRow(layer, f"Block {layer}", progress, tuple(inside))


def _open_layer(operations: tuple[Operation, ...], current: int) -> int | None:
    """The layer in hand; before the first block that one, after the last block that one."""
    layer = operations[current].layer
    if layer is not None:
        return layer
    before = [o.layer for o in operations[:current] if o.layer is not None]
    after = [o.layer for o in operations[current:] if o.layer is not None]
    return before[-1] if before else after[0] if after else None


def _detail(moment: Moment, step: Step, operation: Operation) -> str:
    """Shape without the batch axis: that of the arrays recorded, or what is to come."""
    if operation.kind is Kind.CACHE:
        return f"pos {format_positions(step.first, step.last)}"
    if operation.kind is Kind.SAMPLE:
        return "token"
    if operation.kind in (Kind.EMBED, Kind.RESIDUAL) or len(operation.outputs) == 1:
        return format_shape(_shape(moment, step, operation, operation.outputs[0]))
    shapes = [format_shape(_shape(moment, step, operation, name)) for name in operation.outputs]
    if len(set(shapes)) == 1:
        return f"{len(shapes)} × {shapes[0]}"
    return " ".join(shapes)


def _shape(moment: Moment, step: Step, operation: Operation, name: str) -> tuple[int, ...]:
    held = moment.trace.array(step.index, name)
    if held is not None:
        return held.shape[1:]
    shape = moment.model.shape
    narrow = name.endswith((".attn.k", ".attn.v", ".attn.k_norm", ".attn.rot_k"))
    sizes = {
        "pos": len(step.token_ids),
        "key": step.last,
        "head": shape.kv_heads if narrow else shape.num_heads,
        "d_head": shape.head_dim,
        "d_model": shape.model_dim,
        "d_mlp": shape.mlp_dim,
        "vocab": shape.vocabulary,
    }
    return tuple(sizes[axis] for axis in operation.axes if axis != "batch")
