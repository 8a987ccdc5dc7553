"""How much of the cache is in use: prefill, decode and empty, numbers beside the colours."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.kv_cache import KvCacheView

_BAR, _LEGEND = 15, 18  # heights in pixels at scale 1


class OccupancyGauge(QWidget):
    """A bar of the whole capacity and a legend with counts."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._parts = (0, 0, 0)
        self._legend = ("", "", "")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # it paints its ground
        self.setAccessibleName("Cache occupancy")

    @property
    def parts(self) -> tuple[int, int, int]:
        """Positions shown as prefill, decode and empty."""
        return self._parts

    @property
    def legend(self) -> tuple[str, str, str]:
        """The words beside the colours."""
        return self._legend

    def set_view(self, view: KvCacheView) -> None:
        parts = (view.prefill, view.decode, view.capacity - view.positions)
        if (parts, view.legend) != (self._parts, self._legend):
            self._parts, self._legend = parts, view.legend
            self.setAccessibleDescription(f"{view.hint}: {', '.join(view.legend)}")
            self.update()

    def set_style(self, style: Style) -> None:
        self._style = style
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(240), self._style.px(_BAR + _LEGEND))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(120), self._style.px(_BAR + _LEGEND))

    def paintEvent(self, event: QPaintEvent) -> None:
        style = self._style
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._style.colour("panel"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        frame = QRectF(0, 0, self.width(), style.px(_BAR))
        rounded = QPainterPath()
        rounded.addRoundedRect(frame, style.px(3), style.px(3))
        painter.setClipPath(rounded)
        painter.fillRect(frame, style.colour("empty"))
        total = sum(self._parts) or 1
        x = 0.0
        for count, role in zip(self._parts, ("prefill", "decode"), strict=False):
            width = self.width() * count / total
            painter.fillRect(QRectF(x, 0, width, frame.height()), style.colour(role))
            x += width
        painter.setClipping(False)
        self._paint_legend(painter)
        painter.end()

    def _paint_legend(self, painter: QPainter) -> None:
        style = self._style
        font = style.font(Face.SMALL)
        metrics = QFontMetrics(font)
        painter.setFont(font)
        square, gap = style.px(9), style.px(5)
        wanted = sum(square + gap + metrics.horizontalAdvance(words) for words in self._legend)
        between = max(style.px(4), min(style.px(16), (self.width() - wanted) // 2))
        top, height = style.px(_BAR), style.px(_LEGEND)
        x = 0
        for words, role in zip(self._legend, ("prefill", "decode", "empty"), strict=True):
            box = QRectF(x, top + (height - square) / 2 + 1, square, square)
            painter.fillRect(box, style.colour(role))
            x += square + gap
            width = metrics.horizontalAdvance(words)
            painter.setPen(style.colour("muted"))
            painter.drawText(
                QRectF(x, top + 1, width + 1, height), Qt.AlignmentFlag.AlignVCenter, words
            )
            x += width + between
