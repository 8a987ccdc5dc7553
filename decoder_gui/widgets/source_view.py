"""The code that computed an operation, its formula, and one plain sentence."""

from __future__ import annotations

from textwrap import dedent

from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QHelpEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.widgets.copyable_label import CopyableLabel
from decoder_gui.widgets.tips import show_tip
from model.operations import SourceLines

LINE, PAD, RADIUS, SIDE = 18, 6, 6, 8
LEAST_LINES, MOST_LINES = 3, 15


class CodeLines(QWidget):
    """Source lines with their numbers, as many around the marked one as there is room for.

    Lines that are too long are cut with an ellipsis, move with the wheel and Shift, and are whole
    in the tooltip.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._source: SourceLines | None = None
        self._lines: tuple[str, ...] = ()
        self._shift = 0
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def set_source(self, source: SourceLines | None, style: Style) -> None:
        """Show lines; None says that there are none."""
        if style != self._style or source != self._source:
            self._style = style
            self._source = source
            self._lines = () if source is None else source.lines
            self._shift = 0
            self.setMaximumHeight(self._height(min(max(len(self._lines), 1), MOST_LINES)))
            marked = "" if source is None else self._lines[source.marked].strip()
            self.setAccessibleName("Source of the operation in hand")
            self.setAccessibleDescription(marked)
        self.update()

    def shown_lines(self) -> tuple[tuple[int, str, bool], ...]:
        """The lines in sight: number in the file, text, whether it is the marked one.

        What all of them are indented by is left out: it would cost most of a narrow panel.
        """
        source = self._source
        if source is None:
            return ()
        first, last = self._window()
        texts = dedent("\n".join(self._lines[first:last])).split("\n")
        return tuple(
            (source.first_line + first + i, text, first + i == source.marked)
            for i, text in enumerate(texts)
        )

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()

    def minimumSizeHint(self) -> QSize:
        px = self._style.px
        return QSize(px(120), self._height(min(max(len(self._lines), 1), LEAST_LINES)))

    def _height(self, lines: int) -> int:
        return lines * self._style.px(LINE) + 2 * self._style.px(PAD)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        delta = event.angleDelta()
        sideways = delta.x() or (
            delta.y() if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 0
        )
        if not sideways:
            event.ignore()
            return
        longest = max((len(line) for line in self._lines), default=0)
        self._shift = max(0, min(longest - 8, self._shift - sideways // 30))
        self.update()

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            shown = self.shown_lines()
            index = (event.pos().y() - self._style.px(PAD)) // self._style.px(LINE)
            show_tip(
                event.globalPos(), shown[index][1].strip() if 0 <= index < len(shown) else "", self
            )
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        style, px, colour = self._style, self._style.px, self._style.colour
        shown = self.shown_lines()
        line, pad = px(LINE), px(PAD)
        height = self._height(max(len(shown), 1))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour("sunken"))
        painter.drawRoundedRect(QRectF(0, 0, self.width(), height), px(RADIUS), px(RADIUS))
        font = style.font(Face.MONO)
        metrics = QFontMetrics(font)
        painter.setFont(font)
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        if not shown:
            painter.setPen(colour("muted"))
            painter.drawText(QRect(px(SIDE), pad, self.width(), line), flags, "no source text")
            return
        gutter = metrics.horizontalAdvance(str(shown[-1][0]))
        room = self.width() - gutter - 3 * px(SIDE)
        for i, (number, text, marked) in enumerate(shown):
            top = pad + i * line
            if marked:
                painter.fillRect(QRect(0, top, self.width(), line), colour("inverse"))
            painter.setPen(colour("inverse_text" if marked else "muted"))
            painter.drawText(
                QRect(px(SIDE), top, gutter, line),
                Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight,
                str(number),
            )
            painter.setPen(colour("inverse_text" if marked else "text"))
            cut = metrics.elidedText(text[self._shift :], Qt.TextElideMode.ElideRight, room)
            painter.drawText(QRect(gutter + 2 * px(SIDE), top, room, line), flags, cut)

    def _window(self) -> tuple[int, int]:
        """Which lines fit, with the marked one in the middle."""
        assert self._source is not None
        px, total = self._style.px, len(self._lines)
        fitting = (self.height() - 2 * px(PAD)) // px(LINE)
        count = min(max(LEAST_LINES, fitting), MOST_LINES, total)
        first = max(0, min(self._source.marked - count // 2, total - count))
        return first, min(first + count, total)


class SourceView(QWidget):
    """Header with the file's name, code, formula and sentence, one under the other."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.heading = QLabel("Source")
        self.file = QLabel()
        self.code = CodeLines()
        self.formula = CopyableLabel()
        self.sentence = CopyableLabel()
        self._style: Style | None = None
        self.formula.setAccessibleName("Formula of the operation in hand")
        self.sentence.setAccessibleName("What the operation in hand does")
        self.heading.setProperty("kind", "muted")
        self.file.setProperty("kind", "muted")
        self.sentence.setProperty("kind", "muted")
        head = QHBoxLayout()
        head.addWidget(self.heading)
        head.addStretch(1)
        head.addWidget(self.file)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addLayout(head)
        self._layout.addWidget(self.code, 1)
        self._layout.addWidget(self.formula)
        self._layout.addWidget(self.sentence)
        self._layout.addStretch(0)

    def minimumSizeHint(self) -> QSize:
        # The longest word of a formula or a file's name must not change the panel's least width:
        # all docks would be arranged again at every step.
        px = (self._style or Style()).px
        return QSize(px(150), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._keep_room(afresh=True)

    def set_explanation(
        self, source: SourceLines | None, formula: str, sentence: str, style: Style
    ) -> None:
        """Show an operation's code, formula and sentence."""
        if style != self._style:
            self.set_style(style)
        self.file.setText("" if source is None else source.file)
        self.code.set_source(source, style)
        self.formula.setText(formula)
        self.sentence.setText(sentence)
        self._keep_room(afresh=False)

    def set_style(self, style: Style) -> None:
        """Give the texts the fonts of ``style``, also if it is the one they had.

        A style that came and went while this was hidden leaves the application's font behind.
        """
        self._style = style
        self._layout.setSpacing(style.px(8))
        for label, face in (
            (self.heading, Face.TITLE),
            (self.file, Face.SMALL),
            (self.formula, Face.MONO),
            (self.sentence, Face.BODY),
        ):
            label.setFont(style.font(face))
            label.setMinimumHeight(0)

    def _keep_room(self, *, afresh: bool) -> None:
        """Give the texts the height of the longest seen: the code must not jump at every step."""
        for label in (self.formula, self.sentence):
            if afresh:
                label.setMinimumHeight(0)  # it counts as part of the height that is needed
            needed = max(0, label.heightForWidth(self.width()))
            label.setMinimumHeight(max(needed, label.minimumHeight()))
