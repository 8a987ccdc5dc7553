"""The Attention panel: one head as a matrix, all heads as thumbnails, and what leaks."""

from __future__ import annotations

from time import perf_counter

from PySide6.QtCore import QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QLabel, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.commands.patterns import Patterns
from decoder_gui.context import AppContext
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.viewdata.attention import AttentionView, build_attention, layer_in_hand
from decoder_gui.viewdata.attention_store import PatternStore
from decoder_gui.viewdata.faults import behaviour_line, build_faults, fault_banner
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_count, plural
from decoder_gui.widgets.attention_matrix import AttentionMatrix
from decoder_gui.widgets.fault_panel import FaultPanel
from decoder_gui.widgets.focus_return import return_focus
from decoder_gui.widgets.head_column import HeadColumn

HINT = "row = query, column = key"
NARROW = 520.0  # pixels at scale 1 below which the thumbnails go under the matrix
COLUMN_LEAST = 240.0
COLUMN_SHARE = 0.36  # of the panel's width
LEAKS_SHOWN = 2  # sentences; the tooltip has more, and the matrix marks every leak
NO_LIMIT = 16_777_215  # Qt's own, which the binding does not export
AT_ONCE = 2_000_000  # attention weights looked at while a view is made; others wait for the loop
SLICE_WEIGHTS, SLICE = 400_000, 0.006  # and then in a turn of the event loop: weights, seconds
_VIEW_CHANGES = Change.TRACE | Change.CURSOR | Change.SELECTION | Change.STYLE | Change.MODEL


@register
class AttentionPanel(Panel):
    """Who attends to whom, in the block of the operation in hand or in one that is kept.

    The displayed block follows the step until a head of another block is chosen or following is
    switched off; the head is always the selected one.
    """

    panel_id = "attention"
    title = "Attention"
    place = Place.CENTRE
    wants = _VIEW_CHANGES | Change.CHECKS

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._store = PatternStore()
        self._patterns = Patterns(context, self._store, self._refresh)
        self._slices = QTimer(self)
        self._slices.setSingleShot(True)
        self._slices.timeout.connect(self._take_slice)
        self._view: AttentionView | None = None
        self._drawn_for: tuple[object, ...] = ()
        self._locked = False
        self._model: tuple[str, str] = ("", "")
        self._seen_layer = context.selection.layer
        self._awaited: tuple[str, bool] | None = None
        self._fault_panel: FaultPanel | None = None

        self.banner, self.empty = QLabel(), QLabel()
        for label in (self.banner, self.empty):
            label.setWordWrap(True)
        self.empty.setProperty("kind", "muted")
        self.matrix = AttentionMatrix(context.style)
        self.column = HeadColumn(context.style)
        self._body = QWidget()
        self._body_rows = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._body)
        self._body_rows.setContentsMargins(0, 0, 0, 0)
        self._body_rows.addWidget(self.matrix, 1)
        self._body_rows.addWidget(self.column)
        whole = self._whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(self.banner)
        whole.addWidget(self.empty)
        whole.addWidget(self._body, 1)

        self.matrix.hovered.connect(self._on_hovered)
        self.matrix.cell_chosen.connect(self._on_cell)
        self.matrix.cell_released.connect(self._on_released)
        self.column.scrolled.connect(self._go_on)
        self.column.grid.head_chosen.connect(self._on_head)
        self.column.follow.clicked.connect(self._on_follow)
        self.column.break_button.clicked.connect(self.open_faults)
        context.notice.connect(self._on_notice)

    @property
    def view(self) -> AttentionView | None:
        """What is shown."""
        return self._view

    @property
    def fault_panel(self) -> FaultPanel | None:
        """The list of faults, once it has been opened."""
        return self._fault_panel

    # ---- drawing

    def redraw(self, changes: Change) -> None:
        selection = self.context.selection
        if changes & Change.STYLE:
            self._restyle()
        model = self.context.model
        if model is not None and (model.name, model.path) != self._model:
            self._model = (model.name, model.path)
            self._locked, self._view = False, None
        elif changes & Change.SELECTION and selection.layer != self._seen_layer:
            self._locked = True
        self._seen_layer = selection.layer
        if changes & _VIEW_CHANGES:
            self._redraw_view(changes)
        self._redraw_checks()
        # What the checks say takes room from the thumbnails.
        self._fit()

    def _redraw_view(self, changes: Change) -> None:
        moment = self.context.moment
        computed = moment is not None and moment.cursor is not None
        more = False
        if moment is not None and changes & Change.TRACE:
            more = self._store.prepare(moment, AT_ONCE, self.column.layers_in_sight())
        if not computed and self._view is not None and not self.context.idle:
            return  # the same model is about to run again: no flash of an empty panel
        if not computed:
            self.empty.setText(self.empty_words)
        self.empty.setVisible(not computed)
        self._body.setVisible(computed)
        if moment is None or not computed:
            self._view, self._drawn_for = None, ()
            self.set_caption(self.title)
            return
        # While the worker decodes on, the trace grows behind a cursor that has not moved.
        drawn_for = (moment.trace, moment.cursor, moment.step)
        held = self._view is not None and not self._view.not_kept
        if changes == Change.TRACE and held and drawn_for == self._drawn_for:
            if more:
                self._slices.start(0)
            return
        self._drawn_for = drawn_for
        self._show(moment, restyled=bool(changes & Change.STYLE))
        self._go_on()

    def _show(self, moment: Moment, *, restyled: bool = False) -> None:
        """Show a moment, with the thumbnails that are ready."""
        layer = self.context.selection.layer if self._locked else None
        in_sight = self.column.layers_in_sight()
        before, view = (
            self._view,
            build_attention(moment, self._store, layer=layer, limit=AT_ONCE, first=in_sight),
        )
        self._view = view
        self.column.follow.setChecked(not self._locked)
        self.set_caption(view.title, f"block kept · {HINT}" if self._locked else HINT)
        if view is before and not restyled:
            return
        selection = self.context.selection
        chosen = None if selection.query is None and selection.key is None else view.selected
        self.matrix.set_data(view, self.context.style, chosen)
        self.column.set_heads(view)
        self._show_readout(self.matrix.hovered_cell)
        steps = view.not_kept
        words = f"block {view.layer}: {plural(len(steps), 'step')} not kept"
        if not all(self._patterns.refused(moment, view.layer, step) for step in steps):
            words += ", recomputing"
        self.column.set_missing(words if steps else "")

    def _go_on(self) -> None:
        """See to what the view in hand lacks, once everything is painted."""
        if self._view is not None and (self._view.unfinished or self._view.not_kept):
            self._slices.start(0)

    def _take_slice(self) -> None:
        """Make thumbnails for a few milliseconds, then let the event loop have its turn.

        What was not kept is worked out again in the worker, only for the matrix and for thumbnails
        in sight.
        """
        moment, view, began = self.context.moment, self._view, perf_counter()
        if moment is None or view is None or moment.cursor is None or not self.isVisible():
            return
        more, store, in_sight = True, self._store, self.column.layers_in_sight()
        store.follow(moment)
        while more:
            more = store.take_in(moment, SLICE_WEIGHTS, in_sight) or store.prepare(
                moment, SLICE_WEIGHTS, in_sight
            )
            if perf_counter() - began > SLICE:
                break
        if store.unfinished(moment) != view.unfinished:
            self._refresh()
        if self._view is not None and (self._view.unfinished or self._view.not_kept):
            self._patterns.want(moment, self._view, in_sight)
        if more:
            self._slices.start(0)

    def _refresh(self) -> None:
        """Show what has been made ready since; nothing else has changed."""
        moment = self.context.moment
        if moment is None or moment.cursor is None or self._view is None or not self.isVisible():
            return
        self._show(moment)
        self._redraw_checks()
        self._fit()
        self._go_on()

    def _show_readout(self, cell: tuple[int, int] | None) -> None:
        """Read out a cell, or the one in hand where there is none."""
        if self._view is not None and self._view.selected is not None:
            self.column.set_readout(self._view.readout(*(cell or self._view.selected)))

    def _redraw_checks(self) -> None:
        context, view = self.context, self._view
        self.banner.setText(fault_banner(context.faults))
        self.banner.setVisible(bool(context.faults))
        if view is not None:
            sentences = [leak.sentence for leak in view.leaks]
            lines = sentences[:LEAKS_SHOWN]
            if view.leak_count > len(lines):
                lines.append(f"and {format_count(view.leak_count - len(lines))} more")
            self.column.leaks.setToolTip("\n".join(sentences))
            behaviour, detail = behaviour_line(context.checks, context.checks_pending)
            self.column.set_causality(view.causal, lines, behaviour, detail)
        if self._fault_panel is not None and self._fault_panel.isVisible():
            self._redraw_faults()

    # ---- what the user does

    def _on_hovered(self, cell: tuple[int, int] | None) -> None:
        self._show_readout(cell)

    def _on_cell(self, query: int, key: int) -> None:
        """Choose a cell; the same one again lets go of it."""
        selection = self.context.selection
        if (selection.query, selection.key) == (query, key):
            self._on_released()
        else:
            self.context.select(query=query, key=key)

    def _on_released(self) -> None:
        self.context.select(query=None, key=None)

    def _on_head(self, layer: int, head: int) -> None:
        moment = self.context.moment
        if moment is None:
            return
        if not self._locked and layer == layer_in_hand(moment):
            self.context.select(head=head)
        else:
            self._lock_to(layer, head)

    def _on_follow(self, follow: bool) -> None:
        if follow:
            self._locked = False
            self.redraw(Change.SELECTION)
        elif self._view is not None:
            self._lock_to(self._view.layer, self._view.head)

    def _lock_to(self, layer: int, head: int) -> None:
        self._locked = True
        self.context.select(layer=layer, head=head)
        self.redraw(Change.SELECTION)  # also where the selection was that already

    # ---- deliberate faults

    def open_faults(self) -> None:
        """Open the list of deliberate faults; it stays open beside the window."""
        if self._fault_panel is None:
            self._fault_panel = FaultPanel(self.context.style, self)
            self._fault_panel.fault_toggled.connect(self._on_fault)
            self._fault_panel.all_off.connect(self.context.clear_faults)
            return_focus(self._fault_panel)
        self._redraw_faults()
        self._fault_panel.show()
        self._fault_panel.activateWindow()

    def _redraw_faults(self) -> None:
        context, panel = self.context, self._fault_panel
        if panel is not None:
            view = build_faults(context.faults, context.checks, context.checks_pending)
            panel.set_data(view, context.style)

    def _on_fault(self, name: str, on: bool) -> None:
        self._awaited = (name, on)
        self.context.set_fault(name, on)

    def _on_notice(self, text: str) -> None:
        """The notice after a box was clicked is the refusal of that fault, unless it is on."""
        if self._awaited is None or self._fault_panel is None:
            return
        name, on = self._awaited
        self._awaited = None
        if (name in self.context.faults) is not on:
            self._fault_panel.set_refusal(text)

    # ---- arrangement

    def _restyle(self) -> None:
        style = self.context.style
        self._whole.setSpacing(style.px(8))
        self._body_rows.setSpacing(style.px(8))
        self.column.set_style(style)
        self.banner.setStyleSheet(
            f"background: {style.palette.bad}; color: {style.palette.panel}; font-weight: 600; "
            f"border-radius: {style.px(4)}px; padding: {style.px(6)}px {style.px(10)}px;"
        )

    def _fit(self) -> None:
        style, ways = self.context.style, QBoxLayout.Direction
        narrow = self.width() < style.px(NARROW)
        self._body_rows.setDirection(ways.TopToBottom if narrow else ways.LeftToRight)
        if narrow:
            self.column.setMinimumWidth(0)
            self.column.setMaximumWidth(NO_LIMIT)
        else:
            width = max(style.px(COLUMN_LEAST), round(self.width() * COLUMN_SHARE))
            self.column.setFixedWidth(width)
        # Under the matrix the column gets half of the height.
        self.column.fit(self._body.height() // 2 if narrow else None)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
        self._go_on()
