"""The figures of the engine: what is counted as bare products, and that all of them are there."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from decoder_gui.bench.engine import BareProducts, measure_engine, record_all
from model.blueprint import Blueprint
from model.random_model import llama_blueprint, random_decoder
from model.shape import ModelShape

SHAPE = ModelShape(depth=2, model_dim=12, num_heads=3, context_length=300, vocabulary=40)
SHARED = replace(SHAPE, kv_heads=1, gated=True)


def test_every_figure_is_a_positive_number_and_words_say_what_is_timed() -> None:
    said: list[str] = []
    figures = measure_engine(
        random_decoder(SHAPE), positions=30, decode_rounds=3, prefill_rounds=2, progress=said.append
    )
    assert all(value > 0 for value in asdict(figures).values())
    assert figures.positions == 30
    assert any("prefill of 30" in line for line in said)
    assert any("position 29" in line for line in said)


@pytest.mark.parametrize("sizes", [SHAPE, llama_blueprint(SHARED)], ids=["gpt2", "llama"])
@pytest.mark.parametrize(("queries", "keys"), [(1, 30), (30, 30), (200, 200)])
def test_the_bare_products_are_those_of_a_pass(
    sizes: ModelShape | Blueprint, queries: int, keys: int
) -> None:
    decoder = random_decoder(sizes)
    cache = decoder.new_cache()
    ids = np.random.default_rng(0).integers(0, 40, (1, keys))
    if queries < keys:
        decoder.forward(ids[:, :-queries], cache)
    # Multiplications of the pass, from the arrays that it recorded and the blocks that it computed.
    arrays = {
        name: array
        for activations in decoder.walk(ids[:, -queries:], cache)
        for name, array in activations.arrays.items()
    }
    weights = sum(
        array.size
        for name, array in decoder.weights.named()
        if name.startswith("blocks.") and name.endswith("_weight")
    )
    visible = sum(
        int(np.isfinite(arrays[f"blocks.{layer}.attn.scores"]).sum()) for layer in range(2)
    )
    least = queries * weights + 40 * 12 + 2 * 4 * visible
    counted = BareProducts(decoder, queries, keys).multiplications
    # A block of queries computes scores beyond the diagonal too: at most half of its square more.
    assert least <= counted <= least + 2 * 2 * 4 * 3 * (queries * min(queries, 128)) // 2
    assert (counted == least) == (queries == 1)


def test_record_all_holds_every_array_of_a_pass() -> None:
    decoder = random_decoder(SHAPE)
    held = record_all(decoder, np.array([[1, 2, 3]]), decoder.new_cache())
    assert len(held) == sum(len(operation.outputs) for operation in decoder.operations)
