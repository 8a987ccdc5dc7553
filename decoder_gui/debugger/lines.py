"""The lines of a session: what each branch has run, over one cache.

A pass belongs to every line that went through it. Its keys and values lie in the cache while a line
that holds it is active; when they are about to be overwritten they are copied out, and copied back
when such a line is entered again. Nothing is computed twice.

Under the deliberate fault ``stale_cache`` a pass also overwrites the row before its own, and that
is not undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from model.ablation import Edit
from model.engine import Cache, CacheRows
from model.trace import Checkpoint, Phase, Step


@dataclass(eq=False)
class Pass:
    """One run of the engine over consecutive positions, and what there is of it.

    Two lines share a computation exactly if they hold the same object. A line may hold fewer
    positions of it than were run: then its step ends sooner.
    """

    last: int  # one past its last position
    ran: bool = False
    nbytes: int = 0  # of recorded arrays that are kept for good
    block_bytes: int = 0  # inside the largest of its blocks, which may give way
    rows: CacheRows | None = None  # keys and values, once they have left the cache

    def forget(self) -> None:
        """Free it; it can be run again."""
        self.ran, self.nbytes, self.rows = False, 0, None


@dataclass(frozen=True)
class Entry:
    """A step of a line, and the pass that computed it or will."""

    step: Step
    made_by: Pass


@dataclass(eq=False)
class Line:
    """What a branch has run, in order, and what it has yet to run again."""

    id: int
    edits: tuple[Edit, ...] = ()
    done: list[Entry] = field(default_factory=list)
    planned: list[Entry] = field(default_factory=list)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that have been run."""
        return tuple(entry.step for entry in self.done)

    @property
    def positions(self) -> int:
        return self.done[-1].step.last if self.done else 0

    @property
    def all(self) -> list[Entry]:
        return [*self.done, *self.planned]


@dataclass(frozen=True)
class Continuation:
    """Tokens of a step that a new branch runs.

    ``generator_state`` is None where the step holds the draw of the one before it.
    """

    phase: Phase
    token_ids: tuple[int, ...]
    checkpoint: Checkpoint | None = None


def shared_positions(left: Sequence[Entry], right: Sequence[Entry]) -> int:
    """How many positions two lines took from the same passes."""
    reach = 0
    for one, other in zip(left, right, strict=False):
        if one.made_by is not other.made_by:
            break
        reach = min(one.step.last, other.step.last)
        if one.step.last != other.step.last:
            break
    return reach


def up_to(entries: Iterable[Entry], position: int) -> list[Entry]:
    """What lies before a position; a step that contains it ends there."""
    kept = []
    for entry in entries:
        step = entry.step
        if step.first >= position:
            break
        if step.last > position:
            step = replace(step, token_ids=step.token_ids[: position - step.first])
        kept.append(Entry(step, entry.made_by))
    return kept


class Lines:
    """All lines over one cache; one of them is active, and the cache holds its rows."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._next = 0
        self._live: dict[int, Line] = {}
        self._removed: dict[int, Line] = {}
        self.active = self._new(())
        self._live[self.active.id] = self.active

    def __iter__(self) -> Iterator[Line]:
        return iter(self._live.values())

    def __getitem__(self, line: int) -> Line:
        return self._live[line]

    def _new(self, edits: tuple[Edit, ...]) -> Line:
        self._next += 1
        return Line(self._next - 1, edits)

    @property
    def spent(self) -> int:
        """Bytes of recorded arrays kept for good, those that lines share counted once."""
        passes = {id(entry.made_by): entry.made_by for line in self for entry in line.done}
        return sum(made.nbytes for made in passes.values())

    @property
    def kept_bytes(self) -> tuple[tuple[int, int], ...]:
        """Per line, bytes of keys and values copied out of the cache, each counted once."""
        seen: set[int] = set()
        found = []
        for line in self:
            own = [entry.made_by for entry in line.done if id(entry.made_by) not in seen]
            seen.update(id(made) for made in own)
            found.append((line.id, sum(made.rows.nbytes for made in own if made.rows is not None)))
        return tuple(found)

    # ---- beginning and ending

    def start_over(self) -> Line:
        """Drop every line and begin an empty one."""
        self._live.clear()
        self._removed.clear()
        self._cache.rewind(0)
        self._next = 0
        self.active = self._new(())
        self._live[self.active.id] = self.active
        return self.active

    def take_over(self, other: Lines) -> None:
        """Every line of another session, to be run again; this one has run nothing yet."""
        self._next = other._next
        self._live, self._removed = dict(other._live), dict(other._removed)
        for line in (*self._live.values(), *self._removed.values()):
            line.planned, line.done = line.all, []
            for entry in line.planned:
                entry.made_by.forget()
        self.active = self._live[other.active.id]

    def restore(self, lines: Iterable[Line], active: int) -> None:
        """Lines of a file instead of these, none of them run; this cache holds nothing yet."""
        self._removed.clear()
        self._cache.rewind(0)
        self._live = {line.id: line for line in lines}
        self._next = max(self._live) + 1
        self.active = self._live[active]

    def fork(self, position: int, edits: tuple[Edit, ...]) -> Line:
        """Begin a line that shares what the active one ran before a position, and enter it."""
        line = self._new(edits)
        line.done = up_to(self.active.done, position)
        self._live[line.id] = line
        self.enter(line)
        return line

    def abandon(self, line: Line, back: int) -> None:
        """Enter another line and forget this one: its first step was never completed."""
        self.enter(self._live[back])
        del self._live[line.id]

    def remove(self, line: int) -> None:
        """Free what no other line has run; :meth:`put_back` can bring the line itself back."""
        gone = self._removed[line] = self._live.pop(line)
        in_use = {id(entry.made_by) for other in self for entry in other.done}
        for entry in gone.all:
            if id(entry.made_by) not in in_use:
                entry.made_by.forget()
        gone.planned, gone.done = gone.all, []

    def put_back(self, line: int) -> None:
        """Bring a removed line back, to be run again where nobody else has run it."""
        self._live[line] = self._removed.pop(line)

    def forget(self, known: Iterable[int]) -> None:
        """Drop removed lines that are not among these."""
        for line in set(self._removed) - set(known):
            del self._removed[line]

    # ---- entering

    def adopt(self, line: Line) -> int | None:
        """Take over planned steps that another line has run; returns which line, or None."""
        best, reach = None, line.positions
        for other in self:
            shared = shared_positions(line.all, other.done)
            if other is not line and shared > reach:
                best, reach = other.id, shared
        while line.planned and line.planned[0].step.last <= reach:
            line.done.append(line.planned.pop(0))
        return best

    def enter(self, line: Line) -> None:
        """Make a line active: copy out what others need of the cache, and copy its rows in."""
        if line is self.active:
            return
        common = shared_positions(self.active.done, line.done)
        for entry in self.active.done:
            made, step = entry.made_by, entry.step
            if step.last > common and made.rows is None:
                made.rows = self._cache.rows(step.first, made.last)
        self._cache.rewind(common)
        for entry in line.done:
            made, step = entry.made_by, entry.step
            start = max(common, step.first)
            if step.last <= start:
                continue
            assert made.rows is not None, "a pass that is not in the cache was copied out"
            self._cache.restore(made.rows.part(start - step.first, step.last - step.first))
            if step.last == made.last:
                made.rows = None  # it is in the cache again
        self.active = line

    def rewind(self, steps: int) -> None:
        """Keep the first steps of the active line, and plan nothing."""
        del self.active.done[steps:]
        self.active.planned.clear()
        self._cache.rewind(self.active.positions)
