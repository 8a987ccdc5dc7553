"""How far two arrays of the same positions are apart, cell by cell.

The relative difference of two cells is ``|a - b| / s``, where ``s`` is the largest finite number in
the rows compared, of either array (1 where all are 0). Dividing by each cell's own size instead
would call the rounding of a number near 0 a difference. It is symmetric, and where the two agree it
is what the check ``cache-equals-full`` measures. Equal cells, two masked scores and two NaN at the
same place differ by 0; NaN against a number differs by NaN, infinity against one by infinity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.engine import Array
from model.errors import ShapeMismatch
from model.operations import Kind

CELLS_AT_ONCE = 2**20  # turned into float64 at a time: logits of a long prompt are large
MASK_BELOW = -9e3  # what some decoders add to a masked score instead of -infinity

Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Apart:
    """The differences of some rows, worst cell of each; made by :func:`measure`.

    Attributes:
        rows: relative difference of each position's worst cell, (pos,) float64.
        at: index of that cell in (head, column) of its row, (pos,).
        columns: number of columns, so that ``at`` can be taken apart.
        headed: whether there is a head axis.
        both_nan: how many cells are NaN in both.
    """

    rows: Doubles
    at: NDArray[np.int64]
    columns: int
    headed: bool
    both_nan: int = 0

    @property
    def worst(self) -> int:
        """The row with the largest difference, NaN before infinity before any number."""
        return int(np.argmax(ranked(self.rows)))

    def first_past(self, tolerance: float) -> int | None:
        """The first row that is past a tolerance, or None."""
        past = np.flatnonzero(~(self.rows <= tolerance))
        return int(past[0]) if past.size else None

    def cell(self, row: int) -> tuple[int | None, int]:
        """Head and column of a row's worst cell."""
        head, column = divmod(int(self.at[row]), self.columns)
        return (head if self.headed else None), column


def ranked(values: Doubles) -> Doubles:
    """Differences as numbers that can be sorted: NaN above infinity above the rest."""
    finite = np.minimum(values, 1e300)
    return np.where(np.isnan(values), math.inf, finite)


def rank(difference: float) -> float:
    """The same for one of them."""
    return float(ranked(np.array([difference]))[0])


def laid_over(
    kind: Kind, left: Array, right: Array, first: int, name: str = "the array"
) -> tuple[Array, Array]:
    """Two arrays with the same axes, (head, pos, column) or (pos, column).

    A key that one side does not have is one that it masks: a score of -infinity, a weight of 0. A
    large negative score of a later key is a masked one too.

    Raises:
        ShapeMismatch: the axes differ otherwise.
    """
    if kind in (Kind.SCORES, Kind.PATTERN):
        absent = -math.inf if kind is Kind.SCORES else 0.0
        keys = max(left.shape[-1], right.shape[-1])
        left, right = _widened(left, keys, absent), _widened(right, keys, absent)
        if kind is Kind.SCORES and left.shape == right.shape:
            left, right = _masked(left, first), _masked(right, first)
    if left.shape != right.shape:
        raise ShapeMismatch(
            f"{name} has the axes {list(left.shape)} in the one and {list(right.shape)} in the "
            "other, batch left out"
        )
    return left, right


def _widened(array: Array, keys: int, absent: float) -> Array:
    missing = keys - array.shape[-1]
    if not missing:
        return array
    pad = np.full((*array.shape[:-1], missing), absent, dtype=array.dtype)
    return np.concatenate([array, pad], axis=-1)


def _masked(scores: Array, first: int) -> Array:
    queries, keys = scores.shape[-2:]
    later = np.arange(keys) > np.arange(first, first + queries)[:, np.newaxis]
    stand_in = later & (scores <= MASK_BELOW)
    return np.where(stand_in, -np.inf, scores) if stand_in.any() else scores


def measure(left: Array, right: Array) -> Apart:
    """The differences of two arrays of the same shape, (head, pos, column) or (pos, column)."""
    headed, count, columns = left.ndim == 3, left.shape[-2], left.shape[-1]
    if np.array_equal(left, right):  # never so where there is a NaN
        return Apart(np.zeros(count), np.zeros(count, np.int64), columns, headed)
    rows, at = np.zeros(count), np.zeros(count, np.int64)
    scale, both_nan = 0.0, 0
    size = max(1, CELLS_AT_ONCE // max(1, left.size // count))
    for start in range(0, count, size):
        part = slice(start, min(start + size, count))
        ours = _by_row(left[..., part, :])
        theirs = _by_row(right[..., part, :])
        cells = absolute(ours, theirs)
        order = ranked(cells)
        at[part] = order.argmax(axis=1)
        rows[part] = np.take_along_axis(cells, at[part, np.newaxis], axis=1)[:, 0]
        scale = max(scale, largest_finite(ours), largest_finite(theirs))
        both_nan += int((np.isnan(ours) & np.isnan(theirs)).sum())
    return Apart(rows / (scale or 1.0), at, columns, headed, both_nan)


def _by_row(part: Array) -> Doubles:
    """(head, pos, column) or (pos, column) as (pos, head * column) in float64."""
    rows = part.swapaxes(0, 1) if part.ndim == 3 else part
    return rows.reshape(rows.shape[0], -1).astype(np.float64)


def absolute(left: Array, right: Array) -> Doubles:
    """Absolute difference of each cell: 0 for two NaN and for two equal infinities."""
    ours, theirs = left.astype(np.float64), right.astype(np.float64)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(same, 0.0, np.abs(ours - theirs))


def largest_finite(array: Array) -> float:
    """The largest absolute value that is a number, 0 where there is none."""
    with np.errstate(invalid="ignore"):
        sizes = np.abs(array)
    return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))
