"""The key-value cache: it must give what a full pass gives, and its rows must never change."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from model.checks.core import (
    CheckResult,
    Subject,
    Where,
    as_batch,
    check,
    number,
    plural,
    within,
    worse,
)
from model.checks.observe import Observation, observe_pass
from model.engine import Array, Cache

ROWS = 64  # compared at a time: logits of a long prompt are large in float64


@check("cache-equals-full", "decoding with the cache gives what a full pass without it gives")
def cache_equals_full(subject: Subject) -> CheckResult:
    """Prefill and decode of the engine in hand, against one full pass of the sound engine.

    Every array of every position is compared, relative to the largest value of the full pass's
    array. Only the rows that will be decoded are kept meanwhile, so a long prompt costs no memory.
    """
    tolerance = subject.sound_engine.tolerance
    worst, worst_at, first, arrays = 0.0, None, None, 0
    for seen, reference in _pairs(subject):
        arrays += 1
        difference = relative_difference(seen.array, reference)
        where = Where(
            layer=seen.operation.layer,
            query=seen.first,
            step=seen.step,
            operation=seen.name,
        )
        if worse(difference, worst):
            worst, worst_at = difference, where
        if first is None and not within(difference, tolerance):
            first = (seen, difference, where)
    compared = (
        f"{plural(arrays, 'array')} of {plural(subject.prefilled, 'position')} in prefill and "
        f"{subject.decoded} in decode"
    )
    if first is None:
        detail = (
            f"{compared} agree with a full pass; largest relative difference {number(worst)}"
            f"{_at(worst_at)}{subject.remark}"
        )
        return CheckResult("cache-equals-full", True, worst, tolerance, detail, worst_at)
    seen, difference, where = first
    place = "before the blocks" if where.layer is None else f"in layer {where.layer}"
    if where.layer is None and seen.name in ("ln_final", "logits"):
        place = "after the blocks"
    detail = (
        f"{seen.name} {place} is the first to differ from a full pass of the sound model, by "
        f"{number(difference)} relative ({seen.run}, step {seen.step}, position "
        f"{seen.first}{_through(seen)}); largest {number(worst)}{_at(worst_at)}; {compared}"
    )
    return CheckResult("cache-equals-full", False, worst, tolerance, detail, where)


def _at(where: Where | None) -> str:
    return "" if where is None else f" at {where.operation}, step {where.step}"


def _through(seen: Observation) -> str:
    rows = seen.array.shape[-2]
    return f" to {seen.first + rows - 1}" if rows > 1 else ""


def _pairs(subject: Subject) -> Iterator[tuple[Observation, Array]]:
    """Every array with its rows of the full pass; the prefill advances beside the full pass."""
    ids, split = subject.token_ids, subject.prefilled
    cache = subject.new_cache()
    decoded: dict[str, Array] = {}
    full = observe_pass(subject.sound_engine, ids, subject.new_cache(), "full", 0, all_logits=True)
    prefill = observe_pass(subject.engine, ids[:split], cache, "prefill", 0, all_logits=True)
    for reference, seen in zip(full, prefill, strict=True):
        assert reference.name == seen.name
        decoded[seen.name] = reference.array[0][..., split:, :].copy()
        yield seen, reference.array[0][..., :split, :]
    for step, token_id in enumerate(ids[split:], start=1):
        row = step - 1
        for seen in observe_pass(subject.engine, (token_id,), cache, "decode", step):
            yield seen, decoded[seen.name][..., row : row + 1, :]


def relative_difference(array: Array, reference: Array) -> float:
    """Largest difference over the largest finite value of the reference; NaN if either has NaN.

    Args:
        array: (1, ..., pos, n)
        reference: (..., pos, m) with m >= n: keys beyond n are masked and left out.
    """
    apart = largest = 0.0
    for start in range(0, array.shape[-2], ROWS):
        ours = array[0][..., start : start + ROWS, :].astype(np.float64)
        theirs = reference[..., start : start + ROWS, : ours.shape[-1]].astype(np.float64)
        same = ours == theirs  # -infinity, a masked score, is equal to itself
        with np.errstate(invalid="ignore"):
            difference = float(np.where(same, 0.0, np.abs(ours - theirs)).max())
        if worse(difference, apart):
            apart = difference
        finite = np.abs(theirs[np.isfinite(theirs)])
        largest = max(largest, float(finite.max()) if finite.size else 0.0)
    return apart / (largest or 1.0)


@check("cache-constant", "keys and values of old positions never change")
def cache_constant(subject: Subject) -> CheckResult:
    """Compare the bits of all cached rows before and after every later step."""
    name, tolerance = "cache-constant", 0.0
    if not subject.decoded:
        detail = f"nothing to examine{subject.remark}"
        return CheckResult(name, True, 0.0, tolerance, detail)
    engine, layers = subject.engine, subject.engine.shape.depth
    ids, cache = subject.token_ids, subject.new_cache()
    engine.forward(as_batch(ids[: subject.prefilled]), cache)
    changed, worst, where, detail = 0, 0.0, None, ""
    for step, token_id in enumerate(ids[subject.prefilled :], start=1):
        before = [_rows(cache, layer) for layer in range(layers)]
        length = cache.length
        engine.forward(as_batch([token_id]), cache)
        if cache.length != length + 1:
            detail = f"step {step} moved the length of the cache from {length} to {cache.length}"
            return CheckResult(name, False, math.inf, tolerance, detail, Where(step=step))
        for layer, rows in enumerate(before):
            bits = _changed_rows(rows, _rows(cache, layer)[..., :length, :])
            changed += len(bits)
            if not len(bits):
                continue
            with np.errstate(invalid="ignore"):
                moved = np.abs(_rows(cache, layer)[..., :length, :] - rows)
            move = float(moved.max())
            if worse(move, worst) or where is None:
                worst = move
                where = Where(layer=layer, key=int(bits[0]), step=step)
                detail = (
                    f"step {step} changed the cached row of position {bits[0]} in layer {layer} "
                    f"by up to {number(move)}, with {plural(length, 'position')} in the cache"
                )
    if changed:
        detail += f"; {plural(changed, 'row')} changed in {plural(subject.decoded, 'step')}"
        return CheckResult(name, False, worst, tolerance, detail, where)
    detail = (
        f"keys and values of {plural(layers, 'layer')} kept their bits through "
        f"{plural(subject.decoded, 'later step')}, from {plural(subject.prefilled, 'position')} to "
        f"{len(ids)}{subject.remark}"
    )
    return CheckResult(name, True, 0.0, tolerance, detail)


def _rows(cache: Cache, layer: int) -> Array:
    """A copy of keys and values of one layer, (2, kv_head, length, d_head)."""
    return np.stack([cache.keys(layer)[0], cache.values(layer)[0]])


def _changed_rows(before: Array, after: Array) -> Array:
    """Positions at which a bit differs; NaN is the same as NaN if its bits are."""
    bits = np.dtype(f"u{before.itemsize}")
    differs = np.ascontiguousarray(before).view(bits) != np.ascontiguousarray(after).view(bits)
    positions: Array = np.flatnonzero(differs.any(axis=(0, 1, 3)))
    return positions
