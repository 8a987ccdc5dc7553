"""What a plot on screen shows: axes and series, without any drawing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from numpy.typing import NDArray


class Mark(Enum):
    """How a series is drawn."""

    LINE = "line"
    POINTS = "points"
    LINE_AND_POINTS = "line and points"
    DASHED = "dashed"
    BARS = "bars"
    STEPS = "steps"


@dataclass(frozen=True, eq=False)
class Series:
    """One curve: x and y, (points,) float64 each; not-a-number leaves a gap.

    ``role`` is the palette's colour; ``symbol`` tells points apart without colour (pyqtgraph's
    names: o, s, t, d, +, x).
    """

    name: str
    x: NDArray[Any]
    y: NDArray[Any]
    role: str = "accent"
    mark: Mark = Mark.LINE
    symbol: str = "o"


@dataclass(frozen=True)
class Axis:
    """An axis: what it says with its unit, and whether it is logarithmic."""

    label: str
    logarithmic: bool = False
    range: tuple[float, float] | None = None  # in values, not logarithms; None fits the series
    ticks: tuple[tuple[float, str], ...] = ()  # none: chosen by the numbers


@dataclass(frozen=True, eq=False)
class Plot:
    """A plot: series in drawing order, and lines across it, as (value, words).

    ``description`` says the gist in words, for a screen reader.
    """

    x: Axis
    y: Axis
    series: tuple[Series, ...] = ()
    across: tuple[tuple[float, str], ...] = ()  # horizontal
    upright: tuple[tuple[float, str], ...] = ()  # vertical
    description: str = ""
