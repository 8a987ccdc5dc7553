"""Rules about attention weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.rules.core import NO, Entry, Rule, Verdict, found, rule, shown
from decoder_gui.debugger.stopping.scene import Scene
from model.checks.observe import Observation, later_keys
from model.engine import Array


def _patterns(scene: Scene, here: Cursor) -> Iterator[Observation]:
    if not scene.operation(here).name.endswith(".attn.pattern"):
        return
    for name, array in scene.outputs(here):
        first = scene.step(here).last - array.shape[-2]
        yield Observation("", here.step, first, scene.operation(here), name, array[np.newaxis])


@rule(
    "row-sum",
    "A row of attention weights does not sum to 1",
    "Stops at every softmax with such a row.",
    each=True,
)
@dataclass(frozen=True)
class RowSum(Rule):
    """A row of a pattern misses a sum of 1 by more than a tolerance; NaN misses it."""

    tolerance: Annotated[float, Entry("Tolerance", least=0.0)] = 1e-5

    @property
    def words(self) -> str:
        return f"A row of attention weights does not sum to 1 within {self.tolerance:g}"

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        for seen in _patterns(scene, here):
            sums: Array = seen.array[0].sum(axis=-1, dtype=np.float64)  # (head, pos)
            wrong = ~(np.abs(sums - 1.0) <= self.tolerance)
            if wrong.any():
                head, row = (int(i) for i in np.argwhere(wrong)[0])
                count = int(np.count_nonzero(wrong))
                more = f"; {count:,} rows of this operation do not sum to 1" if count > 1 else ""
                return found(
                    f"row {seen.first + row} of head {seen.operation.layer}.{head} sums to "
                    f"{shown(float(sums[head, row]))}{more}"
                )
        return NO


@rule(
    "above-diagonal",
    "A weight lies above the diagonal",
    "Stops at every softmax in which a query attends to a later key.",
    each=True,
)
@dataclass(frozen=True)
class AboveDiagonal(Rule):
    """A query attends to a key that comes after it."""

    tolerance: Annotated[float, Entry("Larger than", least=0.0)] = 1e-9

    @property
    def words(self) -> str:
        return f"An attention weight above the diagonal is larger than {self.tolerance:g}"

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        for seen in _patterns(scene, here):
            above = later_keys(seen)
            leaks = np.where(above, np.abs(seen.array[0]), 0.0)  # (head, pos, key)
            wrong = ~(leaks <= self.tolerance)
            if wrong.any():
                head, row, key = (int(i) for i in np.argwhere(wrong)[0])
                count = int(np.count_nonzero(wrong))
                more = f"; {count:,} weights of this operation are above it" if count > 1 else ""
                weight = float(seen.array[0][head, row, key])
                return found(
                    f"query {seen.first + row} of head {seen.operation.layer}.{head} attends to "
                    f"the later key {key} with weight {shown(weight)}{more}"
                )
        return NO
