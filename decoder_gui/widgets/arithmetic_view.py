"""Lines of arithmetic that can be selected and copied, with what is wrong above them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.widgets.arrow_keys import is_arrow


class ArithmeticView(QScrollArea):
    """Wraps its lines and scrolls where there is too little room for all of them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.problem = QLabel()
        self.problem.setProperty("kind", "error")
        self.lines = QLabel()
        self.lines.setProperty("kind", "muted")
        self._style: Style | None = None
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        for label in (self.problem, self.lines):
            label.setWordWrap(True)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            column.addWidget(label)
        column.addStretch(1)
        self.lines.setAccessibleName("Arithmetic of the chosen cell")
        self.setWidget(content)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.verticalScrollBar().rangeChanged.connect(self._on_range)

    def set_lines(self, lines: tuple[str, ...], problem: str, style: Style) -> None:
        """Show lines, and in words what is wrong, if anything is."""
        if style != self._style:
            self._style = style
            # Fonts that are set directly do not outlive a new style sheet inside a scroll area.
            for label, face in ((self.lines, Face.MONO), (self.problem, Face.STRONG)):
                family, pixels, weight = face.value
                label.setStyleSheet(
                    f'QLabel {{ font: {weight.value} {style.px(pixels)}px "{family}"; }}'
                )
        text = "\n".join(lines)
        if text != self.lines.text() or problem != self.problem.text():
            self.lines.setText(text)
            self.lines.setAccessibleDescription(text)
            self.problem.setText(problem)
            self.problem.setVisible(bool(problem))
            self.updateGeometry()

    def sizeHint(self) -> QSize:
        width = max(self.viewport().width(), 1)
        height = max(0, self.lines.heightForWidth(width))
        if self.problem.text():
            height += max(0, self.problem.heightForWidth(width)) + 2
        return QSize(200, height)

    def minimumSizeHint(self) -> QSize:
        return QSize(100, self.fontMetrics().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def event(self, event: QEvent) -> bool:
        # Where there is something to scroll, up and down scroll it while the keyboard is here.
        if event.type() is QEvent.Type.ShortcutOverride and is_arrow(event):
            event.accept()
            return True
        return super().event(event)

    def _on_range(self, least: int, most: int) -> None:
        policy = Qt.FocusPolicy.TabFocus if most > least else Qt.FocusPolicy.NoFocus
        self.setFocusPolicy(policy)
