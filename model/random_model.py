"""A decoder with random weights: for measuring speed and for tests, where any weights will do."""

from __future__ import annotations

import numpy as np

from model.blueprint import Blueprint
from model.decoder import Decoder
from model.shape import ModelShape
from model.weights import Floats, build_weights, weight_shapes


def gpt2_small_shape() -> ModelShape:
    """The sizes of GPT-2 small, 124 million parameters."""
    return ModelShape(depth=12, model_dim=768, num_heads=12, context_length=1024, vocabulary=50257)


def random_decoder(
    shape: ModelShape, seed: int = 0, *, spread: float = 0.02, tied: bool = True
) -> Decoder:
    """A decoder whose weights are drawn from a normal distribution, the same for the same seed.

    Args:
        spread: standard deviation of all weights; gains are that far from 1. Small values, like the
            0.02 that GPT-2 starts its training from, leave attention nearly uniform.
        tied: the unembedding is the embedding table.
    """
    blueprint = Blueprint(shape=shape, tied=tied)
    generator = np.random.default_rng(seed)
    arrays: dict[str, Floats] = {}
    for name, size in weight_shapes(blueprint).items():
        array = generator.standard_normal(size, dtype=np.float32)
        array *= np.float32(spread)
        if name.endswith("gain"):
            array += np.float32(1.0)
        arrays[name] = array
    return Decoder(blueprint, build_weights(blueprint, arrays))
