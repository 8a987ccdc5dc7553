"""The lines of the other branches under a timeline: where they are, and how they are painted."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from decoder_gui.theme.palette import blend, contrast
from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.branch_lines import BranchLine
from decoder_gui.widgets.timeline_layout import MARGIN, LineLayout, padding
from model.trace import Phase

# Pixels at scale 1.
LINE = 20.0  # from one line to the next
BLOCK = 15.0
BELOW = 6.0  # under the last one
AT_ONCE = 3  # lines in sight; the rest is scrolled to
DIM = 0.35


def lines_height(count: int) -> float:
    """Room for so many branches besides the one in hand, in pixels at scale 1."""
    return min(count, AT_ONCE) * LINE + (BELOW if count else 0.0)


@dataclass(frozen=True)
class BranchScene:
    """The lines in sight, from ``first`` on.

    Attributes:
        top: where the first of them begins, in pixels.
        leaves: where a fork leaves the blocks of the branch in hand, in pixels.
        offset: how far the timeline is scrolled to the right.
    """

    lines: tuple[BranchLine, ...]
    layouts: tuple[LineLayout, ...]
    style: Style
    width: int
    offset: float
    first: int
    top: float
    leaves: float

    @property
    def in_sight(self) -> range:
        """Indices of the lines that are shown."""
        return range(self.first, min(len(self.lines), self.first + AT_ONCE))

    def line_at(self, y: float) -> int | None:
        """The line at a height, or None."""
        at = int((y - self.top) // self.style.px(LINE)) + self.first
        return at if y >= self.top and at in self.in_sight else None

    def row(self, line: int) -> QRectF:
        """The whole row of a line in sight."""
        height = self.style.px(LINE)
        return QRectF(0, self.top + (line - self.first) * height, self.width, height)

    def box(self, line: int, own: int) -> QRectF:
        """Where one of a line's own blocks is drawn."""
        span, row = self.layouts[line].spans[own], self.row(line)
        height = self.style.px(BLOCK)
        return QRectF(span.left - self.offset, row.center().y() - height / 2, span.width, height)

    def paint(self, painter: QPainter, hover: int | None) -> None:
        """Paint every line in sight; ``hover`` is the one under the pointer."""
        for line in self.in_sight:
            self._paint_fork(painter, line)
        for line in self.in_sight:
            self._paint_blocks(painter, line, line == hover)
            self._paint_name(painter, line, line == hover)

    def _paint_fork(self, painter: QPainter, line: int) -> None:
        style, row = self.style, self.row(line)
        x, middle = self.layouts[line].fork - self.offset, row.center().y()
        above = self.lines[line].above
        start = self.leaves if above < 0 else self.top
        if above in self.in_sight:
            start = self.row(above).center().y()
        pen = QPen(style.colour("border_strong"), 1.5)
        painter.setPen(pen)
        painter.drawLine(QPointF(x, start), QPointF(x, middle))
        spans = self.layouts[line].spans
        if spans:
            painter.drawLine(QPointF(x, middle), QPointF(spans[0].left - self.offset, middle))
        else:  # it ends where it begins
            painter.setBrush(style.colour("border_strong"))
            painter.drawEllipse(QPointF(x, middle), style.px(3), style.px(3))

    def _paint_blocks(self, painter: QPainter, line: int, hover: bool) -> None:
        style, shown = self.style, self.lines[line]
        palette, radius = style.palette, style.px(3)
        painter.setFont(style.font(Face.SMALL))
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        for at, step in enumerate(shown.own):
            box = self.box(line, at)
            if box.right() < 0 or box.left() > self.width:
                continue
            phase = "prefill" if step.phase is Phase.PREFILL else "decode"
            ground = blend(getattr(palette, phase), palette.window, 0.6 if hover else DIM)
            if shown.pending:  # a frame and no ground: there is nothing in it yet
                ground = palette.window
                painter.setPen(QPen(style.colour(phase), 1, Qt.PenStyle.DashLine))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)
            else:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(ground))
                painter.drawRoundedRect(box, radius, radius)
            candidates = (palette.text, palette.inverse_text)
            painter.setPen(QColor(max(candidates, key=lambda c: contrast(c, ground))))
            label = box.adjusted(padding(box.width(), style), 0, 0, 0)
            painter.drawText(label, middle, self.layouts[line].labels[at])

    def name_box(self, line: int) -> QRectF:
        """Where a line's name is written: after its blocks, or before them if there is no room."""
        style, layout, row = self.style, self.layouts[line], self.row(line)
        gap, margin = style.px(8), style.px(MARGIN)
        after = self.width - margin - max(0.0, layout.right - self.offset) - gap
        before = layout.fork - self.offset - gap - margin
        if after >= min(style.px(120), before):
            left = max(0.0, layout.right - self.offset) + gap
            return QRectF(left, row.top(), max(0.0, after), row.height())
        return QRectF(margin, row.top(), max(0.0, before), row.height())

    def name(self, line: int) -> str:
        """A line's name as it fits, with how many more lines there are beside the last in sight."""
        metrics = QFontMetricsF(self.style.font(Face.SMALL))
        box = self.name_box(line)
        shown = self.lines[line]
        text = f"{shown.name} · {shown.reason}" if shown.reason else shown.name
        rest = len(self.lines) - len(self.in_sight)
        if rest and line == self.in_sight[-1]:
            more = f"   ({rest} more: scroll here)"
            room = box.width() - metrics.horizontalAdvance(more)
            return metrics.elidedText(text, Qt.TextElideMode.ElideRight, room) + more
        return metrics.elidedText(text, Qt.TextElideMode.ElideRight, box.width())

    def _paint_name(self, painter: QPainter, line: int, hover: bool) -> None:
        box, layout = self.name_box(line), self.layouts[line]
        painter.setFont(self.style.font(Face.SMALL))
        painter.setPen(self.style.colour("text" if hover else "muted"))
        before = box.left() < layout.fork - self.offset
        side = Qt.AlignmentFlag.AlignRight if before else Qt.AlignmentFlag.AlignLeft
        painter.drawText(box, side | Qt.AlignmentFlag.AlignVCenter, self.name(line))
