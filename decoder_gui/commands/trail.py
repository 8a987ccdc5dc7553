"""The way that was followed from a number to what made it, and back along it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.operands import Cell, label_of
from decoder_gui.viewdata.provenance import (
    original,
    place_of,
    recorded_value,
    selection_at,
    words_of,
)

if TYPE_CHECKING:
    from decoder_gui.context import AppContext
    from model.trace import Trace


@dataclass(frozen=True)
class Stop:
    """A number on the way: where the cursor stood, which number, and it in words."""

    cursor: Cursor
    cell: Cell
    words: str


class Trail(Commands):
    """Travels from operand to operand.

    Attributes:
        stops: the numbers visited, the first one asked about first.
    """

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self.stops: tuple[Stop, ...] = ()
        self._trace: Trace | None = None  # in which they lie

    def leads_to(self, cell: Cell | None) -> bool:
        """Whether a cell, shown at the cursor of now, is the last stop of a way of two or more."""
        if len(self.stops) < 2 or cell is None:
            return False
        last = self.stops[-1]
        return last.cursor == self.context.cursor and last.cell == cell

    def follow(self, here: Cell, source: Cell) -> None:
        """Go from the cell shown now to the number that an operand of it is.

        A copy is skipped: the way leads to the operation that computed the number.
        """
        moment, cursor = self.context.moment, self.context.cursor
        if moment is None or cursor is None:
            return
        target = original(moment.trace, source)
        stop = Stop(place_of(moment.trace, target), target, _words(moment, target))
        on_the_way = self.stops and self.stops[-1].cell == here
        way = self.stops if on_the_way else (Stop(cursor, here, _words(moment, here)),)
        self._go((*way, stop))

    def back(self) -> None:
        """To the number before; from elsewhere, to where the way ended."""
        if not self.stops:
            return
        if len(self.stops) > 1 and self.context.cursor == self.stops[-1].cursor:
            self._go(self.stops[:-1])
        else:
            self._go(self.stops)

    def return_to(self, at: int) -> None:
        """To a stop of the way; those behind it are forgotten."""
        if 0 <= at < len(self.stops):
            self._go(self.stops[: at + 1])

    def reset(self, change: Change) -> None:
        trace = self.context.trace
        if trace is None or trace is not self._trace:
            self.stops = ()  # another run, or another branch
        elif change & Change.TRACE:
            for at, stop in enumerate(self.stops):
                if not trace.complete(stop.cursor.step):
                    self.stops = self.stops[:at]
                    break

    def _go(self, stops: tuple[Stop, ...]) -> None:
        moment, last = self.context.moment, stops[-1]
        if moment is None:
            return
        self.stops, self._trace = stops, moment.trace
        changes = selection_at(moment, last.cell)
        self.context.travel(last.cursor, **changes)


def _words(moment: Moment, cell: Cell) -> str:
    try:
        return words_of(moment, cell, recorded_value(moment, cell))
    except LookupError:  # a probability of another step, or a number that was not kept
        return label_of(cell)
