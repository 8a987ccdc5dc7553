"""The attention matrix drawn with pyqtgraph: it carries the image, its colours and the zoom.

Importing this module imports pyqtgraph, which takes as long as all of Qt: import it late.
"""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QImage, QMouseEvent, QPainter, QWheelEvent
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QWidget

from decoder_gui.theme.style import Style
from decoder_gui.viewdata.attention import AttentionView
from decoder_gui.viewdata.attention_codes import STEPS, Codes, shrink
from decoder_gui.widgets.hatching import fill_hatched
from decoder_gui.widgets.matrix_geometry import MatrixGeometry
from decoder_gui.widgets.matrix_painting import (
    Labels,
    OverlayPainter,
    Pointers,
    paint_keys,
    paint_queries,
)
from decoder_gui.widgets.viridis import viridis

ZOOM_PER_NOTCH = 1.25
DRAG_FROM = 4  # pixels before a press becomes a drag


class _Layer(QGraphicsItem):
    """An item made once whose content is painted by its canvas, in pixels."""

    def __init__(self, canvas: MatrixCanvas, z: float) -> None:
        super().__init__()
        self.canvas = canvas
        self.box = QRectF()
        self.setZValue(z)
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)

    def place(self, box: QRectF) -> None:
        if box != self.box:
            self.prepareGeometryChange()
            self.box = box

    def boundingRect(self) -> QRectF:
        return self.box


class _Hatch(_Layer):
    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        fill_hatched(painter, self.box, self.canvas.look)


class _Overlay(_Layer):
    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        self.canvas.paint_overlay(painter)


class _Queries(_Layer):
    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        canvas = self.canvas
        if canvas.labels is not None:
            paint_queries(painter, canvas.geometry_, canvas.labels, canvas.pointed(0))


class _Keys(_Layer):
    def paint(
        self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None
    ) -> None:
        canvas = self.canvas
        if canvas.labels is not None:
            paint_keys(painter, canvas.geometry_, canvas.labels, canvas.pointed(1))


class _Cells(pg.ImageItem):  # type: ignore[misc]
    """pyqtgraph's image, its colours looked up once instead of at every paint.

    Enlarging an indexed image takes Qt six times as long as enlarging one of plain colours.
    """

    qimage: QImage | None

    def render(self) -> None:
        super().render()
        drawn: QImage | None = self.qimage
        if drawn is not None:
            self.qimage = drawn.convertToFormat(QImage.Format.Format_ARGB32_Premultiplied)


class MatrixCanvas(pg.GraphicsView):  # type: ignore[misc]
    """The cells as one image in a ViewBox, and what lies over and beside them.

    Signals:
        hovered(object): (query, key) under the mouse, or None.
        clicked(int, int): query and key.
        moved(object): a MatrixGeometry that zooming or panning asks for.
        reset(): a double click.
    """

    hovered = Signal(object)
    clicked = Signal(int, int)
    moved = Signal(object)
    reset = Signal()

    def __init__(self, style: Style, parent: QWidget) -> None:
        # An opaque ground spares painting all the widgets behind it at every step.
        super().__init__(parent, background=style.palette.panel)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setCentralItem(None)
        self.look = style
        self.labels: Labels | None = None
        self.geometry_ = MatrixGeometry(0, 0, 0, 0, 0, 0, 0)
        self.pointers = Pointers()
        self._view: AttentionView | None = None
        self._drawn: tuple[object, int] = (None, 0)
        self._overlay_painter = OverlayPainter(style)
        self._pressed: tuple[QPointF, MatrixGeometry] | None = None
        self._dragging = False

        self._box = pg.ViewBox(enableMenu=False, enableMouse=False, invertY=True, defaultPadding=0)
        self._box.disableAutoRange()
        self._image = _Cells(axisOrder="row-major", autoDownsample=False)
        table = np.zeros((256, 4), np.uint8)  # code 0 stays transparent
        table[1 : STEPS + 2, :3] = viridis(STEPS + 1)
        table[1 : STEPS + 2, 3] = 255
        self._image.setLookupTable(table, update=False)
        self._box.addItem(self._image, ignoreBounds=True)
        self._hatch = _Hatch(self, self._box.zValue() - 1)
        self._over = _Overlay(self, 10)
        self._queries = _Queries(self, 10)
        self._keys = _Keys(self, 10)
        for item in (self._box, self._hatch, self._over, self._queries, self._keys):
            self.addItem(item)

    def set_look(self, style: Style) -> None:
        self.look = style
        self._overlay_painter = OverlayPainter(style)
        self.setBackground(style.palette.panel)
        self.viewport().update()

    def show_view(self, view: AttentionView, labels: Labels, geometry: MatrixGeometry) -> None:
        """Show a view with its cells at given places."""
        if labels is not self.labels:
            self._queries.update()
            self._keys.update()
        self._view, self.labels = view, labels
        self.set_geometry(geometry)

    def set_geometry(self, geometry: MatrixGeometry) -> None:
        """Move the cells: another size, zoom or pan."""
        if geometry != self.geometry_:
            self.geometry_ = geometry
            square = geometry.square
            width, height = float(self.width()), float(self.height())
            self._hatch.place(square)
            reach = self.look.px(2)
            self._over.place(square.adjusted(-reach, -reach, reach, reach))
            self._queries.place(QRectF(0, 0, square.left(), height))
            self._keys.place(QRectF(square.left(), 0, width - square.left(), square.top()))
            if geometry.side:
                self._box.setGeometry(square)
                self._box.setRange(
                    xRange=(geometry.x0, geometry.x0 + geometry.span),
                    yRange=(geometry.y0, geometry.y0 + geometry.span),
                    padding=0,
                    update=True,
                )
            self._queries.update()
            self._keys.update()
        self._show_image()
        self._hatch.update()
        self._over.update()
        # As a whole: of parts that are announced one by one, some are painted twice.
        self.scene().update()

    def _show_image(self) -> None:
        """The codes, shrunk by maximum while there are more cells than pixels."""
        view = self._view
        self._image.setVisible(bool(self.geometry_.side))
        if view is None or not self.geometry_.side:
            return
        factor = max(1, int(np.ceil(1.0 / self.geometry_.cell - 1e-9)))
        if self._drawn[0] is view.codes and self._drawn[1] == factor:
            return
        self._drawn = view.codes, factor
        codes = shrink(view.codes, factor)
        self._image.setImage(codes, autoLevels=False, levels=(0, 255))
        self._image.setRect(QRectF(0, 0, codes.shape[1] * factor, codes.shape[0] * factor))

    @property
    def drawn_codes(self) -> Codes | None:
        """What the image holds: one code a cell, or the largest of several cells."""
        codes: Codes | None = self._image.image
        return codes

    def set_pointers(self, pointers: Pointers) -> None:
        if pointers != self.pointers:
            self.pointers = pointers
            for item in (self._over, self._queries, self._keys):
                item.update()

    def pointed(self, axis: int) -> set[int]:
        """Rows (axis 0) or columns (1) whose labels stand out."""
        cells = (self.pointers.hovered, self.pointers.chosen)
        return {cell[axis] for cell in cells if cell is not None}

    def paint_overlay(self, painter: QPainter) -> None:
        if self._view is not None:
            self._overlay_painter.paint(painter, self._view, self.geometry_, self.pointers)

    # The mouse is handled here and not by pyqtgraph's scene, so that a click, a hover and a drag
    # all use the same cells as the painting.

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self._pressed = (event.position(), self.geometry_)
            self._dragging = False
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        event.accept()
        if self._pressed is None:
            self.hovered.emit(self.geometry_.at(event.position()))
            return
        start, before = self._pressed
        shift = event.position() - start
        if not self._dragging and shift.manhattanLength() < DRAG_FROM:
            return
        self._dragging = True
        if before.zoomed:
            moved = before.moved_to(
                before.x0 - shift.x() / before.cell, before.y0 - shift.y() / before.cell
            )
            self.moved.emit(moved)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()
        if self._pressed is not None and not self._dragging:
            cell = self.geometry_.at(event.position())
            if cell is not None:
                self.clicked.emit(*cell)
        self._pressed = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self._pressed = None
        event.accept()
        self.reset.emit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.accept()
        notches = event.angleDelta().y() / 120
        if notches and self.geometry_.side:
            self.moved.emit(self.geometry_.zoomed_by(ZOOM_PER_NOTCH**notches, event.position()))

    def leaveEvent(self, event: object) -> None:
        self.hovered.emit(None)
