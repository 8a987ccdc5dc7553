"""Prefill and decode apart, and both under the roof of this computer."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.commands.cache_lab import MACHINE, PHASES
from decoder_gui.context import AppContext
from decoder_gui.panels.base import NO_WEIGHTS, Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.view import View
from decoder_gui.viewdata.phases import build_phases
from decoder_gui.widgets.data_table import DataTable
from decoder_gui.widgets.figure_table import FigureTable
from decoder_gui.widgets.plot_view import PlotView
from decoder_gui.widgets.scrolled_column import ScrolledColumn

HELP = (
    "Time the text runs it again in a cache of its own, nothing recorded. Measure this computer "
    "finds its bandwidth and its peak, and draws the roof that both phases stand under."
)
PLOT = 180  # pixels at scale 1


@register
class PhasesPanel(Panel):
    """Tokens, time, weight reads, intensity; the roofline with a point for each phase."""

    panel_id = "phases"
    title = "Prefill and decode"
    views = (View.CACHE,)
    place = Place.RIGHT
    order = 1
    column_width = 400
    row_height = 370
    wants = Change.TRACE | Change.MODEL | Change.STYLE | Change.LAB

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.time = QPushButton("Time the text")
        self.time.setProperty("kind", "primary")
        self.machine = QPushButton("Measure this computer")
        self.words = QLabel(HELP)
        self.words.setProperty("kind", "muted")
        self.words.setWordWrap(True)
        self.table = DataTable("Prefill and decode", context.style)
        self.figures = FigureTable("This computer")
        self.plot = PlotView("Roofline", context.style)
        self._scrolled = ScrolledColumn(spacing=6)
        buttons = QHBoxLayout()
        buttons.addWidget(self.time)
        buttons.addWidget(self.machine)
        buttons.addStretch(1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addLayout(buttons)
        outer.addWidget(self._scrolled, 1)
        for each in (self.words, self.plot, self.table, self.figures):
            self._scrolled.column.addWidget(each)
        self._scrolled.column.addStretch(1)
        lab = context.cache_lab
        self.time.clicked.connect(self._on_time)
        self.machine.clicked.connect(lab.measure_machine)

    def redraw(self, changes: Change) -> None:
        context = self.context
        if changes & Change.STYLE:
            for widget in (self.table, self.figures, self.plot, self._scrolled):
                widget.set_style(context.style)
            self.words.setFont(context.style.font(Face.SMALL))
            self.plot.setFixedHeight(context.style.px(PLOT))
        lab = context.cache_lab
        ready = context.trace is not None and bool(context.trace.steps) and not context.recorded
        timing = PHASES in lab.running
        self.time.setText("Stop" if timing else "Time the text")
        self.time.setEnabled(ready or timing)
        self.machine.setEnabled(MACHINE not in lab.running)
        view = build_phases(lab.phases, lab.machine)
        measuring = lab.measuring
        hint = view.hint
        if MACHINE in lab.running:
            hint = "measuring…" if measuring is None else f"round {measuring.done}…"
        self.set_caption(self.title, hint)
        if PHASES in lab.running:
            hint = "timing…"
        words = HELP
        if context.recorded:
            words = f"{NO_WEIGHTS} The limits of this computer can be measured all the same."
        elif not ready:
            words = f"{self.empty_words} {HELP}"
        self.words.setText(lab.refusals.get(PHASES, words))
        self.words.setVisible(PHASES in lab.refusals or not (lab.phases and lab.machine))
        self.table.setVisible(bool(lab.phases))
        self.table.set_table(view.table)
        self.table.show_all_rows()
        self.figures.set_figures(view.figures)
        self.plot.setVisible(bool(view.plot.series))
        self.plot.set_plot(view.plot)

    def _on_time(self) -> None:
        lab = self.context.cache_lab
        if PHASES in lab.running:
            lab.stop(PHASES)
        else:
            lab.measure_phases()
