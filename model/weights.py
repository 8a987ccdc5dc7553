"""The weights of a decoder under canonical names, whatever file they came from.

Matrices are (in, out) and contiguous, so that a decode step is a chain of vector-matrix products
that read each weight once, in order. The two tables are (vocab, d_model) and (context, d_model).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.blueprint import Blueprint, Norm
from model.errors import ShapeMismatch
from model.shape import ModelShape

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class BlockWeights:
    """One block; what its blueprint has not is None.

    Q, K and V are one fused matrix: columns of all queries, all keys, all values, head by head.
    """

    ln1_gain: Floats  # (d_model,)
    qkv_weight: Floats  # (d_model, (heads + 2 * kv_heads) * d_head)
    out_weight: Floats  # (heads * d_head, d_model)
    ln2_gain: Floats  # (d_model,)
    up_weight: Floats  # (d_model, d_mlp)
    down_weight: Floats  # (d_mlp, d_model)
    ln1_shift: Floats | None = None
    qkv_bias: Floats | None = None
    q_norm_gain: Floats | None = None  # (d_head,)
    k_norm_gain: Floats | None = None
    out_bias: Floats | None = None
    ln2_shift: Floats | None = None
    gate_weight: Floats | None = None  # (d_model, d_mlp)
    gate_bias: Floats | None = None
    up_bias: Floats | None = None
    down_bias: Floats | None = None


@dataclass(frozen=True)
class Weights:
    """All weights. With a tied unembedding ``unembedding`` is the ``embedding`` array itself."""

    embedding: Floats  # (vocab, d_model)
    blocks: tuple[BlockWeights, ...]
    final_gain: Floats  # (d_model,)
    unembedding: Floats  # (vocab, d_model)
    position: Floats | None = None  # (context, d_model)
    final_shift: Floats | None = None

    def named(self) -> Iterator[tuple[str, Floats]]:
        """Each array once, with its name as :func:`weight_shapes` spells it."""
        for field in fields(self):
            if field.name != "blocks":
                yield from _there(field.name, getattr(self, field.name), self)
        for layer, block in enumerate(self.blocks):
            for field in fields(block):
                yield from _there(f"blocks.{layer}.{field.name}", getattr(block, field.name), self)

    @property
    def parameters(self) -> int:
        """Number of weights, a tied table counted once."""
        return sum(array.size for _, array in self.named())

    def poisoned(self) -> Weights:
        """The same weights with one NaN, at [0, 0] of the matrix up into the second block's MLP.

        A model of one block gets it in that block. Only that matrix is copied.
        """
        layer = min(1, len(self.blocks) - 1)
        up_weight = self.blocks[layer].up_weight.copy()
        up_weight[0, 0] = np.nan
        blocks = list(self.blocks)
        blocks[layer] = replace(blocks[layer], up_weight=up_weight)
        return replace(self, blocks=tuple(blocks))


def _there(name: str, array: Floats | None, weights: Weights) -> Iterator[tuple[str, Floats]]:
    """A weight with its name, unless it is not there or is the embedding again."""
    if array is not None and (name == "embedding" or array is not weights.embedding):
        yield name, array


def qkv_widths(shape: ModelShape) -> tuple[int, int, int]:
    """Columns of the queries, the keys and the values in the fused matrix."""
    keys = shape.kv_heads * shape.head_dim
    return shape.num_heads * shape.head_dim, keys, keys


def weight_shapes(blueprint: Blueprint) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight that a decoder of this blueprint has."""
    shape = blueprint.shape
    width, attended = shape.model_dim, shape.num_heads * shape.head_dim
    shapes: dict[str, tuple[int, ...]] = {"embedding": (shape.vocabulary, width)}
    if blueprint.rotary is None:
        shapes["position"] = (shape.context_length, width)
    block = _block_shapes(blueprint, width, attended, shape.mlp_dim)
    for layer in range(shape.depth):
        shapes |= {f"blocks.{layer}.{name}": size for name, size in block.items()}
    shapes["final_gain"] = (width,)
    if blueprint.norm is Norm.LAYER_NORM:
        shapes["final_shift"] = (width,)
    if not blueprint.tied:
        shapes["unembedding"] = (shape.vocabulary, width)
    return shapes


def _block_shapes(
    blueprint: Blueprint, width: int, attended: int, mlp: int
) -> dict[str, tuple[int, ...]]:
    shape = blueprint.shape
    fused = sum(qkv_widths(shape))
    shifted, biased = blueprint.norm is Norm.LAYER_NORM, blueprint.mlp_bias
    every: tuple[tuple[str, tuple[int, ...], bool], ...] = (
        ("ln1_gain", (width,), True),
        ("ln1_shift", (width,), shifted),
        ("qkv_weight", (width, fused), True),
        ("qkv_bias", (fused,), blueprint.qkv_bias),
        ("q_norm_gain", (shape.head_dim,), blueprint.qk_norm),
        ("k_norm_gain", (shape.head_dim,), blueprint.qk_norm),
        ("out_weight", (attended, width), True),
        ("out_bias", (width,), blueprint.out_bias),
        ("ln2_gain", (width,), True),
        ("ln2_shift", (width,), shifted),
        ("gate_weight", (width, mlp), shape.gated),
        ("gate_bias", (mlp,), shape.gated and biased),
        ("up_weight", (width, mlp), True),
        ("up_bias", (mlp,), biased),
        ("down_weight", (mlp, width), True),
        ("down_bias", (width,), biased),
    )
    return {name: size for name, size, there in every if there}


def count_strays(array: Floats) -> int:
    """How many values are NaN or infinite."""
    # A sum is not finite if any of its terms is not: one cheap look at all of them.
    with np.errstate(invalid="ignore"):
        if np.isfinite(array.sum(dtype=np.float64)):
            return 0
    return array.size - int(np.isfinite(array).sum())


def stray_warning(stored: str, count: int) -> str:
    """The words about a stored tensor with NaN or infinite values."""
    what = "1 value that is" if count == 1 else f"{count:,} values that are"
    return f"{stored} holds {what} NaN or infinite"


def build_weights(blueprint: Blueprint, arrays: Mapping[str, Floats]) -> Weights:
    """Weights from arrays under canonical names.

    Raises:
        ShapeMismatch: an array is missing, or has another shape or another type than float32.
    """
    ready: dict[str, Floats] = {}
    for name, size in weight_shapes(blueprint).items():
        if name not in arrays:
            raise ShapeMismatch(f"the weight {name} is missing")
        array = arrays[name]
        if array.shape != size:
            raise ShapeMismatch(f"the weight {name} has shape {array.shape}, not {size}")
        if array.dtype != np.float32:
            raise ShapeMismatch(f"the weight {name} is {array.dtype}, not float32")
        ready[name] = np.ascontiguousarray(array)
    blocks = tuple(_block_of(ready, f"blocks.{layer}.") for layer in range(blueprint.shape.depth))
    return Weights(
        embedding=ready["embedding"],
        position=ready.get("position"),
        blocks=blocks,
        final_gain=ready["final_gain"],
        final_shift=ready.get("final_shift"),
        unembedding=ready["embedding" if blueprint.tied else "unembedding"],
    )


def _block_of(ready: Mapping[str, Floats], prefix: str) -> BlockWeights:
    held: dict[str, Any] = {
        field.name: ready.get(prefix + field.name) for field in fields(BlockWeights)
    }
    return BlockWeights(**held)
