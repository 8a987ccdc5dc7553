"""The traced tiny decoder behind the interface that the debugger speaks.

Nothing is computed here: :mod:`model.tiny` does all of it, and its traces become arrays of float64
under the canonical names, with a batch axis of 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from model import tiny
from model.ablation import UNEDITED, Edit, Edits
from model.engine import Activations, Array, Cache, CacheRows, TokenIds
from model.errors import CacheExhausted, ContextOverflow, EmptyPrompt, ShapeMismatch
from model.operations import Operation
from model.parameters import tiny_parameter
from model.shape import ModelShape
from model.tiny_edited import edited_block, edited_pass
from model.tiny_operations import OPERATIONS, TRACE_KEYS
from model.wiring import SOUND, Wiring

BYTES_PER_VALUE = 8
ESSENTIAL = frozenset({"blocks.0.resid_pre"})


class TinyCache:
    """The tiny decoder's own cache, of one layer and one head, with a capacity."""

    def __init__(self, capacity: int) -> None:
        self.table = tiny.KVCache()
        self._capacity = capacity

    @property
    def length(self) -> int:
        return len(self.table.keys)

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def bytes_used(self) -> int:
        return 2 * self.length * tiny.WIDTH * BYTES_PER_VALUE

    @property
    def bytes_reserved(self) -> int:
        return 2 * self._capacity * tiny.WIDTH * BYTES_PER_VALUE

    def keys(self, layer: int) -> Array:
        """Keys, (1, 1, length, 2), of layer 0: there is no other."""
        return _rows(self.table.keys, layer)

    def values(self, layer: int) -> Array:
        """Values, (1, 1, length, 2), of layer 0: there is no other."""
        return _rows(self.table.values, layer)

    def rewind(self, length: int) -> None:
        """Forget the rows from ``length`` on.

        Raises:
            ShapeMismatch: the cache does not hold that many.
        """
        if not 0 <= length <= self.length:
            raise ShapeMismatch(f"cannot rewind a cache of {self.length} positions to {length}")
        del self.table.keys[length:]
        del self.table.values[length:]

    def rows(self, first: int, last: int) -> CacheRows:
        """A copy of the rows of positions ``first`` up to ``last``; see :class:`Cache`."""
        if not 0 <= first <= last <= self.length:
            raise ShapeMismatch(f"the cache holds {self.length} positions, not {first} to {last}")
        keys, values = self.table.keys[first:last], self.table.values[first:last]
        return CacheRows(_rows(keys, 0)[np.newaxis], _rows(values, 0)[np.newaxis])

    def restore(self, rows: CacheRows) -> None:
        """Write rows after the last one and count them; see :class:`Cache`."""
        if self.length + rows.count > self.capacity:
            raise CacheExhausted(self.length + rows.count - 1, self.capacity)
        self.table.keys.extend(rows.keys[0, 0, 0].tolist())
        self.table.values.extend(rows.values[0, 0, 0].tolist())


def _rows(rows: Sequence[Sequence[float]], layer: int) -> Array:
    _refuse_layer(layer)
    return np.array(rows, dtype=np.float64).reshape(1, 1, len(rows), tiny.WIDTH)


@dataclass(frozen=True)
class TinyEngine:
    """:mod:`model.tiny` as an engine: one layer, one head, width 2, context 4, float64."""

    wiring: Wiring = SOUND
    weights: tiny.Coefficients = tiny.COEFFICIENTS
    edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        self._edits  # noqa: B018  refuses what this model has no part for

    @property
    def _edits(self) -> Edits:
        return Edits.of(self.edits, OPERATIONS, self.shape) if self.edits else UNEDITED

    def with_edits(self, edits: Sequence[Edit]) -> TinyEngine:
        """The same coefficients with other edits; see :class:`model.engine.Engine`."""
        return replace(self, edits=tuple(edits))

    @property
    def shape(self) -> ModelShape:
        return ModelShape(
            depth=1,
            model_dim=tiny.WIDTH,
            num_heads=1,
            context_length=tiny.CONTEXT,
            vocabulary=len(tiny.VOCAB),
            mlp_dim=tiny.FFN_WIDTH,
        )

    @property
    def parameters(self) -> int:
        weights = (getattr(self.weights, field.name) for field in fields(self.weights))
        return sum(np.size(np.array(weight)) for weight in weights)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    @property
    def tolerance(self) -> float:
        return 1e-12

    @property
    def norm(self) -> str:
        return "RMSNorm"

    @property
    def norm_epsilon(self) -> float:
        return tiny.EPSILON

    @property
    def activation(self) -> str:
        return "ReLU"

    @property
    def rotary(self) -> None:
        return None

    def parameter(self, name: str) -> Array | None:
        """A coefficient by its canonical name, read-only; see :mod:`model.parameters`."""
        return tiny_parameter(self.weights, name)

    @property
    def operations(self) -> tuple[Operation, ...]:
        return OPERATIONS

    def rewired(self, wiring: Wiring) -> TinyEngine:
        """The same coefficients under another wiring."""
        return replace(self, wiring=wiring)

    def poisoned(self) -> TinyEngine:
        """One NaN in the matrix that makes queries: seen first at ``attn.q``."""
        first, second = self.weights.w_q
        poisoned = (first, (second[0], math.nan))
        return replace(self, weights=replace(self.weights, w_q=poisoned))

    def new_cache(self, capacity: int | None = None, batch: int = 1) -> TinyCache:
        """An empty cache of at most four positions; see :class:`model.engine.Engine`."""
        _refuse_batch(batch)
        positions = tiny.CONTEXT if capacity is None else capacity
        if positions > tiny.CONTEXT:
            raise ContextOverflow(positions, tiny.CONTEXT, what="positions")
        if positions < 1:
            raise ShapeMismatch(f"a cache needs at least 1 position, not {positions}")
        return TinyCache(positions)

    def walk(
        self, token_ids: TokenIds, cache: Cache, *, keep: bool = True, all_logits: bool = False
    ) -> Iterator[Activations]:
        """One pass, as :meth:`model.engine.Engine.walk` describes it; the batch must be 1.

        A pass this small is computed at once, and refused at once; then it is handed out. A pass
        that is not kept still hands out the block's input, from which the rest can be had again.
        """
        held = _own(cache)
        ids = _checked(token_ids, held)
        rows = tiny.KVCache(list(held.table.keys), list(held.table.values))
        if self.edits:
            traces = edited_pass(ids, rows, self._edits, wiring=self.wiring, weights=self.weights)
        else:
            traces = tiny.run_pass(ids, rows, wiring=self.wiring, weights=self.weights)

        def hand_out() -> Iterator[Activations]:
            *others, last = OPERATIONS[:-1]
            for index, operation in enumerate(others):
                outputs = operation.outputs if keep else ESSENTIAL.intersection(operation.outputs)
                yield Activations(index, _arrays(outputs, traces, len(rows.keys)))
            held.table = rows  # the length moves here, once
            chosen = traces if all_logits else traces[-1:]
            yield Activations(len(others), _arrays(last.outputs, chosen, len(rows.keys)))

        return hand_out()

    def forward(self, token_ids: TokenIds, cache: Cache, *, all_logits: bool = False) -> Array:
        """The logits of a pass, (1, 1 or pos, 4)."""
        logits: Array | None = None
        for step in self.walk(token_ids, cache, keep=False, all_logits=all_logits):
            logits = step.arrays.get("logits")
        assert logits is not None
        return logits

    def replay_block(
        self, layer: int, resid_pre: Array, first: int, cache: Cache
    ) -> Iterator[Activations]:
        """The block's operations again, from the residual stream (1, pos, 2) at its input."""
        _refuse_layer(layer)
        _refuse_batch(resid_pre.shape[0])
        held = _own(cache)
        total = first + resid_pre.shape[1]
        if total > held.length:
            raise ShapeMismatch(f"the cache holds {held.length} positions, not {total}")
        rows = tiny.KVCache(held.table.keys[:total], held.table.values[:total])
        embedded = [tiny.Embedded([], [], x) for x in resid_pre[0].tolist()]
        if self.edits:
            traces = edited_block(
                embedded, rows, self._edits, wiring=self.wiring, weights=self.weights
            )
        else:
            projected = [tiny.project_qkv(position.x, self.weights) for position in embedded]
            traces = tiny.attend_and_finish(
                embedded, projected, rows, first, wiring=self.wiring, weights=self.weights
            )
        return iter(
            [
                Activations(index, _arrays(operation.outputs, traces, total))
                for index, operation in enumerate(OPERATIONS)
                if operation.layer == layer
            ]
        )


def _own(cache: Cache) -> TinyCache:
    if not isinstance(cache, TinyCache):
        raise TypeError(f"the tiny decoder needs its own cache, not a {type(cache).__name__}")
    return cache


def _checked(token_ids: TokenIds, cache: TinyCache) -> list[int]:
    """The ids of the only batch row, after every reason to refuse them."""
    if token_ids.ndim != 2:
        raise ShapeMismatch(f"token ids need the axes (batch, pos), not {token_ids.ndim} axes")
    _refuse_batch(token_ids.shape[0])
    ids: list[int] = token_ids[0].tolist()
    if not ids:
        raise EmptyPrompt
    end = cache.length + len(ids)
    if end > cache.capacity:
        if cache.length == 0:
            raise ContextOverflow(end, cache.capacity)
        raise CacheExhausted(end - 1, cache.capacity)
    return ids


def _refuse_layer(layer: int) -> None:
    if layer != 0:
        raise ShapeMismatch(f"the tiny decoder has one layer, 0, and no layer {layer}")


def _refuse_batch(batch: int) -> None:
    if batch != 1:
        raise ShapeMismatch(f"the tiny decoder runs one sequence at a time, not a batch of {batch}")


def _arrays(
    outputs: Iterable[str], traces: Sequence[tiny.PositionTrace], keys: int
) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name in outputs:
        key = TRACE_KEYS[name]
        if key == "scores":
            arrays[name] = _per_key(traces, key, keys, absent=-math.inf)
        elif key == "attention_weights":
            arrays[name] = _per_key(traces, key, keys, absent=0.0)
        elif key in ("query", "key", "value", "mixed"):
            arrays[name] = _stack(traces, key)[:, np.newaxis]  # a head axis
        else:
            arrays[name] = _stack(traces, key)
    return arrays


def _stack(traces: Sequence[tiny.PositionTrace], key: str) -> Array:
    """One row per position: (1, pos, width of that key)."""
    rows = [[trace[key] for trace in traces]]  # type: ignore[literal-required]
    return _read_only(np.array(rows, dtype=np.float64))


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _per_key(traces: Sequence[tiny.PositionTrace], key: str, keys: int, *, absent: float) -> Array:
    """Ragged rows as (1, 1, pos, keys); a key that the query may not see is ``absent``."""
    filled = np.full((1, 1, len(traces), keys), absent)
    for i, trace in enumerate(traces):
        row: list[float] = trace[key]  # type: ignore[literal-required]
        filled[0, 0, i, : len(row)] = row
    return _read_only(filled)
