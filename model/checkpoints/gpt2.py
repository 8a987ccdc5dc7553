"""The GPT-2 family: its config.json and the names of its tensors."""

from __future__ import annotations

import re
from pathlib import Path

from model.blueprint import Blueprint
from model.checkpoints.fields import Fields
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

BUFFERS = re.compile(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)")


class Gpt2:
    """GPT-2 and everything that keeps its config and its names."""

    label = "GPT-2"
    model_type = "gpt2"

    def blueprint(self, config: Config, source: Path) -> Blueprint:
        """Sizes and parts; see :class:`model.checkpoints.loading.Family`."""
        fields = Fields(config, source)
        fields.refuse_quantised()
        fields.require(REQUIRED)
        width = fields.size("n_embd")
        try:
            shape = ModelShape(
                depth=fields.depth("n_layer"),
                model_dim=width,
                num_heads=fields.size("n_head"),
                context_length=fields.size("n_positions", "n_ctx"),
                vocabulary=fields.size("vocab_size"),
                mlp_dim=fields.size("n_inner", absent=4 * width),
            )
        except ShapeMismatch as error:
            raise CheckpointError(f"{source}: n_embd and n_head: {error}") from None
        return Blueprint(
            shape=shape,
            norm_epsilon=fields.epsilon("layer_norm_epsilon", 1e-5),
            activation=fields.activation("activation_function", "gelu_new"),
            tied=fields.flag("tie_word_embeddings", True),
        )

    def sources(self, blueprint: Blueprint, present: frozenset[str]) -> dict[str, TensorSource]:
        """Where each weight lies; the prefix ``transformer.`` is there or not."""
        prefix = PREFIX if f"{PREFIX}wte.weight" in present else ""
        sources = {
            "embedding": TensorSource((f"{prefix}wte.weight",)),
            "position": TensorSource((f"{prefix}wpe.weight",)),
            "final_gain": TensorSource((f"{prefix}ln_f.weight",)),
            "final_shift": TensorSource((f"{prefix}ln_f.bias",)),
        }
        for layer in range(blueprint.shape.depth):
            for name, stored in BLOCK_TENSORS.items():
                sources[f"blocks.{layer}.{name}"] = TensorSource((f"{prefix}h.{layer}.{stored}",))
        if not blueprint.tied:
            sources["unembedding"] = TensorSource(("lm_head.weight",))
        return sources

    def ignored(self, name: str) -> bool:
        """The causal mask that older files store."""
        return BUFFERS.fullmatch(name) is not None

    def doubles(self, blueprint: Blueprint) -> dict[str, str]:
        """The head, if config.json says that it is the embedding table again."""
        return {"lm_head.weight": "embedding"} if blueprint.tied else {}


register_family(Gpt2())
