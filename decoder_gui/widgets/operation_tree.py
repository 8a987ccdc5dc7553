"""The operations of a step as a tree of painted rows: done, in hand, to come."""

from __future__ import annotations

from dataclasses import dataclass

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
from PySide6.QtWidgets import QAbstractScrollArea, QMenu, QSizePolicy, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.forward_pass import (
    BlockRow,
    ForwardPassView,
    OperationRow,
    Progress,
)
from decoder_gui.widgets.marks import Mark, draw_mark
from decoder_gui.widgets.tips import show_tip

ROW, MARK, RADIUS = 22, 9, 4
LEFT, INDENT, TEXT, RIGHT, GAP = 6, 14, 25, 6, 4
STOP, STOP_LEFT = 5, 1
LEAST_ROWS = 6
EVERY, HERE = "in every step", "in this step"
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
}


@dataclass(frozen=True)
class ShownRow:
    """One visible row, as it is drawn: what tests and the accessible text read."""

    row: OperationRow | BlockRow
    depth: int
    label: str
    detail: str
    progress: Progress
    current: bool  # the row in hand, drawn inverse
    opened: bool | None  # None where there is nothing to open
    stop: str = ""  # where runs stop at it: "in every step", "in this step", or nowhere

    @property
    def looks(self) -> tuple[object, ...]:
        """All that its picture depends on; a block also knows its operations, drawn or not."""
        return (
            self.label,
            self.detail,
            self.depth,
            self.progress,
            self.current,
            self.opened,
            self.stop,
        )

    @property
    def words(self) -> str:
        opened = {None: "", True: ", open", False: ", closed"}[self.opened]
        detail = f", {self.detail}" if self.detail else ""
        stop = f", runs stop here {self.stop}" if self.stop else ""
        return f"{self.label}{detail}, {self.progress.value}{opened}{stop}"


class OperationTree(QAbstractScrollArea):
    """Rows of operations; blocks open and close, the block in hand opens by itself.

    Only Tab brings the keyboard here: a click must not take Left and Right away from stepping.

    A dot stands before operations at which runs stop: filled in every step, a ring in this one.
    B sets and removes the first kind on the row that the keyboard is at, Shift+B the second.

    Signals:
        chosen(int): an operation was clicked or activated; its index.
        stop_toggled(int, bool): a stop at an operation was asked for; whether in every step.
        resized(): the number of rows, or their height, is another one.
    """

    chosen = Signal(int)
    stop_toggled = Signal(int, bool)
    resized = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._view: ForwardPassView | None = None
        self._opened: set[int] = set()  # by the user
        self._closed: set[int] = set()  # by the user, while open by itself
        self._rows: tuple[ShownRow, ...] = ()
        self._stops: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
        self._elided: dict[tuple[str, str, int, bool, int], tuple[str, str]] = {}
        self._focused = 0
        self._hovered = -1
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setFrameShape(QAbstractScrollArea.Shape.NoFrame)
        self.viewport().setAutoFillBackground(False)
        self.viewport().setMouseTracking(True)
        self.setAccessibleName("Operations of the step in hand")
        self._measure()

    def set_view(self, view: ForwardPassView | None, style: Style) -> None:
        """Show a step; keeps what the user opened, and scrolls to the row in hand."""
        if style != self._style:
            self._style = style
            self._measure()
        before = self._view.open_layer if self._view else None
        if view is None or view.open_layer != before:
            self._closed.clear()
        self._view = view
        self._lay_out()
        current = next((i for i, row in enumerate(self._rows) if row.current), None)
        if current is not None:
            if self._focused != current and self.hasFocus():
                self.viewport().update(self.row_rect(self._focused))
            self._focused = current
            self.setAccessibleDescription(self._rows[current].words)
            self._reveal(current)

    def set_stops(self, every: frozenset[int], here: frozenset[int]) -> None:
        """Mark operations, by index: where runs stop in every step, and in this step alone."""
        if (every, here) != self._stops:
            self._stops = (every, here)
            self._lay_out()

    def shown_rows(self) -> tuple[ShownRow, ...]:
        """The rows as they are drawn, top to bottom, those scrolled away included."""
        return self._rows

    def row_rect(self, index: int) -> QRect:
        """Where a row is drawn, in the coordinates of the viewport."""
        top = index * self._height - self.verticalScrollBar().value()
        return QRect(0, top, self.viewport().width(), self._height)

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(240), max(len(self._rows), LEAST_ROWS) * self._height)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(150), LEAST_ROWS * self._height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._set_range()
        current = next((i for i, row in enumerate(self._rows) if row.current), None)
        if current is not None:
            self._reveal(current)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        scrolled, region = self.verticalScrollBar().value(), event.region()
        first = max(0, (event.rect().top() + scrolled) // self._height)
        last = (event.rect().bottom() + scrolled) // self._height
        for index in range(first, min(last + 1, len(self._rows))):
            if region.intersects(self.row_rect(index)):
                self._paint_row(painter, index)

    def _paint_row(self, painter: QPainter, index: int) -> None:
        row, style = self._rows[index], self._style
        rect, px, colour = self.row_rect(index), style.px, style.colour
        text = "inverse_text" if row.current else "text"
        if row.progress is Progress.TO_COME:
            text = "faint"
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if row.current:
            painter.setBrush(colour("inverse"))
            painter.drawRoundedRect(QRectF(rect), px(RADIUS), px(RADIUS))
        elif index == self._hovered:
            painter.setBrush(colour("text", 0.07))
            painter.drawRoundedRect(QRectF(rect), px(RADIUS), px(RADIUS))
        if self.hasFocus() and index == self._focused:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(colour("accent"), px(1.5)))
            painter.drawRoundedRect(QRectF(rect).adjusted(1, 1, -1, -1), px(RADIUS), px(RADIUS))

        indent = row.depth * px(INDENT)
        middle = rect.center().y() + 1
        if row.stop:
            painter.setPen(QPen(colour("breakpoint"), px(1.2)))
            filled = row.stop == EVERY
            painter.setBrush(colour("breakpoint") if filled else Qt.BrushStyle.NoBrush)
            painter.drawEllipse(QRectF(px(STOP_LEFT), middle - px(STOP) / 2, px(STOP), px(STOP)))
        box = QRectF(px(LEFT) + indent, middle - px(MARK) / 2, px(MARK), px(MARK))
        mark, tone = self._mark(row)
        width = 1.2 if mark is Mark.DOT else 1.4
        draw_mark(painter, mark, box, colour(tone), width * style.scale)
        right = rect.right() - px(RIGHT)
        if row.opened is not None:
            square = QRectF(right - px(MARK), box.y(), px(MARK), px(MARK))
            chevron = Mark.CHEVRON_DOWN if row.opened else Mark.CHEVRON_RIGHT
            draw_mark(
                painter, chevron, square, colour(text if row.current else "faint"), style.scale
            )
            right -= px(MARK)

        label, detail = self._texts(row)
        area = QRect(px(TEXT) + indent, rect.y(), right - px(TEXT) - indent, rect.height())
        painter.setPen(colour(text))
        painter.setFont(self._strong if row.current else self._body)
        flags = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(area, flags | Qt.AlignmentFlag.AlignLeft, label)
        if detail:
            muted = "muted" if row.progress is Progress.DONE else text
            painter.setPen(colour(muted))
            painter.setFont(self._mono)
            painter.drawText(area, flags | Qt.AlignmentFlag.AlignRight, detail)

    def _texts(self, row: ShownRow) -> tuple[str, str]:
        """Label and detail, elided to fit beside each other; the label gives way first."""
        key = (row.label, row.detail, row.depth, row.current, self.viewport().width())
        found = self._elided.get(key)
        if found is None:
            found = self._elided[key] = self._fitted(row)
        return found

    def _fitted(self, row: ShownRow) -> tuple[str, str]:
        px = self._style.px
        metrics = self._strong_metrics if row.current else self._body_metrics
        room = self.viewport().width() - px(TEXT) - row.depth * px(INDENT) - px(RIGHT)
        detail = self._mono_metrics.elidedText(
            row.detail, Qt.TextElideMode.ElideRight, int(room * 0.62)
        )
        taken = self._mono_metrics.horizontalAdvance(detail) + px(GAP) if detail else 0
        label = metrics.elidedText(row.label, Qt.TextElideMode.ElideRight, room - taken)
        return label, detail

    @staticmethod
    def _mark(row: ShownRow) -> tuple[Mark, str]:
        if row.current:
            return Mark.NOW, "inverse_text"
        if row.progress is Progress.NOW:
            return Mark.OPEN, "text"
        return (Mark.TICK, "good") if row.progress is Progress.DONE else (Mark.DOT, "faint")

    def event(self, event: QEvent) -> bool:
        # While the keyboard is here, the arrows belong to the tree and not to the window.
        if (
            event.type() is QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and (event.key() in KEYS or _asks_to_stop(event))
        ):
            event.accept()
            return True
        return super().event(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            index = self._row_at(event.pos())
            row = self._rows[index] if index >= 0 else None
            whole = "" if row is None else f"{row.label}  {row.detail}".strip()
            cut = row is not None and self._texts(row) != (row.label, row.detail)
            show_tip(event.globalPos(), whole if cut else "", self.viewport())
            return True
        if event.type() is QEvent.Type.Leave:
            self._hover(-1)
        return super().viewportEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._hover(self._row_at(event.position().toPoint()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            index = self._row_at(event.position().toPoint())
            if index >= 0:
                self._focused = index
                self._activate(index)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = event.key()
        if self._rows and _asks_to_stop(event):
            shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self._toggle_stop(self._focused, every=not shift)
            return
        if key not in KEYS or not self._rows:
            super().keyPressEvent(event)
            return
        row, last = self._rows[self._focused], len(self._rows) - 1
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self._activate(self._focused)
        elif key == Qt.Key.Key_Right and isinstance(row.row, BlockRow):
            self._set_open(row.row.layer, True)
        elif key == Qt.Key.Key_Left and isinstance(row.row, BlockRow):
            self._set_open(row.row.layer, False)
        elif key == Qt.Key.Key_Left and row.depth:
            self._focus(next(i for i in range(self._focused, -1, -1) if not self._rows[i].depth))
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            self._focus(self._focused + (1 if key == Qt.Key.Key_Down else -1))
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            self._focus(0 if key == Qt.Key.Key_Home else last)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        by_key = event.reason() is QContextMenuEvent.Reason.Keyboard
        index = self._focused if by_key else self._row_at(event.pos())
        menu = self.build_menu(index)
        if menu is not None:
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            corner = self.row_rect(index).bottomLeft()
            menu.popup(self.viewport().mapToGlobal(corner) if by_key else event.globalPos())

    def build_menu(self, index: int) -> QMenu | None:
        """What can be done with a row; None where it is no operation."""
        row = self._rows[index].row if 0 <= index < len(self._rows) else None
        if not isinstance(row, OperationRow):
            return None
        menu = QMenu(self)
        for words, key, every in ((EVERY, "B", True), (HERE, "Shift+B", False)):
            action = menu.addAction(f"Stop at this operation {words}\t{key}")
            action.setCheckable(True)
            action.setChecked(row.index in self._stops[0 if every else 1])
            action.triggered.connect(lambda _=False, to=every: self._toggle_stop(index, every=to))
        return menu

    def _toggle_stop(self, index: int, *, every: bool) -> None:
        row = self._rows[index].row
        if isinstance(row, OperationRow):
            self.stop_toggled.emit(row.index, every)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        current = next((i for i, row in enumerate(self._rows) if row.current), None)
        if current is not None:
            self._focused = current
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    def _activate(self, index: int) -> None:
        row = self._rows[index]
        if isinstance(row.row, BlockRow):
            self._set_open(row.row.layer, not row.opened)
        else:
            self.chosen.emit(row.row.index)

    def _set_open(self, layer: int, opened: bool) -> None:
        by_itself = self._view is not None and self._view.open_layer == layer
        if opened:
            self._closed.discard(layer)
            if not by_itself:
                self._opened.add(layer)
        else:
            self._opened.discard(layer)
            if by_itself:
                self._closed.add(layer)
        self._lay_out()

    def _focus(self, index: int) -> None:
        self._focused = max(0, min(index, len(self._rows) - 1))
        self.setAccessibleDescription(self._rows[self._focused].words)
        self._reveal(self._focused)
        self.viewport().update()

    def _hover(self, index: int) -> None:
        if index != self._hovered:
            self._hovered = index
            self.viewport().update()

    def _row_at(self, point: QPoint) -> int:
        index = (point.y() + self.verticalScrollBar().value()) // self._height
        return index if 0 <= index < len(self._rows) else -1

    def _lay_out(self) -> None:
        """Work out the visible rows of the view in hand."""
        before = self._rows
        rows: list[ShownRow] = []
        for row in self._view.rows if self._view else ():
            if isinstance(row, OperationRow):
                rows.append(self._operation(row, 0))
                continue
            by_itself = self._view is not None and self._view.open_layer == row.layer
            opened = row.layer in self._opened or (by_itself and row.layer not in self._closed)
            current = row.progress is Progress.NOW and not opened
            stop = "" if opened else self._stop_inside(row)
            rows.append(ShownRow(row, 0, row.label, "", row.progress, current, opened, stop))
            if opened:
                rows.extend(self._operation(each, 1) for each in row.operations)
        self._rows = tuple(rows)
        self._focused = max(0, min(self._focused, len(rows) - 1))
        if len(rows) != len(before):
            self.updateGeometry()
            self.resized.emit()
            self._update_all()
        else:
            # One step changes two rows, and only these are painted again.
            for index, (old, new) in enumerate(zip(before, rows, strict=True)):
                if old.looks != new.looks:
                    self.viewport().update(self.row_rect(index))
        self._set_range()

    def _operation(self, row: OperationRow, depth: int) -> ShownRow:
        every, here = self._stops
        stop = EVERY if row.index in every else HERE if row.index in here else ""
        current = row.progress is Progress.NOW
        return ShownRow(row, depth, row.label, row.detail, row.progress, current, None, stop)

    def _stop_inside(self, row: BlockRow) -> str:
        """A closed block carries the mark of the operations in it."""
        inside = {each.index for each in row.operations}
        every, here = self._stops
        return EVERY if inside & every else HERE if inside & here else ""

    def _update_all(self) -> None:
        self._elided.clear()
        self.viewport().update()

    def _set_range(self) -> None:
        bar, page = self.verticalScrollBar(), self.viewport().height()
        bar.setRange(0, max(0, len(self._rows) * self._height - page))
        bar.setPageStep(page)
        bar.setSingleStep(self._height)

    def _reveal(self, index: int) -> None:
        """Scroll so that a row and its neighbours are in sight."""
        bar, page = self.verticalScrollBar(), self.viewport().height()
        top, bottom = (index - 1) * self._height, (index + 2) * self._height
        if top < bar.value():
            bar.setValue(top)
        elif bottom > bar.value() + page:
            bar.setValue(bottom - page)

    def _measure(self) -> None:
        font = self._style.font
        self._height = self._style.px(ROW)
        self._body, self._strong, self._mono = (
            font(Face.BODY),
            font(Face.STRONG),
            font(Face.MONO_SMALL),
        )
        self._body_metrics, self._strong_metrics, self._mono_metrics = (
            QFontMetrics(self._body),
            QFontMetrics(self._strong),
            QFontMetrics(self._mono),
        )
        self.updateGeometry()
        self.resized.emit()
        self._update_all()


def _asks_to_stop(event: QKeyEvent) -> bool:
    none, shift = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
    return event.key() == Qt.Key.Key_B and event.modifiers() in (none, shift)
