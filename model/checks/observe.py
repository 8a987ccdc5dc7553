"""Runs of an engine as a stream of arrays, each with what is needed to say where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from model.checks.core import Subject, as_batch
from model.engine import Array, Cache, Engine
from model.operations import Operation
from model.trace import Trace


@dataclass(frozen=True)
class Observation:
    """One array of one pass.

    ``run`` says in words what kind of pass it is, ``step`` counts passes from 0, ``first`` is the
    first position of the pass; the array has its batch axis.
    """

    run: str
    step: int
    first: int
    operation: Operation
    name: str
    array: Array


def observe_pass(
    engine: Engine,
    token_ids: tuple[int, ...],
    cache: Cache,
    run: str,
    step: int,
    *,
    all_logits: bool = False,
) -> Iterator[Observation]:
    """Every array of one pass over some tokens, on top of what the cache holds."""
    first = cache.length
    operations = engine.operations
    for done in engine.walk(as_batch(token_ids), cache, all_logits=all_logits):
        for name, array in done.arrays.items():
            yield Observation(run, step, first, operations[done.operation], name, array)


def observe_prefill_and_decode(subject: Subject) -> Iterator[Observation]:
    """Prefill in one pass, then each further token in one of its own."""
    cache = subject.new_cache()
    ids, split = subject.token_ids, subject.prefilled
    yield from observe_pass(subject.engine, ids[:split], cache, "prefill", 0)
    for step, token_id in enumerate(ids[split:], start=1):
        yield from observe_pass(subject.engine, (token_id,), cache, "decode", step)


def observe_decode(subject: Subject) -> Iterator[Observation]:
    """Only the passes of one token each, after a prefill that nothing is recorded of."""
    cache = subject.new_cache()
    ids, split = subject.token_ids, subject.prefilled
    subject.engine.forward(as_batch(ids[:split]), cache)
    for step, token_id in enumerate(ids[split:], start=1):
        yield from observe_pass(subject.engine, (token_id,), cache, "decode", step)


def observe_chunks(subject: Subject) -> Iterator[Observation]:
    """All tokens in two passes, the second of them over a cache that is not empty."""
    cache = subject.new_cache()
    ids = subject.token_ids
    split = max(1, len(ids) // 2)
    for step, chunk in enumerate((ids[:split], ids[split:])):
        if chunk:
            yield from observe_pass(subject.engine, chunk, cache, "chunked prefill", step)


def observe_all(subject: Subject) -> Iterator[Observation]:
    """All tokens in one pass, then some of them one by one, then all of them in two passes."""
    ids = subject.token_ids
    yield from observe_pass(subject.engine, ids, subject.new_cache(), "prefill", 0)
    yield from observe_decode(subject)
    yield from observe_chunks(subject)


def observe_recorded(trace: Trace, step: int, begin: int = 0) -> Iterator[Observation]:
    """What a trace holds of one step, from operation ``begin`` on; no engine runs."""
    recorded = trace.steps[step]
    for index in range(begin, trace.events_in(step)):
        operation = trace.operations[index]
        for name in operation.outputs:
            array = trace.array(step, name)
            if array is not None:
                yield Observation(str(recorded.phase), step, recorded.first, operation, name, array)


def later_keys(observation: Observation) -> Array:
    """Which entries of a (batch, head, pos, key) array are above the diagonal; (pos, key)."""
    queries, keys = observation.array.shape[-2:]
    first = observation.first
    mask: Array = np.arange(keys) > np.arange(first, first + queries)[:, np.newaxis]
    return mask


def hidden_keys(observation: Observation) -> Array:
    """The same with the keys that lie before a sliding window; (pos, key)."""
    hidden = later_keys(observation)
    window = observation.operation.window
    if window:
        queries, keys = observation.array.shape[-2:]
        oldest = np.arange(queries)[:, np.newaxis] + observation.first + 1 - window
        hidden |= np.arange(keys) < oldest
    return hidden
