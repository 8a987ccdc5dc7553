"""Attention patterns that the byte budget left out: worked out again for what is looked at only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from decoder_gui.commands.base import Commands
from decoder_gui.debugger.engine_room import EngineRoom
from decoder_gui.viewdata.attention import AttentionView
from decoder_gui.viewdata.attention_codes import Digest, digest
from decoder_gui.viewdata.attention_store import PatternStore
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import plural
from decoder_gui.worker import Ended
from model.engine import Array
from model.trace import Step

if TYPE_CHECKING:
    from decoder_gui.context import AppContext

NEWS_AFTER = 0.1  # s between two times that something new is told of


@dataclass(frozen=True)
class Recalled:
    """A pattern of the layer that is looked at, (head, row, key)."""

    step: Step
    layer: int
    pattern: Array


@dataclass(frozen=True)
class Outlined:
    """What a thumbnail needs of a pattern, at so many positions a cell."""

    step: Step
    layer: int
    factor: int
    digest: Digest


@dataclass(frozen=True)
class _Wanted:
    """One job: some steps of a layer, whole or as outlines (``factor`` positions a cell)."""

    layer: int
    steps: tuple[int, ...]
    factor: int = 0


class Patterns(Commands):
    """Has one job at a time: the matrix in hand first, then thumbnails in sight, layer by layer.

    Only what is asked for leaves the worker: of a layer whose thumbnails are in sight a few
    kilobytes, not its arrays.

    Args:
        context: whose worker and trace these are.
        store: where what comes back goes.
        news: called when there is something new in the store.
    """

    def __init__(self, context: AppContext, store: PatternStore, news: Callable[[], None]) -> None:
        super().__init__(context)
        self._store = store
        self._news = news
        self._running: _Wanted | None = None
        self._refused: dict[tuple[int, int], Step] = {}  # by step and layer
        self._told = 0.0

    def want(self, moment: Moment, view: AttentionView, visible: Sequence[int]) -> None:
        """Ask for what a view lacks: all of its matrix, and the thumbnails of visible layers."""
        if self.context.recorded:
            return
        wanted = self._next(moment, view, visible)
        if wanted is None or wanted == self._running:
            return
        running = self._running
        if running is not None and (running.layer, running.factor) == (wanted.layer, wanted.factor):
            return  # its rows are arriving
        if running is not None and wanted.factor:
            return  # one after the other
        self._start(moment, wanted)

    def refused(self, moment: Moment, layer: int, step: int) -> bool:
        """Whether a pattern cannot be worked out again."""
        return self.context.recorded or self._refused.get((step, layer)) is moment.trace.steps[step]

    def _next(self, moment: Moment, view: AttentionView, visible: Sequence[int]) -> _Wanted | None:
        rows = self._possible(moment, view.layer, view.not_kept)
        if rows:
            return _Wanted(view.layer, rows)
        for layer in visible:
            steps = self._possible(moment, layer, self._store.absent(moment, layer))
            if steps and layer != view.layer:
                return _Wanted(layer, steps, view.factor)
        return None

    def _possible(self, moment: Moment, layer: int, steps: Sequence[int]) -> tuple[int, ...]:
        return tuple(step for step in steps if not self.refused(moment, layer, step))

    def _start(self, moment: Moment, wanted: _Wanted) -> None:
        trace, layer = moment.trace, wanted.layer
        inputs: list[tuple[Step, Array]] = []
        for step in wanted.steps:
            resid_pre = trace.array(step, f"blocks.{layer}.resid_pre")
            if resid_pre is None:
                self._refused[step, layer] = trace.steps[step]
            else:
                inputs.append((trace.steps[step], resid_pre))
        if not inputs:
            return
        room, name = self.context.room, self._store.names[layer]
        window = trace.shape.window(layer)
        what = "Thumbnails" if wanted.factor else "Attention"
        self._running = wanted

        def ended(how: Ended) -> None:
            if self._running is wanted:
                self._running = None
            if how.refusal is not None or how.crash:
                self._refused.update({(step.index, layer): step for step, _ in inputs})
            self._told = perf_counter()
            self._news()

        self.submit(
            f"{what} of block {layer}: {plural(len(inputs), 'step')} not kept, recomputing",
            lambda: _replayed(room, inputs, layer, name, wanted.factor, window),
            heard=self._hear,
            ended=ended,
        )

    def _hear(self, update: object) -> None:
        match update:
            case Recalled(step, layer, pattern):
                self._store.keep(step, layer, pattern)
            case Outlined(step, layer, factor, found):
                self._store.add(step, layer, factor, found)
        if perf_counter() - self._told > NEWS_AFTER:
            self._told = perf_counter()
            self._news()


def _replayed(
    room: EngineRoom,
    inputs: Sequence[tuple[Step, Array]],
    layer: int,
    name: str,
    factor: int,
    window: int,
) -> Iterator[Recalled | Outlined]:
    """The patterns of some steps of a layer again, in the worker; one step's arrays at a time."""
    for step, resid_pre in inputs:
        found = room.recompute(step, layer, resid_pre, name)
        if found is None:
            continue
        pattern: Array = found[0]
        if factor:
            yield Outlined(step, layer, factor, digest(pattern, step.first, window, factor))
        else:
            yield Recalled(step, layer, pattern)
