"""Candidates for the next token, one a row: raw, tempered and final probability, and the cuts."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFontMetrics,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.next_token import BarRow, NextToken
from decoder_gui.widgets import bar_marks
from decoder_gui.widgets.tips import show_tip

_LEAST_ROW, _MOST_ROW = 20, 34  # pixels at scale 1
_TAKE = frozenset({Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space})
_OWN = _TAKE | {Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Home, Qt.Key.Key_End}


@dataclass(frozen=True)
class _Columns:
    """Horizontal extents in pixels: where each column begins and how wide it is."""

    label: tuple[int, int]
    mark: tuple[int, int]
    bar: tuple[int, int]
    raw: tuple[int, int]
    tempered: tuple[int, int]  # of width 0 where there is no room for it
    final: tuple[int, int]


class ProbabilityBars(QAbstractScrollArea):
    """The candidates; see :class:`decoder_gui.viewdata.next_token.BarRow`.

    Arrows move the row in hand, Enter takes it, a click takes the row under the pointer.

    Signals:
        taken(int): the token id of the row that was clicked or entered.
    """

    taken = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = NextToken()
        self._style = Style()
        self._current = 0
        self._hovered = -1
        self._columns: _Columns | None = None
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setMouseTracking(True)
        self.viewport().setCursor(Qt.CursorShape.PointingHandCursor)
        # It paints its own ground, so that a slider's tick repaints nothing behind it.
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Candidates for the next token")
        self.verticalScrollBar().valueChanged.connect(self.viewport().update)

    # --- what it shows ------------------------------------------------------------------------

    @property
    def rows(self) -> tuple[BarRow, ...]:
        """The rows shown, top to bottom."""
        return self._view.rows

    @property
    def current(self) -> int:
        """Index of the row that the arrow keys have reached."""
        return self._current

    def set_view(self, view: NextToken) -> None:
        if view == self._view:
            return
        same_widths = [row.text for row in view.rows] == [row.text for row in self._view.rows]
        self._view = view
        self._current = max(0, min(self._current, len(view.rows) - 1))
        if not same_widths or bool(view.observed) != bool(self._view.observed):
            self._columns = None
            self._set_scroll_range()
        self._describe()
        self.viewport().update()

    def set_style(self, style: Style) -> None:
        self._style = style
        self._columns = None
        self._set_scroll_range()
        self.updateGeometry()
        self.viewport().update()

    def row_rect(self, index: int) -> QRect:
        """Where a row is, in the viewport's coordinates."""
        height = self._row_height()
        top = self._head_height() + index * height - self.verticalScrollBar().value()
        return QRect(0, top, self.viewport().width(), height)

    def bar_length(self, probability: float) -> float:
        """Pixels of a bar that stands for a probability."""
        width = self._column_extents().bar[1]
        return width * min(1.0, probability / self._view.full_width)

    def sizeHint(self) -> QSize:
        # Five rows are the least; the panel gives it whatever else there is.
        return QSize(self._style.px(300), self._style.px(_LEAST_ROW * 5) + self._head_height())

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(160), self._style.px(_LEAST_ROW * 5) + self._head_height())

    # --- geometry -----------------------------------------------------------------------------

    def _head_height(self) -> int:
        return self._style.px(17)

    def _row_height(self) -> int:
        """Rows grow with the space, up to a point, and from there on leave it empty."""
        space = self.viewport().height() - self._head_height()
        fair = space // max(1, len(self._view.rows))
        return max(self._style.px(_LEAST_ROW), min(fair, self._style.px(_MOST_ROW)))

    def _row_at(self, point: QPoint) -> int:
        if point.y() < self._head_height():
            return -1
        offset = point.y() - self._head_height() + self.verticalScrollBar().value()
        index = offset // self._row_height()
        return index if 0 <= index < len(self._view.rows) else -1

    def _set_scroll_range(self) -> None:
        bar = self.verticalScrollBar()
        space = self.viewport().height() - self._head_height()
        bar.setPageStep(max(1, space))
        bar.setSingleStep(self._row_height())
        bar.setRange(0, max(0, len(self._view.rows) * self._row_height() - space))
        self._columns = None

    def _column_extents(self) -> _Columns:
        if self._columns is None:
            self._columns = self._lay_out()
        return self._columns

    def _lay_out(self) -> _Columns:
        px, width = self._style.px, self.viewport().width()
        metrics = QFontMetrics(self._style.font(Face.MONO))
        number = metrics.horizontalAdvance("100.0%")
        cut = max(number, metrics.horizontalAdvance("greedy"))
        gap = px(8)
        widest = max((metrics.horizontalAdvance(row.text) for row in self._view.rows), default=0)
        label = max(px(40), min(widest + 2, width * 3 // 10))
        mark = px(12)
        with_tempered = width >= px(420)
        right = width - (px(6) if self.verticalScrollBar().maximum() else 0)
        final = (right - cut, cut)
        head = QFontMetrics(self._style.font(Face.TINY)).horizontalAdvance("tempered")
        second = max(number, head) if with_tempered else 0
        tempered = (final[0] - gap - second, second) if with_tempered else (final[0], 0)
        raw = (tempered[0] - gap - number, number)
        left = label + mark + px(2)
        bar = (left, max(px(24), raw[0] - gap - left))
        return _Columns((0, label), (label, mark), bar, raw, tempered, final)

    # --- painting -----------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.fillRect(self.viewport().rect(), self._style.colour("panel"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        columns = self._column_extents()
        rows = self._view.rows
        if rows:
            self._paint_head(painter, columns)
            top, height = self._head_height(), self._row_height()
            space = self.viewport().height() - top
            painter.setClipRect(0, top, self.viewport().width(), space)
            above = self.verticalScrollBar().value() // height
            for index in range(above, min(len(rows), above + space // height + 2)):
                self._paint_row(painter, columns, index, rows[index], self.row_rect(index))
        painter.end()

    def _paint_head(self, painter: QPainter, columns: _Columns) -> None:
        """The scale of the bars and the names of the columns."""
        painter.setFont(self._style.font(Face.TINY))
        painter.setPen(self._style.colour("muted"))
        height = self._head_height() - self._style.px(2)
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        x, width = columns.bar
        painter.drawText(QRect(x, 0, width, height), left, "0")
        painter.drawText(QRect(x, 0, width, height), right, self._view.full_width_text)
        heads = [(columns.raw, "raw"), (columns.final, "final")]
        if columns.tempered[1]:
            heads.append((columns.tempered, "tempered"))
        for (x, width), word in heads:
            painter.drawText(QRect(x - width, 0, 2 * width, height), right, word)

    def _paint_row(
        self, painter: QPainter, columns: _Columns, index: int, row: BarRow, rect: QRect
    ) -> None:
        style = self._style
        if index == self._hovered or (index == self._current and self.hasFocus()):
            ground = style.colour("border", 0.5 if index != self._current else 0.8)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(ground)
            painter.drawRoundedRect(rect, style.px(3), style.px(3))
        if index == self._current and self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(style.colour("outline"), style.px(1.5)))
            painter.drawRoundedRect(QRectF(rect).adjusted(1, 1, -1, -1), style.px(3), style.px(3))
        tone = "muted" if row.cut else "text"
        face = Face.MONO_STRONG if row.landing else Face.MONO
        font = style.font(face)
        painter.setFont(font)
        painter.setPen(style.colour(tone))
        middle = Qt.AlignmentFlag.AlignVCenter
        label = QFontMetrics(font).elidedText(
            row.text, Qt.TextElideMode.ElideRight, columns.label[1]
        )
        painter.drawText(_cell(columns.label, rect), Qt.AlignmentFlag.AlignLeft | middle, label)
        right = Qt.AlignmentFlag.AlignRight | middle
        painter.drawText(_cell(columns.final, rect), right, row.final_text)
        painter.setFont(style.font(Face.MONO))
        painter.setPen(style.colour("muted"))
        painter.drawText(_cell(columns.raw, rect), right, row.raw_text)
        if columns.tempered[1]:
            painter.drawText(_cell(columns.tempered, rect), right, row.tempered_text)
        self._paint_bar(painter, columns, row, rect)
        if row.landing:
            left, width = columns.mark
            centre = QPointF(left + width / 2, rect.center().y() + 1.0)
            bar_marks.landing(painter, style, centre)
        if row.taken:
            self._paint_tag(painter, columns, row, rect, "taken")

    def _paint_bar(self, painter: QPainter, columns: _Columns, row: BarRow, rect: QRect) -> None:
        style = self._style
        x = float(columns.bar[0])
        height = min(style.px(18), max(style.px(13), rect.height() - style.px(9)))
        top = rect.center().y() + 1 - height / 2
        lane = QRectF(x, top, 0, height)

        def long(probability: float) -> QRectF:
            return lane.adjusted(0, 0, self.bar_length(probability), 0)

        if row.cut:
            bar_marks.cut(painter, style, long(row.raw))
        elif row.final > 0:
            bar_marks.final(painter, style, long(row.final))
        bar_marks.tempered(painter, style, long(row.tempered))
        bar_marks.raw(painter, style, long(row.raw))
        if row.observed is not None:
            bar_marks.observed(painter, style, long(row.observed))

    def _paint_tag(
        self, painter: QPainter, columns: _Columns, row: BarRow, rect: QRect, word: str
    ) -> None:
        """A word in the bar's lane that hides no mark: beside a short bar, within a long one."""
        style = self._style
        font = style.font(Face.TINY)
        metrics = QFontMetrics(font)
        width, height = metrics.horizontalAdvance(word) + style.px(8), style.px(14)
        first_mark = self.bar_length(min(row.raw, row.tempered, row.final or row.raw))
        inside = first_mark > width + style.px(8)
        left = columns.bar[0] + (style.px(4) if inside else columns.bar[1] - width)
        plate = QRectF(left, rect.center().y() + 1 - height / 2, width, height)
        painter.setBrush(style.colour("panel"))
        painter.setPen(QPen(style.colour("border_strong"), 1))
        painter.drawRoundedRect(plate, style.px(3), style.px(3))
        painter.setFont(font)
        painter.setPen(style.colour("text"))
        painter.drawText(plate, Qt.AlignmentFlag.AlignCenter, word)

    # --- input --------------------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._columns = None
        self._set_scroll_range()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._hover(self._row_at(event.position().toPoint()))

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._hover(-1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self._row_at(event.position().toPoint())
        if index >= 0:
            self._select(index)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        # On release, so that a press can be thought better of by moving away.
        index = self._row_at(event.position().toPoint())
        if event.button() is Qt.MouseButton.LeftButton and index == self._current >= 0:
            self.taken.emit(self._view.rows[index].token_id)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        last = len(self._view.rows) - 1
        moves = {
            Qt.Key.Key_Up: self._current - 1,
            Qt.Key.Key_Down: self._current + 1,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        if event.key() in moves and last >= 0:
            self._select(max(0, min(last, moves[Qt.Key(event.key())])))
        elif event.key() in _TAKE and last >= 0:
            self.taken.emit(self._view.rows[self._current].token_id)
        else:
            event.ignore()

    def event(self, event: QEvent) -> bool:
        if (
            event.type() is QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() in _OWN
            and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        ):
            event.accept()
            return True
        return super().event(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            index = self._row_at(event.pos())
            text = self._view.rows[index].spoken if index >= 0 else ""
            show_tip(event.globalPos(), text.replace("; ", "\n"), self)
            return True
        return super().viewportEvent(event)

    def _hover(self, index: int) -> None:
        if index != self._hovered:
            self._hovered = index
            self.viewport().update()

    def _select(self, index: int) -> None:
        self._current = index
        rect, bar = self.row_rect(index), self.verticalScrollBar()
        top = self._head_height()
        if rect.top() < top:
            bar.setValue(bar.value() + rect.top() - top)
        elif rect.bottom() > self.viewport().height():
            bar.setValue(bar.value() + rect.bottom() - self.viewport().height())
        self._describe()
        self.viewport().update()

    def _describe(self) -> None:
        rows = self._view.rows
        self.setAccessibleDescription(rows[self._current].spoken if rows else self._view.refusal)


def _cell(extent: tuple[int, int], rect: QRect) -> QRect:
    return QRect(extent[0], rect.top(), extent[1], rect.height())
