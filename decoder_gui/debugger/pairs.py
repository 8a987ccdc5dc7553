"""Rows of two recordings that belong together, however many steps they come from."""

from __future__ import annotations

import numpy as np

from decoder_gui.debugger.alignment import Overlap
from decoder_gui.debugger.differences import laid_over
from decoder_gui.debugger.recording import Arrays, rows_of
from model.engine import Array
from model.operations import Operation


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
