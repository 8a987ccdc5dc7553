"""Opens paths one after another and says what became of each; run in a process of its own.

Reads one path a line from standard input and writes one JSON object a line: the exit status of the
command line, what it said, the largest amount of memory that it held, and how long it took. A path
that takes too long, or an exception that the command line lets out, is an outcome like any other.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import signal
import sys
import time
import traceback
import tracemalloc
from pathlib import Path

import pytest

from decoder_gui.cli import main

MOST_SECONDS = 10
ADDRESS_SPACE = 6 * 2**30  # bytes: what a lying header asks for cannot be had


class TooLong(BaseException):
    """The alarm went off."""


def too_long(*_: object) -> None:
    raise TooLong


def most_resident() -> int:
    """The most bytes that this process had in memory.

    Not ru_maxrss, which on Linux begins with what the parent had when it started this process.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def outcome(path: str) -> dict[str, object]:
    said = io.StringIO()
    began = time.monotonic()
    tracemalloc.reset_peak()
    held = tracemalloc.get_traced_memory()[0]
    status: int | str
    try:
        signal.alarm(MOST_SECONDS)
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = main(["trace", path, "--prompt-ids", "1,2", "--tokens", "1", "--json", "-"])
    except TooLong:
        status = "too long"
    except BaseException:
        status = traceback.format_exc()
    finally:
        signal.alarm(0)
    return {
        "status": status,
        "said": said.getvalue(),
        "held": tracemalloc.get_traced_memory()[1] - held,
        "resident": most_resident(),
        "seconds": time.monotonic() - began,
    }


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    tracemalloc.start()
    # What a sound model computes is for other tests; here hundreds of files are opened.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("decoder_gui.debugger.report.run_checks", lambda *_, **__: iter(()))
        for line in sys.stdin:
            print(json.dumps(outcome(line.rstrip("\n"))), flush=True)
