"""The timeline: a block for each step, the playhead, breakpoints, and one more token at the end."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.timeline import EMPTY, TimelineView
from decoder_gui.widgets.timeline_branches import AT_ONCE, BranchScene, lines_height
from decoder_gui.widgets.timeline_layout import (
    END_WIDTH,
    GAP,
    MARGIN,
    TimelineLayout,
    arrange,
)
from decoder_gui.widgets.timeline_scene import BLOCK_HEIGHT, BLOCK_TOP, HEIGHT, TimelineScene
from decoder_gui.widgets.tips import show_tip

DRAG_INTERVAL = 16  # ms between two journeys while dragging


class Timeline(QWidget):
    """Travel through a run by pointing, dragging or keys.

    With many tokens the blocks become narrower; past the least width the timeline scrolls along
    with the playhead.

    Signals:
        seek_requested(step, operation): travel to an event; while dragging at most every 16 ms.
        breakpoint_toggled(step, operation): set or clear a breakpoint.
        decode_requested(): decode one more token.
        branch_chosen(int): enter another branch.
    """

    seek_requested = Signal(int, int)
    breakpoint_toggled = Signal(int, int)
    decode_requested = Signal()
    branch_chosen = Signal(int)

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._view = EMPTY
        self._layout = TimelineLayout()
        self._offset = 0.0
        self._hover: Cursor | None = None
        self._first_line = 0  # of the branches in sight
        self._hover_line: int | None = None
        self._dragging = False
        self._wanted: Cursor | None = None
        self._throttle = QTimer(self)
        self._throttle.setSingleShot(True)
        self._throttle.setInterval(DRAG_INTERVAL)
        self._throttle.timeout.connect(self._send)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Timeline")
        self._describe()

    # ---- what it shows

    def set_view(self, view: TimelineView, style: Style) -> None:
        """Show a moment; the playhead is brought into sight when it moved."""
        moved = view.cursor != self._view.cursor
        same = (
            view.blocks == self._view.blocks
            and view.lines == self._view.lines
            and style == self._style
        )
        if view == self._view and style == self._style:
            return
        restyled = style != self._style or len(view.lines) != len(self._view.lines)
        before, offset = self._view, self._offset
        self._view, self._style = view, style
        self._first_line = max(0, min(self._first_line, len(view.lines) - AT_ONCE))
        if not same or bool(view.end_text) != (self._layout.end.width > 0):
            self._arrange()
        if restyled:
            self.updateGeometry()
        if moved and not self._dragging:
            self._follow()
        self._describe()
        if same and offset == self._offset and _only_playhead(before, view):
            self._update_playhead(before)
        else:
            self.update()

    def _update_playhead(self, before: TimelineView) -> None:
        """Paint only between where the playhead was and where it is."""
        assert before.cursor is not None
        assert self._view.cursor is not None
        scene, reach = self.scene, self._style.px(8)
        places = [scene.event_x(before.cursor), scene.event_x(self._view.cursor)]
        left = int(min(places)) - reach
        self.update(left, 0, int(max(places)) + reach - left, self.height())

    def shown_text(self, step: int) -> str:
        """The words on a block as they fit, elided where they do not; empty where none do."""
        return self._layout.labels[step]

    @property
    def scene(self) -> TimelineScene:
        """Where everything is at present."""
        return TimelineScene(self._view, self._layout, self._style, self._offset)

    @property
    def branch_scene(self) -> BranchScene:
        """Where the other branches are at present."""
        px = self._style.px
        return BranchScene(
            self._view.lines,
            self._layout.lines,
            self._style,
            self.width(),
            self._offset,
            self._first_line,
            float(px(HEIGHT)),
            float(px(BLOCK_TOP + BLOCK_HEIGHT)),
        )

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(600), self._height())

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(200), self._height())

    def _height(self) -> int:
        return self._style.px(HEIGHT + lines_height(len(self._view.lines)))

    # ---- arrangement

    def _arrange(self) -> None:
        view = self._view
        self._layout = arrange(
            view.blocks, self.width(), self._style, end=bool(view.end_text), lines=view.lines
        )
        self._scroll_to(self._offset)

    def _scroll_to(self, offset: float) -> None:
        offset = max(0.0, min(offset, self._layout.total - self.width()))
        if offset != self._offset:
            self._offset = offset
            self.update()

    def _follow(self) -> None:
        cursor = self._view.cursor
        if cursor is None or cursor.step >= len(self._layout.spans):
            return
        span, edge = self._layout.spans[cursor.step], self._style.px(MARGIN + END_WIDTH + GAP)
        if span.right + edge > self._offset + self.width():
            self._scroll_to(span.right + edge - self.width())
        if span.left - self._style.px(MARGIN) < self._offset:
            self._scroll_to(span.left - self._style.px(MARGIN))

    def _describe(self) -> None:
        view = self._view
        if view.cursor is None:
            self.setAccessibleDescription("Nothing has been computed yet")
            return
        self.setAccessibleDescription(
            f"{view.describe(view.cursor)}. {len(view.blocks)} steps recorded, "
            f"{len(view.breakpoints)} breakpoints."
            + (
                f" In {view.branch}; {len(view.lines)} other branches: "
                + ", ".join(line.name for line in view.lines)
                if view.lines
                else ""
            )
        )

    # ---- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self._view.blocks:
            painter.setFont(self._style.font(Face.SMALL))
            painter.setPen(self._style.colour("muted"))
            painter.drawText(
                self.rect().adjusted(self._style.px(MARGIN), 0, 0, 0),
                Qt.AlignmentFlag.AlignVCenter,
                "Nothing has been computed yet. Prefill runs the prompt.",
            )
        else:
            if self._view.lines:
                self.branch_scene.paint(painter, self._hover_line)
            self.scene.paint(painter, self._hover, event.rect())
        if self.hasFocus():
            painter.setPen(QPen(self._style.colour("outline"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            radius = self._style.px(4)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), radius, radius)

    # ---- pointing

    def _in_strip(self, y: float) -> bool:
        return y < self._style.px(BLOCK_TOP - 1)

    def _breakpoint_at(self, x: float) -> Cursor | None:
        """The breakpoint under the pointer, else the event there: a dot is easier to hit."""
        reach = self._style.px(6)
        near = [w for w in self._view.breakpoints if abs(self.scene.event_x(w) - x) <= reach]
        if near:
            return min(near, key=lambda where: abs(self.scene.event_x(where) - x))
        return self.scene.event_at(x) if x < self._layout.end.left - self._offset else None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is not Qt.MouseButton.LeftButton or not self._view.blocks:
            return
        x, y = event.position().x(), event.position().y()
        if y >= self._style.px(HEIGHT):
            line = self.branch_scene.line_at(y)
            if line is not None:
                self.branch_chosen.emit(self._view.lines[line].branch)
            return
        if self._layout.end.width and self.scene.end_box().contains(event.position()):
            if self._view.can_decode:
                self.decode_requested.emit()
            return
        if self._in_strip(y):
            where = self._breakpoint_at(x)
            if where is not None:
                self.breakpoint_toggled.emit(where.step, where.operation)
            return
        self._dragging = True
        self._travel(x)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        x, y = event.position().x(), event.position().y()
        if self._dragging:
            if x < 0 or x > self.width():
                self._scroll_to(self._offset + (x if x < 0 else x - self.width()) / 4)
            self._travel(x)
            return
        hover = self._breakpoint_at(x) if self._in_strip(y) and self._view.blocks else None
        if hover != self._hover:
            self._hover = hover
            self.update()
        on_end = self._layout.end.width and self.scene.end_box().contains(event.position())
        line = self.branch_scene.line_at(y)
        if line != self._hover_line:
            self._hover_line = line
            self.update()
        hand = hover is not None or line is not None or (on_end and self._view.can_decode)
        self.setCursor(Qt.CursorShape.PointingHandCursor if hand else Qt.CursorShape.ArrowCursor)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._dragging:
            self._dragging = False
            self._throttle.stop()
            self._send()

    def leaveEvent(self, event: QEvent) -> None:
        if self._hover is not None or self._hover_line is not None:
            self._hover = self._hover_line = None
            self.update()

    def _travel(self, x: float) -> None:
        self._wanted = self.scene.event_at(x)
        if not self._throttle.isActive():
            self._send()
            self._throttle.start()

    def _send(self) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is not None and wanted != self._view.cursor:
            self.seek_requested.emit(wanted.step, wanted.operation)

    def wheelEvent(self, event: QWheelEvent) -> None:
        delta = event.angleDelta()
        if event.position().y() >= self._style.px(HEIGHT) and delta.y():
            self._scroll_lines(-1 if delta.y() > 0 else 1)
            event.accept()
            return
        self._scroll_to(self._offset - (delta.x() or delta.y()) * 0.5)
        event.accept()

    def _scroll_lines(self, by: int) -> None:
        first = max(0, min(self._first_line + by, len(self._view.lines) - AT_ONCE))
        if first != self._first_line:
            self._first_line = first
            self.update()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if not self._view.blocks:
            return
        menu = self.build_menu(float(event.pos().x()))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())

    def build_menu(self, x: float) -> QMenu:
        """The menu for a place in the widget."""
        menu = QMenu(self)
        where = self._breakpoint_at(x)
        if where is not None:
            menu.addSection(self._view.describe(where))
            held = where in self._view.breakpoints
            toggle = menu.addAction("Remove the breakpoint" if held else "Set a breakpoint here")
            toggle.triggered.connect(
                lambda: self.breakpoint_toggled.emit(where.step, where.operation)
            )
            go = menu.addAction("Go here")
            go.triggered.connect(lambda: self.seek_requested.emit(where.step, where.operation))
        clear = menu.addAction("Remove all breakpoints")
        clear.setEnabled(bool(self._view.breakpoints))
        clear.triggered.connect(self._clear_breakpoints)
        return menu

    def _clear_breakpoints(self) -> None:
        for where in self._view.breakpoints:
            self.breakpoint_toggled.emit(where.step, where.operation)

    # ---- words and keys

    def tooltip_at(self, point: QPointF) -> str:
        """What pointing at a place says."""
        line = self.branch_scene.line_at(point.y())
        if line is not None or not self._view.blocks:
            return "" if line is None else self._view.lines[line].words
        if self._layout.end.width and self.scene.end_box().contains(point):
            return self._view.end_reason or "Decode one more token: the one the draw falls on"
        if self._in_strip(point.y()):
            where = self._breakpoint_at(point.x())
            if where is None:
                return ""
            held = where in self._view.breakpoints
            return ("Breakpoint: " if held else "Click to set a breakpoint: ") + (
                self._view.describe(where)
            )
        where = self.scene.event_at(point.x())
        if where is None:
            return ""
        return f"{self._view.blocks[where.step].summary}\n{self._view.describe(where)}"

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            text = self.tooltip_at(QPointF(event.pos()))
            show_tip(event.globalPos(), text, self)
            return True
        if (
            isinstance(event, QKeyEvent)
            and event.type() is QEvent.Type.ShortcutOverride
            and self._meant(event)
        ):
            # Within the timeline these keys are its own, before the window's shortcuts.
            event.accept()
            return True
        return super().event(event)

    def _meant(self, event: QKeyEvent) -> bool:
        return event.key() in (
            Qt.Key.Key_Left,
            Qt.Key.Key_Right,
            Qt.Key.Key_Return,
            Qt.Key.Key_Enter,
        )

    def keyPressEvent(self, event: QKeyEvent) -> None:
        cursor, blocks = self._view.cursor, self._view.blocks
        if cursor is None or not self._meant(event):
            super().keyPressEvent(event)
            return
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self._view.can_decode:
                self.decode_requested.emit()
            return
        direction = 1 if event.key() == Qt.Key.Key_Right else -1
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            step = max(0, min(len(blocks) - 1, cursor.step + direction))
            target = Cursor(step, min(cursor.operation, blocks[step].events - 1))
        else:
            target = self._neighbour(cursor, direction)
        if target != cursor:
            self.seek_requested.emit(target.step, target.operation)

    def _neighbour(self, cursor: Cursor, direction: int) -> Cursor:
        blocks, operation = self._view.blocks, cursor.operation + direction
        if 0 <= operation < blocks[cursor.step].events:
            return Cursor(cursor.step, operation)
        step = cursor.step + direction
        if 0 <= step < len(blocks) and blocks[step].events:
            return Cursor(step, 0 if direction > 0 else blocks[step].events - 1)
        return cursor

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange()
        self._follow()

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.update()


def _only_playhead(before: TimelineView, now: TimelineView) -> bool:
    """Whether the cursor has moved within its step, and nothing else is different."""
    if before.cursor is None or now.cursor is None or before.cursor.step != now.cursor.step:
        return False
    return replace(before, cursor=now.cursor) == now
