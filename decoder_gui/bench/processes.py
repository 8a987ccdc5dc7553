"""Fresh processes for what can only be measured in one of its own: the start, and the window."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from model.errors import DecoderError

_ROOT = Path(__file__).resolve().parents[2]  # what holds the packages, installed or checked out


class BenchFailed(DecoderError):
    """A process that was to be measured has failed."""


def measured(module: str, *arguments: str, talks: bool = False) -> dict[str, Any]:
    """Run ``python -m module`` with no display; the JSON object that it printed.

    Args:
        talks: what it says on standard error goes to ours; otherwise it is kept for a refusal.

    Raises:
        BenchFailed: it ended with another status than 0, or printed something else.
    """
    found = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": _python_path()},
        stdout=subprocess.PIPE,
        stderr=None if talks else subprocess.PIPE,
        text=True,
        encoding="utf-8",
        check=False,
    )
    try:
        if found.returncode == 0:
            object_printed: dict[str, Any] = json.loads(found.stdout)
            return object_printed
        reason = f"ended with status {found.returncode}"
    except json.JSONDecodeError:
        reason = "printed no figures"
    said = (found.stderr or "").strip()
    raise BenchFailed(f"{module} {reason}{': ' if said else ''}{said}")


def _python_path() -> str:
    """The packages that this process runs, found from any folder."""
    return os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH", ""))))
