"""The cache as a map: a row per layer, a cell per position, coloured by the phase that wrote it.

Where cells are wider than two pixels each is drawn apart. Where they are not, neighbours run
together, and below one pixel several positions share a column; the widget says how many.
"""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from decoder_gui.theme.style import Style
from decoder_gui.viewdata.kv_cache import Slab
from decoder_gui.widgets.arrow_keys import ARROWS, is_arrow

_ROW, _GAP, _LEAST_PITCH = 9, 3, 3  # heights in pixels at scale 1
_MOST_HEIGHT = 150
_ACTIVATE = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)


class SlabMap(QWidget):
    """Layer x position. The pointer or the arrow keys point at a cell.

    Signals:
        pointed(int, int): layer and position pointed at, or -1, -1.
        activated(int, int): the cell was clicked, or entered by key.
    """

    pointed = Signal(int, int)
    activated = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._slab = Slab(0, 0, (), 0)
        self._cell: tuple[int, int] | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # it paints its ground
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Cache map, layers by positions")

    @property
    def slab(self) -> Slab:
        """What is shown."""
        return self._slab

    @property
    def cell(self) -> tuple[int, int] | None:
        """The (layer, position) pointed at."""
        return self._cell

    @property
    def positions_per_column(self) -> int:
        """How many positions share one pixel column; 1 where each has a cell of its own."""
        if not self._slab.capacity or not self.width():
            return 1
        return max(1, math.ceil(self._slab.capacity / self.width()))

    def set_slab(self, slab: Slab) -> None:
        if slab == self._slab:
            return
        resized = slab.layers != self._slab.layers
        self._slab = slab
        if self._cell is not None and not (
            self._cell[0] < slab.layers and self._cell[1] < slab.capacity
        ):
            self._point(None)
        if resized:
            self.updateGeometry()
        self.update()

    def set_style(self, style: Style) -> None:
        self._style = style
        self.updateGeometry()
        self.update()

    def cell_rect(self, layer: int, position: int) -> QRectF:
        """Where a cell is, without the gap to its neighbours."""
        pitch = self._column_pitch()
        return QRectF(position * pitch, layer * self._row_pitch(), pitch, self._row_height())

    def sizeHint(self) -> QSize:
        wanted = max(1, self._slab.layers) * self._style.px(_ROW + _GAP)
        least = max(1, self._slab.layers) * self._style.px(_LEAST_PITCH)
        height = max(least, min(wanted, self._style.px(_MOST_HEIGHT)))
        return QSize(self._style.px(240), height)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(120), self.sizeHint().height())

    # --- geometry -----------------------------------------------------------------------------

    def _row_pitch(self) -> float:
        return self.height() / max(1, self._slab.layers)

    def _row_height(self) -> float:
        pitch = self._row_pitch()
        return pitch - min(self._style.px(_GAP), max(1.0, pitch / 4))

    def _column_pitch(self) -> float:
        return self.width() / max(1, self._slab.capacity)

    def _cell_at(self, point: QPoint) -> tuple[int, int] | None:
        layer = int(point.y() // self._row_pitch()) if self._slab.layers else -1
        position = int(point.x() // self._column_pitch()) if self._slab.capacity else -1
        inside = 0 <= layer < self._slab.layers and 0 <= position < self._slab.capacity
        return (layer, position) if inside else None

    # --- painting -----------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._style.colour("panel"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        slab, style = self._slab, self._style
        for layer, written in enumerate(slab.written):
            old = min(written, slab.first_now)
            prefill = min(old, slab.prefill)
            self._paint_run(painter, layer, written, slab.capacity, style.colour("empty"))
            self._paint_run(painter, layer, 0, prefill, style.colour("prefill"))
            self._paint_run(painter, layer, prefill, old, style.colour("decode"))
            if written > old:
                self._paint_now(painter, layer, old, written)
        self._paint_gaps(painter)
        if self._cell is not None:
            self._paint_cell(painter, self._cell)
        painter.end()

    def _paint_run(
        self, painter: QPainter, layer: int, first: int, last: int, colour: QColor
    ) -> None:
        if last > first:
            painter.fillRect(self._run_rect(layer, first, last), colour)

    def _run_rect(self, layer: int, first: int, last: int) -> QRectF:
        rect = self.cell_rect(layer, first)
        rect.setRight(last * self._column_pitch())
        if rect.width() < 1:  # a single row stays visible however many there are
            rect.setWidth(1)
        return rect

    def _paint_now(self, painter: QPainter, layer: int, first: int, last: int) -> None:
        """The rows of the step in hand: solid in the outline colour, or framed by it where wide."""
        rect = self._run_rect(layer, first, last)
        colour = self._style.colour("outline")
        line = float(self._style.px(2))
        if rect.width() <= 3 * line or last - first == 1:
            painter.fillRect(rect, colour)
            return
        painter.fillRect(rect, self._style.colour("prefill" if first == 0 else "decode"))
        pen = QPen(colour, line)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(rect.adjusted(line / 2, line / 2, -line / 2, -line / 2))

    def _paint_gaps(self, painter: QPainter) -> None:
        """Lines in the ground's colour between cells, where cells are wide enough to bear them."""
        pitch = self._column_pitch()
        if pitch < 2:
            return
        gap = min(1.5 * max(1.0, self._style.scale), pitch / 4)
        ground = self._style.colour("panel")
        for position in range(1, self._slab.capacity):
            x = position * pitch
            painter.fillRect(QRectF(x - gap, 0, gap, self.height()), ground)

    def _paint_cell(self, painter: QPainter, cell: tuple[int, int]) -> None:
        rect = self.cell_rect(*cell).adjusted(-1, -1, 1, 1)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(self._style.colour("panel"), self._style.px(4)))
        painter.drawRect(rect)
        painter.setPen(QPen(self._style.colour("outline"), self._style.px(2)))
        painter.drawRect(rect)

    # --- input --------------------------------------------------------------------------------

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point(self._cell_at(event.position().toPoint()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._point(None)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position().toPoint())
        if event.button() is Qt.MouseButton.LeftButton and cell is not None:
            self.activated.emit(*cell)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        slab = self._slab
        if is_arrow(event) and slab.layers and slab.capacity:
            layer, position = self._cell or (0, max(0, max(slab.written) - 1))
            if self._cell is not None:
                down, right = ARROWS[Qt.Key(event.key())]
                layer, position = layer + down, position + right
            layer = max(0, min(slab.layers - 1, layer))
            self._point((layer, max(0, min(slab.capacity - 1, position))))
        elif event.key() in _ACTIVATE and self._cell is not None:
            self.activated.emit(*self._cell)
        elif event.key() == Qt.Key.Key_Escape and self._cell is not None:
            self._point(None)
        else:
            event.ignore()

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            activates = self._cell is not None and event.key() in _ACTIVATE
            if is_arrow(event) or activates:
                event.accept()
                return True
        return super().event(event)

    def _point(self, cell: tuple[int, int] | None) -> None:
        if cell != self._cell:
            self._cell = cell
            self.update()
            self.pointed.emit(*(cell if cell is not None else (-1, -1)))
