"""The weights of a decoder under canonical names, whatever file they came from.

Matrices are (in, out) and contiguous, so that a decode step is a chain of vector-matrix products
that read each weight once, in order. The two tables are (vocab, d_model) and (context, d_model).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from model.blueprint import Blueprint
from model.errors import ShapeMismatch

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class BlockWeights:
    """One block. Q, K and V are one fused matrix: columns of all queries, all keys, all values."""

    ln1_gain: Floats  # (d_model,)
    ln1_shift: Floats
    qkv_weight: Floats  # (d_model, 3 * heads * d_head)
    qkv_bias: Floats
    out_weight: Floats  # (heads * d_head, d_model)
    out_bias: Floats
    ln2_gain: Floats
    ln2_shift: Floats
    up_weight: Floats  # (d_model, d_mlp)
    up_bias: Floats
    down_weight: Floats  # (d_mlp, d_model)
    down_bias: Floats


@dataclass(frozen=True)
class Weights:
    """All weights. With a tied unembedding ``unembedding`` is the ``embedding`` array itself."""

    embedding: Floats  # (vocab, d_model)
    position: Floats  # (context, d_model)
    blocks: tuple[BlockWeights, ...]
    final_gain: Floats  # (d_model,)
    final_shift: Floats
    unembedding: Floats  # (vocab, d_model)

    def named(self) -> Iterator[tuple[str, Floats]]:
        """Each array once, with its name as :func:`weight_shapes` spells it."""
        yield "embedding", self.embedding
        yield "position", self.position
        for layer, block in enumerate(self.blocks):
            for field in fields(block):
                yield f"blocks.{layer}.{field.name}", getattr(block, field.name)
        yield "final_gain", self.final_gain
        yield "final_shift", self.final_shift
        if self.unembedding is not self.embedding:
            yield "unembedding", self.unembedding

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


def weight_shapes(blueprint: Blueprint) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight that a decoder of this blueprint has."""
    shape = blueprint.shape
    width, mlp, attended = shape.model_dim, shape.mlp_dim, shape.num_heads * shape.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "embedding": (shape.vocabulary, width),
        "position": (shape.context_length, width),
    }
    block: dict[str, tuple[int, ...]] = {
        "ln1_gain": (width,),
        "ln1_shift": (width,),
        "qkv_weight": (width, 3 * attended),
        "qkv_bias": (3 * attended,),
        "out_weight": (attended, width),
        "out_bias": (width,),
        "ln2_gain": (width,),
        "ln2_shift": (width,),
        "up_weight": (width, mlp),
        "up_bias": (mlp,),
        "down_weight": (mlp, width),
        "down_bias": (width,),
    }
    for layer in range(shape.depth):
        shapes |= {f"blocks.{layer}.{name}": size for name, size in block.items()}
    shapes |= {"final_gain": (width,), "final_shift": (width,)}
    if not blueprint.tied:
        shapes["unembedding"] = (shape.vocabulary, width)
    return shapes


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
    blocks = tuple(
        BlockWeights(**{f.name: ready[f"blocks.{layer}.{f.name}"] for f in fields(BlockWeights)})
        for layer in range(blueprint.shape.depth)
    )
    return Weights(
        embedding=ready["embedding"],
        position=ready["position"],
        blocks=blocks,
        final_gain=ready["final_gain"],
        final_shift=ready["final_shift"],
        unembedding=ready["embedding" if blueprint.tied else "unembedding"],
    )
