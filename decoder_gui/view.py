"""The workspaces of the window, light enough to be named before anything heavy is imported."""

from __future__ import annotations

from enum import StrEnum


class View(StrEnum):
    """A workspace of panels for one job; the value is what its tab says."""

    STEP = "Step"
    FIND = "Find"
    COMPARE = "Compare"
    SAMPLING = "Sampling"
    CACHE = "Cache"
    LEARN = "Learn"
