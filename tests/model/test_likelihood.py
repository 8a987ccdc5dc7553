"""Likelihood, perplexity and loss of logits, and the two guards."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from model import tiny
from model.errors import (
    CausalityViolation,
    ContextOverflow,
    NonFiniteLogits,
    ShapeMismatch,
    UnknownToken,
)
from model.guards import assert_causal, fit_context
from model.likelihood import exact_log_likelihood, perplexity, training_loss
from model.shape import ModelShape

SHAPE = ModelShape(depth=1, model_dim=4, num_heads=2, context_length=4, vocabulary=8)
LOGITS = np.log([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])
LOGITS += np.array([[3.0], [-40.0]])  # a row's shift is free


def test_likelihood_is_the_sum_over_the_targets() -> None:
    assert exact_log_likelihood(LOGITS, [1, 2]) == pytest.approx(math.log(0.25 * 0.7))
    assert training_loss(LOGITS, [1, 2]) == pytest.approx(-math.log(0.25 * 0.7) / 2)
    assert perplexity(LOGITS, np.array([1, 2])) == pytest.approx(1 / math.sqrt(0.25 * 0.7))


def test_a_uniform_model_is_as_perplexed_as_its_vocabulary() -> None:
    assert perplexity(np.zeros((5, 11), np.float32), [0, 10, 3, 3, 7]) == pytest.approx(11)


def test_a_confident_mistake_has_its_full_cost() -> None:
    assert exact_log_likelihood([[0.0, -5000.0]], [1]) == -5000.0
    assert perplexity([[0.0, -5000.0]], [1]) == math.inf
    assert exact_log_likelihood([[0.0, -math.inf]], [1]) == -math.inf
    assert perplexity([[0.0, -math.inf]], [1]) == math.inf


def test_no_targets_have_probability_one_and_no_mean() -> None:
    assert exact_log_likelihood([], []) == 0.0
    for mean in (training_loss, perplexity):
        with pytest.raises(ShapeMismatch, match="0 targets"):
            mean([], [])


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeMismatch, match=r"3 targets .* not \(2, 3\)"):
        exact_log_likelihood(LOGITS, [1, 2, 0])
    with pytest.raises(ShapeMismatch):
        exact_log_likelihood(LOGITS[0], [1])
    with pytest.raises(ShapeMismatch, match="token ids"):
        exact_log_likelihood(LOGITS, [0.0, 1.0])  # type: ignore[list-item]
    for token in (3, -1):
        with pytest.raises(UnknownToken, match=rf"token {token} .* 0\.\.2"):
            exact_log_likelihood(LOGITS, [0, token])
    with pytest.raises(NonFiniteLogits, match="token 1 is NaN"):
        exact_log_likelihood([[0.0, math.nan]], [0])


def causal(queries: int, keys: int) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.tril(np.ones((queries, keys)), keys - queries)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def test_causal_attention_passes_square_and_chunked() -> None:
    assert_causal(causal(4, 4))
    assert_causal(causal(2, 5))
    assert_causal(causal(1, 7))
    assert_causal(np.stack([causal(3, 3), causal(3, 3)])[None])
    assert_causal([[1.0, 5e-10], [0.5, 0.5]])


@given(st.integers(1, 6), st.integers(0, 5), st.data())
def test_any_later_weight_is_found_with_its_place(
    queries: int, cached: int, data: st.DataObject
) -> None:
    keys = queries + cached
    query = data.draw(st.integers(0, queries - 1))
    later = list(range(cached + query + 1, keys))
    weights = causal(queries, keys)
    if not later:
        assert_causal(weights)
        return
    key = data.draw(st.sampled_from(later))
    weights[query, key] = data.draw(st.sampled_from([1e-6, -0.25, math.nan, math.inf]))
    with pytest.raises(CausalityViolation) as leak:
        assert_causal(weights[None])
    assert (leak.value.query, leak.value.key) == (cached + query, key)
    assert leak.value.weight == pytest.approx(weights[query, key], nan_ok=True)
    assert f"query {cached + query} attends to the later key {key}" in str(leak.value)


def test_rows_of_growing_length_are_those_of_the_tiny_decoder() -> None:
    rows = [trace["attention_weights"] for trace in tiny.full_forward([0, 1, 2])]
    assert [len(row) for row in rows] == [1, 2, 3]
    assert_causal(rows)
    with pytest.raises(CausalityViolation) as leak:
        assert_causal([[1.0], [0.5, 0.25, 0.25]])
    assert (leak.value.query, leak.value.key) == (1, 2)
    with pytest.raises(CausalityViolation) as leak:
        assert_causal([[0.5, 0.5], [1.0]])
    assert (leak.value.query, leak.value.key) == (0, 1)


def test_attention_of_an_impossible_shape_is_refused() -> None:
    for attention in ([1.0, 0.0], np.ones((3, 2))):
        with pytest.raises(ShapeMismatch):
            assert_causal(attention)


def test_a_text_that_fits_stays_whole() -> None:
    for tokens in ([], [1], (5, 6, 7, 0)):
        assert fit_context(tokens, SHAPE) == list(tokens)
        assert fit_context(tokens, SHAPE, True) == list(tokens)


def test_a_text_that_does_not_fit_is_refused_unless_truncation_was_asked_for() -> None:
    with pytest.raises(ContextOverflow, match="5 tokens do not fit in a context of 4"):
        fit_context([1, 2, 3, 4, 5], SHAPE)
    assert fit_context([1, 2, 3, 4, 5], SHAPE, allow_truncation=True) == [2, 3, 4, 5]
