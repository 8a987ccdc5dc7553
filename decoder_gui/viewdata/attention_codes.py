"""Attention weights as colours: exact for one head, the largest of each block for a thumbnail.

At 1,024 positions a layer of twelve heads holds 12.6 million weights, so what is done for all of
them is one maximum, one sum and a few diagonals per head; only a head that holds a leak or a number
that is not finite is gone through cell by cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.engine import Array

Codes = NDArray[np.uint8]

NOTHING = 0
"""Code of a cell without a colour: masked, not computed, not kept, or not finite."""
STEPS = 254
"""A weight w in [0, 1] has the code 1 + round(w * STEPS), so that a maximum of codes is one of
weights and never of absences."""
LEAK_TOLERANCE = 1e-9
"""Attention weights above the diagonal are leaks when larger than this."""
LEAKS_KEPT = 40
"""Leaks of a head that are remembered one by one; the others are counted."""
_AT_ONCE = 1 << 16  # cells: what is larger would be new memory for every intermediate result


def encode(weights: Array, first: int = 0, window: int = 0) -> Codes:
    """Codes of attention weights (..., rows, keys); ``first`` is the position of row 0.

    What is above the diagonal, or before a window of that many keys (0: none), is masked and gets
    no colour, unless it is a leak.
    """
    codes: Codes = np.empty(weights.shape, np.uint8)
    rows = weights.shape[-2]
    several = max(1, _AT_ONCE * rows // max(1, weights.size))
    for top in range(0, rows, several):
        part = weights[..., top : top + several, :]
        codes[..., top : top + several, :] = _encode(part, first + top, window)
    return codes


def _encode(weights: Array, first: int, window: int) -> Codes:
    with np.errstate(invalid="ignore"):
        scaled = np.clip(weights, 0.0, 1.0) * STEPS + 1.5
    codes: Codes = np.where(np.isfinite(weights), scaled, NOTHING).astype(np.uint8)
    rows, keys = weights.shape[-2:]
    queries = np.arange(first, first + rows)[:, np.newaxis]
    if first + 1 < keys:
        hidden = np.arange(keys) > queries
        codes[hidden & (weights <= LEAK_TOLERANCE)] = NOTHING
    if window and window < first + rows:
        hidden = np.arange(keys) <= queries - window
        codes[hidden & (weights <= LEAK_TOLERANCE)] = NOTHING
    return codes


def shrink(codes: Codes, factor: int) -> Codes:
    """The largest code of each block of ``factor`` x ``factor`` cells of (..., rows, keys)."""
    if factor == 1:
        return codes
    *front, rows, keys = codes.shape
    tall, wide = -(-rows // factor), -(-keys // factor)
    padded = np.zeros((*front, tall * factor, wide * factor), np.uint8)
    padded[..., :rows, :keys] = codes
    # One maximum per offset is several times faster than reshape().max().
    halved = padded[..., ::factor, :].copy()
    for offset in range(1, factor):
        np.maximum(halved, padded[..., offset::factor, :], out=halved)
    result = halved[..., ::factor].copy()
    for offset in range(1, factor):
        np.maximum(result, halved[..., offset::factor], out=result)
    return result


def shrink_factor(positions: int, side: int) -> int:
    """The smallest power of two by which that many positions fit into ``side`` cells."""
    factor = 1
    while -(-positions // factor) > side:
        factor *= 2
    return factor


@dataclass(frozen=True)
class HeadLeaks:
    """Weights above the diagonal of one head in one step; parallel arrays, heaviest first.

    Only the ``LEAKS_KEPT`` heaviest are there one by one; ``count`` is that of all.
    """

    head: int
    count: int
    queries: NDArray[np.int64]
    keys: NDArray[np.int64]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class Digest:
    """All that is remembered of some heads' attention in one step.

    Attributes:
        cells: (block rows, heads, block keys) largest codes; the first block is the one that holds
            the step's first position.
        leaks: of the heads that have some.
        broken: weights that are NaN or infinite, (heads,).
    """

    cells: Codes
    leaks: tuple[HeadLeaks, ...]
    broken: NDArray[np.int64]


def digest(pattern: Array, first: int, window: int, factor: int, head: int = 0) -> Digest:
    """What is remembered of a pattern (head, row, key) whose row 0 is position ``first``.

    Args:
        pattern: of as many heads as are to be done at once, ``head`` being the first of them.
        window: keys that a query sees, its own included; 0 is all earlier ones.
        factor: positions of a cell.
    """
    outlines: list[Codes] = []
    leaks: list[HeadLeaks] = []
    broken = np.zeros(len(pattern), np.int64)
    for at, square in enumerate(pattern):
        outline = _outline(square, first, window, factor)
        if outline is None:
            outline = _outline_by_cells(square, first, window, factor)
            broken[at] = np.count_nonzero(~np.isfinite(square))
            leaks += find_leaks(square, first, head + at)
        outlines.append(outline)
    return Digest(np.stack(outlines, axis=1), tuple(leaks), broken)


def joined(parts: list[Digest]) -> Digest:
    """Digests of consecutive heads as one."""
    return Digest(
        np.concatenate([part.cells for part in parts], axis=1),
        tuple(leak for part in parts for leak in part.leaks),
        np.concatenate([part.broken for part in parts]),
    )


def find_leaks(square: Array, first: int, head: int) -> list[HeadLeaks]:
    """Those of one head, (row, key), whose row 0 is position ``first``; empty where it has none."""
    rows, keys = square.shape
    if first + 1 >= keys:
        return []
    later = np.arange(keys) > np.arange(first, first + rows)[:, np.newaxis]
    leaking = (square > LEAK_TOLERANCE) & later
    count = int(np.count_nonzero(leaking))
    if not count:
        return []
    if count > LEAKS_KEPT:
        heaviest = np.partition(square[leaking], count - LEAKS_KEPT)
        leaking &= square >= heaviest[count - LEAKS_KEPT]
    found_rows, found_keys = np.nonzero(leaking)
    weights = square[found_rows, found_keys].astype(np.float64)
    order = np.argsort(-weights, kind="stable")[:LEAKS_KEPT]
    return [HeadLeaks(head, count, found_rows[order] + first, found_keys[order], weights[order])]


def _outline(square: Array, first: int, window: int, factor: int) -> Codes | None:
    """Largest codes of the blocks of a head, (block rows, block keys), without a look at each cell.

    None where that is not possible: a weight above the diagonal, or one that is not finite.
    """
    rows, keys = square.shape
    if not np.isfinite(square.sum()):
        return None
    # Whatever lies further above the diagonal than a block is wide lies in another block.
    above = (np.diagonal(square, first + apart) for apart in range(1, factor))
    if any(cells.size and cells.max() > LEAK_TOLERANCE for cells in above):
        return None
    largest = _largest(square, first % factor, factor)
    top = first // factor
    queries = np.arange(top, top + len(largest))[:, np.newaxis]
    blocks = np.arange(largest.shape[1])
    if (largest[blocks > queries] > LEAK_TOLERANCE).any():
        return None
    codes = encode(largest, largest.shape[1])
    last = np.minimum((queries + 1) * factor, first + rows) - 1
    codes[blocks * factor > last] = NOTHING
    if window:
        newest_hidden = np.maximum(queries * factor, first) - window
        codes[np.minimum((blocks + 1) * factor, keys) - 1 <= newest_hidden] = NOTHING
    return codes


def _largest(square: Array, lead: int, factor: int) -> Array:
    """The largest weight of each block; ``lead`` rows of the first block are not there.

    Rows first: whole rows are compared with whole rows, and what is left is small.
    """
    rows, keys = square.shape
    tall = -(-(lead + rows) // factor)
    across = np.empty((tall, keys), square.dtype)
    head = min((factor - lead) % factor, rows)
    whole = (rows - head) // factor
    done = 0
    if head:
        across[0] = square[:head].max(axis=0)
        done = 1
    if whole:
        middle = square[head : head + whole * factor].reshape(whole, factor, keys)
        np.maximum.reduce(middle, axis=1, out=across[done : done + whole])
    if done + whole < tall:
        across[-1] = square[head + whole * factor :].max(axis=0)
    wide = -(-keys // factor)
    if wide * factor != keys:
        padded = np.zeros((tall, wide * factor), square.dtype)
        padded[:, :keys] = across
        across = padded
    while factor > 1:  # a power of two: pairs are faster than all of a block at once
        across = np.maximum(across[:, ::2], across[:, 1::2])
        factor //= 2
    return across


def _outline_by_cells(square: Array, first: int, window: int, factor: int) -> Codes:
    codes = encode(square, first, window)
    lead = first % factor  # rows of the first block that other steps have filled
    if lead:
        codes = np.pad(codes, ((lead, 0), (0, 0)))
    return shrink(codes, factor)
