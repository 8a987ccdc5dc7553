"""An engine's weights under TransformerLens's names, for whoever checks the arithmetic by hand.

Axes are those of TransformerLens too: ``W_Q`` is (head, d_model, d_head), ``W_K`` and ``W_V`` are
(kv_head, d_model, d_head), their biases (head or kv_head, d_head), ``W_O`` is (head, d_head,
d_model), ``W_gate`` and ``W_in`` (d_model, d_mlp), ``W_out`` (d_mlp, d_model), ``W_U`` (d_model,
vocab). All arrays are read-only; none but the tiny decoder's is a copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from model import tiny
from model.engine import Array
from model.shape import ModelShape
from model.weights import BlockWeights, Weights

_FUSED = "QKV"
_PLAIN = {
    "ln1.w": "ln1_gain",
    "ln1.b": "ln1_shift",
    "attn.q_norm.w": "q_norm_gain",
    "attn.k_norm.w": "k_norm_gain",
    "attn.b_O": "out_bias",
    "ln2.w": "ln2_gain",
    "ln2.b": "ln2_shift",
    "mlp.W_gate": "gate_weight",
    "mlp.b_gate": "gate_bias",
    "mlp.W_in": "up_weight",
    "mlp.b_in": "up_bias",
    "mlp.W_out": "down_weight",
    "mlp.b_out": "down_bias",
}
_TINY = {
    "embed.W_E": "embeddings",
    "pos_embed.W_pos": "positions",
    "blocks.0.ln1.w": "attention_scale",
    "blocks.0.attn.W_Q": "w_q",
    "blocks.0.attn.W_K": "w_k",
    "blocks.0.attn.W_V": "w_v",
    "blocks.0.attn.W_O": "w_o",
    "blocks.0.ln2.w": "ffn_scale",
    "blocks.0.mlp.W_in": "w_up",
    "blocks.0.mlp.W_out": "w_down",
    "ln_final.w": "final_scale",
    "unembed.W_U": "w_lm",
}


def decoder_parameter(weights: Weights, shape: ModelShape, name: str) -> Array | None:
    """A weight of the NumPy engine by its canonical name, as a view, or None if it has none such.

    Args:
        name: e.g. ``embed.W_E``, ``blocks.2.attn.W_Q``, ``blocks.2.mlp.b_in``, ``ln_final.w``.
    """
    top: dict[str, Array | None] = {
        "embed.W_E": weights.embedding,
        "pos_embed.W_pos": weights.position,
        "ln_final.w": weights.final_gain,
        "ln_final.b": weights.final_shift,
        "unembed.W_U": weights.unembedding.T,
    }
    found: Array | None = top.get(name)
    if found is None and name.startswith("blocks."):
        _, layer, rest = name.split(".", 2)
        if layer.isdecimal() and int(layer) < shape.depth:
            found = _block_parameter(weights.blocks[int(layer)], shape, rest)
    return None if found is None else _read_only(found)


def _block_parameter(block: BlockWeights, shape: ModelShape, name: str) -> Array | None:
    heads, width = shape.num_heads, shape.head_dim
    if name in _PLAIN:
        plain: Array | None = getattr(block, _PLAIN[name])
        return plain
    if name == "attn.W_O":
        return block.out_weight.reshape(heads, width, shape.model_dim)
    kind, _, which = name.removeprefix("attn.").partition("_")
    if len(which) != 1 or which not in _FUSED:
        return None
    end = heads + shape.kv_heads
    part = (slice(heads), slice(heads, end), slice(end, None))[_FUSED.index(which)]
    if kind == "W":
        split = block.qkv_weight.reshape(shape.model_dim, -1, width)
        weight: Array = split[:, part].swapaxes(0, 1)
        return weight
    if kind == "b" and block.qkv_bias is not None:
        bias: Array = block.qkv_bias.reshape(-1, width)[part]
        return bias
    return None


def tiny_parameter(coefficients: tiny.Coefficients, name: str) -> Array | None:
    """A coefficient of the tiny decoder, as a float64 copy, or None; it has no biases."""
    held = _TINY.get(name)
    if held is None:
        return None
    array = np.array(getattr(coefficients, held), dtype=np.float64)
    if ".attn." in name:  # one head
        array = array[np.newaxis]
    return _read_only(array)


def _read_only(array: Any) -> Array:
    view: Array = array.view()
    view.flags.writeable = False
    return view
