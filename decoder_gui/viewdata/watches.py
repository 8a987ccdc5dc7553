"""What the Watches panel shows: of each watch its value at the cursor, history and gaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from decoder_gui.debugger.stopping.spots import STAGES, Reading, Shown, Spot, read_row, summary
from decoder_gui.debugger.stopping.watches import Watch, last_change, missing_words
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_exact, format_value, plural
from model.engine import Array


@dataclass(frozen=True)
class WatchRow:
    """One watch.

    Attributes:
        label: the array, or what its probabilities are.
        place: head, position and column in words.
        value: the number in hand as it is written, or a word where there is none.
        bad: whether the value is not finite.
        note: where the value is from, if not from the step in hand, or why there is none; for a row
            its other numbers.
        history: when it last changed.
        missing: why some steps have no value, or empty.
        readings: one per recorded step, as far as they are read.
        now: index of the reading whose value is shown, -1 if none.
        here: the step in hand.
        later: the first step whose value does not exist at the cursor.
    """

    number: int
    label: str
    place: str
    value: str
    bad: bool
    note: str
    history: str
    missing: str
    readings: tuple[Reading, ...]
    now: int
    here: int
    later: int
    is_row: bool
    shown: Shown

    @cached_property
    def range(self) -> tuple[float, float] | None:
        """Smallest and largest finite value, or None without any."""
        values = [r.value for r in self.readings if r.value is not None and math.isfinite(r.value)]
        return (min(values), max(values)) if values else None

    @property
    def words(self) -> str:
        """All of it in a sentence or two, for whoever cannot see it."""
        parts = [f"{self.label}, {self.place}: {self.value}", self.note, self.history, self.missing]
        return ". ".join(part for part in parts if part) + "."

    def point_words(self, step: int) -> str:
        """One step's value in words."""
        reading = self.readings[step]
        if reading.value is None:
            return f"Step {step}: {reading.why}"
        later = ", after the cursor" if step >= self.later else ""
        return f"Step {step}, position {reading.position}: {format_exact(reading.value)}{later}"


@dataclass(frozen=True)
class WatchesView:
    """All watches, or in words that there are none."""

    rows: tuple[WatchRow, ...]
    hint: str
    message: str = ""


NO_WATCHES = (
    "Nothing is watched. In Values choose a cell and press W, or Shift + W for its whole row."
)


def build_watches(
    moment: Moment | None,
    watches: Sequence[Watch],
    readings: Callable[[Watch], tuple[Reading, ...]],
) -> WatchesView:
    """The panel's contents; ``readings`` gives what has been read of a watch so far."""
    if not watches:
        return WatchesView((), "", NO_WATCHES)
    rows = tuple(_row(moment, watch, readings(watch)) for watch in watches)
    steps = 0 if moment is None else len(moment.trace.steps)
    hint = f"{plural(len(rows), 'watch', 'watches')} over {plural(steps, 'step')}"
    return WatchesView(rows, hint)


def _row(moment: Moment | None, watch: Watch, readings: tuple[Reading, ...]) -> WatchRow:
    spot, cursor = watch.spot, None if moment is None else moment.cursor
    here = -1 if cursor is None else cursor.step
    later = here + 1 if moment is not None and _exists(moment, spot, here) else max(here, 0)
    past = readings[:later]
    now = next((at for at in reversed(range(len(past))) if past[at].value is not None), -1)
    value = None if now < 0 else past[now].value
    return WatchRow(
        number=watch.number,
        label=spot.array if spot.array not in STAGES else f"probability, {spot.array}",
        place=_place(moment, watch),
        value="no value" if value is None else format_value(value, 4),
        bad=value is not None and not math.isfinite(value),
        note=_note(moment, watch, past, now, here),
        history=_history(past, spot),
        missing=missing_words(readings),
        readings=readings,
        now=now,
        here=here,
        later=later,
        is_row=watch.is_row,
        shown=watch.shown,
    )


def _exists(moment: Moment, spot: Spot, step: int) -> bool:
    name = "logits" if spot.array in STAGES else spot.array
    return step >= 0 and moment.exists(step, name)


def _place(moment: Moment | None, watch: Watch) -> str:
    spot = watch.spot
    parts = [] if spot.head is None else [f"head {spot.head}"]
    parts.append("newest position" if spot.position is None else f"position {spot.position}")
    if spot.index is None:
        parts.append(f"whole row, {watch.shown}")
    else:
        parts.append(f"{spot.column} {spot.index}{_token(moment, spot)}")
    return " · ".join(parts)


def _token(moment: Moment | None, spot: Spot) -> str:
    """The text of the token that a column is about, where it is about one."""
    index = spot.index
    if moment is None or index is None or spot.column == "index":
        return ""
    if spot.column == "key":
        return f" “{moment.pieces[index].text}”" if index < len(moment.pieces) else ""
    known = index < moment.model.shape.vocabulary
    return f" “{moment.model.tokenizer.piece(index).text}”" if known else ""


def _note(moment: Moment | None, watch: Watch, past: Sequence[Reading], now: int, here: int) -> str:
    if now < 0:
        if past:
            return past[-1].why[:1].upper() + past[-1].why[1:]
        return "Not computed yet"
    parts = [] if now == here else [f"from step {now}"]
    if watch.is_row and moment is not None:
        parts.append(_other_numbers(moment, watch, past[now]))
    return " · ".join(part for part in parts if part)


def _other_numbers(moment: Moment, watch: Watch, reading: Reading) -> str:
    """The numbers of a row that are not the one in the plot."""

    def lookup(step: int, name: str) -> Array | None:
        if name in STAGES:
            same = moment.cursor is not None and moment.cursor.step == step
            shown = moment.distribution if same else None
            stage: Array | None = None if shown is None else getattr(shown, name)
            return None if stage is None else stage[None]
        return moment.array(step, name)

    row, _, _ = read_row(watch.spot, moment.trace.steps[reading.step], lookup)
    if row is None:
        return ""
    others = [each for each in Shown if each is not watch.shown]
    return " · ".join(f"{each} {format_value(summary(row, each))}" for each in others)


def _history(past: Sequence[Reading], spot: Spot) -> str:
    values = [reading for reading in past if reading.value is not None]
    if not values:
        return ""
    changed = last_change(values)
    if changed is not None:
        before, after = format_value(changed.before, 4), format_value(changed.after, 4)
        if before == after:  # the digits shown do not tell them apart
            before, after = format_exact(changed.before), format_exact(changed.after)
        return f"last changed at step {changed.step}: {before} → {after}"
    first = values[0].step
    if len(values) > 1:
        return f"unchanged since step {first}"
    if spot.position is not None:
        return f"computed in step {first}, where its position is processed"
    return f"first value at step {first}"
