"""Memory that was freed serves again, and goes back when it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from decoder_gui.debugger import freed_memory
from decoder_gui.debugger.freed_memory import Holes, give_back, keep_freed_memory

REPOSITORY = Path(__file__).resolve().parents[2]

# A thread of its own, as the engine has one: pages that a second round of the same arrays asks the
# system for, and megabytes in use before and after what is free is given back.
SCRIPT = """
import json, resource, sys, threading
import numpy as np
from pathlib import Path
from decoder_gui.debugger.freed_memory import give_back, keep_freed_memory

def in_use():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def work():
    arrays = [np.ones(3_000_000 + i, dtype=np.float32) for i in range(10)]
    del arrays

def main():
    work()
    before = faults()
    work()
    found["faults"] = faults() - before
    found["kept"] = in_use()
    give_back()
    found["rest"] = in_use()

found = {"told": keep_freed_memory() if sys.argv[1] == "keep" else False}
thread = threading.Thread(target=main)
thread.start()
thread.join()
print(json.dumps(found))
"""


def run(how: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not keep_freed_memory(), reason="this C library cannot be told to keep memory")
def test_the_second_round_takes_no_new_pages_and_all_can_be_given_back() -> None:
    kept = run("keep")
    assert kept["told"]
    assert kept["faults"] < 100  # of 30,000 pages
    assert kept["kept"] - kept["rest"] > 100  # of 114 MB
    assert run("as it is")["faults"] > 10 * max(1.0, kept["faults"])


def test_it_may_be_asked_for_again_and_anywhere() -> None:
    assert keep_freed_memory() == keep_freed_memory()
    assert give_back() in (True, False)


def test_holes_are_given_back_once_they_have_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    free, returned = [0], list[int]()

    def give_back() -> bool:
        returned.append(free[0])
        return True

    monkeypatch.setattr(freed_memory, "_free_bytes", lambda: free[0])
    monkeypatch.setattr(freed_memory, "give_back", give_back)
    holes = Holes(100)
    for bytes_free, needed, swept in (
        (100, 0, False),
        (150, 0, True),
        (150, 0, False),  # what has been given back is not given back again
        (250, 0, False),
        (260, 20, False),  # it will be used at once
        (260, 0, True),
        (50, 0, False),  # most of it is in use again
        (160, 0, True),
    ):
        free[0] = bytes_free
        assert holes.sweep(needed) == swept, bytes_free
    assert returned == [150, 260, 160]
