"""Makes the README's pictures from the product itself: ``python -m tests.pictures``.

Run it after a change that they would show, and look at what comes out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from decoder_gui.cli import main
from decoder_gui.context import AppContext
from decoder_gui.debugger.comparing.against import OtherBranch
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.rules.places import OnOperation
from decoder_gui.debugger.stopping.rules.sampling import Entropy, FewKept
from decoder_gui.debugger.stopping.spots import Spot
from decoder_gui.main_window import MainWindow
from decoder_gui.theme.stylesheet import apply_style
from decoder_gui.view import View
from decoder_gui.waiting import wait_until

FOLDER = Path(__file__).parent.parent / "assets" / "pictures"
STORY = "Once upon a time there was a little cat named Tom."
SIZE = (1440, 900)
TURNS = 40  # of the event loop, until everything that was asked for is painted


def find(context: AppContext) -> None:
    """Breakpoints and watches on a run, standing where one of them stopped it."""
    context.stops.add(OnOperation("blocks.3.attn.pattern"))
    context.stops.add(Entropy(value=2.5))
    context.stops.add(FewKept(2))
    context.watches.add(Spot("blocks.2.mlp.out", index=3))
    context.watches.add(Spot("blocks.3.attn.pattern", head=0, index=10))
    context.seek(Cursor(3, 0))
    context.select(layer=3, head=0)
    context.run()


def compare(context: AppContext) -> None:
    """A branch without a head, against the run that it left."""
    context.seek(Cursor(3, 0))
    context.branches.zero_head(3, 0, 3)
    wait_until(lambda: context.idle)
    first = next(branch.id for branch in context.branches.tree)
    context.comparison.compare(OtherBranch(first))
    wait_until(lambda: context.idle)
    context.comparison.go_to_first()


def sampling(context: AppContext) -> None:
    """A sampler with three stages on, draws and continuations."""
    context.set_sampling(temperature=0.8, top_k=12, top_p=0.9)
    context.seek(Cursor(0, len(context.trace.operations) - 1) if context.trace else Cursor(0, 0))
    context.sampler_lab.draw()
    context.sampler_lab.go_on()


def cache(context: AppContext) -> None:
    """Everything measured."""
    lab = context.cache_lab
    for measure in (lab.measure_curve, lab.measure_phases, lab.measure_machine):
        measure()
        wait_until(lambda: context.idle)
    lab.set_capacity(16, 4)
    lab.compare_policies()
    wait_until(lambda: context.idle)
    lab.look_at(1, 7)


def learn(context: AppContext) -> None:
    """A free run, and a few steps of training."""
    context.go_to_position(4)
    context.learning.run_free(4)
    wait_until(lambda: context.idle)
    context.learning.choose_target(context.trace.token_ids[7] if context.trace else 0)
    context.learning.set_learning_rate(0.002)
    context.learning.train(8)


PICTURES: dict[View, Callable[[AppContext], None]] = {
    View.FIND: find,
    View.COMPARE: compare,
    View.SAMPLING: sampling,
    View.CACHE: cache,
    View.LEARN: learn,
}


def picture(view: View, act: Callable[[AppContext], None]) -> None:
    """One workspace after something was done in it."""
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    context = AppContext()
    apply_style(application, context.style)
    window = MainWindow(context.style)
    window.resize(*SIZE)
    window.show()
    workspace = window.furnish(context)
    context.set_sampling(temperature=0.8, top_p=0.9)
    context.open_model("stories")
    wait_until(lambda: context.idle)
    context.prefill(STORY, tokens=24)
    wait_until(lambda: context.idle and not context.checks_pending)
    workspace.show_view(view)
    act(context)
    wait_until(lambda: context.idle and not context.checks_pending)
    window.top_bar.hide_notice()
    turns = iter(range(TURNS))
    wait_until(lambda: next(turns, None) is None)
    image = QImage(window.size(), QImage.Format.Format_ARGB32)
    image.fill(context.style.colour("window"))
    window.render(image)
    FOLDER.mkdir(exist_ok=True)
    image.save(str(FOLDER / f"{view.name.lower()}.png"))
    window.close()
    window.deleteLater()


if __name__ == "__main__":
    main(
        [
            *("stories", "--prompt", STORY, "--tokens", "8", "--seed", "41"),
            *("--at", "6:blocks.3.attn.pattern", "--temperature", "0.8", "--top-p", "0.9"),
            *("--snapshot", str(FOLDER.parent / "window.png")),
        ]
    )
    QApplication.instance() or QApplication([])
    for view, act in PICTURES.items():
        picture(view, act)
