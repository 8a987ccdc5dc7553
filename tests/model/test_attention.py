"""Attention by stages: the mask for every chunk, and the seeds' two functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.attention import (
    attention_scores,
    cached_attention,
    fused_qkv_decode,
    query_blocks,
    softmax,
)
from model.layers import gelu_tanh, layer_norm, linear
from model.weights import Floats


def numbers(*size: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(size, dtype=np.float32)


@settings(max_examples=60)
@given(st.integers(1, 300), st.integers(0, 300), st.sampled_from([0, 1, 2, 150, None]))
def test_a_query_sees_itself_what_came_before_and_the_lookahead(
    queries: int, earlier: int, lookahead: int | None
) -> None:
    keys = earlier + queries
    query, key = numbers(1, 1, queries, 2), numbers(1, 1, keys, 2, seed=1)
    seen = np.zeros((queries, keys), dtype=bool)
    covered = 0
    for block in query_blocks(queries, keys, lookahead):
        assert block.start == covered
        covered = block.stop
        scores = attention_scores(query, key, block, 1.0)[0, 0]
        seen[block.start : block.stop, : block.seen] = np.isfinite(scores)
    assert covered == queries
    place = earlier + np.arange(queries)[:, np.newaxis]
    reach = keys if lookahead is None else lookahead
    assert np.array_equal(seen, np.arange(keys)[np.newaxis, :] <= place + reach)


def test_softmax_of_masked_and_extreme_scores() -> None:
    scores = np.array([[1e4, 1e4 - 1, -math.inf], [-math.inf] * 3], dtype=np.float32)
    weights = softmax(scores)
    np.testing.assert_allclose(weights[0], [1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0], 1e-6)
    assert not weights[1].any()
    assert weights.dtype == np.float32


def test_cached_attention_is_one_row_of_the_definition() -> None:
    query, keys, values = numbers(2, 3, 1, 4), numbers(2, 3, 7, 4, seed=1), numbers(2, 3, 7, 4)
    found = cached_attention(query, keys, values)
    scores = np.einsum("bhqd,bhkd->bhqk", query.astype(np.float64), keys) / 2
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found, np.einsum("bhqk,bhkd->bhqd", weights, values), rtol=1e-4)
    assert found.dtype == np.float32
    assert found.shape == (2, 3, 1, 4)


def test_fused_qkv_decode_is_three_products() -> None:
    hidden, weight = numbers(2, 1, 6), numbers(6, 18, seed=1)
    for index, part in enumerate(fused_qkv_decode(hidden, weight, heads=3)):
        wanted = (hidden[:, 0] @ weight[:, 6 * index : 6 * index + 6]).reshape(2, 3, 1, 2)
        np.testing.assert_allclose(part, wanted, rtol=1e-5)
        assert part.dtype == np.float32


def test_layer_norm_against_its_definition() -> None:
    hidden = numbers(2, 5, 33) * 3 + 2
    gain, shift = numbers(33, seed=1), numbers(33, seed=2)
    wide = hidden.astype(np.float64)
    wanted = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    found = layer_norm(hidden, gain, shift, 1e-5)
    np.testing.assert_allclose(found, wanted * gain + shift, rtol=1e-4, atol=1e-5)
    assert found.dtype == np.float32


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 100])
def test_gelu_in_chunks_and_in_place(rows: int) -> None:
    expanded = numbers(1, rows, 17) * 4
    x = expanded.astype(np.float64)
    wanted = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    found = gelu_tanh(expanded)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert gelu_tanh(expanded, out=expanded) is expanded
    assert np.array_equal(expanded, found)
    assert found.dtype == np.float32


def test_linear_treats_a_batch_as_rows() -> None:
    vectors, weight, bias = numbers(2, 3, 4), numbers(4, 5), numbers(5)
    wanted = np.einsum("bpi,io->bpo", vectors, weight) + bias
    np.testing.assert_allclose(linear(vectors, weight, bias), wanted, rtol=1e-5, atol=1e-6)
