"""What the cached row panel shows: the numbers, the owner, and that nothing has changed them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decoder_gui.debugger.laboratory.cache_rows import CachedRow, Shortened
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_count, format_exact, format_value, plural
from decoder_gui.viewdata.tables import Cell, Column, Table, Tone
from model.trace import Phase


@dataclass(frozen=True)
class CachedRowView:
    """One position's keys and values in one layer.

    ``tone`` says whether the verdict is good, bad or open.
    """

    title: str
    owner: str
    verdict: str
    tone: Tone
    table: Table


def build_cached_row(moment: Moment, row: CachedRow) -> CachedRowView:
    """The view of a row that was read from the cache."""
    piece = moment.pieces[row.position]
    phase = moment.trace.steps[row.step].phase
    later = len(moment.trace.steps) - 1 - row.step
    how = "the prefill" if phase is Phase.PREFILL else f"decode step {row.step}"
    verdict, tone = _verdict(row, later)
    return CachedRowView(
        title=f"block {row.layer} · position {row.position}",
        owner=f"“{piece.text}” owns it: written by {how}, and read by "
        f"{plural(later, 'step')} since.",
        verdict=verdict,
        tone=tone,
        table=_table(row),
    )


def shortened_words(found: Shortened | None) -> str:
    """What setting the length back did, in a sentence or two; empty before that was tried."""
    if found is None:
        return ""
    name = "Reset" if found.after == 0 else "Rewind"
    words = f"{name}: length {found.before} → {found.after}"
    if found.changed is None:
        return f"{words}. This cache is a list, and drops what lies beyond its length."
    numbers = format_count(found.numbers)
    if found.changed:
        return f"{words}. {format_count(found.changed)} of {numbers} numbers behind it changed."
    return (
        f"{words}, 0 bytes cleared. Set to {found.before} again, all {numbers} numbers of the "
        f"{plural(found.before - found.after, 'position')} are there, bit-identical."
    )


def _verdict(row: CachedRow, later: int) -> tuple[str, Tone]:
    if row.changed is None:
        return "What was written there was not kept, so there is nothing to compare.", Tone.MUTED
    numbers = format_count(row.numbers)
    if row.changed:
        return (
            f"✗ {format_count(row.changed)} of {numbers} numbers differ from what was written.",
            Tone.BAD,
        )
    steps = f"after {plural(later, 'later step')}" if later else "so far"
    return f"✓ All {numbers} numbers are bit-identical to what was written, {steps}.", Tone.GOOD


def _table(row: CachedRow) -> Table:
    heads, width = row.keys.shape
    columns = (
        Column("head"),
        Column("", code=True),
        *(Column(str(at), number=True) for at in range(width)),
    )
    limits = [_limit(row.keys), _limit(row.values)]
    return Table(
        columns,
        tuple(
            (
                Cell(str(head) if which == 0 else ""),
                Cell("KV"[which], tone=Tone.MUTED),
                *(_number(float(value), limits[which]) for value in array[head]),
            )
            for head in range(heads)
            for which, array in enumerate((row.keys, row.values))
        ),
    )


def _limit(array: np.ndarray) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def _number(value: float, limit: float) -> Cell:
    if not np.isfinite(value):
        return Cell(format_value(value), tone=Tone.BAD, strong=True)
    return Cell(format_value(value, 2), tip=format_exact(value), shade=value / limit)
