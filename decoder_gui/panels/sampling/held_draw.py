"""The number held for the step in hand, on the cumulative curve."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.view import View
from decoder_gui.viewdata.sampling_lab import HeldDraw, build_held_draw
from decoder_gui.widgets.cumulative_curve import CumulativeCurve
from decoder_gui.widgets.elided import ElidedButton


@register
class HeldDrawPanel(Panel):
    """A line at the held number; moving a control moves the curve under the same luck."""

    panel_id = "sampling-draw"
    title = "Held draw"
    views = (View.SAMPLING,)
    place = Place.RIGHT
    order = 0
    column_width = 332
    row_height = 290
    wants = Change.TRACE | Change.CURSOR | Change.SAMPLING | Change.CHECKS | Change.STYLE

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._view = HeldDraw()
        self._held: tuple[int, float] | None = None  # step and number shown last
        self._note = ""
        self.curve = CumulativeCurve()
        self.words = QLabel()
        self.words.setWordWrap(True)
        self.note = QLabel()
        self.note.setWordWrap(True)
        self.note.setProperty("kind", "muted")
        self.resample = QPushButton("Resample")
        self.resample.setToolTip("Draws another number for this step and holds it.")
        self.take = ElidedButton("Take")
        self.take.setProperty("kind", "primary")
        buttons = QHBoxLayout()
        buttons.addWidget(self.take)
        buttons.addWidget(self.resample)
        buttons.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.curve, 1)
        self._column.addWidget(self.words)
        self._column.addWidget(self.note)
        self._column.addLayout(buttons)
        self.resample.clicked.connect(context.resample)
        self.take.clicked.connect(context.take_landing)

    @property
    def view(self) -> HeldDraw:
        """What is shown."""
        return self._view

    def redraw(self, changes: Change) -> None:
        if changes & Change.STYLE:
            style = self.context.style
            self.curve.set_style(style)
            self.words.setFont(style.font(Face.BODY))
            self.note.setFont(style.font(Face.SMALL))
            self._column.setSpacing(style.px(6))
        before, moment = self._view, self.context.moment
        view = self._view = build_held_draw(moment)
        self.curve.set_view(view)
        words = self.empty_words if moment is None else view.refusal
        self.words.setText(words or view.words)
        self.note.setText(self._what_changed(before, view))
        shown = bool(view.steps)
        landing = view.steps[view.landing].text if shown else ""
        self.take.say(f"Take {landing}".strip(), f"Takes {landing} and decodes it.")
        self.take.setEnabled(shown)
        self.resample.setEnabled(view.uniform is not None)
        hint = "" if view.uniform is None else f"u = {view.uniform:.3f} held"
        self.set_caption(self.title, hint)

    def _what_changed(self, before: HeldDraw, now: HeldDraw) -> str:
        """Whether the token changed under the same number, or the number itself."""
        moment = self.context.moment
        if moment is None or moment.step is None or now.uniform is None or not now.steps:
            self._held = None
            return now.note
        held = (moment.step.index, now.uniform)
        old, self._held = self._held, held
        if old is None or old[0] != held[0]:
            self._note = now.note
        elif old != held:
            self._note = f"Another number was drawn: {old[1]:.6f} before, {held[1]:.6f} now."
        elif before.steps:
            was, is_now = before.steps[before.landing], now.steps[now.landing]
            if was.token_id != is_now.token_id:
                self._note = f"The same number landed on {was.text} before this change."
        return self._note
