"""The logit lens of the run in hand, worked out in the worker when a panel wants it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands
from decoder_gui.debugger.laboratory.lens import NO_TARGET, NoReadout, reader
from decoder_gui.debugger.laboratory.lens_table import LensTable, lens_columns
from decoder_gui.worker import Ended
from model.engine import Array
from model.errors import DecoderError
from model.trace import Step, Trace

if TYPE_CHECKING:
    from decoder_gui.context import AppContext


class Lens(Commands):
    """What each block's residual would say, kept up with the run while somebody looks.

    Attributes:
        table: the columns worked out so far; None before the first.
        pending: whether more of them are on their way.
        refusal: why there is no lens, in a sentence; empty where there is one.
    """

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self.table: LensTable | None = None
        self.pending = False
        self.refusal = ""
        # Of each step that the table reaches: its final vectors, by which it is known again. The
        # same tokens may have been read by a faulty engine, or with an edited activation.
        self._read: tuple[Array, ...] = ()
        self._reading: tuple[Array, ...] = ()  # those of the job that is on its way
        self._failed: tuple[Array, ...] | None = None  # those that could not be read
        self._job = 0  # its number: what an older one still says is not heard

    def want(self) -> None:
        """Work out what is missing of the run in hand; for a panel that is on show."""
        context = self.context
        trace, model = context.trace, context.model
        self.refusal = ""
        if trace is None or model is None:
            return
        steps = _complete(trace)
        if self.pending and not self._concerns(trace, steps):
            self._abandon()
        if self.pending or not steps:
            return
        try:
            reader(model.weights)
        except NoReadout as reason:
            words = "a capture holds no weights" if model.recorded is not None else str(reason)
            self.refusal = f"No logit lens: {words}."
            return
        target = self._landing(steps[-1].index)
        first = self._kept(trace, steps, target)
        if first >= steps[-1].last or self._failed_on(trace, steps):
            return
        self.table = None if self.table is None or not first else self.table.upto(first)
        self.pending = True
        self._job += 1
        number = self._job
        copied, weights = trace.copy(), model.weights
        vectors = self._reading = tuple(_final(trace, step) for step in steps)

        def job() -> Iterator[object]:
            return lens_columns(copied, weights, first=first, target=target)

        def heard(item: object) -> None:
            if isinstance(item, LensTable) and number == self._job:
                self.table = item if self.table is None else self.table.joined(item)
                reached = [v for v, s in zip(vectors, steps, strict=True) if s.first < item.last]
                self._read = tuple(reached)
                self.tell(Change.LAB)

        def ended(end: Ended) -> None:
            if number == self._job:
                self.pending = False
                self._failed = vectors if end.crash or end.refusal else None
                self.tell(Change.LAB)

        self._read = tuple(v for v, s in zip(vectors, steps, strict=True) if s.first < first)
        self.submit("Logit lens", job, heard=heard, ended=ended)

    def reset(self, change: Change) -> None:
        if change & Change.MODEL:
            self.table, self._read = None, ()
            if self.pending:
                self._abandon()

    def _concerns(self, trace: Trace, steps: tuple[Step, ...]) -> bool:
        """Whether the job on its way reads what is recorded now; there may be more by now."""
        return len(self._reading) <= len(steps) and all(
            _same(_final(trace, step), vectors)
            for step, vectors in zip(steps, self._reading, strict=False)
        )

    def _failed_on(self, trace: Trace, steps: tuple[Step, ...]) -> bool:
        """Whether just this has been tried before and could not be done."""
        failed = self._failed
        return (
            failed is not None
            and len(failed) == len(steps)
            and all(
                _same(_final(trace, step), vectors)
                for step, vectors in zip(steps, failed, strict=True)
            )
        )

    def _abandon(self) -> None:
        self._job += 1
        self.pending = False
        self.cancel()

    def _landing(self, step: int) -> int:
        """The token that a step would go on with, under the settings of now."""
        run = self.context.run_state
        try:
            found = None if run is None else run.landing(step, self.context.sampling)
        except DecoderError:  # nothing can be sampled from it
            return NO_TARGET
        return NO_TARGET if found is None else found.token_id

    def _kept(self, trace: Trace, steps: tuple[Step, ...], target: int) -> int:
        """How many columns of the table still stand: the same vectors with the same next token."""
        if self.table is None:
            return 0
        kept = 0
        for step, vectors in zip(steps, self._read, strict=False):
            if not _same(_final(trace, step), vectors):
                break
            kept = min(step.last, self.table.last)
        wanted = np.array((*trace.token_ids[: steps[-1].last][1:], target), dtype=np.int64)[:kept]
        different = np.flatnonzero(self.table.target_ids[:kept] != wanted)
        return int(different[0]) if different.size else kept


def _complete(trace: Trace) -> tuple[Step, ...]:
    return tuple(step for step in trace.steps if trace.complete(step.index))


def _final(trace: Trace, step: Step) -> Array:
    found = trace.array(step.index, "ln_final")
    return np.zeros(0) if found is None else found


def _same(one: Array, other: Array) -> bool:
    """Whether both are the same memory: a pass cut short makes another view whenever it is asked.

    Whoever compares holds one of them, so that its memory is nobody else's.
    """
    return one is other or (
        one.shape == other.shape
        and one.strides == other.strides
        and bool(one.ctypes.data == other.ctypes.data or not one.size)
    )
