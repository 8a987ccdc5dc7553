"""Travelling over what is recorded, pointing at it and dressing it: what needs no engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from decoder_gui.change import Change
from decoder_gui.context_state import ContextState
from decoder_gui.debugger.cursor import Cursor, Granularity, advance, first, last
from decoder_gui.player import Player
from decoder_gui.theme.palette import ThemeName
from decoder_gui.theme.style import Style
from model.trace import Phase

if TYPE_CHECKING:
    from decoder_gui.commands.stops import Stops


class ContextTravel(ContextState):
    """Commands that move the cursor, the selection or the looks.

    Past the end of the recording :meth:`_go_on` is asked for more; what that takes is the business
    of the class that talks to the worker, and so is making the groups of commands.
    """

    stops: Stops

    def __init__(self, style: Style | None = None, parent: QObject | None = None) -> None:
        super().__init__(style, parent)
        self._before_projector = self.style
        self._player = Player(self)
        self._player.tick.connect(self._on_tick)

    @property
    def playing(self) -> bool:
        return self._player.on

    @property
    def play_rate(self) -> float:
        """Steps of the present granularity per second while playing."""
        return self._player.rate

    # ---- the cursor

    def move(self, direction: int) -> None:
        """One step of the present granularity; past the end the worker is asked for more."""
        if self.trace is None or self.cursor is None:
            return
        target = advance(self.trace, self.cursor, self.granularity, direction)
        if target is None and direction > 0:
            self._go_on()
        elif target is not None:
            if direction > 0 and self.would_leave(target):
                self._leave(self.cursor.step)
            else:
                self._place(target)

    def would_leave(self, target: Cursor) -> bool:
        """Whether a step forward to an event leaves what is recorded: settings have changed."""
        here = self.cursor
        return here is not None and target.step > here.step and self._passes_by(here.step)

    def go_first(self) -> None:
        if self.trace is not None:
            self._place(first(self.trace))

    def go_last(self) -> None:
        if self.trace is not None:
            self._place(last(self.trace))

    def seek(self, cursor: Cursor) -> None:
        """Travel to an event; one that is not recorded is refused quietly."""
        trace = self.trace
        if (
            trace is not None
            and 0 <= cursor.step < len(trace.steps)
            and 0 <= cursor.operation < trace.events_in(cursor.step)
        ):
            self._place(cursor)

    def travel(self, cursor: Cursor, **changes: Any) -> None:
        """Go to an event and change fields of the selection, told as one."""
        trace, before = self.trace, (self.cursor, self.selection)
        if trace is None or not 0 <= cursor.step < len(trace.steps):
            return
        if not 0 <= cursor.operation < trace.events_in(cursor.step):
            return
        if changes.get("query") == trace.steps[cursor.step].last - 1:
            changes["query"] = None  # the newest one: said by its number it would be pinned there
        self.cursor, self.selection = cursor, replace(self.selection, **changes)
        if before != (self.cursor, self.selection):
            self._tell(Change.CURSOR | Change.SELECTION)

    def go_to_position(self, position: int) -> None:
        """Travel to the end of the step that processed a position.

        A token of the prompt was processed with others: it becomes the selected query as well.
        """
        for step in () if self.trace is None else self.trace.steps:
            if step.first <= position < step.last and self.trace is not None:
                self.seek(Cursor(step.index, self.trace.events_in(step.index) - 1))
                self.select(query=position if step.phase is Phase.PREFILL else None)

    def set_granularity(self, granularity: Granularity) -> None:
        if granularity is not self.granularity:
            self.granularity = granularity
            self._tell(Change.BUSY)

    @property
    def breakpoints(self) -> frozenset[Cursor]:
        """The events that have a breakpoint of their own."""
        return self.stops.events

    def toggle_breakpoint(self, cursor: Cursor | None = None) -> None:
        """Set or clear a breakpoint at an event, the one in hand by default."""
        self.stops.toggle_event(cursor)

    def run(self, direction: int = 1) -> None:
        """To the nearest breakpoint in a direction; see :meth:`Stops.run`."""
        self.stops.run(direction)

    def toggle_play(self) -> None:
        if self.cursor is not None:
            self._player.toggle()
            self._tell(Change.BUSY)

    def stop_playing(self) -> None:
        """Play no further; whoever asks says why."""
        self._player.stop()

    def set_play_rate(self, rate: float) -> None:
        """Steps of the present granularity per second."""
        self._player.set_rate(rate)
        self._tell(Change.BUSY)

    # ---- selection

    def select(self, **changes: Any) -> None:
        """Change fields of the selection."""
        selection = replace(self.selection, **changes)
        if selection != self.selection:
            self.selection = selection
            self._tell(Change.SELECTION)

    # ---- looks

    def set_theme(self, name: ThemeName) -> None:
        self._restyle(self.style.themed(name))

    def set_scale(self, scale: float) -> None:
        self._restyle(self.style.scaled(scale))

    def set_projector(self, on: bool) -> None:
        """Light colours and everything 1.5 times larger, or back."""
        if on and not self.style.projector:
            self._before_projector = self.style
            self._restyle(self.style.projected())
        elif not on and self.style.projector:
            self._restyle(self._before_projector)

    # ---- inside

    def _go_on(self) -> None:
        """Compute the step after the last one recorded, if nothing is being computed."""
        raise NotImplementedError

    def _passes_by(self, step: int) -> bool:
        """Whether stepping on from a step leaves what is recorded."""
        raise NotImplementedError

    def _leave(self, step: int) -> None:
        """Step on from an earlier step, away from what is recorded."""
        raise NotImplementedError

    def _on_tick(self) -> None:
        raise NotImplementedError

    def _restyle(self, style: Style) -> None:
        if style != self.style:
            self.style = style
            self._tell(Change.STYLE)

    def _place(self, cursor: Cursor | None) -> None:
        if cursor is not None and cursor != self.cursor:
            if self.cursor is None or cursor.operation != self.cursor.operation:
                self.selection = replace(self.selection, cell=None, array="")
            self.cursor = cursor
            self._tell(Change.CURSOR)
