"""One reader per panel: it builds what the panel shows and compares each number with the trace."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from decoder_gui.viewdata.display_reading import Held, spread
from decoder_gui.viewdata.display_scene import Scene
from decoder_gui.viewdata.forward_pass import (
    BlockRow,
    OperationRow,
    Progress,
    build_forward_pass,
)
from decoder_gui.viewdata.kv_cache import build_kv_cache, describe_row
from decoder_gui.viewdata.next_token import build_next_token
from decoder_gui.viewdata.timeline import build_timeline
from decoder_gui.viewdata.token_strip import build_token_strip
from model.operations import Kind
from model.trace import Phase

Read = Callable[[Scene], None]


@dataclass(frozen=True)
class Reader:
    """The reader of a panel.

    ``changes_at`` is the kind of operation at which the panel changes within a step; None is every
    one of them.
    """

    panel: str
    read: Read
    changes_at: Kind | None

    def wanted(self, scene: Scene) -> bool:
        """Whether there may be something new at an event: at such an operation or just before."""
        if self.changes_at is None or scene.ends_step:
            return True
        operations, here = scene.record.operations, scene.cursor.operation
        return self.changes_at in (operations[here].kind, operations[here + 1].kind)


READERS: list[Reader] = []

ROWS_READ = 2  # rows of a matrix, layers of a cache, and so on, of those that there are
TOKENS_READ = 16  # tokens of the strip


def reads(panel: str, changes_at: Kind | None = None) -> Callable[[Read], Read]:
    """Register the function that reads a panel."""

    def register(read: Read) -> Read:
        READERS.append(Reader(panel, read, changes_at))
        return read

    return register


def bare(text: str) -> str:
    """A token beside its position: without the space in front."""
    return text.removeprefix("␣") or text


@reads("forward pass")
def read_forward_pass(scene: Scene) -> None:
    """Positions, shapes, which operation is in hand, and the numbers of its sentence."""
    ledger, step = scene.ledger, scene.step
    view = build_forward_pass(scene.moment)
    assert view is not None
    ledger.line("the step", view.hint, *_span(step.first, step.last))
    ledger.same("the operation in hand", view.current, scene.cursor.operation)
    rows: list[OperationRow] = []
    for row in view.rows:
        if isinstance(row, BlockRow):
            ledger.line("a block", row.label, row.layer)
            rows += row.operations
        else:
            rows.append(row)
    ledger.same("the number of operations", len(rows), len(scene.record.operations))
    here = scene.cursor.operation
    coming = len(rows) - here - 1
    progress = [Progress.DONE] * here + [Progress.NOW] + [Progress.TO_COME] * coming
    ledger.same("what is done", [row.progress for row in rows], progress)
    # Shapes are those of the step: all of them where it ends, elsewhere those about the cursor.
    near = (
        range(len(rows)) if scene.ends_step else range(max(0, here - 1), min(here + 2, len(rows)))
    )
    for index in near:
        ledger.line(f"the shape of {rows[index].label}", rows[index].detail, *_shape(scene, index))
    shape = scene.record.trace.shape
    sentence = scene.operation.sentence.format(
        queries=step.last - step.first,
        keys=step.last,
        heads=shape.num_heads,
        layer=scene.operation.layer,
        width=shape.model_dim,
    )
    ledger.same("the sentence", view.sentence, sentence)


def _span(first: int, last: int) -> tuple[int, ...]:
    return (first,) if last - first == 1 else (first, last - 1)


def _shape(scene: Scene, index: int) -> tuple[int, ...]:
    """The numbers of an operation's shape, from what it recorded."""
    operation, step = scene.record.operations[index], scene.step
    if operation.kind is Kind.SAMPLE:
        return ()
    if operation.kind is Kind.CACHE:
        return _span(step.first, step.last)
    several = operation.kind in (Kind.QKV, Kind.ROTARY, Kind.NORM) and len(operation.outputs) > 1
    names = operation.outputs if several else operation.outputs[:1]
    arrays = [(name, scene.record.trace.array(step.index, name)) for name in names]
    shapes = [
        _expected(scene, index, name) if array is None else array.shape[1:]
        for name, array in arrays
    ]
    if several and len(set(shapes)) == 1:
        return (len(shapes), *shapes[0])
    return tuple(size for each in shapes for size in each)


KV_ARRAYS = ("attn.k", "attn.v", "attn.k_norm", "attn.rot_k")
"""Endings of the arrays that have a row for each key/value head."""


def _expected(scene: Scene, index: int, name: str) -> tuple[int, ...]:
    """The shape of an array that was not kept: that of the same operation in another block."""
    like = scene.record.operations[index]
    step, shape = scene.step, scene.record.trace.shape
    sizes = {"pos": len(step.token_ids), "key": step.last}
    sizes["head"] = shape.kv_heads if name.endswith(KV_ARRAYS) else shape.num_heads
    sizes |= {"d_head": shape.head_dim, "d_model": shape.model_dim, "d_mlp": shape.mlp_dim}
    return tuple(sizes[axis] for axis in like.axes[1:])


@reads("next token", Kind.LOGITS)
def read_next_token(scene: Scene) -> None:
    """Every candidate at every stage, and the totals."""
    ledger, moment, index = scene.ledger, scene.moment, scene.cursor.step
    view = build_next_token(moment)
    shares = scene.record.shares(index)
    greedy = scene.record.sampling.temperature == 0.0
    ledger.line("the held draw", view.draw, *(() if greedy else (scene.step.uniform,)))
    if shares is None:
        ledger.same("the rows of a step without a distribution", len(view.rows), 0)
        return
    steps = scene.record.trace.steps
    taken = steps[index + 1].token_ids[0] if index + 1 < len(steps) else None
    listed = [row.token_id for row in view.rows]
    best = np.lexsort((np.arange(shares.raw.size), -shares.raw))[: len(moment.candidates)]
    ledger.same("the most likely tokens", listed[: best.size], best.tolist())
    for row in view.rows:
        name, token = f"token {row.token_id}", row.token_id
        raw, tempered, final = (
            float(stage[token]) for stage in (shares.raw, shares.tempered, shares.final)
        )
        ledger.near(f"raw of {name}", row.raw, raw)
        ledger.near(f"tempered of {name}", row.tempered, tempered)
        ledger.near(f"final of {name}", row.final, final)
        ledger.line(f"raw of {name}", row.raw_text, raw)
        ledger.line(f"tempered of {name}", row.tempered_text, tempered)
        kept = token in shares.kept
        ledger.same(f"whether {name} can be drawn", not row.cut, kept)
        if kept:
            ledger.line(f"final of {name}", row.final_text, final)
        ledger.same(f"whether the held draw lands on {name}", row.landing, token == shares.landing)
        ledger.same(f"whether {name} was taken", row.taken, token == taken)
    effective = math.exp(shares.entropy.value)
    totals = (len(shares.kept), shares.raw.size, shares.entropy, Held(effective, effective))
    ledger.line("the totals", view.summary, *totals)
    rest = shares.raw.size - len(listed)
    unlisted = np.ones(shares.raw.size, np.bool_)
    unlisted[listed] = False
    stages = (shares.raw, shares.final)
    masses = [Held(math.fsum(stage[unlisted].tolist()), 1.0) for stage in stages]
    outside: list[float | Held] = [rest, *masses]
    ledger.line("what is not listed", view.outside, *(outside if rest else ()))


@reads("KV cache", Kind.CACHE)
def read_kv_cache(scene: Scene) -> None:
    """Rows that exist, their bytes, and the work that they save."""
    ledger, record, cursor = scene.ledger, scene.record, scene.cursor
    view = build_kv_cache(scene.moment)
    step, shape = scene.step, record.trace.shape
    appends = [
        (index, operation)
        for index, operation in enumerate(record.operations)
        if operation.kind is Kind.CACHE
    ]
    written = [step.last if index <= cursor.operation else step.first for index, _ in appends]
    ledger.same("rows written per layer", view.slab.written, tuple(written))
    value_bytes = record.model.bytes_per_value
    for at, (_, operation) in enumerate(appends):
        # The rows' own arrays say how many numbers a position has in a layer.
        held = [record.trace.array(step.index, name) for name in operation.inputs]
        arrays = [array for array in held if array is not None]
        if at == 0 and len(arrays) == len(held):
            size = sum(a.nbytes for a in arrays) // len(step.token_ids)
            ledger.same("bytes per row", view.bytes_per_row, size)
            ledger.same("bytes per value", value_bytes, arrays[0].itemsize)
    row = 2 * shape.kv_heads * shape.head_dim * value_bytes
    positions = max(written)
    prompt = record.trace.prompt
    prefill, in_use = min(positions, prompt), sum(written) * row
    per_token, reserved = row * shape.depth, row * shape.depth * record.capacity
    ledger.same("bytes in use", view.bytes_in_use, in_use)
    ledger.same("bytes reserved", view.bytes_reserved, reserved)
    ledger.line("positions in use", view.hint, positions, record.capacity)
    counts = (prefill, positions - prefill, record.capacity - positions)
    for text, count in zip(view.legend, counts, strict=True):
        ledger.line("positions", text, count)
    done = sum(each == step.last for each in written)
    span = _span(step.first, step.last)
    ledger.line("rows of this step", view.progress, *span, done, shape.depth)
    if view.full:
        limit = (shape.context_length,) if "longest" in view.full else ()
        ledger.line("the full cache", view.full, positions, record.capacity, *limit)
    passes = record.trace.steps[: cursor.step + 1]
    cached = sum(_flop(scene, each.first, each.last) for each in passes)
    anew = sum(_flop(scene, 0, each.last) for each in passes)
    decoded = sum(each.phase is Phase.DECODE for each in passes)
    tokens, reads_made = passes[-1].last, len(passes)
    ours: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
        "In use": ((in_use,), (in_use,)),
        "Reserved": ((reserved,), (per_token, record.capacity)),
        "Per token": (
            (per_token,),
            (shape.depth, shape.kv_heads, shape.head_dim, value_bytes),
        ),
        "Work saved against no cache": ((1.0 - cached / anew,), (cached, anew, anew / cached)),
        "Tokens per weight read": ((tokens / reads_made,), (tokens, reads_made)),
        "Prefill": ((tokens - decoded,), (reads_made - decoded,)),
        "Decode": ((decoded,), (decoded,) if decoded else ()),
    }
    ledger.same("the figures", [figure.label for figure in view.figures], list(ours))
    for figure in view.figures:
        value, note = ours.get(figure.label, ((), ()))
        ledger.line(figure.label, figure.value, *(Held(each, 1.0) for each in value))
        ledger.line(f"the note of {figure.label}", figure.note, *note)
    _read_cache_rows(scene, written, row)


def _read_cache_rows(scene: Scene, written: list[int], row_bytes: int) -> None:
    ledger, record = scene.ledger, scene.record
    view = build_kv_cache(scene.moment)
    for layer in spread(len(written), ROWS_READ):
        for position in {0, scene.step.first, scene.step.last - 1, record.capacity - 1}:
            text = describe_row(scene.moment, view, layer, position)
            numbers: tuple[int, ...] = ()
            quoted: tuple[str, ...] = ()
            if position < written[layer]:
                step = next(s for s in record.trace.steps if s.last > position)
                numbers = (step.index, row_bytes)
                quoted = (_token(scene, position),)
            what = f"row {position} of layer {layer}"
            ledger.line(what, text, layer, position, *numbers, without=quoted)


def _flop(scene: Scene, first: int, last: int) -> int:
    """Multiplications and additions of one pass, summed over its positions one by one."""
    shape = scene.record.trace.shape
    wide, narrow = shape.num_heads * shape.head_dim, shape.kv_heads * shape.head_dim
    mlp = (shape.mlp_dim,) * (3 if shape.gated else 2)
    matrices = 2 * shape.model_dim * sum((wide, narrow, narrow, wide, *mlp))
    total = 2 * shape.model_dim * shape.vocabulary
    for layer in range(shape.depth):
        window = shape.window(layer) or last
        seen = sum(min(position + 1, window) for position in range(first, last))
        total += matrices * (last - first) + 2 * 2 * wide * seen
    return total


@reads("token strip", Kind.LOGITS)
def read_token_strip(scene: Scene) -> None:
    """Positions, ids and log-probabilities of the tokens, those that exist."""
    ledger, trace, here = scene.ledger, scene.record.trace, scene.step
    view = build_token_strip(scene.moment)
    scores = scene.record.log_probabilities()
    after_logits = scene.computed(scene.cursor.step, "logits")
    ledger.same("the number of tokens", len(view.cells), trace.positions)
    ledger.same("positions that exist", view.existing, here.last)
    ledger.same("the step in hand", view.step_positions, (here.first, here.last))
    known = here.last if here.phase is Phase.DECODE or after_logits else here.first
    ids = trace.token_ids
    fixed = {here.first, here.last - 1, min(here.last, len(ids) - 1)}
    for step in trace.steps:
        for position in sorted(fixed | {*spread(len(ids), TOKENS_READ)}):
            if not step.first <= position < step.last:
                continue
            token, cell, what = ids[position], view.cells[position], f"token {position}"
            score = scores[position]
            ledger.same(f"the place of {what}", (cell.position, cell.step), (position, step.index))
            ledger.same(f"the id of {what}", cell.token_id, token)
            shown = view.shown_log_probability(position)
            numbers: tuple[float, ...] = ()
            if score is not None:
                held = math.nan if cell.log_probability is None else cell.log_probability
                ledger.near(f"the log-probability of {what}", held, score)
                numbers = (score,)
            exists = score is not None and position < known
            numbers_shown = (Held(score, 64.0),) if exists and score is not None else ()
            ledger.line(f"the log-probability under {what}", shown, *numbers_shown)
            if position < here.last:
                exact = tuple(Held(each, 64.0) for each in numbers)
                place = (position, step.index, token)
                ledger.line(
                    f"what is said of {what}", cell.whole(), *place, *exact, without=(cell.text,)
                )


@reads("timeline")
def read_timeline(scene: Scene) -> None:
    """Blocks, their positions and events, and where the cursor stands."""
    ledger, trace, cursor = scene.ledger, scene.record.trace, scene.cursor
    view = build_timeline(scene.moment)
    count = len(scene.record.operations)
    ledger.same("the cursor", view.cursor, cursor)
    ledger.same("the operations of a step", view.operations, count)
    ledger.near("the part that is done", view.fraction(cursor), (cursor.operation + 1) / count)
    ledger.same("the number of steps", len(view.blocks), len(trace.steps))
    for block, step in zip(view.blocks, trace.steps, strict=False):
        if not scene.ends_step and step is not scene.step:
            continue
        what = f"step {step.index}"
        ledger.same(f"the positions of {what}", (block.first, block.last), (step.first, step.last))
        ledger.same(f"the events of {what}", block.events, count)
        token = _token(scene, step.first)
        numbers = (step.index, *_span(step.first, step.last))
        if step.phase is Phase.PREFILL:
            ledger.line(f"the label of {what}", block.label, len(step.token_ids))
        else:
            ledger.same(f"the label of {what}", block.label, token)
        ledger.line(f"what is said of {what}", block.summary, *numbers, without=(token,))
    operation = scene.operation
    label = "prefill" if scene.step.phase is Phase.PREFILL else _token(scene, scene.step.first)
    layer = "" if operation.layer is None else f", block {operation.layer}"
    ledger.same(
        "the event in hand",
        view.describe(cursor),
        f"{label} · {operation.label}{layer} · operation {cursor.operation + 1} of {count}",
    )


def _token(scene: Scene, position: int) -> str:
    """A token as its tokenizer shows it, by the id that the step processed."""
    return scene.record.model.tokenizer.piece(scene.record.trace.token_ids[position]).text
