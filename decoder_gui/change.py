"""What can change in the window's state, as flags that panels choose from."""

from __future__ import annotations

from enum import Flag, auto


class Change(Flag):
    """What happened since a panel was last drawn."""

    TRACE = auto()  # the trace was replaced, cut or grew
    GROWTH = auto()  # beside TRACE: it only grew, and only in steps after the one in hand
    CURSOR = auto()
    SELECTION = auto()
    SAMPLING = auto()  # sampling settings, or the held draw
    CHECKS = auto()  # verdicts, or the set of faults that are on
    STYLE = auto()
    MODEL = auto()
    BUSY = auto()  # the worker began or ended something, play began or ended, breakpoints
    STOPS = auto()  # breakpoints and conditions, and why a run stopped
    WATCHES = auto()
    BRANCHES = auto()
    COMPARISON = auto()
    LAB = auto()  # what a laboratory worked out
    ALL = (
        TRACE
        | CURSOR
        | SELECTION
        | SAMPLING
        | CHECKS
        | STYLE
        | MODEL
        | BUSY
        | STOPS
        | WATCHES
        | BRANCHES
        | COMPARISON
        | LAB
    )
