"""What the cost panel shows: time and FLOPs against length, with the powers that they grow with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoder_gui.debugger.laboratory.cost_curve import LONGEST, CostPoint, fitted_exponent, totals
from decoder_gui.viewdata.kv_cache import Figure, format_flops
from decoder_gui.viewdata.numbers import format_count, format_value
from decoder_gui.viewdata.plots import Axis, Mark, Plot, Series
from decoder_gui.viewdata.tables import Cell, Column, Table
from model.shape import ModelShape

COLUMNS = (
    Column("positions before", number=True),
    Column("cached, ms", number=True, tip="the fastest of several passes"),
    Column("anew, ms", number=True, tip="the same token with everything before it recomputed"),
    Column("times", number=True),
    Column("cached FLOPs", number=True),
    Column("anew FLOPs", number=True),
    Column("times", number=True),
)
FROM_LENGTH = 16  # shorter passes cost as much as a call of Python does: no power fits them


@dataclass(frozen=True, eq=False)
class CostCurveView:
    """The curve: two plots of the same lengths, the powers, and the exact counts."""

    times: Plot
    flops: Plot
    figures: tuple[Figure, ...]
    table: Table
    hint: str


def build_cost_curve(
    shape: ModelShape,
    points: Sequence[CostPoint],
    *,
    logarithmic: bool,
    running: bool,
    wanted: int = 0,
) -> CostCurveView:
    """The view of what has been measured so far, of ``wanted`` lengths."""
    x = np.asarray([point.length for point in points], dtype=np.float64)
    cached = np.asarray([1e3 * point.with_cache for point in points])
    anew = np.asarray([1e3 * point.without for point in points])
    with_cache = np.asarray([float(point.flops_with) for point in points])
    without = np.asarray([float(point.flops_without) for point in points])
    return CostCurveView(
        times=_plot("ms per token", x, cached, anew, logarithmic),
        flops=_plot("FLOPs per token", x, with_cache, without, logarithmic),
        figures=_figures(shape, points),
        table=Table(COLUMNS, tuple(_row(point) for point in points)),
        hint=_hint(points, running, wanted),
    )


def _hint(points: Sequence[CostPoint], running: bool, wanted: int) -> str:
    of = f" of {wanted}" if len(points) < wanted else ""
    lengths = f"{len(points)}{of} lengths"
    if running:
        return f"measuring… {lengths}"
    if not points:
        return "not measured yet"
    # Stopped by hand or because the next pass would have been too long.
    return f"{lengths}; a pass may take {LONGEST:g} s" if of else lengths


def _plot(label: str, x: np.ndarray, cached: np.ndarray, anew: np.ndarray, log: bool) -> Plot:
    mark = Mark.LINE_AND_POINTS
    return Plot(
        Axis("positions before the token", log),
        Axis(label, log),
        (
            Series("with the cache", x, cached, "prefill", mark),
            Series("without", x, anew, "decode", mark, "s"),
        )
        if len(x)
        else (),
        description=f"{label} with the cache and without, {len(x)} lengths",
    )


def _figures(shape: ModelShape, points: Sequence[CostPoint]) -> tuple[Figure, ...]:
    lengths = [point.length for point in points if point.length >= FROM_LENGTH]
    if len(lengths) < 2:
        return ()
    sums = totals(shape, lengths)
    timed = [point for point in points if point.length >= FROM_LENGTH]
    longest = points[-1]
    return (
        _powers("Attention in total grows with", lengths, [(s[2], s[3]) for s in sums]),
        _powers("All FLOPs in total grow with", lengths, [(s[0], s[1]) for s in sums]),
        Figure(
            "Time per token grows with",
            f"n^{_power([p.length for p in timed], [p.with_cache for p in timed])} and "
            f"n^{_power([p.length for p in timed], [p.without for p in timed])}",
            f"cached and anew, fitted from {FROM_LENGTH} positions on",
            below=True,
        ),
        Figure(
            f"To generate {format_count(longest.length)} tokens",
            f"{format_value(sums[-1][1] / sums[-1][0], 1)} × the work",
            f"{format_flops(sums[-1][0])} with the cache, {format_flops(sums[-1][1])} without",
            below=True,
        ),
    )


def _powers(label: str, lengths: Sequence[int], sums: Sequence[tuple[int, int]]) -> Figure:
    cached = _power(lengths, [float(a) for a, _ in sums])
    anew = _power(lengths, [float(b) for _, b in sums])
    return Figure(
        label,
        f"n^{cached} and n^{anew}",
        "cached and anew: exact counts, n tokens from nothing",
        below=True,
    )


def _power(x: Sequence[float], y: Sequence[float]) -> str:
    found = fitted_exponent(x, y)
    return "?" if math.isnan(found) else f"{found:.2f}"


def _row(point: CostPoint) -> tuple[Cell, ...]:
    return (
        Cell(format_count(point.length)),
        Cell(format_value(1e3 * point.with_cache)),
        Cell(format_value(1e3 * point.without)),
        Cell(format_value(point.without / point.with_cache, 1)),
        Cell(format_flops(point.flops_with), tip=f"{format_count(point.flops_with)} FLOPs"),
        Cell(format_flops(point.flops_without), tip=f"{format_count(point.flops_without)} FLOPs"),
        Cell(format_value(point.flops_without / point.flops_with, 1)),
    )
