"""The Forward pass panel: the operations of the step in hand, and the code of the current one."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QLabel, QWidget

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.view import View
from decoder_gui.viewdata.forward_pass import ForwardPassView, build_forward_pass
from decoder_gui.widgets.operation_tree import OperationTree
from decoder_gui.widgets.source_view import SourceView

SIDE_BY_SIDE = 620  # wider than this, the source stands beside the tree
QWIDGETSIZE_MAX = 16_777_215  # Qt's own "no limit", which the binding does not export


@register
class ForwardPassPanel(Panel):
    """Where in the forward pass the cursor stands; a click on an operation goes there."""

    panel_id = "forward-pass"
    title = "Forward pass"
    views = (View.STEP, View.FIND)
    place = Place.LEFT
    at_cursor = True
    wants = Change.TRACE | Change.CURSOR | Change.STYLE | Change.MODEL | Change.STOPS

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.tree = OperationTree()
        self.source = SourceView()
        self.empty = QLabel()
        self.empty.setWordWrap(True)
        self.empty.setProperty("kind", "muted")
        self.tree.chosen.connect(self._go_to)
        self.tree.stop_toggled.connect(self._toggle_stop)
        self.tree.resized.connect(self._limit_tree)
        self._layout = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addWidget(self.empty)
        self._layout.addWidget(self.tree)
        self._layout.addWidget(self.source, 1)

    def redraw(self, changes: Change) -> None:
        moment, style = self.context.moment, self.context.style
        view: ForwardPassView | None = None if moment is None else build_forward_pass(moment)
        if view is None:
            self.empty.setText(self.empty_words)
        self.empty.setVisible(view is None)
        self.tree.setVisible(view is not None)
        self.source.setVisible(view is not None)
        if changes & Change.STYLE:
            self._layout.setSpacing(style.px(10))
            self.source.set_style(style)
        if self.context.cursor is not None:
            self.tree.set_stops(*self.context.stops.marked_operations(self.context.cursor.step))
        self.tree.set_view(view, style)
        if view is None:
            self.set_caption(self.title)
            return
        self.source.set_explanation(view.source, view.formula, view.sentence, style)
        self.set_caption(view.title, view.hint)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wide = event.size().width() > self.context.style.px(SIDE_BY_SIDE)
        ways = QBoxLayout.Direction
        direction = ways.LeftToRight if wide else ways.TopToBottom
        if direction is not self._layout.direction():
            self._layout.setDirection(direction)
            self._limit_tree()

    def _limit_tree(self) -> None:
        """Above the source, the tree is never taller than its rows; beside it, it takes half."""
        beside = self._layout.direction() is QBoxLayout.Direction.LeftToRight
        self.tree.setMaximumHeight(QWIDGETSIZE_MAX if beside else self.tree.sizeHint().height())
        self._layout.setStretchFactor(self.tree, 1 if beside else 0)

    def _go_to(self, operation: int) -> None:
        cursor, trace = self.context.cursor, self.context.trace
        if cursor is not None and trace is not None and operation < trace.events_in(cursor.step):
            self.context.seek(Cursor(cursor.step, operation))

    def _toggle_stop(self, operation: int, every: bool) -> None:
        cursor = self.context.cursor
        if every:
            self.context.stops.toggle_operation(operation)
        elif cursor is not None:
            self.context.stops.toggle_event(Cursor(cursor.step, operation))
