"""What the debugger asks of an engine, whichever it is.

Two engines implement it: :class:`model.tiny_engine.TinyEngine` around the traced tiny decoder, and
:class:`model.decoder.Decoder`, the NumPy engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from model.operations import Operation
from model.shape import ModelShape
from model.wiring import Wiring

if TYPE_CHECKING:
    from model.ablation import Edit

Array = NDArray[Any]
TokenIds = NDArray[np.int64]


@dataclass(frozen=True)
class Activations:
    """What one operation of a pass produced.

    ``operation`` is the index into the engine's ``operations``; ``arrays`` maps canonical names to
    arrays with a leading batch axis. They are never written again by the engine.
    """

    operation: int
    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class CacheRows:
    """Keys and values of some consecutive positions, copied out of a cache.

    Both are (layer, batch, kv_head, pos, d_head).
    """

    keys: Array
    values: Array

    @property
    def count(self) -> int:
        """How many positions."""
        return int(self.keys.shape[3])

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes + self.values.nbytes)

    def part(self, start: int, stop: int) -> CacheRows:
        """The rows from ``start`` up to ``stop``, counted from the first of these; a view."""
        return CacheRows(self.keys[:, :, :, start:stop], self.values[:, :, :, start:stop])


class Cache(Protocol):
    """Keys and values of the positions processed so far."""

    @property
    def length(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def bytes_used(self) -> int: ...
    @property
    def bytes_reserved(self) -> int: ...

    def keys(self, layer: int) -> Array:
        """Keys of one layer, (batch, kv_head, length, d_head), as a view."""
        ...

    def values(self, layer: int) -> Array:
        """Values of one layer, (batch, kv_head, length, d_head): a view."""
        ...

    def rewind(self, length: int) -> None:
        """Set the length back; the rows beyond it are forgotten, nothing is copied."""
        ...

    def rows(self, first: int, last: int) -> CacheRows:
        """A copy of the rows of positions ``first`` up to ``last``.

        Raises:
            ShapeMismatch: the cache does not hold them.
        """
        ...

    def restore(self, rows: CacheRows) -> None:
        """Write rows after the last one and count them: what :meth:`rows` copied, bit for bit.

        Raises:
            CacheExhausted: there is no room for them.
        """
        ...


class Engine(Protocol):
    """A decoder that runs forward over a cache and tells what it computed."""

    @property
    def shape(self) -> ModelShape: ...
    @property
    def parameters(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def tolerance(self) -> float:
        """How far cached and full passes may differ, relative (1e-12 tiny, 1e-4 float32)."""
        ...

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All operations of one step, in order; the last one is ``sample``."""
        ...

    @property
    def wiring(self) -> Wiring: ...

    def rewired(self, wiring: Wiring) -> Engine:
        """The same weights under another wiring."""
        ...

    @property
    def edits(self) -> tuple[Edit, ...]:
        """What is changed in a pass where it is computed; see :mod:`model.ablation`."""
        ...

    def with_edits(self, edits: Sequence[Edit]) -> Engine:
        """The same weights and wiring with these edits instead of those that there are.

        A pass hands out each array as edited. Without edits it makes the bits that it always did.

        Raises:
            EditNotPossible: this model has no such part, or the values do not fit it.
        """
        ...

    def poisoned(self) -> Engine:
        """A copy of the engine with one NaN among its weights (the fault ``nan-weight``)."""
        ...

    def new_cache(self, capacity: int | None = None, batch: int = 1) -> Cache:
        """An empty cache; the capacity defaults to the model's context.

        Raises:
            ContextOverflow: the model has no positions for that capacity.
        """
        ...

    def walk(
        self, token_ids: TokenIds, cache: Cache, *, keep: bool = True, all_logits: bool = False
    ) -> Iterator[Activations]:
        """One pass over token_ids (batch, pos) on top of what the cache holds, as a generator.

        Yields an Activations per operation, in the order of ``operations`` and without ``sample``.
        With ``keep`` false the arrays of most operations are left out (the order stays, and the
        last one still holds ``logits``). The results are bit-identical either way. ``logits`` is
        (batch, 1, vocab) for the last position, or (batch, pos, vocab) with all_logits. The cache
        length moves once, when the last operation has been computed: abandoning the generator
        before that leaves the cache as it was.

        Raises:
            EmptyPrompt: no positions.
            UnknownToken: an id outside the vocabulary.
            CacheExhausted: the positions do not fit into the cache.
            ContextOverflow: the model has no such position.
        """
        ...

    def forward(self, token_ids: TokenIds, cache: Cache, *, all_logits: bool = False) -> Array:
        """:meth:`walk` without recording; returns the logits."""
        ...

    def replay_block(
        self, layer: int, resid_pre: Array, first: int, cache: Cache
    ) -> Iterator[Activations]:
        """Recompute one block of an earlier pass from the residual stream at its input.

        resid_pre is (batch, pos, d_model) of positions first.. ; the cache must still hold those
        positions. Yields that block's operations, bit-identical to the original pass.
        """
        ...
