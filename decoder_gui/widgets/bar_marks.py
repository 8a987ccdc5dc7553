"""How a probability at each stage is drawn, in a bar and in the legend that explains it.

Each stage has a form of its own, so that none depends on its colour: the final probability is a
solid bar, what was cut is hatched, the tempered one is an outline, the raw one a tick.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFontMetrics,
    QImage,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from decoder_gui.theme.style import Face, Style


def final(painter: QPainter, style: Style, bar: QRectF) -> None:
    """A solid bar; a probability that is not 0 keeps at least a pixel."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(style.colour("accent"))
    bar = _at_least(bar, 1.0)
    painter.drawRoundedRect(bar, style.px(2), style.px(2))


def cut(painter: QPainter, style: Style, bar: QRectF) -> None:
    """A hatched bar as long as the raw probability."""
    painter.setBrushOrigin(bar.topLeft())
    brush = _hatching(style.colour("faint").name(), style.px(3))
    painter.fillRect(_at_least(bar, style.px(2)), brush)


def tempered(painter: QPainter, style: Style, bar: QRectF) -> None:
    """An outline that leaves what is under it visible."""
    if bar.width() < 1:
        return
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(style.colour("text"), max(1.0, style.scale)))
    painter.drawRoundedRect(bar.adjusted(0.5, 0.5, -0.5, -0.5), style.px(2), style.px(2))


def raw(painter: QPainter, style: Style, bar: QRectF) -> None:
    """A tick where the bar ends, a little higher than the bar, with a rim of the ground around."""
    over, width = style.px(2), max(1.5, 1.5 * style.scale)
    tick = QRectF(bar.right() - width / 2, bar.top() - over, width, bar.height() + 2 * over)
    painter.fillRect(tick.adjusted(-1, 0, 1, 0), style.colour("panel"))
    painter.fillRect(tick, style.colour("text"))


def observed(painter: QPainter, style: Style, bar: QRectF) -> None:
    """A diamond where the bar would end."""
    x, y, size = bar.right(), bar.center().y(), style.px(4)
    painter.setPen(QPen(style.colour("panel"), 1))
    painter.setBrush(style.colour("warning"))
    corners = [(x - size, y), (x, y - size), (x + size, y), (x, y + size)]
    painter.drawPolygon(QPolygonF([QPointF(*corner) for corner in corners]))


def landing(painter: QPainter, style: Style, centre: QPointF) -> None:
    """A triangle that points at the bar on which the held draw falls."""
    size = style.px(4)
    x, y = centre.x(), centre.y()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(style.colour("text"))
    corners = [(x - size, y - size), (x + size, y), (x - size, y + size)]
    painter.drawPolygon(QPolygonF([QPointF(*corner) for corner in corners]))


def _at_least(bar: QRectF, width: float) -> QRectF:
    return QRectF(bar.x(), bar.y(), max(width, bar.width()), bar.height())


@lru_cache(maxsize=8)
def _hatching(colour: str, stripe: int) -> QBrush:
    """Diagonal stripes; an image, which unlike a pixmap may outlive the application."""
    size = 2 * stripe
    tile = QImage(size, size, QImage.Format.Format_ARGB32_Premultiplied)
    tile.fill(Qt.GlobalColor.transparent)
    painter = QPainter(tile)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(colour), stripe * 0.7))
    for offset in (-size, 0, size):
        painter.drawLine(QPointF(offset - 1, size + 1), QPointF(offset + size + 1, -1))
    painter.end()
    return QBrush(tile)


class BarLegend(QWidget):
    """One line that says which form stands for which stage."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._with_observed = False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(
            "Legend: solid bar, final probability; outline, tempered; tick, raw; hatched, cut, as "
            "long as the raw probability; triangle, the held draw; diamond, observed share"
        )
        self.setToolTip(
            "Solid: final probability. Outline: after the temperature. Tick: raw. Hatched: cut, as "
            "long as the raw probability. Triangle: where the held draw falls."
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The stages explained, left to right."""
        return tuple(word for word, _ in self._entries())

    def set_style(self, style: Style) -> None:
        self._style = style
        self.updateGeometry()
        self.update()

    def set_with_observed(self, shown: bool) -> None:
        """Whether the diamond of observed shares is explained too."""
        if shown != self._with_observed:
            self._with_observed = shown
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(240), self._style.px(16))

    def paintEvent(self, event: QPaintEvent) -> None:
        style = self._style
        font = style.font(Face.TINY)
        metrics = QFontMetrics(font)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(font)
        swatch, gap = style.px(13), style.px(4)
        entries = self._entries()
        widths = [metrics.horizontalAdvance(word) for word, _ in entries]
        spare = self.width() - sum(widths) - len(entries) * (swatch + gap)
        between = max(style.px(2), min(style.px(14), spare // max(1, len(entries) - 1)))
        x, height = 0, style.px(9)
        for (word, mark), width in zip(entries, widths, strict=True):
            box = QRectF(x, (self.height() - height) / 2, swatch, height)
            mark(painter, style, box)
            painter.setPen(style.colour("muted"))
            words = QRectF(x + swatch + gap, 0, width + 1, self.height())
            painter.drawText(words, Qt.AlignmentFlag.AlignVCenter, word)
            x += swatch + gap + width + between
        painter.end()

    def _entries(self) -> list[tuple[str, Callable[[QPainter, Style, QRectF], None]]]:
        entries: list[tuple[str, Callable[[QPainter, Style, QRectF], None]]] = [
            ("final", final),
            ("tempered", tempered),
            ("raw", _raw_swatch),
            ("cut", cut),
            ("held draw", _landing_swatch),
        ]
        if self._with_observed:
            entries.append(("observed", _observed_swatch))
        return entries


def _raw_swatch(painter: QPainter, style: Style, box: QRectF) -> None:
    raw(painter, style, QRectF(box.x(), box.y(), box.width() / 2, box.height()))


def _observed_swatch(painter: QPainter, style: Style, box: QRectF) -> None:
    observed(painter, style, QRectF(box.x(), box.y(), box.width() / 2, box.height()))


def _landing_swatch(painter: QPainter, style: Style, box: QRectF) -> None:
    landing(painter, style, box.center())
