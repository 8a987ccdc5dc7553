"""A line over the panels that offers something, with a button for each answer."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from decoder_gui.theme.style import Face, Style


class OfferBar(QWidget):
    """Words and two answers; hidden until something is offered.

    Signals:
        accepted(), declined(): which button was pressed.
    """

    accepted = Signal()
    declined = Signal()

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "bar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.words = QLabel()
        self.accept = QPushButton()
        self.accept.setProperty("kind", "primary")
        self.decline = QPushButton()
        self._row = QHBoxLayout(self)
        self._row.addWidget(self.words, 1)
        self._row.addWidget(self.accept)
        self._row.addWidget(self.decline)
        self.accept.clicked.connect(self.accepted)
        self.decline.clicked.connect(self.declined)
        self.set_style(style)
        self.hide()

    def offer(self, words: str, accept: str, decline: str) -> None:
        """Show an offer."""
        self.words.setText(words)
        self.setAccessibleName(words)
        self.accept.setText(accept)
        self.decline.setText(decline)
        self.show()

    def set_style(self, style: Style) -> None:
        """Take on other colours or another scale."""
        self._row.setContentsMargins(style.px(16), style.px(5), style.px(16), style.px(5))
        self._row.setSpacing(style.px(10))
        self.words.setFont(style.font(Face.BODY))
