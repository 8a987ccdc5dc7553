"""Two guards against failures that make no noise: a wrong mask, and a prompt without its front."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from model.errors import CausalityViolation, ContextOverflow, ShapeMismatch
from model.ranking import real_array
from model.shape import ModelShape


def assert_causal(
    attention: ArrayLike | Sequence[Sequence[float]], tolerance: float = 1e-9
) -> None:
    """Refuse attention weights in which a position attends to a later one.

    Args:
        attention: (..., query, key). With more keys than queries, as in a chunk on a filled cache,
            the last query is the position of the last key. Rows of growing length, as the tiny
            decoder's trace has them, are those of positions 0, 1, 2 and so on.
        tolerance: the largest weight above the diagonal that passes.

    Raises:
        CausalityViolation: the first such weight in reading order (or a NaN there), with the
            positions of its query and key.
        ShapeMismatch: fewer than two axes, more queries than keys, or not real numbers.
    """
    weights = real_array(_squared(attention))
    if weights.ndim < 2:
        raise ShapeMismatch(f"attention must have shape (..., query, key), not {weights.shape}")
    queries, keys = weights.shape[-2:]
    if queries > keys:
        raise ShapeMismatch(f"attention of {queries} queries over only {keys} keys")
    first = keys - queries  # the position of query 0
    later = np.triu(np.ones((queries, keys), dtype=bool), first + 1)
    leaks = np.argwhere(later & ~(np.abs(weights) <= tolerance))
    if leaks.size:
        at = tuple(int(index) for index in leaks[0])
        raise CausalityViolation(first + at[-2], at[-1], float(weights[at]))


def _squared(attention: ArrayLike | Sequence[Sequence[float]]) -> ArrayLike:
    """Rows of unlike lengths as a square, with weight 0 where a row has ended."""
    if isinstance(attention, np.ndarray | str) or not isinstance(attention, Sequence):
        return attention
    rows = [list(row) for row in attention if isinstance(row, Sequence)]
    if len(rows) < len(attention) or len({len(row) for row in rows}) < 2:
        return attention
    side = max(len(rows), *(len(row) for row in rows))
    rows += [[] for _ in range(side - len(rows))]
    return [row + [0.0] * (side - len(row)) for row in rows]  # (query, key)


def fit_context(
    tokens: Sequence[int], shape: ModelShape, allow_truncation: bool = False
) -> list[int]:
    """The tokens as a list, if they fit in the context.

    Args:
        tokens: token ids.
        shape: the model; its context_length is the limit.
        allow_truncation: drop tokens from the FRONT instead of refusing; that is where the
            instructions of a prompt are, so nothing does it without being asked.

    Raises:
        ContextOverflow: too many tokens, and truncation was not allowed.
    """
    limit = shape.context_length
    if len(tokens) > limit and not allow_truncation:
        raise ContextOverflow(
            len(tokens), limit, "truncating would remove the instructions at the front"
        )
    return list(tokens[-limit:])
