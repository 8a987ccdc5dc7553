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
        low: keys before this one are too old for all of them.
        edge: keys before this one are too old for some of them; the last query sees none of them.
    """

    start: int
    stop: int
    seen: int
    diagonal: int
    low: int = 0
    edge: int = 0


def query_blocks(
    queries: int, keys: int, lookahead: int | None = 0, window: int = 0
) -> Iterator[QueryBlock]:
    """Cut a chunk of queries into blocks, each with the keys that it may see.

    The chunk's last query stands at the last key: the diagonal is aligned to the END of the keys;
    with keys of earlier chunks in the cache, query i stands at key ``keys - queries + i``.

    Args:
        queries: number of queries in the chunk.
        keys: number of keys, those of the chunk included.
        lookahead: later keys that a query may see; 0 is causal, None is all of them.
        window: keys that a query may see up to its own, that one included; 0 is all of them.
    """
    first = keys - queries
    ahead, behind = keys if lookahead is None else lookahead, window or keys
    size = queries if lookahead is None else BLOCK_QUERIES
    for start in range(0, queries, size):
        stop = min(start + size, queries)
        yield QueryBlock(
            start,
            stop,
            seen=min(first + stop + ahead, keys),
            diagonal=min(first + start + 1 + ahead, keys),
            low=max(0, first + start + 1 - behind),
            edge=max(0, first + stop - behind),
        )


def attention_scores(
    query: Floats, keys: Floats, block: QueryBlock, scale: float, out: Floats | None = None
) -> Floats:
    """Scaled scores of a block of queries, -infinity where a query may not look.

    Args:
        query: (batch, head, pos, d_head), the whole chunk
        keys: (batch, kv_head, key, d_head), of earlier positions too
        scale: 1/sqrt(d_head)
        out: where the result goes; a new array by default

    Returns:
        (batch, head, block.stop - block.start, block.seen - block.low)
    """
    query = query[:, :, block.start : block.stop] * scale  # (batch, head, block, d_head)
    keys = keys[:, :, block.low : block.seen].swapaxes(-1, -2)  # (batch, kv_head, d_head, seen)
    if out is None:
        out = np.empty((*query.shape[:-1], keys.shape[-1]), dtype=np.float32)
    rows, shared, result = shared_keys(query, keys, out)
    np.matmul(rows, shared, out=result)  # (batch, head, block, seen)
    if block.seen > block.diagonal:
        # Only the keys near the diagonal need a mask; the rest are seen by every query.
        later = ~np.tri(block.stop - block.start, block.seen - block.diagonal, -1, dtype=bool)
        np.copyto(out[..., block.diagonal - block.low :], -math.inf, where=later)
    if block.edge > block.low:
        width = block.edge - block.low
        count = block.stop - block.start
        older = np.tri(count, width, width - count, dtype=bool)
        np.copyto(out[..., :width], -math.inf, where=older)
    return out


def shared_keys(left: Floats, right: Floats, out: Floats) -> tuple[Floats, Floats, Floats]:
    """Views with which one product serves all query heads that share a key/value head.

    Nothing is repeated: with several queries the shared factor is broadcast over its query heads;
    with one, those heads are the rows of one product, so that the factor is read once.

    Args:
        left, out: (batch, head, pos, ...)
        right: (batch, kv_head, ...)
    """
    batch, heads, count, _ = left.shape
    kv_heads = right.shape[1]
    if heads == kv_heads:
        return left, right, out
    group = heads // kv_heads
    split = (batch, kv_heads, 1, group) if count == 1 else (batch, kv_heads, group, count)
    return left.reshape(*split, -1), right[:, :, np.newaxis], out.reshape(*split, -1)


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
        pattern: (batch, head, block, seen), of the keys from block.low to block.seen
        values: (batch, kv_head, key, d_head)
        out: where the result goes; a new array by default

    Returns:
        (batch, head, block, d_head)
    """
    if out is None:
        out = np.empty((*pattern.shape[:-1], values.shape[-1]), dtype=np.float32)
    rows, shared, result = shared_keys(pattern, values[:, :, block.low : block.seen], out)
    np.matmul(rows, shared, out=result)  # (batch, head, block, d_head)
    return out


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
    hidden: Floats,
    qkv_weight: Floats,
    qkv_bias: Floats | None,
    heads: int,
    kv_heads: int | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Queries, keys and values of all heads from one product.

    Args:
        hidden: (batch, pos, d_model)
        qkv_weight: (d_model, (heads + 2 * kv_heads) * d_head)
        qkv_bias: ((heads + 2 * kv_heads) * d_head,)
        kv_heads: as many as query heads by default

    Returns:
        Three views of one new array: (batch, heads, pos, d_head) and twice
        (batch, kv_heads, pos, d_head).
    """
    kv_heads = kv_heads or heads
    projected = linear(hidden, qkv_weight, qkv_bias)  # (batch, pos, all heads * d_head)
    batch, positions, _ = projected.shape
    by_head = projected.reshape(batch, positions, heads + 2 * kv_heads, -1).swapaxes(1, 2)
    end = heads + kv_heads
    return by_head[:, :heads], by_head[:, heads:end], by_head[:, end:]


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
