"""Diagonal lines over what does not exist or is masked: never a colour of the scale."""

from __future__ import annotations

from functools import lru_cache

from PySide6.QtCore import QLineF, QRectF
from PySide6.QtGui import QBrush, QColor, QImage, QPainter, QPen

from decoder_gui.theme.style import Style


def fill_hatched(painter: QPainter, area: QRectF, style: Style, spacing: float = 7.0) -> None:
    """Fill an area with the sunken ground and rising lines ``spacing`` apart."""
    tile = _tile(style.palette.sunken, style.palette.hatch, style.px(spacing), style.px(1))
    painter.save()
    painter.setBrushOrigin(area.topLeft())
    painter.fillRect(area, QBrush(tile))
    painter.restore()


@lru_cache(maxsize=32)
def _tile(ground: str, line: str, spacing: int, width: int) -> QImage:
    # An image and not a pixmap: one that outlives the application does no harm.
    tile = QImage(spacing, spacing, QImage.Format.Format_RGB32)
    tile.fill(QColor(ground))
    painter = QPainter(tile)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(line), width))
    for shift in (-spacing, 0, spacing):
        painter.drawLine(QLineF(shift - 1, spacing + 1, shift + spacing + 1, -1))
    painter.end()
    return tile
