"""Pictures of every head's attention, extended as a run grows instead of rebuilt at every step.

A recorded pattern never changes, so each one is turned into colours once. What exists at a cursor
is a slice of those pictures: rows are appended in order of position, and a row that is not computed
yet at the cursor is blanked in the slice. A run that is cut and continued drops the rows from the
cut on.

Patterns of long prompts are taken in a few heads at a time, so that whoever asks can stop after any
of them; those that were not kept come as digests that somebody else has made.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from decoder_gui.debugger.cursor import last
from decoder_gui.viewdata.attention_codes import (
    NOTHING,
    Codes,
    Digest,
    HeadLeaks,
    digest,
    encode,
    joined,
    shrink,
    shrink_factor,
)
from decoder_gui.viewdata.attention_progress import Done, Key
from decoder_gui.viewdata.moment import Moment
from model.engine import Array
from model.operations import Kind
from model.trace import Step, Trace

THUMBNAIL_SIDE = 64
"""Most cells along a thumbnail's side; more positions are shrunk by maximum."""
PARTIALS_KEPT = 2048
_AT_ONCE = 2_000_000  # weights that are taken in between two looks at how much may be done
_PER_PATTERN = 20_000  # weights that take as long as what a pattern costs beside its weights


@dataclass
class _Pictures:
    """All heads at one shrink factor: cells (layer, row, head, key), so that it is one mosaic."""

    cells: Codes
    settled: Done  # taken in, or found not to be there
    bottom: list[int]  # per layer: one past the last row filled
    absent: set[Key] = field(default_factory=set)  # settled without having been taken in
    partial: dict[Key, Codes] = field(default_factory=dict)  # by layer and rows computed


class PatternStore:
    """What has been looked at of one trace's attention patterns.

    Not frozen on purpose: it is the memory behind the frozen views. It holds no trace alive.
    """

    def __init__(self, side: int = THUMBNAIL_SIDE) -> None:
        self._side = side
        self._reset(None)

    def _reset(self, trace: Trace | None) -> None:
        self._trace = None if trace is None else weakref.ref(trace)
        self._names = () if trace is None else pattern_names(trace)
        self._steps: tuple[Step, ...] = ()
        self._pictures: dict[int, _Pictures] = {}
        self._task: Iterator[int] | None = None  # a pattern of which some heads are taken in
        self._checked: list[Key] = []  # in order
        self._leaks: dict[Key, tuple[HeadLeaks, ...]] = {}
        self._broken: dict[Key, NDArray[np.int64]] = {}  # per head
        self._kept: dict[int, Array] = {}
        self._kept_layer = -1
        self.latest: object = None
        self.latest_key: object = None
        self.composed: object = None  # the matrix made last, for the next view of the same head
        self.version = 0  # counts what was taken in

    def remember(self, key: object, view: object) -> None:
        """Keep the view made last, for as long as its key and the trace stay the same."""
        self.latest_key, self.latest = key, view

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical name of each layer's attention pattern, from the model's own operations."""
        return self._names

    def follow(self, moment: Moment) -> None:
        """Bring the memory in line with the trace of now."""
        trace = moment.trace
        if self._trace is None or self._trace() is not trace:
            self._reset(trace)
        steps = trace.steps
        same = 0
        for old, new in zip(self._steps, steps, strict=False):
            if old is not new:
                break
            same += 1
        if same < len(self._steps):
            self._forget(same)
            self.remember(None, None)
            self.composed = None
        self._steps = steps

    def _forget(self, steps: int) -> None:
        """Drop what came from steps ``steps`` onwards."""
        first = self._steps[steps].first
        self._task = None
        self._leaks = {key: found for key, found in self._leaks.items() if key[0] < steps}
        self._broken = {key: count for key, count in self._broken.items() if key[0] < steps}
        del self._checked[bisect_left(self._checked, (steps, 0)) :]
        self._kept = {step: array for step, array in self._kept.items() if step < steps}
        for factor, pictures in self._pictures.items():
            block = first // factor
            pictures.partial.clear()
            pictures.cells[:, block:] = NOTHING
            untouched = (step.index for step in self._steps if step.last > block * factor)
            from_here = next(untouched, len(self._steps))
            pictures.settled.forget(from_here)
            pictures.absent = {key for key in pictures.absent if key[0] < from_here}
            pictures.bottom = [min(bottom, block * factor) for bottom in pictures.bottom]

    def rows_computed(self, moment: Moment, layer: int) -> int:
        """How many query rows of a layer have been through its softmax at the cursor."""
        step = moment.step
        if step is None:
            return 0
        return step.last if moment.exists(step.index, self._names[layer]) else step.first

    def pattern(self, moment: Moment, step: int, layer: int) -> Array | None:
        """Pattern of one step and layer, (head, row, key), or None if absent or not kept.

        Replays of the layer last asked for are kept here, because a trace holds only a few.
        """
        found = moment.array(step, self._names[layer])
        if found is not None and layer == self._kept_layer:
            self._kept[step] = found
        if found is None and layer == self._kept_layer and moment.exists(step, self._names[layer]):
            found = self._kept.get(step)
        return found

    def keep(self, step: Step, layer: int, pattern: Array) -> None:
        """Take a pattern (head, row, key) that was worked out again, if its layer is looked at."""
        known = step.index < len(self._steps) and self._steps[step.index] is step
        if known and layer == self._kept_layer:
            self._kept[step.index] = pattern
            self.version += 1

    def look_at(self, layer: int) -> None:
        """Keep what is replayed of this layer, and let the one before go."""
        if layer != self._kept_layer:
            self._kept_layer, self._kept = layer, {}

    # ---- taking patterns in

    def prepare(self, moment: Moment, limit: int | None = None, layers: Sequence[int] = ()) -> bool:
        """Take in what is recorded, beyond the cursor too; see :meth:`take_in`.

        While tokens are decoded the cursor stays behind. When it arrives, hundreds of patterns at
        once would hold up the window.
        """
        if not moment.trace.steps:
            return False
        ahead = replace(moment, cursor=last(moment.trace))
        self.follow(ahead)
        return self.take_in(ahead, limit, layers)

    def take_in(self, moment: Moment, limit: int | None = None, layers: Sequence[int] = ()) -> bool:
        """Look at patterns that exist at the cursor and are at hand, each of them once.

        Args:
            limit: stop after about as many weights; all there are if None.
            layers: those to begin with.

        Returns:
            Whether there is more to do.
        """
        spent = 0
        for task in self._tasks(moment, layers):
            self._task = task
            for size in task:
                spent += size + _PER_PATTERN
                if limit is not None and spent >= limit:
                    return True
            self._task = None
        return False

    def _tasks(self, moment: Moment, layers: Sequence[int]) -> Iterator[Iterator[int]]:
        """What was begun, then every pattern at hand that was not taken in yet."""
        if self._task is not None:
            yield self._task
        if moment.step is None:
            return
        factor, pictures = self._pictures_at(moment)
        waiting = pictures.settled.missing(self._existing(moment))
        waiting += [
            key
            for step in self._kept
            if (key := (step, self._kept_layer)) in pictures.absent
            and moment.exists(step, self._names[key[1]])
        ]
        waiting.sort(key=lambda key: (key[1] not in layers, *key))
        for key in waiting:
            pattern = self.pattern(moment, *key)
            if pattern is not None:
                yield self._take(pictures, factor, key, pattern)
            else:
                pictures.settled.add(key)
                pictures.absent.add(key)

    def _take(self, pictures: _Pictures, factor: int, key: Key, pattern: Array) -> Iterator[int]:
        step, window = self._steps[key[0]], self._window(key[1])
        several = max(1, _AT_ONCE // max(1, pattern[0].size))
        parts: list[Digest] = []
        for head in range(0, len(pattern), several):
            part = pattern[head : head + several]
            parts.append(digest(part, step.first, window, factor, head))
            if head + several < len(pattern):
                yield part.size
        self._add(pictures, factor, key, joined(parts))
        yield part.size

    def add(self, step: Step, layer: int, factor: int, found: Digest) -> None:
        """Take in what was made elsewhere of a pattern that was not kept."""
        pictures = self._pictures.get(factor)
        known = step.index < len(self._steps) and self._steps[step.index] is step
        if pictures is not None and known and (step.index, layer) in pictures.absent:
            self._add(pictures, factor, (step.index, layer), found)

    def _add(self, pictures: _Pictures, factor: int, key: Key, found: Digest) -> None:
        self.version += 1
        at, layer = key
        top = self._steps[at].first // factor
        rows, _, keys = found.cells.shape
        target = pictures.cells[layer, top : top + rows, :, :keys]
        np.maximum(target, found.cells, out=target)
        pictures.bottom[layer] = max(pictures.bottom[layer], self._steps[at].last)
        if key in pictures.absent:
            pictures.absent.remove(key)
        else:
            pictures.settled.add(key)
        if not self._is_checked(key):
            insort(self._checked, key)
            if found.leaks:
                self._leaks[key] = found.leaks
            if found.broken.any():
                self._broken[key] = found.broken

    def _is_checked(self, key: Key) -> bool:
        at = bisect_left(self._checked, key)
        return at < len(self._checked) and self._checked[at] == key

    def _pictures_at(self, moment: Moment) -> tuple[int, _Pictures]:
        """The pictures that a cursor needs; from finer ones where those are there."""
        step, shape = moment.step, moment.trace.shape
        assert step is not None
        side, layers = self._side, len(self._names)
        factor = shrink_factor(step.last, side)
        found = self._pictures.get(factor)
        if found is None:
            cells = np.zeros((layers, side, shape.num_heads, side), np.uint8)
            found = _Pictures(cells, Done(layers), [0] * layers)
            finer = self._pictures.get(factor // 2)
            if finer is not None:
                small = shrink(finer.cells.transpose(0, 2, 1, 3), 2).transpose(0, 2, 1, 3)
                found.cells[:, : small.shape[1], :, : small.shape[3]] = small
                found.settled, found.bottom = finer.settled.copy(), list(finer.bottom)
                found.absent = set(finer.absent)
            self._pictures[factor] = found
        return factor, found

    def _window(self, layer: int) -> int:
        trace = None if self._trace is None else self._trace()
        return 0 if trace is None else trace.shape.window(layer)

    # ---- what is known at a cursor

    def leaks(self, moment: Moment) -> Iterator[tuple[int, HeadLeaks]]:
        """(layer, leaks of a head) for every pattern that exists at the cursor and leaks."""
        for (step, layer), found in self._leaks.items():
            if moment.exists(step, self._names[layer]):
                yield from ((layer, leaks) for leaks in found)

    def not_finite(self, moment: Moment) -> NDArray[np.int64]:
        """Weights at the cursor that are NaN or infinite; (layers, heads)."""
        counts = np.zeros((len(self._names), moment.trace.shape.num_heads), np.int64)
        for (step, layer), count in self._broken.items():
            if moment.exists(step, self._names[layer]):
                counts[layer] += count
        return counts

    def unchecked(self, moment: Moment) -> int:
        """Number of patterns that exist at the cursor and were not examined."""
        steps, more = self._existing(moment)
        there = steps * len(self._names) + more
        return there - bisect_left(self._checked, (steps, more))

    def unfinished(self, moment: Moment) -> frozenset[int]:
        """Layers whose thumbnails lack something that exists at the cursor."""
        if moment.step is None:
            return frozenset()
        existing = self._existing(moment)
        _, pictures = self._pictures_at(moment)
        waiting = {layer for _, layer in pictures.settled.missing(existing)}
        return frozenset(waiting | {key[1] for key in pictures.absent if key < existing})

    def absent(self, moment: Moment, layer: int) -> tuple[int, ...]:
        """Steps whose patterns of a layer exist at the cursor, lack in its thumbnails, and were
        not kept."""
        if moment.step is None:
            return ()
        existing = self._existing(moment)
        _, pictures = self._pictures_at(moment)
        return tuple(
            sorted(step for step, at in pictures.absent if at == layer and (step, at) < existing)
        )

    def _existing(self, moment: Moment) -> tuple[int, int]:
        """What exists at the cursor: all layers of that many steps, and that many of one more."""
        if moment.cursor is None:
            return 0, 0
        here = moment.cursor.step
        return here, sum(moment.exists(here, name) for name in self._names)

    def mosaic(self, moment: Moment) -> tuple[Codes, int]:
        """Codes of all heads at the cursor, (layer, row, head, key), and the shrink factor."""
        step = moment.step
        shape = moment.trace.shape
        if step is None:
            return np.zeros((shape.depth, 1, shape.num_heads, 1), np.uint8), 1
        factor, pictures = self._pictures_at(moment)
        size = -(-step.last // factor)
        view: Codes = pictures.cells[:, :size, :, :size].copy()
        for layer, bottom in enumerate(pictures.bottom):
            rows = self.rows_computed(moment, layer)
            view[layer, -(-rows // factor) :] = NOTHING
            if bottom > rows and rows % factor:
                last = self._partial(moment, pictures, factor, layer, rows)
                view[layer, rows // factor] = NOTHING
                view[layer, rows // factor, :, : last.shape[1]] = last
        return view, factor

    def _partial(
        self, moment: Moment, pictures: _Pictures, factor: int, layer: int, rows: int
    ) -> Codes:
        """The last block row at a cursor, (head, key); later positions are part of the stored one.

        It is what stepping back needs again and again, so it is kept.
        """
        found = pictures.partial.get((layer, rows))
        if found is not None:
            return found
        first = rows // factor * factor
        gathered, complete = None, True
        for step in reversed(self._steps):
            if step.first >= rows:
                continue
            if step.last <= first:
                break
            pattern = self.pattern(moment, step.index, layer)
            if pattern is None:
                complete = False
                continue
            if gathered is None:
                # What is not there is NaN, which has no colour.
                gathered = np.full((len(pattern), rows - first, rows), np.nan, pattern.dtype)
            part = pattern[:, max(0, first - step.first) :]
            top = max(first, step.first) - first
            gathered[:, top : top + part.shape[1], : part.shape[2]] = part
        if gathered is None:
            return np.zeros((moment.trace.shape.num_heads, 1), np.uint8)
        window = moment.trace.shape.window(layer)
        found = shrink(encode(gathered, first, window), factor)[:, 0]
        if complete:
            if len(pictures.partial) >= PARTIALS_KEPT:
                pictures.partial.clear()
            pictures.partial[(layer, rows)] = found
        return found


def pattern_names(trace: Trace) -> tuple[str, ...]:
    """Canonical names of the attention patterns, one a layer, in order."""
    return tuple(
        operation.outputs[0] for operation in trace.operations if operation.kind is Kind.PATTERN
    )
