"""Training the unembedding alone: the tiny decoder's golden numbers, and properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import tiny
from model.errors import InvalidLearningRate, NonFiniteLogits, ShapeMismatch, UnknownToken
from model.head_training import HeadTraining, begin, step


def of_tiny(target: str = "sat") -> HeadTraining:
    traces, _ = tiny.prefill(tiny.tokenize("The cat"))
    last = traces[-1]
    return begin(last["final"], last["logits"], tiny.TOKEN_IDS[target])


def test_one_step_on_tiny_gives_the_golden_losses() -> None:
    after = step(of_tiny(), 0.1)
    assert [round(loss, 6) for loss in after.losses] == [0.728599, 0.654798]


def test_the_step_is_that_of_the_traced_decoder() -> None:
    traces, _ = tiny.prefill(tiny.tokenize("The cat"))
    update = tiny.head_only_training_step(traces[-1]["final"], tiny.TOKEN_IDS["sat"], 0.1)
    before = of_tiny()
    after = step(before, 0.1)
    columns = np.asarray(tiny.COEFFICIENTS.w_lm).T
    for token in range(len(tiny.VOCAB)):
        assert before.gradient(token) == pytest.approx([row[token] for row in update.gradients])
        assert after.column(token, columns[token]) == pytest.approx(
            [row[token] for row in update.head]
        )
    assert after.losses == pytest.approx((update.loss_before, update.loss_after))


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    generator = np.random.default_rng(5)
    hidden, head = generator.normal(size=6), generator.normal(size=(6, 9))
    start = begin(hidden, hidden @ head, 4)
    small = 1e-6
    for row, column in ((0, 4), (3, 2), (5, 8)):
        moved = head.copy()
        moved[row, column] += small
        slope = (begin(hidden, hidden @ moved, 4).losses[0] - start.losses[0]) / small
        assert start.gradient(column)[row] == pytest.approx(slope, abs=1e-5)
    whole = np.outer(hidden, start.errors)
    assert start.gradient_norm == pytest.approx(float(np.linalg.norm(whole)))


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(0.001, 0.05))
def test_small_steps_lower_the_loss_and_the_copy_says_the_same_as_its_columns(
    seed: int, steps: int, rate: float
) -> None:
    generator = np.random.default_rng(seed)
    hidden, head = generator.normal(size=4), generator.normal(size=(4, 7))
    training = begin(hidden, hidden @ head, 3)
    for _ in range(steps):
        training = step(training, rate)
    assert training.steps == steps
    assert all(
        later < earlier
        for earlier, later in zip(training.losses, training.losses[1:], strict=False)
    )
    copy = np.stack([training.column(t, head[:, t]) for t in range(7)], axis=1)
    assert hidden @ copy == pytest.approx(training.logits)
    assert training.probabilities.sum() == pytest.approx(1.0)
    assert training.first_logits == pytest.approx(hidden @ head)  # the model's own is untouched


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(UnknownToken, match=r"0\.\.3"):
        begin([1.0], [0.0] * 4, 4)
    with pytest.raises(NonFiniteLogits):
        begin([1.0], [0.0, float("nan")], 0)
    with pytest.raises(ShapeMismatch):
        begin([[1.0]], [0.0], 0)
    for rate in (0.0, -0.1, float("nan"), float("inf")):
        with pytest.raises(InvalidLearningRate):
            step(of_tiny(), rate)
