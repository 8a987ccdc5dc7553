"""The sampler as a pipeline: stages to switch, set and reorder, over what each leaves."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QFileDialog,
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
from decoder_gui.view import View
from decoder_gui.viewdata.order_choices import OrderChoice
from decoder_gui.viewdata.sampling_controls import Setting, stage_settings
from decoder_gui.viewdata.sampling_pipeline import Pipeline, build_pipeline
from decoder_gui.widgets.scrolled_column import ScrolledColumn
from decoder_gui.widgets.stage_card import HEIGHT as CARDS
from decoder_gui.widgets.stage_pipeline import StagePipeline
from decoder_gui.widgets.stage_table import ROW
from model.errors import DecoderError

LEAST_ROWS, LEAST_WORDS = 5, 34  # candidates, and pixels at scale 1 of the words under them
LOOK_FOR = "Find a token: its text or its id"


@register
class PipelinePanel(Panel):
    """Every stage a column, every candidate a row, the edges and ties in words."""

    panel_id = "sampling-pipeline"
    title = "Sampler pipeline"
    views = (View.SAMPLING,)
    place = Place.CENTRE
    row_height = 480
    wants = (
        Change.TRACE
        | Change.CURSOR
        | Change.SAMPLING
        | Change.CHECKS
        | Change.MODEL
        | Change.STYLE
        | Change.LAB
    )

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._settings: dict[str, Setting] = {}
        self._vocabulary = 0
        self._refused = ""
        self._facts: tuple[object, ...] | None = None
        self.orders: dict[str, QPushButton] = {}
        self._group = QButtonGroup(self)
        self._order_row = QHBoxLayout()
        self._order_row.setSpacing(0)
        self.rule = _words()
        self.pipeline = StagePipeline()
        self.stages = _words()
        self._words = ScrolledColumn(spacing=2)
        self._words.column.addWidget(self.rule)
        self._words.column.addWidget(self.stages)
        self._words.column.addStretch(1)
        self.row = _words("")
        self.found = _words()
        self.empty = _words()
        self.empty.hide()
        self.search = QLineEdit()
        self.search.setPlaceholderText(LOOK_FOR)
        self.search.setAccessibleName(LOOK_FOR)
        self.search.setClearButtonEnabled(True)
        self.export = QPushButton("CSV…")
        self.export.setToolTip("Writes every token of the vocabulary, at every stage, to a file.")
        self._lay_out()
        lab = context.sampler_lab
        self.pipeline.toggled.connect(lab.toggle)
        self.pipeline.changed.connect(lab.set_stage)
        self.pipeline.refused.connect(self._on_refused)
        self.pipeline.moved.connect(lab.move)
        self.pipeline.placed.connect(lab.place)
        self.pipeline.pointed.connect(self._say_stage)
        self.pipeline.table.pointed.connect(lambda _: self._say_row())
        self.pipeline.table.entered.connect(self._on_entered)
        self.search.textChanged.connect(lambda _: self.redraw(Change.SAMPLING))
        self.export.clicked.connect(self._on_export)

    def _lay_out(self) -> None:
        above = QHBoxLayout()
        above.addLayout(self._order_row)
        above.addStretch(1)
        above.addWidget(self.search, 2)
        above.addWidget(self.export)
        self._whole = QWidget()
        column = QVBoxLayout(self._whole)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(above)
        column.addWidget(self.pipeline, 1)
        for widget in (self.row, self._words, self.found):
            column.addWidget(widget)
        self._column = column
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self.empty)
        outer.addWidget(self._whole, 1)

    @property
    def view(self) -> Pipeline:
        """What is shown."""
        return self.pipeline.view

    def redraw(self, changes: Change) -> None:
        if changes & Change.STYLE:
            self._restyle()
        facts = (*self.context.sampler_lab.facts(), self.search.text())
        if facts == self._facts and not changes & Change.STYLE:
            return  # most steps of the cursor change nothing here
        self._facts = facts
        moment = self.context.moment
        view = build_pipeline(moment, self.search.text())
        if moment is None or view.refusal:
            self.empty.setText(self.empty_words if moment is None else view.refusal)
            self.set_caption(self.title)
        else:
            if moment.model.shape.vocabulary != self._vocabulary:
                self._vocabulary = moment.model.shape.vocabulary
                self._settings = stage_settings(self._vocabulary)
            self.set_caption(self.title, view.summary)
            self._show_orders(view.orders)
            self.pipeline.set_view(view, self._settings)
            said = (self.rule.text(), self.stages.text())
            _say(self.rule, f"{view.rule}\nUnder the same settings {view.others}.")
            _say(self.stages, _stage_words(view))
            self._say_found()
            self._say_row()
            if said != (self.rule.text(), self.stages.text()) or changes & Change.STYLE:
                self._fit_words()
        shown = not view.refusal
        if self._whole.isHidden() is shown:
            self._whole.setVisible(shown)
            self.empty.setVisible(not shown)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_words()

    def _fit_words(self) -> None:
        """Edges and rules whole where there is room, else scrolled: candidates come first."""
        style, layout = self.context.style, self._words.column
        wanted = layout.totalHeightForWidth(self._words.viewport().width())
        others = sum(widget.sizeHint().height() for widget in (self.row, self.found, self.search))
        least = style.px(CARDS + LEAST_ROWS * ROW) + others + 4 * self._column.spacing()
        height = min(wanted, self.height() - least)
        # Too low for a line: whoever comes to a stage by keyboard or mouse still reads its words.
        fits = height >= style.px(LEAST_WORDS)
        if self._words.isHidden() is fits:
            self._words.setVisible(fits)
        if fits and height != self._words.height():
            self._words.setFixedHeight(height)

    def _restyle(self) -> None:
        style = self.context.style
        self._words.set_style(style)
        self.pipeline.set_style(style)
        for label in (self.rule, self.stages, self.found):
            label.setFont(style.font(Face.SMALL))
        self.row.setFont(style.font(Face.BODY))
        self._column.setSpacing(style.px(6))

    def _show_orders(self, choices: tuple[OrderChoice, ...]) -> None:
        names = [choice.name for choice in choices]
        if names != list(self.orders):
            self._rebuild_orders(names)
        for choice in choices:
            button = self.orders[choice.name]
            if button.text() != choice.text:
                button.setText(choice.text)
                button.setAccessibleName(
                    f"Order {choice.title}: {choice.kept} kept, lands on {choice.lands_on}"
                )
            button.setToolTip(choice.tip)
            if button.isChecked() is not choice.current:
                button.setChecked(choice.current)

    def _rebuild_orders(self, names: list[str]) -> None:
        for button in self.orders.values():
            self._group.removeButton(button)
            button.hide()
            button.deleteLater()
        while self._order_row.count():
            self._order_row.takeAt(0)
        self.orders = {}
        for at, name in enumerate(names):
            button = QPushButton()
            button.setProperty("kind", "segment")
            end = "first" if not at else "last" if at == len(names) - 1 else ""
            button.setProperty("end", end)
            button.setCheckable(True)
            button.clicked.connect(partial(self.context.sampler_lab.set_order, name))
            self._group.addButton(button)
            self._order_row.addWidget(button)
            self.orders[name] = button

    def _say_row(self) -> None:
        table = self.pipeline.table
        _say(self.row, f"{table.rows[table.current].fate}" if table.rows else "")

    def _say_stage(self, name: str) -> None:
        """The edge of the stage that the keyboard has come to, in place of the row's words."""
        column = next((each for each in self.view.columns if each.name == name), None)
        if column is not None:
            _say(self.row, f"{column.title}: {column.edge} {column.tie}".rstrip())

    def _say_found(self) -> None:
        lines = (self._refused or self.view.search, self.view.outside)
        _say(self.found, "\n".join(filter(None, lines)))

    def _on_refused(self, words: str) -> None:
        self._refused = words
        self._say_found()

    def _on_entered(self, token: int) -> None:
        self.context.take(token)

    def _on_export(self) -> None:
        path, _ = QFileDialog.getSaveFileName(
            self, "Write the distribution", "distribution.csv", "CSV (*.csv)"
        )
        if path:
            try:
                self.context.sampler_lab.export(Path(path))
            except DecoderError as refusal:
                self.context.notice.emit(str(refusal))


def _stage_words(view: Pipeline) -> str:
    """The edge and the tie rule of every stage that is on, one a line."""
    lines = [
        f"{column.title}: {column.edge} {column.tie}".rstrip()
        for column in view.columns
        if column.on and column.name != "raw" and not column.plain
    ]
    if lines:
        return "\n".join(lines)
    if any(column.on for column in view.columns if column.name != "raw"):
        return "No stage cuts any token off: all of them can be drawn."
    return "No stage is on: the raw distribution is drawn from."


def _words(kind: str = "muted") -> QLabel:
    label = QLabel()
    label.setWordWrap(True)
    if kind:
        label.setProperty("kind", kind)
    return label


def _say(label: QLabel, words: str) -> None:
    if label.text() != words:
        label.setText(words)
    if label.isHidden() is bool(words):
        label.setVisible(bool(words))
