"""Pictures of every head's attention, extended as a run grows instead of rebuilt at every step.

A recorded pattern never changes, so each one is turned into colours once. What exists at a cursor
is a slice of those pictures: rows are appended in order of position, and a row that is not computed
yet at the cursor is blanked in the slice. A run that is cut and continued drops the rows from the
cut on.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from decoder_gui.debugger.cursor import last
from decoder_gui.viewdata.moment import Moment
from model.engine import Array
from model.operations import Kind
from model.trace import Step, Trace

Codes = NDArray[np.uint8]
Key = tuple[int, int]  # (step, layer)

NOTHING = 0
"""Code of a cell without a colour: masked, not computed, not kept, or not finite."""
STEPS = 254
"""A weight w in [0, 1] has the code 1 + round(w * STEPS), so that a maximum of codes is one of
weights and never of absences."""
LEAK_TOLERANCE = 1e-9
"""Attention weights above the diagonal are leaks when larger than this."""
THUMBNAIL_SIDE = 64
"""Most cells along a thumbnail's side; more positions are shrunk by maximum."""
PARTIALS_KEPT = 2048


def encode(weights: Array, first: int = 0, window: int = 0) -> Codes:
    """Codes of attention weights (..., rows, keys); ``first`` is the position of row 0.

    What is above the diagonal, or before a window of that many keys (0: none), is masked and gets
    no colour, unless it is a leak.
    """
    with np.errstate(invalid="ignore"):
        scaled = np.clip(weights, 0.0, 1.0) * STEPS + 1.5
    finite = np.isfinite(weights)
    codes: Codes = np.where(finite, scaled, NOTHING).astype(np.uint8)
    rows, keys = weights.shape[-2:]
    if first + 1 < keys:
        later = np.arange(keys) > np.arange(first, first + rows)[:, np.newaxis]
        codes[later & (weights <= LEAK_TOLERANCE)] = NOTHING
    if window and window < first + rows:
        newest_hidden = np.arange(first, first + rows)[:, np.newaxis] - window
        codes[(np.arange(keys) <= newest_hidden) & (weights <= LEAK_TOLERANCE)] = NOTHING
    return codes


def shrink(codes: Codes, factor: int) -> Codes:
    """The largest code of each block of ``factor`` x ``factor`` cells of (..., rows, keys)."""
    if factor == 1:
        return codes
    *front, rows, keys = codes.shape
    tall, wide = -(-rows // factor), -(-keys // factor)
    padded = np.zeros((*front, tall * factor, wide * factor), np.uint8)
    padded[..., :rows, :keys] = codes
    # One maximum per offset is several times faster than reshape().max().
    halved = padded[..., ::factor, :].copy()
    for offset in range(1, factor):
        np.maximum(halved, padded[..., offset::factor, :], out=halved)
    result = halved[..., ::factor].copy()
    for offset in range(1, factor):
        np.maximum(result, halved[..., offset::factor], out=result)
    return result


def shrink_factor(positions: int, side: int) -> int:
    """The smallest power of two by which that many positions fit into ``side`` cells."""
    factor = 1
    while -(-positions // factor) > side:
        factor *= 2
    return factor


@dataclass(frozen=True)
class FoundLeaks:
    """Weights above the diagonal of one layer in one step; parallel arrays, heaviest first."""

    heads: NDArray[np.int64]
    queries: NDArray[np.int64]
    keys: NDArray[np.int64]
    weights: NDArray[np.float64]


class _Done:
    """Which (step, layer) pairs are done; asking for the others costs only what is not done."""

    def __init__(self, layers: int) -> None:
        self._layers = layers
        self._complete = 0  # all layers of this many leading steps
        self._others: set[Key] = set()

    def add(self, key: Key) -> None:
        self._others.add(key)
        while self._others.issuperset(row := [(self._complete, i) for i in range(self._layers)]):
            self._others.difference_update(row)
            self._complete += 1

    def forget(self, steps: int) -> None:
        """Keep what belongs to the first ``steps`` steps."""
        self._complete = min(self._complete, steps)
        self._others = {key for key in self._others if key[0] < steps}

    def missing(self, existing: tuple[int, int]) -> list[Key]:
        """The pairs not done among all layers of some steps and the first layers of one more."""
        steps, more = existing
        wanted = [
            (step, layer)
            for step in range(self._complete, steps + 1)
            for layer in range(self._layers if step < steps else more)
        ]
        return [key for key in wanted if key not in self._others]


@dataclass
class _Pictures:
    """All heads at one shrink factor: cells (layer, row, head, key), so that it is one mosaic."""

    cells: Codes
    filled: _Done
    bottom: list[int]  # per layer: one past the last row filled
    partial: dict[tuple[int, int], Codes] = field(default_factory=dict)  # (layer, rows computed)


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
        self._checked = _Done(len(self._names))
        self._leaks: dict[Key, FoundLeaks] = {}
        self._broken: dict[Key, NDArray[np.int64]] = {}  # per head
        self._kept: dict[int, Array] = {}
        self._kept_layer = -1
        self.latest: object = None
        self.latest_key: object = None

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
        self._steps = steps

    def _forget(self, steps: int) -> None:
        """Drop what came from steps ``steps`` onwards."""
        first = self._steps[steps].first
        self._leaks = {key: found for key, found in self._leaks.items() if key[0] < steps}
        self._broken = {key: count for key, count in self._broken.items() if key[0] < steps}
        self._checked.forget(steps)
        self._kept = {step: array for step, array in self._kept.items() if step < steps}
        for factor, pictures in self._pictures.items():
            block = first // factor
            pictures.partial.clear()
            pictures.cells[:, block:] = NOTHING
            untouched = (step.index for step in self._steps if step.last > block * factor)
            pictures.filled.forget(next(untouched, len(self._steps)))
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

    def prepare(self, moment: Moment) -> None:
        """Take in all that is recorded, beyond the cursor too.

        While tokens are decoded the cursor stays behind. When it arrives, hundreds of patterns at
        once would hold up the window.
        """
        if not moment.trace.steps:
            return
        ahead = replace(moment, cursor=last(moment.trace))
        self.follow(ahead)
        self.check(ahead)
        self.mosaic(ahead)

    def look_at(self, layer: int) -> None:
        """Keep what is replayed of this layer, and let the one before go."""
        if layer != self._kept_layer:
            self._kept_layer, self._kept = layer, {}

    def check(self, moment: Moment) -> None:
        """Examine every pattern that exists at the cursor and was not examined before."""
        for step, layer in self._checked.missing(self._existing(moment)):
            pattern = self.pattern(moment, step, layer)
            if pattern is None:
                continue
            self._checked.add((step, layer))
            broken = np.count_nonzero(~np.isfinite(pattern), axis=(1, 2))
            if broken.any():
                self._broken[(step, layer)] = broken
            leaks = find_leaks(pattern, self._steps[step].first)
            if leaks is not None:
                self._leaks[(step, layer)] = leaks

    def leaks(self, moment: Moment) -> Iterator[tuple[int, FoundLeaks]]:
        """(layer, leaks) of every pattern that exists at the cursor and leaks."""
        for (step, layer), found in self._leaks.items():
            if moment.exists(step, self._names[layer]):
                yield layer, found

    def not_finite(self, moment: Moment) -> NDArray[np.int64]:
        """Weights at the cursor that are NaN or infinite; (layers, heads)."""
        counts = np.zeros((len(self._names), moment.trace.shape.num_heads), np.int64)
        for (step, layer), count in self._broken.items():
            if moment.exists(step, self._names[layer]):
                counts[layer] += count
        return counts

    def unchecked(self, moment: Moment) -> int:
        """Number of patterns that exist at the cursor and could not be examined: not kept."""
        return len(self._checked.missing(self._existing(moment)))

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
        positions = step.last
        factor = shrink_factor(positions, self._side)
        pictures = self._pictures.get(factor)
        if pictures is None:
            side = self._side
            cells = np.zeros((len(self._names), side, shape.num_heads, side), np.uint8)
            pictures = _Pictures(cells, _Done(len(self._names)), [0] * len(self._names))
            self._pictures[factor] = pictures
        for key in pictures.filled.missing(self._existing(moment)):
            self._fill(moment, pictures, factor, *key)
        size = -(-positions // factor)
        view: Codes = pictures.cells[:, :size, :, :size].copy()
        for layer, bottom in enumerate(pictures.bottom):
            rows = self.rows_computed(moment, layer)
            view[layer, -(-rows // factor) :] = NOTHING
            if bottom > rows and rows % factor:
                last = self._partial(moment, pictures, factor, layer, rows)
                view[layer, rows // factor] = NOTHING
                view[layer, rows // factor, :, : last.shape[1]] = last
        return view, factor

    def _fill(
        self, moment: Moment, pictures: _Pictures, factor: int, step: int, layer: int
    ) -> None:
        pattern = self.pattern(moment, step, layer)
        if pattern is None:
            return
        first, window = self._steps[step].first, moment.trace.shape.window(layer)
        _merge(pictures.cells[layer], encode(pattern, first, window), first, factor)
        pictures.filled.add((step, layer))
        pictures.bottom[layer] = max(pictures.bottom[layer], self._steps[step].last)

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


def _merge(cells: Codes, codes: Codes, first: int, factor: int) -> None:
    """Put the rows of (head, row, key) from position ``first`` on into (row, head, key)."""
    if factor == 1:
        rows, keys = codes.shape[1:]
        cells[first : first + rows, :, :keys] = codes.transpose(1, 0, 2)
        return
    lead = first % factor  # rows of the first block that other steps have filled
    if lead:
        codes = np.pad(codes, ((0, 0), (lead, 0), (0, 0)))
    small = shrink(codes, factor).transpose(1, 0, 2)
    target = cells[first // factor :][: small.shape[0], :, : small.shape[2]]
    np.maximum(target, small, out=target)


def pattern_names(trace: Trace) -> tuple[str, ...]:
    """Canonical names of the attention patterns, one a layer, in order."""
    return tuple(
        operation.outputs[0] for operation in trace.operations if operation.kind is Kind.PATTERN
    )


def find_leaks(pattern: Array, first: int) -> FoundLeaks | None:
    """Weights above the diagonal of a pattern (head, row, key) whose row 0 is position ``first``.

    None where there are none, which is at once clear for one row at the end of the keys.
    """
    rows, keys = pattern.shape[1:]
    if first + 1 >= keys:
        return None
    later = np.arange(keys) > np.arange(first, first + rows)[:, np.newaxis]
    heads, found_rows, found_keys = np.nonzero((pattern > LEAK_TOLERANCE) & later)
    if not heads.size:
        return None
    weights = pattern[heads, found_rows, found_keys].astype(np.float64)
    order = np.argsort(-weights, kind="stable")
    return FoundLeaks(heads[order], found_rows[order] + first, found_keys[order], weights[order])
