"""Cost against length, measured on the model in hand and drawn as it comes."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.commands.cache_lab import CURVE
from decoder_gui.context import AppContext
from decoder_gui.panels.base import NO_MODEL, NO_WEIGHTS, Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.view import View
from decoder_gui.viewdata.cost_curve import build_cost_curve
from decoder_gui.widgets.data_table import DataTable
from decoder_gui.widgets.figure_table import FigureTable
from decoder_gui.widgets.plot_view import PlotView
from decoder_gui.widgets.scrolled_column import ScrolledColumn

HELP = (
    "Runs the model on random tokens of growing length and times one more token, once with the "
    "cache and once with everything recomputed. A step interrupts it."
)
MOST_SIDE = 0.6  # of the panel
SIDE = 330  # pixels at scale 1 of the counts beside the plots


@register
class CostPanel(Panel):
    """Time and FLOPs with the cache and without, on linear and logarithmic axes."""

    panel_id = "cost-curve"
    title = "Cost against length"
    views = (View.CACHE,)
    place = Place.CENTRE
    row_height = 330
    wants = Change.MODEL | Change.STYLE | Change.LAB

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        style = context.style
        self.measure = QPushButton("Measure")
        self.measure.setProperty("kind", "primary")
        self.stop = QPushButton("Stop")
        self.logarithmic = QPushButton("Logarithmic")
        self.logarithmic.setCheckable(True)
        self.logarithmic.setChecked(True)
        self.logarithmic.setToolTip("Straight lines have a power of the length as their slope.")
        self.counts = QPushButton("FLOPs")
        self.counts.setCheckable(True)
        self.counts.setToolTip("Exact counts of operations instead of measured time.")
        self.words = QLabel(HELP)
        self.words.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.words.setProperty("kind", "muted")
        self.words.setWordWrap(True)
        self.plot = PlotView("Cost of a token against length", style)
        self.figures = FigureTable("Powers of the length")
        self.table = DataTable("Counts and times by length", style)
        self.side = ScrolledColumn(spacing=6)
        self.side.column.addWidget(self.figures)
        self.side.column.addWidget(self.table)
        self.side.column.addStretch(1)
        buttons = QHBoxLayout()
        for each in (self.measure, self.stop, self.counts, self.logarithmic):
            buttons.addWidget(each)
        buttons.addStretch(1)
        self._body = QWidget()
        body = QHBoxLayout(self._body)
        body.setContentsMargins(0, 0, 0, 0)
        body.addWidget(self.plot, 1)
        body.addWidget(self.side)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(buttons)
        column.addWidget(self._body, 1)
        column.addWidget(self.words, 1)
        lab = context.cache_lab
        self.measure.clicked.connect(lab.measure_curve)
        self.stop.clicked.connect(lambda: lab.stop(CURVE))
        self.counts.toggled.connect(lambda _: self.redraw(Change.LAB))
        self.logarithmic.toggled.connect(lambda _: self.redraw(Change.LAB))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_side()

    def _fit_side(self) -> None:
        """The counts leave the plot its part of a narrow panel."""
        self.side.setFixedWidth(min(self.context.style.px(SIDE), round(MOST_SIDE * self.width())))

    def redraw(self, changes: Change) -> None:
        context, model = self.context, self.context.model
        if changes & Change.STYLE:
            style = context.style
            for widget in (self.plot, self.figures, self.table, self.side):
                widget.set_style(style)
            self.words.setFont(style.font(Face.SMALL))
            self._fit_side()
        lab = context.cache_lab
        running = CURVE in lab.running
        ready = model is not None and not context.recorded
        self.measure.setEnabled(ready and not running)
        self.stop.setEnabled(running)
        shown = model is not None and bool(lab.points)
        for switch in (self.counts, self.logarithmic):
            switch.setEnabled(shown)
        self._body.setVisible(shown)
        self.words.setVisible(not shown)
        if model is None:
            self.words.setText(NO_MODEL)
            self.set_caption(self.title)
            return
        view = build_cost_curve(
            model.shape,
            lab.points,
            logarithmic=self.logarithmic.isChecked(),
            running=running,
            wanted=lab.lengths,
        )
        self.words.setText(lab.refusals.get(CURVE, HELP) if ready else NO_WEIGHTS)
        self.set_caption(self.title, view.hint)
        self.plot.set_plot(view.flops if self.counts.isChecked() else view.times)
        self.figures.set_figures(view.figures)
        self.table.set_table(view.table)
        self.table.show_all_rows()
