"""The Next token panel: the sampling controls, the distribution under them, and taking a token."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.session import DEFAULT_SEED
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.theme.stylesheet import repolish
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.next_token import Draws, NextToken, build_next_token
from decoder_gui.widgets.bar_marks import BarLegend
from decoder_gui.widgets.elided import ElidedButton
from decoder_gui.widgets.probability_bars import ProbabilityBars
from decoder_gui.widgets.sampling_controls import SamplingControls
from decoder_gui.widgets.scrolled_column import ScrolledColumn
from model.errors import InvalidSampling
from model.trace import Step

DRAWS = 1000


@register
class NextTokenPanel(Panel):
    """What may come next, what the settings do to it, and the token that the held draw selects."""

    panel_id = "next-token"
    title = "Next token"
    place = Place.RIGHT
    order = 0
    at_cursor = True
    wants = (
        Change.TRACE
        | Change.CURSOR
        | Change.SAMPLING
        | Change.CHECKS
        | Change.MODEL
        | Change.STYLE
        | Change.BUSY
    )

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._view = NextToken()
        self._draws: Draws | None = None
        self._shown_for: tuple[object, ...] = ()
        self._drawn_at: tuple[Step, object] | None = None
        self.controls = SamplingControls()
        self.bars = ProbabilityBars()
        self.legend = BarLegend()
        self.refusal = _words("error")
        self.summary = _words("muted")
        self.branch = _words("muted")
        self.take = ElidedButton("Take")
        self.take.setProperty("kind", "primary")
        self.resample = QPushButton("Resample")
        self.many = QPushButton(f"{DRAWS:,} draws")
        buttons = QHBoxLayout()
        buttons.setContentsMargins(0, 0, 0, 0)
        for button in (self.take, self.resample, self.many):
            buttons.addWidget(button)
        buttons.addStretch(1)
        self._buttons = buttons
        self._scrolled = ScrolledColumn(spacing=4)
        column = self._scrolled.column
        column.addWidget(self.controls)
        column.addWidget(self.refusal)
        column.addWidget(self.bars, 1)
        column.addWidget(self.legend)
        column.addWidget(self.summary)
        column.addWidget(self.branch)
        column.addStretch(0)  # takes the space only while the bars are hidden
        self._outer = QVBoxLayout(self)
        self._outer.setContentsMargins(0, 0, 0, 0)
        self._outer.addWidget(self._scrolled, 1)
        self._outer.addLayout(buttons)  # always in reach, whatever is scrolled
        self.controls.changed.connect(self._on_setting)
        self.bars.taken.connect(context.take)
        self.take.clicked.connect(self._on_take)
        self.resample.clicked.connect(self._on_resample)
        self.many.clicked.connect(self._on_many)

    def sizeHint(self) -> QSize:
        return QSize(self.context.style.px(306), self.context.style.px(375))

    @property
    def view(self) -> NextToken:
        """What is shown."""
        return self._view

    def redraw(self, changes: Change) -> None:
        if changes & Change.STYLE:
            self._restyle()
        moment = self.context.moment
        if moment is not None:
            self._show_settings(moment)
        if self._draws is not None and self._drawn_at != self._now():
            self._draws = None
        # Most steps of the cursor change nothing here: it is one distribution for a whole step.
        shown_for = (*self._facts(moment), self._draws)
        if shown_for != self._shown_for:
            self._shown_for = shown_for
            self._show(build_next_token(moment, self._draws, self.context.exhausted))

    def _show(self, view: NextToken) -> None:
        self._view = view
        self.set_caption(self.title, view.hint)
        self.controls.set_draw(view.draw, view.draw_exact)
        self.controls.set_seed_note(view.seed_note)
        self.bars.set_view(view)
        self.legend.set_with_observed(bool(view.observed))
        self._say_refusal(view)
        self._say(
            self.summary, "\n".join(filter(None, (view.summary, view.outside, view.observed)))
        )
        self._say(self.branch, view.branch)
        shown = bool(view.rows)
        for widget in (self.bars, self.legend):
            if widget.isHidden() is shown:
                widget.setVisible(shown)
        self._update_buttons(view)

    def _update_buttons(self, view: NextToken) -> None:
        self.take.say(view.take_text, view.take_tip)
        self.take.setEnabled(view.can_take)
        self.resample.setEnabled(view.can_resample)
        self.resample.setToolTip(view.resample_tip)
        self.many.setEnabled(bool(view.rows))
        self.many.setToolTip(
            f"Draws {DRAWS:,} times from the final distribution, by a generator of its own, and "
            "shows the observed shares beside the expected ones. Nothing is taken."
        )

    def _restyle(self) -> None:
        style = self.context.style
        for widget in (self.controls, self.bars, self.legend):
            widget.set_style(style)
        for label in (self.refusal, self.summary, self.branch):
            label.setFont(style.font(Face.SMALL))
        self._scrolled.set_style(style)
        self._outer.setSpacing(style.px(6))
        self._buttons.setSpacing(style.px(8))

    def _show_settings(self, moment: Moment) -> None:
        sampling = moment.sampling
        if sampling.seed is None:  # left to the session, which then takes this one
            sampling = replace(sampling, seed=DEFAULT_SEED)
        self.controls.set_config(sampling, moment.model.shape.vocabulary)

    def _say_refusal(self, view: NextToken) -> None:
        kind = "error" if view.non_finite else "muted"
        if self.refusal.property("kind") != kind:
            self.refusal.setProperty("kind", kind)
            repolish(self.refusal)
        self._say(self.refusal, view.refusal)

    def _say(self, label: QLabel, words: str) -> None:
        if label.text() != words:
            label.setText(words)
        if label.isHidden() is bool(words):
            label.setVisible(bool(words))

    def _facts(self, moment: Moment | None) -> tuple[object, ...]:
        """Everything that the contents depend on, cheap to compare."""
        if moment is None or moment.step is None:
            return (moment is None,)
        step = moment.step
        logits = moment.trace.logits(step.index)
        return (
            moment.model,
            step,
            None if logits is None else logits.ctypes.data,
            moment.exists(step.index, "logits"),
            moment.sampling,
            moment.faults,
            len(moment.trace.steps),
            moment.choices[step.index : step.index + 1],
            len(moment.candidates),
            self.context.exhausted,
        )

    def _now(self) -> tuple[Step, object] | None:
        """What the comparison draws belong to: a step and the settings that were in force."""
        moment = self.context.moment
        if moment is None or moment.step is None:
            return None
        return moment.step, (moment.sampling, moment.faults)

    def _on_setting(self, field: str, value: object) -> None:
        try:
            self.context.set_sampling(**{field: value})
        except InvalidSampling as refusal:
            # The controls refuse what is out of range; this is for what they cannot know.
            self.context.notice.emit(f"{refusal}.")
            moment = self.context.moment
            if moment is not None:
                self._show_settings(moment)

    def _on_take(self) -> None:
        self.context.take_landing()

    def _on_resample(self) -> None:
        self.context.resample()

    def _on_many(self) -> None:
        counts = self.context.draws(DRAWS)
        if counts.size:
            self._draws, self._drawn_at = Draws(counts), self._now()
            self.redraw(Change.SAMPLING)


def _words(kind: str) -> QLabel:
    label = QLabel()
    label.setProperty("kind", kind)
    label.setWordWrap(True)
    label.hide()
    return label
