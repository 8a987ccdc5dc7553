"""Two guards against failures that make no noise: a wrong mask, and a prompt without its front."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from model.errors import CausalityViolation, ContextOverflow, ShapeMismatch
from model.ranking import real_array
from model.shape import ModelShape


def assert_causal(attention: ArrayLike, tolerance: float = 1e-9) -> None:
    """Refuse attention weights in which a position attends to a later one.

    Args:
        attention: (..., query, key). With more keys than queries, as in a chunk on a filled cache,
            the last query is the position of the last key.
        tolerance: the largest weight above the diagonal that passes.

    Raises:
        CausalityViolation: the first such weight in reading order (or a NaN there), with the
            positions of its query and key.
        ShapeMismatch: fewer than two axes, more queries than keys, or not real numbers.
    """
    weights = real_array(attention)
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
