"""The cursor over a recorded trace, and the granularities that it moves by.

Stepping back never calls an engine. The cursor stands on an event that has happened: what it shows
is the state after that operation. A granularity is a key function over events, and its boundaries
are the last events of each run of equal keys, so that one step by token ends with the whole token
computed. Going back visits the same boundaries in the opposite order, then the very first event.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum

from model.trace import Trace


@dataclass(frozen=True, order=True)
class Cursor:
    """One event of a trace: the operation in hand, already computed and shown."""

    step: int
    operation: int


class Granularity(StrEnum):
    """What one press of Step moves by."""

    OPERATION = "operation"
    LAYER = "layer"
    TOKEN = "token"
    PHASE = "phase"


def _layer_key(trace: Trace, cursor: Cursor) -> Hashable:
    operation = trace.operations[cursor.operation]
    if operation.layer is not None:
        return cursor.step, operation.layer
    # Before the blocks and after them are two groups, told apart by which side they lie on.
    after = any(other.layer is not None for other in trace.operations[: cursor.operation])
    return cursor.step, "after" if after else "before"


KEYS: dict[Granularity, Callable[[Trace, Cursor], Hashable]] = {
    Granularity.OPERATION: lambda trace, cursor: cursor,
    Granularity.LAYER: _layer_key,
    Granularity.TOKEN: lambda trace, cursor: cursor.step,
    Granularity.PHASE: lambda trace, cursor: trace.steps[cursor.step].phase,
}


def first(trace: Trace) -> Cursor | None:
    """The first event, or None in an empty trace."""
    return Cursor(0, 0) if len(trace) else None


def last(trace: Trace) -> Cursor | None:
    """The last event recorded, or None in an empty trace."""
    for step in range(len(trace.steps) - 1, -1, -1):
        if trace.events_in(step):
            return Cursor(step, trace.events_in(step) - 1)
    return None


def clamped(trace: Trace | None, cursor: Cursor | None) -> Cursor | None:
    """The same event, or the last one there is; None where there is none."""
    if trace is None or cursor is None:
        return None
    if cursor.step < len(trace.steps) and cursor.operation < trace.events_in(cursor.step):
        return cursor
    return last(trace)


def neighbour(trace: Trace, cursor: Cursor, direction: int) -> Cursor | None:
    """The next event (direction 1) or the one before (-1), or None at the end."""
    operation = cursor.operation + direction
    if 0 <= operation < trace.events_in(cursor.step):
        return Cursor(cursor.step, operation)
    step = cursor.step + direction
    if 0 <= step < len(trace.steps) and trace.events_in(step):
        return Cursor(step, 0 if direction > 0 else trace.events_in(step) - 1)
    return None


def run_until(
    trace: Trace, cursor: Cursor, direction: int, stop: Callable[[Cursor], bool]
) -> Cursor | None:
    """The nearest event in a direction at which ``stop`` holds, or None: one loop for both ways."""
    here = neighbour(trace, cursor, direction)
    while here is not None and not stop(here):
        here = neighbour(trace, here, direction)
    return here


def is_boundary(trace: Trace, cursor: Cursor, granularity: Granularity) -> bool:
    """Whether a group of that granularity ends at this event."""
    after = neighbour(trace, cursor, 1)
    key = KEYS[granularity]
    return after is None or key(trace, after) != key(trace, cursor)


def advance(
    trace: Trace, cursor: Cursor, granularity: Granularity, direction: int
) -> Cursor | None:
    """The next boundary in a direction, or None where the recording ends.

    From a boundary or the first event, ``advance(..., 1)`` and ``advance(..., -1)`` undo each other
    exactly. From within a group, forward goes to its end and back to the end of the one before.
    """
    start = Cursor(0, 0)
    return run_until(
        trace,
        cursor,
        direction,
        lambda here: is_boundary(trace, here, granularity) or (direction < 0 and here == start),
    )
