"""A thousand draws against the distribution that they come from."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.commands.sampler_lab import DRAWS
from decoder_gui.context import AppContext
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.view import View
from decoder_gui.viewdata.sampling_lab import DrawsView, build_draws
from decoder_gui.widgets.data_table import DataTable
from decoder_gui.widgets.figure_table import FigureTable

MANY = 100 * DRAWS
BESIDE = 640  # pixels at scale 1


@register
class DrawsPanel(Panel):
    """Observed and expected counts with the error that chance allows, and a summary of all."""

    panel_id = "sampling-draws"
    title = f"{DRAWS:,} draws"
    views = (View.SAMPLING,)
    place = Place.RIGHT
    order = 2
    row_height = 360
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
        self._view = DrawsView()
        self.table = DataTable("Observed against expected", context.style)
        self.figures = FigureTable("Draws in all")
        self.words = QLabel()
        self.words.setWordWrap(True)
        self.words.setProperty("kind", "muted")
        self.few = QPushButton(f"{DRAWS:,} draws")
        self.many = QPushButton(f"{MANY:,}")
        buttons = QHBoxLayout()
        for button, count in ((self.few, DRAWS), (self.many, MANY)):
            button.setToolTip(f"Draws {count:,} times, by a generator of its own.")
            buttons.addWidget(button)
        buttons.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(buttons)
        self._column.addWidget(self.words)
        self._sides = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        self._sides.addWidget(self.table, 1)
        self._sides.addWidget(self.figures)
        self._column.addLayout(self._sides, 1)
        self._column.addStretch(0)
        self.few.clicked.connect(lambda: context.sampler_lab.draw(DRAWS))
        self.many.clicked.connect(lambda: context.sampler_lab.draw(MANY))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The summary stands beside the table where there is room for both."""
        super().resizeEvent(event)
        wide = self.width() >= self.context.style.px(BESIDE)
        direction = QBoxLayout.Direction
        self._sides.setDirection(direction.LeftToRight if wide else direction.TopToBottom)
        side = Qt.AlignmentFlag.AlignTop if wide else Qt.AlignmentFlag(0)
        self._sides.setAlignment(self.figures, side)

    @property
    def view(self) -> DrawsView:
        """What is shown."""
        return self._view

    def redraw(self, changes: Change) -> None:
        if changes & Change.STYLE:
            self.table.set_style(self.context.style)
            self.figures.set_style(self.context.style)
            self._column.setSpacing(self.context.style.px(6))
            self._sides.setSpacing(self.context.style.px(16))
        held, moment = self.context.sampler_lab.draws, self.context.moment
        view = self._view = build_draws(moment, None if held is None else held.found)
        self.words.setText(self.empty_words if moment is None else view.words)
        shown = bool(view.table.rows)
        for widget, visible in (
            (self.words, not shown),
            (self.table, shown),
            (self.figures, shown),
        ):
            if widget.isHidden() is visible:
                widget.setVisible(visible)
        self.table.set_table(view.table)
        self.figures.set_figures(view.figures)
        for button in (self.few, self.many):
            button.setEnabled(moment is not None and moment.distribution is not None)
        total = "" if held is None else f"{held.found.total:,} draws"
        self.set_caption("Observed against expected" if shown else self.title, total)
