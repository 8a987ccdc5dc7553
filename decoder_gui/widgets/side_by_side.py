"""Two groups of widgets: side by side where there is room for both, else one under the other."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QVBoxLayout, QWidget

from decoder_gui.theme.style import Style


class SideBySide(QWidget):
    """:attr:`first` and :attr:`second` are the layouts to put widgets in.

    Args:
        least: pixels at scale 1 from which they stand side by side.
        gap: pixels at scale 1 between them then; ``spacing`` between widgets, and between the two
            where they stand one under the other.
    """

    def __init__(
        self, least: float, *, gap: float = 20, spacing: float = 6, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._style = Style()
        self._least, self._gap, self._spacing = least, gap, spacing
        self.first, self.second = QVBoxLayout(), QVBoxLayout()
        self._both = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self._both.setContentsMargins(0, 0, 0, 0)
        for side in (self.first, self.second):
            self._both.addLayout(side, 1)

    @property
    def beside(self) -> bool:
        """Whether they stand side by side."""
        return self._both.direction() is QBoxLayout.Direction.LeftToRight

    def end(self) -> None:
        """Push what is in both to the top; after the last widget."""
        self.first.addStretch(1)
        self.second.addStretch(1)

    def set_style(self, style: Style) -> None:
        """Take on another scale."""
        self._style = style
        for side in (self.first, self.second):
            side.setSpacing(style.px(self._spacing))
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        beside = self.width() >= self._style.px(self._least)
        direction = QBoxLayout.Direction
        self._both.setDirection(direction.LeftToRight if beside else direction.TopToBottom)
        self._both.setSpacing(self._style.px(self._gap if beside else self._spacing))
