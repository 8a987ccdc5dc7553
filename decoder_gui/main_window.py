"""The window itself: light enough to be painted before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSettings, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QPaintEvent
from PySide6.QtWidgets import QLabel, QMainWindow, QVBoxLayout, QWidget

from decoder_gui.theme.style import Style
from decoder_gui.view import View
from decoder_gui.widgets.top_bar import TopBar

if TYPE_CHECKING:
    from decoder_gui.context import AppContext
    from decoder_gui.workspace import Workspace


class MainWindow(QMainWindow):
    """The top bar, and under it first a sentence, then the workspace.

    Painting happens in two steps: the frame at once, then :meth:`furnish` brings NumPy, the
    engines and the panels, about twice as long again.

    Args:
        style: the looks to begin with.
        settings: where the arrangement and the looks are remembered, or None for neither.

    Signals:
        painted: once, when the frame stands on the screen for the first time.
    """

    painted = Signal()

    def __init__(self, style: Style, settings: QSettings | None = None) -> None:
        super().__init__()
        self._settings = settings
        self._unpainted = True
        self.workspace: Workspace | None = None
        self.setWindowTitle("decoder-gui")
        self.setAcceptDrops(True)
        self.top_bar = TopBar(style, [view.value for view in View])
        self._opening = QLabel("Opening…")
        self._opening.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._opening.setProperty("kind", "muted")
        whole = QWidget()
        self._rows = QVBoxLayout(whole)
        self._rows.setSpacing(0)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._rows.addWidget(self.top_bar)
        self._rows.addWidget(self._opening, 1)
        self.setCentralWidget(whole)
        # No control has the focus at first: the keys step, and no ring is drawn.
        self.setFocus()

    def sizeHint(self) -> QSize:
        return QSize(1440, 900)

    def furnish(self, context: AppContext) -> Workspace:
        """Build the panels around a context and bring back the arrangement of last time."""
        from decoder_gui.recent import RecentModels
        from decoder_gui.workspace import Workspace

        self.workspace = Workspace(context, self, RecentModels(self._settings))
        # Not replaceWidget: it hands its old item to Python, which frees it under the layout.
        self._rows.removeWidget(self._opening)
        self._opening.deleteLater()
        self._rows.addWidget(self.workspace, 1)
        self.workspace.show()
        # Heights are remembered and shared out in full: the rows around the docks come first.
        self.workspace.desks.share_out()
        if self._settings is not None:
            states = {view: self._settings.value(_key(view)) for view in View}
            self.workspace.desks.recall({v: s for v, s in states.items() if s is not None})
        return self.workspace

    def recall_geometry(self) -> None:
        """Take on the size and place of last time, or else as much of the screen as is useful."""
        geometry = None if self._settings is None else self._settings.value("window/geometry")
        if geometry is None or not self.restoreGeometry(geometry):
            # Left alone, Qt takes at most two thirds of a screen.
            self.resize(self.sizeHint().boundedTo(self.screen().availableSize()))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._unpainted:
            self._unpainted = False
            # The children are painted in the same go, after their parent.
            QTimer.singleShot(0, self.painted.emit)

    def closeEvent(self, event: QCloseEvent) -> None:
        if self.workspace is not None:
            self.workspace.close_down()
            if self._settings is not None:
                style = self.workspace.context.style
                self._settings.setValue("window/geometry", self.saveGeometry())
                for view, state in self.workspace.desks.remembered().items():
                    self._settings.setValue(_key(view), state)
                self._settings.setValue("looks/theme", style.palette.name.value)
                self._settings.setValue("looks/scale", style.scale)
        super().closeEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        paths = [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]
        if paths and self.workspace is not None:
            event.acceptProposedAction()
            # A config.json stands for the folder that it describes.
            place = paths[0].parent if paths[0].name == "config.json" else paths[0]
            self.workspace.open_model(str(place))


def _key(view: View) -> str:
    """Under which the arrangement of a workspace is remembered."""
    return f"arrangement/{view.name.lower()}"
