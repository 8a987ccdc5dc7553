"""Counters, FLOPs and cache bytes, against counts made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.costs import (
    DecodeStats,
    Work,
    arithmetic_intensity,
    flops_cached,
    flops_recomputed,
    work_so_far,
)
from model.errors import ShapeMismatch
from model.shape import ModelShape

SMALL = ModelShape(depth=2, model_dim=4, num_heads=2, context_length=16, vocabulary=10, mlp_dim=8)
SHARED = ModelShape(
    depth=2,
    model_dim=4,
    num_heads=4,
    context_length=16,
    vocabulary=10,
    kv_heads=2,
    head_dim=3,
    mlp_dim=8,
)
GATED = replace(SHARED, gated=True, windows=(0, 3))


def counted(shape: ModelShape, first: int, count: int) -> int:
    """The same FLOPs, counted one product at a time."""
    queries, keys = shape.num_heads * shape.head_dim, shape.kv_heads * shape.head_dim
    flops = 0
    for layer in range(shape.depth):
        for position in range(first, first + count):
            for inputs, outputs in (
                (shape.model_dim, queries),
                (shape.model_dim, keys),
                (shape.model_dim, keys),
                (queries, shape.model_dim),
                (shape.model_dim, shape.mlp_dim),
                (shape.mlp_dim, shape.model_dim),
                *([(shape.model_dim, shape.mlp_dim)] if shape.gated else []),
            ):
                flops += 2 * inputs * outputs
            for key in range(position + 1):
                if (
                    shape.windows
                    and shape.windows[layer]
                    and position - key >= shape.windows[layer]
                ):
                    continue
                flops += shape.num_heads * (2 * shape.head_dim + 2 * shape.head_dim)
    return flops + (2 * shape.model_dim * shape.vocabulary if count else 0)


@pytest.mark.parametrize("shape", [SMALL, SHARED, GATED])
@given(first=st.integers(0, 8), count=st.integers(0, 8))
def test_flops_are_those_of_the_products(shape: ModelShape, first: int, count: int) -> None:
    assert flops_cached(shape, first, count) == counted(shape, first, count)
    assert flops_recomputed(shape, first + count) == counted(shape, 0, first + count)


def test_one_decoded_token_by_hand() -> None:
    # Per block: 2 x (4 matrices of 4x4 + 2 of 4x8) = 256; 3 keys x 4 x 4 = 48. Logits 2 x 4 x 10.
    assert flops_cached(SMALL, 2, 1) == 2 * (256 + 48) + 80


def test_work_saved_is_the_ratio_of_the_sums() -> None:
    passes = [(0, 3), (3, 1), (4, 1)]
    cached = sum(flops_cached(SMALL, first, count) for first, count in passes)
    recomputed = sum(flops_recomputed(SMALL, total) for total in (3, 4, 5))
    assert work_so_far(SMALL, passes) == Work(cached, recomputed)
    assert work_so_far(SMALL, passes).saved == pytest.approx(1 - cached / recomputed)
    assert Work(cached, recomputed).ratio == pytest.approx(recomputed / cached)


def test_nothing_is_saved_before_there_is_something_to_reuse() -> None:
    assert work_so_far(SMALL, []).saved == 0.0
    assert Work(0, 0).ratio == 1.0
    assert work_so_far(SMALL, [(0, 7)]).saved == 0.0
    assert work_so_far(SMALL, [(0, 7), (7, 0)]).saved == 0.0


@given(st.integers(1, 60))
def test_more_is_saved_with_every_token_and_never_all(tokens: int) -> None:
    passes = [(0, 4)] + [(4 + i, 1) for i in range(tokens)]
    before, now = work_so_far(SMALL, passes[:-1]).saved, work_so_far(SMALL, passes).saved
    assert 0.0 <= before < now < 1.0


def test_impossible_passes_are_refused() -> None:
    for first, count in ((-1, 2), (0, -2)):
        with pytest.raises(ShapeMismatch, match=f"{count} positions"):
            flops_cached(SMALL, first, count)


def test_stats_count_prefill_and_decode_apart() -> None:
    stats = DecodeStats()
    assert stats.tokens_per_weight_read == 0.0
    stats.record_prefill(10)
    assert stats.tokens_per_weight_read == 10.0
    stats.record_decode()
    stats.record_decode(batch=3)
    assert stats == DecodeStats(
        prefill_tokens=10, decode_tokens=4, cache_positions=14, weight_reads=3
    )
    assert stats.tokens_per_weight_read == pytest.approx(14 / 3)


def test_cache_bytes_are_a_product() -> None:
    # 2 x 2 layers x 1 sequence x 5 positions x 2 key/value heads x 3 d_head x 4 bytes
    assert SHARED.cache_bytes(1, 4, 5) == 480
    assert SMALL.cache_bytes(3) == 1536  # the whole context


def test_intensity_of_decode_depends_on_the_batch_alone() -> None:
    assert arithmetic_intensity(124_000_000, 1) == 1.0
    assert arithmetic_intensity(7, 8) == 8.0
    assert arithmetic_intensity(7, 1, 4) == 0.5
    assert arithmetic_intensity(1000, 1, 0.5) == 4.0
    for arguments in ((0, 1, 2), (1, 0, 2), (1, 1, 0)):
        with pytest.raises(ShapeMismatch, match="positive"):
            arithmetic_intensity(*arguments)
