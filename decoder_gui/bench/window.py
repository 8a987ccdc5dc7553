"""The window's own figures, from inside it: ``python -m decoder_gui.bench.window ROUNDS MOVES``.

Prints one JSON object, a list of times in milliseconds for every round.
"""

from __future__ import annotations

import json
import sys
import time

from PySide6.QtCore import QEventLoop, Qt, QTimer

from decoder_gui.bench.inside import STORY, FirstPaint, Paints, run_product
from decoder_gui.bench.rounds import milliseconds
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Granularity
from decoder_gui.main_window import MainWindow
from decoder_gui.waiting import wait_until

HEARTBEAT = 1  # ms
TOKENS = 8  # decoded before the moves


class Bench:
    """Moves of the cursor and blocks of the event loop, in the window that it is given."""

    def __init__(self, window: MainWindow, rounds: int, moves: int) -> None:
        assert window.workspace is not None
        self._context: AppContext = window.workspace.context
        self._paints = Paints(window)
        self.steps: list[list[float]] = []
        self.blocks: list[float] = []
        self.check_blocks: list[float] = []
        for number in range(rounds):
            say(f"cursor moves, round {number + 1} of {rounds}")
            self._rest(TOKENS)
            self.steps.append(self._moves(moves))
            say(f"decoding until the cache is full, round {number + 1} of {rounds}")
            decoding, checking = self._longest_blocks()
            self.blocks.append(decoding)
            self.check_blocks.append(checking)

    def _rest(self, tokens: int) -> None:
        """The prompt and some tokens, with nothing left to do or to paint."""
        self._context.prefill(STORY, tokens=tokens)
        self._wait()
        self._paints.settle()

    def _wait(self) -> None:
        context = self._context
        if not wait_until(lambda: context.idle and not context.checks_pending):
            raise SystemExit("the worker did not come to rest")

    def _moves(self, count: int) -> list[float]:
        """Half the moves forward from the middle of the run, over tokens, and then back again."""
        context = self._context
        context.set_granularity(Granularity.OPERATION)
        context.go_last()
        trace = context.trace
        assert trace is not None
        ahead = min(count // 2, len(trace) - 1)
        for _ in range(ahead):
            context.move(-1)
        self._paints.settle()
        return [self._step(direction) for direction in (1, -1) for _ in range(ahead)]

    def _step(self, direction: int) -> float:
        def work() -> None:
            self._context.move(direction)
            self._paints.settle()

        return milliseconds(work)

    def _longest_blocks(self) -> tuple[float, float]:
        """The longest time between two turns of the event loop, ms: decoding, then checking.

        Between the two the worker rests, and the arrival at the last token is painted.
        """
        context = self._context
        longest = {"decoding": 0.0, "checking": 0.0}
        phase, before, rested = "decoding", time.perf_counter(), False
        loop = QEventLoop()

        def beat() -> None:
            nonlocal phase, before, rested
            now = time.perf_counter()
            longest[phase], before = max(longest[phase], now - before), now
            if context.idle:
                rested = True
                if not context.checks_pending:
                    loop.quit()
            elif rested:
                phase = "checking"

        heart = QTimer()
        heart.setTimerType(Qt.TimerType.PreciseTimer)
        heart.timeout.connect(beat)
        heart.start(HEARTBEAT)
        ids = context.prompt_ids
        context.prefill_ids(list(ids), tokens=context.capacity - len(ids) + 1)
        loop.exec()
        heart.stop()
        assert context.exhausted
        return longest["decoding"] * 1000, longest["checking"] * 1000


def say(what: str) -> None:
    """A line of progress."""
    print(what, file=sys.stderr, flush=True)


def main(rounds: int, moves: int) -> int:
    """Measure in the product's window and print what was found."""

    def measure(window: MainWindow, _: FirstPaint) -> None:
        bench = Bench(window, rounds, moves)
        found = {
            "steps": bench.steps,
            "blocks": bench.blocks,
            "check_blocks": bench.check_blocks,
        }
        print(json.dumps(found))

    return run_product(measure)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
