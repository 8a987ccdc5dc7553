"""The cache laboratory: measurements of cost, phases and machine, a row in hand, full caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands
from decoder_gui.debugger.laboratory.cache_rows import CachedRow, Shortened, read_row, shorten
from decoder_gui.debugger.laboratory.cost_curve import CostPoint, lengths_for, measure
from decoder_gui.debugger.laboratory.policies import SINKS, Divergence, Policy, compare
from decoder_gui.debugger.laboratory.roofline import (
    Machine,
    Measuring,
    PhaseTime,
    measure_machine,
    measure_phases,
)
from decoder_gui.worker import Ended
from model.cache_plan import CachePlan
from model.errors import sentence

if TYPE_CHECKING:
    from decoder_gui.context import AppContext

CURVE, PHASES, MACHINE, FULL = "cost curve", "phases", "machine", "full cache"
DRAWN_EVERY = 0.15  # s
ROW, LENGTH = "cached row", "length of the cache"


class CacheLab(Commands):
    """What was measured and chosen; everything measured belongs to the model in hand.

    Attributes:
        points: of the cost curve, shortest first; they arrive one by one.
        lengths: how many there will be, if none takes too long.
        phases: prefill and decode of the text in hand.
        machine: this computer's limits, measured once; None until asked for.
        row: the cached row in hand.
        shortened: what setting the length back did when it was last tried on a copy.
        capacity: of the small cache whose policies are compared.
        keep_first: how many first tokens the policy of that name keeps.
        divergences: by policy, position by position.
        running: the tags of the jobs that have not ended.
        refusals: why the last job of a tag ended early, a sentence.
        plan: what the calculator is set to; None follows the model in hand.
    """

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self.points: tuple[CostPoint, ...] = ()
        self.lengths = 0
        self.phases: tuple[PhaseTime, ...] = ()
        self.machine: Machine | None = None
        self.measuring: Measuring | None = None
        self.row: CachedRow | None = None
        self.row_words = ""
        self.shortened: Shortened | None = None
        self.capacity = 0
        self.keep_first = SINKS
        self.divergences: dict[Policy, tuple[Divergence, ...]] = {}
        self.running: frozenset[str] = frozenset()
        self.refusals: dict[str, str] = {}
        self._told = 0.0
        self.plan: CachePlan | None = None
        self._text: tuple[tuple[int, ...], frozenset[str]] = ((), frozenset())

    def reset(self, change: Change) -> None:
        if change & Change.MODEL:
            self.points, self.row, self.plan, self.refusals = (), None, None, {}
        if change & (Change.TRACE | Change.MODEL):
            trace = self.context.trace
            text = () if trace is None else trace.token_ids
            if (text, self.context.faults) != self._text:
                self._text = (text, self.context.faults)
                self.refusals, self.row_words, self.shortened = {}, "", None
                self.phases, self.divergences = (), {}
                self.capacity = max(SINKS + 2, len(text) // 2)
                if self.row is not None and self.row.position >= len(text):
                    self.row = None

    # ---- measurements

    def measure_curve(self) -> None:
        """Cost against length, on the model in hand."""
        room, limit = self.context.room, self.context.capacity
        lengths = lengths_for(limit)
        self.points, self.lengths = (), len(lengths)

        def job() -> Iterator[object]:
            return measure(room.session.engine, lengths)

        def heard(item: object) -> None:
            if isinstance(item, CostPoint):
                self.points = (*self.points, item)
                self.tell(Change.LAB)

        self._run(CURVE, "Measuring cost against length", job, heard)

    def measure_phases(self) -> None:
        """Prefill and decode of the text in hand, timed apart."""
        trace, room = self.context.trace, self.context.room
        if trace is None or not trace.steps:
            return
        ids = trace.token_ids
        split = trace.prompt
        self.phases = ()

        def job() -> Iterator[object]:
            return measure_phases(room.session.engine, ids[:split], ids[split:])

        def heard(item: object) -> None:
            if isinstance(item, PhaseTime):
                self.phases = (*self.phases, item)

        self._run(PHASES, "Timing prefill and decode", job, heard)

    def measure_machine(self) -> None:
        """Bandwidth and peak of this computer, once."""

        def heard(item: object) -> None:
            if isinstance(item, Machine):
                self.machine = item
            elif isinstance(item, Measuring):
                self.measuring = item

        self._run(MACHINE, "Measuring this computer", measure_machine, heard)

    def stop(self, *tags: str) -> None:
        """Cancel what is being measured, or only jobs so named; what is there already stays."""
        for tag in tags or self.running:
            self.cancel(tag)

    # ---- a row

    def look_at(self, layer: int, position: int) -> None:
        """Read a row of the session's cache and compare it with what was written there."""
        trace, room = self.context.trace, self.context.room
        if trace is None:
            return
        copied = trace.copy()
        self.row_words, self.shortened = "", None

        def job() -> Iterator[object]:
            yield read_row(room.session.cache, copied, layer, position)

        def heard(item: object) -> None:
            self.row = item if isinstance(item, CachedRow) else None
            if self.row is None:
                self.row_words = f"The cache holds nothing at position {position}."

        self._run(ROW, "Reading a row of the cache", job, heard)

    def try_length(self, length: int) -> None:
        """Rewind a copy of the session's cache to a length, 0 being a reset, and look behind it."""
        room = self.context.room

        def job() -> Iterator[object]:
            session = room.session
            yield shorten(session.engine, session.cache, min(length, session.cache.length))

        def heard(item: object) -> None:
            self.shortened = item if isinstance(item, Shortened) else None

        self._run(LENGTH, "Setting the length of a cache back", job, heard)

    # ---- at capacity

    def set_capacity(self, capacity: int, keep_first: int) -> None:
        """Of the small cache; what was compared with another one is forgotten."""
        if (capacity, keep_first) != (self.capacity, self.keep_first):
            self.capacity, self.keep_first = capacity, keep_first
            self.divergences = {}
            self.tell(Change.LAB)

    def compare_policies(self) -> None:
        """Run the text in hand under each policy beside the full context."""
        trace, room = self.context.trace, self.context.room
        if trace is None or not trace.steps:
            return
        ids, capacity, keep = trace.token_ids, self.capacity, self.keep_first
        self.divergences = {}

        def job() -> Iterator[object]:
            for policy in Policy:
                found: tuple[Divergence, ...] = ()
                for item in compare(room.session.engine, ids, capacity, policy, keep_first=keep):
                    found = (*found, item)
                    yield policy, found

        def heard(item: object) -> None:
            match item:
                case (Policy() as policy, tuple() as found):
                    self.divergences = {**self.divergences, policy: found}
                    self._tell_now_and_then()

        self._run(FULL, "Comparing what a full cache can do", job, heard)

    # ---- calculator

    def set_plan(self, plan: CachePlan) -> None:
        """Calculate with other numbers than the model's."""
        self.plan = plan
        self.tell(Change.LAB)

    def change_plan(self, **changes: int | float) -> None:
        """Change some of them.

        Raises:
            ShapeMismatch: they make no cache; the old ones stay.
        """
        self.set_plan(replace(self.planned, **changes))  # type: ignore[arg-type]

    @property
    def planned(self) -> CachePlan:
        """What the calculator is set to, or the model in hand with its context."""
        model = self.context.model
        if self.plan is not None:
            return self.plan
        if model is None:
            return CachePlan(1, 1, 1, 1, 1)
        return CachePlan.of(
            model.shape,
            context=max(1, self.context.capacity),
            bytes_per_value=model.bytes_per_value,
        )

    # ---- inside

    def _tell_now_and_then(self) -> None:
        """Draw what grows position by position, and leave the worker time to grow it."""
        if monotonic() - self._told > DRAWN_EVERY:
            self.tell(Change.LAB)
            self._told = monotonic()

    def _run(
        self,
        tag: str,
        text: str,
        job: Callable[[], Iterator[object]],
        heard: Callable[[object], None],
    ) -> None:
        def ended(end: Ended) -> None:
            if end.refusal is not None:
                self.refusals = {**self.refusals, tag: sentence(end.refusal)}
            self.running = self.running - {tag}
            self.measuring = None
            self.tell(Change.LAB)

        self.running = self.running | {tag}
        self.refusals = {name: words for name, words in self.refusals.items() if name != tag}
        self.submit(text, job, heard=heard, ended=ended, tag=tag)
        self.tell(Change.LAB)
