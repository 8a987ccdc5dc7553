"""Texts that may be longer than there is room for: elided, and whole in the tooltip."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QLabel,
    QPushButton,
    QSizePolicy,
    QStyle,
    QStyleOptionButton,
    QStylePainter,
    QWidget,
)


class ElidedButton(QPushButton):
    """A push button that gives way: it wants the width of its text and gets by with less."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._tip = ""
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def say(self, text: str, tip: str) -> None:
        """Change the text and the sentence of the tooltip."""
        if (text, tip) != (self.text(), self._tip):
            self._tip = tip
            self.setText(text)
            self.setAccessibleDescription(tip)
            self._explain()

    @property
    def shown_text(self) -> str:
        """The part of the text that there is room for."""
        option = QStyleOptionButton()
        self.initStyleOption(option)
        element = QStyle.SubElement.SE_PushButtonContents
        room = self.style().subElementRect(element, option, self).width()
        elide = Qt.TextElideMode.ElideRight
        return self.fontMetrics().elidedText(self.text(), elide, max(0, room))

    def minimumSizeHint(self) -> QSize:
        whole = self.sizeHint()
        return QSize(min(whole.width(), self.fontMetrics().averageCharWidth() * 12), whole.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._explain()

    def paintEvent(self, event: QPaintEvent) -> None:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        option.text = self.shown_text
        QStylePainter(self).drawControl(QStyle.ControlElement.CE_PushButton, option)

    def _explain(self) -> None:
        whole = self.shown_text == self.text()
        self.setToolTip(self._tip if whole else f"{self.text()}. {self._tip}")


class ElidedLabel(QLabel):
    """A label of one line that gives way; its tooltip is the caller's."""

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        room = self.contentsRect()
        shown = self.fontMetrics().elidedText(
            self.text(), Qt.TextElideMode.ElideRight, room.width()
        )
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(room, self.alignment() | Qt.AlignmentFlag.AlignVCenter, shown)
        painter.end()
