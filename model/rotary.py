"""Rotary positions: how far each pair of coordinates is turned at a position.

A query and a key are turned by angles that grow with their positions, so that their dot product
depends on the distance between them. Models that were stretched to longer contexts turn some pairs
more slowly; each way of stretching is a class here. Frequencies are computed in float32, as the
models were trained with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from model.errors import ShapeMismatch

Floats = NDArray[np.float32]

LARGEST_THETA = 1e30


class Scaling(Protocol):
    """A way to stretch rotary positions."""

    @property
    def name(self) -> str:
        """What a config.json calls it."""
        ...

    @property
    def magnitude(self) -> float:
        """A factor on every turned coordinate."""
        ...

    def stretch(self, frequencies: Floats, theta: float) -> Floats:
        """Frequencies (pairs,) in radians a position, of the unstretched model, made slower."""
        ...


@dataclass(frozen=True)
class Linear:
    """All frequencies divided by one factor: positions pressed together."""

    factor: float
    name: str = "linear"
    magnitude: float = 1.0

    def stretch(self, frequencies: Floats, theta: float) -> Floats:
        """Every frequency, slower by the factor."""
        stretched: Floats = frequencies / np.float32(self.factor)
        return stretched


@dataclass(frozen=True)
class Llama3:
    """Slow frequencies divided by a factor, fast ones kept, a smooth passage in between.

    Attributes:
        low, high: how many turns within the original context make a frequency slow or fast.
        original: the context before the model was stretched.
    """

    factor: float
    low: float
    high: float
    original: int
    name: str = "llama3"
    magnitude: float = 1.0

    def stretch(self, frequencies: Floats, theta: float) -> Floats:
        """Each frequency by the number of turns that it makes in the original context."""
        one, original = np.float32(1), np.float32(self.original)
        wavelengths = one / frequencies * np.float32(2 * math.pi)  # (pairs,), in positions
        made = one / wavelengths * original  # turns in the original context
        kept = (made - np.float32(self.low)) / np.float32(self.high - self.low)
        slowed = frequencies / np.float32(self.factor)
        between = (one - kept) * frequencies / np.float32(self.factor) + kept * frequencies
        fast = wavelengths < np.float32(self.original / self.high)
        slow = wavelengths > np.float32(self.original / self.low)
        stretched: Floats = np.where(fast, frequencies, np.where(slow, slowed, between))
        return stretched


@dataclass(frozen=True)
class Yarn:
    """Like :class:`Llama3` with the passage along the pairs, and with a factor on the result.

    Attributes:
        fast, slow: how many turns within the original context end the passage on either side.
        whole: the ends of the passage are rounded outwards to whole pairs.
    """

    factor: float
    original: int
    magnitude: float
    fast: float = 32.0
    slow: float = 1.0
    whole: bool = True
    name: str = "yarn"

    def stretch(self, frequencies: Floats, theta: float) -> Floats:
        """Each frequency by the place of its pair."""
        dims = 2 * len(frequencies)

        def pair_that_turns(times: float) -> float:
            return dims * math.log(self.original / (times * 2 * math.pi)) / (2 * math.log(theta))

        first, last = pair_that_turns(self.fast), pair_that_turns(self.slow)
        if self.whole:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, dims - 1)
        if first == last:
            last += 0.001
        one, places = np.float32(1), np.arange(len(frequencies), dtype=np.float32)
        passed = (places - np.float32(first)) / np.float32(last - first)
        kept = one - np.clip(passed, np.float32(0), one)
        slowed = one / (np.float32(self.factor) * (one / frequencies))
        stretched: Floats = slowed * (one - kept) + frequencies * kept
        return stretched


@dataclass(frozen=True)
class Rotary:
    """Rotary positions of a model.

    Attributes:
        dims: how many of a head's coordinates are turned, the first ones; coordinate i is paired
            with coordinate i + dims / 2.
        theta: the base; pair i turns by theta ** (-2 i / dims) radians a position.
        scaling: how the frequencies are stretched, if they are.

    Raises:
        ShapeMismatch: no pair to turn, or a base that is not above 1.
    """

    dims: int
    theta: float = 10000.0
    scaling: Scaling | None = None

    def __post_init__(self) -> None:
        if self.dims < 2 or self.dims % 2:
            raise ShapeMismatch(f"coordinates are turned in pairs, not {self.dims} of them")
        if not 1 < self.theta < LARGEST_THETA:
            raise ShapeMismatch(
                f"the base of rotary positions must be above 1 and below {LARGEST_THETA:g}, not "
                f"{self.theta:g}"
            )

    @property
    def frequencies(self) -> Floats:
        """Radians that each pair turns for a position, (dims / 2,)."""
        exponents = np.arange(0, self.dims, 2, dtype=np.float32) / np.float32(self.dims)
        # Powers rounded once are those that the models were trained with; at position 100,000 the
        # last bit of a frequency is a thousandth of a radian.
        powers = np.power(self.theta, exponents.astype(np.float64)).astype(np.float32)
        plain: Floats = np.float32(1) / powers
        return plain if self.scaling is None else self.scaling.stretch(plain, self.theta)

    @property
    def magnitude(self) -> float:
        """A factor on every turned coordinate; 1 unless the positions are stretched by yarn."""
        return 1.0 if self.scaling is None else self.scaling.magnitude


def turns(frequencies: Floats, magnitude: float, first: int, count: int) -> tuple[Floats, Floats]:
    """Cosine and sine of the angle of each pair at consecutive positions.

    Returns:
        Two arrays (count, pairs), both times the magnitude.
    """
    positions = np.arange(first, first + count, dtype=np.float32)
    angles = np.multiply.outer(positions, frequencies)  # (pos, pairs)
    cosine, sine = np.cos(angles), np.sin(angles)
    if magnitude != 1.0:
        cosine *= np.float32(magnitude)
        sine *= np.float32(magnitude)
    return cosine, sine
