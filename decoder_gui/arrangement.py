"""Where the panels stand: the default arrangement, one panel maximised, remembered states."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtWidgets import QMainWindow, QWidget

from decoder_gui.panel_dock import PanelDock
from decoder_gui.panels.base import Panel, Place
from decoder_gui.theme.style import Style

STATE_VERSION = 1  # raise it when docks change places, so that an old state is not restored
_WIDTHS = {Place.LEFT: 268, Place.CENTRE: 790, Place.RIGHT: 330}
_CENTRE_LEAST = 300
_GAP = 10  # between docks, as in the style sheet
_HEIGHTS = {Place.CENTRE: 552, Place.BELOW: 144}


class Arrangement(QMainWindow):
    """The docks, side by side, with nothing in the middle but themselves."""

    def __init__(self, docks: Iterable[PanelDock], style: Style, parent: QWidget) -> None:
        super().__init__(parent)
        # Inside another window it is a plain widget; as a window it would float on its own.
        self.setWindowFlags(Qt.WindowType.Widget)
        self.setDockNestingEnabled(True)
        self.setDockOptions(
            QMainWindow.DockOption.AllowNestedDocks | QMainWindow.DockOption.AllowTabbedDocks
        )
        self.docks = {dock.panel.panel_id: dock for dock in docks}
        self._style = style
        self._before_maximise: QByteArray | None = None
        self.maximised: str | None = None
        for dock in self.docks.values():
            dock.maximise_requested.connect(self.toggle_maximised)
        self._place_all()

    @property
    def main_panel(self) -> str:
        """The panel that stands alone where only one has room: the first in the middle."""
        middle = [n for n, dock in self.docks.items() if dock.panel.place is Place.CENTRE]
        return (middle or list(self.docks))[0]

    def set_style(self, style: Style) -> None:
        self._style = style
        for dock in self.docks.values():
            dock.set_style(style)

    def reset(self) -> None:
        """The default arrangement, everything visible."""
        self.maximised = None
        self._before_maximise = None
        for dock in self.docks.values():
            dock.setFloating(False)
            self.removeDockWidget(dock)
        self._place_all()

    def maximise(self, panel_id: str) -> None:
        """Show one panel alone; the others are hidden until :meth:`restore`."""
        if self._before_maximise is None:
            self._before_maximise = self.saveState(STATE_VERSION)
        self.maximised = panel_id
        for name, dock in self.docks.items():
            dock.setVisible(name == panel_id)

    def restore(self) -> None:
        """Back to what was there before one panel was maximised."""
        if self._before_maximise is None:
            return
        state, self._before_maximise = self._before_maximise, None
        self.maximised = None
        if not self.restoreState(state, STATE_VERSION):
            self.reset()

    def toggle_maximised(self, panel_id: str) -> None:
        if self.maximised == panel_id:
            self.restore()
        else:
            self.maximise(panel_id)

    def remembered(self) -> QByteArray:
        """The state to write down: never one with a panel maximised."""
        if self._before_maximise is not None:
            return self._before_maximise
        return self.saveState(STATE_VERSION)

    def recall(self, state: QByteArray) -> bool:
        """Take on a state written down earlier; only after the window is shown."""
        return self.restoreState(state, STATE_VERSION)

    def share_out(self) -> None:
        """Give the columns and rows their default proportions."""
        columns = self._columns()
        widths = {place: self._width(place, docks) for place, docks in columns.items()}
        if Place.CENTRE in widths:
            # The sides hold text and controls and keep their widths; the matrix gives way.
            others = [width for place, width in widths.items() if place is not Place.CENTRE]
            gaps = self._style.px(_GAP) * len(others)
            room = self.contentsRect().width() - sum(others) - gaps
            widths[Place.CENTRE] = max(self._style.px(_CENTRE_LEAST), room)
        heads = [docks[0] for docks in columns.values()]
        self.resizeDocks(heads, list(widths.values()), Qt.Orientation.Horizontal)
        for docks in columns.values():
            heights = [self._height(dock.panel) for dock in docks]
            self.resizeDocks(docks, heights, Qt.Orientation.Vertical)

    def _columns(self) -> dict[Place, list[PanelDock]]:
        """The docks of each column that has any, from the left and from above."""
        columns: dict[Place, list[PanelDock]] = {
            Place.LEFT: [],
            Place.CENTRE: [],
            Place.RIGHT: [],
        }
        for dock in self.docks.values():
            place = Place.CENTRE if dock.panel.place is Place.BELOW else dock.panel.place
            columns[place].append(dock)
        return {place: docks for place, docks in columns.items() if docks}

    def _width(self, place: Place, docks: list[PanelDock]) -> int:
        wanted = max(dock.panel.column_width for dock in docks)
        return self._style.px(wanted or _WIDTHS[place])

    def _height(self, panel: Panel) -> int:
        wanted = panel.row_height or _HEIGHTS.get(panel.place, 0)
        return self._style.px(wanted) if wanted else panel.sizeHint().height()

    def _place_all(self) -> None:
        columns = self._columns()
        heads = [docks[0] for docks in columns.values()]
        for index, head in enumerate(heads):
            if index == 0:
                self.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, head)
            else:
                self.splitDockWidget(heads[index - 1], head, Qt.Orientation.Horizontal)
        for docks in columns.values():
            for above, below in pairwise(docks):
                self.splitDockWidget(above, below, Qt.Orientation.Vertical)
        for dock in self.docks.values():
            dock.show()
        self.share_out()
