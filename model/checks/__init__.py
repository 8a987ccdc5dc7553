"""Checks that a decoder is wired as it should be; each can fail, and says where.

Every module of this package is loaded here, and each registers its checks: adding one is writing
one function. Other packages register theirs with :func:`check` when they are imported.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from model.checks.core import (
    Check,
    CheckFunction,
    CheckResult,
    Subject,
    Where,
    all_checks,
    check,
    run_checks,
)
from model.checks.recorded import TraceWatch, check_trace

__all__ = [
    "Check",
    "CheckFunction",
    "CheckResult",
    "Subject",
    "TraceWatch",
    "Where",
    "all_checks",
    "check",
    "check_trace",
    "run_checks",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
