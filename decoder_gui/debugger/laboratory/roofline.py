"""The roofline of this computer, and where prefill and decode stand under it.

A computation that does few FLOPs for each byte that it reads is bound by memory; beyond the ridge,
peak over bandwidth, it is bound by arithmetic. Both limits are measured with the very products that
a pass consists of: a matrix times a vector, and a matrix times a matrix.
Source of the model: Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from model.costs import bytes_moved, flops_cached
from model.engine import Engine
from model.shape import ModelShape
from model.trace import Phase

VECTOR_ROWS, VECTOR_COLUMNS = 8192, 4096  # 128 MiB of float32: beyond any cache of a processor
SQUARE = 1536
ROUNDS = 7
PHASE_ROUNDS = 3
LONG = 1.0  # s from which a phase is timed once


@dataclass(frozen=True)
class Machine:
    """What this computer does at best, as measured.

    Attributes:
        bandwidth: bytes per second, reading a matrix once.
        peak: FLOPs per second, float32.
    """

    bandwidth: float
    peak: float

    @property
    def ridge(self) -> float:
        """FLOPs for each byte from which arithmetic is the limit."""
        return self.peak / self.bandwidth

    def limit(self, intensity: float) -> float:
        """The most FLOPs per second that a computation of that intensity can reach."""
        return min(self.peak, self.bandwidth * intensity)


@dataclass(frozen=True)
class PhaseTime:
    """One phase of a run, measured.

    ``flops`` and ``moved`` (bytes) are counted exactly, ``seconds`` is the clock's: of the fastest
    of some rounds, since whatever else the computer does only makes one slower.
    """

    phase: Phase
    tokens: int
    passes: int
    seconds: float
    flops: int
    moved: float

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def intensity(self) -> float:
        """FLOPs for each byte read."""
        return self.flops / self.moved

    @property
    def rate(self) -> float:
        """FLOPs per second reached."""
        return self.flops / self.seconds


@dataclass(frozen=True)
class Measuring:
    """How far a measurement is; also where it can be left."""

    done: int
    total: int


def measure_machine(rounds: int = ROUNDS) -> Iterator[Measuring | Machine]:
    """Measure bandwidth and peak; the best of some interleaved rounds each. Ends with a Machine."""
    generator = np.random.default_rng(3)
    matrix = generator.random((VECTOR_ROWS, VECTOR_COLUMNS), dtype=np.float32)
    vector = generator.random(VECTOR_COLUMNS, dtype=np.float32)
    square = matrix[:SQUARE, :SQUARE].copy()
    bandwidth = peak = 0.0
    for number in range(rounds):
        began = perf_counter()
        _ = matrix @ vector
        bandwidth = max(bandwidth, matrix.nbytes / (perf_counter() - began))
        began = perf_counter()
        _ = square @ square
        peak = max(peak, 2 * SQUARE**3 / (perf_counter() - began))
        yield Measuring(number + 1, rounds)
    yield Machine(bandwidth, peak)


def measure_phases(
    engine: Engine, prompt_ids: Sequence[int], decoded_ids: Sequence[int]
) -> Iterator[PhaseTime | Measuring]:
    """Run the same tokens again in a cache of their own, and time each phase apart.

    Nothing is recorded while the clock runs. Yields the prefill and, where there were decode
    steps, those, and between any two passes how far the phase is; a first pass that is not counted
    fills the processor's caches.
    """
    cache = engine.new_cache(len(prompt_ids) + len(decoded_ids))
    prompt = np.asarray([prompt_ids], dtype=np.int64)
    engine.forward(prompt, cache)
    best = math.inf
    for done in range(PHASE_ROUNDS):
        yield Measuring(done, PHASE_ROUNDS)
        cache.rewind(0)
        began = perf_counter()
        engine.forward(prompt, cache)
        best = min(best, perf_counter() - began)
        if best > LONG:
            break
    yield phase_time(engine.shape, Phase.PREFILL, [(0, len(prompt_ids))], best)
    if not decoded_ids:
        return
    best = math.inf
    for _ in range(PHASE_ROUNDS):
        cache.rewind(len(prompt_ids))
        seconds = 0.0
        for done, token in enumerate(decoded_ids):
            yield Measuring(done, len(decoded_ids))
            ids = np.asarray([[token]], dtype=np.int64)
            began = perf_counter()
            engine.forward(ids, cache)
            seconds += perf_counter() - began
        best = min(best, seconds)
        if best > LONG:
            break
    passes = [(len(prompt_ids) + at, 1) for at in range(len(decoded_ids))]
    yield phase_time(engine.shape, Phase.DECODE, passes, best)


def phase_time(
    shape: ModelShape, phase: Phase, passes: Sequence[tuple[int, int]], seconds: float
) -> PhaseTime:
    """What passes (first position, positions) that took so long did."""
    return PhaseTime(
        phase=phase,
        tokens=sum(count for _, count in passes),
        passes=len(passes),
        seconds=seconds,
        flops=sum(flops_cached(shape, *each) for each in passes),
        moved=sum(bytes_moved(shape, *each) for each in passes),
    )
