"""A cache that lets rows go: which are left, where, and what the engine makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from model.errors import ContextOverflow, ShapeMismatch
from model.random_model import random_decoder
from model.shape import ModelShape
from model.sliding_cache import SlidingCache

SHAPE = ModelShape(depth=2, model_dim=16, num_heads=2, context_length=24, vocabulary=30)
IDS = np.arange(1, 13)


def cache(capacity: int) -> SlidingCache:
    return SlidingCache(SHAPE.depth, 1, SHAPE.kv_heads, capacity, SHAPE.head_dim)


def test_rows_that_stay_are_the_first_and_the_newest() -> None:
    engine = random_decoder(SHAPE, seed=3)
    small = cache(8)
    engine.forward(IDS[np.newaxis, :8], small)
    before = [small.keys(layer).copy() for layer in range(2)]
    small.let_go(3, keep_first=2)
    assert (small.length, small.dropped, small.position) == (5, 3, 8)
    for layer in range(2):
        assert np.array_equal(small.keys(layer), before[layer][:, :, [0, 1, 5, 6, 7]])


def test_the_next_token_keeps_its_true_position() -> None:
    engine = random_decoder(SHAPE, seed=3)
    small, whole = cache(8), engine.new_cache(12)
    engine.forward(IDS[np.newaxis, :8], small)
    engine.forward(IDS[np.newaxis, :8], whole)
    small.let_go(1)
    activations = list(engine.walk(IDS[np.newaxis, 8:9], small))
    reference = list(engine.walk(IDS[np.newaxis, 8:9], whole))
    for name in ("pos_embed", "blocks.0.attn.k", "blocks.0.attn.v"):
        one, other = (
            next(a.arrays[name] for a in found if name in a.arrays)
            for found in (activations, reference)
        )
        assert np.array_equal(one, other)
    pattern = next(
        a.arrays["blocks.0.attn.pattern"]
        for a in activations
        if "blocks.0.attn.pattern" in a.arrays
    )
    assert pattern.shape[-1] == 8  # 9 positions, one of them gone


def test_nothing_changes_where_nothing_is_let_go() -> None:
    engine = random_decoder(SHAPE, seed=3)
    logits = engine.forward(IDS[np.newaxis], cache(12))
    assert np.array_equal(logits, engine.forward(IDS[np.newaxis], engine.new_cache(12)))


def test_positions_beyond_the_model_are_refused_though_there_is_room() -> None:
    engine = random_decoder(SHAPE, seed=3)
    small = cache(4)
    for position in range(24):
        if small.length == 4:
            small.let_go(1)
        engine.forward(np.asarray([[position % 30]]), small)
    small.let_go(1)
    with pytest.raises(ContextOverflow, match="25"):
        engine.forward(np.asarray([[1]]), small)


def test_rows_do_not_come_back() -> None:
    small = cache(4)
    random_decoder(SHAPE, seed=3).forward(IDS[np.newaxis, :4], small)
    small.let_go(1)
    with pytest.raises(ShapeMismatch, match="only be emptied"):
        small.rewind(2)
    small.rewind(0)
    assert (small.length, small.position) == (0, 0)
    with pytest.raises(ShapeMismatch, match="cannot keep 2 and let 1 go"):
        small.let_go(1, keep_first=2)
