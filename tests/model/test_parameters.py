"""Weights under canonical names: the right ones, in the right shape, and not writable."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from model import tiny
from model.parameters import _TINY
from model.random_model import llama_blueprint, random_decoder
from model.shape import ModelShape
from model.tiny_engine import TinyEngine

SHAPE = ModelShape(depth=2, model_dim=12, num_heads=3, context_length=8, vocabulary=11)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("embed.W_E", (11, 12)),
        ("pos_embed.W_pos", (8, 12)),
        ("blocks.1.ln1.w", (12,)),
        ("blocks.1.ln1.b", (12,)),
        ("blocks.1.attn.W_Q", (3, 12, 4)),
        ("blocks.1.attn.b_V", (3, 4)),
        ("blocks.1.attn.W_O", (3, 4, 12)),
        ("blocks.1.mlp.W_in", (12, 48)),
        ("blocks.1.mlp.b_out", (12,)),
        ("ln_final.b", (12,)),
        ("unembed.W_U", (12, 11)),
    ],
)
def test_shapes_and_no_writing(name: str, shape: tuple[int, ...]) -> None:
    array = random_decoder(SHAPE).parameter(name)
    assert array is not None
    assert array.shape == shape
    assert not array.flags.writeable


def test_shared_heads_gates_and_head_norms() -> None:
    shape = replace(SHAPE, num_heads=6, kv_heads=2, head_dim=4, mlp_dim=10, gated=True)
    engine = random_decoder(replace(llama_blueprint(shape), qk_norm=True, qkv_bias=True))
    shapes = {
        "attn.W_Q": (6, 12, 4),
        "attn.W_K": (2, 12, 4),
        "attn.W_V": (2, 12, 4),
        "attn.b_K": (2, 4),
        "attn.W_O": (6, 4, 12),
        "attn.q_norm.w": (4,),
        "attn.k_norm.w": (4,),
        "mlp.W_gate": (12, 10),
        "mlp.W_in": (12, 10),
        "mlp.W_out": (10, 12),
    }
    for name, size in shapes.items():
        found = engine.parameter(f"blocks.1.{name}")
        assert found is not None
        assert found.shape == size, name
    fused = engine.weights.blocks[1].qkv_weight
    value = engine.parameter("blocks.1.attn.W_V")
    assert value is not None
    np.testing.assert_array_equal(value[1], fused[:, 36:])
    for name in ("pos_embed.W_pos", "blocks.1.ln1.b", "blocks.1.mlp.b_gate", "ln_final.b"):
        assert engine.parameter(name) is None


@pytest.mark.parametrize(
    "name", ["blocks.2.ln1.w", "blocks.0.attn.W_X", "blocks.x.ln1.w", "unembed.b_U", "nothing"]
)
def test_what_a_model_has_not(name: str) -> None:
    assert random_decoder(SHAPE).parameter(name) is None
    assert TinyEngine().parameter(name) is None


def test_values_are_the_fused_matrix_s_columns() -> None:
    engine = random_decoder(SHAPE)
    fused = engine.weights.blocks[1].qkv_weight
    key = engine.parameter("blocks.1.attn.W_K")
    assert key is not None
    np.testing.assert_array_equal(key[2], fused[:, 12 + 8 : 12 + 12])


def test_tiny_has_a_name_for_every_coefficient() -> None:
    fields = {field.name for field in dataclasses.fields(tiny.Coefficients)}
    assert set(_TINY.values()) == fields
    arrays = [TinyEngine().parameter(name) for name in _TINY]
    assert sum(array.size for array in arrays if array is not None) == TinyEngine().parameters
