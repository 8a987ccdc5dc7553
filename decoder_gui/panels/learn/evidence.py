"""The text as evidence: how surprising each token was, as bars, with the totals beside them."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QLabel, QStackedLayout, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.view import View
from decoder_gui.viewdata.evidence import build_evidence
from decoder_gui.widgets.figure_table import FigureTable
from decoder_gui.widgets.plot_view import PlotView

FIGURES_WIDTH = 300  # pixels at scale 1


@register
class EvidencePanel(Panel):
    """Bars of -log p by token, a mark for what was expected, log-likelihood and perplexity."""

    panel_id = "evidence"
    title = "The text as evidence"
    views = (View.LEARN,)
    place = Place.CENTRE
    row_height = 330
    wants = Change.TRACE | Change.CURSOR | Change.MODEL | Change.STYLE | Change.LAB | Change.CHECKS

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.plot = PlotView("Surprise of each token", context.style)
        self.figures = FigureTable("Likelihood of the text")
        self.empty = QLabel()
        self.empty.setProperty("kind", "muted")
        self.empty.setWordWrap(True)
        whole, side = QWidget(), QVBoxLayout()
        row = QHBoxLayout(whole)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.plot, 1)
        side.addWidget(self.figures)
        side.addStretch(1)
        row.addLayout(side)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self.empty)
        self._stack.addWidget(whole)
        self.plot.point_chosen.connect(self._on_chosen)

    def redraw(self, changes: Change) -> None:
        context, moment = self.context, self.context.moment
        if changes & Change.STYLE:
            self.plot.set_style(context.style)
            self.figures.set_style(context.style)
            self.figures.setFixedWidth(context.style.px(FIGURES_WIDTH))
        context.learning.want_evidence()
        learning = context.learning
        if moment is None or not moment.trace.steps:
            self._say(self.empty_words)
            return
        if changes == Change.CURSOR and self._stack.currentIndex() == 1:
            return  # what is known of the text does not depend on where one looks
        view = build_evidence(moment, learning.evidence, pending=learning.pending)
        if not learning.evidence.surprises:
            self._say(view.words)
            return
        self._stack.setCurrentIndex(1)
        self.set_caption(self.title, view.hint)
        self.plot.set_plot(view.plot)
        self.figures.set_figures(view.figures)

    def _say(self, words: str) -> None:
        self.empty.setText(words)
        self._stack.setCurrentIndex(0)
        self.set_caption(self.title)

    def _on_chosen(self, series: int, point: int) -> None:
        self.context.go_to_position(round(float(self.plot.plot.series[series].x[point])))
