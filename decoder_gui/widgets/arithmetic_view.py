"""Lines of arithmetic that can be copied: what is wrong above them, operands to follow below."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.widgets.arrow_keys import is_arrow
from decoder_gui.widgets.copyable_label import CopyableLabel
from decoder_gui.widgets.link_flow import LinkFlow, Piece

GAP = 2  # pixels between two of the parts


class ArithmeticView(QScrollArea):
    """Wraps its lines and scrolls where there is too little room for all of them.

    The lines are other ones at every step, and the height of wrapped text is slow to find out. So
    it is worked out once for a text and a width, and no layout asks for it again.

    From top to bottom: what is wrong, the way that was followed here, the lines, their operands,
    and a note. On a way, the operands stand before the lines: whoever follows it reads on there.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._content = QWidget()
        self.problem = CopyableLabel(self._content)
        self.problem.setProperty("kind", "error")
        self.problem.hide()
        self.lines = CopyableLabel(self._content)
        self.lines.setProperty("kind", "muted")
        self.trail = LinkFlow("The way followed to this number", self._content)
        self.operands = LinkFlow("What the chosen number is made of", self._content)
        self.note = CopyableLabel(self._content)
        self.note.setProperty("kind", "muted")
        self._style: Style | None = None
        self._heights: tuple[int, ...] | None = None  # width, then each part's
        self._owes_hint = False  # whether the size wanted has changed untold
        self.lines.setAccessibleName("Arithmetic of the chosen cell")
        self.setAccessibleName("Arithmetic of the chosen cell, scrolled with the arrow keys")
        self.note.setAccessibleName("Recomputed and recorded")
        for part in (self.trail, self.operands, self.note):
            part.hide()
        for flow in (self.trail, self.operands):
            flow.pointed.connect(lambda rect, flow=flow: self._bring_into_sight(flow, rect))
        self.setWidget(self._content)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.verticalScrollBar().rangeChanged.connect(self._on_range)

    def set_lines(
        self,
        lines: tuple[str, ...],
        problem: str,
        style: Style,
        *,
        trail: tuple[Piece, ...] = (),
        operands: tuple[Piece, ...] = (),
        note: str = "",
    ) -> None:
        """Show lines, in words what is wrong, if anything is, and all the rest with it."""
        restyled = style != self._style
        if restyled:
            self._style = style
            # Fonts that are set directly do not outlive a new style sheet inside a scroll area.
            faces = ((self.lines, Face.MONO), (self.problem, Face.STRONG), (self.note, Face.SMALL))
            for label, face in faces:
                family, pixels, weight = face.value
                label.setStyleSheet(
                    f'QLabel {{ font: {weight.value} {style.px(pixels)}px "{family}"; }}'
                )
        before = self._texts()
        other = "\n".join(lines) != self.lines.text()
        self.trail.set_pieces(trail, style, anew=other)
        self.operands.set_pieces(operands, style, anew=other)
        if other:
            self.verticalScrollBar().setValue(0)
        for label, text in ((self.lines, "\n".join(lines)), (self.problem, problem)):
            if text != label.text():
                label.setText(text)
                label.setAccessibleDescription(text)
        if note != self.note.text():
            self.note.setText(note)
        if restyled or self._texts() != before:
            for part in self._parts():
                if part is not self.lines:
                    part.setVisible(self._speaks(part))
            self._rearrange()

    def _bring_into_sight(self, flow: LinkFlow, rect: QRect) -> None:
        top = flow.y() + rect.top()
        self.ensureVisible(0, top, 0, 0)
        self.ensureVisible(0, top + rect.height(), 0, 0)

    def _texts(self) -> tuple[str, ...]:
        parts = (self.lines, self.problem, self.note)
        flows = (self.trail, self.operands)
        return (*(part.text() for part in parts), *(flow.shown_text() for flow in flows))

    def sizeHint(self) -> QSize:
        return QSize(200, self._total(self._measured()))

    def minimumSizeHint(self) -> QSize:
        return QSize(100, self.fontMetrics().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        before = self._heights
        self._arrange()
        if self._owes_hint or self._heights != before:
            self._owes_hint = False
            self.updateGeometry()

    def _rearrange(self) -> None:
        before, self._heights = self._heights, None
        self._arrange()
        assert self._heights is not None
        totals = [self._total(each) for each in (before, self._heights) if each is not None]
        if len(totals) == 2 and min(totals) > self.height():
            # It scrolls before and after: another hint would lay the panel out for nothing. The
            # next change of size needs it.
            self._owes_hint |= totals[0] != totals[1]
        elif len(set(totals)) != 1 or len(totals) == 1:
            self.updateGeometry()

    def _measured(self) -> tuple[int, ...]:
        """Width of the viewport, and the height of each part, 0 for one that has nothing to say."""
        width = max(self.viewport().width(), 1)
        if self._heights is None or self._heights[0] != width:
            heights = (
                max(0, part.heightForWidth(width)) if self._speaks(part) else 0
                for part in self._parts()
            )
            self._heights = (width, *heights)
        return self._heights

    def _parts(self) -> tuple[QWidget, ...]:
        """Everything that may have something to say, from top to bottom."""
        middle = (self.lines, self.operands)
        on_a_way = bool(self.trail.shown_text())
        return (self.problem, self.trail, *(middle[::-1] if on_a_way else middle), self.note)

    def _speaks(self, part: QWidget) -> bool:
        if isinstance(part, LinkFlow):
            return bool(part.shown_text())
        assert isinstance(part, CopyableLabel)
        return bool(part.text())

    @staticmethod
    def _total(measured: tuple[int, ...]) -> int:
        heights = [height for height in measured[1:] if height]
        return sum(heights) + GAP * max(0, len(heights) - 1)

    def _arrange(self) -> None:
        measured = self._measured()
        width, y = measured[0], 0
        for part, height in zip(self._parts(), measured[1:], strict=True):
            part.setGeometry(0, y, width, height)
            y += height + GAP if height else 0
        self._content.resize(width, self._total(measured))

    def event(self, event: QEvent) -> bool:
        # Where there is something to scroll, up and down scroll it while the keyboard is here.
        if event.type() is QEvent.Type.ShortcutOverride and is_arrow(event):
            event.accept()
            return True
        return super().event(event)

    def _on_range(self, least: int, most: int) -> None:
        policy = Qt.FocusPolicy.TabFocus if most > least else Qt.FocusPolicy.NoFocus
        self.setFocusPolicy(policy)
