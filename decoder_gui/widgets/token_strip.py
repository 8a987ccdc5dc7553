"""All tokens of a run in one row that scrolls; only what is in sight is painted."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, groupby

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.token_strip import EMPTY, WHITE_SPACE, TokenCell, TokenStripView
from decoder_gui.widgets.tips import show_tip
from model.trace import Phase

# Pixels at scale 1, as in the design picture, with a line more for the log-probability.
CELL_HEIGHT = 54.0
GAP, PAD, OUTSET = 4.0, 9.0, 4.0
RADIUS, UNDERLINE = 5.0, 3.0
TOKEN_TOP, TOKEN_HEIGHT = 3.0, 20.0
POSITION_TOP, POSITION_HEIGHT = 22.0, 13.0
NUMBER_TOP, NUMBER_HEIGHT = 35.0, 13.0
SURPRISE_OPACITY = 0.55  # of the ground behind the number of a token that nobody expected
READABLE = 0.2  # share of the colour on which muted text would not stand out enough
MOST_CHARACTERS = 24  # a longer token is elided, the tooltip has the whole
PENDING_TEXT = "?"

_FACES = (Face.TOKEN, Face.TINY, Face.MONO_TINY, Face.SMALL)
_KEYS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_End)


class TokenStrip(QWidget):
    """The row of tokens.

    Signals:
        token_chosen(position): go to where this token was processed.
    """

    token_chosen = Signal(int)

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._view = EMPTY
        self._lefts: list[float] = []
        self._widths: list[float] = []
        self._text_widths: dict[str, float] = {}
        self._fonts = {face: style.font(face) for face in _FACES}
        self._offset = 0.0
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        self.setAccessibleName("Tokens")
        self._describe()

    # ---- what it shows

    def set_view(self, view: TokenStripView, style: Style) -> None:
        """Show a moment; the token in hand is brought into sight when it changed."""
        before, restyled = self._view, style != self._style
        if view == before and not restyled:
            return
        self._view, self._style = view, style
        if restyled:
            self._text_widths.clear()
            self._fonts = {face: style.font(face) for face in _FACES}
            self.updateGeometry()
        if restyled or view.cells is not before.cells or view.pending != before.pending:
            self._arrange()
        if restyled or view.in_hand != before.in_hand or view.pending != before.pending:
            self._follow()
        self._describe()
        self.update()

    def shown_text(self, position: int) -> str:
        """The token as it stands in its cell."""
        return _short(self._view.cells[position].text)

    def shown_number(self, position: int) -> str:
        """The log-probability as it stands in the cell, empty while it is not computed."""
        return self._view.shown_log_probability(position)

    def cell_box(self, position: int) -> QRectF:
        """Where a cell is in the widget; ``len(cells)`` is the pending one."""
        px = self._style.px
        return QRectF(
            self._lefts[position] - self._offset,
            px(OUTSET),
            self._widths[position],
            px(CELL_HEIGHT),
        )

    def position_at(self, x: float) -> int | None:
        """The token at a place in the widget, None beside all of them."""
        index = bisect_right(self._lefts, x + self._offset) - 1
        inside = 0 <= index < len(self._view.cells)
        if inside and x + self._offset <= self._lefts[index] + self._widths[index]:
            return index
        return None

    def sizeHint(self) -> QSize:
        px = self._style.px
        return QSize(px(600), px(CELL_HEIGHT) + 2 * px(OUTSET))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(120), self.sizeHint().height())

    # ---- arrangement

    def _arrange(self) -> None:
        px = self._style.px
        gap, self._widths = px(GAP), [self._cell_width(cell) for cell in self._view.cells]
        if self._view.pending is not None:
            self._widths.append(self._width_of(PENDING_TEXT, Face.TOKEN) + 2 * px(PAD))
        ends = accumulate((width + gap for width in self._widths), initial=float(px(OUTSET)))
        self._lefts = list(ends)[: len(self._widths)]
        self._scroll_to(self._offset)

    def _cell_width(self, cell: TokenCell) -> float:
        token = self._width_of(_short(cell.text), Face.TOKEN) + 2 * self._style.px(PAD)
        # Room for the number is kept from the start, so that nothing moves when it appears.
        number = self._width_of(cell.shown_log_probability, Face.MONO_TINY)
        position = self._width_of(_position(cell), Face.TINY)
        return max(token, max(number, position) + 2 * self._style.px(4))

    def _width_of(self, text: str, face: Face) -> float:
        key = f"{face.name} {text}"
        width = self._text_widths.get(key)
        if width is None:
            width = QFontMetricsF(self._fonts[face]).horizontalAdvance(text)
            self._text_widths[key] = width
        return width

    def _total(self) -> float:
        if not self._widths:
            return 0.0
        return self._lefts[-1] + self._widths[-1] + self._style.px(OUTSET)

    def _scroll_to(self, offset: float) -> None:
        offset = max(0.0, min(offset, self._total() - self.width()))
        if offset != self._offset:
            self._offset = offset
            self.update()

    def _follow(self) -> None:
        here = self._view.in_hand
        if here is None or here >= len(self._widths):
            return
        # A neighbour on either side stays in sight, so that one sees where it goes on.
        after = min(here + 1, len(self._widths) - 1)
        right = self._lefts[after] + self._widths[after] + self._style.px(OUTSET)
        left = self._lefts[max(0, here - 1)] - self._style.px(OUTSET)
        if right > self._offset + self.width():
            self._scroll_to(right - self.width())
        if left < self._offset:
            self._scroll_to(left)

    def _describe(self) -> None:
        here = self._view.in_hand
        if here is None:
            self.setAccessibleDescription("No token has been processed yet")
            return
        said = self._view.cells[here].whole(computed=here < self._view.numbers_to)
        self.setAccessibleDescription(f"{said}\nof {len(self._view.cells)} tokens")

    # ---- painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self._widths:
            painter.setFont(self._fonts[Face.SMALL])
            painter.setPen(self._style.colour("muted"))
            painter.drawText(
                self.rect(),
                Qt.AlignmentFlag.AlignVCenter,
                "No tokens yet: Prefill runs the prompt.",
            )
        index = max(0, bisect_right(self._lefts, self._offset) - 1)
        while index < len(self._widths):
            box = self.cell_box(index)
            if box.left() > self.width():
                break
            if index < len(self._view.cells):
                self._paint_cell(painter, self._view.cells[index], box)
            else:
                self._paint_pending(painter, box)
            index += 1
        here = self._view.in_hand
        if here is not None and here < len(self._widths):
            self._paint_outline(painter, self.cell_box(here))
        self._paint_extent(painter)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(self._style.colour("accent"), 1, Qt.PenStyle.DashLine))
            painter.drawRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5))

    def _paint_cell(self, painter: QPainter, cell: TokenCell, box: QRectF) -> None:
        style, view = self._style, self._view
        exists = cell.position < view.existing
        phase = style.colour(
            "prefill" if cell.phase is Phase.PREFILL else "decode", 1.0 if exists else 0.4
        )
        self._paint_ground(painter, box, phase)
        first, last = view.step_positions
        if last - first > 1 and first <= cell.position < last:
            painter.setPen(QPen(style.colour("border_strong"), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            radius = style.px(RADIUS)
            painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)
        self._paint_token(painter, cell, box, exists)
        position = _position(cell)
        self._paint_line(painter, box, POSITION_TOP, POSITION_HEIGHT, Face.TINY, position, exists)
        self._paint_surprise(painter, cell, box)
        self._paint_line(
            painter,
            box,
            NUMBER_TOP,
            NUMBER_HEIGHT,
            Face.MONO_TINY,
            self.shown_number(cell.position),
            exists,
            role="text" if exists and cell.surprise > READABLE else "",
        )

    def _paint_surprise(self, painter: QPainter, cell: TokenCell, box: QRectF) -> None:
        """Colour behind the number: the more, the less probable the token was."""
        if not self.shown_number(cell.position) or cell.surprise <= 0:
            return
        px, opacity = self._style.px, SURPRISE_OPACITY * cell.surprise
        ground = QRectF(
            box.left() + px(2), box.top() + px(NUMBER_TOP), box.width() - px(4), px(NUMBER_HEIGHT)
        )
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._style.colour("warning", opacity))
        painter.drawRoundedRect(ground, px(2), px(2))

    def _paint_ground(self, painter: QPainter, box: QRectF, underline: QColor) -> None:
        style, radius = self._style, self._style.px(RADIUS)
        thick = style.px(UNDERLINE)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(underline)
        # Only the foot of the coloured ground is painted: its sides would shine through.
        painter.setClipRect(box.adjusted(0, box.height() - thick - radius, 0, 0))
        painter.drawRoundedRect(box, radius, radius)
        painter.setClipping(False)
        painter.setBrush(style.colour("panel"))
        painter.drawRoundedRect(box.adjusted(0, 0, 0, -thick), radius, radius)

    def _paint_token(self, painter: QPainter, cell: TokenCell, box: QRectF, exists: bool) -> None:
        style = self._style
        text = _short(cell.text)
        painter.setFont(self._fonts[Face.TOKEN])
        x = box.left() + (box.width() - self._width_of(text, Face.TOKEN)) / 2
        for blank, run in groupby(text, key=WHITE_SPACE.__contains__):
            part = "".join(run)
            faint = blank or not exists or cell.partial
            painter.setPen(style.colour("faint" if faint else "text"))
            width = self._width_of(part, Face.TOKEN)
            painter.drawText(
                QRectF(x, box.top() + style.px(TOKEN_TOP), width, style.px(TOKEN_HEIGHT)),
                Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextDontClip,
                part,
            )
            x += width

    def _paint_line(
        self,
        painter: QPainter,
        box: QRectF,
        top: float,
        height: float,
        face: Face,
        text: str,
        exists: bool,
        role: str = "",
    ) -> None:
        if not text:
            return
        px = self._style.px
        painter.setFont(self._fonts[face])
        painter.setPen(self._style.colour(role or ("muted" if exists else "faint")))
        painter.drawText(
            QRectF(box.left(), box.top() + px(top), box.width(), px(height)),
            Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextDontClip,
            text,
        )

    def _paint_pending(self, painter: QPainter, box: QRectF) -> None:
        style = self._style
        self._paint_ground(painter, box, style.colour("border"))
        painter.setFont(self._fonts[Face.TOKEN])
        painter.setPen(style.colour("faint"))
        painter.drawText(
            QRectF(
                box.left(), box.top() + style.px(TOKEN_TOP), box.width(), style.px(TOKEN_HEIGHT)
            ),
            Qt.AlignmentFlag.AlignCenter,
            PENDING_TEXT,
        )
        position = str(self._view.pending)
        self._paint_line(painter, box, POSITION_TOP, POSITION_HEIGHT, Face.TINY, position, False)

    def _paint_outline(self, painter: QPainter, box: QRectF) -> None:
        style = self._style
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(style.colour("outline"), style.px(2)))
        outset, radius = style.px(2) / 2, style.px(RADIUS + 1)
        painter.drawRoundedRect(box.adjusted(-outset, -outset, outset, outset), radius, radius)

    def _paint_extent(self, painter: QPainter) -> None:
        """A thin line that says which part of all tokens is in sight."""
        total = self._total()
        if total <= self.width():
            return
        height = self._style.px(2)
        share = self.width() / total
        left = self._offset * share
        painter.fillRect(
            QRectF(left, self.height() - height, self.width() * share, height),
            self._style.colour("border_strong"),
        )

    # ---- pointing and keys

    def mousePressEvent(self, event: QMouseEvent) -> None:
        position = self.position_at(event.position().x())
        if event.button() is Qt.MouseButton.LeftButton and position is not None:
            self.token_chosen.emit(position)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        over = self.position_at(event.position().x()) is not None
        self.setCursor(Qt.CursorShape.PointingHandCursor if over else Qt.CursorShape.ArrowCursor)

    def wheelEvent(self, event: QWheelEvent) -> None:
        pixels, delta = event.pixelDelta(), event.angleDelta()
        moved = float(pixels.x() or pixels.y()) or (delta.x() or delta.y()) * 0.75
        self._scroll_to(self._offset - moved)
        event.accept()

    def tooltip_at(self, point: QPointF) -> str:
        """What pointing at a place says."""
        position = self.position_at(point.x())
        if position is not None:
            cell = self._view.cells[position]
            later = "" if position < self._view.existing else "\nlater than the cursor"
            return cell.whole(computed=position < self._view.numbers_to) + later
        after = len(self._view.cells)
        if after < len(self._lefts) and self.cell_box(after).contains(point):
            return f"Position {self._view.pending}: not chosen yet"
        return ""

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            show_tip(event.globalPos(), self.tooltip_at(QPointF(event.pos())), self)
            return True
        if (
            isinstance(event, QKeyEvent)
            and event.type() is QEvent.Type.ShortcutOverride
            and event.key() in _KEYS
        ):
            # Within the strip the arrows go from token to token, before the window's shortcuts.
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        here, count = self._view.in_hand, len(self._view.cells)
        if here is None or event.key() not in _KEYS:
            super().keyPressEvent(event)
            return
        targets = {
            Qt.Key.Key_Left: here - 1,
            Qt.Key.Key_Right: here + 1,
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: count - 1,
        }
        target = max(0, min(count - 1, targets[Qt.Key(event.key())]))
        if target != here:
            self.token_chosen.emit(target)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._scroll_to(self._offset)
        self._follow()

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.update()


def _position(cell: TokenCell) -> str:
    return str(cell.position) + (" hand" if cell.by_hand else "")


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
