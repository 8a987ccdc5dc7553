"""What the metadata of a GGUF file says about a model, by architecture.

GGUF names a model's weights the same way whatever its family, so one map of names serves all; an
architecture adds which parts it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from model.blueprint import Activation, Blueprint, Norm
from model.checkpoints.gguf_header import GgufFile
from model.errors import ShapeMismatch
from model.rotary import Linear, Rotary, Scaling, Yarn
from model.shape import ModelShape
from model.weights import Floats

ARCHITECTURE = "general.architecture"
LARGEST_DEPTH = 10_000

EMBEDDING, HEAD = "token_embd.weight", "output.weight"
SLOWING = "rope_freqs.weight"

OUTSIDE = {
    "embedding": (EMBEDDING,),
    "position": ("position_embd.weight",),
    "final_gain": ("output_norm.weight",),
    "final_shift": ("output_norm.bias",),
    "unembedding": (HEAD,),
}
"""Weights outside the blocks -> names in the file."""

IN_BLOCK = {
    "ln1_gain": ("attn_norm.weight",),
    "ln1_shift": ("attn_norm.bias",),
    "q_norm_gain": ("attn_q_norm.weight",),
    "k_norm_gain": ("attn_k_norm.weight",),
    "out_weight": ("attn_output.weight",),
    "out_bias": ("attn_output.bias",),
    "ln2_gain": ("ffn_norm.weight",),
    "ln2_shift": ("ffn_norm.bias",),
    "gate_weight": ("ffn_gate.weight",),
    "gate_bias": ("ffn_gate.bias",),
    "up_weight": ("ffn_up.weight",),
    "up_bias": ("ffn_up.bias",),
    "down_weight": ("ffn_down.weight",),
    "down_bias": ("ffn_down.bias",),
}
"""Weights of a block -> names after ``blk.N.``."""

FUSED = {"qkv_weight": ("attn_qkv.weight",), "qkv_bias": ("attn_qkv.bias",)}
APART = {
    "qkv_weight": ("attn_q.weight", "attn_k.weight", "attn_v.weight"),
    "qkv_bias": ("attn_q.bias", "attn_k.bias", "attn_v.bias"),
}
"""Queries, keys and values are one tensor, or three that are put side by side."""

TABLES = frozenset({"embedding", "position", "unembedding"})
"""Matrices that stay as the file has them; all others are stored as (out, in)."""


SCALING_FIELDS = frozenset(
    {"type", "factor", "original_context_length", "finetuned", "yarn_beta_fast", "yarn_beta_slow"}
)
"""What a file may say about stretched positions; more would change the arithmetic."""


@dataclass(frozen=True)
class Slowed:
    """Each pair's frequency divided by a number of its own: what is left of a rule in a file."""

    divisors: tuple[float, ...]
    name: str = "by pair"
    magnitude: float = 1.0

    def stretch(self, frequencies: Floats, theta: float) -> Floats:
        """Every frequency, slower by its own divisor."""
        divisors: Floats = np.array(self.divisors, dtype=np.float32)
        return np.divide(frequencies, divisors, dtype=np.float32)


@dataclass(frozen=True)
class Architecture:
    """A family as GGUF has it.

    Attributes:
        label: what a window shows.
        blueprint: sizes and parts, from the metadata and the names of the tensors.
        fused: queries, keys and values are one tensor.
        interleaved: coordinates that are turned together were stored side by side, so that rows
            of queries and keys have to be put back in the engine's order, half after half.
    """

    label: str
    blueprint: Callable[[GgufFile, Floats | None], Blueprint]
    fused: bool = False
    interleaved: bool = False

    def sources(self, name: str) -> tuple[str, ...]:
        """The tensors that a weight of :func:`model.weights.weight_shapes` is made of."""
        if name in OUTSIDE:
            return OUTSIDE[name]
        _, layer, part = name.split(".")
        qkv = FUSED if self.fused else APART
        return tuple(f"blk.{layer}.{stored}" for stored in (IN_BLOCK | qkv)[part])


def architecture_of(header: GgufFile) -> Architecture:
    """The architecture that a file names.

    Raises:
        CheckpointError: none that is read here.
    """
    name = header.text(ARCHITECTURE)
    if name not in ARCHITECTURES:
        raise header.refuse(f"{ARCHITECTURE} is {name!r}; read are {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def blueprint_of(header: GgufFile, slowing: Floats | None) -> Blueprint:
    """Sizes and parts of the model in a file.

    Args:
        header: the file.
        slowing: what each pair's turning is divided by, (pairs,), where a tensor says so.

    Raises:
        CheckpointError: a field is missing, malformed, or asks for what is not computed here.
    """
    try:
        return architecture_of(header).blueprint(header, slowing)
    except ShapeMismatch as error:
        raise header.refuse(f"the sizes do not fit together: {error}") from None


def _gpt2(header: GgufFile, slowing: Floats | None) -> Blueprint:
    return Blueprint(
        shape=_shape(header, "gpt2"),
        norm_epsilon=_epsilon(header, "gpt2.attention.layer_norm_epsilon"),
        activation=Activation.GELU_TANH,
        tied=HEAD not in header.tensors,
    )


def _llama(header: GgufFile, slowing: Floats | None) -> Blueprint:
    return _rotary_decoder(header, "llama", slowing)


def _qwen2(header: GgufFile, slowing: Floats | None) -> Blueprint:
    return _rotary_decoder(header, "qwen2", slowing, qkv_bias=True)


def _qwen3(header: GgufFile, slowing: Floats | None) -> Blueprint:
    return _rotary_decoder(header, "qwen3", slowing, qk_norm=True)


def _rotary_decoder(
    header: GgufFile,
    prefix: str,
    slowing: Floats | None,
    *,
    qkv_bias: bool = False,
    qk_norm: bool = False,
) -> Blueprint:
    """The plan that Llama set: RMSNorm, rotary positions, a gated MLP, biases only where stored."""
    if f"{prefix}.expert_count" in header.metadata and header.whole(
        f"{prefix}.expert_count", least=0
    ):
        raise header.refuse(f"{prefix}.expert_count: a mixture of experts is not computed here")
    shape = _shape(header, prefix, gated=True)
    dims = header.whole(f"{prefix}.rope.dimension_count", shape.head_dim)
    return Blueprint(
        shape=shape,
        norm=Norm.RMS_NORM,
        norm_epsilon=_epsilon(header, f"{prefix}.attention.layer_norm_rms_epsilon"),
        activation=Activation.SILU,
        rotary=Rotary(
            dims=dims,
            theta=header.number(f"{prefix}.rope.freq_base", 10000.0),
            scaling=_scaling(header, prefix, dims, slowing),
        ),
        tied=HEAD not in header.tensors,
        qkv_bias=qkv_bias or "blk.0.attn_q.bias" in header.tensors,
        out_bias="blk.0.attn_output.bias" in header.tensors,
        mlp_bias="blk.0.ffn_up.bias" in header.tensors,
        qk_norm=qk_norm,
    )


def _shape(header: GgufFile, prefix: str, *, gated: bool = False) -> ModelShape:
    depth = header.whole(f"{prefix}.block_count")
    if depth > LARGEST_DEPTH:
        raise header.refuse(f"{prefix}.block_count is {depth}; at most {LARGEST_DEPTH} are read")
    embedding = header.tensors.get(EMBEDDING)
    if embedding is None:
        raise header.refuse(f"the tensor {EMBEDDING} is missing")
    heads = header.whole(f"{prefix}.attention.head_count")
    width = header.whole(f"{prefix}.embedding_length")
    head_dim = 0
    if f"{prefix}.attention.key_length" in header.metadata:
        head_dim = header.whole(f"{prefix}.attention.key_length")
        values = header.whole(f"{prefix}.attention.value_length", head_dim)
        if values != head_dim:
            raise header.refuse(
                f"{prefix}.attention.value_length is {values} and key_length is {head_dim}; only "
                "equal lengths are computed here"
            )
    window = header.whole(f"{prefix}.attention.sliding_window", 0, least=0)
    return ModelShape(
        depth=depth,
        model_dim=width,
        num_heads=heads,
        kv_heads=header.whole(f"{prefix}.attention.head_count_kv", heads),
        head_dim=head_dim,
        context_length=header.whole(f"{prefix}.context_length"),
        vocabulary=embedding.shape[0],
        mlp_dim=header.whole(f"{prefix}.feed_forward_length"),
        gated=gated,
        windows=(window,) * depth if window else (),
    )


def _epsilon(header: GgufFile, key: str) -> float:
    epsilon = header.number(key)
    if not 0 <= epsilon < 1:
        raise header.refuse(f"{key} must lie in 0 to 1, not {epsilon}")
    return epsilon


def _scaling(header: GgufFile, prefix: str, dims: int, slowing: Floats | None) -> Scaling | None:
    """How rotary positions are stretched: by a tensor of the file, or by a rule that it names."""
    key = f"{prefix}.rope.scaling"
    rule = header.text(f"{key}.type", "none")
    if slowing is not None:
        if slowing.shape != (dims // 2,) or not ((slowing > 1e-6) & (slowing < 1e9)).all():
            raise header.refuse(f"{SLOWING} must hold {dims // 2} numbers from 1e-6 to 1e9")
        return Slowed(tuple(slowing.tolist()))
    if rule == "none":
        return None
    if rule not in ("linear", "yarn"):
        raise header.refuse(f"{key}.type is {rule!r}; read are none, linear and yarn")
    for field in header.metadata:
        if field.startswith(f"{key}.") and field.removeprefix(f"{key}.") not in SCALING_FIELDS:
            raise header.refuse(f"{field} changes the positions in a way not computed here")
    factor = header.number(f"{key}.factor")
    if not factor >= 1:
        raise header.refuse(f"{key}.factor must be at least 1, not {factor}")
    if rule == "linear":
        return Linear(factor)
    fast = header.number(f"{key}.yarn_beta_fast", Yarn.fast)
    slow = header.number(f"{key}.yarn_beta_slow", Yarn.slow)
    if not 1e-6 < slow <= fast:
        raise header.refuse(f"{key}.yarn_beta_slow is {slow} and yarn_beta_fast {fast}")
    return Yarn(
        factor=factor,
        original=header.whole(f"{key}.original_context_length"),
        magnitude=0.1 * math.log(factor) + 1.0,
        fast=fast,
        slow=slow,
    )


ARCHITECTURES = {
    "gpt2": Architecture("GPT-2", _gpt2, fused=True),
    "llama": Architecture("Llama", _llama, interleaved=True),
    "qwen2": Architecture("Qwen2", _qwen2),
    "qwen3": Architecture("Qwen3", _qwen3),
}
"""The architectures that are read, by ``general.architecture``."""
