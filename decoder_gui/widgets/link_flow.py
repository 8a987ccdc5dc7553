"""Short pieces of text one after another, wrapped like words; some of them are links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QFontMetrics,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.widgets.arrow_keys import ARROWS, is_arrow
from decoder_gui.widgets.tips import show_tip

GAP = 14  # pixels at scale 1 between two pieces
LEADING = 2
PAD = 2


@dataclass(frozen=True)
class Span:
    """Text of one kind within a piece; one with a ``link`` can be followed.

    ``role`` is the palette's colour of text that is no link.
    """

    text: str
    link: int | None = None
    tip: str = ""
    role: str = "muted"


Piece = tuple[Span, ...]
"""Spans that stay together on a line."""


@dataclass(frozen=True)
class _Placed:
    span: Span
    rect: QRect


class LinkFlow(QWidget):
    """Paints pieces and lets links be followed by click, or by arrows and Enter.

    Signals:
        followed(int): the link of a span was activated.
        pointed(QRect): where the link stands that has the keyboard now.
    """

    followed = Signal(int)
    pointed = Signal(QRect)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._pieces: tuple[Piece, ...] = ()
        self._text = ""
        self._style: Style | None = None
        self._placed: tuple[_Placed, ...] = ()
        self._height = 0
        self._width = -1
        self._current = 0  # which of the links has the keyboard
        self._face = Face.MONO
        self.setAccessibleName(name)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_pieces(self, pieces: Iterable[Piece], style: Style, *, anew: bool = False) -> None:
        """Show other pieces; the keyboard stays at the link of its number, or begins ``anew``."""
        pieces = tuple(pieces)
        if pieces == self._pieces and style == self._style:
            return
        self._pieces, self._style, self._width = pieces, style, -1
        self._text = "  ".join("".join(span.text for span in piece) for piece in pieces)
        links = len(self._links())
        self._current = 0 if anew else min(self._current, max(0, links - 1))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus if links else Qt.FocusPolicy.NoFocus)
        self._describe()
        self.update()

    def shown_text(self) -> str:
        """All pieces, as they stand there."""
        return self._text

    def links(self) -> tuple[Span, ...]:
        """The spans that can be followed, in reading order."""
        return tuple(self._links())

    def link_rect(self, link: int) -> QRect:
        """Where a link stands; empty if there is none of that number."""
        self._arrange(self.width())
        return next((p.rect for p in self._placed if p.span.link == link), QRect())

    @property
    def current(self) -> Span | None:
        """The link that has the keyboard."""
        links = self._links()
        return links[self._current] if links else None

    def heightForWidth(self, width: int) -> int:
        self._arrange(width)
        return self._height

    def hasHeightForWidth(self) -> bool:
        return True

    def sizeHint(self) -> QSize:
        width = max(1, self.width())
        return QSize(width, self.heightForWidth(width))

    def paintEvent(self, event: QPaintEvent) -> None:
        style = self._style
        if style is None:
            return
        self._arrange(self.width())
        current = self.current if self.hasFocus() else None
        painter = QPainter(self)
        font = style.font(self._face)
        painter.setFont(font)
        ascent = QFontMetrics(font).ascent()
        for placed in self._placed:
            span, rect = placed.span, placed.rect
            if not rect.intersects(event.rect()):
                continue
            here = span is current
            if here:
                painter.fillRect(rect.adjusted(-PAD, 0, PAD, 0), style.colour("inverse"))
            role = span.role if span.link is None else "accent"
            painter.setPen(QPen(style.colour("inverse_text" if here else role)))
            at = QPoint(rect.left(), rect.top() + style.px(LEADING) // 2 + ascent)
            painter.drawText(at, span.text)
            if span.link is not None:
                # A line under it: colour alone would not say that it can be followed.
                y = at.y() + style.px(2)
                painter.drawLine(rect.left(), y, rect.right(), y)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        span = self._span_at(event.position().toPoint())
        link = span is not None and span.link is not None
        self.setCursor(Qt.CursorShape.PointingHandCursor if link else Qt.CursorShape.ArrowCursor)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        span = self._span_at(event.position().toPoint())
        if event.button() is Qt.MouseButton.LeftButton and span is not None:
            self._follow(span)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        links = self._links()
        key = Qt.Key(event.key())
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and links:
            self._follow(links[self._current])
        elif is_arrow(event) and links:
            down, right = ARROWS[key]
            self._point_at((self._current + down + right) % len(links))
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End) and links:
            self._point_at(0 if key is Qt.Key.Key_Home else len(links) - 1)
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            own = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)
            ends = (Qt.Key.Key_Home, Qt.Key.Key_End)
            if is_arrow(event) or event.key() in (*own, *ends):
                event.accept()
                return True
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            span = self._span_at(event.pos())
            show_tip(event.globalPos(), span.tip if span is not None else "", self)
            return True
        return super().event(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()
        self._tell_where()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def _links(self) -> list[Span]:
        return [span for piece in self._pieces for span in piece if span.link is not None]

    def _point_at(self, at: int) -> None:
        self._current = at
        self._describe()
        self.update()
        self._tell_where()

    def _tell_where(self) -> None:
        current = self.current
        if current is not None and current.link is not None:
            self.pointed.emit(self.link_rect(current.link))

    def _describe(self) -> None:
        current = self.current
        here = f"{current.text}. {current.tip}. " if current is not None else ""
        self.setAccessibleDescription(f"{here}{self.shown_text()}")

    def _follow(self, span: Span) -> None:
        if span.link is not None:
            self.followed.emit(span.link)

    def _span_at(self, at: QPoint) -> Span | None:
        self._arrange(self.width())
        return next((p.span for p in self._placed if p.rect.contains(at)), None)

    def _arrange(self, width: int) -> None:
        style = self._style
        if style is None or width == self._width:
            return
        metrics = QFontMetrics(style.font(self._face))
        self._placed = tuple(self._place(width, metrics, style))
        self._width = width
        bottom = max((placed.rect.bottom() + 1 for placed in self._placed), default=0)
        self._height = bottom

    def _place(self, width: int, metrics: QFontMetrics, style: Style) -> Iterator[_Placed]:
        line = metrics.height() + style.px(LEADING)
        x, y = PAD, 0
        for piece in self._pieces:
            widths = [metrics.horizontalAdvance(span.text) for span in piece]
            if x > PAD and x + sum(widths) > width:
                x, y = PAD, y + line
            for span, wide in zip(piece, widths, strict=True):
                if x > PAD and x + wide > width:  # one that is wider than a line breaks within
                    x, y = PAD, y + line
                yield _Placed(span, QRect(x, y, wide, line))
                x += wide
            x += style.px(GAP)
