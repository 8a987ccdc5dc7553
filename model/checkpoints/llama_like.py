"""What Llama and families made after it share: their config.json and the names of their tensors.

Each family has a file of its own that says in what it differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from model.blueprint import Blueprint, Norm
from model.checkpoints.fields import Fields
from model.checkpoints.loading import Config, TensorSource
from model.checkpoints.rope_fields import rotary_of
from model.errors import CheckpointError, ShapeMismatch
from model.shape import ModelShape
from model.weights import qkv_widths

PREFIX = "model."
BUFFERS = re.compile(r"(model\.)?layers\.\d+\.self_attn\.rotary_emb\.inv_freq")

BLOCK_TENSORS = {
    "ln1_gain": "input_layernorm.weight",
    "q_norm_gain": "self_attn.q_norm.weight",
    "k_norm_gain": "self_attn.k_norm.weight",
    "out_weight": "self_attn.o_proj.weight",
    "out_bias": "self_attn.o_proj.bias",
    "ln2_gain": "post_attention_layernorm.weight",
    "gate_weight": "mlp.gate_proj.weight",
    "gate_bias": "mlp.gate_proj.bias",
    "up_weight": "mlp.up_proj.weight",
    "up_bias": "mlp.up_proj.bias",
    "down_weight": "mlp.down_proj.weight",
    "down_bias": "mlp.down_proj.bias",
}
"""Weights of a block -> names within ``layers.N.``; Q, K and V are three tensors besides."""

REQUIRED = {"rope_interleaved": False}
"""Fields that change the arithmetic, and the only value computed here, which is the default."""


@dataclass(frozen=True)
class Biases:
    """Which matrices have a bias."""

    qkv: bool = False
    out: bool = False
    mlp: bool = False


@dataclass(frozen=True)
class LlamaLike:
    """A decoder with RMSNorm, rotary positions and a gated MLP; see :class:`Family`.

    Attributes:
        label, model_type: as in :class:`model.checkpoints.loading.Family`.
        context: positions where a config.json does not say.
        kv_heads: key/value heads where it does not say; None is as many as query heads.
        head_dim: a head's width where it does not say; None is d_model / heads.
        qk_norm: queries and keys are normed.
    """

    label: str
    model_type: str
    context: int
    kv_heads: int | None = None
    head_dim: int | None = None
    qk_norm: bool = False

    def biases(self, fields: Fields) -> Biases:
        """Which matrices have a bias."""
        attention = fields.flag("attention_bias", False)
        return Biases(attention, attention, fields.flag("mlp_bias", False))

    def windows(self, fields: Fields, depth: int) -> tuple[int, ...]:
        """How many keys a query sees in each layer; empty if all of them everywhere."""
        return ()

    def blueprint(self, config: Config, source: Path) -> Blueprint:
        """Sizes and parts."""
        fields = Fields(config, source)
        fields.refuse_quantised()
        fields.require(REQUIRED)
        depth = fields.depth("num_hidden_layers")
        width, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
        try:
            shape = ModelShape(
                depth=depth,
                model_dim=width,
                num_heads=heads,
                kv_heads=fields.size("num_key_value_heads", absent=self.kv_heads or heads),
                head_dim=self._head_dim(fields, width, heads),
                mlp_dim=fields.size("intermediate_size"),
                gated=True,
                windows=self.windows(fields, depth),
                context_length=fields.size("max_position_embeddings", absent=self.context),
                vocabulary=fields.size("vocab_size"),
            )
        except ShapeMismatch as error:
            raise CheckpointError(f"{source}: the sizes do not fit: {error}") from None
        biases = self.biases(fields)
        return Blueprint(
            shape=shape,
            norm=Norm.RMS_NORM,
            norm_epsilon=fields.epsilon("rms_norm_eps", 1e-6),
            activation=fields.activation("hidden_act", "silu"),
            rotary=rotary_of(fields, shape.head_dim, shape.context_length),
            tied=fields.flag("tie_word_embeddings", False),
            qkv_bias=biases.qkv,
            out_bias=biases.out,
            mlp_bias=biases.mlp,
            qk_norm=self.qk_norm,
        )

    def _head_dim(self, fields: Fields, width: int, heads: int) -> int:
        if self.head_dim is None and not fields.has("head_dim") and width % heads:
            fields.refuse(f"hidden_size is {width}, which does not divide into {heads} heads")
        return fields.size("head_dim", absent=self.head_dim or width // heads)

    def sources(self, blueprint: Blueprint, present: frozenset[str]) -> dict[str, TensorSource]:
        """Where each weight lies; the prefix ``model.`` is there or not."""
        prefix = PREFIX if f"{PREFIX}embed_tokens.weight" in present else ""
        widths = qkv_widths(blueprint.shape)
        sources = {
            "embedding": TensorSource((f"{prefix}embed_tokens.weight",)),
            "final_gain": TensorSource((f"{prefix}norm.weight",)),
            "unembedding": TensorSource(("lm_head.weight",)),
        }
        for layer in range(blueprint.shape.depth):
            block = f"{prefix}layers.{layer}."
            for name, stored in BLOCK_TENSORS.items():
                turned = name.endswith("_weight")
                sources[f"blocks.{layer}.{name}"] = TensorSource((block + stored,), turned)
            for part in ("weight", "bias"):
                names = tuple(f"{block}self_attn.{each}_proj.{part}" for each in "qkv")
                source = TensorSource(names, part == "weight", widths)
                sources[f"blocks.{layer}.qkv_{part}"] = source
        return sources

    def ignored(self, name: str) -> bool:
        """The frequencies that older files store."""
        return BUFFERS.fullmatch(name) is not None

    def doubles(self, blueprint: Blueprint) -> Mapping[str, str]:
        """The head, if config.json says that it is the embedding table again."""
        return {"lm_head.weight": "embedding"} if blueprint.tied else {}


def windows_of(fields: Fields, depth: int, window: int | None, full: int) -> tuple[int, ...]:
    """Windows as Qwen describes them: by a list of the layers' types, or from one layer on.

    Args:
        fields: the config.json.
        depth: how many layers there are.
        window: keys that a query sees in a layer with a window; None if no layer has one.
        full: the first layer with a window, where the types are not listed.
    """
    listed = fields.values.get("layer_types")
    if listed is None:
        return tuple(window if i >= full else 0 for i in range(depth)) if window else ()
    if not isinstance(listed, list) or len(listed) != depth:
        fields.refuse(f"layer_types must list the types of {depth} layers")
    kinds = {"full_attention": 0, "sliding_attention": window}
    windows: list[int] = []
    for kind in listed:
        keys = kinds.get(kind) if isinstance(kind, str) else None
        if keys is None:
            fields.refuse(f"layer_types has {kind!r}, which cannot be computed here")
        windows.append(keys)
    return tuple(windows) if any(windows) else ()
