"""Widgets under one another that fill a panel, and scroll where it is too low for them."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from decoder_gui.theme.style import Style


class ScrolledColumn(QScrollArea):
    """:attr:`column` is the layout to put widgets in, ``spacing`` pixels apart at scale 1."""

    def __init__(self, spacing: int = 6, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._spacing = spacing
        self._content = QWidget()
        self.column = QVBoxLayout(self._content)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # Tab goes to the widgets inside; the area follows the one that has the focus.
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(self._content)
        self.verticalScrollBar().rangeChanged.connect(self._on_range)

    def set_style(self, style: Style) -> None:
        self._style = style
        self.column.setSpacing(style.px(self._spacing))
        self._on_range(0, self.verticalScrollBar().maximum())

    def minimumSizeHint(self) -> QSize:
        # Never too narrow for what is inside: only the height may be scrolled.
        inside = self._content.minimumSizeHint().width()
        return QSize(inside + self.verticalScrollBar().sizeHint().width(), self._style.px(80))

    def sizeHint(self) -> QSize:
        inside = self._content.sizeHint()
        return QSize(max(inside.width(), self.minimumSizeHint().width()), inside.height())

    def _on_range(self, least: int, most: int) -> None:
        """Numbers at the right edge keep their distance from a scroll bar."""
        self.column.setContentsMargins(0, 0, self._style.px(6) if most > least else 0, 0)
