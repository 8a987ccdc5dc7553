"""An engine as far as a recording can be one: it plays the recorded steps and computes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from model.ablation import Edit
from model.blueprint import Blueprint
from model.captured_blueprint import blueprint_of
from model.captured_operations import captured_operations, whole_run
from model.captured_run import Capture, CapturedStep
from model.engine import Activations, Array, Cache, CacheRows, TokenIds
from model.errors import ContextOverflow, NoWeights, ShapeMismatch
from model.operations import Operation
from model.shape import ModelShape
from model.wiring import SOUND, Wiring


class CapturedEngine:
    """Implements :class:`model.engine.Engine` around a capture.

    :meth:`walk` answers for exactly the passes that were recorded, in their order over one cache;
    everything else is refused with :class:`NoWeights`.

    Raises:
        ShapeMismatch: what the capture says of its model contradicts itself.
    """

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.blueprint: Blueprint = blueprint_of(capture)
        self._operations = captured_operations(capture, self.blueprint)
        parameters = capture.blueprint.get("parameters", 0)
        self._parameters = parameters if type(parameters) is int else 0

    @property
    def shape(self) -> ModelShape:
        return self.blueprint.shape

    @property
    def parameters(self) -> int:
        """As the capture says, or 0."""
        return self._parameters

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """float64 if all was recorded in it, else float32."""
        arrays = (array for step in self.capture.steps for array in step.arrays.values())
        doubles = all(array.dtype == np.float64 for array in arrays)
        return np.dtype(np.float64 if doubles else np.float32)

    @property
    def tolerance(self) -> float:
        """How far recorded and recomputed numbers may differ, relative."""
        if any("upcast" in remark for remark in self.capture.remarks):
            return 3e-2  # bfloat16 has 8 bits
        return 1e-9 if self.dtype == np.float64 else 1e-4

    @property
    def operations(self) -> tuple[Operation, ...]:
        return self._operations

    @property
    def wiring(self) -> Wiring:
        return SOUND

    def rewired(self, wiring: Wiring) -> NoReturn:
        """Refused: a recording cannot be wired otherwise."""
        raise NoWeights("no fault can be switched on in it")

    def poisoned(self) -> NoReturn:
        """Refused, as :meth:`rewired`."""
        raise NoWeights("no fault can be switched on in it")

    @property
    def edits(self) -> tuple[Edit, ...]:
        return ()

    def with_edits(self, edits: Sequence[Edit]) -> CapturedEngine:
        """Itself without edits; with some it is refused, as :meth:`rewired`."""
        if edits:
            raise NoWeights("nothing in it can be changed and computed again")
        return self

    def new_cache(self, capacity: int | None = None, batch: int = 1) -> CapturedCache:
        """A cache that holds as much of the recorded keys and values as has been played."""
        positions = self.shape.context_length if capacity is None else capacity
        if positions > self.shape.context_length:
            raise ContextOverflow(
                positions, self.shape.context_length, "the capture has no more", what="positions"
            )
        if batch != 1 or positions < 1:
            raise ShapeMismatch("a capture is of one sequence of at least one position")
        return CapturedCache(self, positions)

    def walk(
        self, token_ids: TokenIds, cache: Cache, *, keep: bool = True, all_logits: bool = False
    ) -> Iterator[Activations]:
        """The recorded pass over these tokens on top of what the cache holds.

        Arrays are always those that were recorded, whatever ``keep`` and ``all_logits`` say.

        Raises:
            NoWeights: no such pass was recorded.
        """
        if not isinstance(cache, CapturedCache):
            raise ShapeMismatch(f"a {type(cache).__name__} is not a cache of this engine")
        step = self.step_at(cache.length)
        if step is None or token_ids.tolist() != [list(step.token_ids)]:
            raise NoWeights
        return self._play(step, cache)

    def forward(self, token_ids: TokenIds, cache: Cache, *, all_logits: bool = False) -> Array:
        """The recorded logits of such a pass.

        Raises:
            NoWeights: there are none.
        """
        for activations in self.walk(token_ids, cache):
            if "logits" in activations.arrays:
                return activations.arrays["logits"]
        raise NoWeights("its logits were not recorded")

    def replay_block(
        self, layer: int, resid_pre: Array, first: int, cache: Cache
    ) -> Iterator[Activations]:
        """Refused: what was not recorded cannot be brought back."""
        raise NoWeights(f"what was not recorded of block {layer} cannot be computed again")

    @cached_property
    def lacks(self) -> str:
        """The first array of a whole run that was not recorded, or an empty string."""
        every = whole_run(self.blueprint)
        for index, step in enumerate(self.capture.steps):
            for name in every:
                if name not in step.arrays:
                    return f"{name} of step {index}"
        return ""

    def step_at(self, first: int) -> CapturedStep | None:
        """The recorded step that begins at a position."""
        return next((step for step in self.capture.steps if step.first == first), None)

    def _play(self, step: CapturedStep, cache: CapturedCache) -> Iterator[Activations]:
        last = len(self._operations) - 2  # the one before sample
        for index, operation in enumerate(self._operations[:-1]):
            arrays = {n: step.arrays[n] for n in operation.outputs if n in step.arrays}
            if index == last:
                cache.advance(len(step.token_ids))
            yield Activations(index, arrays)


class CapturedCache:
    """The recorded keys and values of the positions that have been played."""

    def __init__(self, engine: CapturedEngine, capacity: int) -> None:
        self._engine = engine
        self._capacity = capacity
        self._length = 0

    @property
    def length(self) -> int:
        return self._length

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def bytes_used(self) -> int:
        """What keys and values of so many positions take in the capture's type."""
        return self._bytes(self._length)

    @property
    def bytes_reserved(self) -> int:
        """The same for the whole capacity."""
        return self._bytes(self._capacity)

    def keys(self, layer: int) -> Array:
        """Keys as attention took them, (1, kv_head, length, d_head)."""
        prefix = f"blocks.{layer}.attn."
        names = {name for step in self._engine.capture.steps for name in step.arrays}
        for short in ("rot_k", "k_norm", "k"):
            if prefix + short in names:
                return self._rows(prefix + short)
        return self._rows(prefix + "k")

    def values(self, layer: int) -> Array:
        """Values, (1, kv_head, length, d_head)."""
        return self._rows(f"blocks.{layer}.attn.v")

    def rewind(self, length: int) -> None:
        """Set the length back."""
        if not 0 <= length <= self._length:
            raise ShapeMismatch(f"cannot rewind a cache of {self._length} positions to {length}")
        self._length = length

    def rows(self, first: int, last: int) -> CacheRows:
        """Keys and values of the positions from ``first`` up to ``last``, of all layers."""
        layers = range(self._engine.shape.depth)
        keys = np.stack([self.keys(layer)[:, :, first:last] for layer in layers])
        values = np.stack([self.values(layer)[:, :, first:last] for layer in layers])
        return CacheRows(keys, values)

    def restore(self, rows: CacheRows) -> None:
        """Go on as after so many positions more; they can only be those that were recorded."""
        end = self._length + rows.count
        if end > min(self._capacity, len(self._engine.capture.token_ids)):
            raise NoWeights
        self._length = end

    def advance(self, width: int) -> None:
        """Count the positions of a step that was played."""
        self._length += width

    def _rows(self, name: str) -> Array:
        steps = [step for step in self._engine.capture.steps if step.first < self._length]
        if not all(name in step.arrays for step in steps):
            raise NoWeights(f"{name} was not recorded")
        shape = self._engine.shape
        if not steps:
            return np.zeros((1, shape.kv_heads, 0, shape.head_dim), self._engine.dtype)
        rows = np.concatenate([step.arrays[name] for step in steps], axis=2)
        return rows[:, :, : self._length]

    def _bytes(self, positions: int) -> int:
        return self._engine.shape.cache_bytes(1, self._engine.dtype.itemsize, positions)
