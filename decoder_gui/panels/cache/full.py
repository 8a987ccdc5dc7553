"""What an engine can do when its cache is full, and what each choice costs on this text."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSpinBox, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.commands.cache_lab import FULL
from decoder_gui.context import AppContext
from decoder_gui.panels.base import NO_WEIGHTS, Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.view import View
from decoder_gui.viewdata.policies import build_policies
from decoder_gui.widgets.data_table import DataTable
from decoder_gui.widgets.plot_view import PlotView
from decoder_gui.widgets.scrolled_column import ScrolledColumn

LEAST_PLOT = 125  # pixels at scale 1


@register
class FullCachePanel(Panel):
    """Divergence from the full context, position by position, for three policies."""

    panel_id = "full-cache"
    title = "When the cache is full"
    views = (View.CACHE,)
    place = Place.BELOW
    row_height = 350
    wants = Change.TRACE | Change.MODEL | Change.STYLE | Change.LAB

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._showing = False
        self.capacity = QSpinBox()
        self.capacity.setAccessibleName("Positions of the small cache")
        self.keep = QSpinBox()
        self.keep.setAccessibleName("First tokens that are kept")
        for field in (self.capacity, self.keep):
            field.setKeyboardTracking(False)
            field.valueChanged.connect(self._on_number)
        self.compare = QPushButton("Compare")
        self.compare.setProperty("kind", "primary")
        self.words = QLabel()
        self.words.setProperty("kind", "muted")
        self.words.setWordWrap(True)
        self.plot = PlotView("Divergence from the full context", context.style)
        self.table = DataTable("Policies", context.style)
        row = QHBoxLayout()
        for label, widget in (("Cache of", self.capacity), ("keep the first", self.keep)):
            words = QLabel(label)
            words.setBuddy(widget)
            row.addWidget(words)
            row.addWidget(widget)
        row.addWidget(self.compare)
        row.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(row)
        column.addWidget(self.words)
        self._scrolled = ScrolledColumn(spacing=6)
        self._scrolled.column.addWidget(self.plot, 1)
        self._scrolled.column.addWidget(self.table)
        column.addWidget(self._scrolled, 1)
        column.addStretch(0)
        self.compare.clicked.connect(self._on_compare)

    def redraw(self, changes: Change) -> None:
        context, moment = self.context, self.context.moment
        if changes & Change.STYLE:
            self.plot.set_style(context.style)
            self.table.set_style(context.style)
            self._scrolled.set_style(context.style)
            self.plot.setMinimumHeight(context.style.px(LEAST_PLOT))
            self.words.setFont(context.style.font(Face.SMALL))
            for field in (self.capacity, self.keep):
                field.setFont(context.style.font(Face.MONO))
        lab = context.cache_lab
        running = FULL in lab.running
        ready = moment is not None and bool(moment.trace.steps) and not context.recorded
        for widget in (self.capacity, self.keep, self.compare):
            widget.setEnabled(ready and not running)
        self._scrolled.setVisible(bool(lab.divergences))
        if moment is None or not moment.trace.steps:
            self.words.setText(self.empty_words)
            self.set_caption(self.title)
            return
        self._show()
        view = build_policies(
            moment, lab.divergences, lab.capacity, keep_first=lab.keep_first, running=running
        )
        self.set_caption(self.title, view.hint)
        words = lab.refusals.get(FULL, view.words)
        self.words.setText(NO_WEIGHTS if context.recorded else words)
        self.plot.set_plot(view.plot)
        self.table.set_table(view.table)
        self.table.show_all_rows()
        fits = lab.capacity >= len(moment.trace.token_ids)
        self.compare.setText("Stop" if running else "Compare")
        self.compare.setEnabled(running or (ready and not fits))

    def _show(self) -> None:
        lab = self.context.cache_lab
        self._showing = True
        self.capacity.setRange(2, max(2, self.context.capacity))
        self.capacity.setValue(lab.capacity)
        self.keep.setRange(0, max(0, lab.capacity - 2))
        self.keep.setValue(lab.keep_first)
        self._showing = False

    def _on_compare(self) -> None:
        lab = self.context.cache_lab
        if FULL in lab.running:
            lab.stop(FULL)
        else:
            lab.compare_policies()

    def _on_number(self, _: int) -> None:
        if not self._showing:
            keep = min(self.keep.value(), max(0, self.capacity.value() - 2))
            self.context.cache_lab.set_capacity(self.capacity.value(), keep)
