"""Checks of attention weights: none on a later key, and every row a distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from model.checks.core import CheckResult, Subject, Where, check, number
from model.checks.observe import Observation, later_keys, observe_all
from model.checks.tally import Tally, recorded_too


def _is_pattern(observation: Observation) -> bool:
    return observation.name.endswith(".attn.pattern")


@recorded_too
@dataclass
class CausalWeights(Tally):
    """The largest attention weight above the diagonal."""

    name = "causal-weights"
    tolerance = 1e-9

    def see(self, observation: Observation) -> None:
        """Look for the largest weight on a later key, NaN before any number."""
        if not _is_pattern(observation):
            return
        self.count(observation)
        above = later_keys(observation)
        if not above.any():
            return
        leaks = np.where(above, np.abs(observation.array[0]), 0.0)  # (head, pos, key)
        head, row, key = np.unravel_index(int(leaks.argmax()), leaks.shape)  # NaN counts as most
        where = Where(
            layer=observation.operation.layer,
            head=int(head),
            query=observation.first + int(row),
            key=int(key),
            step=observation.step,
            operation=observation.operation.name,
        )
        if leaks[head, row, key] != 0.0:
            self.offer(float(leaks[head, row, key]), where, observation.run)

    def sentence(self, holds: bool) -> str:
        """Which query sees which later key, or over what nothing was found."""
        if not self.arrays:
            return "no attention weights were kept, so none could be examined"
        if holds or self.where is None:
            return f"no weight above the diagonal in {self.scope}; largest {number(self.worst)}"
        at = self.where
        return (
            f"query {at.query} attends to the later key {at.key} with weight {number(self.worst)} "
            f"in layer {at.layer}, head {at.head} ({self.run}, step {at.step}); {self.scope}"
        )


@recorded_too
@dataclass
class RowsSumToOne(Tally):
    """The largest deviation of a row of attention weights from a sum of 1."""

    name = "rows-sum-to-one"
    tolerance = 1e-5

    def see(self, observation: Observation) -> None:
        """Sum every row in float64."""
        if not _is_pattern(observation):
            return
        self.count(observation)
        apart = np.abs(observation.array[0].sum(axis=-1, dtype=np.float64) - 1.0)  # (head, pos)
        head, row = np.unravel_index(int(apart.argmax()), apart.shape)
        where = Where(
            layer=observation.operation.layer,
            head=int(head),
            query=observation.first + int(row),
            step=observation.step,
            operation=observation.operation.name,
        )
        self.offer(float(apart[head, row]), where, observation.run)

    def sentence(self, holds: bool) -> str:
        """The worst row."""
        if not self.arrays:
            return "no attention weights were kept, so none could be examined"
        if holds or self.where is None:
            return f"every row sums to 1 in {self.scope}; largest deviation {number(self.worst)}"
        at = self.where
        place = f"layer {at.layer}, head {at.head} ({self.run}, step {at.step})"
        if math.isnan(self.worst):
            return f"the weights of query {at.query} sum to NaN in {place}; {self.scope}"
        return (
            f"the weights of query {at.query} miss a sum of 1 by {number(self.worst)} in {place}; "
            f"{self.scope}"
        )


@check("causal-weights", "no attention weight above the diagonal")
def causal_weights(subject: Subject) -> CheckResult:
    """In prefill, in chunked prefill, where the diagonal is easily misplaced, and in decode."""
    tally = CausalWeights()
    for observation in observe_all(subject):
        tally.see(observation)
    return tally.result()


@check("rows-sum-to-one", "every row of attention weights sums to 1")
def rows_sum_to_one(subject: Subject) -> CheckResult:
    """In the same passes as ``causal-weights``."""
    tally = RowsSumToOne()
    for observation in observe_all(subject):
        tally.see(observation)
    return tally.result()
