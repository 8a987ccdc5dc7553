"""The row of tokens under the prompt, with the state of the run beside it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.viewdata.token_strip import EMPTY, ChipState, build_status, build_token_strip
from decoder_gui.widgets.status_chips import StatusChips
from decoder_gui.widgets.token_strip import TokenStrip
from model.trace import Phase


@register
class TokenStripPanel(Panel):
    """Tokens to go to, and chips that say what the checks found.

    Signals:
        chip_clicked(name): a status chip was pressed; see ``viewdata.token_strip.CHIPS``.
    """

    panel_id = "token_strip"
    title = "Tokens"
    place = Place.STRIP
    wants = (
        Change.TRACE
        | Change.CURSOR
        | Change.SELECTION
        | Change.CHECKS
        | Change.STYLE
        | Change.MODEL
    )

    chip_clicked = Signal(str)

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._view = EMPTY
        self.strip = TokenStrip(context.style, self)
        self.chips = StatusChips(context.style, self)
        self._row = QHBoxLayout(self)
        self._row.addWidget(self.strip, 1)
        self._row.addWidget(self.chips, 0, Qt.AlignmentFlag.AlignVCenter)
        self.strip.token_chosen.connect(self.go_to)
        self.chips.chip_clicked.connect(self._on_chip)

    def redraw(self, changes: Change) -> None:
        context, moment = self.context, self.context.moment
        if changes & Change.STYLE:
            px = context.style.px
            # The outline reaches beyond the cells, which begin where the panels begin.
            self._row.setContentsMargins(px(12), px(4), px(16), px(3))
            self._row.setSpacing(px(12))
        if moment is None:
            self._view = EMPTY
        elif changes & ~Change.CHECKS:
            self._view = build_token_strip(moment, self._view)
        self.strip.set_view(self._view, context.style)
        chips = build_status(moment, context.checks, pending=context.checks_pending)
        self.chips.set_chips(chips, context.style)

    def go_to(self, position: int) -> None:
        """Travel to the step that processed a token, keeping the operation in hand.

        A token of the prompt was processed with others: it becomes the selected query as well.
        """
        context, cell = self.context, self._view.cells[position]
        trace, here = context.trace, context.cursor
        if trace is None or here is None or cell.step >= len(trace.steps):
            return
        if cell.step != here.step:
            last = trace.events_in(cell.step) - 1
            context.seek(Cursor(cell.step, min(here.operation, last)))
        context.select(query=position if cell.phase is Phase.PREFILL else None)

    def _on_chip(self, name: str) -> None:
        """Say what is behind a chip; a check that was never made is made now."""
        context = self.context
        chips = build_status(context.moment, context.checks, pending=context.checks_pending)
        for chip in chips:
            if chip.name == name:
                context.notice.emit(chip.detail)
                if chip.state is ChipState.WAITING and not context.checks_pending:
                    context.run_checks()
        self.chip_clicked.emit(name)
