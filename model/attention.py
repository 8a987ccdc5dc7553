"""Attention of a chunk of queries over cached keys, one stage at a time.

Scores, softmax and weighted sum are functions of their own, because each is a step of its own in a
debugger. :func:`query_blocks` cuts a chunk so that little is computed beyond the diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from model.layers import linear
from model.weights import Floats

BLOCK_QUERIES = 128


@dataclass(frozen=True)
class QueryBlock:
    """Consecutive queries of a chunk that are computed in one product.

    Attributes:
        start, stop: the queries, counted from the chunk's first.
        seen: how many keys the last of them may see, counted from key 0.
        diagonal: how many of those keys the first of them is sure to see: the mask begins there.
    """

    start: int
    stop: int
    seen: int
    diagonal: int


def query_blocks(queries: int, keys: int, lookahead: int | None = 0) -> Iterator[QueryBlock]:
    """Cut a chunk of queries into blocks, each with the keys that it may see.

    The chunk's last query stands at the last key: the diagonal is aligned to the END of the keys;
    with keys of earlier chunks in the cache, query i stands at key ``keys - queries + i``.

    Args:
        queries: number of queries in the chunk.
        keys: number of keys, those of the chunk included.
        lookahead: later keys that a query may see; 0 is causal, None is no mask at all.
    """
    first = keys - queries
    if lookahead is None:
        yield QueryBlock(0, queries, keys, keys)
        return
    for start in range(0, queries, BLOCK_QUERIES):
        stop = min(start + BLOCK_QUERIES, queries)
        diagonal = min(first + start + 1 + lookahead, keys)
        yield QueryBlock(start, stop, min(first + stop + lookahead, keys), diagonal)


def attention_scores(
    query: Floats, keys: Floats, block: QueryBlock, scale: float, out: Floats | None = None
) -> Floats:
    """Scaled scores of a block of queries, -infinity where a query may not look.

    Args:
        query: (batch, head, pos, d_head), the whole chunk
        keys: (batch, head, key, d_head), of earlier positions too
        scale: 1/sqrt(d_head)
        out: where the result goes; a new array by default

    Returns:
        (batch, head, block.stop - block.start, block.seen)
    """
    query = query[:, :, block.start : block.stop]  # (batch, head, block, d_head)
    keys = keys[:, :, : block.seen].swapaxes(-1, -2)  # (batch, head, d_head, seen)
    scores: Floats = np.matmul(query * scale, keys, out=out)  # (batch, head, block, seen)
    if block.seen > block.diagonal:
        # Only the keys near the diagonal need a mask; the rest are seen by every query.
        later = ~np.tri(block.stop - block.start, block.seen - block.diagonal, -1, dtype=bool)
        np.copyto(scores[..., block.diagonal :], -math.inf, where=later)
    return scores


def softmax(scores: Floats, out: Floats | None = None) -> Floats:
    """Positive weights that sum to 1 over the last axis; a score of -infinity weighs exactly 0.

    A row of nothing but -infinity gives zeros, not NaN. ``out`` may be ``scores`` itself.
    """
    peak = scores.max(axis=-1, keepdims=True)
    # Subtracting the peak keeps exp from overflowing; -inf - (-inf) would be NaN.
    np.copyto(peak, 0.0, where=np.isneginf(peak))
    weights: Floats = np.subtract(scores, peak, out=out)
    np.exp(weights, out=weights)
    total = weights.sum(axis=-1, keepdims=True)
    np.copyto(total, 1.0, where=total == 0.0)
    weights /= total
    return weights


def mix_values(
    pattern: Floats, values: Floats, block: QueryBlock, out: Floats | None = None
) -> Floats:
    """The values that a block of queries sees, summed with the queries' weights.

    Args:
        pattern: (batch, head, block, seen)
        values: (batch, head, key, d_head)

    Returns:
        (batch, head, block, d_head)
    """
    mixed: Floats = np.matmul(pattern, values[:, :, : block.seen], out=out)
    return mixed


def cached_attention(query: Floats, keys: Floats, values: Floats) -> Floats:
    """One new query over the whole cache; no mask, since later positions do not exist yet.

    Args:
        query: (batch, heads, 1, d_head)
        keys, values: (batch, heads, length, d_head)

    Returns:
        (batch, heads, 1, d_head)
    """
    length = keys.shape[2]
    block = QueryBlock(0, query.shape[2], length, length)
    scores = attention_scores(query, keys, block, 1.0 / math.sqrt(query.shape[-1]))
    return mix_values(softmax(scores, out=scores), values, block)


def project_qkv(
    hidden: Floats, qkv_weight: Floats, qkv_bias: Floats | None, heads: int
) -> tuple[Floats, Floats, Floats]:
    """Queries, keys and values of all heads from one product.

    Args:
        hidden: (batch, pos, d_model)
        qkv_weight: (d_model, 3 * heads * d_head)
        qkv_bias: (3 * heads * d_head,)

    Returns:
        Three views of one new array, each (batch, heads, pos, d_head).
    """
    projected = linear(hidden, qkv_weight, qkv_bias)  # (batch, pos, 3 * heads * d_head)
    batch, positions, _ = projected.shape
    split = projected.reshape(batch, positions, 3, heads, -1).transpose(2, 0, 3, 1, 4)
    return split[0], split[1], split[2]


def fused_qkv_decode(
    hidden: Floats, qkv_weight: Floats, heads: int
) -> tuple[Floats, Floats, Floats]:
    """Query, key and value of one new token: one vector-matrix product, without a bias.

    Args:
        hidden: (batch, 1, d_model)
        qkv_weight: (d_model, 3 * d_model)

    Returns:
        Three arrays (batch, heads, 1, d_head).
    """
    return project_qkv(hidden, qkv_weight, None, heads)
