"""Checks that look at arrays one by one, so that they work on a run and on a recorded trace.

A tally is told every array once and remembers the worst. Two tallies of parts of a run merge into
the tally of both, which is how a window checks a growing trace without starting over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from model.checks.core import CheckResult, Where, plural, within, worse
from model.checks.observe import Observation


@dataclass
class Tally:
    """What one check has seen so far; a check subclasses it with ``see`` and ``sentence``."""

    name: ClassVar[str]
    tolerance: ClassVar[float]

    worst: float = 0.0
    where: Where | None = None
    run: str = ""  # the kind of pass in which the worst was
    layers: set[int] = field(default_factory=set)
    heads: int = 0
    queries: set[int] = field(default_factory=set)
    runs: dict[str, None] = field(default_factory=dict)  # an ordered set
    arrays: int = 0

    def see(self, observation: Observation) -> None:
        """Look at one array, if it is of the kind that this check is about."""
        raise NotImplementedError

    def sentence(self, holds: bool) -> str:
        """The detail, with numbers."""
        raise NotImplementedError

    def result(self) -> CheckResult:
        """The verdict on everything seen."""
        holds = within(self.worst, self.tolerance)
        return CheckResult(
            self.name, holds, self.worst, self.tolerance, self.sentence(holds), self.where
        )

    def merge(self, other: Self) -> None:
        """Add what another tally has seen, later in the run."""
        if worse(other.worst, self.worst):
            self.worst, self.where, self.run = other.worst, other.where, other.run
        self.layers |= other.layers
        self.heads = max(self.heads, other.heads)
        self.queries |= other.queries
        self.runs |= other.runs
        self.arrays += other.arrays

    def count(self, observation: Observation) -> None:
        """Remember that an array was looked at, and over what it ranges."""
        self.arrays += 1
        self.runs[observation.run] = None
        if observation.operation.layer is not None:
            self.layers.add(observation.operation.layer)
        rows = observation.array.shape[-2]
        self.queries.update(range(observation.first, observation.first + rows))
        if observation.array.ndim == 4:
            self.heads = max(self.heads, observation.array.shape[1])

    def offer(self, deviation: float, where: Where, run: str) -> None:
        """Remember a deviation if it is the worst so far."""
        if worse(deviation, self.worst):
            self.worst, self.where, self.run = deviation, where, run

    @property
    def scope(self) -> str:
        """What was looked at, e.g. ``4 layers × 4 heads, 14 queries (prefill and decode)``."""
        return (
            f"{plural(len(self.layers), 'layer')} × {plural(self.heads, 'head')}, "
            f"{plural(len(self.queries), 'query', 'queries')} ({listed(self.runs)})"
        )


def listed(names: dict[str, None]) -> str:
    """``prefill, decode and chunked prefill``."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


TallyType = type[Tally]
TALLIES: list[TallyType] = []


def recorded_too(tally: TallyType) -> TallyType:
    """Register a tally as one that a recorded trace is examined with."""
    TALLIES.append(tally)
    return tally
