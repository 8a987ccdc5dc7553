"""A row of the cache in numbers, with its owner and the proof that it has not changed."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.commands.cache_lab import LENGTH, ROW
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.view import View
from decoder_gui.viewdata.cached_row import build_cached_row, shortened_words
from decoder_gui.viewdata.kv_cache import build_kv_cache, row_written_at
from decoder_gui.viewdata.tables import Table
from decoder_gui.widgets.data_table import DataTable
from decoder_gui.widgets.scrolled_column import ScrolledColumn
from decoder_gui.widgets.slab_map import SlabMap

HELP = (
    "Click a cell of the map, or move to it with the arrow keys and press Enter: its keys and "
    "values are read from the cache and compared with what was written."
)


@register
class CachedRowPanel(Panel):
    """The slab, and whichever row of it was asked for."""

    panel_id = "cached-row"
    title = "A row of the cache"
    views = (View.CACHE,)
    place = Place.RIGHT
    order = 0
    column_width = 400
    row_height = 330
    wants = Change.TRACE | Change.CURSOR | Change.MODEL | Change.STYLE | Change.LAB

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._facts: tuple[object, ...] | None = None  # what the row on show was made of
        self.map = SlabMap()
        self.owner = QLabel()
        self.verdict = QLabel(HELP)
        for label in (self.owner, self.verdict):
            label.setWordWrap(True)
        self.table = DataTable("Keys and values of the row", context.style)
        self.travel = QPushButton("Go to its step")
        self.rewind = QPushButton("Rewind")
        self.travel.setToolTip("Goes to where the row was written.")
        self.rewind.setToolTip(
            "Goes to the step before the one that wrote it, and sets the length of a copy of the "
            "cache back to the position: what becomes of the rows behind it?"
        )
        self.clear = QPushButton("Reset")
        self.clear.setToolTip(
            "Sets the length of a copy of the cache to 0: what becomes of its rows? The session's "
            "cache stays."
        )
        self.lengths = QLabel()
        self.lengths.setWordWrap(True)
        buttons = QHBoxLayout()
        buttons.addWidget(self.travel)
        buttons.addWidget(self.rewind)
        buttons.addWidget(self.clear)
        buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.map)
        self._scrolled = ScrolledColumn(spacing=6)
        for widget in (self.owner, self.verdict, self.lengths, self.table):
            self._scrolled.column.addWidget(widget)
        self._scrolled.column.addStretch(1)
        column.addWidget(self._scrolled, 1)
        column.addLayout(buttons)
        self.map.activated.connect(context.cache_lab.look_at)
        self.travel.clicked.connect(self._on_travel)
        self.rewind.clicked.connect(self._on_rewind)
        self.clear.clicked.connect(lambda: context.cache_lab.try_length(0))

    def redraw(self, changes: Change) -> None:
        context, moment = self.context, self.context.moment
        if changes & Change.STYLE:
            for widget in (self.map, self.table, self._scrolled):
                widget.set_style(context.style)
            self.owner.setFont(context.style.font(Face.SMALL))
            self.verdict.setFont(context.style.font(Face.SMALL))
            self.lengths.setFont(context.style.font(Face.SMALL))
        cache = build_kv_cache(moment)
        self.map.set_slab(cache.slab)
        lab = context.cache_lab
        row = lab.row
        known = moment is not None and row is not None and row.position < len(moment.pieces)
        for shown in (self.owner, self.table, self.travel, self.rewind):
            shown.setVisible(known)
        filled = moment is not None and bool(moment.trace.steps) and not context.recorded
        self.clear.setVisible(filled)
        self.rewind.setEnabled(filled)
        lengths = lab.refusals.get(LENGTH, shortened_words(lab.shortened))
        self.lengths.setText(lengths)
        self.lengths.setVisible(bool(lengths))
        if moment is None or row is None or not known:
            self._facts = None
            self.table.set_table(Table())
            empty = moment is None or not moment.trace.steps
            words = self.empty_words if empty else HELP
            self.verdict.setText(lab.refusals.get(ROW) or lab.row_words or words)
            self.verdict.setStyleSheet("")
            self.set_caption(self.title, cache.hint)
            return
        facts = (row, len(moment.trace.steps), moment.model)
        if facts == self._facts and not changes & Change.STYLE:
            return  # the cursor moves over it, and it stays what it is
        self._facts = facts
        view = build_cached_row(moment, row)
        self.set_caption(self.title, view.title)
        self.owner.setText(view.owner)
        self.verdict.setText(view.verdict)
        colour = context.style.colour(view.tone.value).name()
        self.verdict.setStyleSheet(f"color: {colour};")
        self.table.set_table(view.table)
        self.table.show_all_rows()

    def _on_travel(self) -> None:
        moment, row = self.context.moment, self.context.cache_lab.row
        if moment is not None and row is not None:
            where = row_written_at(moment, row.layer, row.position)
            if where is not None:
                self.context.seek(Cursor(*where))

    def _on_rewind(self) -> None:
        row, trace = self.context.cache_lab.row, self.context.trace
        if row is None or trace is None:
            return
        self.context.cache_lab.try_length(row.position)
        if row.step > 0:
            self.context.seek(Cursor(row.step - 1, trace.events_in(row.step - 1) - 1))
