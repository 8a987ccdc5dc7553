"""Numbers read back from displayed text, beside the numbers that they stand for.

A number is right where it is the one held, rounded to the digits shown: it may be off by half a
unit of the last of them and by what binary floats lose. A count must be the very same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.engine import Array

_NUMBER = re.compile(
    r"(?P<bound>[<>])?"
    r"(?P<value>(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)"
    r"(?:\.(?P<decimals>\d+))?(?:e(?P<exponent>[-+]\d+))?|(?<!\w)(?:NaN|[-+]?inf)\b)"
    r"(?P<unit>%|\s?(?:[KMGT]iB|[kMGTP]?FLOP)\b)?"
)
_SCALES = {
    "": 1.0,
    "%": 0.01,
    **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGT", start=1)},
    **{f"{prefix}FLOP": 1000.0**power for power, prefix in enumerate(["", *"kMGTP"])},
}
_LOST = 32 * float(np.finfo(np.float64).eps)  # what sums in another order may differ by, relative


@dataclass(frozen=True)
class Shown:
    """A number as it was read: what it says, and what one unit of its last digit is worth.

    ``bound`` is ``<`` or ``>`` where only a limit is shown: ``<0.1%``.
    """

    text: str
    value: float
    digit: float
    bound: str = ""


@dataclass(frozen=True)
class Held:
    """A number that was worked out again; ``size`` is that of the terms that were added up."""

    value: float
    size: float = 0.0


@dataclass(frozen=True)
class Finding:
    """A number that is not the one held."""

    panel: str
    step: int
    operation: str
    what: str
    shown: str
    held: str


@lru_cache(maxsize=8192)  # most of what is shown stays as it is from one event to the next
def read_numbers(text: str) -> tuple[Shown, ...]:
    """Every number in a text, in order, in base units: ``26.0 KiB`` is 26,624."""
    found = []
    for match in _NUMBER.finditer(text):
        scale = _SCALES[(match["unit"] or "").strip()]
        value = float(match["value"].replace(",", ""))
        places = int(match["exponent"] or 0) - len(match["decimals"] or "")
        bound = match["bound"] or ""
        found.append(Shown(match[0], value * scale, 10.0**places * scale, bound))
    return tuple(found)


def deviation(shown: Shown, held: Held) -> float:
    """How far a number is off, in units of its last digit; infinite if it is another number."""
    if math.isnan(shown.value) or math.isnan(held.value):
        return 0.0 if _both_nan(shown.value, held.value) else math.inf
    if math.isinf(shown.value) or math.isinf(held.value):
        return 0.0 if shown.value == held.value else math.inf
    if shown.bound:
        inside = (
            0.0 < held.value < shown.value
            if shown.bound == "<"
            else shown.value < held.value < 1.0 and shown.text.endswith("%")
        )
        return 0.0 if inside else math.inf
    forgiven = _LOST * max(abs(held.value), abs(shown.value), held.size)
    return max(0.0, abs(shown.value - held.value) - forgiven) / shown.digit


class Ledger:
    """What has been compared so far: how many numbers, the worst, and what was wrong first."""

    def __init__(self) -> None:
        self.numbers = 0
        self.failed = 0
        self.worst = 0.0
        self.finding: Finding | None = None
        self.panels: set[str] = set()
        self.events: set[tuple[int, str]] = set()
        self._panel = ""
        self._event = (0, "")

    def turn_to(self, panel: str, step: int, operation: str) -> None:
        """What is compared from here on is on that panel, at that event."""
        self._panel, self._event = panel, (step, operation)
        self.panels.add(panel)
        self.events.add(self._event)

    def line(self, what: str, text: str, *held: float | Held, without: Iterable[str] = ()) -> None:
        """The numbers in a text are these, in this order; quoted tokens ``without`` are none."""
        for token in without:
            text = text.replace(f"“{token}”", "“”", 1)
        found = read_numbers(text)
        if len(found) != len(held):
            expected = ", ".join(f"{_value(each):.6g}" for each in held) or "no number"
            self._offer(math.inf, what, text, expected)
            return
        for shown, each in zip(found, held, strict=True):
            number = each if isinstance(each, Held) else Held(float(each))
            self._offer(deviation(shown, number), what, shown.text, f"{number.value:.9g}")

    def same(self, what: str, shown: object, held: object) -> None:
        """The two are equal, as a count, a word or an exact number is; NaN is NaN."""
        numbers = isinstance(shown, float) and isinstance(held, float)
        equal = shown == held or (numbers and _both_nan(shown, held))
        self._offer(0.0 if equal else math.inf, what, str(shown), str(held))

    def near(self, what: str, shown: float, held: float, size: float = 0.0) -> None:
        """The two are the same number worked out in two ways, of terms of that size."""
        apart = abs(shown - held) if shown != held else 0.0
        accepted = 1e-12 * max(abs(held), size) + 1e-15
        equal = apart <= accepted or _both_nan(shown, held)
        self._offer(0.0 if equal else math.inf, what, repr(shown), repr(held))

    def array(self, what: str, shown: Array, held: Array) -> None:
        """The two hold the same numbers, bit for bit."""
        if shown.shape != held.shape:
            self._offer(math.inf, what, f"{shown.shape}", f"{held.shape}")
            return
        equal = shown == held
        if not equal.all() and held.dtype.kind == "f":
            equal |= np.isnan(shown) & np.isnan(held)
        self._many(what, shown, held, np.where(equal, 0.0, np.inf))

    def codes(self, what: str, shown: NDArray[np.uint8], held: NDArray[np.float64]) -> None:
        """Colours of weights: 1 + weight x 254, rounded; ``held`` is -1 where there is none."""
        if shown.shape != held.shape:
            self._offer(math.inf, what, f"{shown.shape}", f"{held.shape}")
            return
        exact = np.where(held < 0, 0.0, 1.0 + 254.0 * np.clip(held, 0.0, 1.0))
        # The colours are made in float32: its last places are no part of a colour.
        apart = np.maximum(0.0, np.abs(shown - exact) - 1e-4)
        absent = np.where((shown == 0) == (held < 0), 0.0, np.inf)
        self._many(what, shown, held, np.maximum(apart, absent))

    def _many(self, what: str, shown: Array, held: Array, deviations: NDArray[np.float64]) -> None:
        if not deviations.size:
            return
        self.numbers += deviations.size - 1
        self.failed += max(0, int(np.count_nonzero(deviations > 0.5)) - 1)
        at = np.unravel_index(int(deviations.argmax()), deviations.shape)
        place = f"{what} {[int(index) for index in at]}"
        self._offer(float(deviations[at]), place, f"{shown[at]:.9g}", f"{held[at]:.9g}")

    def _offer(self, off: float, what: str, shown: str, held: str) -> None:
        self.numbers += 1
        self.worst = max(self.worst, off)
        if off > 0.5:
            self.failed += 1
            if self.finding is None:
                step, operation = self._event
                self.finding = Finding(self._panel, step, operation, what, shown, held)


def spread(count: int, most: int) -> Sequence[int]:
    """At most ``most`` of the numbers below ``count``, first and last among them."""
    if count <= most:
        return range(count)
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def _both_nan(shown: Any, held: Any) -> bool:
    return math.isnan(shown) and math.isnan(held)


def _value(held: float | Held) -> float:
    return held.value if isinstance(held, Held) else float(held)
