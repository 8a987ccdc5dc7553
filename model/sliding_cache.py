"""A cache that lets its oldest rows go, for showing what that does to a model.

Source of keeping the first tokens: Xiao et al., Efficient Streaming Language Models with Attention
Sinks, 2023. Unlike there the rows keep the positions that they were computed at: their keys were
turned for them, or their tokens' positions added, and that cannot be undone in a cache.
"""

from __future__ import annotations

from model.cache import KvCache
from model.errors import ShapeMismatch


class SlidingCache(KvCache):
    """A :class:`KvCache` with room made by :meth:`let_go`."""

    def __init__(self, depth: int, batch: int, heads: int, context: int, head_dim: int) -> None:
        super().__init__(depth, batch, heads, context, head_dim)
        self._dropped = 0

    @property
    def position(self) -> int:
        """The position that the next token has: those that were let go are counted."""
        return self._length + self._dropped

    @property
    def dropped(self) -> int:
        """Rows that were let go so far."""
        return self._dropped

    def let_go(self, count: int, *, keep_first: int = 0) -> None:
        """Forget the oldest rows but the first few; those behind move up.

        Raises:
            ShapeMismatch: the cache does not hold that many.
        """
        if count < 0 or keep_first < 0 or keep_first + count > self._length:
            raise ShapeMismatch(
                f"a cache of {self._length} positions cannot keep {keep_first} and let {count} go"
            )
        rest = slice(keep_first + count, self._length)
        target = slice(keep_first, self._length - count)
        for held in (self._keys, self._values):
            held[:, :, :, target] = held[:, :, :, rest].copy()
        self._length -= count
        self._dropped += count

    def rewind(self, length: int) -> None:
        """Only to nothing: rows that were let go do not come back.

        Raises:
            ShapeMismatch: another length, once rows were let go.
        """
        if self._dropped and length:
            raise ShapeMismatch("a cache that has let rows go can only be emptied")
        super().rewind(length)
        self._dropped = 0
