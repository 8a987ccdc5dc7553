"""A form for the text of a new branch, and what of it would be computed."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLabel,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.theme.style import Style
from decoder_gui.widgets.focus_return import return_focus

WIDTH, HEIGHT = 560, 220  # pixels at scale 1


class TextDialog(QDialog):
    """Edits a text; a line under it says at once what a branch for it would share.

    Args:
        style: palette and scale.
        text: to begin with.
        judge: for a text, words on what it shares, and whether a branch can begin.
    """

    def __init__(
        self,
        style: Style,
        text: str,
        judge: Callable[[str], tuple[str, bool]],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._judge = judge
        self.setWindowTitle("New branch by editing the text")
        self.resize(style.px(WIDTH), style.px(HEIGHT))
        self.edit = QPlainTextEdit(text)
        self.edit.setAccessibleName("Text of the new branch")
        self.edit.setTabChangesFocus(True)
        self.verdict = QLabel()
        self.verdict.setWordWrap(True)
        self.verdict.setProperty("kind", "muted")
        standard = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(standard.Ok | standard.Cancel)
        self.begin = self.buttons.button(standard.Ok)
        self.begin.setText("Begin branch")
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setSpacing(style.px(10))
        column.addWidget(self.edit, 1)
        column.addWidget(self.verdict)
        column.addWidget(self.buttons)
        self.edit.textChanged.connect(self._look)
        self._look()
        return_focus(self)

    @property
    def text(self) -> str:
        """What is written at present."""
        return self.edit.toPlainText()

    def _look(self) -> None:
        words, possible = self._judge(self.text)
        self.verdict.setText(words)
        self.begin.setEnabled(possible)
