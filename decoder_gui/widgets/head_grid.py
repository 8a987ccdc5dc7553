"""All heads of a model as thumbnails on one fixed scale; one of them is in hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QHelpEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.attention import AttentionView
from decoder_gui.viewdata.attention_store import STEPS
from decoder_gui.widgets.arrow_keys import ARROWS, is_arrow
from decoder_gui.widgets.hatching import fill_hatched
from decoder_gui.widgets.viridis import viridis

THUMBNAIL = 56.0  # pixels at scale 1, where there is room
THUMBNAIL_LEAST = 30.0
THUMBNAIL_MOST = 84.0  # for models of few heads
GAP = 8.0


@dataclass(frozen=True)
class GridLayout:
    """Pixels of the grid: labels at the left and on top, thumbnails of one size."""

    left: int
    top: int
    side: int
    gap: int

    def thumbnail(self, layer: int, head: int) -> QRect:
        pitch = self.side + self.gap
        return QRect(self.left + head * pitch, self.top + layer * pitch, self.side, self.side)

    def size(self, layers: int, heads: int) -> QSize:
        last = self.thumbnail(layers - 1, heads - 1)
        return QSize(last.right() + 1 + self.gap // 2, last.bottom() + 1 + self.gap // 2)


class HeadGrid(QWidget):
    """One thumbnail for each layer (row) and head (column); put it into a scroll area.

    Click or move with the arrow keys to choose. Every thumbnail has the same scale from 0 to 1,
    whatever its head contains.

    Signals:
        head_chosen(int, int): layer and head.
    """

    head_chosen = Signal(int, int)

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._view: AttentionView | None = None
        self._image = QImage()
        self._pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] | None = None
        self._available = 0
        self._grid = GridLayout(0, 0, 1, 1)
        colours = viridis(STEPS + 1)
        # Code 0 has no colour: the hatching shows through.
        self._table = [0, *(QColor(*(int(c) for c in colour)).rgb() for colour in colours)]
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("All attention heads")

    def set_data(self, view: AttentionView, style: Style) -> None:
        self._view, self._style = view, style
        layers, side, heads, _ = view.mosaic.shape
        # The image looks at the array; both are replaced together and never written to.
        self._pixels = _aligned(view.mosaic.reshape(layers * side, heads * side))
        height, stride = self._pixels.shape
        self._image = QImage(
            self._pixels.data, heads * side, height, stride, QImage.Format.Format_Indexed8
        )
        self._image.setColorTable(self._table)
        self._arrange()
        self.setAccessibleDescription(
            f"{view.layers} layers of {view.heads} heads; shown: layer {view.layer}, "
            f"head {view.head}"
        )
        self.update()

    def set_available_width(self, width: int) -> None:
        """Pixels that the grid may take before it has to be scrolled."""
        if width != self._available:
            self._available = width
            self._arrange()
            self.update()

    def thumbnail_rect(self, layer: int, head: int) -> QRect:
        """Pixels of one thumbnail."""
        return self._grid.thumbnail(layer, head)

    def head_at(self, point: QPoint) -> tuple[int, int] | None:
        """(layer, head) under a point, or None between the thumbnails."""
        view, grid = self._view, self._grid
        if view is None:
            return None
        pitch = grid.side + grid.gap
        head, across = divmod(point.x() - grid.left, pitch)
        layer, down = divmod(point.y() - grid.top, pitch)
        inside = across < grid.side and down < grid.side
        return (layer, head) if inside and self._has(layer, head) else None

    def sizeHint(self) -> QSize:
        if self._view is None:
            return QSize(self._style.px(THUMBNAIL), self._style.px(THUMBNAIL))
        return self._grid.size(self._view.layers, self._view.heads)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def _has(self, layer: int, head: int) -> bool:
        view = self._view
        return view is not None and 0 <= layer < view.layers and 0 <= head < view.heads

    def _arrange(self) -> None:
        view, px = self._view, self._style.px
        if view is None:
            return
        metrics = QFontMetrics(self._style.font(Face.MONO_TINY))
        left = metrics.horizontalAdvance(str(view.layers - 1)) + px(5)
        top = metrics.height() + px(2)
        gap = px(GAP) if view.heads <= 6 else px(GAP / 2)
        most = px(THUMBNAIL) if view.heads > 2 else px(THUMBNAIL_MOST)
        room = (self._available - left - gap // 2 + gap) // view.heads - gap
        side = max(px(THUMBNAIL_LEAST), min(most, room)) if self._available else most
        grid = GridLayout(left, top, side, gap)
        if grid != self._grid or self.size() != grid.size(view.layers, view.heads):
            self._grid = grid
            self.setFixedSize(grid.size(view.layers, view.heads))

    def paintEvent(self, event: QPaintEvent) -> None:
        view, grid, style = self._view, self._grid, self._style
        if view is None:
            return
        painter = QPainter(self)
        painter.setFont(style.font(Face.MONO_TINY))
        border, faint, text = style.colour("border"), style.colour("faint"), style.colour("text")
        for head in range(view.heads):
            box = grid.thumbnail(0, head)
            painter.setPen(text if head == view.head else faint)
            painter.drawText(
                QRect(box.left(), 0, box.width(), grid.top),
                Qt.AlignmentFlag.AlignHCenter,
                str(head),
            )
        for layer in range(view.layers):
            box = grid.thumbnail(layer, 0)
            painter.setPen(text if layer == view.layer else faint)
            where = QRect(0, box.top(), grid.left - style.px(5), box.height())
            right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(where, right, str(layer))
            for head in range(view.heads):
                box = grid.thumbnail(layer, head)
                if box.intersects(event.rect()):
                    self._thumbnail(painter, box, layer, head, border)
        outline = QPen(style.colour("outline"), style.px(2))
        outline.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(outline)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        reach = style.px(2)
        painter.drawRect(
            grid.thumbnail(view.layer, view.head).adjusted(-reach, -reach, reach, reach)
        )
        if self.hasFocus():
            painter.setPen(QPen(style.colour("accent"), style.px(1), Qt.PenStyle.DotLine))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        painter.end()

    def _thumbnail(
        self, painter: QPainter, box: QRect, layer: int, head: int, border: QColor
    ) -> None:
        fill_hatched(painter, QRectF(box), self._style, 4.0)
        view = self._view
        if view is not None and view.positions:
            side = view.mosaic.shape[1]
            # Beyond the last position of a shrunk picture there is nothing to show.
            cells = view.positions / view.factor
            source = QRectF(head * side, layer * side, cells, cells)
            painter.drawImage(QRectF(box), self._image, source)
        painter.setPen(border)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(box.adjusted(0, 0, -1, -1))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        found = self.head_at(event.position().toPoint())
        if found is not None and event.button() is Qt.MouseButton.LeftButton:
            self.head_chosen.emit(*found)

    def event(self, event: QEvent) -> bool:
        """Tooltips for each thumbnail; arrow keys claimed before the window's shortcuts."""
        if isinstance(event, QHelpEvent):
            found = self.head_at(event.pos())
            text = "" if found is None else f"layer {found[0]}, head {found[1]}"
            QToolTip.showText(event.globalPos(), text, self)
            return True
        if event.type() is QEvent.Type.ShortcutOverride and is_arrow(event):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        view = self._view
        if view is None or not is_arrow(event):
            super().keyPressEvent(event)
            return
        down, right = ARROWS[Qt.Key(event.key())]
        layer, head = view.layer + down, view.head + right
        if self._has(layer, head):
            self.head_chosen.emit(layer, head)


def _aligned(
    pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """Rows padded to whole 32-bit words, as QImage wants them."""
    spare = -pixels.shape[1] % 4
    return np.ascontiguousarray(np.pad(pixels, ((0, 0), (0, spare))) if spare else pixels)


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
