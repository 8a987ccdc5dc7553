"""Models whose numbers are the same everywhere, and panels of them as a window shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QWidget

from decoder_gui.context import AppContext
from decoder_gui.debugger import library
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.panel_dock import PanelDock
from decoder_gui.panels.base import Panel, Place, panels_of
from decoder_gui.theme.fonts import load_fonts
from decoder_gui.theme.palette import ThemeName
from decoder_gui.theme.style import Style
from decoder_gui.theme.stylesheet import apply_style
from decoder_gui.waiting import wait_until
from decoder_gui.widgets.attention_matrix import AttentionMatrix
from model.checkpoints import LoadedModel
from model.random_model import random_decoder
from model.shape import ModelShape
from model.tokenizers import WordTokenizer
from tests.snapshots.compare import picture

WORDS = (
    "once", "upon", "a", "time", "there", "was", "little", "cat", "named", "Tom", "who", "liked",
    "to", "sit", "on", "the", "mat", "and", "look", "at", "moon", "until", "it", "went", "down",
    "behind", "hill", "then", "he", "slept", "all", "night", "long", "in", "his", "basket", "by",
    "fire", ".", ",",
)  # fmt: skip
STORY = "once upon a time there was a little cat named Tom"
FIXED = (Place.STRIP, Place.FOOT)  # panels that stand in the window without a dock


def random_model() -> LoadedModel:
    """Three blocks of four heads with weights from a seed; training cannot change them."""
    shape = ModelShape(depth=3, model_dim=32, num_heads=4, context_length=32, vocabulary=len(WORDS))
    return LoadedModel(
        name="random",
        family="GPT-2",
        engine=random_decoder(shape, seed=11, spread=0.35),
        tokenizer=WordTokenizer(WORDS, lambda text: [WORDS.index(w) for w in text.split()]),
        path=Path("random"),
    )


@dataclass(frozen=True)
class Shot:
    """One picture: a panel of a model at an event, in some looks and size (at scale 1).

    A height of 0 is the one that the panel asks for.
    """

    panel: str
    model: str
    size: tuple[int, int]
    theme: ThemeName = ThemeName.DARK
    projector: bool = False
    fault: str = ""
    at: str = "blocks.1.attn.pattern"

    @property
    def name(self) -> str:
        looks = "projector" if self.projector else str(self.theme)
        return "-".join(filter(None, (self.panel, self.model, self.fault, looks)))

    @property
    def style(self) -> Style:
        style = Style().themed(self.theme)
        return style.projected() if self.projector else style


@pytest.fixture(scope="module")
def contexts(qapp: QApplication) -> Iterator[Callable[[str, str], AppContext]]:
    """Contexts by model and fault, made when first asked for, with five tokens decoded."""
    made: dict[tuple[str, str], AppContext] = {}
    patched = pytest.MonkeyPatch()
    steps = library.model_steps

    def with_random(spec: str) -> library.Steps:
        if spec == "random":
            return random_model()
        return (yield from steps(spec))

    patched.setattr(library, "model_steps", with_random)
    load_fonts()

    def context_of(model: str, fault: str) -> AppContext:
        if (model, fault) not in made:
            context = made[(model, fault)] = AppContext()
            context.open_model(model)
            assert wait_until(lambda: context.idle)
            if model == "tiny":
                context.set_sampling(temperature=0.0)
                context.prefill("The cat", tokens=3)
            else:
                context.set_sampling(temperature=0.8, top_k=12, top_p=0.9)
                context.prefill(STORY, tokens=6)
            assert wait_until(lambda: context.idle and not context.checks_pending)
            if fault:
                context.set_fault(fault, True)
                assert wait_until(lambda: context.idle and not context.checks_pending)
        return made[(model, fault)]

    yield context_of
    for context in made.values():
        context.close()
    patched.undo()


@pytest.fixture
def shown(
    qapp: QApplication, contexts: Callable[[str, str], AppContext]
) -> Iterator[Callable[[Shot], QWidget]]:
    """A function that shows the panel of a shot, in its dock if it has one in the window."""
    open_now: list[QWidget] = []

    def show(shot: Shot) -> QWidget:
        context = contexts(shot.model, shot.fault)
        context.style = shot.style
        apply_style(qapp, context.style)
        trace = context.trace
        assert trace is not None
        context.seek(Cursor(len(trace.steps) - 1, trace.operation_index(shot.at)))
        kind = next(each for each in panels_of() if each.panel_id == shot.panel)
        panel: Panel = kind(context)
        widget: QWidget = panel if kind.place in FIXED else PanelDock(panel, context.style)
        open_now.append(widget)
        # Otherwise the first button has it, which it never has by itself in a whole window.
        widget.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        widget.setFocus()
        px, (width, height) = context.style.px, shot.size
        # Away from the mouse, under which the buttons of a title appear.
        screen = qapp.primaryScreen().geometry()
        widget.move(screen.right() + 100, screen.bottom() + 100)
        widget.show()
        widget.resize(px(width), px(height) if height else widget.sizeHint().height())
        for matrix in widget.findChildren(AttentionMatrix):
            matrix.ensure_ready()  # by itself it waits until it has been painted once
        QApplication.processEvents()
        return widget

    yield show
    for widget in open_now:
        widget.close()
        widget.deleteLater()
    QApplication.processEvents()


@pytest.fixture
def photograph(shown: Callable[[Shot], QWidget]) -> Callable[[Shot], QImage]:
    """A function that takes the picture of a shot."""
    return lambda shot: picture(shown(shot), shot.style.colour("window"))
