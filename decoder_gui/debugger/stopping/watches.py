"""Watches: cells and rows of activations that are looked at in every step of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from decoder_gui.debugger.run import Run
from decoder_gui.debugger.stopping.spots import STAGES, InvalidSpot, Reading, Shown, Spot, read
from model.engine import Array
from model.errors import FaultNotPossible, NonFiniteLogits
from model.sampling import SamplingConfig
from model.trace import Presence, Step, Trace

NOT_KEPT = "not kept"
NOT_COMPUTED = "not computed"


@dataclass(frozen=True)
class Watch:
    """One place that is pinned; ``shown`` says which number stands for a whole row."""

    number: int
    spot: Spot
    shown: Shown = Shown.NORM

    @property
    def is_row(self) -> bool:
        return self.spot.index is None

    @property
    def words(self) -> str:
        """``blocks.0.ln1, newest position, whole row (norm)``."""
        return f"{self.spot.words} ({self.shown})" if self.is_row else self.spot.words


@dataclass(frozen=True)
class WatchList:
    """All watches, in the order in which they were pinned; every change makes another list."""

    items: tuple[Watch, ...] = ()
    next_number: int = 1

    def __iter__(self) -> Iterator[Watch]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def find(self, number: int) -> Watch | None:
        return next((item for item in self.items if item.number == number), None)

    def of(self, spot: Spot) -> Watch | None:
        return next((item for item in self.items if item.spot == spot), None)

    def added(self, spot: Spot, shown: Shown = Shown.NORM) -> WatchList:
        """With one more; a place is pinned once."""
        if self.of(spot) is not None:
            return self
        made = Watch(self.next_number, spot, shown)
        return WatchList((*self.items, made), self.next_number + 1)

    def without(self, *numbers: int) -> WatchList:
        return replace(self, items=tuple(i for i in self.items if i.number not in numbers))

    def showing(self, number: int, shown: Shown) -> WatchList:
        """With another number for a row."""
        items = (replace(i, shown=shown) if i.number == number else i for i in self.items)
        return replace(self, items=tuple(items))

    def to_list(self) -> list[dict[str, object]]:
        """Plain data for JSON; numbers are given anew when it is read."""
        return [{**item.spot.to_dict(), "shown": item.shown.value} for item in self.items]

    @classmethod
    def from_list(cls, data: object) -> tuple[WatchList, tuple[str, ...]]:
        """The inverse, and a sentence for each entry that could not be read."""
        if not isinstance(data, list):
            return cls(), (f"Watches must be a list, not {type(data).__name__}.",)
        made, refused = cls(), []
        for at, plain in enumerate(data):
            try:
                if not isinstance(plain, Mapping):
                    raise InvalidSpot("it must be a place")
                shown = plain.get("shown", Shown.NORM.value)
                if shown not in tuple(Shown):
                    raise InvalidSpot(f"shown is one of {', '.join(Shown)}, not {shown!r}")
                spot = Spot.from_dict({k: v for k, v in plain.items() if k != "shown"})
            except InvalidSpot as problem:
                refused.append(f"Watch {at + 1} was left out: {problem}.")
            else:
                made = made.added(spot, Shown(str(shown)))
        return made, tuple(refused)


@dataclass(frozen=True)
class Changed:
    """The last time that a value became another one; ``before`` is that of ``since``."""

    step: int
    before: float
    after: float


def last_change(readings: Sequence[Reading]) -> Changed | None:
    """The newest change among some readings in order; None where there was none.

    Steps without a value are passed over. A NaN equals a NaN.
    """
    values = [(r.step, r.value) for r in readings if r.value is not None]
    for (_, before), (step, after) in zip(values[-2::-1], values[:0:-1], strict=True):
        if before != after and not (math.isnan(before) and math.isnan(after)):
            return Changed(step, before, after)
    return None


def missing_words(readings: Sequence[Reading]) -> str:
    """Why there is no value and in which steps: ``not kept in steps 3–5; no key 9 in step 0``."""
    groups: dict[str, list[int]] = {}
    for reading in readings:
        if reading.value is None:
            groups.setdefault(reading.why, []).append(reading.step)
    return "; ".join(
        f"{why} in step{'s' * (len(steps) > 1)} {_ranges(steps)}" for why, steps in groups.items()
    )


def _ranges(numbers: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ", ".join("–".join(str(n) for n in part) for part in parts)


@dataclass(frozen=True)
class _Kept:
    step: Step
    settings: SamplingConfig | None
    settled: bool  # whether only another step could change it
    reading: Reading

    def stands(self, step: Step, settings: SamplingConfig | None, trace: Trace, spot: Spot) -> bool:
        """Whether it is still what would be read."""
        if self.step is not step or self.settings != settings:
            return False
        return self.settled or not _appeared(trace, self.reading, spot)


class Histories:
    """The readings of all watches, each worked out once and kept for as long as its step is there.

    Reading a run of many steps takes a while, so it is done a little at a time.
    """

    def __init__(self) -> None:
        self._trace: Trace | None = None
        self._kept: dict[tuple[Spot, Shown], list[_Kept]] = {}
        self._loose: set[tuple[Spot, Shown]] = set()  # those with a reading that may change

    def advance(
        self, run: Run, sampling: SamplingConfig, watches: WatchList, seconds: float
    ) -> bool:
        """Read what is not read yet, for some time; whether everything is read."""
        began, trace = perf_counter(), run.trace
        if trace is not self._trace:
            self._trace, self._kept, self._loose = trace, {}, set()
        wanted = {(watch.spot, watch.shown) for watch in watches}
        for gone in self._kept.keys() - wanted:
            del self._kept[gone]
        steps = trace.steps
        for watch in watches:
            key = (watch.spot, watch.shown)
            kept = self._kept.setdefault(key, [])
            del kept[len(steps) :]
            settings = sampling if watch.spot.array in STAGES else None
            begin = 0
            if key not in self._loose and _same_line(kept, steps, settings):
                begin = len(kept)  # a step that is still there stands on the same ones before it
            for step in steps[begin:]:
                at = step.index
                old = kept[at] if at < len(kept) else None
                if old is not None and old.stands(step, settings, trace, watch.spot):
                    continue
                if perf_counter() - began > seconds:
                    self._loose.add(key)  # half of it may be of other settings
                    return False
                made = _Kept(step, settings, *_look(run, sampling, step, watch))
                kept[at : at + 1] = [made]
            loose = any(not each.settled for each in kept[begin:])
            (self._loose.add if loose else self._loose.discard)(key)
        return True

    def readings(self, watch: Watch) -> tuple[Reading, ...]:
        """One per step, as far as they are read."""
        kept = self._kept.get((watch.spot, watch.shown), [])
        return tuple(each.reading for each in kept)


def _same_line(
    kept: Sequence[_Kept], steps: Sequence[Step], settings: SamplingConfig | None
) -> bool:
    """Whether all that is kept was read from these steps, of which there may be more by now."""
    if not kept or len(kept) > len(steps):
        return False
    newest = kept[-1]
    return newest.step is steps[len(kept) - 1] and newest.settings == settings


def _look(run: Run, sampling: SamplingConfig, step: Step, watch: Watch) -> tuple[bool, Reading]:
    """Whether a reading is settled, and the reading."""
    trace, spot = run.trace, watch.spot
    if spot.array not in STAGES and trace.presence(step.index, spot.array) is Presence.EVICTED:
        return False, Reading(step.index, None, why=NOT_KEPT)
    why = ""

    def lookup(at: int, name: str) -> Array | None:
        nonlocal why
        if name not in STAGES:
            found = trace.array(at, name)
            return None if found is None else found[0]
        try:
            shown = run.distribution(at, sampling)
        except (NonFiniteLogits, FaultNotPossible):
            why = "nothing to sample"
            return None
        stage: Array | None = None if shown is None else getattr(shown, name)
        return None if stage is None else stage[None]

    reading = read(spot, step, lookup, watch.shown)
    if why:
        reading = replace(reading, why=why)
    return reading.why != NOT_COMPUTED, reading


def _appeared(trace: Trace, reading: Reading, spot: Spot) -> bool:
    """Whether an array that was not there may be there by now."""
    name = "logits" if spot.array in STAGES else spot.array
    return trace.presence(reading.step, name) is Presence.HELD or (
        reading.why == NOT_COMPUTED and trace.presence(reading.step, name) is Presence.EVICTED
    )
