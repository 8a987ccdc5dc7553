"""One sentence over the lower edge of the panels, for a few seconds."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QLabel, QWidget

from decoder_gui.theme.style import Face, Style


class Notice(QLabel):
    """Floats over its parent and moves nothing; a click puts it away."""

    def __init__(self, style: Style, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("notice")
        self.setAccessibleName("Notice")
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._style = style
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.hide)
        parent.installEventFilter(self)
        self.hide()
        self.set_style(style)

    def set_style(self, style: Style) -> None:
        self._style = style
        palette, px = style.palette, style.px
        self.setFont(style.font(Face.BODY))
        self.setStyleSheet(
            f"QLabel#notice {{ background: {palette.inverse}; color: {palette.inverse_text};"
            f" border-radius: {px(6)}px; padding: {px(8)}px {px(14)}px; }}"
        )
        self._place()

    def say(self, sentence: str, milliseconds: int) -> None:
        """Show a sentence; a newer one takes its place."""
        self.setText(sentence)
        self.setAccessibleDescription(sentence)
        self.show()
        self.raise_()
        self._place()
        self._timer.start(milliseconds)

    def mousePressEvent(self, event: object) -> None:
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is QEvent.Type.Resize:
            self._place()
        return False

    def _place(self) -> None:
        parent = self.parentWidget()
        if parent is None or not self.isVisible():
            return
        widest = min(parent.width() - self._style.px(40), self._style.px(720))
        hint = self.sizeHint()
        width = min(widest, max(hint.width(), self._style.px(160)))
        height = self.heightForWidth(width)
        self.setGeometry(
            (parent.width() - width) // 2,
            parent.height() - height - self._style.px(16),
            width,
            height,
        )
