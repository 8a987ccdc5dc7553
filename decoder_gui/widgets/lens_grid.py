"""The logit lens as a grid: depths by positions, each cell a token and how sure it would be."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.lens import LensView
from decoder_gui.widgets.arrow_keys import ARROWS, is_arrow
from decoder_gui.widgets.hatching import fill_hatched
from decoder_gui.widgets.tips import show_tip
from decoder_gui.widgets.value_colours import sequential

ROW, COLUMN, HEAD, PAD, GAP = 24, 84, 34, 6, 2
LEAST_NAMES = 0.25  # of the width, for the names of the rows


@dataclass(frozen=True)
class ShownLens:
    """A cell in sight: what tests read back."""

    row: int
    column: int
    text: str
    number: str


class LensGrid(QAbstractScrollArea):
    """Paints a :class:`LensView`; a cell has the keyboard, and can be gone to.

    Signals:
        pointed(int, int): row and column of another cell that has the keyboard's mark.
        chosen(int, int): a cell was clicked, or Enter pressed on it.
    """

    pointed = Signal(int, int)
    chosen = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._view: LensView | None = None
        self._current = (0, 0)
        self._names = 0  # width of the rows' names
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.viewport().setAutoFillBackground(False)
        self.setAccessibleName("Logit lens")

    def set_view(self, view: LensView | None, current: tuple[int, int], style: Style) -> None:
        """Show a table with the keyboard's mark at a cell."""
        moved, before = current != self._current, self._view
        same = view is not None and style == self._style and not moved and view.alike(before)
        self._view, self._current, self._style = view, current, style
        self.setAccessibleDescription("" if view is None else self._said())
        if same and view is not None and before is not None:
            for row in range(*sorted((view.reached, before.reached))):
                changed = self.cell_rect(row, view.first) | self.cell_rect(row, view.columns - 1)
                self.viewport().update(changed)
            return
        self._measure()
        if moved:
            self._reveal()
        self.viewport().update()

    @property
    def current(self) -> tuple[int, int]:
        """Row and column of the cell that has the keyboard's mark."""
        return self._current

    def shown_cells(self) -> tuple[ShownLens, ...]:
        """The cells in sight, with their texts."""
        view = self._view
        if view is None:
            return ()
        found = []
        for row in self._rows_in_sight():
            for column in self._columns_in_sight():
                cell = view.cell(row, column)
                found.append(ShownLens(row, column, cell.text, cell.number))
        return tuple(found)

    def cell_rect(self, row: int, column: int) -> QRect:
        """Where a cell is painted, in the coordinates of the viewport."""
        px = self._style.px
        x = self._names + column * px(COLUMN) - self.horizontalScrollBar().value()
        y = px(HEAD) + row * px(ROW) - self.verticalScrollBar().value()
        return QRect(x, y, px(COLUMN) - px(GAP), px(ROW) - px(GAP))

    def colour_of(self, row: int, column: int) -> QColor | None:
        """The colour of a cell, or None where it has no probability."""
        assert self._view is not None
        share = float(self._view.table.probabilities[row, column, 0])
        there = self._view.exists(row, column) and self._view.table.finite[row, column]
        if not (there and isfinite(share)):
            return None
        scale = sequential()
        return scale.colours[scale.index(share)]

    def height_wanted(self) -> int:
        """The height beyond which more would stay empty."""
        bar = self.horizontalScrollBar().sizeHint().height()
        rows = 1 if self._view is None else self._view.rows
        return self._style.px(HEAD) + rows * self._style.px(ROW) + bar

    def sizeHint(self) -> QSize:
        rows = 5 if self._view is None else self._view.rows
        px = self._style.px
        return QSize(px(520), px(HEAD) + min(rows, 14) * px(ROW) + px(16))

    def minimumSizeHint(self) -> QSize:
        px = self._style.px
        return QSize(px(220), px(HEAD) + 3 * px(ROW))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._measure()
        self._reveal()

    # ---- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        view, style = self._view, self._style
        if view is None:
            return
        painter = QPainter(self.viewport())
        head, names = style.px(HEAD), self._names
        whole = self.viewport().rect()
        rows, columns = self._rows_in_sight(), self._columns_in_sight()
        painter.save()
        painter.setClipRect(whole.adjusted(names, head, 0, 0))
        wanted = event.rect()  # a step forward changes few cells
        for row in rows:
            for column in columns:
                if wanted.intersects(self.cell_rect(row, column)):
                    self._paint_cell(painter, view, row, column)
        painter.restore()
        painter.save()
        painter.setClipRect(whole.adjusted(0, head, 0, 0))
        painter.setFont(style.font(Face.SMALL))
        metrics = QFontMetrics(style.font(Face.SMALL))
        for row in rows:
            here = row == self._current[0]
            rect = self.cell_rect(row, 0)
            rect.setLeft(0)
            rect.setWidth(names - style.px(PAD))
            painter.setPen(QPen(style.colour("text" if here else "muted")))
            text = metrics.elidedText(
                view.row_label(row), Qt.TextElideMode.ElideRight, rect.width()
            )
            painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter, text)
        painter.restore()
        painter.setClipRect(whole.adjusted(names, 0, 0, 0))
        self._paint_heads(painter, view, columns)

    def _paint_cell(self, painter: QPainter, view: LensView, row: int, column: int) -> None:
        style, rect, cell = self._style, self.cell_rect(row, column), view.cell(row, column)
        colour = self.colour_of(row, column)
        if colour is None:
            fill_hatched(painter, QRectF(rect), style)
            ink = style.colour("bad")
        else:
            painter.fillRect(rect, colour)
            scale = sequential()
            light = scale.light[scale.index(cell.share)]
            ink = QColor("#000000") if light else QColor("#FFFFFF")
        pad = style.px(PAD) // 2
        inside = rect.adjusted(pad, 0, -pad, 0)
        # A right guess is bold and ticked: the colour says only how sure it was.
        face = Face.MONO_STRONG if cell.hit else Face.MONO_SMALL
        painter.setPen(QPen(ink))
        small = style.font(Face.MONO_TINY)
        number = QFontMetrics(small).horizontalAdvance(cell.number)
        painter.setFont(style.font(face))
        metrics = QFontMetrics(style.font(face))
        room = inside.width() - number - pad
        text = f"✓{cell.text}" if cell.hit else cell.text
        painter.drawText(
            inside,
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter,
            metrics.elidedText(text, Qt.TextElideMode.ElideRight, room),
        )
        painter.setFont(small)
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        painter.drawText(inside, right, cell.number)
        if (row, column) == self._current:
            painter.setPen(QPen(style.colour("outline"), style.px(2 if self.hasFocus() else 1.5)))
            painter.drawRect(rect.adjusted(0, 0, -1, -1))

    def _paint_heads(self, painter: QPainter, view: LensView, columns: range) -> None:
        style = self._style
        metrics = QFontMetrics(style.font(Face.MONO_SMALL))
        for column in columns:
            rect = self.cell_rect(0, column)
            rect.setTop(0)
            rect.setHeight(style.px(HEAD))
            here = column == self._current[1]
            painter.setPen(QPen(style.colour("text" if here else "muted")))
            painter.setFont(style.font(Face.MONO_STRONG if here else Face.MONO_SMALL))
            pad = style.px(PAD) // 2
            inside = rect.adjusted(pad, 0, -pad, -style.px(GAP))
            half = inside.height() // 2
            text = metrics.elidedText(
                view.column_label(column), Qt.TextElideMode.ElideRight, inside.width()
            )
            painter.drawText(inside.adjusted(0, 0, 0, -half), Qt.AlignmentFlag.AlignVCenter, text)
            painter.setFont(style.font(Face.MONO_TINY))
            painter.setPen(QPen(style.colour("faint")))
            painter.drawText(
                inside.adjusted(0, half, 0, 0), Qt.AlignmentFlag.AlignVCenter, str(column)
            )

    # ---- pointing

    def mousePressEvent(self, event: QMouseEvent) -> None:
        found = self._cell_at(event.position().toPoint())
        if found is not None and event.button() is Qt.MouseButton.LeftButton:
            self._point_at(*found)
            self.chosen.emit(*found)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        view = self._view
        if view is None:
            return
        key, (row, column) = Qt.Key(event.key()), self._current
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.chosen.emit(row, column)
        elif is_arrow(event):
            down, right = ARROWS[key]
            self._point_at(row + down, column + right)
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            self._point_at(row, 0 if key is Qt.Key.Key_Home else view.columns - 1)
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            own = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Home, Qt.Key.Key_End)
            if is_arrow(event) or event.key() in own:
                event.accept()
                return True
        return super().event(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            show_tip(event.globalPos(), self._tip_at(event.pos()), self)
            return True
        return super().viewportEvent(event)

    def _tip_at(self, at: QPoint) -> str:
        view, found = self._view, self._cell_at(at)
        if view is None:
            return ""
        if found is not None:
            return view.cell(*found).tip
        row = (at.y() - self.cell_rect(0, 0).top()) // self._style.px(ROW)
        inside = at.y() > self._style.px(HEAD) and 0 <= row < view.rows
        return view.row_tip(row) if inside and at.x() < self._names else ""

    def _cell_at(self, at: QPoint) -> tuple[int, int] | None:
        view, px = self._view, self._style.px
        if view is None or at.x() < self._names or at.y() < px(HEAD):
            return None
        origin = self.cell_rect(0, 0).topLeft()
        row, column = (at.y() - origin.y()) // px(ROW), (at.x() - origin.x()) // px(COLUMN)
        return (row, column) if row < view.rows and column < view.columns else None

    def _point_at(self, row: int, column: int) -> None:
        view = self._view
        assert view is not None
        to = (min(max(row, 0), view.rows - 1), min(max(column, 0), view.columns - 1))
        if to != self._current:
            self._current = to
            self._reveal()
            self.setAccessibleDescription(self._said())
            self.viewport().update()
            self.pointed.emit(*to)

    def _said(self) -> str:
        view, (row, column) = self._view, self._current
        if view is None or row >= view.rows or column >= view.columns:
            return ""
        return view.cell(row, column).tip.replace("\n", ", ")

    # ---- geometry

    def _measure(self) -> None:
        view, px = self._view, self._style.px
        if view is None:
            return
        metrics = QFontMetrics(self._style.font(Face.SMALL))
        longest = (metrics.horizontalAdvance(view.row_label(row)) for row in range(view.rows))
        # Names give way where they would leave no room for a cell; a tooltip says them whole.
        spare = max(round(LEAST_NAMES * self.viewport().width()), 1)
        spare = max(spare, self.viewport().width() - px(COLUMN))
        self._names = min(max(longest, default=0) + px(PAD) * 2, spare)
        across, down = self.horizontalScrollBar(), self.verticalScrollBar()
        wide = view.columns * px(COLUMN) + self._names - self.viewport().width()
        high = view.rows * px(ROW) + px(HEAD) - self.viewport().height()
        across.setRange(0, max(0, wide))
        across.setPageStep(max(1, self.viewport().width() - self._names))
        across.setSingleStep(px(COLUMN))
        down.setRange(0, max(0, high))
        down.setPageStep(max(1, self.viewport().height() - px(HEAD)))
        down.setSingleStep(px(ROW))

    def _reveal(self) -> None:
        if self._view is None:
            return
        rect, px = self.cell_rect(*self._current), self._style.px
        across, down = self.horizontalScrollBar(), self.verticalScrollBar()
        if rect.left() < self._names:
            across.setValue(across.value() + rect.left() - self._names)
        elif rect.right() >= self.viewport().width():
            beyond = rect.right() - self.viewport().width() + px(GAP)
            across.setValue(across.value() + min(beyond, rect.left() - self._names))
        if rect.top() < px(HEAD):
            down.setValue(down.value() + rect.top() - px(HEAD))
        elif rect.bottom() >= self.viewport().height():
            down.setValue(down.value() + rect.bottom() - self.viewport().height() + px(GAP))

    def _columns_in_sight(self) -> range:
        assert self._view is not None
        size = self._style.px(COLUMN)
        first = self.horizontalScrollBar().value() // size
        count = (self.viewport().width() - self._names) // size + 2
        return range(first, min(first + count, self._view.columns))

    def _rows_in_sight(self) -> range:
        assert self._view is not None
        size = self._style.px(ROW)
        first = self.verticalScrollBar().value() // size
        count = (self.viewport().height() - self._style.px(HEAD)) // size + 2
        return range(first, min(first + count, self._view.rows))
