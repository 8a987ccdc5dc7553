"""The dialog for a breakpoint around a context, and what the cells of Values offer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint
from PySide6.QtWidgets import QMenu, QWidget

from decoder_gui.context import AppContext
from decoder_gui.debugger.stopping.spots import Spot
from decoder_gui.viewdata.values import ValuesView
from decoder_gui.widgets.value_grid import ValueGrid

if TYPE_CHECKING:  # imported when somebody asks: no start waits for it
    from decoder_gui.debugger.stopping.rules import Rule
    from decoder_gui.widgets.breakpoint_dialog import BreakpointDialog


def ask_for_breakpoint(
    parent: QWidget, context: AppContext, rule: Rule | None = None, number: int | None = None
) -> BreakpointDialog:
    """Open the dialog; what is asked for is added, or put in the place of breakpoint ``number``.

    Without a rule to begin with, it suggests the operation in hand.
    """
    from decoder_gui.debugger.stopping.rules.places import OnOperation
    from decoder_gui.widgets.breakpoint_dialog import BreakpointDialog

    trace, cursor = context.trace, context.cursor
    operations = () if trace is None else tuple(each.name for each in trace.operations)
    arrays = () if trace is None else tuple(n for each in trace.operations for n in each.outputs)
    if rule is None and cursor is not None:
        rule = OnOperation(operations[cursor.operation])
    dialog = BreakpointDialog(
        context.style,
        rule,
        operations=operations,
        arrays=(*arrays, "raw", "tempered", "final"),
        title="Stop when" if number is None else f"Breakpoint {number}",
        parent=parent,
    )

    def take() -> None:
        if dialog.rule is None:
            return
        if number is None:
            context.stops.add(dialog.rule)
            context.notice.emit(f"Breakpoint set: {dialog.rule.words}. F5 runs to it.")
        else:
            context.stops.edit(number, dialog.rule)

    dialog.accepted.connect(take)
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog


class CellActions(QObject):
    """What can be done with a cell of Values: watch it or its row, stop when it crosses a value.

    Args:
        grid: asks for it, by menu or key.
        view: what it shows.
        context: what it is done to.
    """

    def __init__(
        self, grid: ValueGrid, view: Callable[[], ValuesView | None], context: AppContext
    ) -> None:
        super().__init__(grid)
        self._grid, self._view, self._context = grid, view, context
        self.dialog: BreakpointDialog | None = None
        grid.menu_requested.connect(self._show_menu)
        grid.watch_requested.connect(self.watch)
        grid.stop_requested.connect(self.stop)

    def spot(self, row: int, column: int | None) -> Spot | None:
        """The place of a cell, or of a whole row; the newest position is followed."""
        view, context = self._view(), self._context
        if view is None or view.array is None or context.cursor is None or context.trace is None:
            return None
        head, position = view.place(row)
        newest = position == context.trace.steps[context.cursor.step].last - 1
        return Spot(view.output, head, None if newest else position, column)

    def watch(self, row: int, column: int) -> None:
        """Pin a cell; -1 for the column pins its row."""
        spot = self.spot(row, None if column < 0 else column)
        if spot is not None:
            self._context.watches.add(spot)

    def stop(self, row: int, column: int) -> None:
        """Ask for a value at which to stop."""
        from decoder_gui.debugger.stopping.rules.values import CellBeyond, CellCrosses

        spot, view = self.spot(row, column), self._view()
        if spot is None or view is None:
            return
        value = float(f"{view.value(row, column):.4g}")
        value = value if abs(value) < float("inf") else 0.0
        # What is computed once crosses nothing; it can be above or below.
        kind: Rule = (
            CellCrosses(spot, value)
            if spot.position is None
            else CellBeyond(spot=spot, value=value)
        )
        self.dialog = ask_for_breakpoint(self._grid, self._context, kind)

    def build_menu(self, row: int, column: int) -> QMenu:
        """The menu of a cell."""
        menu = QMenu(self._grid)
        for text, slot in (
            ("Watch this value\tW", lambda: self.watch(row, column)),
            ("Watch this row\tShift+W", lambda: self.watch(row, -1)),
            ("Stop when this value crosses…\tB", lambda: self.stop(row, column)),
        ):
            menu.addAction(text).triggered.connect(slot)
        return menu

    def _show_menu(self, row: int, column: int, where: QPoint) -> None:
        menu = self.build_menu(row, column)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(where)
