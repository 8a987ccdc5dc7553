"""Rules about numbers: what is not one, and a cell that passes a value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.rules.core import (
    NO,
    SILENT,
    Entry,
    InvalidRule,
    Rule,
    Side,
    Verdict,
    found,
    rule,
    shown,
)
from decoder_gui.debugger.stopping.scene import Scene
from decoder_gui.debugger.stopping.spots import STAGES, Reading, Spot, read
from model.checks.finite import stray_values
from model.checks.observe import Observation


@rule(
    "not-finite",
    "NaN or infinity appears",
    "Stops where an array holds one and the array before it held none; masked scores are apart.",
)
@dataclass(frozen=True)
class NotFinite(Rule):
    """The first operation with a value that is not finite, in every step anew."""

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        step = scene.step(here)
        if not scene.operation(here).outputs:
            return SILENT
        for name, array in scene.outputs(here):
            if np.isfinite(array).all():
                continue
            operation = scene.operation(here)
            first = step.last - array.shape[-2]
            seen = Observation("", here.step, first, operation, name, array[np.newaxis])
            stray = stray_values(seen)[0]
            count = int(np.count_nonzero(stray))
            if count:
                at = tuple(int(i) for i in np.argwhere(stray)[0])
                value = shown(float(array[at]))
                more = f", one of {count:,} such values" if count > 1 else ""
                head = f"head {at[0]}, " if array.ndim == 3 else ""
                return found(
                    f"{value} in {name} at {head}position {first + at[-2]}, index {at[-1]}{more}"
                )
        return NO


def spot_at(scene: Scene, here: Cursor, spot: Spot) -> Reading | None:
    """What a spot is at the event that computes it, and None at every other event."""
    made = spot.array in scene.operation(here).outputs
    if not (made or (spot.array in STAGES and scene.sampling_at(here))):
        return None
    return read(spot, scene.step(here), scene.array)


def _needs_cell(spot: Spot) -> None:
    if spot.index is None:
        raise InvalidRule("one cell is needed, not a whole row: give an index")


@rule(
    "cell-crosses",
    "A cell crosses a value",
    "Stops where the cell of the newest position has passed the value since the step before.",
    each=True,
)
@dataclass(frozen=True)
class CellCrosses(Rule):
    """A cell of the newest position passes a value, from either side.

    With the value itself it lies on the upper side. A NaN is on no side and is passed over.
    """

    spot: Annotated[Spot, Entry("Cell", suggestion=Spot("logits", index=0))]
    value: Annotated[float, Entry("Value", suggestion=0.0)]

    def __post_init__(self) -> None:
        super().__post_init__()
        _needs_cell(self.spot)
        if self.spot.position is not None:
            raise InvalidRule(
                f"position {self.spot.position} is computed once in a run, so its cells cross "
                "nothing: take the newest position, or stop above or below the value"
            )

    @property
    def words(self) -> str:
        return f"{self.spot.words} crosses {self.value:g}"

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        now = spot_at(scene, here, self.spot)
        if now is None or now.value is None or math.isnan(now.value):
            return NO
        for step in reversed(scene.trace.steps[: here.step]):
            before = read(self.spot, step, scene.array)
            if before.value is None or math.isnan(before.value):
                continue
            if (before.value < self.value) == (now.value < self.value):
                return NO
            return found(
                f"{self.spot.words} crosses {self.value:g}: {shown(before.value)} at step "
                f"{step.index}, {shown(now.value)} now"
            )
        return NO


@rule(
    "cell-beyond",
    "A cell is above or below a value",
    "Stops where the cell gets there; as long as it stays, not again.",
)
@dataclass(frozen=True)
class CellBeyond(Rule):
    """A cell gets above or below a value."""

    spot: Annotated[Spot, Entry("Cell", suggestion=Spot("logits", index=0))]
    side: Annotated[Side, Entry("Side")] = Side.ABOVE
    value: Annotated[float, Entry("Value")] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _needs_cell(self.spot)

    @property
    def words(self) -> str:
        return f"{self.spot.words} {self.side} {self.value:g}"

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        now = spot_at(scene, here, self.spot)
        if now is None or now.value is None:
            return SILENT
        above = now.value > self.value
        if above if self.side is Side.ABOVE else now.value < self.value:
            return found(f"{self.spot.words} is {shown(now.value)}, {self.side} {self.value:g}")
        return NO
