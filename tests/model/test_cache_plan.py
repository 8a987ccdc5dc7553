"""Sizes of caches, against figures that their publishers and the field quote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.cache import KvCache
from model.cache_plan import KNOWN, CachePlan, ValueSize
from model.costs import attention_flops, bytes_moved, flops_cached
from model.errors import ShapeMismatch
from model.shape import ModelShape

GIB = 2**30


def test_published_shapes_give_the_figures_that_are_quoted() -> None:
    # 2 x 32 layers x 32 heads x 128 x 2 bytes is the half mebibyte a token that is often quoted.
    assert KNOWN["Llama 2 7B"].plan().bytes_per_token == 524_288
    assert KNOWN["Llama 2 7B"].plan().total == 2 * GIB
    assert KNOWN["Llama 3 8B"].plan().bytes_per_token == 131_072
    assert KNOWN["Llama 3.1 70B"].plan().total == 40 * GIB
    assert KNOWN["GPT-2 small"].plan(bytes_per_value=4).total == 72 * 2**20


def test_every_known_model_names_its_source_and_adds_up() -> None:
    for known in KNOWN.values():
        assert known.source.count("/") == 1
        plan = known.plan()
        assert plan.total == plan.bytes_per_token * plan.context
        assert known.heads % known.kv_heads == 0
        assert 1e8 < known.parameters < 1e12


def test_sharing_is_named_and_costs_in_proportion() -> None:
    plan = CachePlan(32, 32, 8, 128, 4096)
    assert plan.sharing == "grouped-query"
    assert plan.shared(32).sharing == "multi-head"
    assert plan.shared(1).sharing == "multi-query"
    assert plan.shared(32).total == 4 * plan.total == 32 * plan.shared(1).total


def test_a_memory_holds_whole_sequences() -> None:
    plan = CachePlan(32, 32, 32, 128, 4096)  # 2 GiB each
    assert plan.sequences_in(24 * GIB, besides=13.5 * GIB) == 5
    assert plan.sequences_in(13 * GIB, besides=13.5 * GIB) == 0
    assert plan.positions_in(3 * GIB) == 6144


@given(
    st.integers(1, 8), st.integers(1, 4), st.integers(1, 3), st.integers(1, 9), st.integers(1, 3)
)
def test_the_plan_is_what_a_cache_really_reserves(
    layers: int, kv_heads: int, groups: int, head_dim: int, batch: int
) -> None:
    plan = CachePlan(
        layers, kv_heads * groups, kv_heads, head_dim, 7, batch, ValueSize.FLOAT32.bytes
    )
    assert plan.total == KvCache(layers, batch, kv_heads, 7, head_dim).bytes_reserved


def test_what_makes_no_cache_is_refused_by_name() -> None:
    with pytest.raises(ShapeMismatch, match="head dim must be above 0"):
        CachePlan(1, 1, 1, 0, 1)
    with pytest.raises(ShapeMismatch, match="12 heads cannot share 5"):
        CachePlan(1, 12, 5, 64, 1)


def test_bytes_moved_and_attention_are_parts_of_the_counts() -> None:
    shape = ModelShape(depth=2, model_dim=8, num_heads=2, context_length=16, vocabulary=11)
    weights = 2 * (4 * 8 * 8 + 2 * 8 * 32) + 8 * 11
    assert bytes_moved(shape, 5, 1) == 4 * (weights + 2 * 2 * 8 * 6)
    assert bytes_moved(shape, 0, 6) == bytes_moved(shape, 5, 1)  # one read for all of a pass
    assert attention_flops(shape, 5, 1) == 4 * 8 * 6 * 2
    rest = flops_cached(shape, 5, 1) - attention_flops(shape, 5, 1)
    assert rest == 2 * weights
