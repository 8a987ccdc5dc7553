"""Where the blocks of a timeline lie and what is written on them, for a width."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetricsF

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.branch_lines import BranchLine
from decoder_gui.viewdata.timeline import Block
from model.trace import Phase

# Pixels at scale 1, as in the design picture.
MARGIN = 8.0
PREFILL_WIDTH = (130.0, 300.0)  # least and most
DECODE_WIDTH = (26.0, 118.0)
END_WIDTH = 92.0
GAP, PREFILL_GAP = 4.0, 6.0


@dataclass(frozen=True)
class Span:
    """Where a block lies, in pixels of the whole timeline (before scrolling)."""

    left: float
    width: float

    @property
    def right(self) -> float:
        return self.left + self.width


@dataclass(frozen=True)
class LineLayout:
    """Where a branch that is not in hand lies: its own blocks, and where it leaves."""

    spans: tuple[Span, ...]
    labels: tuple[str, ...]
    fork: float

    @property
    def right(self) -> float:
        return self.spans[-1].right if self.spans else self.fork


@dataclass(frozen=True)
class TimelineLayout:
    """The arrangement: a span and a label for each block, and the place at the end."""

    spans: tuple[Span, ...] = ()
    labels: tuple[str, ...] = ()
    end: Span = Span(0.0, 0.0)
    total: float = 0.0
    lines: tuple[LineLayout, ...] = ()

    def block_at(self, x: float) -> int:
        """The block at a place, or the one before the gap there; the first one left of all."""
        return max(0, bisect_right(self.spans, x, key=lambda span: span.left) - 1)


def arrange(
    blocks: Sequence[Block],
    width: int,
    style: Style,
    *,
    end: bool,
    lines: Sequence[BranchLine] = (),
) -> TimelineLayout:
    """Lay out blocks: as wide as in the design where there is room, narrower where there is not.

    All branches have one scale, so that a step lies under the step that it stands beside.
    """
    rows = [[block.phase for block in blocks], *(line.phases for line in lines)]
    widths = [_widths(phases, width, style, end=end and at == 0) for at, phases in enumerate(rows)]
    prefill, decode = min(w[0] for w in widths), min(w[1] for w in widths)
    spans, x = _spans(rows[0], prefill, decode, style)
    place = Span(x, float(style.px(END_WIDTH)) if end else 0.0)
    metrics = QFontMetricsF(style.font(Face.TITLE))
    labels = tuple(
        fitting(block.label, span.width - 2 * padding(span.width, style), metrics)
        for block, span in zip(blocks, spans, strict=True)
    )
    small = QFontMetricsF(style.font(Face.SMALL))
    beside = tuple(_line_layout(line, prefill, decode, style, small) for line in lines)
    total = max([place.right, *(line.right for line in beside)]) + style.px(MARGIN)
    return TimelineLayout(tuple(spans), labels, place, total, beside)


def _spans(
    phases: Sequence[Phase], prefill: float, decode: float, style: Style
) -> tuple[list[Span], float]:
    """Where the blocks of a row lie, and where the next one would."""
    spans = []
    x = float(style.px(MARGIN))
    for phase in phases:
        is_prefill = phase is Phase.PREFILL
        spans.append(Span(x, prefill if is_prefill else decode))
        x = spans[-1].right + style.px(PREFILL_GAP if is_prefill else GAP)
    return spans, x


def _line_layout(
    line: BranchLine, prefill: float, decode: float, style: Style, metrics: QFontMetricsF
) -> LineLayout:
    spans, end = _spans(line.phases, prefill, decode, style)
    own = tuple(spans[line.fork :])
    labels = tuple(
        fitting(step.label, span.width - 2 * padding(span.width, style), metrics)
        for step, span in zip(line.own, own, strict=True)
    )
    at = own[0].left if own else end
    return LineLayout(own, labels, at - style.px(GAP) / 2)


def padding(width: float, style: Style) -> float:
    """Room between a block's edge and its label."""
    return min(style.px(10), max(2.0, width * 0.09))


def fitting(label: str, room: float, metrics: QFontMetricsF) -> str:
    """As much of a label as fits; nothing where a single letter would be left."""
    bare = label.lstrip("␣")
    # The explanation of a count goes first, then the blank before a word.
    for text in (label, label.split(" in ", maxsplit=1)[0], bare):
        if metrics.horizontalAdvance(text) <= room:
            return text
    elided = metrics.elidedText(bare, Qt.TextElideMode.ElideRight, room)
    return elided if len(elided) > 2 else ""


def _widths(phases: Sequence[Phase], width: int, style: Style, *, end: bool) -> tuple[float, float]:
    """Widths of a prefill block and of a decode block."""
    px = style.px
    prefills = sum(phase is Phase.PREFILL for phase in phases)
    decodes = len(phases) - prefills
    gaps = px(GAP) * decodes + px(PREFILL_GAP) * prefills
    room = width - 2 * px(MARGIN) - gaps - (px(END_WIDTH) if end else 0)
    prefill, decode = float(px(PREFILL_WIDTH[1])), float(px(DECODE_WIDTH[1]))
    if prefills * prefill + decodes * decode > room:
        # The prefill block gives way first, then the decoded tokens share what is left.
        rest = (room - decodes * decode) / max(1, prefills)
        prefill = max(px(PREFILL_WIDTH[0]), min(prefill, rest))
        share = (room - prefills * prefill) / max(1, decodes)
        decode = max(px(DECODE_WIDTH[0]), min(decode, share))
    return prefill, decode
