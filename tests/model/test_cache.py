"""The key-value cache: where rows go, when the length moves, what it costs."""

from __future__ import annotations

import numpy as np
import pytest

from model.cache import KvCache
from model.engine import Engine
from model.errors import CacheExhausted, ShapeMismatch
from model.random_model import random_decoder
from model.shape import ModelShape
from model.tiny_engine import TinyEngine
from model.weights import Floats

SHAPE = ModelShape(depth=2, model_dim=8, num_heads=2, context_length=6, vocabulary=5)


def rows(count: int, value: float) -> Floats:
    return np.full((2, 3, count, 4), value, dtype=np.float32)


def cache_of(*widths: int) -> KvCache:
    cache = KvCache(depth=5, batch=2, heads=3, context=10, head_dim=4)
    for value, width in enumerate(widths, start=1):
        for layer in range(5):
            cache.append(layer, rows(width, value), rows(width, -value))
        cache.advance(width)
    return cache


def test_the_length_moves_once_for_all_layers() -> None:
    cache = cache_of()
    for layer in range(5):
        keys, values = cache.append(layer, rows(3, 1), rows(3, -1))
        assert keys.shape == values.shape == (2, 3, 3, 4)
        assert cache.length == 0
    cache.advance(3)
    assert cache.length == 3


def test_append_returns_the_whole_history_as_views() -> None:
    cache = cache_of(3)
    keys, values = cache.append(2, rows(1, 7), rows(1, 8))
    assert keys[0, 0, :, 0].tolist() == [1, 1, 1, 7]
    assert values[0, 0, :, 0].tolist() == [-1, -1, -1, 8]
    assert np.shares_memory(keys, cache.keys(2))
    assert not np.shares_memory(keys, cache.keys(1))


def test_rewinding_forgets_and_copies_nothing() -> None:
    cache = cache_of(3, 2)
    cache.rewind(4)
    assert cache.keys(0)[0, 0, :, 0].tolist() == [1, 1, 1, 2]
    with pytest.raises(ShapeMismatch, match="4 positions to 5"):
        cache.rewind(5)
    with pytest.raises(ShapeMismatch):
        cache.rewind(-1)
    cache.reset()
    assert cache.length == 0
    assert cache.keys(0).shape == (2, 3, 0, 4)


def test_bytes_in_use_and_reserved() -> None:
    cache = cache_of(3)
    assert cache.bytes_reserved == 2 * 5 * 2 * 10 * 3 * 4 * 4
    assert cache.bytes_used == 2 * 5 * 2 * 3 * 3 * 4 * 4
    assert cache.capacity == 10


def test_a_full_cache_says_so_and_keeps_its_rows() -> None:
    cache = cache_of(9)
    with pytest.raises(CacheExhausted, match=r"position 10 .* capacity is 10") as caught:
        cache.append(0, rows(2, 5), rows(2, 5))
    assert (caught.value.wanted, caught.value.capacity) == (10, 10)
    with pytest.raises(CacheExhausted):
        cache.advance(2)
    assert cache.length == 9
    assert (cache.keys(0) == 1).all()


def test_a_cache_without_room_or_rows_is_refused() -> None:
    with pytest.raises(ShapeMismatch, match="capacity of at least 1"):
        KvCache(1, 1, 1, 0, 1)
    with pytest.raises(ShapeMismatch, match="batch of at least 1"):
        KvCache(1, 0, 1, 1, 1)


def test_bytes_are_those_reserved_however_many_are_in_use() -> None:
    cache = KvCache(depth=2, batch=1, heads=3, context=5, head_dim=4)
    assert cache.bytes() == cache.bytes_reserved == 2 * 2 * 1 * 3 * 5 * 4 * 4
    assert cache.bytes_used == 0


@pytest.mark.parametrize("engine", [random_decoder(SHAPE, seed=4, spread=0.3), TinyEngine()])
def test_rows_that_leave_a_cache_come_back_bit_for_bit(engine: Engine) -> None:
    cache = engine.new_cache(4)
    engine.forward(np.array([[0, 1, 2, 3]]), cache)
    before = [(cache.keys(i).copy(), cache.values(i).copy()) for i in range(engine.shape.depth)]
    kept = cache.rows(1, 4)
    assert kept.count == 3
    assert kept.nbytes == cache.bytes_used * 3 // 4
    cache.rewind(1)
    engine.forward(np.array([[3, 3]]), cache)
    cache.rewind(1)
    cache.restore(kept.part(0, 2))
    assert cache.length == 3
    cache.restore(kept.part(2, 3))
    assert cache.length == 4
    for layer, (keys, values) in enumerate(before):
        assert np.array_equal(cache.keys(layer), keys)
        assert np.array_equal(cache.values(layer), values)
    with pytest.raises(CacheExhausted):
        cache.restore(kept)
    with pytest.raises(ShapeMismatch, match="holds 4 positions, not 3 to 5"):
        cache.rows(3, 5)
