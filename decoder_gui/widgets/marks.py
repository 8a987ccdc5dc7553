"""Small marks drawn as paths, so that they do not depend on what a font happens to hold."""

from __future__ import annotations

from enum import Enum

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF


class Mark(Enum):
    """What a mark looks like, on a square of side 1: points, and whether they are filled."""

    TICK = (((0.12, 0.54), (0.38, 0.80), (0.90, 0.22)), False)
    NOW = (((0.18, 0.08), (0.92, 0.50), (0.18, 0.92)), True)
    OPEN = (((0.08, 0.22), (0.92, 0.22), (0.50, 0.86)), True)
    CHEVRON_RIGHT = (((0.34, 0.14), (0.70, 0.50), (0.34, 0.86)), False)
    CHEVRON_DOWN = (((0.14, 0.34), (0.50, 0.70), (0.86, 0.34)), False)
    CHEVRON_LEFT = (((0.66, 0.14), (0.30, 0.50), (0.66, 0.86)), False)
    CROSS = (((0.18, 0.18), (0.50, 0.50), (0.82, 0.18), (0.50, 0.50), (0.82, 0.82)), False)
    DOT = ((), True)


def draw_mark(painter: QPainter, mark: Mark, box: QRectF, colour: QColor, width: float) -> None:
    """Draw a mark into a square box; ``width`` is that of its line, in pixels."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    points, filled = mark.value
    if mark is Mark.DOT:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        painter.drawEllipse(box.center(), width, width)
    else:
        shape = QPolygonF(
            [QPointF(box.x() + x * box.width(), box.y() + y * box.height()) for x, y in points]
        )
        if filled:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            painter.drawPolygon(shape)
        else:
            pen = QPen(colour, width)
            pen.setCapStyle(Qt.PenCapStyle.RoundCap)
            pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
            painter.setPen(pen)
            painter.drawPolyline(shape)
            if mark is Mark.CROSS:
                painter.drawLine(shape.at(1), QPointF(shape.at(0).x(), shape.at(4).y()))
    painter.restore()
