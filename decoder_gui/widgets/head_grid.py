"""All heads of a model as thumbnails on one fixed scale; one of them is in hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QHelpEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QMoveEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.attention import AttentionView
from decoder_gui.viewdata.attention_codes import STEPS
from decoder_gui.widgets.arrow_keys import ARROWS, is_arrow
from decoder_gui.widgets.hatching import fill_hatched
from decoder_gui.widgets.tips import show_tip
from decoder_gui.widgets.viridis import viridis

THUMBNAIL = 56.0  # pixels at scale 1, where there is room
THUMBNAIL_LEAST = 24.0
THUMBNAIL_LEAST_OF_MANY = 16.0  # where there are more heads than FEW_HEADS
FEW_HEADS = 8
THUMBNAIL_MOST = 84.0  # for models of few heads
GAP = 8.0
EDGE = 3  # pixels


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
        edge = edge_beside(self.gap)
        return QSize(last.right() + 1 + edge, last.bottom() + 1 + edge)


def edge_beside(gap: int) -> int:
    """Pixels after the last thumbnail: half a gap, and room for the outline of the one in hand."""
    return max(gap // 2, EDGE)


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
        self._scale = 1.0  # pixels of the image for a cell of the mosaic, at most 1
        self._available = (0, 0)
        self._grid = GridLayout(0, 0, 1, 1)
        colours = viridis(STEPS + 1)
        # Code 0 has no colour: the hatching shows through.
        self._table = [0, *(QColor(*(int(c) for c in colour)).rgb() for colour in colours)]
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("All attention heads")

    def set_data(self, view: AttentionView, style: Style) -> None:
        """Show a view; only the thumbnails that differ from those before are painted again."""
        before, self._view = self._view, view
        fresh = before is None or (style, before.positions) != (self._style, view.positions)
        self._style = style
        layers = range(view.layers)
        if before is None or before.mosaic.shape != view.mosaic.shape or fresh:
            fresh, changed = True, list(layers)
        else:
            old, new = before.mosaic, view.mosaic
            changed = [layer for layer in layers if not np.array_equal(old[layer], new[layer])]
            marks = zip((before.leaking, before.broken), (view.leaking, view.broken), strict=True)
            fresh = any(not np.array_equal(was, now) for was, now in marks)
        self._arrange()
        if changed:
            self._image = self._picture(view)
        if before is None or (before.layer, before.head) != (view.layer, view.head):
            shown = self._describe(view.layer, view.head)
            self.setAccessibleDescription(
                f"{view.layers} layers of {view.heads} heads; shown: {shown}"
            )
            changed += [view.layer] if before is None else [view.layer, before.layer]
            self.update(self._strip())
        if fresh:
            self.update()
            return
        reach = self._style.px(3)  # of the outline around the chosen one
        for layer in changed:
            row = self._grid.thumbnail(layer, 0).adjusted(0, -reach, 0, reach)
            self.update(0, row.top(), self.width(), row.height())

    def _picture(self, view: AttentionView) -> QImage:
        """All thumbnails in one image, looked up once; masked cells are transparent.

        Where a thumbnail has fewer pixels than cells, each pixel gets the largest of its cells:
        choosing some of them would drop the thin stripes that are looked for.
        """
        pixels, cells = view.mosaic, view.mosaic.shape[1]
        available = max(1, int((self._grid.side - 2) * self.devicePixelRatioF()))
        if cells > available:
            starts = np.arange(available) * cells // available
            pixels = np.maximum.reduceat(pixels, starts, axis=1)
            pixels = np.maximum.reduceat(pixels, starts, axis=3)
        self._scale = pixels.shape[1] / cells
        layers, side, heads, _ = pixels.shape
        pixels = pixels.reshape(layers * side, heads * side)
        spare = -pixels.shape[1] % 4  # QImage wants rows of whole 32-bit words
        pixels = np.ascontiguousarray(np.pad(pixels, ((0, 0), (0, spare))) if spare else pixels)
        height, stride = pixels.shape
        indexed = QImage(pixels.data, heads * side, height, stride, QImage.Format.Format_Indexed8)
        indexed.setColorTable(self._table)
        # Painted in parts, an indexed image would be converted as a whole for each of them.
        return indexed.convertToFormat(QImage.Format.Format_ARGB32_Premultiplied)

    def set_available(self, width: int, height: int) -> None:
        """Pixels that the grid may take before it has to be scrolled."""
        if (width, height) != self._available:
            self._available = (width, height)
            self._arrange()

    def thumbnail_rect(self, layer: int, head: int) -> QRect:
        """Pixels of one thumbnail."""
        return self._grid.thumbnail(layer, head)

    def layers_between(self, top: int, bottom: int) -> range:
        """Layers of which something lies between two heights."""
        view, grid = self._view, self._grid
        if view is None or bottom <= top:
            return range(0)
        pitch = grid.side + grid.gap
        first = max(0, (top - grid.top + grid.gap) // pitch)
        return range(first, min(view.layers, max(first, -(-(bottom - grid.top) // pitch))))

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
        many = view.heads > FEW_HEADS
        gap = px(GAP / 4) if many else px(GAP) if view.heads <= 6 else px(GAP / 2)
        least = px(THUMBNAIL_LEAST_OF_MANY if many else THUMBNAIL_LEAST)
        most = px(THUMBNAIL) if view.heads > 2 else px(THUMBNAIL_MOST)
        width, height = self._available
        edge = edge_beside(gap)
        across = (width - left - edge + gap) // view.heads - gap
        down = (height - top - edge + gap) // view.layers - gap
        # In sight together, heads are to be compared; layers may be scrolled.
        wide_enough = min(most, across, px(THUMBNAIL_LEAST))
        side = max(least, wide_enough, min(most, across, down)) if width else most
        grid = GridLayout(left, top, side, gap)
        if grid != self._grid or self.size() != grid.size(view.layers, view.heads):
            self._grid = grid
            self.setFixedSize(grid.size(view.layers, view.heads))
            self._image = self._picture(view)
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        view, grid, style = self._view, self._grid, self._style
        painter = QPainter(self)
        painter.fillRect(event.rect(), style.colour("panel"))
        if view is None:
            return
        self._number_layers(painter, view)
        painter.setPen(style.colour("border"))
        for layer in range(view.layers):
            row = self._row(layer)
            if row.intersects(event.rect()):
                self._paint_row(painter, view, layer)
        outline = QPen(style.colour("outline"), style.px(2))
        outline.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(outline)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        reach = style.px(2)
        chosen = grid.thumbnail(view.layer, view.head)
        painter.drawRect(chosen.adjusted(-reach, -reach, reach, reach))
        self._number_heads(painter, view)
        if self.hasFocus():
            painter.setPen(QPen(style.colour("accent"), style.px(1), Qt.PenStyle.DotLine))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        painter.end()

    def _row(self, layer: int) -> QRect:
        heads = 0 if self._view is None else self._view.heads
        return self._grid.thumbnail(layer, 0).united(self._grid.thumbnail(layer, heads - 1))

    def _number_heads(self, painter: QPainter, view: AttentionView) -> None:
        """Numbers of the heads, over whatever was scrolled to the top."""
        strip, style = self._strip(), self._style
        painter.fillRect(strip, style.colour("panel"))
        painter.setFont(style.font(Face.MONO_TINY))
        for head in range(view.heads):
            box = self._grid.thumbnail(0, head)
            painter.setPen(style.colour("text" if head == view.head else "faint"))
            where = QRect(box.left(), strip.top(), box.width(), strip.height())
            painter.drawText(where, Qt.AlignmentFlag.AlignHCenter, str(head))

    def _number_layers(self, painter: QPainter, view: AttentionView) -> None:
        grid, style = self._grid, self._style
        painter.setFont(style.font(Face.MONO_TINY))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for layer in range(view.layers):
            box = grid.thumbnail(layer, 0)
            painter.setPen(style.colour("text" if layer == view.layer else "faint"))
            where = QRect(0, box.top(), grid.left - style.px(5), box.height())
            painter.drawText(where, right, str(layer))

    def _strip(self) -> QRect:
        """Where the heads' numbers stand: above the thumbnails, or at the edge of the scroll area.

        Two pixels stay free for the outline of the first row.
        """
        height = self._grid.top - self._style.px(2)
        return QRect(0, max(0, -self.y()), self.width(), height)

    def moveEvent(self, event: QMoveEvent) -> None:
        """Scrolled: the strip of numbers stays where it is on screen."""
        strip = self._strip()
        self.update(strip)
        self.update(strip.translated(0, self.y() - event.oldPos().y()))

    def _paint_row(self, painter: QPainter, view: AttentionView, layer: int) -> None:
        row = QRectF(self._row(layer))
        fill_hatched(painter, row, self._style, 4.0)
        side = view.mosaic.shape[1] * self._scale
        # Beyond the last position of a shrunk picture there is nothing to show.
        cells = view.positions / view.factor * self._scale
        for head in range(view.heads):
            box = self._grid.thumbnail(layer, head)
            if cells:
                source = QRectF(head * side, layer * side, cells, cells)
                # Within the border: the first key is what many heads attend to.
                painter.drawImage(QRectF(box.adjusted(1, 1, -1, -1)), self._image, source)
            painter.drawRect(box.adjusted(0, 0, -1, -1))
            if view.leaking[layer, head]:
                self._mark(painter, box, "bad", "leak")
            elif view.broken[layer, head]:
                self._mark(painter, box, "warning", "NaN")
            gap = QRectF(box.right() + 1, box.top(), self._grid.gap, box.height())
            painter.fillRect(gap.intersected(row), self._style.colour("panel"))

    def _mark(self, painter: QPainter, box: QRect, role: str, word: str) -> None:
        """A frame and a word in the masked corner, which no sound head uses."""
        style, thick = self._style, self._style.px(1)
        painter.save()
        painter.setPen(QPen(style.colour(role), thick))
        painter.drawRect(box.adjusted(0, 0, -1, -1))
        painter.setFont(style.font(Face.MONO_TINY))
        metrics = QFontMetrics(painter.font())
        width = metrics.horizontalAdvance(word) + 2 * style.px(2)
        tag = QRect(box.right() + 1 - width, box.top(), width, metrics.height())
        if width > 0.6 * box.width():
            corner = QPointF(box.right() + 1, box.top())
            reach = min(box.width() / 3, style.px(8))
            painter.setBrush(style.colour(role))
            tip = [corner, corner - QPointF(reach, 0), corner + QPointF(0, reach)]
            painter.drawPolygon(QPolygonF(tip))
        else:
            painter.fillRect(tag, style.colour(role))
            painter.setPen(style.colour("panel"))
            painter.drawText(tag, Qt.AlignmentFlag.AlignCenter, word)
        painter.restore()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        found = self.head_at(event.position().toPoint())
        if found is not None and event.button() is Qt.MouseButton.LeftButton:
            self.head_chosen.emit(*found)

    def event(self, event: QEvent) -> bool:
        """Tooltips for each thumbnail; arrow keys claimed before the window's shortcuts."""
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            found = self.head_at(event.pos())
            text = "" if found is None else self._describe(*found)
            show_tip(event.globalPos(), text, self)
            return True
        if event.type() is QEvent.Type.ShortcutOverride and is_arrow(event):
            event.accept()
            return True
        return super().event(event)

    def _describe(self, layer: int, head: int) -> str:
        view, words = self._view, f"layer {layer}, head {head}"
        if view is not None and view.leaking[layer, head]:
            words += ": weights above the diagonal"
        elif view is not None and view.broken[layer, head]:
            words += ": NaN or infinite weights"
        elif view is not None and layer in view.unfinished:
            words += ": not ready"
        return words

    def keyPressEvent(self, event: QKeyEvent) -> None:
        view = self._view
        if view is None or not is_arrow(event):
            super().keyPressEvent(event)
            return
        down, right = ARROWS[Qt.Key(event.key())]
        layer, head = view.layer + down, view.head + right
        if self._has(layer, head):
            self.head_chosen.emit(layer, head)
