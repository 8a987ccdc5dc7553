"""Where a difference comes from: the operation whose inputs agree and whose result does not.

The first operation past the tolerance need not be it. A small mistake may pass the tolerance only
after it has grown, some operations on; and an operation that records nothing, the appending to the
cache, shows in those that read what it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoder_gui.debugger.comparing.differences import Doubles, absolute, largest_finite
from model.engine import Array
from model.operations import Kind, Operation

GAIN = 10.0  # how much a sound operation may enlarge a relative difference
NOISE = 0.05  # share of the tolerance below which a difference is taken for rounding
NOT_COMPARED = -1.0
COLUMNS_TRIED = 64

Rows = Callable[[str], tuple[Array, Array] | None]
"""Name -> both arrays of an overlap, (head, pos, column) or (pos, column), laid over each other."""

History = Callable[[str, bool], Array | None]
"""(name, of the left run) -> rows of every position up to the overlap's end, (head, pos, d)."""


@dataclass(frozen=True)
class Traced:
    """An operation that a difference was traced back to.

    Attributes:
        operation: index of the operation.
        overlap: index of the first overlap where it shows above the rounding.
        unrecorded: inputs that could not be compared, so that it may come from before.
    """

    operation: int
    overlap: int
    unrecorded: tuple[str, ...] = ()


def trace_back(
    operations: Sequence[Operation],
    grid: Doubles,
    first: tuple[int, int],
    tolerance: float,
    missing: Collection[str] = (),
) -> Traced:
    """Follow a difference to the operation whose inputs agree.

    Args:
        operations: in the order of a pass.
        grid: largest relative difference of each operation's results in each overlap,
            (operation, overlap); :data:`NOT_COMPARED` where there is none.
        first: (operation, overlap) of the first difference past the tolerance.
        missing: results that were not compared although others of their operation were.
    """
    producers = {name: i for i, op in enumerate(operations) for name in op.outputs}
    at, overlap = first
    noise = NOISE * tolerance
    while True:
        operation = operations[at]
        found = {
            producers[name]: _input_difference(operation, name, grid, producers[name], overlap)
            for name in operation.inputs
            if name in producers
        }
        unrecorded = tuple(
            name
            for name in operation.inputs
            if name not in producers or name in missing or found[producers[name]] == NOT_COMPARED
        )
        before = max(found, key=lambda index: found[index], default=at)
        size = grid[at, overlap]
        # Two numbers differ by 2 at most, relative; NaN and infinity count as infinity here.
        if before >= at or found[before] <= max(noise, min(size, 2.0) / GAIN):
            break
        at = before
        if grid[at, overlap] <= noise:  # it is in rows of an earlier step
            break
    size = float(grid[at, : overlap + 1].max())
    shows = np.flatnonzero(grid[at, : overlap + 1] > max(noise, min(size, tolerance) / GAIN))
    return Traced(at, int(shows[0]) if shows.size else overlap, unrecorded)


def _input_difference(
    operation: Operation, name: str, grid: Doubles, producer: int, overlap: int
) -> float:
    """How far an input is apart: keys and values of attention are those of all steps so far."""
    attended = operation.kind in (Kind.SCORES, Kind.MIX) and name == operation.inputs[-1]
    seen = grid[producer, : overlap + 1] if attended else grid[producer, overlap : overlap + 1]
    return float(seen.max())


def cache_is_wrong(
    operation: Operation,
    rows: Rows,
    history: History,
    *,
    first: int,
    scale: float,
    tolerance: float,
) -> bool:
    """Whether attention read other keys or values than those that were computed.

    ``operation`` is the scores or the weighted values of the first overlap that differs, with
    inputs that agree. Then either its arithmetic is wrong, or the rows that it read are.
    """
    if operation.kind is Kind.SCORES:
        return _keys_are_wrong(operation, rows, history, first, scale, tolerance)
    if operation.kind is Kind.MIX:
        return _values_are_wrong(operation, rows, history, first, tolerance)
    return False


def _keys_are_wrong(
    operation: Operation,
    rows: Rows,
    history: History,
    first: int,
    scale: float,
    tolerance: float,
) -> bool:
    """A wrong mask or scale is the scores' own mistake; single columns that are off are not."""
    pair = rows(operation.outputs[0])
    if pair is None:
        return False
    left, right = (array.astype(np.float64) for array in pair)
    size = max(largest_finite(left), largest_finite(right)) or 1.0
    finite = np.isfinite(left) & np.isfinite(right)
    wrong = finite & ~(absolute(left, right) <= tolerance * size)
    per_head = zip(left, right, finite, strict=True)
    if not wrong.any() or all(
        _proportional(ours[both], theirs[both], tolerance * size) for ours, theirs, both in per_head
    ):
        return False
    columns: NDArray[np.bool_] = np.any(wrong, axis=(0, 1))  # (key,)
    untouched = (finite.any(axis=(0, 1)) & ~columns).any()
    # A row of the cache that is not the right one shows in most of the heads.
    heads: NDArray[np.bool_] = np.any(wrong, axis=1)  # (head, key)
    whole = (heads[:, columns].mean(axis=0) >= 0.5).all()
    if first > 0 and untouched and whole:
        return True
    queries = rows(operation.inputs[0])
    if queries is None:
        return False
    for side, scores in enumerate((left, right)):
        keys = history(operation.inputs[-1], side == 0)
        query = queries[side].astype(np.float64)
        if keys is not None and _are_other_rows(
            scale * query, keys.astype(np.float64), scores, finite, columns, tolerance * size
        ):
            return True
    return False


def _are_other_rows(
    queries: Doubles, keys: Array, scores: Doubles, finite: Array, columns: Array, allowed: float
) -> bool:
    """Whether each column that differs is what the queries give with some other row than its own.

    Where more queries see a key than a row has numbers, that is a question of linear algebra: is
    there any row that gives all of their scores? Elsewhere the rows of other positions are tried,
    and one of zeros.

    Args:
        queries: scaled, (head, pos, d).
        keys: those that were computed, (kv_head, key, d).
        scores: those that were recorded, (head, pos, key).
        finite: which of them are numbers in both runs.
        columns: which keys differ, (key,).
    """
    heads, groups = queries.shape[0], keys.shape[0]
    solved = tried = unknown = False
    for column in np.flatnonzero(columns)[:COLUMNS_TRIED]:
        for group in range(groups):
            mine = slice(group * heads // groups, (group + 1) * heads // groups)
            seen = finite[mine, :, column]
            rows = queries[mine][seen]  # (queries that see it, d)
            if not rows.size:
                continue
            given = scores[mine, :, column][seen]
            own = keys[group, column] if column < keys.shape[1] else np.zeros(rows.shape[1])
            if (np.abs(rows @ own - given) <= allowed).all():
                continue  # it is the row that was computed
            if len(rows) > rows.shape[1]:
                row = np.linalg.lstsq(rows, given, rcond=None)[0]
                if not (np.abs(rows @ row - given) <= allowed).all():
                    return False
                solved = True
            else:
                candidates = np.vstack([keys[group], np.zeros(rows.shape[1])])
                apart = np.abs(rows @ candidates.T - given[:, np.newaxis]).max(axis=0)
                if (apart <= allowed).any():
                    tried = True
                else:
                    unknown = True
    return solved or (tried and not unknown)


def _proportional(left: Doubles, right: Doubles, allowed: float) -> bool:
    """Whether all scores are off by one factor, which the scale is and no row of a cache."""
    weight = float((left * left).sum())
    if left.size < 2 or not weight:
        return False
    factor = float((left * right).sum()) / weight
    bound = allowed * max(1.0, abs(factor))
    return abs(factor) > 1e-3 and bool((np.abs(right - factor * left) <= bound).all())


def _values_are_wrong(
    operation: Operation, rows: Rows, history: History, first: int, tolerance: float
) -> bool:
    """Whether one row was another one, or those of this step were not there yet."""
    mixed, weights = rows(operation.outputs[0]), rows(operation.inputs[0])
    if mixed is None or weights is None:
        return False
    size = max(largest_finite(mixed[0]), largest_finite(mixed[1])) or 1.0
    for side in range(2):
        values = history(operation.inputs[-1], side == 0)
        if values is None:
            continue
        result = mixed[side].astype(np.float64)
        pattern = weights[side].astype(np.float64)
        shared = _shared(values, pattern.shape[0])
        count = min(pattern.shape[-1], shared.shape[1])
        pattern, shared = pattern[..., :count], shared[:, :count]
        sound = pattern @ shared
        if (np.abs(result - sound) <= tolerance * size).all():
            continue
        if any(
            (np.abs(result - (sound + change)) <= tolerance * size).all()
            for change in _other_rows(pattern, shared, first)
        ):
            return True
    return False


def _other_rows(pattern: Doubles, values: Doubles, first: int) -> list[Doubles]:
    """What the sum changes by when rows near the newest are missing or stand for one another."""
    count = values.shape[1]
    changes = [-pattern[..., first:] @ values[:, first:]]
    near = range(max(0, min(first, count - 1) - 2), count)
    near = near[-COLUMNS_TRIED // 8 :]
    for column in near:
        own = pattern[..., column : column + 1]
        changes.append(-own @ values[:, column : column + 1])
        changes.extend(
            own @ (values[:, other : other + 1] - values[:, column : column + 1])
            for other in near
            if other != column
        )
        # A stale row: the newest overwrote the one before, and its own was never written.
        if column + 1 < count:
            after = pattern[..., column + 1 : column + 2]
            changes.append(
                own @ (values[:, column + 1 : column + 2] - values[:, column : column + 1])
                - after @ values[:, column + 1 : column + 2]
            )
    return changes


def _shared(rows: Array, heads: int) -> Doubles:
    """(kv_head, pos, d) as (head, pos, d): shared heads repeated."""
    return np.repeat(rows.astype(np.float64), heads // rows.shape[0], axis=0)
