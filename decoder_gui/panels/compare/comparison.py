"""The Comparison panel: the run in hand beside another, and where the two begin to differ."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
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
from decoder_gui.debugger.comparing.against import Against, OtherModel
from decoder_gui.debugger.comparing.comparison_words import scientific
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.view import View
from decoder_gui.viewdata.comparison import ComparisonView, LayerTable, build_comparison
from decoder_gui.widgets.difference_table import DifferenceTable

CHOOSE = "Compare the run in hand with…"
OTHER_FILE = "A model or a capture…"
OTHER_FOLDER = "A model in a folder…"
NOT_YET = (
    "Choose what to compare the run in hand with. The table then has the largest difference of "
    "every operation in every layer, and a sentence names the first place past the tolerance."
)
STALE = "The run has changed since it was compared."
TOLERANCE_WIDTH = 90  # pixels at scale 1


@register
class ComparisonPanel(Panel):
    """What to compare with, the result in a sentence, and a table of all operations."""

    panel_id = "comparison"
    title = "Comparison"
    views = (View.COMPARE,)
    place = Place.CENTRE
    order = 0
    wants = (
        Change.COMPARISON
        | Change.BRANCHES
        | Change.SAMPLING
        | Change.TRACE
        | Change.MODEL
        | Change.STYLE
    )

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.view: ComparisonView | None = None
        self._built_of: object = None
        self._offered: tuple[object, ...] = ()
        comparison = context.comparison
        self.choice = QComboBox()
        self.choice.setAccessibleName("Compare with")
        self.choice.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.choice.activated.connect(self._on_chosen)
        self.tolerance = QLineEdit()
        self.tolerance.setAccessibleName("Tolerance, relative")
        self.tolerance.setToolTip(
            "Largest relative difference accepted: |a − b| over the largest number of the rows "
            "compared. Empty: 1e-4 for float32, 1e-12 for the tiny decoder."
        )
        self.tolerance.editingFinished.connect(self._on_tolerance)
        self.again_button = self._button("Compare again", comparison.again)
        self.stop_button = self._button("Stop", comparison.stop)
        self.first_button = self._button("Go to the first difference", comparison.go_to_first)
        self.first_button.setProperty("kind", "primary")
        self.origin_button = self._button("Go to where it comes from", comparison.go_to_origin)
        self.sentence = self._words("Result of the comparison")
        self.remarks = self._words("What was not compared")
        self.remarks.setProperty("kind", "muted")
        self.table = DifferenceTable(context.style)
        self.table.cell_chosen.connect(self._on_cell)
        label = QLabel("tolerance")
        label.setBuddy(self.tolerance)
        self.beyond = QCheckBox("Positions after the tokens part, marked *")
        self.beyond.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.beyond.toggled.connect(self._on_beyond)
        self._top, self._ways = QHBoxLayout(), QHBoxLayout()
        self._top.addWidget(self.choice, 1)
        for widget in (label, self.tolerance, self.again_button, self.stop_button):
            self._top.addWidget(widget)
        self._ways.addWidget(self.first_button)
        self._ways.addWidget(self.origin_button)
        self._ways.addWidget(self.beyond)
        self._ways.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(self._top)
        self._column.addWidget(self.sentence)
        self._column.addLayout(self._ways)
        self._column.addWidget(self.remarks)
        self._column.addWidget(self.table, 1)
        self._filler = QWidget()
        self._column.addWidget(self._filler, 1)

    def redraw(self, changes: Change) -> None:
        comparison, style = self.context.comparison, self.context.style
        if changes & Change.STYLE:
            self._column.setSpacing(style.px(8))
            self._top.setSpacing(style.px(8))
            self._ways.setSpacing(style.px(8))
            self.tolerance.setFixedWidth(style.px(TOLERANCE_WIDTH))
            self.table.set_style(style)
        self._offer()
        if not self.tolerance.hasFocus():
            given = comparison.tolerance
            self.tolerance.setText("" if given is None else scientific(given))
        found, running = comparison.found, comparison.stage
        own = None if found is None else found.tolerance
        self.tolerance.setPlaceholderText("" if own is None else scientific(own))
        if found is not self._built_of:
            self._built_of = found
            self.beyond.setChecked(False)
            self._build()
        view = self.view
        self.sentence.setText(self._said())
        remarks = [] if view is None else list(view.remarks)
        if comparison.stale and running is None:
            remarks.insert(0, STALE)
        self.remarks.setText(" ".join(remarks))
        self.remarks.setVisible(bool(remarks))
        self.table.setVisible(view is not None)
        self._filler.setVisible(view is None)
        self.first_button.setVisible(view is not None and view.first)
        self.origin_button.setVisible(view is not None and view.origin)
        self.beyond.setVisible(view is not None and view.parted)
        self.again_button.setVisible(running is None)
        self.again_button.setEnabled(comparison.against is not None)
        self.stop_button.setVisible(running is not None)
        self.set_caption(self.title, "" if view is None else view.hint)

    def _build(self) -> None:
        found = self.context.comparison.found
        beyond = self.beyond.isChecked()
        self.view = None if found is None else build_comparison(found, beyond=beyond)
        self.table.set_table(LayerTable() if self.view is None else self.view.table)

    def _on_beyond(self, _: bool) -> None:
        if self._built_of is not None:
            self._build()

    def _said(self) -> str:
        """The sentence: a result, how far it is, why there is none, or what there is to do."""
        comparison = self.context.comparison
        if comparison.stage is not None:
            fraction = comparison.stage.fraction
            share = "" if fraction is None else f" {fraction:.0%}"
            return f"{comparison.stage.text}…{share}"
        if comparison.refusal:
            return comparison.refusal
        if self.view is not None:
            return f"{'✓' if self.view.agrees else '≠'} {self.view.sentence}"
        trace = self.context.trace
        return NOT_YET if trace is not None and trace.steps else self.empty_words

    def _offer(self) -> None:
        """Fill the list where what there is to choose from is different."""
        comparison = self.context.comparison
        offers = comparison.offers
        shown = (offers, comparison.against)
        if shown == self._offered:
            return
        self._offered = shown
        self.choice.clear()
        self.choice.addItem(CHOOSE)
        for offer in offers:
            self.choice.addItem(offer.label, offer.against)
        self.choice.addItem(OTHER_FILE)
        self.choice.addItem(OTHER_FOLDER)
        chosen = [at for at, offer in enumerate(offers) if offer.against == comparison.against]
        self.choice.setCurrentIndex(chosen[0] + 1 if chosen else 0)

    def _on_chosen(self, index: int) -> None:
        against = self.choice.itemData(index)
        text = self.choice.itemText(index)
        if text in (OTHER_FILE, OTHER_FOLDER):
            against = self._ask(folder=text == OTHER_FOLDER)
        if isinstance(against, Against):
            self.context.comparison.compare(against)
        else:
            self._offered = ()
            self._offer()  # back to what it was

    def _ask(self, *, folder: bool) -> Against | None:
        if folder:
            path = QFileDialog.getExistingDirectory(self, "Compare with a model")
        else:
            path, _ = QFileDialog.getOpenFileName(
                self,
                "Compare with a model or a capture",
                "",
                "Models and captures (*.safetensors *.gguf *.json);;All files (*)",
            )
        return OtherModel(path) if path else None

    def _on_tolerance(self) -> None:
        text = self.tolerance.text().strip().replace(",", ".")
        try:
            self.context.comparison.set_tolerance(float(text) if text else None)
        except ValueError:
            self.context.notice.emit(f"{text!r} is not a tolerance such as 1e-4.")
            given = self.context.comparison.tolerance
            self.tolerance.setText("" if given is None else scientific(given))

    def _on_cell(self, row: int, column: int) -> None:
        result = self.table.table.rows[row].cells[column].result
        if result is not None:
            beyond = self.beyond.isChecked()
            self.context.comparison.go_to_result(result, beyond=beyond)

    def _button(self, text: str, action: object) -> QPushButton:
        button = QPushButton(text)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(action)
        return button

    def _words(self, name: str) -> QLabel:
        label = QLabel()
        label.setAccessibleName(name)
        label.setWordWrap(True)
        label.setTextFormat(Qt.TextFormat.PlainText)  # a token may look like markup
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return label
