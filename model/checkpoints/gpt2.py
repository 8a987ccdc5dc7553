"""The GPT-2 family: its config.json and the names of its tensors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from model.blueprint import Blueprint
from model.checkpoints.loading import Config, TensorSource, register_family
from model.errors import CheckpointError, ShapeMismatch
from model.shape import ModelShape

PREFIX = "transformer."

BLOCK_TENSORS = {
    "ln1_gain": "ln_1.weight",
    "ln1_shift": "ln_1.bias",
    "qkv_weight": "attn.c_attn.weight",
    "qkv_bias": "attn.c_attn.bias",
    "out_weight": "attn.c_proj.weight",
    "out_bias": "attn.c_proj.bias",
    "ln2_gain": "ln_2.weight",
    "ln2_shift": "ln_2.bias",
    "up_weight": "mlp.c_fc.weight",
    "up_bias": "mlp.c_fc.bias",
    "down_weight": "mlp.c_proj.weight",
    "down_bias": "mlp.c_proj.bias",
}
"""Weights of a block -> names within ``h.N.``. The matrices are stored as (in, out) already."""

REQUIRED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
"""Fields that change the arithmetic, and the only value computed here, which is the default."""

ACTIVATIONS = ("gelu_new", "gelu_pytorch_tanh")
BUFFERS = re.compile(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)")
LARGEST_SIZE = 2**31 - 1
LARGEST_DEPTH = 10_000


class Gpt2:
    """GPT-2 and everything that keeps its config and its names."""

    label = "GPT-2"
    model_type = "gpt2"

    def blueprint(self, config: Config, source: Path) -> Blueprint:
        """Sizes and parts; see :class:`model.checkpoints.loading.Family`."""
        for name, wanted in REQUIRED.items():
            if config.get(name, wanted) != wanted:
                raise CheckpointError(
                    f"{source}: {name} is {config[name]!r}; only {wanted} is computed here"
                )
        activation = config.get("activation_function", ACTIVATIONS[0])
        if activation not in ACTIVATIONS:
            raise CheckpointError(
                f"{source}: activation_function is {activation!r}; only "
                f"{' and '.join(ACTIVATIONS)} are computed here"
            )
        epsilon = config.get("layer_norm_epsilon", 1e-5)
        if (
            isinstance(epsilon, bool)
            or not isinstance(epsilon, int | float)
            or not 0 <= epsilon < 1
        ):
            raise CheckpointError(
                f"{source}: layer_norm_epsilon must be a number from 0 to 1, not {epsilon!r}"
            )
        tied = config.get("tie_word_embeddings", True)
        if not isinstance(tied, bool):
            raise CheckpointError(
                f"{source}: tie_word_embeddings must be true or false, not {tied!r}"
            )
        width = _size(config, source, "n_embd")
        depth = _size(config, source, "n_layer")
        if depth > LARGEST_DEPTH:
            raise CheckpointError(f"{source}: n_layer is {depth}; at most {LARGEST_DEPTH} are read")
        inner = config.get("n_inner")
        try:
            shape = ModelShape(
                depth=depth,
                model_dim=width,
                num_heads=_size(config, source, "n_head"),
                context_length=_size(config, source, "n_positions", "n_ctx"),
                vocabulary=_size(config, source, "vocab_size"),
                mlp_dim=4 * width if inner is None else _size(config, source, "n_inner"),
            )
        except ShapeMismatch as error:
            raise CheckpointError(f"{source}: n_embd and n_head: {error}") from None
        return Blueprint(shape=shape, norm_epsilon=float(epsilon), tied=tied)

    def sources(self, blueprint: Blueprint, present: frozenset[str]) -> dict[str, TensorSource]:
        """Where each weight lies; the prefix ``transformer.`` is there or not."""
        prefix = PREFIX if f"{PREFIX}wte.weight" in present else ""
        sources = {
            "embedding": TensorSource(f"{prefix}wte.weight"),
            "position": TensorSource(f"{prefix}wpe.weight"),
            "final_gain": TensorSource(f"{prefix}ln_f.weight"),
            "final_shift": TensorSource(f"{prefix}ln_f.bias"),
        }
        for layer in range(blueprint.shape.depth):
            for name, stored in BLOCK_TENSORS.items():
                sources[f"blocks.{layer}.{name}"] = TensorSource(f"{prefix}h.{layer}.{stored}")
        if not blueprint.tied:
            sources["unembedding"] = TensorSource("lm_head.weight")
        return sources

    def ignored(self, name: str) -> bool:
        """The causal mask that older files store."""
        return BUFFERS.fullmatch(name) is not None

    def doubles(self, blueprint: Blueprint) -> dict[str, str]:
        """The head, if config.json says that it is the embedding table again."""
        return {"lm_head.weight": "embedding"} if blueprint.tied else {}


def _size(config: Config, source: Path, *names: str) -> int:
    """A positive whole number, under the first of its names that is there."""
    for name in names:
        if name in config:
            value: Any = config[name]
            if isinstance(value, bool) or not isinstance(value, int):
                raise CheckpointError(f"{source}: {name} must be a whole number, not {value!r}")
            if not 1 <= value <= LARGEST_SIZE:
                raise CheckpointError(f"{source}: {name} must be at least 1, not {value}")
            return value
    raise CheckpointError(f"{source}: {names[0]} is missing")


register_family(Gpt2())
