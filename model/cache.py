"""The key-value cache: keys and values of every position processed so far."""

from __future__ import annotations

import numpy as np

from model.engine import CacheRows
from model.errors import CacheExhausted, ShapeMismatch
from model.weights import Floats

FLOAT = np.float32


class KvCache:
    """Keys and values of all layers, reserved in full when it is made.

    Layout is (layer, batch, kv_head, position, d_head): position is the axis that grows, and as the
    last but one it keeps the history of a head in one run of memory. Old rows never change, because
    under a causal mask nothing that comes later is part of what made them.
    """

    def __init__(self, depth: int, batch: int, heads: int, context: int, head_dim: int) -> None:
        for name, size in (("batch", batch), ("capacity", context)):
            if size < 1:
                raise ShapeMismatch(f"a cache needs a {name} of at least 1, not {size}")
        self._keys = np.zeros((depth, batch, heads, context, head_dim), dtype=FLOAT)
        self._values = np.zeros((depth, batch, heads, context, head_dim), dtype=FLOAT)
        self._length = 0

    @property
    def length(self) -> int:
        """Positions in use."""
        return self._length

    @property
    def position(self) -> int:
        """The position that the next token has; the length, unless rows in front were let go."""
        return self._length

    @property
    def capacity(self) -> int:
        """Positions reserved."""
        return self._keys.shape[3]

    @property
    def batch(self) -> int:
        """Sequences held side by side; all have the same length."""
        return self._keys.shape[1]

    @property
    def bytes_reserved(self) -> int:
        """Bytes of keys and values of the whole capacity."""
        return self._keys.nbytes + self._values.nbytes

    def bytes(self) -> int:
        """What the cache takes from memory, in use or not: the same as ``bytes_reserved``."""
        return self.bytes_reserved

    @property
    def bytes_used(self) -> int:
        """Bytes of keys and values of the positions in use."""
        return self.bytes_reserved // self.capacity * self._length

    def keys(self, layer: int) -> Floats:
        """Keys of a layer, (batch, kv_head, length, d_head): a view, valid until the next write."""
        return self._keys[layer, :, :, : self._length]

    def values(self, layer: int) -> Floats:
        """Values of a layer, (batch, kv_head, length, d_head): a view."""
        return self._values[layer, :, :, : self._length]

    def append(
        self, layer: int, keys: Floats, values: Floats, *, at: int | None = None
    ) -> tuple[Floats, Floats]:
        """Write the rows after the last one in one layer and return that layer's whole history.

        The length stays: every layer writes at the same positions, and :meth:`advance` moves it
        once for all of them.

        Args:
            layer: the layer written.
            keys, values: (batch, kv_head, pos, d_head)
            at: the first row written, if not the one after the last (only a deliberate fault).

        Returns:
            Views of keys and values, (batch, kv_head, length + pos, d_head).

        Raises:
            CacheExhausted: there is no room for them.
        """
        width = keys.shape[2]
        end = self._length + width
        if end > self.capacity:
            raise CacheExhausted(end - 1, self.capacity)
        start = self._length if at is None else at
        self._keys[layer, :, :, start : start + width] = keys
        self._values[layer, :, :, start : start + width] = values
        return self._keys[layer, :, :, :end], self._values[layer, :, :, :end]

    def advance(self, width: int) -> None:
        """Count the positions just written: once for a pass, not once for a layer."""
        if self._length + width > self.capacity:
            raise CacheExhausted(self._length + width - 1, self.capacity)
        self._length += width

    def rewind(self, length: int) -> None:
        """Forget the rows from ``length`` on; nothing is copied or cleared.

        Raises:
            ShapeMismatch: the cache does not hold that many.
        """
        if not 0 <= length <= self._length:
            raise ShapeMismatch(f"cannot rewind a cache of {self._length} positions to {length}")
        self._length = length

    def rows(self, first: int, last: int) -> CacheRows:
        """A copy of the rows of positions ``first`` up to ``last``, of all layers.

        Raises:
            ShapeMismatch: the cache does not hold them.
        """
        if not 0 <= first <= last <= self._length:
            raise ShapeMismatch(f"the cache holds {self._length} positions, not {first} to {last}")
        return CacheRows(
            self._keys[:, :, :, first:last].copy(), self._values[:, :, :, first:last].copy()
        )

    def restore(self, rows: CacheRows) -> None:
        """Write rows after the last one and count them.

        Raises:
            CacheExhausted: there is no room for them.
        """
        start, end = self._length, self._length + rows.count
        if end > self.capacity:
            raise CacheExhausted(end - 1, self.capacity)
        self._keys[:, :, :, start:end] = rows.keys
        self._values[:, :, :, start:end] = rows.values
        self._length = end

    def reset(self) -> None:
        """Forget everything and keep the memory for the next run."""
        self._length = 0
