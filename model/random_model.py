"""A decoder with random weights: for measuring speed and for tests, where any weights will do."""

from __future__ import annotations

import numpy as np

from model.blueprint import Activation, Blueprint, Norm
from model.decoder import Decoder
from model.rotary import Rotary
from model.shape import ModelShape
from model.weights import Floats, build_weights, weight_shapes


def gpt2_small_shape() -> ModelShape:
    """The sizes of GPT-2 small, 124 million parameters."""
    return ModelShape(depth=12, model_dim=768, num_heads=12, context_length=1024, vocabulary=50257)


def smollm2_shape() -> ModelShape:
    """The sizes of SmolLM2-135M, a Llama whose 9 query heads share 3 key/value heads."""
    return ModelShape(
        depth=30,
        model_dim=576,
        num_heads=9,
        kv_heads=3,
        mlp_dim=1536,
        gated=True,
        context_length=8192,
        vocabulary=49152,
    )


def llama_blueprint(shape: ModelShape, *, tied: bool = True) -> Blueprint:
    """A Llama of those sizes: RMSNorm, rotary positions, SiLU, no biases."""
    return Blueprint(
        shape=shape,
        norm=Norm.RMS_NORM,
        activation=Activation.SILU,
        rotary=Rotary(shape.head_dim, 100_000.0),
        tied=tied,
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
    )


def random_decoder(
    sizes: ModelShape | Blueprint, seed: int = 0, *, spread: float = 0.02, tied: bool = True
) -> Decoder:
    """A decoder whose weights are drawn from a normal distribution, the same for the same seed.

    Args:
        sizes: a whole blueprint, or the shape of a GPT-2.
        spread: standard deviation of all weights; gains are that far from 1. Small values, like the
            0.02 that GPT-2 starts its training from, leave attention nearly uniform.
        tied: the unembedding is the embedding table; a whole blueprint says so itself.
    """
    blueprint = sizes if isinstance(sizes, Blueprint) else Blueprint(shape=sizes, tied=tied)
    generator = np.random.default_rng(seed)
    arrays: dict[str, Floats] = {}
    for name, size in weight_shapes(blueprint).items():
        array = generator.standard_normal(size, dtype=np.float32)
        array *= np.float32(spread)
        if name.endswith("gain"):
            array += np.float32(1.0)
        arrays[name] = array
    return Decoder(blueprint, build_weights(blueprint, arrays))
