"""Cost against length: time and FLOPs of a token with the cache and without, measured.

Random tokens do as well as any text: what a pass costs does not depend on what it says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from decoder_gui.debugger.laboratory.roofline import Measuring
from model.costs import attention_flops, flops_cached, flops_recomputed
from model.engine import Engine
from model.shape import ModelShape

REPEATS = 3  # at least
ENOUGH = 0.05  # s that short passes are repeated for, the fastest counts
LONG_ENOUGH = 1.0  # s from which a pass is not repeated at all
MOST_REPEATS = 25
LONGEST = 3.0  # s that one pass may take; longer ones are foreseen and left out
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
SEED = 11


@dataclass(frozen=True)
class CostPoint:
    """What the token after ``length`` others costs.

    Attributes:
        with_cache, without: seconds, of the fastest of several passes: whatever else the computer
            does only makes one slower.
        flops_with, flops_without: exact counts.
        attention_with, attention_without: the part of them that grows with the keys.
    """

    length: int
    with_cache: float
    without: float
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
) -> Iterator[CostPoint | Measuring]:
    """Measure one length after another, in caches of its own.

    Between any two passes it yields how far it is, so that it can be left there. A length whose
    pass would take longer than ``longest`` seconds, judged by those before, ends the curve.
    """
    generator = np.random.default_rng(SEED)
    known: list[tuple[int, float]] = []  # positions and seconds of the passes so far
    for done, length in enumerate(lengths):
        if _foreseen(known, length + 1) > longest:
            return
        ids = generator.integers(0, engine.shape.vocabulary, size=(1, length + 1))
        cache = engine.new_cache(length + 1)
        so_far = Measuring(done, len(lengths))
        anew: list[float] = []
        while _more(anew, repeats):
            yield so_far
            cache.rewind(0)
            began = perf_counter()
            engine.forward(ids, cache)
            anew.append(perf_counter() - began)
        cached: list[float] = []
        while _more(cached, repeats):
            yield so_far
            cache.rewind(length)
            began = perf_counter()
            engine.forward(ids[:, length:], cache)
            cached.append(perf_counter() - began)
        known.append((length + 1, min(anew)))
        yield CostPoint(length, min(cached), min(anew), *counts(engine.shape, length))


def _more(times: Sequence[float], repeats: int) -> bool:
    """Whether another pass is worth its time."""
    if not times:
        return True
    if len(times) < repeats:
        return sum(times) < LONG_ENOUGH
    return sum(times) < ENOUGH and len(times) < MOST_REPEATS and repeats > 1


def _foreseen(known: Sequence[tuple[int, float]], positions: int) -> float:
    """Seconds that a pass will take at least: on in a straight line from the last two."""
    if len(known) < 2:
        return known[-1][1] if known else 0.0
    (before, least), (last, most) = known[-2:]
    return most + max(0.0, most - least) / (last - before) * (positions - last)


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
