"""Freed memory stays with the process, for the next pass to use.

A recorded pass makes and drops hundreds of megabytes of arrays. The C library of Linux hands each
large one back to the system as it is freed, and the next one comes with empty pages that the system
has to find and clear one by one: up to half the time of a recorded prefill, and more whenever the
machine is busy. Kept, the same pages serve again. What lies in holes too small for that goes back
from time to time, by :class:`Holes`, and all that is free once a model has been replaced.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

# Parameters of mallopt, from malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8

KEPT_UP_TO = 2**30
"""Arrays above this many bytes are still the system's business, each on its own."""
NEVER_TRIMMED = 2**31 - 1


@cache
def keep_freed_memory() -> bool:
    """Keep what is freed from now on; whether this C library can be told to.

    Threads that have allocated before keep an arena of their own, which forgets: so this belongs
    before the engine's thread is started.
    """
    library = _c_library()
    if library is None:
        return False
    settings = (
        (_MMAP_THRESHOLD, KEPT_UP_TO),
        (_TRIM_THRESHOLD, NEVER_TRIMMED),
        (_ARENA_MAX, 1),
    )
    taken = [library.mallopt(parameter, value) == 1 for parameter, value in settings]
    return all(taken)


def give_back() -> bool:
    """Return to the system what is free; whether anything was."""
    library = _c_library()
    return library is not None and library.malloc_trim(0) == 1


class Holes:
    """Gives back what lies free between arrays in use once it has grown to be worth it.

    Args:
        spare: bytes that may lie free.
    """

    def __init__(self, spare: int) -> None:
        self._spare = spare
        self._returned = 0  # bytes that are free and have been given back

    def sweep(self, needed: int = 0) -> bool:
        """Look at what is free; whether it was given back.

        Args:
            needed: bytes that are about to be needed, and may lie free as well.
        """
        free = _free_bytes()
        self._returned = min(self._returned, free)
        if free - self._returned <= self._spare + needed:
            return False
        give_back()
        self._returned = _free_bytes()
        return True


def _free_bytes() -> int:
    """Bytes that are allocated from the system and free; 0 where that cannot be known."""
    library = _c_library()
    if library is None or not hasattr(library, "mallinfo2"):
        return 0
    library.mallinfo2.restype = _Usage
    return int(library.mallinfo2().fordblks)


class _Usage(ctypes.Structure):
    """What mallinfo2 tells, from malloc.h."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",  # free bytes
            "keepcost",
        )
    )


@cache
def _c_library() -> ctypes.CDLL | None:
    """GNU's C library, None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
