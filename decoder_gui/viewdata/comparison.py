"""A comparison as panels show it: a sentence, a table of layers, and one array cell by cell."""

from __future__ import annotations

import math
from dataclasses import dataclass

from decoder_gui.debugger.comparing.comparison_words import (
    headline,
    operation_words,
    result_words,
    scientific,
    where_is,
)
from decoder_gui.debugger.comparing.findings import Comparison, OperationResult
from decoder_gui.debugger.comparing.pairs import Differences
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import plural
from decoder_gui.viewdata.operands import short_name
from decoder_gui.viewdata.values import (
    Statistics,
    ValuesView,
    axis_of,
    labels_for,
    limit_of,
)
from model.errors import sentence

DECADES = 8.0  # of differences that the colours tell apart, the tolerance in the middle


@dataclass(frozen=True)
class LayerCell:
    """One operation of one layer.

    Attributes:
        text: the largest difference, ``≠`` before it where it is past the tolerance.
        spoken: the same in words, with the place.
        past: whether it is past the tolerance.
        origin: whether the first difference comes from here.
        heat: of 0 to 1, half where the difference is the tolerance; logarithmic.
    """

    text: str
    spoken: str
    past: bool = False
    origin: bool = False
    heat: float = 0.0
    result: OperationResult | None = None


@dataclass(frozen=True)
class LayerRow:
    """One operation over all layers, or one outside the blocks, which has one cell."""

    label: str
    name: str
    cells: tuple[LayerCell, ...]


@dataclass(frozen=True)
class LayerTable:
    """Operations as rows in the order of a pass, layers as columns."""

    layers: int = 0
    rows: tuple[LayerRow, ...] = ()

    def place_of_origin(self) -> tuple[int, int] | None:
        """Row and column of the operation that the first difference comes from."""
        for at, row in enumerate(self.rows):
            for column, cell in enumerate(row.cells):
                if cell.origin:
                    return at, column
        return None


@dataclass(frozen=True)
class ComparisonView:
    """What the Comparison panel shows.

    Attributes:
        sentence: the result.
        remarks: sentences on what was not compared.
        hint: for the title bar.
        agrees: whether nothing differs.
        parted: whether there are positions after the tokens part.
        first, origin: whether there is such a place to travel to, apart from one another.
    """

    sentence: str
    remarks: tuple[str, ...]
    hint: str
    agrees: bool
    parted: bool
    first: bool
    origin: bool
    table: LayerTable


def build_comparison(found: Comparison, *, beyond: bool = False) -> ComparisonView:
    """The view of a result; ``beyond``: of the positions after the tokens part."""
    origin, first = found.origin, found.first
    apart = origin is not None and first is not None and origin.operation != first.operation
    return ComparisonView(
        sentence=headline(found),
        remarks=tuple(sentence(remark) for remark in found.remarks),
        hint=f"{plural(found.positions, 'position')} · tolerance {scientific(found.tolerance)}",
        agrees=found.agrees,
        parted=any(result.beyond is not None for result in found.results),
        first=first is not None,
        origin=apart,
        table=layer_table(found, beyond=beyond),
    )


def layer_table(found: Comparison, *, beyond: bool = False) -> LayerTable:
    """The largest difference of every operation, over the same tokens or over different ones."""
    depth = found.left.recording.shape.depth
    rows: dict[str, dict[int, LayerCell]] = {}
    labels: dict[str, str] = {}
    for result in found.results:
        operation = result.operation
        key = operation.short_name if operation.layer is not None else f"/{operation.name}"
        labels.setdefault(key, operation.label)
        cell = _cell_beyond(found, result) if beyond else _cell(found, result)
        rows.setdefault(key, {})[operation.layer or 0] = cell
    nothing = LayerCell("", "this layer has no such operation")
    return LayerTable(
        depth,
        tuple(
            LayerRow(labels[key], key.removeprefix("/"), (cells[0],))
            if key.startswith("/")
            else LayerRow(
                labels[key], key, tuple(cells.get(layer, nothing) for layer in range(depth))
            )
            for key, cells in rows.items()
        ),
    )


def _cell(found: Comparison, result: OperationResult) -> LayerCell:
    origin = found.origin is not None and found.results[found.origin.operation] is result
    where = operation_words(result.operation)
    worst = result.worst
    if worst is None:
        if origin and found.origin is not None:
            return LayerCell("≠", f"{where}: {found.origin.reason}", True, True, 1.0, result)
        return LayerCell("—", f"{where}: nothing of it is recorded in both", result=result)
    spoken = f"largest difference {scientific(worst.difference)} at {where_is(found, worst)}"
    if result.past:
        spoken += ", past the tolerance"
    if origin:
        spoken += "; the first difference comes from here"
    if result.both_nan:
        spoken += f"; {plural(result.both_nan, 'number is', 'numbers are')} NaN in both"
    heat = heat_of(worst.difference, found.tolerance)
    return LayerCell(result_words(result), spoken, result.past, origin, heat, result)


def _cell_beyond(found: Comparison, result: OperationResult) -> LayerCell:
    """Over different tokens a difference is no fault: it has no colour but a mark."""
    if result.beyond is None:
        where = operation_words(result.operation)
        return LayerCell("—", f"{where}: nothing of it is recorded in both", result=result)
    number = scientific(result.beyond.difference)
    where = where_is(found, result.beyond)
    return LayerCell(f"{number} *", f"different tokens: {number} at {where}", result=result)


def heat_of(difference: float, tolerance: float) -> float:
    """How strongly a difference is coloured, 0 to 1: by its decades above or below the tolerance.

    Half at the tolerance; NaN and infinity are all the way up.
    """
    if not math.isfinite(difference):
        return 1.0
    if difference == 0:
        return 0.0
    if tolerance == 0:
        return 1.0
    return min(1.0, max(0.0, 0.5 + math.log10(difference / tolerance) / DECADES))


def shown_array(found: Comparison, moment: Moment) -> str:
    """The array whose difference is shown: the one in hand, if both runs may have it; or empty."""
    operation = moment.operation
    if operation is None:
        return ""
    outputs = operation.outputs
    if moment.selection.array in outputs:
        return moment.selection.array
    first = found.first
    return first.name if first is not None and first.name in outputs else next(iter(outputs), "")


def build_differences(
    found: Comparison, moment: Moment, cells: Differences, statistics: Statistics | None = None
) -> ValuesView:
    """One array's difference as the grid of values draws it.

    ``statistics`` are those of all of it, where they have been worked out before.
    """
    array, unseen = cells.array, cells.unseen
    heads = array.shape[0] if array.ndim == 3 else 0
    positions, columns = array.shape[-2:]
    step = found.left.recording.steps[cells.step]
    query = moment.selection.query
    position = step.last - 1 if query is None else query
    position = min(max(position, cells.first), cells.first + positions - 1)
    head = min(moment.selection.head, heads - 1) if heads else 0
    short = short_name(cells.name)
    chosen = moment.selection.cell
    column = chosen[1] if chosen is not None and chosen[1] < columns else 0
    label = f"{found.left.name} − {found.right.name} · {cells.name}"
    bare = ValuesView(label, "", array=array, heads=heads, scores=unseen)
    statistics = bare.whole_statistics() if statistics is None else statistics
    return ValuesView(
        title=f"Difference · {cells.name}",
        hint=_hint(statistics),
        label=label,
        output=cells.name,
        array=array,
        scores=unseen,
        heads=heads,
        first=cells.first,
        row=head * positions + position - cells.first,
        column=column,
        pieces=moment.pieces,
        labels=labels_for(moment, short),
        axis=axis_of(short),
        row_limit=limit_of(statistics),
        statistics=statistics,
    )


def _hint(statistics: Statistics) -> str:
    """``221 cells · 4 differ · from -14.489 to 1.239``, as far as they are numbers."""
    parts = [plural(statistics.count, "cell")]
    if not math.isnan(statistics.low):
        parts.append(f"from {scientific(statistics.low)} to {scientific(statistics.high)}")
    wrong = statistics.nan + statistics.infinite
    if wrong:
        parts.append(f"{wrong:,} NaN or infinite")
    return " · ".join(parts)
