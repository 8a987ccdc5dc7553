"""A panel in a dock of its own: one rounded ground under title and content."""

from __future__ import annotations

from PySide6.QtCore import QMargins, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QDockWidget, QWidget

from decoder_gui.panels.base import Panel, Place
from decoder_gui.theme.style import Style
from decoder_gui.widgets.dock_title import DockTitle

LEAST_HEIGHT = 90  # of a panel with its margins
# The sides hold text and controls, which a narrower panel would cut; the middle gives way first.
LEAST_WIDTH = {Place.LEFT: 200, Place.RIGHT: 306}
LEAST_WIDTH_ELSE = 170


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
        self._inner = _Inside(panel)
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
        width = LEAST_WIDTH.get(self.panel.place, LEAST_WIDTH_ELSE)
        least = QSize(style.px(width), style.px(LEAST_HEIGHT))
        self._inner.set_room(QMargins(side, 0, side, foot), least)
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


class _Inside(QWidget):
    """A panel and the margins around it.

    Its least size is the same whatever the panel shows. A layout would pass on every changed label
    and arrange all docks again at each step, and a panel that once needed more room would keep it,
    so that stepping back would not bring back the same picture. Panels scroll or elide instead.
    """

    def __init__(self, panel: QWidget) -> None:
        super().__init__()
        self._panel = panel
        self._margins = QMargins()
        self._least = QSize()
        panel.setParent(self)

    def set_room(self, margins: QMargins, least: QSize) -> None:
        """Keep a distance from the edges, and never be smaller than ``least``; in pixels."""
        self._margins, self._least = margins, least
        self._place()
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        return self._panel.sizeHint().grownBy(self._margins)

    def minimumSizeHint(self) -> QSize:
        return self._least

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._place()

    def _place(self) -> None:
        self._panel.setGeometry(self.rect().marginsRemoved(self._margins))
