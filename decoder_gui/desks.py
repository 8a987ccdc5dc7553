"""One arrangement of docks for each workspace, made when it is first shown."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QByteArray, QEvent, Signal
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QStackedWidget, QWidget

from decoder_gui.arrangement import Arrangement
from decoder_gui.context import AppContext
from decoder_gui.panel_dock import PanelDock
from decoder_gui.panels.base import Panel, Place, panels_of
from decoder_gui.theme.style import Style
from decoder_gui.view import View

FIXED = (Place.STRIP, Place.FOOT)  # panels that all workspaces share, around them


def leave_drops(widget: QWidget) -> None:
    """Let the window have what is dropped on the scroll areas and plots of a widget: a file."""
    for area in widget.findChildren(QAbstractScrollArea):
        area.viewport().setAcceptDrops(False)
        area.setAcceptDrops(False)


class Desks(QStackedWidget):
    """The docks of the workspace in hand; the others keep theirs as they were left.

    Signals:
        shown(View): another workspace is in hand.
    """

    shown = Signal(object)

    def __init__(self, context: AppContext, parent: QWidget) -> None:
        super().__init__(parent)
        self._context = context
        self._desks: dict[View, Arrangement] = {}
        self._to_recall: dict[View, QByteArray] = {}
        self._before_projector: dict[View, QByteArray] = {}
        self.view = View.STEP
        self._make(View.STEP)

    @property
    def current(self) -> Arrangement:
        """The arrangement in hand."""
        return self._desks[self.view]

    @property
    def panels(self) -> dict[str, Panel]:
        """The panels of the workspace in hand, by id."""
        return {name: dock.panel for name, dock in self.current.docks.items()}

    def show_view(self, view: View) -> None:
        """Another workspace; its panels are made if this is the first time."""
        if view is self.view:
            return
        self.view = view
        new = view not in self._desks
        if new:
            self._make(view)
        self.setCurrentWidget(self.current)
        if new:
            self.share_out()
        if view in self._to_recall and (new or not self._context.style.projector):
            QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
            self.current.recall(self._to_recall.pop(view))
        if self._context.style.projector:
            self._enlarge(self.current)
        self.shown.emit(view)

    def set_style(self, style: Style) -> None:
        for desk in self._desks.values():
            self._dress(desk, style)

    def share_out(self) -> None:
        """The default proportions, once everything around the docks has its size."""
        QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
        self.current.share_out()

    def remembered(self) -> dict[View, QByteArray]:
        """The states to write down."""
        made = {view: desk.remembered() for view, desk in self._desks.items()}
        return {**made, **self._to_recall}

    def recall(self, states: Mapping[View, QByteArray]) -> None:
        """Take on states written down earlier; workspaces not made yet do so when they are."""
        for view, state in states.items():
            if view in self._desks:
                self._desks[view].recall(state)
            else:
                self._to_recall[view] = state

    def enlarge(self) -> None:
        """Before everything grows: one panel alone.

        All panels together, enlarged, would push the window beyond its screen.
        """
        self._enlarge(self.current)

    def reduce(self) -> None:
        """After everything has shrunk: all panels, in the proportions that they had."""
        for view, desk in self._desks.items():
            desk.restore()
            state = self._before_projector.pop(view, None)
            if state is not None and view is not self.view:
                self._to_recall[view] = state  # it has its size only when it is shown
            elif state is not None:
                # If all panels were shown enlarged, they had no room for their proportions.
                QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
                desk.recall(state)

    def _enlarge(self, desk: Arrangement) -> None:
        self._before_projector.setdefault(self.view, desk.remembered())
        if desk.maximised is None and desk.docks:
            desk.maximise(desk.main_panel)
        QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)

    def _make(self, view: View) -> None:
        style = self._context.style
        docks = [
            PanelDock(kind(self._context), style)
            for kind in panels_of(view)
            if kind.place not in FIXED
        ]
        desk = Arrangement(docks, style, self)
        leave_drops(desk)
        self._dress(desk, style)
        self._desks[view] = desk
        self.addWidget(desk)

    def _dress(self, desk: Arrangement, style: Style) -> None:
        desk.set_style(style)
        side = style.px(16)
        desk.setContentsMargins(side, 0, side, style.px(10))
