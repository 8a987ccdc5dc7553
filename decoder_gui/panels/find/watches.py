"""The Watches panel: pinned cells and rows over all steps."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.view import View
from decoder_gui.viewdata.watches import build_watches
from decoder_gui.widgets.watch_list import WatchList

AT_ONCE = 0.006  # s of reading between two paintings
AGAIN = 16  # ms


@register
class WatchesPanel(Panel):
    """What is watched, its value at the cursor and its history; a click on a point goes there."""

    panel_id = "watches"
    title = "Watches"
    views = (View.FIND,)
    place = Place.RIGHT
    order = 1
    row_height = 360
    wants = (
        Change.TRACE
        | Change.CURSOR
        | Change.SAMPLING
        | Change.STYLE
        | Change.MODEL
        | Change.WATCHES
    )

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.empty = QLabel()
        self.empty.setWordWrap(True)
        self.empty.setProperty("kind", "muted")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.list = WatchList()
        self.list.travelled.connect(context.watches.travel)
        self.list.removed.connect(context.watches.remove)
        self.list.shown_chosen.connect(context.watches.show)
        self._more = QTimer(self)
        self._more.setSingleShot(True)
        self._more.setInterval(AGAIN)
        self._more.timeout.connect(self._read_on)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.empty, 1)
        column.addWidget(self.list, 1)

    def redraw(self, changes: Change) -> None:
        context = self.context
        if not context.watches.refresh(AT_ONCE):
            self._more.start()
        view = build_watches(
            context.moment, context.watches.items.items, context.watches.histories.readings
        )
        self.empty.setText(view.message)
        self.empty.setVisible(bool(view.message))
        self.list.setVisible(not view.message)
        self.list.set_view(view, context.style)
        self.set_caption(self.title, view.hint)

    def _read_on(self) -> None:
        if self.isVisible():
            self.redraw(Change.WATCHES)
