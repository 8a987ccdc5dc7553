"""Several continuations of one text in one batch: the shared beginning is computed once.

The keys and values of the beginning are copied from the session's cache into a cache with a row for
each continuation; from there on every pass reads the weights once for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from model.byte_counts import format_bytes
from model.costs import DecodeStats
from model.engine import Array, Cache, CacheRows, Engine
from model.errors import CacheExhausted, InvalidSampling, NotEnoughMemory, ShapeMismatch
from model.sampling import SamplingConfig, distribution, draw, token_score
from model.shape import ModelShape

MOST = 256  # continuations at once: more rows than anybody reads
SINGLE_PASSES = 6  # passes of one row alone, to compare with


@dataclass(frozen=True)
class Plan:
    """What to continue, and how.

    Attributes:
        prefix: the ids of the text so far; the cache holds their keys and values.
        logits: of its last position, (vocab,), from which the first token of each row is drawn.
        config: settings of the sampler, those that are really followed.
        count: how many continuations.
        length: tokens of each; fewer where the cache has no room for them.
        seed: row i draws with a generator made from (seed, i), whatever ``count`` is.
        end_ids: tokens that end a text; a row ends with the first of them.
    """

    prefix: tuple[int, ...]
    logits: Array = field(repr=False)
    config: SamplingConfig
    count: int
    length: int
    seed: int
    end_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST:
            raise InvalidSampling(f"continuations must be 1 to {MOST}, not {self.count}")
        if self.length < 1:
            raise InvalidSampling(f"a continuation needs at least 1 token, not {self.length}")


@dataclass(frozen=True)
class Continuation:
    """One continuation; log-probabilities are of the raw distribution, nats.

    ``ended``: its last token ends the text, so it is as long as it will be.
    """

    row: int
    token_ids: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    ended: bool = False

    @property
    def total(self) -> float:
        """Log-likelihood of the whole continuation given the text before it, nats."""
        return math.fsum(self.log_probabilities)

    @property
    def per_token(self) -> float:
        """The same divided by the number of tokens."""
        return self.total / len(self.log_probabilities)


@dataclass(frozen=True)
class Grown:
    """How far all rows are, token by token."""

    rows: tuple[Continuation, ...]
    length: int  # tokens that each will have, if it does not end by itself

    @property
    def fraction(self) -> float:
        return max(len(row.token_ids) for row in self.rows) / self.length


@dataclass(frozen=True)
class Timing:
    """What the batch bought.

    Attributes:
        batch: rows in a pass; 1 where the engine takes one sequence at a time.
        passes: reads of all weights, those of the comparison left out.
        tokens_per_weight_read: of those passes, rows that had ended left out; 0 where none was
            needed.
        batch_pass: milliseconds of the fastest pass of the batch, since whatever else the computer
            does only makes one slower; 0 without a pass.
        single_pass: the same of the first row alone.
    """

    batch: int
    passes: int
    tokens_per_weight_read: float
    batch_pass: float
    single_pass: float

    @property
    def batch_token(self) -> float:
        """Milliseconds per token in the batch."""
        return self.batch_pass / self.batch

    @property
    def gain(self) -> float:
        """How many times more tokens a second than one row alone; 0 where nothing was timed."""
        return self.single_pass / self.batch_token if self.batch_pass else 0.0


@dataclass(frozen=True)
class Finished:
    """All rows, and what they cost."""

    rows: tuple[Continuation, ...]
    timing: Timing


def needed_bytes(shape: ModelShape, positions: int, count: int, width: int = 4) -> int:
    """Bytes of the caches and of what one pass works with, for ``count`` rows."""
    caches = shape.cache_bytes(count, width, positions) + shape.cache_bytes(1, width, positions)
    scores = count * shape.num_heads * positions
    working = count * (4 * shape.model_dim + 3 * shape.mlp_dim + shape.vocabulary) + scores
    ranked = 6 * 8 * shape.vocabulary  # one row at a time is sorted in float64
    return caches + working * width + ranked


def continue_in_batch(
    engine: Engine, cache: Cache, plan: Plan, available: int | None
) -> Iterator[Grown | Finished]:
    """Grow all continuations together, a token of each at a time; the cache is only read.

    Args:
        engine: the engine that filled the cache.
        cache: holds at least the prefix.
        plan: what to do.
        available: bytes of memory at hand, None where unknown.

    Raises:
        CacheExhausted: there is no position left.
        NotEnoughMemory: the rows do not fit; the message has the numbers.
        NonFiniteLogits: there is nothing to sample from.
    """
    start = len(plan.prefix)
    length = min(plan.length, cache.capacity - start)
    if length < 1:
        raise CacheExhausted(start, cache.capacity)
    positions = start + length
    needed = needed_bytes(engine.shape, positions, plan.count, engine.dtype.itemsize)
    if available is not None and needed > available:
        raise NotEnoughMemory(
            f"{plan.count} continuations of {positions:,} positions need {format_bytes(needed)}, "
            f"and {format_bytes(available)} of memory are available"
        )
    growth = _Growth(engine, cache.rows(0, start), plan, length)
    yield growth.grown()
    yield from growth.grow()
    yield Finished(growth.rows(), growth.timing())


class _Growth:
    """The rows while they grow."""

    def __init__(self, engine: Engine, beginning: CacheRows, plan: Plan, length: int) -> None:
        self._engine = engine
        self._beginning = beginning
        self._plan = plan
        self._length = length
        self._generators = [
            np.random.default_rng(np.random.SeedSequence(plan.seed, spawn_key=(row,)))
            for row in range(plan.count)
        ]
        self._ids: list[list[int]] = [[] for _ in range(plan.count)]
        self._scores: list[list[float]] = [[] for _ in range(plan.count)]
        self._stats = DecodeStats()
        self._times: list[float] = []
        self._single: list[float] = []
        self._batch = 1
        for row in range(plan.count):
            self._choose(row, plan.logits)

    def grow(self) -> Iterator[Grown]:
        """All passes, then some of the first row alone."""
        for group in self._groups():
            ids, cache = group
            self._batch = len(ids)
            for _ in range(self._length - 1):
                growing = [row for row in ids if not self._ended(row)]
                if not growing:
                    break
                # A row that has ended stays in the batch, and what comes of it is not looked at.
                logits = self._timed(cache, [self._ids[row][-1] for row in ids], self._times)
                self._stats.record_decode(len(growing))
                for row in growing:
                    self._choose(row, logits[row - ids.start])
                yield self.grown()
        if self._batch == 1:
            self._single = self._times
            return
        alone = self._cache(1)
        for at in range(min(SINGLE_PASSES, len(self._times))):
            # Any tokens do: what a pass costs does not depend on them.
            self._timed(alone, [self._ids[0][min(at, len(self._ids[0]) - 1)]], self._single)
            yield self.grown()

    def _groups(self) -> list[tuple[range, Cache]]:
        """The rows that share passes: all of them, or each alone if the engine wants that."""
        count = self._plan.count
        try:
            return [(range(count), self._cache(count))]
        except ShapeMismatch:  # the traced tiny decoder takes one sequence at a time
            return [(range(row, row + 1), self._cache(1)) for row in range(count)]

    def _cache(self, batch: int) -> Cache:
        start = self._beginning.count
        made = self._engine.new_cache(start + self._length, batch=batch)
        made.restore(self._beginning)  # one row of it, for all rows of the batch
        return made

    def _timed(self, cache: Cache, ids: Sequence[int], times: list[float]) -> Array:
        """One pass of a token per row; logits (row, vocab)."""
        column = np.array(ids, dtype=np.int64)[:, np.newaxis]
        began = perf_counter()
        logits = self._engine.forward(column, cache)
        times.append((perf_counter() - began) * 1e3)
        found: Array = logits[:, -1]
        return found

    def _choose(self, row: int, logits: Array) -> None:
        plan = self._plan
        penalised = plan.config.repetition_penalty != 1.0
        history = (*plan.prefix, *self._ids[row]) if penalised else ()
        source = distribution(logits, plan.config, history)
        greedy = plan.config.deterministic
        uniform = 0.0 if greedy else float(self._generators[row].random())
        score = token_score(source, draw(source, uniform))
        self._ids[row].append(score.token)
        self._scores[row].append(score.log_probability)

    def _ended(self, row: int) -> bool:
        return self._ids[row][-1] in self._plan.end_ids

    def rows(self) -> tuple[Continuation, ...]:
        lines = zip(self._ids, self._scores, strict=True)
        return tuple(
            Continuation(row, tuple(ids), tuple(scores), self._ended(row))
            for row, (ids, scores) in enumerate(lines)
        )

    def grown(self) -> Grown:
        return Grown(self.rows(), self._length)

    def timing(self) -> Timing:
        return Timing(
            batch=self._batch,
            passes=self._stats.weight_reads,
            tokens_per_weight_read=self._stats.tokens_per_weight_read,
            batch_pass=min(self._times) if self._times else 0.0,
            single_pass=min(self._single) if self._single else 0.0,
        )
