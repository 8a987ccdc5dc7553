"""How far rounding alone can put a computed number from the exact one.

The bounds are the standard ones of floating-point arithmetic: every operation gives the exact
result times 1 + d, where d is at most u, the unit roundoff: half the distance from 1 to the next
number. A sum of n products in any order, with or without fused operations, is then off by at most
n·u / (1 - n·u) times the sum of their sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FUNCTION_ROUNDINGS = 8
"""Of exp, tanh, cos and sin, in unit roundoffs: NumPy keeps them within four last places."""

ERF_ERROR = 5e-7
"""Of the NumPy engine's own erf, absolute."""


@dataclass(frozen=True)
class Rounding:
    """The arithmetic of one type of numbers.

    Attributes:
        unit: the unit roundoff.
        smallest: below it numbers lose digits or become 0, which no relative bound covers.
    """

    unit: float
    smallest: float

    def gamma(self, operations: int) -> float:
        """The relative error after that many roundings, at most."""
        product = operations * self.unit
        return product / (1.0 - product) if product < 0.5 else 1.0


def of_bytes(size: int) -> Rounding:
    """The arithmetic of numbers of ``size`` bytes; two are taken for the coarser of its types."""
    if size <= 2:
        return Rounding(2.0**-8, 2.0**-24)
    kind = np.finfo(np.float32 if size <= 4 else np.float64)
    return Rounding(float(kind.eps) / 2, float(kind.smallest_normal))


SINGLE, DOUBLE = of_bytes(4), of_bytes(8)
