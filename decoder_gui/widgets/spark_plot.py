"""A small plot of one number over the steps of a run."""

from __future__ import annotations

from functools import cached_property
from math import isfinite

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPen, QPolygonF

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.numbers import format_value
from decoder_gui.viewdata.watches import WatchRow
from decoder_gui.widgets.hatching import fill_hatched

INSET, DOT, RING, CROSS, GAP = 4, 2.5, 2.5, 3, 8
CROWDED = 9  # pixels between two steps below which points are not drawn one by one


class SparkPlot:
    """The readings of a watch in a rectangle; the ends of its scale stand to the right.

    Values after the cursor are hollow, steps without a value hatched, NaN and infinity crosses.

    Args:
        row: what is plotted.
        room: for plot and scale, in pixels.
        style: palette and scale.
    """

    def __init__(self, row: WatchRow, room: QRect, style: Style) -> None:
        self._row = row
        self._style = style
        self._tiny = style.font(Face.MONO_TINY)
        wide = 0
        if row.range is not None:
            metrics = QFontMetrics(self._tiny)
            ends = (metrics.horizontalAdvance(format_value(end)) for end in row.range)
            wide = max(ends) + style.px(6)
        self.room = room
        self.box = room.adjusted(0, 0, -wide, 0)
        inset = style.px(INSET)
        self._inner = QRectF(self.box).adjusted(inset, inset, -inset, -inset)

    @property
    def _count(self) -> int:
        return len(self._row.readings)

    @property
    def _pitch(self) -> float:
        return self._inner.width() / max(1, self._count - 1)

    def point(self, step: int) -> QPointF:
        """Where a step's value is painted; for a step without one, on the middle line."""
        return self._points[step]

    @cached_property
    def _points(self) -> tuple[QPointF, ...]:
        inner, middle = self._inner, self._inner.center().y()
        low, high = self._row.range or (0.0, 0.0)
        across = inner.width() / max(1, self._count - 1)
        start = inner.x() if self._count > 1 else inner.center().x()
        points = []
        for step, reading in enumerate(self._row.readings):
            y = middle
            if reading.value is not None and isfinite(reading.value) and high > low:
                y = inner.bottom() - (reading.value - low) / (high - low) * inner.height()
            points.append(QPointF(start + across * step, y))
        return tuple(points)

    def step_at(self, point: QPoint) -> int:
        """The step nearest to a point of the plot, -1 beside it."""
        if not self.box.contains(point) or not self._count:
            return -1
        return min(range(self._count), key=lambda step: abs(self.point(step).x() - point.x()))

    def paint(self, painter: QPainter, chosen: int) -> None:
        """Paint it; ``chosen`` is the step that the keyboard is at, -1 for none."""
        painter.fillRect(self.box, self._style.colour("sunken"))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(self._style.colour("border"), 1))
        painter.drawRect(QRectF(self.box).adjusted(0.5, 0.5, -0.5, -0.5))
        if self._count:
            self._paint_lines(painter)
            self._paint_points(painter, chosen)
            self._paint_scale(painter)

    def _paint_lines(self, painter: QPainter) -> None:
        """Lines between values of neighbouring steps, and what stands where there is no value."""
        line: list[QPointF] = []
        for step, reading in enumerate(self._row.readings):
            at = self.point(step)
            if reading.value is not None and isfinite(reading.value):
                line.append(at)
                continue
            self._paint_line(painter, line)
            line = []
            if reading.value is None:
                half = min(max(self._pitch / 2, 1.0), float(self._style.px(GAP)))
                gap = QRectF(at.x() - half, self.box.y(), 2 * half, self.box.height())
                fill_hatched(painter, gap.intersected(QRectF(self.box)), self._style)
            else:
                self._paint_cross(painter, at)
        self._paint_line(painter, line)
        if 0 <= self._row.here < self._count:
            x = self.point(self._row.here).x()
            painter.setPen(QPen(self._style.colour("text", 0.35), 1, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(x, self.box.y()), QPointF(x, self.box.bottom()))

    def _paint_points(self, painter: QPainter, chosen: int) -> None:
        px, colour = self._style.px, self._style.colour
        radius = DOT * self._style.scale
        for step, reading in enumerate(self._row.readings):
            now = step == self._row.now
            if reading.value is None or not isfinite(reading.value):
                if step == chosen:
                    self._paint_ring(painter, self.point(step), radius, "accent")
                continue
            if self._pitch < px(CROWDED) and not now and step != chosen:
                continue
            at = self.point(step)
            painter.setPen(QPen(colour("accent"), px(1)))
            painter.setBrush(colour("sunken" if step >= self._row.later else "accent"))
            painter.drawEllipse(at, radius, radius)
            if now or step == chosen:
                self._paint_ring(painter, at, radius, "accent" if step == chosen else "outline")

    def _paint_ring(self, painter: QPainter, at: QPointF, radius: float, role: str) -> None:
        reach = radius + self._style.px(RING)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(self._style.colour(role), self._style.px(1.5)))
        painter.drawEllipse(at, reach, reach)

    def _paint_cross(self, painter: QPainter, at: QPointF) -> None:
        arm = self._style.px(CROSS)
        painter.setPen(QPen(self._style.colour("bad"), self._style.px(1.5)))
        painter.drawLine(at + QPointF(-arm, -arm), at + QPointF(arm, arm))
        painter.drawLine(at + QPointF(-arm, arm), at + QPointF(arm, -arm))

    def _paint_line(self, painter: QPainter, points: list[QPointF]) -> None:
        if len(points) > 1:
            painter.setPen(QPen(self._style.colour("accent"), self._style.px(1.2)))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawPolyline(QPolygonF(points))

    def _paint_scale(self, painter: QPainter) -> None:
        span = self._row.range
        if span is None:
            return
        painter.setFont(self._tiny)
        painter.setPen(self._style.colour("muted"))
        beside = QRect(self.box.right(), self.box.y(), 0, self.box.height())
        beside.setRight(self.room.right())
        right = Qt.AlignmentFlag.AlignRight
        painter.drawText(beside, Qt.AlignmentFlag.AlignTop | right, format_value(span[1]))
        if span[0] != span[1]:
            painter.drawText(beside, Qt.AlignmentFlag.AlignBottom | right, format_value(span[0]))
