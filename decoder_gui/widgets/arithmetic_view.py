"""Lines of arithmetic that can be copied, with what is wrong above them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.widgets.arrow_keys import is_arrow
from decoder_gui.widgets.copyable_label import CopyableLabel

GAP = 2  # pixels between what is wrong and the lines


class ArithmeticView(QScrollArea):
    """Wraps its lines and scrolls where there is too little room for all of them.

    The lines are other ones at every step, and the height of wrapped text is slow to find out. So
    it is worked out once for a text and a width, and no layout asks for it again.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._content = QWidget()
        self.problem = CopyableLabel(self._content)
        self.problem.setProperty("kind", "error")
        self.problem.hide()
        self.lines = CopyableLabel(self._content)
        self.lines.setProperty("kind", "muted")
        self._style: Style | None = None
        self._heights: tuple[int, int, int] | None = None  # width, problem, lines
        self.lines.setAccessibleName("Arithmetic of the chosen cell")
        self.setWidget(self._content)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.verticalScrollBar().rangeChanged.connect(self._on_range)

    def set_lines(self, lines: tuple[str, ...], problem: str, style: Style) -> None:
        """Show lines, and in words what is wrong, if anything is."""
        restyled = style != self._style
        if restyled:
            self._style = style
            # Fonts that are set directly do not outlive a new style sheet inside a scroll area.
            for label, face in ((self.lines, Face.MONO), (self.problem, Face.STRONG)):
                family, pixels, weight = face.value
                label.setStyleSheet(
                    f'QLabel {{ font: {weight.value} {style.px(pixels)}px "{family}"; }}'
                )
        text = "\n".join(lines)
        if restyled or text != self.lines.text() or problem != self.problem.text():
            self.lines.setText(text)
            self.lines.setAccessibleDescription(text)
            self.problem.setText(problem)
            self.problem.setVisible(bool(problem))
            before, self._heights = self._heights, None
            self._arrange()
            if self._heights != before:
                self.updateGeometry()

    def sizeHint(self) -> QSize:
        _, problem, lines = self._measured()
        return QSize(200, problem + lines)

    def minimumSizeHint(self) -> QSize:
        return QSize(100, self.fontMetrics().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        before = self._heights
        self._arrange()
        if self._heights != before:
            self.updateGeometry()

    def _measured(self) -> tuple[int, int, int]:
        """Width of the viewport, and the heights of problem (with a gap under it) and lines."""
        width = max(self.viewport().width(), 1)
        if self._heights is None or self._heights[0] != width:
            problem = 0
            if self.problem.text():
                problem = max(0, self.problem.heightForWidth(width)) + GAP
            lines = max(0, self.lines.heightForWidth(width)) if self.lines.text() else 0
            self._heights = width, problem, lines
        return self._heights

    def _arrange(self) -> None:
        width, problem, lines = self._measured()
        self.problem.setGeometry(0, 0, width, max(0, problem - GAP))
        self.lines.setGeometry(0, problem, width, lines)
        self._content.resize(width, problem + lines)

    def event(self, event: QEvent) -> bool:
        # Where there is something to scroll, up and down scroll it while the keyboard is here.
        if event.type() is QEvent.Type.ShortcutOverride and is_arrow(event):
            event.accept()
            return True
        return super().event(event)

    def _on_range(self, least: int, most: int) -> None:
        policy = Qt.FocusPolicy.TabFocus if most > least else Qt.FocusPolicy.NoFocus
        self.setFocusPolicy(policy)
