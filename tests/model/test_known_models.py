"""Models that people have: their config.json as published gives the parameters as published."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from model.blueprint import Blueprint
from model.checkpoints.loading import family_of
from model.rotary import Llama3
from model.weights import weight_shapes


def gpt2(width: int, depth: int, heads: int) -> dict[str, Any]:
    sizes = {"n_embd": width, "n_layer": depth, "n_head": heads, "n_ctx": 1024}
    return {
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "n_positions": 1024,
        "vocab_size": 50257,
    } | sizes


def pythia(width: int, depth: int, heads: int) -> dict[str, Any]:
    return {
        "model_type": "gpt_neox",
        "hidden_act": "gelu",
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": 2048,
        "num_attention_heads": heads,
        "num_hidden_layers": depth,
        "rotary_emb_base": 10000,
        "rotary_pct": 0.25,
        "tie_word_embeddings": False,
        "use_parallel_residual": True,
        "vocab_size": 50304,
    }


def gated(
    kind: str,
    width: int,
    depth: int,
    heads: tuple[int, int],
    mlp: int,
    vocabulary: int,
    **more: Any,
) -> dict[str, Any]:
    return {
        "model_type": kind,
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": mlp,
        "num_attention_heads": heads[0],
        "num_hidden_layers": depth,
        "num_key_value_heads": heads[1],
        "rms_norm_eps": 1e-5,
        "vocab_size": vocabulary,
    } | more


LLAMA3_SCALING = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
KNOWN: dict[str, tuple[dict[str, Any], int]] = {
    "distilgpt2": (gpt2(768, 6, 12), 81_912_576),
    "gpt2": (gpt2(768, 12, 12), 124_439_808),
    "gpt2-medium": (gpt2(1024, 24, 16), 354_823_168),
    "gpt2-large": (gpt2(1280, 36, 20), 774_030_080),
    "gpt2-xl": (gpt2(1600, 48, 25), 1_557_611_200),
    "pythia-70m": (pythia(512, 6, 8), 70_426_624),
    "pythia-160m": (pythia(768, 12, 12), 162_322_944),
    "SmolLM2-135M": (
        gated("llama", 576, 30, (9, 3), 1536, 49152)
        | {"rope_theta": 100000, "rope_scaling": None, "rope_interleaved": False}
        | {"tie_word_embeddings": True, "max_position_embeddings": 8192, "pretraining_tp": 1},
        134_515_008,
    ),
    "TinyLlama-1.1B": (
        gated("llama", 2048, 22, (32, 4), 5632, 32000)
        | {"rope_scaling": None, "tie_word_embeddings": False, "attention_bias": False},
        1_100_048_384,
    ),
    "Llama-3.2-1B": (
        gated("llama", 2048, 16, (32, 8), 8192, 128256, head_dim=64)
        | {"rope_theta": 500000.0, "rope_scaling": LLAMA3_SCALING, "tie_word_embeddings": True}
        | {"max_position_embeddings": 131072, "attention_bias": False, "mlp_bias": False},
        1_235_814_400,
    ),
    "Mistral-7B-v0.1": (
        gated("mistral", 4096, 32, (32, 8), 14336, 32000, sliding_window=4096),
        7_241_732_096,
    ),
    "Qwen2.5-0.5B": (
        gated("qwen2", 896, 24, (14, 2), 4864, 151936)
        | {"max_window_layers": 24, "sliding_window": 32768, "use_sliding_window": False}
        | {"rope_theta": 1000000.0, "tie_word_embeddings": True},
        494_032_768,
    ),
    "Qwen3-0.6B": (
        gated("qwen3", 1024, 28, (16, 8), 3072, 151936, head_dim=128, attention_bias=False)
        | {"max_window_layers": 28, "sliding_window": None, "use_sliding_window": False}
        | {"rope_theta": 1000000, "rope_scaling": None, "tie_word_embeddings": True},
        596_049_920,
    ),
}
SOURCE = Path("config.json")


def blueprint_of(name: str) -> Blueprint:
    config = KNOWN[name][0]
    return family_of(config["model_type"], SOURCE).blueprint(config, SOURCE)


@pytest.mark.parametrize("name", KNOWN)
def test_the_number_of_parameters_is_the_published_one(name: str) -> None:
    shapes = weight_shapes(blueprint_of(name))
    assert sum(math.prod(shape) for shape in shapes.values()) == KNOWN[name][1]


def test_windows_and_scaling() -> None:
    assert set(blueprint_of("Mistral-7B-v0.1").shape.windows) == {4096}
    assert blueprint_of("Qwen2.5-0.5B").shape.windows == ()
    assert blueprint_of("Qwen3-0.6B").shape.windows == ()
    llama = blueprint_of("Llama-3.2-1B").rotary
    assert llama is not None
    assert llama.scaling == Llama3(32.0, 1.0, 4.0, 8192)
    pythia_turns = blueprint_of("pythia-160m").rotary
    assert pythia_turns is not None
    assert pythia_turns.dims == 16
