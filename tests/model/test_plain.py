"""The plain-loop decoder: against transformers' numbers, the NumPy engine, and its own rules."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from model import plain
from model.blueprint import Blueprint
from model.decoder import Decoder
from model.errors import ContextOverflow, EmptyPrompt, ShapeMismatch, UnknownToken
from model.guards import assert_causal
from model.likelihood import exact_log_likelihood
from model.sampling import SamplingConfig, sample_token
from model.shape import ModelShape
from model.weights import build_weights

SHAPE = ModelShape(depth=3, model_dim=12, num_heads=3, context_length=16, vocabulary=19)
IDS = [3, 1, 4, 15, 9, 2, 6, 5, 3, 5, 8, 18]


@pytest.fixture(scope="module")
def weights() -> plain.PlainWeights:
    return plain.random_weights(SHAPE, 5)


def test_golden_numbers_that_transformers_gives_too() -> None:
    # GPT2LMHeadModel of transformers 5.24 in float64 with these weights agrees to 5e-15.
    tied = plain.random_weights(SHAPE, 5, tied=True)
    logits = plain.forward(IDS, tied)
    assert logits[-1][:4] == pytest.approx(
        [1.0501614147668334, -1.398621966557666, 0.7389384952327962, -0.42131546037048206],
        abs=1e-12,
    )
    assert plain.training_loss(IDS, tied) == pytest.approx(3.523288484204839, abs=1e-12)


def present(vector: plain.Vector | None) -> plain.Vector:
    """A vector that a decoder may lack, where it has it."""
    assert vector is not None
    return vector


def as_arrays(weights: plain.PlainWeights) -> dict[str, Any]:
    """The NumPy engine's names for the same weights; Q, K and V side by side."""
    named: dict[str, Any] = {
        "embedding": weights.embedding,
        "position": weights.position,
        "final_gain": weights.final_gain,
        "final_shift": weights.final_shift,
    }
    if weights.unembedding is not None:
        named["unembedding"] = np.transpose(weights.unembedding)
    for layer, block in enumerate(weights.blocks):
        for name, value in (
            ("ln1_gain", block.ln1_gain),
            ("ln1_shift", block.ln1_shift),
            ("qkv_weight", np.hstack([block.wq, block.wk, block.wv])),
            ("qkv_bias", present(block.bq) + present(block.bk) + present(block.bv)),
            ("out_weight", block.wo),
            ("out_bias", block.bo),
            ("ln2_gain", block.ln2_gain),
            ("ln2_shift", block.ln2_shift),
            ("up_weight", block.w_up),
            ("up_bias", block.b_up),
            ("down_weight", block.w_down),
            ("down_bias", block.b_down),
        ):
            named[f"blocks.{layer}.{name}"] = value
    return {name: np.ascontiguousarray(value, np.float32) for name, value in named.items()}


@pytest.mark.parametrize("tied", [True, False])
def test_every_array_of_the_numpy_engine_agrees(tied: bool) -> None:
    weights = plain.random_weights(SHAPE, 7, tied=tied, epsilon=1e-3)
    blueprint = Blueprint(shape=SHAPE, norm_epsilon=1e-3, tied=tied)
    engine = Decoder(blueprint, build_weights(blueprint, as_arrays(weights)))
    expected: dict[str, Any] = {}
    plain.forward(IDS, weights, expected.__setitem__)
    compared = set()
    ids = np.array([IDS])
    for activations in engine.walk(ids, engine.new_cache(), all_logits=True):
        for name, array in activations.arrays.items():
            assert np.allclose(array[0], np.array(expected[name]), rtol=1e-4, atol=2e-5), name
            compared.add(name)
    assert compared == set(expected)


def test_shared_key_value_heads_are_repeated_heads() -> None:
    shared = replace(SHAPE, num_heads=4, kv_heads=2, head_dim=3)
    few = plain.random_weights(shared, 2)

    def twice(row: list[float]) -> list[float]:
        return row[:3] + row[:3] + row[3:] + row[3:]

    blocks = tuple(
        replace(
            block,
            wk=[twice(row) for row in block.wk],
            bk=twice(present(block.bk)),
            wv=[twice(row) for row in block.wv],
            bv=twice(present(block.bv)),
        )
        for block in few.blocks
    )
    many = replace(few, shape=replace(shared, kv_heads=4), blocks=blocks)
    assert plain.forward(IDS, few) == plain.forward(IDS, many)


def test_no_position_sees_a_later_one(weights: plain.PlainWeights) -> None:
    recorded: dict[str, Any] = {}
    logits = plain.forward(IDS, weights, recorded.__setitem__)
    for layer in range(SHAPE.depth):
        pattern = np.array(recorded[f"blocks.{layer}.attn.pattern"])
        assert pattern.shape == (SHAPE.num_heads, len(IDS), len(IDS))
        assert_causal(pattern)
        assert pattern.sum(axis=-1) == pytest.approx(np.ones(pattern.shape[:2]))
    changed = plain.forward([*IDS[:-1], 0], weights)
    assert changed[:-1] == logits[:-1]
    assert changed[-1] != logits[-1]


def test_recording_changes_nothing(weights: plain.PlainWeights) -> None:
    recorded: dict[str, Any] = {}
    assert plain.forward(IDS, weights, recorded.__setitem__) == plain.forward(IDS, weights)


def test_a_bias_on_the_unembedding_moves_the_logits_by_itself() -> None:
    without = plain.random_weights(SHAPE, 5)
    bias = [0.1 * token for token in range(SHAPE.vocabulary)]
    moved = plain.forward(IDS, replace(without, unembedding_bias=bias))[-1]
    assert moved == pytest.approx(np.add(plain.forward(IDS, without)[-1], bias), abs=1e-12)
    assert plain.random_weights(SHAPE, 5, unembedding_bias=True).unembedding_bias is not None


def test_likelihood_loss_and_perplexity_are_one_number(weights: plain.PlainWeights) -> None:
    likelihood = plain.exact_log_likelihood(IDS, weights)
    rows = plain.forward(IDS[:-1], weights)
    assert likelihood == pytest.approx(exact_log_likelihood(rows, IDS[1:]), abs=1e-11)
    # The chain rule: one token after the other gives the same.
    assert likelihood == pytest.approx(
        sum(
            plain.log_softmax(plain.forward(IDS[:at], weights)[-1])[IDS[at]]
            for at in range(1, len(IDS))
        ),
        abs=1e-11,
    )
    assert plain.training_loss(IDS, weights) == pytest.approx(-likelihood / (len(IDS) - 1))
    assert plain.perplexity(IDS, weights) == pytest.approx(math.exp(-likelihood / (len(IDS) - 1)))


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0, 2.5])
def test_generation_is_that_of_the_sampler(weights: plain.PlainWeights, temperature: float) -> None:
    config = SamplingConfig(temperature)
    tokens, rng = [3, 1], random.Random(41)
    for _ in range(8):
        tokens.append(sample_token(plain.forward(tokens, weights)[-1], config, rng).token)
    assert plain.generate([3, 1], weights, 8, temperature, random.Random(41)) == tokens


def test_choosing_never_falls_off_the_end() -> None:
    just_below_one = 1 - 2.0**-53
    rng = random.Random(6)
    for _ in range(300):
        logits = [rng.gauss(0, 3) for _ in range(rng.randint(1, 40))]
        last = min(range(len(logits)), key=lambda token: (logits[token], -token))
        assert plain.choose(logits, 1.0, just_below_one) == last
        assert plain.choose(logits, 1.0, 0.0) == logits.index(max(logits))
    assert plain.choose([0.1] * 10, 1.0, just_below_one) == 9
    assert plain.choose([0.0, -math.inf, -2000.0], 1.0, just_below_one) == 0
    assert plain.choose([2.0, 5.0, 5.0], 1e-40, 0.6) == 2
    assert [plain.choose([0.0, 0.0], 1.0, u) for u in (0.0, 0.4999, 0.5)] == [0, 0, 1]


def test_greedy_generation_draws_nothing(weights: plain.PlainWeights) -> None:
    rng = random.Random(1)
    before = rng.getstate()
    first = plain.generate([3, 1], weights, 3, 0.0, rng)
    assert rng.getstate() == before
    assert first == plain.generate([3, 1], weights, 3, 0.0, random.Random(99))


def test_bad_input_is_refused_in_words(weights: plain.PlainWeights) -> None:
    with pytest.raises(EmptyPrompt):
        plain.forward([], weights)
    with pytest.raises(ContextOverflow, match=r"17 tokens .* 16 positions"):
        plain.forward([0] * 17, weights)
    with pytest.raises(ContextOverflow):
        plain.generate([0] * 15, weights, 3, 1.0, random.Random(1))
    for token in (-1, 19):
        with pytest.raises(UnknownToken, match=rf"token {token} .* 0\.\.18"):
            plain.forward([token], weights)
    for temperature in (-1.0, math.nan, math.inf):
        with pytest.raises(ShapeMismatch, match="temperature"):
            plain.generate([0], weights, 1, temperature, random.Random(1))
    with pytest.raises(ShapeMismatch, match="at least 2 tokens, not 1"):
        plain.training_loss([0], weights)
    with pytest.raises(ShapeMismatch, match="3 blocks where the shape says 2"):
        replace(weights, shape=replace(SHAPE, depth=2))


def test_the_same_seed_gives_the_same_weights() -> None:
    assert plain.random_weights(SHAPE, 5) == plain.random_weights(SHAPE, 5)
    assert plain.random_weights(SHAPE, 5) != plain.random_weights(SHAPE, 6)


def test_plain_and_tiny_need_no_numpy_and_every_export_is_there() -> None:
    program = (
        "import sys, model, model.plain\n"
        "model.tiny.tokenize('The cat')\n"
        "assert 'numpy' not in sys.modules, 'NumPy was imported'\n"
        "assert set(model.__all__) <= set(dir(model))\n"
        "missing = [name for name in model.__all__ if not callable(getattr(model, name))]\n"
        "assert not missing, missing\n"
        "assert not hasattr(model, 'nonsense')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
