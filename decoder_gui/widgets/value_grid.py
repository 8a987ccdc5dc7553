"""Numbers as coloured cells: one row of an array or all of it; only what is in sight is painted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
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
from decoder_gui.viewdata.numbers import format_exact, format_value
from decoder_gui.viewdata.values import ValuesView
from decoder_gui.widgets.arrow_keys import ARROWS, is_arrow
from decoder_gui.widgets.hatching import fill_hatched
from decoder_gui.widgets.tips import show_tip
from decoder_gui.widgets.value_colours import ValueColours, diverging, sequential
from decoder_gui.widgets.value_layout import MatrixLayout, RowLayout

BOX, NUMBER, NAME, APART, GAP, BETWEEN = 22, 15, 14, 4, 3, 7
CELL, PAD, NAMES_AT_MOST, SAMPLED = 20, 8, 130, 200
ENDS = (Qt.Key.Key_Home, Qt.Key.Key_End)


@dataclass(frozen=True)
class ShownCell:
    """A cell in sight, as it is painted: what tests read back."""

    row: int
    column: int
    text: str
    label: str


class ValueGrid(QAbstractScrollArea):
    """Paints a :class:`ValuesView`.

    Like all controls here it takes the keyboard by Tab and not by a click, so that a click never
    takes the arrow keys away from stepping.

    Signals:
        chosen(int, int): row and column of the cell clicked or moved to.
        menu_requested(int, int, QPoint): the menu of a cell is wanted at a place on the screen.
        watch_requested(int, int): W on a cell; Shift+W, with -1 for the column, on its row.
        stop_requested(int, int): B on a cell.
    """

    chosen = Signal(int, int)
    menu_requested = Signal(int, int, QPoint)
    watch_requested = Signal(int, int)
    stop_requested = Signal(int, int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._view: ValuesView | None = None
        self._whole = False
        self._limit = 1.0
        self._layout: RowLayout | MatrixLayout | None = None
        self._head = (0, 0)  # width of the row names, height of the column names
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.viewport().setAutoFillBackground(False)
        self.setAccessibleName("Values of the operation in hand")
        self._measure()

    def set_view(
        self, view: ValuesView | None, style: Style, *, whole: bool = False, limit: float = 1.0
    ) -> None:
        """Show a row, or the whole matrix; ``limit`` is where a scale about 0 ends."""
        if style != self._style:
            self._style = style
            self._measure()
        before, was_whole = self._view, self._whole
        self._view, self._whole, self._limit = view, whole, limit
        self._lay_out()
        if view is None or view.array is None:
            self.setAccessibleDescription("")
        else:
            said = (view.row, view.column, view.output)
            if (
                before is None
                or said != (before.row, before.column, before.output)
                or (whole != was_whole)
            ):
                self._reveal()
            self.setAccessibleDescription(self._said(view.row, view.column))
        self.viewport().update()

    def shown_cells(self) -> tuple[ShownCell, ...]:
        """The cells in sight, row by row, with the text painted for each."""
        view, layout = self._view, self._layout
        if view is None or layout is None:
            return ()
        rows, columns = layout.visible(self._area())
        return tuple(
            ShownCell(row, column, view.text(row, column), view.labels[column])
            for row in rows
            for column in columns
        )

    def cell_rect(self, row: int, column: int) -> QRect:
        """Where a cell is painted, in the coordinates of the viewport."""
        assert self._layout is not None
        return self._layout.rect(row, column).translated(self._origin())

    def colour_of(self, row: int, column: int) -> QColor | None:
        """The colour of a cell's number, or None where it has none: masked, NaN, infinite."""
        view = self._view
        assert view is not None
        value = view.value(row, column)
        if view.masked(row, column) or not isfinite(value):
            return None
        scale = self._scale()
        return scale.colours[scale.index(self._fraction(value))]

    def number_metrics(self) -> QFontMetrics:
        """Of the face that numbers are written in."""
        return self._number_metrics

    def height_wanted(self) -> int:
        """The height beyond which more would stay empty."""
        if self._layout is None:
            return self.minimumSizeHint().height()
        bar = self.horizontalScrollBar().sizeHint().height() if self._whole else 0
        return max(self._layout.size.height() + self._head[1] + bar, self._style.px(CELL))

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(480), self._style.px(BOX + NUMBER + NAME + APART))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(120), self._style.px(BOX + NUMBER + NAME + APART))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_out()
        if self._view is not None and self._view.array is not None:
            self._reveal()

    # ---- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        view, layout = self._view, self._layout
        if view is None or layout is None:
            return
        painter = QPainter(self.viewport())
        rows, columns = layout.visible(self._area())
        if isinstance(layout, RowLayout):
            self._paint_row(painter, view, columns)
        else:
            painter.save()
            painter.setClipRect(self.viewport().rect().adjusted(self._head[0], self._head[1], 0, 0))
            self._paint_cells(painter, view, rows, columns)
            painter.restore()
            self._paint_names(painter, view, rows, columns)

    def _paint_row(self, painter: QPainter, view: ValuesView, columns: Sequence[int]) -> None:
        px, colour = self._style.px, self._style.colour
        values, masked = view.row_values(view.row), view.row_masked(view.row)
        scale = self._scale()
        number, bold = self._style.font(Face.MONO_SMALL), self._style.font(Face.MONO_STRONG)
        centre = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter
        gap, top, high, line, under = px(GAP), px(2), px(BOX), px(NUMBER), px(1)
        text, muted = colour("text"), colour("muted")
        for column in columns:
            rect = self.cell_rect(view.row, column)
            value, hidden = float(values[column]), masked is not None and bool(masked[column])
            wide = rect.width() - gap
            box = QRectF(rect.x(), rect.y() + top, wide, high)
            self._paint_box(painter, box, value, hidden, scale)
            if column == view.column:
                self._outline(painter, box)
            wrong = not hidden and not isfinite(value)
            painter.setPen(colour("bad") if wrong else colour("faint") if hidden else text)
            painter.setFont(bold if wrong else number)
            below = QRect(rect.x(), rect.y() + top + high + under, wide, line)
            painter.drawText(below, centre, view.text_of(value, masked=hidden))
            painter.setPen(muted)
            painter.setFont(self._names)
            label = self._name_metrics.elidedText(
                view.labels[column], Qt.TextElideMode.ElideRight, wide
            )
            painter.drawText(below.translated(0, line - under), centre, label)

    def _paint_cells(
        self, painter: QPainter, view: ValuesView, rows: Sequence[int], columns: Sequence[int]
    ) -> None:
        px, scale = self._style.px, self._scale()
        dark, light = QColor("#000000"), QColor("#FFFFFF")
        inside = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        font = self._style.font(Face.MONO_SMALL)
        painter.setFont(font)
        for row in rows:
            values, masked = view.row_values(row), view.row_masked(row)
            for column in columns:
                rect = self.cell_rect(row, column).adjusted(0, 0, -1, -1)
                value, hidden = float(values[column]), masked is not None and bool(masked[column])
                self._paint_box(painter, QRectF(rect), value, hidden, scale)
                if hidden:
                    painter.setPen(self._style.colour("faint"))
                elif not isfinite(value):
                    painter.setPen(self._style.colour("bad"))
                else:
                    at = scale.index(self._fraction(value))
                    painter.setPen(dark if scale.light[at] else light)
                text = view.text_of(value, masked=hidden)
                painter.drawText(rect.adjusted(0, 0, -px(PAD / 2), 0), inside, text)
        if view.row in rows and view.column in columns:
            self._outline(painter, QRectF(self.cell_rect(view.row, view.column)))

    def _paint_names(
        self, painter: QPainter, view: ValuesView, rows: Sequence[int], columns: Sequence[int]
    ) -> None:
        px, colour = self._style.px, self._style.colour
        wide, high = self._head
        painter.setFont(self._names)
        metrics = self._name_metrics
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.save()
        painter.setClipRect(0, high, wide, self.viewport().height())
        for row in rows:
            rect = self.cell_rect(row, 0)
            painter.setPen(colour("text" if row == view.row else "muted"))
            label = metrics.elidedText(
                view.row_label(row), Qt.TextElideMode.ElideRight, wide - px(PAD)
            )
            area = QRect(0, rect.y(), wide - px(PAD), rect.height())
            painter.drawText(area, middle | Qt.AlignmentFlag.AlignRight, label)
        painter.restore()
        painter.setClipRect(wide, 0, self.viewport().width(), high)
        for column in columns:
            rect = self.cell_rect(0, column)
            painter.setPen(colour("text" if column == view.column else "muted"))
            label = metrics.elidedText(
                view.labels[column], Qt.TextElideMode.ElideRight, rect.width() - px(2)
            )
            area = QRect(rect.x(), 0, rect.width() - px(PAD / 2), high)
            painter.drawText(area, middle | Qt.AlignmentFlag.AlignRight, label)

    def _paint_box(
        self, painter: QPainter, box: QRectF, value: float, hidden: bool, scale: ValueColours
    ) -> None:
        if hidden or not isfinite(value):
            fill_hatched(painter, box, self._style)
            if not hidden:
                painter.setPen(QPen(self._style.colour("bad"), self._style.px(1.5)))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRect(box.adjusted(1, 1, -1, -1))
            return
        painter.fillRect(box, scale.colours[scale.index(self._fraction(value))])

    def _outline(self, painter: QPainter, box: QRectF) -> None:
        """Around the chosen cell; in the accent colour while the keyboard is here."""
        width = self._style.px(2)
        role = "accent" if self.hasFocus() else "outline"
        painter.setPen(QPen(self._style.colour(role), width))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        half = width / 2
        painter.drawRect(box.adjusted(half, half, -half, -half))

    def _scale(self) -> ValueColours:
        assert self._view is not None
        return sequential() if self._view.sequential else diverging(self._style.palette)

    def _fraction(self, value: float) -> float:
        assert self._view is not None
        return value if self._view.sequential else (value / self._limit + 1.0) / 2.0

    # ---- pointer and keyboard

    def event(self, event: QEvent) -> bool:
        # While the keyboard is here, the arrows choose cells and do not step.
        own = is_arrow(event) or (
            isinstance(event, QKeyEvent) and (event.key() in ENDS or _asks(event))
        )
        if event.type() is QEvent.Type.ShortcutOverride and own:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        view, layout = self._view, self._layout
        if view is not None and layout is not None and _asks(event):
            self._ask(view, event)
            return
        if view is None or layout is None or not (is_arrow(event) or event.key() in ENDS):
            super().keyPressEvent(event)
            return
        if event.key() in ENDS:
            last = view.columns - 1
            end = 0 if event.key() == Qt.Key.Key_Home else last
            target = (view.row, layout.column(end))
        else:
            down, right = ARROWS[Qt.Key(event.key())]
            target = layout.moved(view.row, view.column, down, right, view.rows)
        if target != (view.row, view.column):
            self.chosen.emit(*target)

    def _ask(self, view: ValuesView, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_B:
            self.stop_requested.emit(view.row, view.column)
        else:
            row_only = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.watch_requested.emit(view.row, -1 if row_only else view.column)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        view = self._view
        if view is None or self._layout is None:
            return
        by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        cell = (view.row, view.column) if by_key else self._cell_at(event.pos())
        if cell is not None:
            self.chosen.emit(*cell)
            where = event.globalPos()
            if by_key:
                corner = self.cell_rect(*cell).bottomLeft()
                where = self.viewport().mapToGlobal(corner)
            self.menu_requested.emit(*cell, where)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position().toPoint())
        if cell is not None and event.button() is Qt.MouseButton.LeftButton:
            self.chosen.emit(*cell)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            cell = self._cell_at(event.pos())
            show_tip(event.globalPos(), self._said(*cell) if cell else "", self.viewport())
            return True
        return super().viewportEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    # ---- layout

    def _said(self, row: int, column: int) -> str:
        """A cell in words, with the number as exactly as it is of use."""
        view = self._view
        assert view is not None
        value = view.value(row, column)
        text = "masked" if view.masked(row, column) else format_exact(value)
        label = view.labels[column]
        name = f"[{column}]" if label == str(column) else f"[{column}] {label}"
        return f"{view.row_label(row)}, {name}: {text}"

    def _cell_at(self, point: QPoint) -> tuple[int, int] | None:
        if self._layout is None or point.x() < self._head[0] or point.y() < self._head[1]:
            return None
        at = point - self._origin()
        return self._layout.cell_at(at.x(), at.y())

    def _origin(self) -> QPoint:
        """Where the first cell lies in the viewport."""
        return QPoint(
            self._head[0] - self.horizontalScrollBar().value(),
            self._head[1] - self.verticalScrollBar().value(),
        )

    def _area(self) -> QRect:
        """The part of the content that is in sight."""
        size = self.viewport().size()
        corner = QPoint(*self._head) - self._origin()
        return QRect(corner, QSize(size.width() - self._head[0], size.height() - self._head[1]))

    def _lay_out(self) -> None:
        view, px = self._view, self._style.px
        if view is None or view.array is None:
            self._layout, self._head = None, (0, 0)
        elif self._whole:
            width = self._text_width(view) + px(PAD)
            self._layout = MatrixLayout(view.rows, view.columns, width, px(CELL))
            sampled = range(0, view.rows, max(1, view.rows // SAMPLED))
            widest = max(
                self._name_metrics.horizontalAdvance(view.row_label(row)) for row in sampled
            )
            self._head = (min(widest + 2 * px(PAD), px(NAMES_AT_MOST)), px(NAME + 2))
        else:
            pitch = max(self._text_width(view) + px(BETWEEN), px(39))
            across = max(1, self.viewport().width() // pitch)
            line = px(BOX + NUMBER + NAME + APART)
            self._layout = RowLayout(view.row, view.columns, pitch, line, across, view.order)
            self._head = (0, 0)
        self._set_ranges()

    def _text_width(self, view: ValuesView) -> int:
        """Width of the widest number there can be between the row's ends, or the scale's."""
        ends = (-self._limit, self._limit) if self._whole and not view.sequential else ()
        if view.statistics is not None:
            ends = (*ends, view.statistics.low, view.statistics.high)
        # A number next to 0 may be written with a sign and a power of ten.
        small = format_value(-1e-7 if any(end < 0 for end in ends) else 1e-7, view.digits)
        texts = [small, *(format_value(end, view.digits) for end in ends)]
        hidden = view.statistics is not None and view.statistics.masked > 0
        if hidden or (self._whole and view.scores is not None):
            texts.append("masked")
        return max(self._number_metrics.horizontalAdvance(text) for text in texts)

    def _set_ranges(self) -> None:
        size = self._layout.size if self._layout is not None else QSize()
        room = self.viewport().size() - QSize(*self._head)
        across, down = self.horizontalScrollBar(), self.verticalScrollBar()
        wide = size.width() - room.width() if self._whole else 0
        across.setRange(0, max(0, wide))
        across.setPageStep(max(1, room.width()))
        across.setSingleStep(self._style.px(40))
        most, single = size.height() - room.height(), self._style.px(CELL)
        if isinstance(self._layout, RowLayout):
            # Whole lines only: half a number at the top would be read as another one.
            single = self._layout.line
            most = (self._layout.lines - max(1, room.height() // single)) * single
        down.setRange(0, max(0, most))
        down.setPageStep(max(1, room.height()))
        down.setSingleStep(single)

    def _reveal(self) -> None:
        """Scroll to the chosen cell, from the beginning: what is seen depends on nothing else.

        Were it from where the last step had scrolled to, stepping back would not bring back the
        same picture.
        """
        view, layout = self._view, self._layout
        if view is None or layout is None:
            return
        across, down = self.horizontalScrollBar(), self.verticalScrollBar()
        across.setValue(0)
        down.setValue(0)
        rect, area = layout.rect(view.row, view.column), self._area()
        if rect.left() < area.left():
            across.setValue(rect.left())
        elif rect.right() > area.right():
            across.setValue(rect.right() - area.width() + 1)
        if rect.top() < area.top() or (
            isinstance(layout, RowLayout) and rect.bottom() > area.bottom()
        ):
            down.setValue(rect.top())
        elif rect.bottom() > area.bottom():
            down.setValue(rect.bottom() - area.height() + 1)

    def _measure(self) -> None:
        self._names = self._style.font(Face.SMALL)
        self._names.setPixelSize(self._style.px(11))
        self._name_metrics = QFontMetrics(self._names)
        self._number_metrics = QFontMetrics(self._style.font(Face.MONO_SMALL))
        self.updateGeometry()


def _asks(event: QKeyEvent) -> bool:
    """Whether a key asks for something to be done with the chosen cell: W, Shift+W, B."""
    none, shift = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
    return (event.key() == Qt.Key.Key_W and event.modifiers() in (none, shift)) or (
        event.key() == Qt.Key.Key_B and event.modifiers() == none
    )
