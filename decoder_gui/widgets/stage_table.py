"""Candidates under the stages of the sampler: a bar at every stage, and where each one fell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
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
from decoder_gui.viewdata.sampling_pipeline import Pipeline, PipelineRow, StageCell
from decoder_gui.widgets import bar_marks
from decoder_gui.widgets.tips import show_tip

ROW = 22  # pixels at scale 1
_UP_DOWN = frozenset(
    {
        Qt.Key.Key_Up,
        Qt.Key.Key_Down,
        Qt.Key.Key_Home,
        Qt.Key.Key_End,
        Qt.Key.Key_Return,
        Qt.Key.Key_Enter,
    }
)


@dataclass(frozen=True)
class _Brushes:
    """Fonts and colours of the cells: looked up once a paint, not once a cell."""

    number: QFont
    words: QFont
    text: QColor
    muted: QColor
    bar: QColor


class StageTable(QAbstractScrollArea):
    """Rows of a :class:`Pipeline`; arrows move the row in hand.

    Signals:
        pointed(int): index of the row that the arrows or the mouse have reached.
        entered(int): the token id of the row on which Enter was pressed or the mouse pressed twice.
    """

    pointed = Signal(int)
    entered = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._view = Pipeline()
        self._current = 0
        self._edges: tuple[int, ...] = (0,)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Candidates at every stage")
        self.verticalScrollBar().valueChanged.connect(self.viewport().update)

    @property
    def rows(self) -> Sequence[PipelineRow]:
        """The rows shown."""
        return self._view.rows

    @property
    def current(self) -> int:
        """Index of the row in hand."""
        return self._current

    def set_view(self, view: Pipeline, edges: tuple[int, ...]) -> None:
        """Show rows; ``edges`` are the left edges of the stages' columns and the last right one."""
        if view is self._view and edges == self._edges:
            return
        before = self._token(self._current)
        self._view, self._edges = view, edges
        found = view.rows[0].token_id if view.rows and view.rows[0].found else before
        self._current = view.place_of(found)
        self._set_range()
        self._describe()
        self.viewport().update()

    def set_style(self, style: Style) -> None:
        self._style = style
        self._set_range()
        self.viewport().update()

    def row_rect(self, index: int) -> QRect:
        """Where a row is, in the viewport's coordinates."""
        height = self._style.px(ROW)
        top = index * height - self.verticalScrollBar().value()
        return QRect(0, top, self.viewport().width(), height)

    def bar_length(self, probability: float) -> float:
        """Pixels of a bar in any column."""
        return self._lane() * min(1.0, probability / self._view.full)

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(600), self._style.px(ROW * 12))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(240), self._style.px(ROW * 3))

    def _token(self, index: int) -> int:
        return self._view.rows[index].token_id if index < len(self._view.rows) else -1

    def _lane(self) -> int:
        width = self._edges[1] - self._edges[0] if len(self._edges) > 1 else 0
        return max(1, width - self._style.px(12))

    def _set_range(self) -> None:
        bar, height = self.verticalScrollBar(), self._style.px(ROW)
        space = self.viewport().height()
        bar.setPageStep(max(1, space))
        bar.setSingleStep(height)
        bar.setRange(0, max(0, len(self._view.rows) * height - space))

    def _describe(self) -> None:
        if self._current < len(self._view.rows):
            self.setAccessibleDescription(self._view.rows[self._current].spoken)

    # ---- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.fillRect(self.viewport().rect(), self._style.colour("panel"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        style = self._style
        self._brushes = _Brushes(
            style.font(Face.MONO_SMALL),
            style.font(Face.SMALL),
            style.colour("text"),
            style.colour("muted"),
            style.colour("accent"),
        )
        height = self._style.px(ROW)
        above = self.verticalScrollBar().value() // height
        below = above + self.viewport().height() // height + 2
        for index in range(above, min(len(self._view.rows), below)):
            self._paint_row(painter, index, self._view.rows[index], self.row_rect(index))
        painter.end()

    def _paint_row(self, painter: QPainter, index: int, row: PipelineRow, rect: QRect) -> None:
        style, px = self._style, self._style.px
        if index == self._current:
            painter.setPen(
                QPen(style.colour("outline"), px(1.5)) if self.hasFocus() else Qt.PenStyle.NoPen
            )
            painter.setBrush(style.colour("empty"))
            painter.drawRoundedRect(QRectF(rect).adjusted(1, 1, -1, -1), px(3), px(3))
        kept = row.cells[-1].inside
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(self._brushes.number)
        painter.setPen(self._brushes.muted)
        rank = QRect(0, rect.top(), px(34), rect.height())
        painter.drawText(rank, middle | Qt.AlignmentFlag.AlignRight, f"{row.rank:,}")
        if row.landing:
            mark = QPointF(px(42), rect.center().y() + 1.0)
            bar_marks.landing(painter, style, mark)
        font = style.font(Face.MONO_STRONG if row.landing else Face.MONO)
        painter.setFont(font)
        painter.setPen(style.colour("text" if kept else "muted"))
        room = self._edges[0] - px(56)
        name = row.text + (" ↺" if row.occurred else "")
        text = QFontMetrics(font).elidedText(name, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QRect(px(50), rect.top(), room, rect.height()), middle, text)
        before: StageCell | None = None
        for at, cell in enumerate(row.cells[: len(self._edges) - 1]):
            self._paint_cell(painter, at, cell, before, rect)
            before = cell

    def _paint_cell(
        self, painter: QPainter, at: int, cell: StageCell, before: StageCell | None, rect: QRect
    ) -> None:
        px, brushes = self._style.px, self._brushes
        left = self._edges[at] + px(6)
        bar = QRectF(left, rect.bottom() - px(5), 0, px(4))
        text = QRect(left, rect.top(), self._lane(), rect.height() - px(4))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if cell.inside:
            painter.setPen(Qt.PenStyle.NoPen)
            length = max(1.0, self.bar_length(cell.probability))
            if length < px(4):  # too short for its corners to be seen
                painter.fillRect(bar.adjusted(0, 0, length, 0), brushes.bar)
            else:
                painter.setBrush(brushes.bar)
                painter.drawRoundedRect(bar.adjusted(0, 0, length, 0), px(1.5), px(1.5))
            painter.setFont(brushes.number)
            painter.setPen(brushes.text)
            painter.drawText(text, right, cell.text)
        elif cell.fell:
            fallen = before.probability if before is not None else 0.0
            bar_marks.cut(painter, self._style, bar.adjusted(0, 0, self.bar_length(fallen), 0))
            painter.setFont(brushes.words)
            painter.setPen(brushes.muted)
            painter.drawText(text, right, f"✕ {cell.text}")

    # ---- input

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._set_range()

    def event(self, event: QEvent) -> bool:
        if (
            event.type() is QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() in _UP_DOWN
            and not event.modifiers()
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        last = len(self._view.rows) - 1
        targets = {
            Qt.Key.Key_Up: self._current - 1,
            Qt.Key.Key_Down: self._current + 1,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: last,
        }
        key = Qt.Key(event.key())
        if key in targets:
            self._point(max(0, min(targets[key], last)))
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and last >= 0:
            self.entered.emit(self._token(self._current))
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self._row_at(round(event.position().y()))
        if index is not None:
            self._point(index)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        index = self._row_at(round(event.position().y()))
        if index is not None:
            self.entered.emit(self._token(index))

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            index = self._row_at(event.pos().y())
            if index is not None:
                show_tip(event.globalPos(), self._view.rows[index].spoken, self.viewport())
                return True
        return super().viewportEvent(event)

    def _row_at(self, y: int) -> int | None:
        index = (y + self.verticalScrollBar().value()) // self._style.px(ROW)
        return index if 0 <= index < len(self._view.rows) else None

    def _point(self, index: int) -> None:
        self._current = index
        rect, bar = self.row_rect(index), self.verticalScrollBar()
        if rect.top() < 0:
            bar.setValue(bar.value() + rect.top())
        elif rect.bottom() > self.viewport().height():
            bar.setValue(bar.value() + rect.bottom() - self.viewport().height())
        self._describe()
        self.pointed.emit(index)
        self.viewport().update()
