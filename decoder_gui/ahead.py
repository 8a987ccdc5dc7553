"""What was asked of the worker and is not done yet, so that a second wish adds to the first."""

from __future__ import annotations

from dataclasses import dataclass

from decoder_gui.debugger.cursor import Cursor
from model.trace import Step


@dataclass(frozen=True)
class Again:
    """What a new session runs: the steps of the one before, or another prompt."""

    prompt: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()
    by_hand: frozenset[int] = frozenset()
    here: Cursor | None = None


@dataclass(frozen=True)
class Ahead:
    """What jobs that have not ended will change; None where they leave it as it is.

    ``again`` is what the newest of them runs, if it begins anew. Where ``faults`` are given, a
    session is being made, and a ``capacity`` of None is the whole context of its model.
    """

    capacity: int | None = None
    faults: frozenset[str] | None = None
    again: Again | None = None
