"""The one colour scale of all attention pictures."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.attention_codes import STEPS
from decoder_gui.widgets.viridis import viridis


class ScaleLegend(QWidget):
    """The colour scale of all matrices: a strip from 0 to 1."""

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        colours = np.ascontiguousarray(viridis(STEPS + 1)[np.newaxis])
        self._strip = QImage(
            colours.data, STEPS + 1, 1, 3 * (STEPS + 1), QImage.Format.Format_RGB888
        ).copy()
        self.setAccessibleName("Colour scale of all matrices, from 0 to 1")

    def set_style(self, style: Style) -> None:
        self._style = style
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(120), self._style.px(14))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(60), self._style.px(14))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        font = self._style.font(Face.MONO_TINY)
        painter.setFont(font)
        painter.setPen(self._style.colour("muted"))
        room = QFontMetrics(font).horizontalAdvance("0") + self._style.px(4)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignLeft | middle, "0")
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignRight | middle, "1")
        height = self._style.px(6)
        top = (self.height() - height) // 2
        painter.drawImage(QRect(room, top, self.width() - 2 * room, height), self._strip)
        painter.end()
