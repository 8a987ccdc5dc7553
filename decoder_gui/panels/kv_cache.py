"""The KV cache panel: occupancy, the map of layers by positions, bytes, and the work saved."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.viewdata.kv_cache import (
    KvCacheView,
    build_kv_cache,
    describe_row,
    row_written_at,
)
from decoder_gui.widgets.figure_table import FigureTable
from decoder_gui.widgets.occupancy_gauge import OccupancyGauge
from decoder_gui.widgets.scrolled_column import ScrolledColumn
from decoder_gui.widgets.slab_map import SlabMap


@register
class KvCachePanel(Panel):
    """Which keys and values exist at the cursor, and what they cost."""

    panel_id = "kv-cache"
    title = "KV cache"
    place = Place.RIGHT
    order = 1
    wants = Change.TRACE | Change.CURSOR | Change.MODEL | Change.STYLE | Change.BUSY

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._view = build_kv_cache(None)
        self.gauge = OccupancyGauge()
        self.map = SlabMap()
        self.readout = QLabel()
        self.readout.setProperty("kind", "muted")
        self.readout.setWordWrap(True)
        self.table = FigureTable("Cost of the cache")
        self.full = QLabel()
        self.full.setWordWrap(True)
        self.larger = QPushButton()
        self.again = QPushButton("Start over")
        self.again.setToolTip("Runs the prompt again from an empty cache.")
        self._buttons = QWidget()
        row = QHBoxLayout(self._buttons)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.larger)
        row.addWidget(self.again)
        row.addStretch(1)
        self._scrolled = ScrolledColumn(spacing=4)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self._scrolled)
        column = self._scrolled.column
        for widget in (
            self.gauge,
            self.map,
            self.readout,
            self.full,
            self._buttons,
            self.table,
        ):
            column.addWidget(widget)
        column.addStretch(1)
        self.map.pointed.connect(self._on_pointed)
        self.map.activated.connect(self._on_activated)
        self.larger.clicked.connect(self._on_larger)
        self.again.clicked.connect(self._on_again)

    def sizeHint(self) -> QSize:
        return QSize(self.context.style.px(306), self.context.style.px(247))

    @property
    def view(self) -> KvCacheView:
        """What is shown."""
        return self._view

    def redraw(self, changes: Change) -> None:
        if changes & Change.STYLE:
            self._restyle()
        self._view = view = build_kv_cache(self.context.moment)
        self.set_caption(self.title, view.hint)
        self.gauge.set_view(view)
        self.map.set_slab(view.slab)
        self.table.set_figures(view.figures)
        self._say_full(view)
        self._show_readout()

    def _restyle(self) -> None:
        style = self.context.style
        self.gauge.set_style(style)
        self.map.set_style(style)
        self.table.set_style(style)
        self.readout.setFont(style.font(Face.SMALL))
        self.readout.setMinimumHeight(0)
        self.full.setFont(style.font(Face.STRONG))
        self._scrolled.set_style(style)

    def _say_full(self, view: KvCacheView) -> None:
        self.full.setText(view.full)
        self.full.setVisible(bool(view.full))
        self._buttons.setVisible(bool(view.full))
        self.larger.setVisible(bool(view.larger))
        if view.larger:
            self.larger.setText(f"Context of {view.larger:,}")
            self.larger.setToolTip(
                f"Runs the same tokens again in a cache of {view.larger:,} positions."
            )

    def _show_readout(self) -> None:
        moment, cell = self.context.moment, self.map.cell
        if moment is not None and cell is not None:
            words = describe_row(moment, self._view, *cell)
        else:
            words = self._view.progress
        several = self.map.positions_per_column
        if several > 1:
            words = f"{words} Each column of the map stands for {several} positions.".strip()
        if self.readout.text() != words:
            self.readout.setText(words)
            self.map.setAccessibleDescription(words)

    def _on_pointed(self, layer: int, position: int) -> None:
        # From now on there is room for two lines, so that nothing moves under the pointer.
        self.readout.setMinimumHeight(2 * self.readout.fontMetrics().lineSpacing())
        self._show_readout()

    def _on_activated(self, layer: int, position: int) -> None:
        """Travel to the operation that wrote the row."""
        moment = self.context.moment
        where = None if moment is None else row_written_at(moment, layer, position)
        if where is not None:
            self.context.seek(Cursor(*where))

    def _on_larger(self) -> None:
        if self._view.larger:
            self.context.set_capacity(self._view.larger)

    def _on_again(self) -> None:
        moment = self.context.moment
        if moment is not None and moment.trace.steps:
            trace = moment.trace
            self.context.prefill_ids(list(trace.token_ids[: trace.prompt]))
