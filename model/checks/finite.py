"""NaN and infinity, where they first appear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.checks.core import CheckResult, Subject, Where, check, number, plural
from model.checks.observe import Observation, hidden_keys, observe_prefill_and_decode
from model.checks.tally import Tally, listed, recorded_too
from model.engine import Array


def stray_values(observation: Observation) -> Array:
    """Where an array is not finite and should be; boolean, of the array's shape.

    A masked score is -infinity on purpose: above the diagonal and before a sliding window, that and
    nothing else is expected.
    """
    array = observation.array
    stray: Array = ~np.isfinite(array)
    if observation.name.endswith(".attn.scores"):
        stray &= ~(np.isneginf(array) & hidden_keys(observation))
    return stray


@recorded_too
@dataclass
class Finite(Tally):
    """How many values are NaN or infinite, and the first operation that has one."""

    name = "finite"
    tolerance = 0.0

    values: int = 0
    value: str = ""

    def see(self, observation: Observation) -> None:
        """Count stray values, and remember where the first was."""
        self.arrays += 1
        self.runs[observation.run] = None
        self.values += observation.array.size
        if np.isfinite(observation.array).all():
            return
        stray = stray_values(observation)
        count = int(np.count_nonzero(stray))
        if not count:
            return
        self.worst += count
        if self.where is None:
            index = tuple(int(i) for i in np.argwhere(stray)[0])
            by_head = observation.array.ndim == 4
            by_key = observation.name.endswith((".attn.scores", ".attn.pattern"))
            self.value = number(float(observation.array[index]))
            self.run = observation.run
            self.where = Where(
                layer=observation.operation.layer,
                head=index[1] if by_head else None,
                query=observation.first + index[-2],
                key=index[-1] if by_key else None,
                step=observation.step,
                operation=observation.operation.name,
            )

    def merge(self, other: Tally) -> None:
        """Counts add up, and the earlier part of the run has the first."""
        assert isinstance(other, Finite)
        total = self.worst + other.worst
        where, run, value = self.where, self.run, self.value
        super().merge(other)
        self.worst = total
        self.values += other.values
        self.where, self.run, self.value = (
            (where, run, value) if where is not None else (other.where, other.run, other.value)
        )

    def sentence(self, holds: bool) -> str:
        """The first operation that has a stray value, and how many there are."""
        if not self.arrays:
            return "nothing was kept, so nothing could be examined"
        among = f"{self.values:,} values of {plural(self.arrays, 'array')} ({listed(self.runs)})"
        if holds or self.where is None:
            return f"all {among} are finite, masked scores apart"
        at = self.where
        return (
            f"{self.worst:,.0f} of {among} are NaN or infinite; the first is {self.value} at "
            f"position {at.query} of {at.operation} ({self.run}, step {at.step})"
        )


@check("finite", "no NaN or infinity but in masked scores")
def finite(subject: Subject) -> CheckResult:
    """In every array of prefill and decode."""
    tally = Finite()
    for observation in observe_prefill_and_decode(subject):
        tally.see(observation)
    return tally.result()
