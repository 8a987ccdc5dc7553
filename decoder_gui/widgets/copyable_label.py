"""Wrapped plain text that can be copied from its context menu.

A label whose text is selectable carries a whole text document and takes a millisecond to lay out,
which is too much for one that changes at every step.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QLabel, QWidget


class CopyableLabel(QLabel):
    """A label with wrapping text and a Copy entry."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.copy_action = QAction("Copy", self)
        self.copy_action.triggered.connect(self._copy)
        self.addAction(self.copy_action)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text())
