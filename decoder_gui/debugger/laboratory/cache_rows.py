"""A row of the cache as it is now, against what was written there; what a shorter length does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.cache import KvCache
from model.engine import Array, Cache, Engine
from model.operations import Kind
from model.trace import Step, Trace


@dataclass(frozen=True, eq=False)
class CachedRow:
    """Keys and values of one position in one layer, with who wrote them.

    Attributes:
        keys, values: as the cache holds them now, (kv_head, d_head).
        step: the step that wrote them.
        changed: how many of their numbers differ in any bit from what that step computed; None
            where that was not recorded.
    """

    layer: int
    position: int
    keys: Array
    values: Array
    step: int
    changed: int | None

    @property
    def numbers(self) -> int:
        return int(self.keys.size + self.values.size)


def read_row(cache: Cache, trace: Trace, layer: int, position: int) -> CachedRow | None:
    """A copy of a row, compared with the record; None where the cache holds none there."""
    if not 0 <= position < cache.length:
        return None
    keys = cache.keys(layer)[0, :, position].copy()
    values = cache.values(layer)[0, :, position].copy()
    owner = next((s for s in trace.steps if s.first <= position < s.last), None)
    if owner is None:
        return None
    written = _written(trace, owner, layer, position)
    changed = None
    if written is not None:
        changed = sum(
            int(np.count_nonzero(_bits(now) != _bits(then)))
            for now, then in zip((keys, values), written, strict=True)
        )
    return CachedRow(layer, position, keys, values, owner.index, changed)


@dataclass(frozen=True)
class Shortened:
    """What setting a cache's length back did to the numbers behind it.

    Attributes:
        before, after: positions.
        numbers: keys and values of the positions that were forgotten, of all layers.
        changed: how many of them differ in any bit once the length is set forward again; None
            where the cache does not keep them.
    """

    before: int
    after: int
    numbers: int
    changed: int | None


def shorten(engine: Engine, cache: Cache, after: int) -> Shortened:
    """Set the length of a copy of a cache back to ``after``, then forward again, and compare.

    Raises:
        ShapeMismatch: the cache does not hold that many positions.
    """
    before = cache.length
    copy = engine.new_cache(max(1, before))
    copy.restore(cache.rows(0, before))
    forgotten = copy.rows(min(after, before), before)
    copy.rewind(after)
    changed = None
    if isinstance(copy, KvCache):
        copy.advance(before - after)
        again = copy.rows(after, before)
        pairs = ((again.keys, forgotten.keys), (again.values, forgotten.values))
        changed = sum(int(np.count_nonzero(_bits(now) != _bits(then))) for now, then in pairs)
    return Shortened(before, after, int(forgotten.keys.size + forgotten.values.size), changed)


def _written(trace: Trace, step: Step, layer: int, position: int) -> tuple[Array, Array] | None:
    """Keys and values of a position as its step computed them, (kv_head, d_head) each."""
    operation = next(
        (op for op in trace.operations if op.kind is Kind.CACHE and op.layer == layer), None
    )
    if operation is None:
        return None
    found = [trace.array(step.index, name) for name in operation.inputs]
    if len(found) != 2 or found[0] is None or found[1] is None:
        return None
    row = position - step.first
    return found[0][0, :, row], found[1][0, :, row]


def _bits(array: Array) -> Array:
    """The numbers as whole numbers, so that NaN equals itself and -0 is not 0."""
    whole = np.ascontiguousarray(array)
    kind: np.dtype[np.int64] | np.dtype[np.int32] = np.dtype(f"i{whole.dtype.itemsize}")
    bits: Array = whole.view(kind)
    return bits
