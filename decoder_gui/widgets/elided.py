"""Texts that may be longer than there is room for: elided, and whole in the tooltip."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QWidget


class ElidedButton(QPushButton):
    """A push button that gives way: it wants the width of its text and gets by with less."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._whole = text
        self._tip = ""
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    @property
    def whole_text(self) -> str:
        """The text, elided or not."""
        return self._whole

    def say(self, text: str, tip: str) -> None:
        """Change the text and the sentence of the tooltip."""
        if (text, tip) != (self._whole, self._tip):
            self._whole, self._tip = text, tip
            self.setAccessibleName(text)
            self.setAccessibleDescription(tip)
            self.updateGeometry()
            self._fit()

    def sizeHint(self) -> QSize:
        shown = super().sizeHint()
        metrics = self.fontMetrics()
        around = shown.width() - metrics.horizontalAdvance(self.text())
        return QSize(around + metrics.horizontalAdvance(self._whole) + 1, shown.height())

    def minimumSizeHint(self) -> QSize:
        least = self.fontMetrics().averageCharWidth() * 12
        return QSize(min(least, self.sizeHint().width()), super().sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        metrics = self.fontMetrics()
        around = super().sizeHint().width() - metrics.horizontalAdvance(self.text())
        room = max(self.width(), self.minimumSizeHint().width()) - around
        if self.width() >= self.sizeHint().width() or not self.isVisible():
            room = metrics.horizontalAdvance(self._whole)
        shown = metrics.elidedText(self._whole, Qt.TextElideMode.ElideRight, room)
        if shown != self.text():
            self.setText(shown)
        self.setToolTip(self._tip if shown == self._whole else f"{self._whole}. {self._tip}")


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
