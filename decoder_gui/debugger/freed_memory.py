"""Freed memory stays with the process, for the next pass to use.

A recorded pass makes and drops hundreds of megabytes of arrays. The C library of Linux hands each
large one back to the system as it is freed, and the next one comes with empty pages that the system
has to find and clear one by one: up to half the time of a recorded prefill, and more whenever the
machine is busy. Kept, the same pages serve again. How much is kept is bounded by what was in use at
once, and :func:`give_back` returns what is free when a model has been replaced.
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


@cache
def _c_library() -> ctypes.CDLL | None:
    """GNU's C library, None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
