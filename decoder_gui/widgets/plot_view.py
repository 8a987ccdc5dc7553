"""A plot of view data with pyqtgraph: curves, bars, lines across, a legend in words.

Importing this module imports pyqtgraph: only panels that a start does not wait for should.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QSize, Qt, Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.plots import Axis, Mark, Plot, Series

NEAR = 14.0  # pixels at scale 1 within which a click hits a point
EMPTY = Plot(Axis(""), Axis(""))
_SYMBOLS = frozenset({Mark.POINTS, Mark.LINE_AND_POINTS})


class PlotView(QWidget):
    """Shows a :class:`Plot`; items are made once per place and set again, never rebuilt.

    Signals:
        point_chosen(int, int): index of the series and of its point that was clicked.
    """

    point_chosen = Signal(int, int)

    def __init__(self, name: str, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._plot = EMPTY
        self.setAccessibleName(name)
        self._graph = pg.PlotWidget(self, background=None)
        self._graph.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._graph.setMenuEnabled(False)
        self._graph.hideButtons()
        self._graph.setMouseEnabled(x=False, y=False)
        self._item: Any = self._graph.getPlotItem()
        for side in ("bottom", "left"):
            self._item.getAxis(side).enableAutoSIPrefix(False)
        self.legend = QLabel()  # above the graph: within it, it would hide what it explains
        self.legend.setWordWrap(True)
        self._curves: list[Any] = []
        self._bars: list[Any] = []
        self._lines: list[Any] = []
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.legend)
        layout.addWidget(self._graph, 1)
        self._graph.scene().sigMouseClicked.connect(self._on_clicked)
        self.set_style(style)

    @property
    def plot(self) -> Plot:
        """What is shown."""
        return self._plot

    @property
    def curves(self) -> list[Any]:
        """The curves on show, bars not among them, as pyqtgraph's items."""
        return [item for item in self._curves if item.isVisible()]

    def scene_place(self, series: int, point: int) -> QPointF:
        """Where a point of a series stands in the plot's scene."""
        shown = self._plot.series[series]
        x, y = float(shown.x[point]), float(shown.y[point])
        place = QPointF(_place(x, self._plot.x), _place(y, self._plot.y))
        found: QPointF = self._item.getViewBox().mapViewToScene(place)
        return found

    def set_plot(self, plot: Plot) -> None:
        """Show other series."""
        self._plot = plot
        self.setAccessibleDescription(plot.description)
        self._item.setLogMode(plot.x.logarithmic, plot.y.logarithmic)
        self._draw_axis("bottom", plot.x)
        self._draw_axis("left", plot.y)
        curves = [series for series in plot.series if series.mark is not Mark.BARS]
        bars = [series for series in plot.series if series.mark is Mark.BARS]
        self._draw_curves(curves)
        self._draw_bars(bars)
        self._draw_lines(plot)
        self._explain(plot)
        self._range(plot)

    def set_style(self, style: Style) -> None:
        """Take on other colours or another scale."""
        self._style = style
        for side in ("bottom", "left"):
            axis = self._item.getAxis(side)
            axis.setPen(pg.mkPen(style.colour("border_strong")))
            axis.setTextPen(pg.mkPen(style.colour("muted")))
            axis.setTickFont(style.font(Face.MONO_SMALL))
            axis.setStyle(
                tickTextOffset=style.px(4), tickLength=-style.px(4), autoExpandTextSpace=True
            )
            axis.label.setFont(style.font(Face.SMALL))
        self._item.showGrid(x=True, y=True, alpha=0.12)
        self.legend.setFont(style.font(Face.SMALL))
        self.legend.setContentsMargins(style.px(6), 0, 0, style.px(2))
        self.set_plot(self._plot)

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(320), self._style.px(200))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(160), self._style.px(100))

    # ---- drawing

    def _explain(self, plot: Plot) -> None:
        """The names of the series, each behind its mark and in its colour."""
        named = [series for series in plot.series if series.name]
        self.legend.setVisible(len(named) > 1)
        parts = (
            f'<span style="color: {self._style.colour(series.role).name()};">{_sign(series)}</span>'
            f"&nbsp;{escape(series.name)}"
            for series in named
        )
        self.legend.setText(" &nbsp; ".join(parts))

    def _draw_axis(self, side: str, axis: Axis) -> None:
        shown = self._item.getAxis(side)
        colour = self._style.colour("muted").name()
        shown.setLabel(axis.label, color=colour)
        shown.label.setFont(self._style.font(Face.SMALL))
        shown.showLabel(bool(axis.label))
        marks = axis.ticks
        if axis.logarithmic and not marks:
            marks = _decades(self._values(side))
        places = [(_place(value, axis), words) for value, words in marks]
        shown.setTicks([places, []] if places else None)

    def _values(self, side: str) -> NDArray[Any]:
        """All numbers of the series along an axis."""
        parts = [series.x if side == "bottom" else series.y for series in self._plot.series]
        return np.concatenate([np.asarray(part, float) for part in parts]) if parts else np.zeros(0)

    def _draw_curves(self, curves: list[Series]) -> None:
        while len(self._curves) < len(curves):
            self._curves.append(self._graph.plot([], []))
        for item, series in zip(self._curves, curves, strict=False):
            colour = self._style.colour(series.role)
            dashed = series.mark is Mark.DASHED
            line = Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine
            bare = series.mark is Mark.POINTS
            pen = None if bare else pg.mkPen(colour, width=self._style.px(1.6), style=line)
            item.setPen(pen)
            item.setSymbol(series.symbol if series.mark in _SYMBOLS else None)
            item.setSymbolSize(self._style.px(7))
            item.setSymbolBrush(pg.mkBrush(colour))
            item.setSymbolPen(pg.mkPen(self._style.colour("panel")))
            item.opts["stepMode"] = "right" if series.mark is Mark.STEPS else None
            item.setData(np.asarray(series.x, float), np.asarray(series.y, float), connect="finite")
            item.show()
        for item in self._curves[len(curves) :]:
            item.setData([], [])
            item.hide()

    def _draw_bars(self, bars: list[Series]) -> None:
        while len(self._bars) < len(bars):
            item = pg.BarGraphItem(x=[], height=[], width=0.8)
            item.setZValue(-1)  # under the points and lines
            self._graph.addItem(item)
            self._bars.append(item)
        share = 0.8 / max(1, len(bars))
        for at, (item, series) in enumerate(zip(self._bars, bars, strict=False)):
            x = np.asarray(series.x, float) + (at - (len(bars) - 1) / 2) * share
            colour = self._style.colour(series.role)
            item.setOpts(
                x=x,
                height=np.nan_to_num(np.asarray(series.y, float)),
                width=share,
                brush=pg.mkBrush(colour),
                pen=pg.mkPen(self._style.colour("panel")),
            )
            item.show()
        for item in self._bars[len(bars) :]:
            item.setOpts(x=[], height=[])
            item.hide()

    def _draw_lines(self, plot: Plot) -> None:
        wanted = [(0, value, words, plot.y) for value, words in plot.across]
        wanted += [(90, value, words, plot.x) for value, words in plot.upright]
        while len(self._lines) < len(wanted):
            # At the near end, beginning at the edge: the far end is the legend's.
            options = {"position": 0.02, "anchors": [(0, 1), (0, 1)]}
            line = pg.InfiniteLine(label="", labelOpts=options)
            self._graph.addItem(line, ignoreBounds=True)
            self._lines.append(line)
        for line, (angle, value, words, axis) in zip(self._lines, wanted, strict=False):
            line.setAngle(angle)
            line.label.setPosition(
                0.7 if angle else 0.02
            )  # upright: clear of the points at the bottom
            line.setPen(pg.mkPen(self._style.colour("decode"), width=self._style.px(1.4)))
            line.setValue(_place(value, axis))
            line.label.setFormat(words.replace("{", "{{").replace("}", "}}"))
            line.label.setColor(self._style.colour("decode"))
            line.label.setFont(self._style.font(Face.SMALL))
            line.label.fill = pg.mkBrush(self._style.colour("panel", 0.85))
            line.show()
        for line in self._lines[len(wanted) :]:
            line.hide()

    def _range(self, plot: Plot) -> None:
        box = self._item.getViewBox()
        for axis, which in ((plot.x, "x"), (plot.y, "y")):
            if axis.range is None:
                box.enableAutoRange(axis=which)
            else:
                low, high = (_place(value, axis) for value in axis.range)
                self._graph.setRange(**{f"{which}Range": (low, high)}, padding=0.02)

    # ---- pointing

    def _on_clicked(self, event: Any) -> None:
        found = self.point_at(event.scenePos())
        if found is not None:
            self.point_chosen.emit(*found)

    def point_at(self, scene: QPointF) -> tuple[int, int] | None:
        """Series and point nearest to a place in the plot's scene, if any is near."""
        best, nearest = None, float(self._style.px(NEAR)) ** 2
        for at, series in enumerate(self._plot.series):
            for point, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
                if not (np.isfinite(x) and np.isfinite(y)):
                    continue
                there = self.scene_place(at, point)
                dx, dy = there.x() - scene.x(), there.y() - scene.y()
                # A bar is hit anywhere below its top.
                distance = dx * dx + (0.0 if series.mark is Mark.BARS else dy * dy)
                if distance < nearest:
                    best, nearest = (at, point), distance
        return best


def _sign(series: Series) -> str:
    """A character that looks as the series does."""
    if series.mark is Mark.BARS:
        return "█"
    if series.mark in _SYMBOLS:
        return {"s": "■", "d": "◆", "t": "▲", "+": "+", "x": "×"}.get(series.symbol, "●")
    return "╌" if series.mark is Mark.DASHED else "—"


def _decades(values: NDArray[Any]) -> tuple[tuple[float, str], ...]:
    """Powers of ten for a logarithmic axis, with 2 and 5 of each where it is short."""
    found = values[np.isfinite(values) & (values > 0)]
    if not len(found):
        return ()
    low, high = float(np.log10(found.min())), float(np.log10(found.max()))
    between = (1, 2, 5) if high - low < 2.5 else (1,)
    ticks = (
        factor * 10.0**power
        for power in range(int(np.floor(low)), int(np.ceil(high)) + 1)
        for factor in between
    )
    return tuple((value, f"{value:,.10g}") for value in ticks)


def _place(value: float, axis: Axis) -> float:
    """Where a value stands on an axis of pyqtgraph, which counts logarithms of 10."""
    if not axis.logarithmic:
        return value
    return float(np.log10(value)) if value > 0 else float("nan")
