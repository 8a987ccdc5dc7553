"""The window on large shapes, from inside: ``python -m decoder_gui.bench.large SHAPE ROUNDS``.

Attention of 1,024 tokens, twelve heads and twelve layers, and a vocabulary of 151,936 tokens; the
weights are random. Prints one JSON object, a list of times in milliseconds for every figure.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from PySide6.QtCore import QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from decoder_gui.bench.inside import FirstPaint, Paints, run_product
from decoder_gui.bench.rounds import milliseconds
from decoder_gui.debugger import library
from decoder_gui.main_window import MainWindow
from decoder_gui.panels.attention import AttentionPanel
from decoder_gui.panels.forward_pass import ForwardPassPanel
from decoder_gui.panels.next_token import NextTokenPanel
from decoder_gui.panels.token_strip import TokenStripPanel
from decoder_gui.waiting import wait_until
from decoder_gui.widgets.labelled_slider import PlainSlider
from model.checkpoints import LoadedModel
from model.random_model import gpt2_small_shape, random_decoder
from model.shape import ModelShape
from model.tokenizers import IdTokenizer

HEARTBEAT = 1  # ms
NOTCHES = 60  # of the wheel in a round, over the strip and over the tree
TICKS = 24  # of each slider in a round
GPT2_SMALL, NARROW, VOCABULARY = "gpt2-small", "narrow", "vocabulary"
_SHAPES = {
    GPT2_SMALL: gpt2_small_shape(),
    # As much attention, and little else.
    NARROW: replace(gpt2_small_shape(), model_dim=96, mlp_dim=384, vocabulary=1024),
    VOCABULARY: ModelShape(
        depth=1, model_dim=16, num_heads=1, context_length=16, vocabulary=151_936
    ),
}


class Large:
    """What a large run costs in the window; times are from the event to the end of painting."""

    def __init__(self, window: MainWindow, shape: str, rounds: int) -> None:
        assert window.workspace is not None
        self._window = window
        self._workspace = window.workspace
        self._context = self._workspace.context
        self._paints = Paints(window)
        self.times: dict[str, list[float]] = {}
        for number in range(rounds):
            say(f"1,024 tokens, 12 layers, 12 heads, round {number + 1} of {rounds}")
            self._open(shape)
            tokens = np.random.default_rng(number).integers(0, 1000, 1024).tolist()
            self._note("gui_longest_block_first_shown", self._longest_block_of_a_run(tokens))
            self._heads_and_layers()
            self._scroll()
        for number in range(rounds):
            say(f"151,936 tokens to choose from, round {number + 1} of {rounds}")
            self._open(VOCABULARY)
            self._run([1, 2, 3])
            self._sliders()

    def _note(self, name: str, *times: float) -> None:
        self.times.setdefault(name, []).extend(times)

    def _open(self, spec: str) -> None:
        self._context.open_model(spec)
        if not wait_until(lambda: self._context.idle and self._context.spec == spec):
            raise SystemExit(f"{spec} was not opened")

    def _run(self, tokens: list[int]) -> None:
        self._context.prefill_ids(tokens)
        self._rest()

    def _rest(self) -> None:
        """Until everything is computed, checked and painted, thumbnails in sight included."""

        def done() -> bool:
            view = self._attention.view
            if not self._context.idle or self._context.checks_pending or view is None:
                return False
            in_sight = self._attention.column.layers_in_sight()
            return not view.not_kept and view.unfinished.isdisjoint(in_sight)

        if not wait_until(done):
            raise SystemExit("the window did not come to rest")
        self._paints.settle()

    @property
    def _attention(self) -> AttentionPanel:
        panel = self._workspace.panels[AttentionPanel.panel_id]
        assert isinstance(panel, AttentionPanel)
        return panel

    def _timed(self, event: Callable[[], object]) -> float:
        def work() -> None:
            event()
            self._paints.settle()

        return milliseconds(work)

    def _longest_block_of_a_run(self, tokens: list[int]) -> float:
        """The longest time between two turns of the event loop until all is shown, ms."""
        longest, before = 0.0, time.perf_counter()

        def beat() -> None:
            nonlocal longest, before
            now = time.perf_counter()
            longest, before = max(longest, now - before), now

        heart = QTimer()
        heart.setTimerType(Qt.TimerType.PreciseTimer)
        heart.timeout.connect(beat)
        heart.start(HEARTBEAT)
        self._run(tokens)
        heart.stop()
        return longest * 1000

    def _heads_and_layers(self) -> None:
        self._window.activateWindow()
        for _ in range(2 * _SHAPES[GPT2_SMALL].num_heads):
            self._note("head_switch", self._timed(lambda: self._press(Qt.Key.Key_BracketRight)))
        for _ in range(2 * _SHAPES[GPT2_SMALL].depth):
            before = self._context.selection.layer
            began = time.perf_counter()
            self._note("layer_switch", self._timed(lambda: self._press(Qt.Key.Key_BraceRight)))
            assert self._context.selection.layer != before
            self._rest()
            self._note("layer_complete", (time.perf_counter() - began) * 1000)

    def _press(self, key: Qt.Key) -> None:
        QTest.keyClick(self._window, key)

    def _scroll(self) -> None:
        strip = self._workspace.panels[TokenStripPanel.panel_id]
        tree = self._workspace.panels[ForwardPassPanel.panel_id]
        assert isinstance(strip, TokenStripPanel)
        assert isinstance(tree, ForwardPassPanel)
        for name, target in (("strip_scroll", strip.strip), ("tree_scroll", tree.tree.viewport())):
            for notch in range(NOTCHES):
                turn = 120 if notch // 3 % 2 else -120  # to and fro, so that every notch moves it
                self._note(name, self._timed(lambda to=target, by=turn: wheel(to, by)))  # type: ignore[misc]

    def _sliders(self) -> None:
        panel = self._workspace.panels[NextTokenPanel.panel_id]
        assert isinstance(panel, NextTokenPanel)
        self._context.set_sampling(temperature=0.9, top_k=70_000, top_p=0.95)
        self._paints.settle()
        sliders = [s for s in panel.controls.findChildren(PlainSlider) if s.isVisible()]
        assert sliders
        for tick in range(TICKS):
            for slider in sliders:
                low, span = slider.minimum(), slider.maximum() - slider.minimum()
                value = low + round(span * (0.1 + 0.8 * tick / TICKS))
                self._note(
                    "slider_tick_window",
                    self._timed(lambda to=slider, at=value: to.setValue(at)),  # type: ignore[misc]
                )


def wheel(widget: QWidget, turn: int) -> None:
    """Turn the wheel over a widget, in eighths of a degree."""
    at = QPointF(widget.rect().center())
    event = QWheelEvent(
        at,
        widget.mapToGlobal(at),
        QPoint(),
        QPoint(0, turn),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(widget, event)


def say(what: str) -> None:
    """A line of progress."""
    print(what, file=sys.stderr, flush=True)


def random_loaded(name: str) -> LoadedModel:
    """One of the shapes with random weights; a prompt is a list of token ids."""
    shape = _SHAPES[name]
    return LoadedModel(
        name=name,
        family="GPT-2",
        engine=random_decoder(shape, spread=0.02 if name == GPT2_SMALL else 0.3),
        tokenizer=IdTokenizer(shape.vocabulary, "the weights are random"),
        path=Path(name),
    )


def main(shape: str, rounds: int) -> int:
    """Measure in the product's window and print what was found."""
    steps = library.model_steps

    def with_random(spec: str) -> library.Steps:
        if spec in _SHAPES:
            return random_loaded(spec)
        return (yield from steps(spec))

    def measure(window: MainWindow, _: FirstPaint) -> None:
        print(json.dumps(Large(window, shape, rounds).times))

    library.model_steps = with_random  # in this process of its own, they open like any other
    return run_product(measure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
