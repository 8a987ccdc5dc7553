"""What the KV cache panel shows: which rows exist at the cursor, what they cost, what they save."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from decoder_gui.viewdata.moment import ModelInfo, Moment
from decoder_gui.viewdata.numbers import (
    format_bytes,
    format_count,
    format_percent,
    format_positions,
    format_value,
    plural,
)
from model.costs import DecodeStats, Work, work_so_far
from model.operations import Kind
from model.trace import Phase, Step, Trace


@dataclass(frozen=True)
class Figure:
    """One row of the table: a label, a number with its unit, and where the number comes from.

    ``below`` gives the note a line of its own; other notes are shown where there is room for them.
    """

    label: str
    value: str
    note: str = ""
    below: bool = False


@dataclass(frozen=True)
class Slab:
    """Which rows of the cache hold something at the cursor.

    The rows of one layer are filled from position 0 on: ``written[layer]`` of them exist. Those
    from ``first_now`` on belong to the step in hand, where their layer has come so far.
    """

    capacity: int
    prefill: int  # positions that belong to the prefill
    written: tuple[int, ...]  # per layer
    first_now: int

    @property
    def layers(self) -> int:
        return len(self.written)


@dataclass(frozen=True)
class KvCacheView:
    """The panel's contents.

    Attributes:
        positions: positions of which at least one layer holds its row at the cursor.
        prefill: those of them that the prefill wrote; ``decode`` the others.
        bytes_in_use: of the rows that exist at the cursor, exactly.
        progress: what the step in hand has written so far, in words.
        full: in words that the cache is full, "" while there is room.
        larger: a context that could be chosen instead, 0 if there is none.
    """

    slab: Slab
    positions: int = 0
    prefill: int = 0
    decode: int = 0
    capacity: int = 0
    bytes_in_use: int = 0
    bytes_reserved: int = 0
    bytes_per_token: int = 0
    bytes_per_row: int = 0
    work: Work | None = None
    stats: DecodeStats | None = None
    hint: str = ""
    legend: tuple[str, str, str] = ("", "", "")  # prefill, decode, empty
    progress: str = ""
    figures: tuple[Figure, ...] = ()
    full: str = ""
    larger: int = 0


def build_kv_cache(moment: Moment | None) -> KvCacheView:
    """The cache at the cursor: rows that later operations write do not exist yet."""
    if moment is None:
        return KvCacheView(Slab(0, 0, (), 0), hint="no model")
    shape, size = moment.model.shape, moment.model.bytes_per_value
    slab = _slab(moment)
    positions = max(slab.written, default=0)
    prefill = min(positions, slab.prefill)
    row = shape.cache_bytes(1, size, 1) // shape.depth
    per_token = shape.cache_bytes(1, size, 1)
    in_use = sum(slab.written) * row
    reserved = shape.cache_bytes(1, size, moment.capacity)
    steps = () if moment.cursor is None else moment.trace.steps[: moment.cursor.step + 1]
    work = work_so_far(shape, [(step.first, len(step.token_ids)) for step in steps])
    stats = _stats(steps)
    free = moment.capacity - positions
    return KvCacheView(
        slab=slab,
        positions=positions,
        prefill=prefill,
        decode=positions - prefill,
        capacity=moment.capacity,
        bytes_in_use=in_use,
        bytes_reserved=reserved,
        bytes_per_token=per_token,
        bytes_per_row=row,
        work=work,
        stats=stats,
        hint=f"{format_count(positions)} of {plural(moment.capacity, 'position')}",
        legend=(
            f"prefill {format_count(prefill)}",
            f"decode {format_count(positions - prefill)}",
            f"empty {format_count(free)}",
        ),
        progress=_progress(moment, slab),
        figures=_figures(moment.model, moment.capacity, in_use, reserved, per_token, work, stats),
        full=_full_words(moment, positions),
        larger=_larger(moment.model, moment.capacity),
    )


def describe_row(moment: Moment, view: KvCacheView, layer: int, position: int) -> str:
    """One row of the cache in words: where it is, whose it is, which step wrote it."""
    where = f"layer {layer}, position {position}"
    if position >= view.slab.written[layer]:
        step = _step_of(moment.trace, position)
        coming = step is not None and moment.cursor is not None and step.index == moment.cursor.step
        return f"{where}: " + ("written later in this step" if coming else "empty")
    step = _step_of(moment.trace, position)
    token = moment.pieces[position].text if position < len(moment.pieces) else "?"
    wrote = "" if step is None else f", written in step {step.index} ({step.phase.value})"
    return f"{where} “{token}”{wrote}, {plural(view.bytes_per_row, 'byte')}"


def row_written_at(moment: Moment, layer: int, position: int) -> tuple[int, int] | None:
    """(step, operation) that appends a row of the cache, or None if no step did yet."""
    step = _step_of(moment.trace, position)
    operation = _cache_operations(moment.trace).get(layer)
    return None if step is None or operation is None else (step.index, operation)


def _slab(moment: Moment) -> Slab:
    depth = moment.model.shape.depth
    step = moment.step
    if step is None or moment.cursor is None:
        return Slab(moment.capacity, 0, (0,) * depth, 0)
    appends = _cache_operations(moment.trace)
    written = tuple(
        step.last if appends.get(layer, 0) <= moment.cursor.operation else step.first
        for layer in range(depth)
    )
    return Slab(moment.capacity, moment.trace.prompt, written, step.first)


def _cache_operations(trace: Trace) -> dict[int, int]:
    """Layer -> index of the operation that appends its keys and values."""
    return {
        operation.layer: index
        for index, operation in enumerate(trace.operations)
        if operation.kind is Kind.CACHE and operation.layer is not None
    }


def _step_of(trace: Trace, position: int) -> Step | None:
    """The step that processed a position, by bisection: there may be thousands."""
    steps = trace.steps
    at = bisect_right(steps, position, key=lambda step: step.first) - 1
    return steps[at] if at >= 0 and position < steps[at].last else None


def _stats(steps: tuple[Step, ...]) -> DecodeStats:
    stats = DecodeStats()
    for step in steps:
        if step.phase is Phase.PREFILL:
            stats.record_prefill(len(step.token_ids))
        else:
            stats.record_decode()
    return stats


def _progress(moment: Moment, slab: Slab) -> str:
    step = moment.step
    if step is None:
        return "Nothing is cached yet."
    done = sum(written == step.last for written in slab.written)
    span = format_positions(step.first, step.last)
    noun = "position" if len(step.token_ids) == 1 else "positions"
    return f"This step writes {noun} {span}: {done} of {plural(slab.layers, 'layer')} done."


def _figures(
    model: ModelInfo,
    capacity: int,
    in_use: int,
    reserved: int,
    per_token: int,
    work: Work,
    stats: DecodeStats,
) -> tuple[Figure, ...]:
    shape = model.shape
    formula = (
        f"{plural(shape.depth, 'layer')} × K and V × {plural(shape.kv_heads, 'head')} × "
        f"{shape.head_dim} × {plural(model.bytes_per_value, 'byte')}"
    )
    saved_note = (
        f"{format_flops(work.cached)} with the cache, {format_flops(work.recomputed)} if every "
        f"step recomputed all positions: {format_value(work.ratio, 2)} times as much"
    )
    return (
        Figure("In use", format_bytes(in_use), f"{format_count(in_use)} bytes of keys and values"),
        Figure(
            "Reserved", format_bytes(reserved), f"{format_bytes(per_token)} × {capacity} positions"
        ),
        Figure(
            "Per token",
            format_bytes(per_token),
            formula,
            below=True,
        ),
        Figure("Work saved against no cache", format_percent(work.saved), saved_note),
        Figure(
            "Tokens per weight read",
            f"{stats.tokens_per_weight_read:.2f}",
            f"{plural(stats.prefill_tokens + stats.decode_tokens, 'token')} in "
            f"{plural(stats.weight_reads, 'read')} of all weights",
        ),
        Figure(
            "Prefill",
            plural(stats.prefill_tokens, "token"),
            f"{plural(_prefill_passes(stats), 'pass', 'passes')}, bound by arithmetic",
        ),
        Figure(
            "Decode",
            plural(stats.decode_tokens, "token"),
            f"{plural(stats.decode_tokens, 'pass', 'passes')} of one token, bound by reading the "
            "weights"
            if stats.decode_tokens
            else "no pass yet",
        ),
    )


def _prefill_passes(stats: DecodeStats) -> int:
    return stats.weight_reads - stats.decode_tokens


def format_flops(count: int) -> str:
    """Floating-point operations in decimal units: ``4.21 MFLOP``."""
    size, unit = float(count), "FLOP"
    for larger in ("kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{int(size)} {unit}" if unit == "FLOP" else f"{size:.2f} {unit}"


def _full_words(moment: Moment, positions: int) -> str:
    if positions < moment.capacity or not positions or moment.model.recorded is not None:
        return ""  # a recording ends where it ends
    words = (
        f"The cache is full: {format_count(positions)} of {plural(moment.capacity, 'position')}. "
        "Generation stops here."
    )
    limit = moment.model.shape.context_length
    if _larger(moment.model, moment.capacity):
        return words
    return f"{words} {format_count(limit)} is the longest context that {moment.model.name} has."


def _larger(model: ModelInfo, capacity: int) -> int:
    limit = model.shape.context_length
    return min(2 * capacity, limit) if model.grows and capacity < limit else 0
