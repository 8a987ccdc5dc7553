"""The tiny engine publishes exactly what the tiny decoder's own traces hold."""

from __future__ import annotations

import numpy as np
import pytest

from model import tiny
from model.engine import Array, Cache, Engine
from model.errors import (
    CacheExhausted,
    ContextOverflow,
    EmptyPrompt,
    ShapeMismatch,
    UnknownToken,
)
from model.operations import Operation
from model.tiny_engine import TinyEngine
from model.tiny_operations import OPERATIONS, TRACE_KEYS
from model.wiring import Wiring


def ids(*tokens: int) -> Array:
    return np.array([tokens], dtype=np.int64)


def record(engine: Engine, tokens: Array, cache: Cache) -> dict[str, Array]:
    recorded: dict[str, Array] = {}
    for step in engine.walk(tokens, cache, all_logits=True):
        recorded.update(step.arrays)
    return recorded


@pytest.fixture
def engine() -> TinyEngine:
    return TinyEngine()


def test_it_is_an_engine(engine: Engine) -> None:
    assert engine.shape.depth == engine.shape.num_heads == 1
    assert (engine.shape.head_dim, engine.shape.mlp_dim) == (2, 3)
    assert engine.parameters == 58
    assert engine.dtype == np.float64


def test_labels_are_in_the_order_of_the_arithmetic(engine: TinyEngine) -> None:
    assert [operation.label for operation in engine.operations] == [
        "Embedding + position",
        "RMSNorm",
        "Q, K, V",
        "Append K, V to cache",
        "Scores q·k/√d",
        "Softmax",
        "Weighted values",
        "Output projection",
        "Residual add",
        "RMSNorm",
        "MLP up",
        "ReLU",
        "MLP down",
        "Residual add",
        "Final RMSNorm",
        "Logits",
        "Sample",
    ]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_each_operation_points_at_its_line_and_at_recorded_arrays(operation: Operation) -> None:
    source = operation.source()
    where = "model/sampling.py" if operation.name == "sample" else "model/tiny.py"
    assert source.file == where
    assert operation.mark in source.lines[source.marked]
    assert set(operation.outputs) <= set(TRACE_KEYS)
    earlier = {name for other in OPERATIONS for name in other.outputs}
    assert set(operation.inputs) <= earlier
    if operation.outputs and operation.name != "embed":
        assert operation.name == operation.outputs[0]
    text = operation.describe(queries=2, keys=3, heads=1, layer=0, width=2)
    assert text.endswith(".")
    assert "{" not in text


def test_arrays_are_those_of_the_traces(engine: TinyEngine) -> None:
    recorded = record(engine, ids(0, 1, 2), engine.new_cache())
    traces = tiny.full_forward([0, 1, 2])
    assert set(recorded) == set(TRACE_KEYS)
    for name, key in TRACE_KEYS.items():
        array = recorded[name]
        assert array.dtype == np.float64
        assert not array.flags.writeable
        for position, trace in enumerate(traces):
            numbers = dict(trace)[key]
            if key in ("scores", "attention_weights"):
                row = array[0, 0, position]
                assert row[: position + 1].tolist() == numbers
                absent = -np.inf if key == "scores" else 0.0
                assert row[position + 1 :].tolist() == [absent] * (2 - position)
            elif key in ("query", "key", "value", "mixed"):
                assert array[0, 0, position].tolist() == numbers
            else:
                assert array[0, position].tolist() == numbers


def test_the_length_moves_once_and_not_when_the_walk_is_abandoned(engine: TinyEngine) -> None:
    cache = engine.new_cache()
    for step in engine.walk(ids(0, 1), cache):
        if OPERATIONS[step.operation].name == "ln_final":
            break
    assert cache.length == 0
    lengths = [cache.length for _ in engine.walk(ids(0, 1), cache)]
    assert lengths == [0] * (len(OPERATIONS) - 2) + [2]


def test_recording_changes_nothing(engine: TinyEngine) -> None:
    kept = record(engine, ids(2, 1, 0), engine.new_cache())["logits"]
    assert np.array_equal(engine.forward(ids(2, 1, 0), engine.new_cache()), kept[:, -1:])
    bare = list(engine.walk(ids(2, 1, 0), engine.new_cache(), keep=False))
    assert [step.operation for step in bare] == list(range(len(OPERATIONS) - 1))
    handed_out = [name for step in bare for name in step.arrays]
    assert handed_out == ["blocks.0.resid_pre", "logits"]


@pytest.mark.parametrize("lookahead", [0, 1, None])
def test_a_replayed_block_is_bit_identical(engine: TinyEngine, lookahead: int | None) -> None:
    broken = engine.rewired(Wiring(lookahead=lookahead))
    cache = broken.new_cache()
    broken.forward(ids(0), cache)
    recorded = record(broken, ids(1, 2), cache)
    broken.forward(ids(3), cache)
    replayed: dict[str, Array] = {}
    for step in broken.replay_block(0, recorded["blocks.0.resid_pre"], 1, cache):
        assert OPERATIONS[step.operation].layer == 0
        replayed.update(step.arrays)
    assert len(replayed) == 14
    for name, array in replayed.items():
        assert np.array_equal(array, recorded[name]), name


def test_the_cache_counts_eight_bytes_a_value(engine: TinyEngine) -> None:
    cache = engine.new_cache(3)
    engine.forward(ids(0, 1), cache)
    assert (cache.length, cache.capacity) == (2, 3)
    assert (cache.bytes_used, cache.bytes_reserved) == (64, 96)
    traces = tiny.full_forward([0, 1])
    assert cache.keys(0)[0, 0].tolist() == [trace["key"] for trace in traces]
    assert cache.values(0)[0, 0].tolist() == [trace["value"] for trace in traces]
    cache.rewind(1)
    assert cache.keys(0).shape == (1, 1, 1, 2)
    with pytest.raises(ShapeMismatch, match="1 positions to 2"):
        cache.rewind(2)


def test_what_does_not_fit_is_refused(engine: TinyEngine) -> None:
    with pytest.raises(EmptyPrompt):
        engine.forward(np.zeros((1, 0), dtype=np.int64), engine.new_cache())
    with pytest.raises(UnknownToken, match="7"):
        engine.forward(ids(7), engine.new_cache())
    with pytest.raises(ContextOverflow, match=r"5 tokens .* 4 positions"):
        engine.forward(ids(0, 1, 2, 3, 0), engine.new_cache())
    with pytest.raises(ContextOverflow, match=r"5 .* 4"):
        engine.new_cache(5)
    with pytest.raises(ShapeMismatch, match="batch of 2"):
        engine.new_cache(batch=2)
    with pytest.raises(ShapeMismatch, match="batch of 2"):
        engine.forward(np.zeros((2, 1), dtype=np.int64), engine.new_cache())
    cache = engine.new_cache(2)
    engine.forward(ids(0, 1), cache)
    with pytest.raises(CacheExhausted, match=r"position 2 .* capacity is 2"):
        engine.forward(ids(2), cache)
    assert cache.length == 2


def test_poison_shows_first_where_it_is_multiplied(engine: TinyEngine) -> None:
    recorded = record(engine.poisoned(), ids(0, 1), engine.new_cache())
    dirty = [name for name, array in recorded.items() if np.isnan(array).any()]
    assert dirty[0] == "blocks.0.attn.q"
    assert np.isnan(recorded["logits"]).all()
    assert engine.weights == tiny.COEFFICIENTS
