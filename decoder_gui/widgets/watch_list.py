"""Watches as painted rows: label, value, a plot over the steps, and when it last changed."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
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
from PySide6.QtWidgets import QAbstractScrollArea, QMenu, QWidget

from decoder_gui.debugger.stopping.spots import Shown
from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.watches import WatchesView, WatchRow
from decoder_gui.widgets.spark_plot import SparkPlot
from decoder_gui.widgets.tips import show_tip

LINE, SMALL, PLOT, APART, SIDE = 18, 15, 34, 9, 6
KEYS = {
    Qt.Key.Key_Up,
    Qt.Key.Key_Down,
    Qt.Key.Key_Left,
    Qt.Key.Key_Right,
    Qt.Key.Key_Home,
    Qt.Key.Key_End,
    Qt.Key.Key_Return,
    Qt.Key.Key_Enter,
    Qt.Key.Key_Space,
    Qt.Key.Key_Delete,
    Qt.Key.Key_Backspace,
    Qt.Key.Key_N,
}


class WatchList(QAbstractScrollArea):
    """Up and Down choose a watch, Left and Right a step of its plot; Enter travels there.

    Delete removes a watch, N lets another number stand for a row. Values after the cursor are
    hollow; steps without a value are hatched.

    Signals:
        travelled(int, int): number of a watch and a step.
        removed(int): number of a watch.
        shown_chosen(int, object): number of a watch of a row, and the number to show.
    """

    travelled = Signal(int, int)
    removed = Signal(int)
    shown_chosen = Signal(int, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._rows: tuple[WatchRow, ...] = ()
        self._row = 0
        self._step = -1  # chosen by keyboard; -1 follows the cursor
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        self.viewport().setMouseTracking(True)
        self.setAccessibleName("Watches")
        self._measure()

    def set_view(self, view: WatchesView, style: Style) -> None:
        """Show watches; keeps the chosen one."""
        if style != self._style:
            self._style = style
            self._measure()
        if view.rows and self._rows and view.rows[0].here != self._rows[0].here:
            self._step = -1
        self._rows = view.rows
        self._row = max(0, min(self._row, len(self._rows) - 1))
        self._set_range()
        self._describe()
        self.viewport().update()

    @property
    def rows(self) -> tuple[WatchRow, ...]:
        """The rows as they are painted."""
        return self._rows

    @property
    def chosen(self) -> WatchRow | None:
        """The row that the keyboard is at."""
        return self._rows[self._row] if self._rows else None

    @property
    def chosen_step(self) -> int:
        """The step of its plot that the keyboard is at."""
        row = self.chosen
        if row is None:
            return -1
        return self._step if 0 <= self._step < len(row.readings) else row.here

    def row_rect(self, row: int) -> QRect:
        """Where a row is painted, in the coordinates of the viewport."""
        top = row * self._height - self.verticalScrollBar().value()
        return QRect(0, top, self.viewport().width(), self._height)

    def plot(self, row: int) -> SparkPlot:
        """The plot of a row, where it is painted."""
        rect, px = self.row_rect(row), self._style.px
        box = QRect(
            px(SIDE), rect.y() + px(LINE + SMALL + 4), rect.width() - 2 * px(SIDE), px(PLOT)
        )
        return SparkPlot(self._rows[row], box, self._style)

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(320), max(1, len(self._rows)) * self._height)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(160), self._height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._set_range()

    # ---- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for index in range(len(self._rows)):
            if self.row_rect(index).intersects(event.rect()):
                self._paint_row(painter, index)

    def _paint_row(self, painter: QPainter, index: int) -> None:
        row, rect, style = self._rows[index], self.row_rect(index), self._style
        px, colour, elide = style.px, style.colour, Qt.TextElideMode.ElideRight
        left, right, middle = px(SIDE), rect.width() - px(SIDE), Qt.AlignmentFlag.AlignVCenter
        if index == self._row and self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(colour("accent"), px(1.5)))
            around = QRectF(rect).adjusted(1, 1, -1, -px(APART) / 2)
            painter.drawRoundedRect(around, px(4), px(4))
        painter.setFont(self._strong)
        painter.setPen(colour("bad" if row.bad else "text"))
        value = f"{row.shown} {row.value}" if row.is_row and row.now >= 0 else row.value
        wide = self._strong_metrics.horizontalAdvance(value)
        top = QRect(left, rect.y() + px(2), right - left, px(LINE))
        painter.drawText(top, middle | Qt.AlignmentFlag.AlignRight, value)
        painter.setFont(self._label)
        painter.setPen(colour("text"))
        room = max(0, right - left - wide - px(8))
        painter.drawText(top, middle, self._label_metrics.elidedText(row.label, elide, room))
        painter.setFont(self._small)
        painter.setPen(colour("muted"))
        below = top.translated(0, px(LINE))
        below.setHeight(px(SMALL))
        note = self._small_metrics.elidedText(row.note, elide, (right - left) // 2)
        painter.drawText(below, middle | Qt.AlignmentFlag.AlignRight, note)
        room = right - left - self._small_metrics.horizontalAdvance(note) - px(8)
        painter.drawText(below, middle, self._small_metrics.elidedText(row.place, elide, room))
        plot, here = self.plot(index), index == self._row and self.hasFocus()
        plot.paint(painter, self.chosen_step if here else -1)
        last = QRect(left, plot.box.bottom() + px(3), right - left, px(SMALL))
        painter.setFont(self._small)
        painter.setPen(colour("muted"))
        words = "; ".join(text for text in (row.history, row.missing) if text)
        painter.drawText(last, middle, self._small_metrics.elidedText(words, elide, last.width()))

    # ---- pointer and keyboard

    def event(self, event: QEvent) -> bool:
        if (
            event.type() is QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() in KEYS
            and event.modifiers() in (Qt.KeyboardModifier.NoModifier,)
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        row, key = self.chosen, event.key()
        if row is None or key not in KEYS:
            super().keyPressEvent(event)
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self._choose(self._row + (1 if key == Qt.Key.Key_Down else -1), -1)
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self._choose(self._row, self.chosen_step + (1 if key == Qt.Key.Key_Right else -1))
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            self._choose(self._row, 0 if key == Qt.Key.Key_Home else len(row.readings) - 1)
        elif key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.removed.emit(row.number)
        elif key == Qt.Key.Key_N:
            self._next_shown(row)
        elif self.chosen_step >= 0:
            self.travelled.emit(row.number, self.chosen_step)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self._row_at(event.position().toPoint())
        if index < 0 or event.button() is not Qt.MouseButton.LeftButton:
            return
        self._choose(index, -1)
        step = self.step_at(event.position().toPoint())
        if step >= 0:
            self.travelled.emit(self._rows[index].number, step)

    def step_at(self, point: QPoint) -> int:
        """The step of the plot under a point, -1 where there is none."""
        index = self._row_at(point)
        return -1 if index < 0 else self.plot(index).step_at(point)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        index = self._row_at(event.pos())
        if index >= 0:
            menu = self.build_menu(index)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(event.globalPos())

    def build_menu(self, index: int) -> QMenu:
        """What can be done with a row."""
        row, menu = self._rows[index], QMenu(self)
        if row.now >= 0:
            go = menu.addAction("Go to the value shown")
            go.triggered.connect(lambda: self.travelled.emit(row.number, row.now))
        if row.is_row:
            menu.addSeparator()
            for shown in Shown:
                action = menu.addAction(f"Show its {shown}")
                action.setCheckable(True)
                action.setChecked(shown is row.shown)
                action.triggered.connect(
                    lambda _=False, to=shown: self.shown_chosen.emit(row.number, to)
                )
        menu.addSeparator()
        menu.addAction("Stop watching").triggered.connect(lambda: self.removed.emit(row.number))
        return menu

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            show_tip(event.globalPos(), self.tooltip_at(event.pos()), self.viewport())
            return True
        return super().viewportEvent(event)

    def tooltip_at(self, point: QPoint) -> str:
        """A value of the plot, or the whole row in words."""
        index, step = self._row_at(point), self.step_at(point)
        if index < 0:
            return ""
        row = self._rows[index]
        return row.point_words(step) if step >= 0 else row.words

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    # ---- inside

    def _next_shown(self, row: WatchRow) -> None:
        if row.is_row:
            order = list(Shown)
            following = order[(order.index(row.shown) + 1) % len(order)]
            self.shown_chosen.emit(row.number, following)

    def _choose(self, row: int, step: int) -> None:
        self._row = max(0, min(row, len(self._rows) - 1))
        count = len(self._rows[self._row].readings)
        self._step = -1 if step < 0 and self._step < 0 else max(-1, min(step, count - 1))
        bar, page = self.verticalScrollBar(), self.viewport().height()
        top = self._row * self._height
        if top < bar.value():
            bar.setValue(top)
        elif top + self._height > bar.value() + page:
            bar.setValue(top + self._height - page)
        self._describe()
        self.viewport().update()

    def _row_at(self, point: QPoint) -> int:
        index = (point.y() + self.verticalScrollBar().value()) // self._height
        return index if 0 <= index < len(self._rows) else -1

    def _describe(self) -> None:
        row = self.chosen
        if row is None:
            self.setAccessibleDescription("")
            return
        step = self.chosen_step
        point = f" {row.point_words(step)}." if 0 <= step < len(row.readings) else ""
        self.setAccessibleDescription(row.words + point)

    def _set_range(self) -> None:
        bar, page = self.verticalScrollBar(), self.viewport().height()
        bar.setRange(0, max(0, len(self._rows) * self._height - page))
        bar.setPageStep(max(1, page))
        bar.setSingleStep(self._style.px(LINE))

    def _measure(self) -> None:
        font, px = self._style.font, self._style.px
        self._strong, self._label = font(Face.MONO_STRONG), font(Face.MONO)
        self._small = font(Face.SMALL)
        self._small.setPixelSize(px(11))
        self._strong_metrics, self._label_metrics = (
            QFontMetrics(self._strong),
            QFontMetrics(self._label),
        )
        self._small_metrics = QFontMetrics(self._small)
        self._height = px(LINE + SMALL + PLOT + SMALL + APART) + px(10)
        self.updateGeometry()
