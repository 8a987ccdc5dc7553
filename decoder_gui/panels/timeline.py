"""The foot of the window: transport and timeline."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.branches import Tree
from decoder_gui.debugger.cursor import Cursor, first
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.viewdata.branch_lines import BranchLine, build_branch_lines
from decoder_gui.viewdata.timeline import EMPTY, build_timeline
from decoder_gui.widgets.timeline import Timeline
from decoder_gui.widgets.transport import Transport, TransportView


@register
class TimelinePanel(Panel):
    """Steps, plays and travels; says what the worker is doing."""

    panel_id = "timeline"
    title = "Timeline"
    place = Place.FOOT
    wants = (
        Change.TRACE
        | Change.CURSOR
        | Change.SAMPLING
        | Change.STYLE
        | Change.BUSY
        | Change.MODEL
        | Change.BRANCHES
    )

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.setProperty("kind", "foot")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.transport = Transport(context.style, self)
        self.timeline = Timeline(context.style, self)
        self._column = column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.transport)
        column.addWidget(self.timeline)
        self._tree: Tree | None = None
        self._beside: tuple[BranchLine, ...] = ()
        self._connect()

    def redraw(self, changes: Change) -> None:
        context, moment = self.context, self.context.moment
        margin = context.style.px(16)
        self._column.setContentsMargins(margin, 0, margin, 0)
        view = EMPTY
        if moment is not None:
            lines, name = self._lines()
            view = build_timeline(moment, context.breakpoints, context.exhausted, lines, name)
        self.timeline.set_view(view, context.style)
        busy = context.busy
        self.transport.set_view(
            TransportView(
                ready=context.cursor is not None,
                at_first=context.trace is None or context.cursor == first(context.trace),
                at_last=context.at_end,
                exhausted=bool(context.exhausted),
                granularity=context.granularity,
                playing=context.playing,
                rate=context.play_rate,
                stops=tuple(item.rule.words for item in context.stops.items.on),
                busy="" if busy is None else busy.text,
                fraction=None if busy is None else busy.fraction,
            ),
            context.style,
        )

    def _lines(self) -> tuple[tuple[BranchLine, ...], str]:
        """The other branches, made anew only when the tree is another one; and the one in hand."""
        tree, model = self.context.branches.tree, self.context.model
        if model is None or len(tree) < 2:
            return (), ""
        if tree is not self._tree:
            self._tree, self._beside = tree, build_branch_lines(tree, model.tokenizer)
        return self._beside, tree.active_branch.name

    def _connect(self) -> None:
        context, transport, timeline = self.context, self.transport, self.timeline
        transport.first_requested.connect(context.go_first)
        transport.last_requested.connect(context.go_last)
        transport.back_requested.connect(lambda: context.move(-1))
        transport.step_requested.connect(lambda: context.move(1))
        transport.run_requested.connect(lambda: context.run(1))
        transport.play_toggled.connect(context.toggle_play)
        transport.cancel_requested.connect(context.cancel)
        transport.granularity_chosen.connect(context.set_granularity)
        transport.rate_chosen.connect(context.set_play_rate)
        timeline.seek_requested.connect(lambda step, at: context.seek(Cursor(step, at)))
        timeline.breakpoint_toggled.connect(
            lambda step, at: context.toggle_breakpoint(Cursor(step, at))
        )
        timeline.decode_requested.connect(self._decode)
        timeline.branch_chosen.connect(context.branches.switch)

    def _decode(self) -> None:
        """One more token: from the last event there is no way forward but decoding."""
        self.context.go_last()
        self.context.move(1)
