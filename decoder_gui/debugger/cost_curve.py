"""Cost against length: time and FLOPs of a token with the cache and without, measured.

Random tokens do as well as any text: what a pass costs does not depend on what it says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

from model.costs import attention_flops, flops_cached, flops_recomputed
from model.engine import Engine
from model.shape import ModelShape

REPEATS = 3
LONGEST = 3.0  # s that one measurement may take; longer lengths are left out
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
SEED = 11


@dataclass(frozen=True)
class CostPoint:
    """What the token after ``length`` others costs.

    Attributes:
        with_cache, without: seconds, medians; None where the measurement was left out.
        flops_with, flops_without: exact counts.
        attention_with, attention_without: the part of them that grows with the keys.
    """

    length: int
    with_cache: float
    without: float | None
    flops_with: int
    flops_without: int
    attention_with: int
    attention_without: int


def lengths_for(context: int) -> tuple[int, ...]:
    """Lengths to measure: powers of two, and the longest that leaves room for one token more."""
    inside = [length for length in LENGTHS if length < context - 1]
    return tuple(sorted({*inside, max(1, context - 1)}))


def counts(shape: ModelShape, length: int) -> tuple[int, int, int, int]:
    """FLOPs of the token after ``length``: with the cache and without, whole and of attention."""
    return (
        flops_cached(shape, length, 1),
        flops_recomputed(shape, length + 1),
        attention_flops(shape, length, 1),
        attention_flops(shape, 0, length + 1),
    )


def measure(
    engine: Engine, lengths: Sequence[int], *, repeats: int = REPEATS, longest: float = LONGEST
) -> Iterator[CostPoint]:
    """Measure one length after another, in caches of its own."""
    generator = np.random.default_rng(SEED)
    recomputing = True
    for length in lengths:
        ids = generator.integers(0, engine.shape.vocabulary, size=(1, length + 1))
        cache = engine.new_cache(length + 1)
        began = perf_counter()
        engine.forward(ids[:, :length], cache)
        filled = perf_counter() - began
        cached = []
        for _ in range(repeats):
            began = perf_counter()
            engine.forward(ids[:, length:], cache)
            cached.append(perf_counter() - began)
            cache.rewind(length)
        anew: list[float] = []
        for _ in range(repeats if recomputing else 0):
            cache.rewind(0)
            began = perf_counter()
            engine.forward(ids, cache)
            anew.append(perf_counter() - began)
        recomputing = recomputing and filled < longest
        yield CostPoint(
            length, median(cached), median(anew) if anew else None, *counts(engine.shape, length)
        )
        if filled > longest:
            return


def fitted_exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The power of x that y grows with: the slope of a straight line through their logarithms.

    Not a number where there are fewer than two points that have logarithms.
    """
    pairs = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0]
    if len({a for a, _ in pairs}) < 2:
        return math.nan
    mean_x = sum(a for a, _ in pairs) / len(pairs)
    mean_y = sum(b for _, b in pairs) / len(pairs)
    spread = sum((a - mean_x) ** 2 for a, _ in pairs)
    return sum((a - mean_x) * (b - mean_y) for a, b in pairs) / spread


def totals(shape: ModelShape, lengths: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """FLOPs of generating each length from nothing, token by token; as :func:`counts`, summed."""
    found: list[tuple[int, int, int, int]] = []
    sums = [0, 0, 0, 0]
    at = 0
    for length in sorted(lengths):
        while at < length:
            sums = [a + b for a, b in zip(sums, counts(shape, at), strict=True)]
            at += 1
        found.append((sums[0], sums[1], sums[2], sums[3]))
    return found
