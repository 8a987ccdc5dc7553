"""The tokens of the text one by one: teacher forcing against the model's own choices."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.commands.learning import FREE
from decoder_gui.context import AppContext
from decoder_gui.panels.base import NO_WEIGHTS, Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.view import View
from decoder_gui.viewdata.evidence import build_evidence
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.tables import Table
from decoder_gui.widgets.data_table import DataTable


@register
class TokensPanel(Panel):
    """A row for each token; the text as given, what the model would have said, and a free run."""

    panel_id = "tokens"
    title = "Teacher forcing against the model's own choices"
    views = (View.LEARN,)
    place = Place.BELOW
    row_height = 330
    wants = (
        Change.TRACE | Change.CURSOR | Change.SELECTION | Change.MODEL | Change.STYLE | Change.LAB
    )

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._positions: tuple[int, ...] = ()
        self._table, self._said = Table(), ""
        self.table = DataTable("Tokens of the text", context.style)
        self.sorting = QPushButton("Most surprising first")
        self.sorting.setCheckable(True)
        self.sorting.setToolTip("Sorts the tokens by their log-probability, or by their position.")
        self.free = QPushButton("Free run")
        self.free.setToolTip(
            "Lets the model go on greedily by itself before the token in hand, reading its own "
            "choices, and compares them with the text."
        )
        self.words = QLabel()
        self.words.setProperty("kind", "muted")
        self.words.setWordWrap(True)
        buttons = QHBoxLayout()
        buttons.addWidget(self.sorting)
        buttons.addWidget(self.free)
        buttons.addWidget(self.words, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.table, 1)
        column.addLayout(buttons)
        self.table.row_chosen.connect(self._on_chosen)
        self.sorting.toggled.connect(lambda _: self.redraw(Change.LAB))
        self.free.clicked.connect(self._on_free)

    def redraw(self, changes: Change) -> None:
        context, moment = self.context, self.context.moment
        if changes & Change.STYLE:
            self.table.set_style(context.style)
            self.words.setFont(context.style.font(Face.SMALL))
        context.learning.want_evidence()
        self.set_caption(self.title, "")
        if moment is None or not moment.trace.steps:
            self._positions, self._table, self._said = (), Table(), ""
            self.table.set_table(self._table)
            self.words.setText(self.empty_words)
            self.free.setEnabled(False)
            return
        learning = context.learning
        free = learning.free
        given = self._given()
        self.free.setEnabled(given is not None and not context.recorded)
        self.free.setText("Free run" if given is None else f"Free run from position {given}")
        if changes & ~(Change.CURSOR | Change.SELECTION) or self._positions == ():
            view = build_evidence(
                moment,
                learning.evidence,
                pending=learning.pending,
                by_surprise=self.sorting.isChecked(),
                free=None if free is None else (free.given, free.chosen),
            )
            self._positions = view.positions
            self._said = view.words
            self._table = view.table
        self._show_place(moment)
        words = NO_WEIGHTS if context.recorded else learning.refusals.get(FREE, "")
        self.words.setText(" ".join(filter(None, (self._said, words))))

    def _show_place(self, moment: Moment) -> None:
        """Mark the token in hand; the rows are made anew only when something else changes."""
        here = moment.position
        marked = self._positions.index(here) if here in self._positions else None
        self.table.set_table(replace(self._table, marked=marked))
        if marked is not None:
            self.table.bring_into_sight(marked)

    def _given(self) -> int | None:
        """How many tokens a free run from the token in hand would be given."""
        moment = self.context.moment
        here = None if moment is None else moment.position
        return here if here is not None and here >= 1 else None

    def _on_chosen(self, row: int) -> None:
        if row < len(self._positions):
            self.context.go_to_position(self._positions[row])

    def _on_free(self) -> None:
        given = self._given()
        if given is not None:
            self.context.learning.run_free(given)
