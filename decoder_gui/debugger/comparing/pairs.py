"""Rows of two recordings that belong together, however many steps they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from decoder_gui.debugger.comparing.alignment import Overlap
from decoder_gui.debugger.comparing.differences import laid_over
from decoder_gui.debugger.comparing.recording import Arrays, rows_of
from model.engine import Array
from model.operations import Kind, Operation


def paired_rows(
    left: Arrays, right: Arrays, part: Overlap, operation: Operation, name: str
) -> tuple[Array, Array, int] | None:
    """Both arrays of an overlap, (head, pos, column) or (pos, column), and their first position.

    None where one of the runs does not record it there.
    """
    ours = left.get(part.step, operation, name)
    theirs = None if ours is None else right.get(part.other_step, operation, name)
    if ours is None or theirs is None:
        return None
    ours, begin = rows_of(ours, left.steps[part.step])
    theirs, other_begin = rows_of(theirs, right.steps[part.other_step])
    first = max(part.first, begin, other_begin)
    if first >= part.last:
        return None
    cut = ours[..., first - begin : part.last - begin, :]
    other_cut = theirs[..., first - other_begin : part.last - other_begin, :]
    laid = laid_over(operation.kind, cut, other_cut, first, name)
    return laid[0], laid[1], first


def whole_history(arrays: Arrays, operation: Operation, name: str, last: int) -> Array | None:
    """The rows of all positions up to ``last``, (head, pos, d), from however many steps."""
    parts, position = [], 0
    for step in arrays.steps:
        if position >= last:
            break
        array = arrays.get(step.index, operation, name)
        if array is None or step.first > position:
            return None
        parts.append(array[0][:, position - step.first : last - step.first])
        position = step.last
    return np.concatenate(parts, axis=1) if parts and position >= last else None


LARGEST_SHOWN = 2**22  # cells of a difference that are worked out at once


@dataclass(frozen=True)
class Differences:
    """The difference of one array in one step of the left run, cell by cell.

    Attributes:
        array: left minus right, (head, pos, column) or (pos, column), read-only: 0 where the two
            are equal, NaN or infinite where one of them is.
        unseen: the same shape, -infinity where both mask the cell or it was not compared; None
            where every cell was.
        first: position of the first row.
    """

    name: str
    step: int
    first: int
    array: Array = field(repr=False)
    unseen: Array | None = field(repr=False)


def differences_in(
    left: Arrays,
    right: Arrays,
    parts: Sequence[Overlap],
    operation: Operation,
    name: str,
    step: int,
    position: int,
) -> Differences | None:
    """Left minus right over the positions of a step; of one position alone if they are many.

    None where one of the runs does not record the array there.
    """
    rows = [
        found
        for part in parts
        if part.step == step
        and (found := paired_rows(left, right, part, operation, name)) is not None
    ]
    if not rows:
        return None
    columns = max(ours.shape[-1] for ours, _, _ in rows)
    ours = np.concatenate([_wide(pair[0], columns, operation) for pair in rows], axis=-2)
    theirs = np.concatenate([_wide(pair[1], columns, operation) for pair in rows], axis=-2)
    positions = np.concatenate([first + np.arange(pair.shape[-2]) for pair, _, first in rows])
    if ours.size > LARGEST_SHOWN:
        here = positions == (position if position in positions else positions[-1])
        ours, theirs, positions = ours[..., here, :], theirs[..., here, :], positions[here]
    begin = int(positions[0])
    shape = (*ours.shape[:-2], int(positions[-1]) + 1 - begin, columns)
    array, unseen = np.zeros(shape), np.full(shape, -np.inf)
    at = positions - begin
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore", over="ignore"):
        apart = ours.astype(np.float64) - theirs.astype(np.float64)
    array[..., at, :] = np.where(same, 0.0, apart)
    unseen[..., at, :] = np.where(_masked(operation, ours, theirs, positions), -np.inf, 0.0)
    seen = np.flatnonzero((unseen == 0).any(axis=tuple(range(unseen.ndim - 1))))
    end = int(seen[-1]) + 1 if seen.size else columns  # keys that no query here may see
    array, unseen = array[..., :end], unseen[..., :end]
    array.flags.writeable = unseen.flags.writeable = False
    return Differences(name, step, begin, array, unseen if np.isneginf(unseen).any() else None)


def _masked(operation: Operation, ours: Array, theirs: Array, positions: Array) -> Array:
    """Which cells neither run shows: masked scores, and weights of later keys that are 0."""
    hidden: Array = np.zeros(ours.shape, dtype=bool)
    if operation.kind is Kind.SCORES:
        hidden = np.isneginf(ours) & np.isneginf(theirs)
    elif operation.kind is Kind.PATTERN:
        later = np.arange(ours.shape[-1]) > positions[:, np.newaxis]
        hidden = later & (ours == 0) & (theirs == 0)
    return hidden


def _wide(array: Array, columns: int, operation: Operation) -> Array:
    """Keys that a step has not reached yet are masked ones."""
    missing = columns - array.shape[-1]
    if not missing:
        return array
    absent = -np.inf if operation.kind is Kind.SCORES else 0.0
    pad = np.full((*array.shape[:-1], missing), absent, dtype=array.dtype)
    return np.concatenate([array, pad], axis=-1)
