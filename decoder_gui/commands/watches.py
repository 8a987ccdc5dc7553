"""Watches: places that are pinned, and travelling to where they got a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.spots import STAGES, Shown, Spot
from decoder_gui.debugger.stopping.watches import Histories, WatchList

if TYPE_CHECKING:
    from decoder_gui.context import AppContext


class Watches(Commands):
    """What is watched.

    Attributes:
        items: the watches.
        histories: their readings, worked out when a panel that shows them asks.
    """

    items = WatchList()

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self.histories = Histories()

    def add(self, spot: Spot, shown: Shown = Shown.NORM) -> None:
        """Pin a place; one that is pinned already stays as it is."""
        if self.items.of(spot) is not None:
            self.context.notice.emit(f"{spot.words} is being watched already.")
            return
        self._change(self.items.added(spot, shown))
        self.context.notice.emit(f"Watching {spot.words}: workspace Find, panel Watches.")

    def remove(self, *numbers: int) -> None:
        self._change(self.items.without(*numbers))

    def clear(self) -> None:
        self._change(self.items.without(*(item.number for item in self.items)))

    def show(self, number: int, shown: Shown) -> None:
        """Let another number stand for a row."""
        self._change(self.items.showing(number, shown))

    def refresh(self, seconds: float) -> bool:
        """Read what is not read yet, for some time; whether everything is read."""
        context = self.context
        if context.run_state is None:
            return True
        return self.histories.advance(context.run_state, context.sampling, self.items, seconds)

    def travel(self, number: int, step: int) -> None:
        """Go to where a watch got its value in a step, and choose its cell."""
        watch, trace = self.items.find(number), self.context.trace
        if watch is None or trace is None or step >= len(trace.steps):
            return
        spot = watch.spot
        reading = next(
            (r for r in self.histories.readings(watch) if r.step == step and r.value is not None),
            None,
        )
        try:
            made = trace.producer("logits" if spot.array in STAGES else spot.array)
        except KeyError:
            return
        operation = len(trace.operations) - 1 if spot.array in STAGES else made
        self.context.seek(Cursor(step, min(operation, trace.events_in(step) - 1)))
        if reading is not None:
            self._choose(spot, step, reading.position)

    def save(self) -> list[dict[str, object]]:
        """Plain data for a session file."""
        return self.items.to_list()

    def load(self, data: object) -> tuple[str, ...]:
        """Take over what :meth:`save` made; sentences on what could not be read."""
        items, refused = WatchList.from_list(data)
        self._change(items)
        return refused

    # ---- inside

    def _change(self, items: WatchList) -> None:
        if items != self.items:
            self.items = items
            self.tell(Change.WATCHES)

    def _choose(self, spot: Spot, step: int, position: int) -> None:
        trace = self.context.trace
        assert trace is not None
        array = None if spot.array in STAGES else trace.array(step, spot.array)
        rows = 1 if array is None else array.shape[-2]
        first = trace.steps[step].last - rows
        changes: dict[str, object] = {"query": None if spot.position is None else position}
        if spot.head is not None:
            changes["head"] = spot.head
        if spot.index is not None:
            changes["cell"] = ((spot.head or 0) * rows + position - first, spot.index)
            if spot.column == "key":
                changes["key"] = spot.index
        self.context.select(**changes)
