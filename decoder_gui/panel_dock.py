"""A panel in a dock of its own: one rounded ground under title and content."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QDockWidget, QVBoxLayout, QWidget

from decoder_gui.panels.base import Panel
from decoder_gui.theme.style import Style
from decoder_gui.widgets.dock_title import DockTitle


class PanelDock(QDockWidget):
    """Holds a panel; can be moved, hidden, floated and maximised.

    Signals:
        maximise_requested(str): the panel's id.
    """

    maximise_requested = Signal(str)

    def __init__(self, panel: Panel, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(panel.title, parent)
        self.panel = panel
        self.setObjectName(f"dock-{panel.panel_id}")
        self._style = style
        self._title = DockTitle(style)
        self._title.set_caption(panel.title, "")
        self.setTitleBarWidget(self._title)
        self._inner = QWidget(self)
        self._layout = QVBoxLayout(self._inner)
        self._layout.setSpacing(0)
        self._layout.addWidget(panel)
        self.setWidget(self._inner)
        self.setAllowedAreas(Qt.DockWidgetArea.AllDockWidgetAreas)
        panel.caption_changed.connect(self._title.set_caption)
        self._title.maximise_requested.connect(self._on_maximise)
        self._title.float_requested.connect(self._on_float)
        self._title.hide_requested.connect(self.hide)
        self.set_style(style)

    def set_style(self, style: Style) -> None:
        """Take on other colours or another scale."""
        self._style = style
        side, foot = style.px(12), style.px(10)
        self._layout.setContentsMargins(side, 0, side, foot)
        self._title.set_style(style)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._style.colour("border"), 1))
        painter.setBrush(self._style.colour("panel"))
        radius = 0 if self.isFloating() else self._style.px(6)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)

    def _on_maximise(self) -> None:
        self.maximise_requested.emit(self.panel.panel_id)

    def _on_float(self) -> None:
        self.setFloating(not self.isFloating())
