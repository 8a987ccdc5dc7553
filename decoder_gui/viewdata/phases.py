"""What the phases panel shows: prefill and decode apart, and both under the machine's roofline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from decoder_gui.debugger.laboratory.roofline import Machine, PhaseTime
from decoder_gui.viewdata.kv_cache import Figure, format_flops
from decoder_gui.viewdata.numbers import format_count, format_percent, format_value, plural
from decoder_gui.viewdata.plots import Axis, Mark, Plot, Series
from decoder_gui.viewdata.tables import Cell, Column, Table
from model.trace import Phase

COLUMNS = (
    Column("", stretch=True),
    Column("prefill", number=True),
    Column("decode", number=True),
)
ROLES = {Phase.PREFILL: ("prefill", "o"), Phase.DECODE: ("decode", "s")}


@dataclass(frozen=True, eq=False)
class PhasesView:
    """Both phases, the machine, and where they stand under its roof."""

    table: Table
    figures: tuple[Figure, ...]
    plot: Plot
    hint: str


def build_phases(phases: Sequence[PhaseTime], machine: Machine | None) -> PhasesView:
    """The view of what was measured."""
    return PhasesView(
        table=Table(COLUMNS, _rows(phases, machine)) if phases else Table(),
        figures=_figures(machine),
        plot=_plot(phases, machine),
        hint="measured on this computer" if machine is not None else "",
    )


def _rows(phases: Sequence[PhaseTime], machine: Machine | None) -> tuple[tuple[Cell, ...], ...]:
    by_phase = {each.phase: each for each in phases}
    lines: dict[str, Callable[[PhaseTime], str]] = {
        "tokens": lambda each: format_count(each.tokens),
        "time, ms": lambda each: format_value(1e3 * each.seconds),
        "tokens per second": lambda each: format_count(round(each.tokens_per_second)),
        "weight reads": lambda each: format_count(each.passes),
        "tokens per weight read": lambda each: format_value(each.tokens / each.passes, 2),
        "FLOPs": lambda each: format_flops(each.flops),
        "bytes read": lambda each: format_decimal(each.moved, "B"),
        "FLOPs per byte": lambda each: format_value(each.intensity, 2),
        "reached": lambda each: format_decimal(each.rate, "FLOP/s"),
    }
    if machine is not None:
        lines["share of the roof"] = lambda each: format_percent(
            each.rate / machine.limit(each.intensity), 0
        )
        lines["bound by"] = lambda each: (
            "reading" if each.intensity < machine.ridge else "arithmetic"
        )
    return tuple(
        (
            Cell(name),
            *(
                Cell(show(by_phase[phase]) if phase in by_phase else "no step")
                for phase in (Phase.PREFILL, Phase.DECODE)
            ),
        )
        for name, show in lines.items()
    )


def _figures(machine: Machine | None) -> tuple[Figure, ...]:
    if machine is None:
        return ()
    return (
        Figure(
            "Bandwidth",
            format_decimal(machine.bandwidth, "B/s"),
            "best of several readings of a 128 MiB matrix",
        ),
        Figure(
            "Peak",
            format_decimal(machine.peak, "FLOP/s"),
            "best of several float32 matrix products",
        ),
        Figure(
            "Ridge",
            f"{format_value(machine.ridge, 1)} FLOPs per byte",
            "below it reading is the limit",
        ),
    )


def _plot(phases: Sequence[PhaseTime], machine: Machine | None) -> Plot:
    series: list[Series] = []
    gist = []
    if machine is not None:
        most = max([machine.ridge * 8, *(each.intensity * 2 for each in phases)])
        least = min([machine.ridge / 32, *(each.intensity / 2 for each in phases)])
        x = np.asarray([least, machine.ridge, most])
        roof = np.asarray([machine.limit(at) / 1e9 for at in x])
        series.append(Series("roof", x, roof, "muted", Mark.LINE))
    for each in phases:
        role, symbol = ROLES[each.phase]
        series.append(
            Series(
                each.phase.value,
                np.asarray([each.intensity]),
                np.asarray([each.rate / 1e9]),
                role,
                Mark.POINTS,
                symbol,
            )
        )
        gist.append(
            f"{each.phase.value}: {each.intensity:.2f} FLOPs per byte, "
            f"{each.rate / 1e9:.2f} GFLOP/s"
        )
    return Plot(
        Axis("FLOPs for each byte read", logarithmic=True),
        Axis("GFLOP per second", logarithmic=True),
        tuple(series),
        description=". ".join(gist),
    )


def format_decimal(value: float, unit: str) -> str:
    """A rate or a size in decimal units: ``24.2 GB/s``."""
    size = value
    for prefix in ("", "k", "M", "G", "T"):
        if size < 1000 or prefix == "T":
            digits = 0 if not prefix else 1 if size >= 10 else 2
            return f"{size:.{digits}f} {prefix}{unit}"
        size /= 1000
    raise AssertionError("the loop ends at T")


def passes_words(phases: Sequence[PhaseTime]) -> str:
    """In a sentence what was run."""
    return " and ".join(
        f"{plural(each.tokens, 'token')} in {plural(each.passes, 'pass', 'passes')} of {each.phase}"
        for each in phases
    )
