"""Interleaved rounds: everything once in every round, so that a ratio compares like with like."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

Progress = Callable[[str], None]


def milliseconds(work: Callable[[], Any]) -> float:
    """How long one call takes, by the wall clock."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def median(values: Sequence[float]) -> float:
    """The median, rounded to a thousandth: more digits would only be noise."""
    return round(statistics.median(values), 3)


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the rounds' own ratios, which holds while the machine's speed drifts."""
    return median([one / other for one, other in zip(above, below, strict=True)])


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` (0 to 1] of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]
