"""One picture of a timeline: where everything is in the widget, and how it is painted."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.theme.palette import blend, contrast
from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.timeline import Block, TimelineView
from decoder_gui.widgets.timeline_layout import TimelineLayout, padding
from model.trace import Phase

# Pixels at scale 1, as in the design picture.
STRIP = 9.0  # where breakpoints are set, above the blocks
BLOCK_TOP, BLOCK_HEIGHT = 13.0, 22.0
DONE_TOP, DONE_HEIGHT = 39.0, 4.0
HEIGHT = 47.0


@dataclass(frozen=True)
class TimelineScene:
    """A view, laid out and scrolled by ``offset`` pixels."""

    view: TimelineView
    layout: TimelineLayout
    style: Style
    offset: float

    def block_box(self, step: int) -> QRectF:
        """Where a block is drawn in the widget, in device-independent pixels."""
        span, px = self.layout.spans[step], self.style.px
        return QRectF(span.left - self.offset, px(BLOCK_TOP), span.width, px(BLOCK_HEIGHT))

    def end_box(self) -> QRectF:
        """Where ``+ decode`` is drawn."""
        end, px = self.layout.end, self.style.px
        return QRectF(end.left - self.offset, px(BLOCK_TOP), end.width, px(BLOCK_HEIGHT))

    def event_x(self, cursor: Cursor) -> float:
        """Where an event lies in the widget: the playhead's place when it is in hand."""
        span = self.layout.spans[cursor.step]
        return span.left + self.view.fraction(cursor) * span.width - self.offset

    def event_at(self, x: float) -> Cursor | None:
        """The recorded event nearest to a place in the widget, None on an empty timeline."""
        if not self.layout.spans:
            return None
        x += self.offset
        step = self.layout.block_at(x)
        span = self.layout.spans[step]
        return self.view.event_at(step, (x - span.left) / span.width)

    def paint(self, painter: QPainter, hover: Cursor | None, part: QRect) -> None:
        """Paint what lies in ``part``; ``hover`` is where a breakpoint would be set."""
        self._paint_blocks(painter, part)
        if self.end_box().right() >= part.left() and self.end_box().left() <= part.right():
            self._paint_end(painter)
        self._paint_breakpoints(painter, hover)
        self._paint_playhead(painter)

    def block_colours(self, block: Block) -> tuple[str, str]:
        """Ground and text of a block: the step in hand strongest, steps to come only a hint."""
        palette = self.style.palette
        phase = "prefill" if block.phase is Phase.PREFILL else "decode"
        here = -1 if self.view.cursor is None else self.view.cursor.step
        opacity = 1.0 if block.step == here else (0.8 if block.step < here else 0.16)
        ground = blend(getattr(palette, phase), palette.window, opacity)
        candidates = (getattr(palette, f"{phase}_text"), palette.text, palette.inverse_text)
        return ground, max(candidates, key=lambda colour: contrast(colour, ground))

    def _paint_blocks(self, painter: QPainter, part: QRect) -> None:
        style, radius = self.style, self.style.px(3)
        here = -1 if self.view.cursor is None else self.view.cursor.step
        painter.setFont(style.font(Face.TITLE))
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        colours: dict[tuple[Phase, int], tuple[str, str]] = {}
        for block in self.view.blocks[self.layout.block_at(self.offset + part.left()) :]:
            box = self.block_box(block.step)
            if box.left() > part.right() + 1:
                break
            kind = block.phase, (block.step > here) - (block.step < here)
            if kind not in colours:
                colours[kind] = self.block_colours(block)
            ground, text = colours[kind]
            painter.setBrush(QColor(ground))
            if block.step > here:  # a frame besides: colour is not the only sign of what is to come
                name = "prefill" if block.phase is Phase.PREFILL else "decode"
                painter.setPen(QPen(style.colour(name), 1))
                painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)
            else:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.drawRoundedRect(box, radius, radius)
            painter.setPen(QColor(text))
            label = box.adjusted(padding(box.width(), style), 0, 0, 0)
            painter.drawText(label, middle, self.layout.labels[block.step])

    def _paint_end(self, painter: QPainter) -> None:
        if not self.layout.end.width:
            return
        style, box = self.style, self.end_box().adjusted(0.5, 0.5, -0.5, -0.5)
        pen = QPen(style.colour("border_strong"), 1.5)
        pen.setDashPattern([3, 2])
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(box, style.px(3), style.px(3))
        painter.setFont(style.font(Face.SMALL))
        painter.setPen(style.colour("muted" if self.view.can_decode else "warning"))
        painter.drawText(
            box.adjusted(style.px(12), 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self.view.end_text
        )

    def _paint_breakpoints(self, painter: QPainter, hover: Cursor | None) -> None:
        style = self.style
        y, radius = style.px(STRIP) / 2 + 1, style.px(8) / 2
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(style.colour("breakpoint"))
        for where in self.view.breakpoints:
            painter.drawEllipse(QPointF(self.event_x(where), y), radius, radius)
        if hover is not None and hover not in self.view.breakpoints:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(style.colour("breakpoint"), 1.5))
            painter.drawEllipse(QPointF(self.event_x(hover), y), radius - 1, radius - 1)

    def _paint_playhead(self, painter: QPainter) -> None:
        cursor, style = self.view.cursor, self.style
        if cursor is None:
            return
        x = round(self.event_x(cursor))
        left = self.layout.spans[cursor.step].left - self.offset
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(style.colour("outline"))
        done = QRectF(left, style.px(DONE_TOP), max(0.0, x - left), style.px(DONE_HEIGHT))
        painter.drawRoundedRect(done, done.height() / 2, done.height() / 2)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        top, thick = style.px(BLOCK_TOP - 6), style.px(2)
        height = style.px(DONE_TOP + DONE_HEIGHT) - top
        painter.drawRect(QRectF(x - thick // 2, top, thick, height))
        painter.drawRect(QRectF(x - style.px(6), top, style.px(6), style.px(4)))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
