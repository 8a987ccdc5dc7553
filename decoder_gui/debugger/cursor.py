"""The cursor over a recorded trace, and the granularities that it moves by.

Stepping back never calls an engine. A granularity is a key function over events; its boundaries
are the events where the key differs from that of the event before, so that moving forward and
moving back visit the same boundaries in opposite order.
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
    """Whether a group of that granularity begins at this event."""
    before = neighbour(trace, cursor, -1)
    key = KEYS[granularity]
    return before is None or key(trace, before) != key(trace, cursor)


def advance(
    trace: Trace, cursor: Cursor, granularity: Granularity, direction: int
) -> Cursor | None:
    """The next boundary in a direction, or None where the recording ends.

    Between boundaries, ``advance(..., 1)`` and ``advance(..., -1)`` undo each other exactly. From
    within a group, back goes to where the group begins.
    """
    return run_until(trace, cursor, direction, lambda here: is_boundary(trace, here, granularity))
