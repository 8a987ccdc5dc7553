"""The GPT-NeoX family, Pythia among them: part of each head is turned, and the MLP is parallel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from model.blueprint import Blueprint
from model.checkpoints.fields import Fields
from model.checkpoints.loading import Config, TensorSource, register_family
from model.checkpoints.rope_fields import rotary_of
from model.errors import CheckpointError, ShapeMismatch
from model.shape import ModelShape
from model.weights import Floats

PREFIX = "gpt_neox."
BUFFERS = re.compile(
    r"(gpt_neox\.)?layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)"
)

BLOCK_TENSORS = {
    "ln1_gain": "input_layernorm.weight",
    "ln1_shift": "input_layernorm.bias",
    "qkv_weight": "attention.query_key_value.weight",
    "qkv_bias": "attention.query_key_value.bias",
    "out_weight": "attention.dense.weight",
    "out_bias": "attention.dense.bias",
    "ln2_gain": "post_attention_layernorm.weight",
    "ln2_shift": "post_attention_layernorm.bias",
    "up_weight": "mlp.dense_h_to_4h.weight",
    "up_bias": "mlp.dense_h_to_4h.bias",
    "down_weight": "mlp.dense_4h_to_h.weight",
    "down_bias": "mlp.dense_4h_to_h.bias",
}
"""Weights of a block -> names within ``layers.N.``."""


class GptNeoX:
    """GPT-NeoX; see :class:`model.checkpoints.loading.Family`."""

    label = "GPT-NeoX"
    model_type = "gpt_neox"

    def blueprint(self, config: Config, source: Path) -> Blueprint:
        """Sizes and parts."""
        fields = Fields(config, source)
        fields.refuse_quantised()
        try:
            shape = ModelShape(
                depth=fields.depth("num_hidden_layers"),
                model_dim=fields.size("hidden_size"),
                num_heads=fields.size("num_attention_heads"),
                mlp_dim=fields.size("intermediate_size", absent=24_576),
                context_length=fields.size("max_position_embeddings", absent=2048),
                vocabulary=fields.size("vocab_size"),
            )
        except ShapeMismatch as error:
            raise CheckpointError(f"{source}: the sizes do not fit: {error}") from None
        biased = fields.flag("attention_bias", True)
        return Blueprint(
            shape=shape,
            norm_epsilon=fields.epsilon("layer_norm_eps", 1e-5),
            activation=fields.activation("hidden_act", "gelu"),
            rotary=rotary_of(
                fields,
                shape.head_dim,
                shape.context_length,
                theta="rotary_emb_base",
                fraction="rotary_pct",
                default_fraction=0.25,
            ),
            tied=fields.flag("tie_word_embeddings", False),
            qkv_bias=biased,
            out_bias=biased,
            parallel=fields.flag("use_parallel_residual", True),
        )

    def sources(self, blueprint: Blueprint, present: frozenset[str]) -> dict[str, TensorSource]:
        """Where each weight lies; the prefix ``gpt_neox.`` is there or not."""
        prefix = PREFIX if f"{PREFIX}embed_in.weight" in present else ""
        sources = {
            "embedding": TensorSource((f"{prefix}embed_in.weight",)),
            "final_gain": TensorSource((f"{prefix}final_layer_norm.weight",)),
            "final_shift": TensorSource((f"{prefix}final_layer_norm.bias",)),
            "unembedding": TensorSource(("embed_out.weight",)),
        }
        apart = partial(parts_together, heads=blueprint.shape.num_heads)
        for layer in range(blueprint.shape.depth):
            for name, stored in BLOCK_TENSORS.items():
                sources[f"blocks.{layer}.{name}"] = TensorSource(
                    (f"{prefix}layers.{layer}.{stored}",),
                    transposed=name.endswith("_weight"),
                    arrange=apart if name.startswith("qkv") else None,
                )
        return sources

    def ignored(self, name: str) -> bool:
        """The causal mask and the frequencies that older files store."""
        return BUFFERS.fullmatch(name) is not None

    def doubles(self, blueprint: Blueprint) -> Mapping[str, str]:
        """The head, if config.json says that it is the embedding table again."""
        return {"embed_out.weight": "embedding"} if blueprint.tied else {}


def parts_together(fused: Floats, heads: int) -> Floats:
    """Columns stored head by head, each its query, key and value, as all queries, keys, values.

    Args:
        fused: (..., heads * 3 * d_head)
        heads: how many there are
    """
    front = fused.shape[:-1]
    split = fused.reshape(*front, heads, 3, -1)
    return np.ascontiguousarray(np.swapaxes(split, -3, -2)).reshape(*front, -1)


register_family(GptNeoX())
