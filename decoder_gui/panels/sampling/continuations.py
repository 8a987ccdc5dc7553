"""Several continuations of the text in hand, grown in one batch."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSpinBox, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.commands.sampler_lab import Continuations
from decoder_gui.context import AppContext
from decoder_gui.debugger.laboratory.continuations import MOST
from decoder_gui.panels.base import NO_WEIGHTS, Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.view import View
from decoder_gui.viewdata.numbers import plural
from decoder_gui.viewdata.sampling_lab import continuation_table, timing_words
from decoder_gui.viewdata.tables import Table
from decoder_gui.widgets.data_table import DataTable
from decoder_gui.widgets.elided import ElidedLabel
from model.errors import sentence

HELP = (
    "Continues the text from the step in hand, several times in one batch: the keys and values of "
    "the beginning are computed once and copied, and each pass reads the weights once for all rows."
)


@register
class ContinuationsPanel(Panel):
    """Rows with their log-likelihood; clicking one goes on with it."""

    panel_id = "sampling-continuations"
    title = "Continuations"
    views = (View.SAMPLING,)
    place = Place.BELOW
    row_height = 210
    wants = (
        Change.TRACE
        | Change.CURSOR
        | Change.SAMPLING
        | Change.CHECKS
        | Change.MODEL
        | Change.STYLE
        | Change.LAB
        | Change.BUSY
    )

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        lab = context.sampler_lab
        self._shown: tuple[object, object] | None = None
        self.count, self.length = QSpinBox(), QSpinBox()
        for spin, value, most, name in (
            (self.count, lab.count, MOST, "How many continuations"),
            (self.length, lab.length, 100_000, "Tokens of each"),
        ):
            spin.setRange(1, most)
            spin.setValue(value)
            spin.setAccessibleName(name)
            spin.valueChanged.connect(self._on_numbers)
        self.go = QPushButton("Continue")
        self.go.setProperty("kind", "primary")
        self.stop = QPushButton("Cancel")
        self.table = DataTable("Continuations", context.style)
        self.table.setToolTip("Click, or Enter: go on with this one.")
        self.timing = ElidedLabel()
        self.timing.setAccessibleName("What the batch buys")
        self.words = QLabel()
        self.words.setWordWrap(True)
        self.words.setProperty("kind", "muted")
        self._labels = [QLabel("Rows"), QLabel("Tokens each")]
        for label, spin in zip(self._labels, (self.count, self.length), strict=True):
            label.setBuddy(spin)
        row = QHBoxLayout()
        for widget in (self._labels[0], self.count, self._labels[1], self.length):
            row.addWidget(widget)
        row.addWidget(self.go)
        row.addWidget(self.stop)
        row.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(row)
        self._column.addWidget(self.words)
        self._column.addWidget(self.table, 1)
        self._column.addWidget(self.timing)
        self._column.addStretch(0)
        self.go.clicked.connect(lab.go_on)
        self.stop.clicked.connect(lab.stop)
        self.table.row_chosen.connect(lab.adopt)

    def redraw(self, changes: Change) -> None:
        if changes & Change.STYLE:
            self._restyle()
        lab, moment = self.context.sampler_lab, self.context.moment
        held = lab.continuations
        rows = () if held is None else held.rows
        if (rows, self.context.model) != self._shown or changes & Change.STYLE:
            self._shown = (rows, self.context.model)  # a moving slider changes none of them
            table = Table() if moment is None else continuation_table(moment, rows)
            self.table.set_table(table)
        if self.table.isHidden() is bool(rows):
            self.table.setVisible(bool(rows))
        timing = None if held is None else held.timing
        words = "" if timing is None else timing_words(timing)
        self.timing.setText(words)
        self.timing.setToolTip(words)
        self.timing.setVisible(bool(words))
        running = held is not None and held.running
        ready = moment is not None and moment.distribution is not None
        self.go.setEnabled(ready and not running and not self.context.recorded)
        for widget in (*self._labels, self.count, self.length):
            widget.setEnabled(self.go.isEnabled())
        self.stop.setEnabled(running)
        self._say()

    def _say(self) -> None:
        lab, moment = self.context.sampler_lab, self.context.moment
        held = lab.continuations
        hint = ""
        if moment is None or not moment.trace.steps:
            words = self.empty_words
        elif self.context.recorded:
            words = NO_WEIGHTS
        elif moment.distribution is None:
            words = sentence(moment.sampling_refusal or "the logits are not computed yet")
        elif held is None or not held.rows:
            words = lab.refusal or HELP
        else:
            words = _progress(held, lab.length)
            hint = f"after {plural(len(held.prefix), 'token')} · click a row to go on with it"
        self.words.setText(words)
        self.words.setVisible(bool(words))
        self.set_caption(self.title, hint)

    def _restyle(self) -> None:
        style = self.context.style
        self.table.set_style(style)
        for label in self._labels:
            label.setFont(style.font(Face.BODY))
        self.words.setFont(style.font(Face.SMALL))
        self.timing.setFont(style.font(Face.SMALL))
        for spin in (self.count, self.length):
            spin.setFixedWidth(style.px(70))
        self._column.setSpacing(style.px(6))

    def _on_numbers(self) -> None:
        self.context.sampler_lab.set_continuations(self.count.value(), self.length.value())


def _progress(held: Continuations, wanted: int) -> str:
    """How far they are, or why they are no longer."""
    done = max(len(row.token_ids) for row in held.rows)
    ended = sum(row.ended for row in held.rows)
    if held.running:
        return f"{done} of {plural(held.length, 'token')}."
    if held.timing is None:
        return f"Cancelled after {plural(done, 'token')}."
    words = "" if held.length >= wanted else f"The context has room for {held.length} more."
    if ended:
        words += f" {ended} of {plural(len(held.rows), 'row')} ended with the end of a text."
    return words.strip()
