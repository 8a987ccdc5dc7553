"""Logit lens: what each block's residual stream would say if the model ended there.

A residual goes through the model's own final norm and unembedding. The logits of all layers and
positions are never held together: rows are read in slices, and of each row a few top tokens, their
probabilities and the rank of one token of interest are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from model.blueprint import Norm
from model.engine import Array
from model.layers import NORMS

SLICE_BYTES = 16 * 2**20  # logits held at a time: enough rows for a fast product
TOP = 5
NO_TARGET = -1

Ids = NDArray[np.int64]
Doubles = NDArray[np.float64]


@runtime_checkable
class Readout(Protocol):
    """What the lens needs of a model; both engines are one of these."""

    @property
    def norm(self) -> str: ...
    @property
    def norm_epsilon(self) -> float: ...
    def parameter(self, name: str) -> Array | None: ...


class NoReadout(LookupError):
    """The model in hand has no final norm or unembedding to read with; the message says which."""


@dataclass(frozen=True)
class LensRows:
    """What some residual vectors say, one row each.

    Attributes:
        ids: the tokens of the highest logits, (rows, top), highest first, the lower id first among
            equals.
        probabilities: of those, softmax at temperature 1, (rows, top), float64.
        target_ids: the token of interest of each row, -1 for none, (rows,).
        target_probabilities: NaN where there is none, (rows,).
        target_ranks: 1 is the most likely token; 0 where there is none, (rows,).
        entropy: of the whole distribution, in nats, (rows,).
        finite: whether all logits of the row are finite numbers, (rows,); the rest of such a row
            that is not means nothing.
    """

    ids: Ids
    probabilities: Doubles
    target_ids: Ids
    target_probabilities: Doubles
    target_ranks: Ids
    entropy: Doubles
    finite: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ids)


def reader(weights: object) -> Callable[[Array], Array]:
    """The function from residual rows (rows, d_model) to logits (rows, vocab).

    Raises:
        NoReadout: ``weights`` is not a :class:`Readout` or lacks a matrix.
    """
    normed, unembed = _parts(weights)
    return lambda rows: unembed(normed(rows))


def normer(weights: object) -> Callable[[Array], Array]:
    """The model's final norm, of residual rows (rows, d_model).

    Raises:
        NoReadout: as :func:`reader`.
    """
    return _parts(weights)[0]


def unembedder(weights: object) -> Callable[[Array], Array]:
    """The function from rows that the final norm has seen already to logits.

    Raises:
        NoReadout: as :func:`reader`.
    """
    return _parts(weights)[1]


def lens_top(weights: object, rows: Array) -> Ids:
    """The most likely token of each residual row (rows, d_model); -1 where logits are not finite.

    Raises:
        NoReadout: as :func:`reader`.
    """
    read = reader(weights)
    found = np.empty(len(rows), dtype=np.int64)
    with np.errstate(all="ignore"):
        for part in slices(len(rows), _vocabulary(weights)):
            logits = read(rows[part])
            best = logits.argmax(axis=-1)
            found[part] = np.where(np.isfinite(logits).all(axis=-1), best, -1)
    return found


def slices(rows: int, vocabulary: int, itemsize: int = 4) -> Iterator[slice]:
    """Parts of the rows whose logits fit into :data:`SLICE_BYTES`."""
    size = max(1, SLICE_BYTES // max(1, vocabulary * itemsize))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def summarize(logits: Array, targets: Ids, *, top: int = TOP) -> LensRows:
    """The few numbers to keep of logits (rows, vocab)."""
    count, vocabulary = logits.shape
    finite: NDArray[np.bool_] = np.isfinite(logits).all(axis=-1)  # type: ignore[assignment]
    top = min(top, vocabulary)
    ids = _highest(logits, top)
    peak = logits.max(axis=-1, keepdims=True)
    shifted = logits - peak
    powers = np.exp(shifted)
    totals = powers.sum(axis=-1, dtype=np.float64)
    # H = log Σe^s − Σ s·e^s / Σe^s, of the shifted logits; e^s = 0 has no part in it.
    weighted = np.einsum("rv,rv->r", powers, np.where(powers > 0, shifted, 0), dtype=np.float64)
    at = np.arange(count)
    wanted = targets != NO_TARGET
    held = np.where(wanted, targets, 0)
    own = logits[at, held]
    higher = (logits > own[:, np.newaxis]).sum(axis=-1)
    equal = np.array(
        [int((row[:token] == row[token]).sum()) for row, token in zip(logits, held, strict=True)],
        dtype=np.int64,
    )
    return LensRows(
        ids=ids,
        probabilities=np.take_along_axis(powers, ids, axis=-1) / totals[:, np.newaxis],
        target_ids=targets.astype(np.int64),
        target_probabilities=np.where(wanted, powers[at, held] / totals, np.nan),
        target_ranks=np.where(wanted, 1 + higher + equal, 0),
        entropy=np.log(totals) - weighted / totals,
        finite=finite,
    )


def _highest(logits: Array, top: int) -> Ids:
    """Ids of the highest logits, (rows, top), the lower id first among equals."""
    count, vocabulary = logits.shape
    found = np.empty((count, top), dtype=np.int64)
    for i, row in enumerate(logits):
        if top < vocabulary:
            edge = np.partition(row, vocabulary - top)[vocabulary - top]
            # At least `top` of them: every one that equals the edge is a candidate for the rest.
            candidates = np.flatnonzero(row >= edge)
        else:
            candidates = np.arange(vocabulary)
        if len(candidates) < top:  # NaN among them: nothing sensible to list
            candidates = np.arange(top)
        order = np.argsort(-row[candidates], kind="stable")[:top]
        found[i] = candidates[order]
    return found


def _parts(weights: object) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    if not isinstance(weights, Readout):
        raise NoReadout("the weights of this model are not at hand")
    matrix, bias = weights.parameter("unembed.W_U"), weights.parameter("unembed.b_U")
    if matrix is None:
        raise NoReadout("this model has no unembedding to read with")
    gain, shift = weights.parameter("ln_final.w"), weights.parameter("ln_final.b")
    function, epsilon = NORMS[Norm(weights.norm)], weights.norm_epsilon
    scale: Any = np.ones(len(matrix), matrix.dtype) if gain is None else gain

    def normed(rows: Array) -> Array:
        return function(rows, scale, shift, epsilon)

    def unembed(rows: Array) -> Array:
        logits: Array = rows @ matrix
        return logits if bias is None else logits + bias

    return normed, unembed


def _vocabulary(weights: object) -> int:
    matrix = weights.parameter("unembed.W_U") if isinstance(weights, Readout) else None
    return 1 if matrix is None else int(matrix.shape[-1])
