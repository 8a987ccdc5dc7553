"""Head-only training, a step at a time, on a copy of the unembedding."""

from __future__ import annotations

import numpy as np
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.theme.stylesheet import repolish
from decoder_gui.view import View
from decoder_gui.viewdata.head_training import build_head_training
from decoder_gui.widgets.data_table import DataTable
from decoder_gui.widgets.figure_table import FigureTable
from decoder_gui.widgets.plot_view import PlotView
from decoder_gui.widgets.scrolled_column import ScrolledColumn
from decoder_gui.widgets.side_by_side import SideBySide
from model.errors import DecoderError, sentence

HELP = (
    "Choose the token that should come next after the position in hand. Each step lowers its loss "
    "by moving a copy of the unembedding; the rest of the model, and the model itself, stay as "
    "they are."
)
TEN = 10
BESIDE = 700  # pixels at scale 1


@register
class HeadTrainingPanel(Panel):
    """Loss, gradient, the update on a copy, probabilities before and after."""

    panel_id = "head-training"
    title = "Head-only training"
    views = (View.LEARN,)
    place = Place.RIGHT
    column_width = 460
    wants = (
        Change.TRACE | Change.CURSOR | Change.SELECTION | Change.MODEL | Change.STYLE | Change.LAB
    )

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        style = context.style
        self.target = QLineEdit()
        self.target.setAccessibleName("Target: the token that should come next")
        self.target.setPlaceholderText("text of one token, or its id")
        self.rate = QLineEdit(f"{context.learning.learning_rate:g}")
        self.rate.setAccessibleName("Learning rate")
        self.begin = QPushButton("Set target")
        self.step = QPushButton("Step")
        self.step.setProperty("kind", "primary")
        self.ten = QPushButton(f"{TEN} steps")
        self.again = QPushButton("Reset")
        self.words = QLabel(HELP)
        self.words.setWordWrap(True)
        self.words.setProperty("kind", "muted")
        self.figures = FigureTable("Training")
        self.plot = PlotView("Loss by step", style)
        self.table = DataTable("Probabilities before and after", style)
        self.matrix = DataTable("Gradient and copy of the unembedding", style)
        self._sides = SideBySide(BESIDE)
        self._scrolled = ScrolledColumn(spacing=6)
        self._lay_out()
        self.target.returnPressed.connect(self._on_target)
        self.begin.clicked.connect(self._on_target)
        self.rate.editingFinished.connect(self._on_rate)
        self.step.clicked.connect(lambda: context.learning.train(1))
        self.ten.clicked.connect(lambda: context.learning.train(TEN))
        self.again.clicked.connect(context.learning.start_again)
        self.table.row_chosen.connect(self._on_row)

    def _lay_out(self) -> None:
        form = QGridLayout()
        form.setContentsMargins(0, 0, 0, 0)
        for row, (words, field, button) in enumerate(
            (("Target", self.target, self.begin), ("Learning rate", self.rate, None))
        ):
            label = QLabel(words)
            label.setBuddy(field)
            form.addWidget(label, row, 0)
            form.addWidget(field, row, 1)
            if button is not None:
                form.addWidget(button, row, 2)
        buttons = QHBoxLayout()
        for each in (self.step, self.ten, self.again):
            buttons.addWidget(each)
        buttons.addStretch(1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addLayout(form)
        outer.addLayout(buttons)
        outer.addWidget(self._scrolled, 1)
        for widget in (self.figures, self.plot):
            self._sides.first.addWidget(widget)
        for table in (self.table, self.matrix):
            self._sides.second.addWidget(table)
        self._sides.end()
        self._scrolled.column.addWidget(self.words)
        self._scrolled.column.addWidget(self._sides)
        self._scrolled.column.addStretch(1)

    def redraw(self, changes: Change) -> None:
        context, moment = self.context, self.context.moment
        if changes & Change.STYLE:
            self._restyle()
        if not self.rate.hasFocus() and not self.rate.property("state"):
            self.rate.setText(f"{context.learning.learning_rate:g}")
        context.learning.want_lesson()
        lesson = context.learning.lesson
        shown = moment is not None and lesson is not None
        self.begin.setEnabled(moment is not None and moment.step is not None)
        for widget in (self.figures, self.plot, self.table, self.step, self.ten, self.again):
            if isinstance(widget, QPushButton):
                widget.setEnabled(shown)
            else:
                widget.setVisible(shown)
        if moment is None or lesson is None:
            refusal = context.learning.refusal
            self.words.setText(refusal or self._why_not())
            self.words.show()
            self.matrix.hide()
            self.set_caption(self.title, "")
            return
        weights = moment.model.weights
        unembedding = None if weights is None else weights.parameter("unembed.W_U")
        view = build_head_training(moment, lesson.position, lesson.training, unembedding)
        self.set_caption(self.title, view.title)
        self.words.setText(context.learning.refusal or HELP)
        self.words.setVisible(bool(context.learning.refusal) or lesson.proposed)
        self.figures.set_figures(view.figures)
        self.plot.set_plot(view.plot)
        self.table.set_table(view.table)
        self.matrix.setVisible(bool(view.matrix.rows))
        self.matrix.set_table(view.matrix)
        for table in (self.table, self.matrix):
            table.show_all_rows()

    def _why_not(self) -> str:
        """Why there is nothing to train on."""
        moment = self.context.moment
        if moment is None or moment.step is None:
            return self.empty_words
        logits = moment.trace.logits(moment.step.index)
        if logits is not None and not np.isfinite(logits).all():
            return "The logits of this step are not all finite: there is no loss to lower."
        return f"The step in hand has no logits yet: step on to them. {HELP}"

    def _restyle(self) -> None:
        style = self.context.style
        for widget in (self.figures, self.plot, self.table, self.matrix):
            widget.set_style(style)
        self.plot.setFixedHeight(style.px(150))
        self._sides.set_style(style)
        self.rate.setFont(style.font(Face.MONO))
        self._scrolled.set_style(style)

    # ---- what is asked

    def _on_target(self) -> None:
        model, text = self.context.model, self.target.text()
        if model is None or not text:
            return
        if text.strip().isdigit():
            self.context.learning.choose_target(int(text))
            return
        try:
            ids = model.tokenizer.encode(text)
        except DecoderError as refusal:
            self.context.notice.emit(sentence(refusal))
            return
        if len(ids) != 1:
            self.context.notice.emit(
                f"“{text}” is {len(ids)} tokens; the target is one. A space in front often matters."
            )
            return
        self.context.learning.choose_target(ids[0])

    def _on_row(self, row: int) -> None:
        """A token of the table becomes the target."""
        moment, lesson = self.context.moment, self.context.learning.lesson
        if moment is not None and lesson is not None:
            view = build_head_training(moment, lesson.position, lesson.training)
            if view.token_ids[row] != lesson.training.target_id:
                self.context.learning.choose_target(view.token_ids[row])

    def _on_rate(self) -> None:
        text = self.rate.text().strip()
        try:
            self.context.learning.set_learning_rate(float(text))
            bad = False
        except (ValueError, DecoderError):
            self.context.notice.emit(
                f"A learning rate is a finite number above 0; “{text}” is not."
            )
            bad = True
        if (self.rate.property("state") == "bad") != bad:
            self.rate.setProperty("state", "bad" if bad else "")
            repolish(self.rate)
