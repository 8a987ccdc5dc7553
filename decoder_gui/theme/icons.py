"""The signs on buttons, as paths: no font needs to have them, and they are sharp at any scale."""

from __future__ import annotations

from enum import Enum

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QPolygonF


class Glyph(Enum):
    """The signs; each fills a square."""

    FIRST = "first"
    BACK = "back"
    STEP = "step"
    LAST = "last"
    DOT = "dot"
    PAUSE = "pause"
    DOWN = "down"
    MAXIMISE = "maximise"
    RESTORE = "restore"
    FLOAT = "float"
    HIDE = "hide"


# Drawn with a line; all others are filled.
_LINES = {Glyph.DOWN, Glyph.MAXIMISE, Glyph.RESTORE, Glyph.FLOAT, Glyph.HIDE}
_LINE_WIDTH = 0.11  # of the square's side


def glyph_path(glyph: Glyph) -> QPainterPath:
    """The path of a sign in the unit square."""
    path = QPainterPath()
    match glyph:
        case Glyph.STEP:
            _polygon(path, (0.14, 0.06), (0.14, 0.94), (0.94, 0.5))
        case Glyph.BACK:
            _polygon(path, (0.86, 0.06), (0.86, 0.94), (0.06, 0.5))
        case Glyph.FIRST:
            path.addRect(QRectF(0.04, 0.04, 0.12, 0.92))
            _polygon(path, (0.98, 0.08), (0.98, 0.92), (0.26, 0.5))
        case Glyph.LAST:
            path.addRect(QRectF(0.84, 0.04, 0.12, 0.92))
            _polygon(path, (0.02, 0.08), (0.02, 0.92), (0.74, 0.5))
        case Glyph.DOT:
            path.addEllipse(QRectF(0.06, 0.06, 0.88, 0.88))
        case Glyph.PAUSE:
            path.addRect(QRectF(0.14, 0.06, 0.25, 0.88))
            path.addRect(QRectF(0.61, 0.06, 0.25, 0.88))
        case Glyph.DOWN:
            _line(path, (0.15, 0.35), (0.5, 0.7), (0.85, 0.35))
        case Glyph.MAXIMISE:
            _line(path, (0.6, 0.1), (0.9, 0.1), (0.9, 0.4))
            _line(path, (0.9, 0.1), (0.58, 0.42))
            _line(path, (0.4, 0.9), (0.1, 0.9), (0.1, 0.6))
            _line(path, (0.1, 0.9), (0.42, 0.58))
        case Glyph.RESTORE:
            _line(path, (0.6, 0.12), (0.6, 0.4), (0.88, 0.4))
            _line(path, (0.6, 0.4), (0.92, 0.08))
            _line(path, (0.4, 0.88), (0.4, 0.6), (0.12, 0.6))
            _line(path, (0.4, 0.6), (0.08, 0.92))
        case Glyph.FLOAT:
            path.addRect(QRectF(0.1, 0.32, 0.58, 0.58))
            _line(path, (0.32, 0.32), (0.32, 0.1), (0.9, 0.1), (0.9, 0.68), (0.68, 0.68))
        case Glyph.HIDE:
            _line(path, (0.15, 0.15), (0.85, 0.85))
            _line(path, (0.85, 0.15), (0.15, 0.85))
    return path


def draw_glyph(painter: QPainter, glyph: Glyph, box: QRectF, colour: QColor) -> None:
    """Draw a sign into a box (device-independent pixels); the painter's state is kept."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(box.topLeft())
    painter.scale(box.width(), box.height())
    if glyph in _LINES:
        pen = QPen(colour, _LINE_WIDTH)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        painter.strokePath(glyph_path(glyph), pen)
    else:
        painter.fillPath(glyph_path(glyph), colour)
    painter.restore()


def _polygon(path: QPainterPath, *corners: tuple[float, float]) -> None:
    path.addPolygon(QPolygonF([QPointF(x, y) for x, y in corners]))
    path.closeSubpath()


def _line(path: QPainterPath, *points: tuple[float, float]) -> None:
    path.moveTo(*points[0])
    for point in points[1:]:
        path.lineTo(*point)
