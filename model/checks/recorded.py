"""The checks that need no engine: what a trace holds is enough."""

from __future__ import annotations

from dataclasses import dataclass

from model.checks.core import CheckResult, blamed
from model.checks.observe import observe_recorded
from model.checks.tally import TALLIES, Tally
from model.trace import Step, Trace


@dataclass
class _Seen:
    """How far a step has been looked at."""

    step: Step
    operations: int
    tallies: tuple[Tally, ...]


class TraceWatch:
    """Examines a trace as it grows, each array once; a step that was replaced is done again."""

    def __init__(self) -> None:
        self._seen: list[_Seen] = []

    def examine(self, trace: Trace, faults: tuple[str, ...] = ()) -> tuple[CheckResult, ...]:
        """The verdicts on everything that the trace has held since it was first examined.

        Args:
            trace: the same trace every time; it may have grown or been cut.
            faults: names of the faults that are on, for the words.
        """
        steps = trace.steps
        same = 0
        while (
            same < min(len(steps), len(self._seen))
            and steps[same] is self._seen[same].step
            and trace.events_in(same) >= self._seen[same].operations
        ):
            same += 1
        del self._seen[same:]
        for step in steps[same:]:
            self._seen.append(_Seen(step, 0, tuple(tally() for tally in TALLIES)))
        for index, seen in enumerate(self._seen):
            for observation in observe_recorded(trace, index, seen.operations):
                for tally in seen.tallies:
                    tally.see(observation)
            seen.operations = trace.events_in(index)
        totals = tuple(tally() for tally in TALLIES)
        for seen in self._seen:
            for total, tally in zip(totals, seen.tallies, strict=True):
                total.merge(tally)
        return tuple(blamed(total.result(), faults) for total in totals)


def check_trace(trace: Trace, faults: tuple[str, ...] = ()) -> tuple[CheckResult, ...]:
    """``causal-weights``, ``rows-sum-to-one`` and ``finite`` on what a trace holds.

    Arrays that were not kept are not examined; the details say how much was.
    """
    return TraceWatch().examine(trace, faults)
