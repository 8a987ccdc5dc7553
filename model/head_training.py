"""Training nothing but the unembedding, on a copy, for one fixed final vector.

For a final vector h and logits l = h·W + b, the gradient of the cross-entropy with respect to the
logits is the error e = softmax(l) - onehot(target), and with respect to W it is the outer product
of h and e. A step on a copy of W therefore moves the logits by -rate · (h·h) · e, and all steps
together have moved W by the outer product of h and one vector: the copy is never written out.

Source: the tiny decoder's head-only step (:func:`model.tiny.head_only_training_step`), whose
numbers these are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from model.errors import InvalidLearningRate, ShapeMismatch, UnknownToken
from model.ranking import real_array, stable_log_softmax

Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeadTraining:
    """A copy of the unembedding after some steps towards one target.

    Attributes:
        hidden: the final vector that is trained on, (d_model,) float64.
        target_id: the token that should come next.
        first_logits: before any step, (vocab,) float64.
        moved: what the steps have taken from each column, in units of h: column t of the copy is
            W[:, t] - hidden · moved[t]; (vocab,).
        losses: cross-entropy in nats before each step and after the last one.
    """

    hidden: Doubles
    target_id: int
    first_logits: Doubles
    moved: Doubles
    losses: tuple[float, ...]

    @property
    def steps(self) -> int:
        """Steps taken."""
        return len(self.losses) - 1

    @property
    def logits(self) -> Doubles:
        """Of the copy as it is now, (vocab,)."""
        moved: Doubles = self.first_logits - float(self.hidden @ self.hidden) * self.moved
        return moved

    @property
    def probabilities(self) -> Doubles:
        """Of the copy as it is now, (vocab,)."""
        return _softmax(self.logits)

    @property
    def first_probabilities(self) -> Doubles:
        """Before any step, (vocab,)."""
        return _softmax(self.first_logits)

    @property
    def errors(self) -> Doubles:
        """Gradient of the loss with respect to the logits: probability minus target, (vocab,)."""
        errors = self.probabilities
        errors[self.target_id] -= 1.0
        return errors

    def gradient(self, token_id: int) -> Doubles:
        """Gradient of the loss with respect to one column of the unembedding, (d_model,)."""
        slopes: Doubles = self.hidden * self.errors[token_id]
        return slopes

    @property
    def gradient_norm(self) -> float:
        """Euclidean norm of the gradient of the whole unembedding."""
        return float(np.linalg.norm(self.hidden) * np.linalg.norm(self.errors))

    def column(self, token_id: int, weights: ArrayLike) -> Doubles:
        """A column of the copy, (d_model,), from the model's own."""
        own = np.asarray(weights, dtype=np.float64)
        column: Doubles = own - self.hidden * self.moved[token_id]
        return column


def begin(hidden: ArrayLike, logits: ArrayLike, target_id: int) -> HeadTraining:
    """Before the first step.

    Args:
        hidden: (d_model,), what the unembedding reads.
        logits: (vocab,), what it says.
        target_id: the token that should come next.

    Raises:
        ShapeMismatch: not one vector each.
        UnknownToken: a target outside the vocabulary.
        NonFiniteLogits: there is no distribution to begin with.
    """
    vector, row = np.asarray(hidden, dtype=np.float64), real_array(logits)
    if vector.ndim != 1 or row.ndim != 1:
        raise ShapeMismatch(
            f"training reads one vector and one row of logits, not {vector.shape} and {row.shape}"
        )
    if not 0 <= target_id < len(row):
        raise UnknownToken(f"token {target_id} is outside the vocabulary 0..{len(row) - 1}")
    return HeadTraining(
        hidden=vector,
        target_id=target_id,
        first_logits=row,
        moved=np.zeros(len(row)),
        losses=(-float(stable_log_softmax(row)[target_id]),),
    )


def step(training: HeadTraining, learning_rate: float) -> HeadTraining:
    """One step of gradient descent on the copy.

    Raises:
        InvalidLearningRate: not a positive finite number.
    """
    if not (math.isfinite(learning_rate) and learning_rate > 0):
        raise InvalidLearningRate(learning_rate)
    moved = training.moved + learning_rate * training.errors
    after = replace(training, moved=moved)
    loss = -float(stable_log_softmax(after.logits)[training.target_id])
    return replace(after, losses=(*training.losses, loss))


def _softmax(logits: Doubles) -> Doubles:
    return np.exp(stable_log_softmax(logits))
