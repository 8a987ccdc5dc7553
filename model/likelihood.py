"""What a decoder's logits say about a text: its exact likelihood, perplexity and loss.

By the chain rule the log-probability of a text is the sum of those of its tokens, each given the
ones before it; one forward pass computes them all, and nothing is approximated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from model.errors import ShapeMismatch, UnknownToken
from model.ranking import real_array, stable_log_softmax


def exact_log_likelihood(
    logits_per_position: ArrayLike, targets: Sequence[int] | NDArray[np.integer]
) -> float:
    """Log-probability (nats) of the targets, one for each row of logits.

    Args:
        logits_per_position: (pos, vocab); row i is what the model says about target i.
        targets: (pos,) token ids: the text shifted by one.

    Raises:
        ShapeMismatch: not one row per target.
        UnknownToken: a target outside the vocabulary.
        NonFiniteLogits: a row that is no distribution.
    """
    rows, ids = _paired(logits_per_position, targets)
    # Row by row: the logits of a whole context are large, and a second copy of them larger.
    return math.fsum(
        float(stable_log_softmax(row)[target]) for row, target in zip(rows, ids, strict=True)
    )


def training_loss(
    logits_per_position: ArrayLike, targets: Sequence[int] | NDArray[np.integer]
) -> float:
    """Mean cross-entropy (nats per token) against the true next token at every position.

    Arguments and errors are those of :func:`exact_log_likelihood`; no targets at all are a
    ShapeMismatch.
    """
    count = len(targets)
    if not count:
        raise ShapeMismatch("a mean over 0 targets is not defined: at least 1 is needed")
    return -exact_log_likelihood(logits_per_position, targets) / count


def perplexity(
    logits_per_position: ArrayLike, targets: Sequence[int] | NDArray[np.integer]
) -> float:
    """exp of the mean negative log-likelihood: between how many tokens the model hesitates.

    Infinite where a target has probability 0. Arguments and errors are those of
    :func:`training_loss`.
    """
    loss = training_loss(logits_per_position, targets)
    return math.exp(loss) if loss < 709.0 else math.inf


def _paired(
    logits: ArrayLike, targets: Sequence[int] | NDArray[np.integer]
) -> tuple[NDArray[np.float64], list[int]]:
    ids = np.asarray(targets)
    if ids.size and (ids.ndim != 1 or ids.dtype.kind not in "iu"):
        raise ShapeMismatch(f"targets must be (pos,) token ids, not {ids.dtype} of {ids.shape}")
    rows = real_array(logits)
    if not ids.size and not rows.size:
        return np.zeros((0, 1)), []
    if rows.ndim != 2 or len(rows) != ids.size:
        raise ShapeMismatch(
            f"{ids.size} targets need logits of shape ({ids.size}, vocab), not {rows.shape}"
        )
    for token in ids.tolist():
        if not 0 <= token < rows.shape[1]:
            raise UnknownToken(f"token {token} is outside the vocabulary 0..{rows.shape[1] - 1}")
    return rows, ids.tolist()
