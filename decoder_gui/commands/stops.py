"""Breakpoints and running to them, in both directions and past the end of what is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands, Told
from decoder_gui.debugger.cursor import Cursor, advance
from decoder_gui.debugger.stopping.breakpoints import Breakpoints
from decoder_gui.worker import Ended

if TYPE_CHECKING:  # the rest is imported by the first run or breakpoint: no start waits for it
    from decoder_gui.debugger.stopping.rules import Rule
    from decoder_gui.debugger.stopping.run_to import Halt, Judge, Search
    from decoder_gui.debugger.stopping.scene import Scene
    from model.trace import Step

SLICE = 0.012  # s that a search takes in the window's thread before the worker goes on with it
LIMIT = 256  # tokens that one run decodes at most
LEFT = "The run was left before a breakpoint was reached."


class Stops(Commands):
    """What runs stop at, and the runs.

    Attributes:
        items: the breakpoints.
        halt: how the last run ended; None before the first and while one is on its way.
        running: whether one is on its way in the worker.
        searched: how far it has come in what is recorded, as far as is known.
        limit: tokens that one run decodes at most.
    """

    items = Breakpoints()
    halt: Halt | None = None
    running = False
    searched: Cursor | None = None
    limit = LIMIT
    _halted_in: Step | None = None  # the step in which the last run ended
    _recorded = 0  # steps that were there when it began
    _looking = False  # whether playing waits for the search of its last step
    _remarked = False  # whether it has been said that playing passes what it cannot examine
    _model: str | None = None  # whose events have breakpoints

    # ---- the list

    def add(self, rule: Rule) -> None:
        """Stop at something; one that is switched off is switched on."""
        self._change(self.items.added(rule))

    def remove(self, *numbers: int) -> None:
        self._change(self.items.without(*numbers))

    def clear(self) -> None:
        self._change(self.items.without(*(item.number for item in self.items)))

    def switch(self, number: int, on: bool) -> None:
        self._change(self.items.switched(number, on))

    def edit(self, number: int, rule: Rule) -> None:
        self._change(self.items.edited(number, rule))

    def set_limit(self, tokens: int) -> None:
        """How many tokens one run decodes at most."""
        if tokens != self.limit and tokens >= 1:
            self.limit = tokens
            self.tell(Change.STOPS)

    def toggle_event(self, cursor: Cursor | None = None) -> None:
        """Set or clear a breakpoint at an event, the one in hand by default."""
        where, trace = self.context.cursor if cursor is None else cursor, self.context.trace
        if where is not None and trace is not None:
            from decoder_gui.debugger.stopping.rules.places import AtEvent

            self._toggle(AtEvent(where.step, trace.operations[where.operation].name))

    def toggle_operation(self, operation: int | None = None) -> None:
        """Set or clear a breakpoint at an operation in every step, the one in hand by default."""
        trace, cursor = self.context.trace, self.context.cursor
        if operation is None and cursor is not None:
            operation = cursor.operation
        if trace is not None and operation is not None:
            from decoder_gui.debugger.stopping.rules.places import OnOperation

            self._toggle(OnOperation(trace.operations[operation].name))

    @property
    def events(self) -> frozenset[Cursor]:
        """The events that have a breakpoint of their own that is on."""
        trace = self.context.trace
        if trace is None or not self.items.on:
            return frozenset()
        from decoder_gui.debugger.stopping.rules.places import AtEvent

        index = {operation.name: at for at, operation in enumerate(trace.operations)}
        return frozenset(
            Cursor(item.rule.step, index[item.rule.operation])
            for item in self.items.on
            if isinstance(item.rule, AtEvent) and item.rule.operation in index
        )

    def marked_operations(self, step: int) -> tuple[frozenset[int], frozenset[int]]:
        """Indices of operations at which runs stop: in every step, and in this step alone."""
        trace = self.context.trace
        if trace is None or not self.items.on:
            return frozenset(), frozenset()
        from decoder_gui.debugger.stopping.rules.places import OnOperation

        patterns = {i.rule.pattern for i in self.items.on if isinstance(i.rule, OnOperation)}
        every = frozenset(
            at for at, operation in enumerate(trace.operations) if operation.name in patterns
        )
        return every, frozenset(c.operation for c in self.events if c.step == step)

    @property
    def progress(self) -> str:
        """How far a run is that is on its way, in words; empty without one."""
        if not self.running:
            return ""
        trace = self.context.trace
        decoded = 0 if trace is None else len(trace.steps) - self._recorded
        if decoded > 0:
            return f"Running: {decoded:,} token{'s' * (decoded != 1)} decoded."
        return "Running." if self.searched is None else f"Running: step {self.searched.step}."

    def save(self) -> dict[str, object]:
        """Plain data for a session file."""
        return {"breakpoints": self.items.to_list(), "limit": self.limit}

    def load(self, data: object) -> tuple[str, ...]:
        """Take over what :meth:`save` made; sentences on what could not be read."""
        if not isinstance(data, dict):
            return ("The breakpoints of this file cannot be read.",)
        items, refused = Breakpoints.from_list(data.get("breakpoints", []))
        limit = data.get("limit", LIMIT)
        if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1:
            self.limit = limit
        self._change(items)
        return refused

    # ---- running

    def run(self, direction: int = 1) -> None:
        """To the nearest stop in a direction; forwards past the end by decoding.

        A short search ends at once; the worker goes on with a long one.
        """
        context = self.context
        if context.trace is None or context.cursor is None or self.running or context.running:
            return
        from decoder_gui.debugger.stopping.run_to import Judge
        from decoder_gui.debugger.stopping.scene import Elsewhere

        if context.playing:
            context.toggle_play()
        judge, start = Judge(self._scene(), self.items.on), context.cursor
        try:
            halt, reached = self._slice(judge, start, direction)
        except Elsewhere:
            halt, reached = None, start
        if halt is not None:
            self._arrive(halt)
        elif direction < 0:
            self._go_back(judge, reached)
        else:
            self._go_on(judge, start, reached)

    def reset(self, change: Change) -> None:
        """A breakpoint at one event means nothing in another model, nor an end in another run."""
        self._remarked = self._remarked and self.context.playing
        if change & Change.TRACE and self.halt is not None and self._step() is not self._halted_in:
            self.halt = None
        if change & Change.MODEL and change & Change.TRACE:
            name = None if self.context.model is None else self.context.model.path
            if name != self._model:
                if self._model is not None and self.items.items:
                    from decoder_gui.debugger.stopping.rules.places import AtEvent

                    events = [i.number for i in self.items if isinstance(i.rule, AtEvent)]
                    self.items = self.items.without(*events)
                self._model, self.halt = name, None

    # ---- playing

    def play_on(self) -> None:
        """One step of the present granularity, but no further than to a breakpoint on the way.

        A search that takes long goes on in the next turns of the event loop; until it has ended
        the cursor stays.
        """
        context, here = self.context, self.context.cursor
        if context.trace is None or here is None or context.running or self._looking:
            return
        target = advance(context.trace, here, context.granularity, 1)
        if target is None or not self.items.on or context.would_leave(target):
            context.move(1)
            return
        from decoder_gui.debugger.stopping.run_to import Judge, search

        judge = Judge(self._scene(elsewhere=False), self.items.on)
        self._look(judge, search(judge, here, 1), target)

    @property
    def looks_ahead(self) -> bool:
        """Whether what is decoded while playing is searched before the cursor gets there."""
        return self.context.playing and bool(self.items.on)

    def _look(self, judge: Judge, searching: Search, target: Cursor) -> None:
        """Search on towards where playing wants to go, for as long as the window can wait."""
        context, here, began = self.context, self.context.cursor, perf_counter()
        halt: Halt | None = None
        reached = here
        while reached != target and halt is None and perf_counter() - began < SLICE:
            try:
                reached = next(searching)
            except StopIteration as ended:
                halt, reached = ended.value, target
        self._looking = reached != target

        def go_on() -> None:
            self._looking = False
            if context.playing and context.cursor == here:  # not paused, nor moved by hand
                self._look(judge, searching, target)

        if self._looking:
            QTimer.singleShot(0, go_on)
        elif halt is not None:
            context.stop_playing()
            self._arrive(halt)
        else:
            context.seek(target)
            if judge.unexamined and not self._remarked:
                self._remarked = True
                context.notice.emit(judge.remark.strip())

    # ---- inside

    def _change(self, items: Breakpoints) -> None:
        if items != self.items:
            self.items = items
            self.tell(Change.STOPS | Change.BUSY)

    def _toggle(self, rule: Rule) -> None:
        there = self.items.of(rule)
        if there is not None and there.on:
            self.remove(there.number)
        else:
            self.add(rule)

    def _scene(self, *, elsewhere: bool = True) -> Scene:
        from decoder_gui.debugger.stopping.scene import Scene

        context = self.context
        assert context.run_state is not None
        assert context.model is not None
        tokenizer = context.model.tokenizer
        return Scene(
            context.run_state.copy(),
            sampling=context.sampling,
            capacity=context.capacity,
            weights=context.model.weights,
            name=lambda token: tokenizer.piece(token).text,
            elsewhere=elsewhere,
        )

    def _slice(self, judge: Judge, start: Cursor, direction: int) -> tuple[Halt | None, Cursor]:
        """As much of a search as the window can wait for: how it ended, or how far it came."""
        from decoder_gui.debugger.stopping.run_to import at_beginning, at_end, goes_beyond, search

        began, reached = perf_counter(), start
        searching = search(judge, start, direction)
        while perf_counter() - began < SLICE:
            try:
                reached = next(searching)
            except StopIteration as ended:
                halt: Halt | None = ended.value
                if halt is None and direction < 0:
                    halt = at_beginning(judge)
                elif halt is None and not goes_beyond(judge, start):
                    halt = at_end(judge)
                return halt, reached
        return None, reached

    def _go_back(self, judge: Judge, start: Cursor) -> None:
        from decoder_gui.debugger.stopping.run_to import run_back, session_recompute

        room = self.context.room

        def job() -> Iterator[object]:
            session_recompute(room.session, judge.scene)
            yield from run_back(judge, start)

        self._begin()
        self.submit("Running back", job, heard=self._hear, ended=self._ended)

    def _go_on(self, judge: Judge, start: Cursor, reached: Cursor) -> None:
        from decoder_gui.debugger.stopping.run_to import (
            Halt,
            Searched,
            goes_beyond,
            run_on,
            session_recompute,
        )

        room, limit = self.context.room, self.limit
        beyond = goes_beyond(judge, start)

        def job() -> Iterator[object]:
            session_recompute(room.session, judge.scene)
            for update in run_on(judge, reached, room.session, limit, beyond=beyond):
                ours = isinstance(update, Halt | Searched)
                yield Told(self._hear, update) if ours else update

        def where() -> Cursor | None:
            self._ended(None)
            return None if self.halt is None else self.halt.cursor

        self._begin()
        self.context.run_on_session("Running to a breakpoint", job, where)

    def _step(self) -> Step | None:
        """The step in which the last run ended, as it is now."""
        trace, at = self.context.trace, None if self.halt is None else self.halt.cursor
        if trace is None or at is None or at.step >= len(trace.steps):
            return None
        return trace.steps[at.step]

    def _begin(self) -> None:
        self.halt, self.searched, self.running = None, None, True
        self._recorded = 0 if self.context.trace is None else len(self.context.trace.steps)
        self.tell(Change.STOPS | Change.BUSY)

    def _hear(self, update: object) -> None:
        from decoder_gui.debugger.stopping.run_to import Halt, Searched

        if isinstance(update, Halt):
            self.running = False
            self._arrive(update)
        elif isinstance(update, Searched):
            self.searched = update.cursor
            self.tell(Change.STOPS)

    def _ended(self, _: Ended | None) -> None:
        if self.running:
            from decoder_gui.debugger.stopping.run_to import Halt

            self.running = False
            self.halt = Halt(None, LEFT)
            self.tell(Change.STOPS | Change.BUSY)

    def _arrive(self, halt: Halt) -> None:
        self.halt = halt
        if halt.cursor is not None:
            self.context.seek(halt.cursor)
        self._halted_in = self._step()
        self.context.notice.emit(halt.words)
        self.tell(Change.STOPS | Change.BUSY)
