"""Running to the next breakpoint, forwards and backwards: one loop over events for both.

Where a search stops does not depend on where it began or on its direction: each event is a stop or
is none. So running back from one stop and forward again ends at it. Forward, a run goes on past
what is recorded by decoding, until a stop, a full cache or a limit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from decoder_gui.debugger.cursor import Cursor, first, last, neighbour
from decoder_gui.debugger.session import BlockReplayed, Session, Update
from decoder_gui.debugger.stopping.breakpoints import Breakpoint
from decoder_gui.debugger.stopping.rules.core import SILENT, Verdict
from decoder_gui.debugger.stopping.scene import NotKept, Scene
from model.engine import Array
from model.errors import CacheExhausted, DecoderError

VERDICTS_HELD = 20_000
PACE = 0.02  # s between two signs of life of a search: at each of them it can be cancelled


@dataclass(frozen=True)
class Reason:
    """Why a search stopped: a breakpoint's number, and what it found in words."""

    breakpoint: int
    words: str


@dataclass(frozen=True)
class Halt:
    """How a run ended.

    Attributes:
        cursor: where; None where it stays.
        words: one sentence: why.
        reasons: the breakpoints that hold there; empty at an end.
        decoded: tokens that were decoded on the way.
    """

    cursor: Cursor | None
    words: str
    reasons: tuple[Reason, ...] = ()
    decoded: int = 0


@dataclass(frozen=True)
class Searched:
    """A sign of life: how far a search has come."""

    cursor: Cursor


Search = Generator[Cursor, None, Halt | None]
"""Yields every event that is no stop; returns the stop, or None at the end of the recording."""


class Judge:
    """Which events of a scene are stops. Verdicts are kept: most are asked for twice.

    Attributes:
        unexamined: events that a breakpoint could not examine, with the reason in words.
    """

    def __init__(self, scene: Scene, breakpoints: Sequence[Breakpoint]) -> None:
        self.scene = scene
        self.breakpoints = tuple(breakpoints)
        self.unexamined: dict[Cursor, str] = {}
        self._verdicts: OrderedDict[tuple[int, Cursor], Verdict] = OrderedDict()

    def reasons(self, here: Cursor) -> tuple[Reason, ...]:
        """The breakpoints that stop at an event; none where it is no stop.

        Raises:
            Elsewhere: an array would have to be recomputed by the worker.
        """
        return tuple(
            Reason(item.number, self._verdict(item, here).reason)
            for item in self.breakpoints
            if self._stops(item, here)
        )

    def _stops(self, item: Breakpoint, here: Cursor) -> bool:
        if not self._verdict(item, here).holds:
            return False
        return item.rule.each or not self._held_before(item, here)

    def _held_before(self, item: Breakpoint, here: Cursor) -> bool:
        before = neighbour(self.scene.trace, here, -1)
        while before is not None:
            holds = self._verdict(item, before).holds
            if holds is not None:
                return holds
            before = neighbour(self.scene.trace, before, -1)
        return False

    def _verdict(self, item: Breakpoint, here: Cursor) -> Verdict:
        key = (item.number, here)
        if key not in self._verdicts:
            try:
                self._verdicts[key] = item.rule.verdict(self.scene, here)
            except NotKept as reason:
                self.unexamined.setdefault(here, str(reason))
                self._verdicts[key] = SILENT
            while len(self._verdicts) > VERDICTS_HELD:
                self._verdicts.popitem(last=False)
        return self._verdicts[key]

    @property
    def remark(self) -> str:
        """A sentence on what could not be examined, or nothing."""
        if not self.unexamined:
            return ""
        count = len(self.unexamined)
        example = next(iter(self.unexamined.values()))
        return f" {count:,} event{'s' * (count > 1)} could not be examined: {example}."


def search(judge: Judge, start: Cursor | None, direction: int) -> Search:
    """From an event, not judged itself, to the nearest stop in a direction.

    ``start`` None begins before the first event.
    """
    trace = judge.scene.trace
    here = first(trace) if start is None else neighbour(trace, start, direction)
    while here is not None:
        reasons = judge.reasons(here)
        if reasons:
            return Halt(here, _stopped(judge, here, reasons), reasons)
        yield here
        here = neighbour(trace, here, direction)
    return None


def paced(searching: Search) -> Generator[Searched, None, Halt | None]:
    """The same with a sign of life now and then instead of every event."""
    said = perf_counter()
    while True:
        try:
            here = next(searching)
        except StopIteration as ended:
            halt: Halt | None = ended.value
            return halt
        if perf_counter() - said >= PACE:
            yield Searched(here)
            said = perf_counter()


def run_back(judge: Judge, start: Cursor) -> Iterator[Searched | Halt]:
    """To the stop before an event, or to the beginning."""
    halt = yield from paced(search(judge, start, -1))
    yield at_beginning(judge) if halt is None else halt


def goes_beyond(judge: Judge, start: Cursor | None) -> bool:
    """Whether a run forwards decodes on where the recording ends.

    It does if a breakpoint may stop it there, and from the very end in any case.
    """
    scene = judge.scene
    if start == last(scene.trace):
        return True
    return any(item.rule.ahead(scene) for item in judge.breakpoints)


def run_on(
    judge: Judge, start: Cursor | None, session: Session, limit: int, *, beyond: bool | None = None
) -> Iterator[Update | Searched | Halt]:
    """To the next stop, through what is recorded and then by decoding up to ``limit`` tokens.

    Whether anything is decoded ``beyond`` says, or :func:`goes_beyond` by default. The session must
    be at the end of the scene's run. A new step is judged when it is complete, for only then can
    what the byte budget left out be recomputed.
    """
    scene, here, decoded = judge.scene, start, 0
    beyond = goes_beyond(judge, start) if beyond is None else beyond
    while True:
        halt = yield from paced(search(judge, here, 1))
        here = last(scene.trace)
        if halt is None:
            halt = _end(judge, decoded, limit) if beyond else at_end(judge)
        if halt is not None:
            yield Halt(halt.cursor, halt.words, halt.reasons, decoded)
            return
        landing = scene.landing(len(scene.trace.steps) - 1)
        assert landing is not None  # there would be an end
        try:
            updates = session.decode(landing.token_id, drawn=landing.uniform is not None)
            for update in updates:
                scene.apply(update)
                yield update
        except DecoderError as refusal:
            yield Halt(
                here, f"No breakpoint was reached, and {refusal}.{judge.remark}", (), decoded
            )
            return
        decoded += 1


def at_beginning(judge: Judge) -> Halt:
    """Backwards, where there is no stop."""
    which = "No breakpoint before this" if judge.breakpoints else "No breakpoint is on"
    words = f"{which}: the beginning of the run.{judge.remark}"
    return Halt(first(judge.scene.trace), words)


def at_end(judge: Judge) -> Halt:
    """Forwards, where there is no stop and nothing is to be decoded."""
    which = "No breakpoint further on" if judge.breakpoints else "No breakpoint is on"
    decodes = "" if judge.scene.weights is None else " Running on from here decodes."
    words = f"{which}: the end of the recording.{decodes}{judge.remark}"
    return Halt(last(judge.scene.trace), words)


def session_recompute(session: Session, scene: Scene) -> None:
    """Let a scene have blocks again from a session; in the thread that owns the session."""

    def recompute(step: int, layer: int) -> dict[str, Array] | None:
        trace = scene.trace
        resid_pre = trace.array(step, f"blocks.{layer}.resid_pre")
        newest = step == len(trace.steps) - 1
        # Later passes have overwritten rows that this one read.
        lost = session.engine.wiring.stale_cache and not newest
        if resid_pre is None or lost or session.cache.length < trace.steps[step].last:
            return None
        arrays: dict[str, Array] = {}
        try:
            for update in session.replay(trace.steps[step], layer, resid_pre):
                if isinstance(update, BlockReplayed):
                    arrays.update(update.arrays)
        except DecoderError:  # a recording has nothing to compute with
            return None
        return arrays

    scene.recompute = recompute


def _stopped(judge: Judge, here: Cursor, reasons: tuple[Reason, ...]) -> str:
    name = judge.scene.operation(here).name
    why = "; ".join(reason.words for reason in reasons)
    return f"Stopped at step {here.step}, {name}: {why}.{judge.remark}"


def _end(judge: Judge, decoded: int, limit: int) -> Halt | None:
    """Why nothing more can be decoded, or None if it can."""
    scene = judge.scene
    trace, where = scene.trace, last(scene.trace)
    if where is None:
        return Halt(None, "Nothing has been computed yet.")
    if trace.positions >= scene.capacity:
        full = CacheExhausted(trace.positions, scene.capacity)
        return Halt(where, f"No breakpoint was reached, and {full}.{judge.remark}")
    if decoded >= limit:
        tokens = f"{decoded:,} token{'s' * (decoded != 1)}"
        return Halt(
            where, f"No breakpoint was reached in {tokens}, the limit of a run.{judge.remark}"
        )
    if scene.landing(where.step) is None:
        return Halt(
            where,
            f"No breakpoint was reached, and there is nothing to sample after step {where.step}: "
            f"{scene.refusal(where.step)}.{judge.remark}",
        )
    return None
