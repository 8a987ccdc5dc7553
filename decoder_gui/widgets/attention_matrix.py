"""One attention head as a matrix of token by token: row = query, column = key."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, QSizeF, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QHelpEvent, QKeyEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from decoder_gui.theme.style import Style
from decoder_gui.viewdata.attention import AttentionView
from decoder_gui.widgets.arrow_keys import ARROWS, is_arrow
from decoder_gui.widgets.hatching import fill_hatched
from decoder_gui.widgets.matrix_geometry import MatrixGeometry, place
from decoder_gui.widgets.matrix_painting import CELL_MOST, Labels, Pointers
from decoder_gui.widgets.tips import show_tip

if TYPE_CHECKING:
    from decoder_gui.widgets.matrix_canvas import MatrixCanvas

Cell = tuple[int, int]


class AttentionMatrix(QWidget):
    """The matrix with its labels, numbers, outlines and marks.

    The first paint shows the empty square; pyqtgraph is imported after it, so that the window does
    not wait for it. The wheel zooms where the mouse is, dragging pans, a double click shows
    everything again. Arrow keys move the cell in hand, plus, minus and 0 zoom,
    Escape lets go of the cell.

    Signals:
        hovered(object): (query, key) that is pointed at, or None.
        cell_chosen(int, int): query and key that were clicked or moved to.
        cell_released(): Escape; the cell in hand is to follow the step again.
    """

    hovered = Signal(object)
    cell_chosen = Signal(int, int)
    cell_released = Signal()

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._view: AttentionView | None = None
        self._labels: Labels | None = None
        self._chosen: Cell | None = None
        self._hovered: Cell | None = None
        self._geometry = MatrixGeometry(0, 0, 0, 0, 0, 0, 0)
        self._canvas: MatrixCanvas | None = None
        self._build = QTimer(self)
        self._build.setSingleShot(True)
        self._build.timeout.connect(self.ensure_ready)
        # By Tab only: after a click, the arrow keys go on stepping through the run.
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("Attention matrix")

    def set_data(self, view: AttentionView, style: Style, chosen: Cell | None = None) -> None:
        """Show a view; ``chosen`` is the cell to frame, None while it follows the step."""
        if style != self._style:
            self._style = style
            self._labels = None
            if self._canvas is not None:
                self._canvas.set_look(style)
        before = self._view
        same = (
            before is not None
            and before.codes is view.codes
            and (before.selected, self._chosen) == (view.selected, chosen)
        )
        self._view, self._chosen = view, chosen
        if same and self._labels is not None:
            return  # only thumbnails are new
        if self._labels is None or before is None or before.labels != view.labels:
            self._labels = Labels(view, style)
        if self._hovered is not None and max(self._hovered) >= view.positions:
            self._hovered = None
        self._arrange(keep_zoom=before is not None)
        self._tell()

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(480), self._style.px(460))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(180), self._style.px(160))

    # ---- what is shown, for tests and for whoever places something over it

    @property
    def view(self) -> AttentionView | None:
        return self._view

    @property
    def matrix_geometry(self) -> MatrixGeometry:
        """Where the cells are, in pixels of this widget."""
        return self._geometry

    def cell_rect(self, query: int, key: int) -> QRectF:
        """Pixels of a cell."""
        return self._geometry.rect(query, key)

    def label_at(self, point: QPointF) -> str:
        """The whole text of the token label under a point, or nothing."""
        position = self._geometry.labelled_at(point)
        if position is None or self._view is None:
            return ""
        return f"position {position}: {self._view.labels[position].text}"

    @property
    def hovered_cell(self) -> Cell | None:
        """(query, key) under the mouse, or None."""
        return self._hovered

    @property
    def canvas(self) -> MatrixCanvas | None:
        """What draws the cells and receives the mouse, once it is there."""
        return self._canvas

    @property
    def ready(self) -> bool:
        """Whether pyqtgraph has been imported and draws."""
        return self._canvas is not None

    def ensure_ready(self) -> None:
        """Import pyqtgraph and draw with it from now on; done by itself after the first paint."""
        if self._canvas is not None:
            return
        from decoder_gui.widgets.matrix_canvas import MatrixCanvas

        canvas = MatrixCanvas(self._style, self)
        canvas.hovered.connect(self._on_hovered)
        canvas.clicked.connect(self.cell_chosen)
        canvas.moved.connect(self._on_moved)
        canvas.reset.connect(self.show_all)
        canvas.setGeometry(self.rect())
        canvas.setAccessibleName("Attention matrix, drawing")
        self._canvas = canvas
        self._arrange(keep_zoom=False)
        canvas.show()

    # ---- zoom

    def show_all(self) -> None:
        """Back to the whole matrix."""
        self._arrange(keep_zoom=False)

    def _on_moved(self, geometry: MatrixGeometry) -> None:
        self._geometry = geometry
        if self._canvas is not None:
            self._canvas.set_geometry(geometry)

    def _arrange(self, *, keep_zoom: bool) -> None:
        if self._view is None or self._labels is None:
            self.update()
            return
        old = self._geometry
        labels = self._labels
        geometry = place(
            QSizeF(self.size()),
            self._view.positions,
            label_width=min(labels.widest + labels.gap, self.width() / 3),
            key_widths=labels.widths,
            line_height=labels.line_height + labels.gap * 0.6,
            most=self._style.px(CELL_MOST),
        )
        if keep_zoom and old.zoomed and old.span < geometry.positions:
            geometry = replace(geometry, span=old.span).moved_to(old.x0, old.y0)
        self._geometry = geometry
        if self._canvas is None:
            self.update()
            return
        self._canvas.show_view(self._view, labels, geometry)
        self._canvas.set_pointers(Pointers(self._hovered, self._shown_cell()))

    def _shown_cell(self) -> Cell | None:
        """The cell to frame: the chosen one, and while the keyboard is here any cell in hand."""
        if self._chosen is None and not self.hasFocus():
            return None
        return None if self._view is None else self._view.selected

    def _tell(self) -> None:
        if self._view is None or self._view.selected is None:
            self.setAccessibleDescription("nothing computed yet")
        else:
            self.setAccessibleDescription(self._view.readout(*self._view.selected).text)

    # ---- mouse and keyboard

    def _on_hovered(self, cell: Cell | None) -> None:
        if cell != self._hovered:
            self._hovered = cell
            if self._canvas is not None:
                self._canvas.set_pointers(Pointers(cell, self._shown_cell()))
            self.hovered.emit(cell)

    def event(self, event: QEvent) -> bool:
        """Tooltips for labels; arrow keys claimed before the window's shortcuts."""
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            show_tip(event.globalPos(), self.label_at(QPointF(event.pos())), self)
            return True
        claimed = event.type() is QEvent.Type.ShortcutOverride and is_arrow(event)
        if claimed and self._view is not None and self._view.selected is not None:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        view = self._view
        if view is None or view.selected is None:
            super().keyPressEvent(event)
            return
        key = Qt.Key(event.key())
        if is_arrow(event):
            down, right = ARROWS[key]
            most = view.positions - 1
            query = min(max(view.selected[0] + down, 0), most)
            of = min(max(view.selected[1] + right, 0), most)
            self._on_moved(self._geometry.showing(query, of))
            if (query, of) != self._chosen:  # at an edge; choosing again would let go
                self.cell_chosen.emit(query, of)
        elif key is Qt.Key.Key_0 and not event.modifiers():
            self.show_all()
        elif key is Qt.Key.Key_Escape:
            self.cell_released.emit()
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Minus) and not event.modifiers():
            middle = self._geometry.rect(*view.selected).center()
            factor = 1.25 if key is Qt.Key.Key_Plus else 0.8
            self._on_moved(self._geometry.zoomed_by(factor, QPointF(middle)))
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._refocus()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._refocus()

    def _refocus(self) -> None:
        if self._canvas is not None:
            self._canvas.set_pointers(Pointers(self._hovered, self._shown_cell()))

    # ---- painting

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._canvas is not None:
            self._canvas.setGeometry(self.rect())
        self._arrange(keep_zoom=True)

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._canvas is not None:
            return
        if self._geometry.side:
            painter = QPainter(self)
            fill_hatched(painter, self._geometry.square, self._style)
            painter.end()
        if not self._build.isActive():
            self._build.start(0)
