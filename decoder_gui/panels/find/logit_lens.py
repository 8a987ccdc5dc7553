"""The Logit lens panel: what the model would say after each block, at every position."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.view import View
from decoder_gui.viewdata.lens import LensView, build_lens, by_block, rank_plot, residual_cell
from decoder_gui.viewdata.provenance import place_of
from decoder_gui.widgets.data_table import DataTable
from decoder_gui.widgets.lens_grid import LensGrid
from decoder_gui.widgets.plot_view import PlotView
from decoder_gui.widgets.value_controls import ScaleLegend

WORKING = "Working out what each block would say."
LEGEND = 130  # pixels at scale 1
# Where the panel is smaller, the table alone has the room.
HIGH_ENOUGH, WIDE_ENOUGH = 244, 430


@register
class LogitLensPanel(Panel):
    """A click, or Enter, goes to the residual that a cell reads; below, one position by block."""

    panel_id = "logit-lens"
    title = "Logit lens"
    views = (View.FIND,)
    place = Place.CENTRE
    order = 0
    row_height = 260
    at_cursor = True
    wants = (
        Change.TRACE
        | Change.CURSOR
        | Change.SELECTION
        | Change.SAMPLING
        | Change.STYLE
        | Change.MODEL
        | Change.LAB
    )

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.view: LensView | None = None
        self._drawn: LensView | None = None  # what grid, numbers and plot show
        self._at: tuple[int, int] | None = None  # row and column in hand
        self._followed: object = None  # the step and query that the column was last set by
        self.empty = QLabel()
        self.empty.setWordWrap(True)
        self.empty.setProperty("kind", "muted")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.grid = LensGrid()
        self.legend = ScaleLegend()
        self.numbers = DataTable("One position, block by block", context.style)
        self.plot = PlotView("Rank of the next token, block by block", context.style)
        self._below = QWidget()
        row = QHBoxLayout(self._below)
        row.setContentsMargins(0, 0, 0, 0)
        self._side = QWidget()
        side = QVBoxLayout(self._side)
        side.setContentsMargins(0, 0, 0, 0)
        side.addWidget(self.legend, 0, Qt.AlignmentFlag.AlignRight)
        side.addWidget(self.plot, 1)
        row.addWidget(self.numbers, 3)
        row.addWidget(self._side, 2)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.empty)
        column.addWidget(self.grid, 3)
        column.addWidget(self._below, 2)
        self.grid.pointed.connect(self._point_at)
        self.grid.chosen.connect(self._go_to)
        self.numbers.row_chosen.connect(self._go_to_row)

    def redraw(self, changes: Change) -> None:
        context, style, moment = self.context, self.context.style, self.context.moment
        if changes & Change.STYLE:
            self.numbers.set_style(style)
            self.plot.set_style(style)
            self.legend.setFixedWidth(style.px(LEGEND))
        context.lens.want()
        view = self.view = None if moment is None else build_lens(moment, context.lens.table)
        if moment is None or moment.cursor is None or view is None:
            self._show_nothing(context.lens.refusal)
            return
        self.empty.hide()
        self.grid.show()
        self._share_out()
        row, column = self._here(view)
        # Most steps compute no residual: then all of it reads as before.
        if changes & Change.STYLE or (row, column) != self.grid.current or not self._as_shown(view):
            self._drawn = view
            self.grid.set_view(view, (row, column), style)
            self.grid.setMaximumHeight(self.grid.height_wanted())
            self.legend.set_scale(sequential_scale=True, low="0", high="1", style=style)
            self._show_position(view, row, column)
        missing = "working out more" if context.lens.pending else ""
        self.set_caption(self.title, missing or "row = read after, column = position")

    def _as_shown(self, view: LensView) -> bool:
        """Whether a view reads like the one on show."""
        drawn = self._drawn
        return drawn is not None and view.alike(drawn) and view.reached == drawn.reached

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_out()

    def _share_out(self) -> None:
        """Show below the table what there is room for."""
        px = self.context.style.px
        self._below.setVisible(self.view is not None and self.height() >= px(HIGH_ENOUGH))
        self._side.setVisible(self.width() >= px(WIDE_ENOUGH))

    def _show_nothing(self, refusal: str) -> None:
        self._drawn = None
        self.grid.set_view(None, (0, 0), self.context.style)
        for part in (self.grid, self._below):
            part.hide()
        waiting = WORKING if self.context.cursor is not None else self.empty_words
        self.empty.setText(refusal or waiting)
        self.empty.show()
        self.set_caption(self.title)

    def _here(self, view: LensView) -> tuple[int, int]:
        """Row and column in hand; the column follows the query chosen, or the step."""
        moment = self.context.moment
        assert moment is not None
        assert moment.step is not None
        query = moment.selection.query
        following = (moment.step.index, query)
        if self._at is None or following != self._followed:
            column = moment.step.last - 1 if query is None else query
            self._at = (view.rows - 1 if self._at is None else self._at[0], column)
            self._followed = following
        row, column = self._at
        # More columns may be on their way: the one wanted is kept in mind.
        return min(row, view.rows - 1), min(column, view.columns - 1)

    def _show_position(self, view: LensView, row: int, column: int) -> None:
        self.numbers.set_table(by_block(view, column, row))
        self.plot.set_plot(rank_plot(view, column))

    def _point_at(self, row: int, column: int) -> None:
        self._at = (row, column)
        if self.view is not None:
            self._show_position(self.view, row, column)

    def _go_to_row(self, row: int) -> None:
        if self._at is not None:
            self._go_to(row, self._at[1])

    def _go_to(self, row: int, column: int) -> None:
        """Travel to the residual that a cell reads; one that does not exist yet is left alone."""
        moment, view = self.context.moment, self.view
        if moment is None or view is None:
            return
        cell = residual_cell(moment, row, column)
        place = place_of(moment.trace, cell)
        self._at = (row, column)
        self._followed = (place.step, column)
        layer = moment.trace.operations[place.operation].layer
        changes = {} if layer is None else {"layer": layer}
        self.context.travel(place, query=column, array=cell.array, cell=None, **changes)
