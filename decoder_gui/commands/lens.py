"""The logit lens of the run in hand, worked out in the worker when a panel wants it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands
from decoder_gui.debugger.lens import NO_TARGET, NoReadout, reader
from decoder_gui.debugger.lens_table import LensTable, lens_columns
from decoder_gui.worker import Ended
from model.errors import DecoderError

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
        self._of: object = None  # the run that the table is of
        self._ids: tuple[int, ...] = ()  # its tokens, as far as the table reaches
        self._target = NO_TARGET  # of the last column

    def want(self) -> None:
        """Work out what is missing of the run in hand; for a panel that is on show."""
        context = self.context
        trace, model = context.trace, context.model
        self.refusal = ""
        if self.pending or trace is None or model is None:
            return
        ids = self._complete_ids()
        if not ids:
            return
        try:
            reader(model.weights)
        except NoReadout as reason:
            words = "a capture holds no weights" if model.recorded is not None else str(reason)
            self.refusal = f"No logit lens: {words}."
            return
        target = self._landing()
        first = self._kept(ids, target)
        if first >= len(ids):
            return
        self.table = None if self.table is None or not first else self.table.upto(first)
        self._of, self._ids, self._target = context.run_state, ids[:first], target
        self.pending = True
        copied, weights, run = trace.copy(), model.weights, context.run_state

        def job() -> Iterator[object]:
            return lens_columns(copied, weights, first=first, target=target)

        def heard(item: object) -> None:
            if isinstance(item, LensTable) and run is self.context.run_state:
                self.table = item if self.table is None else self.table.joined(item)
                self._ids = ids[: self.table.last]
                self.tell(Change.LAB)

        def ended(_: Ended) -> None:
            self.pending = False
            self.tell(Change.LAB)

        self.submit("Logit lens", job, heard=heard, ended=ended)

    def reset(self, change: Change) -> None:
        if self._of is not None and self._of is not self.context.run_state:
            self.cancel()
            self.table, self._of, self._ids = None, None, ()

    def _complete_ids(self) -> tuple[int, ...]:
        trace = self.context.trace
        assert trace is not None
        whole = [step for step in trace.steps if trace.complete(step.index)]
        return tuple(token for step in whole for token in step.token_ids)

    def _landing(self) -> int:
        """The token that the newest step would go on with, under the settings of now."""
        run, trace = self.context.run_state, self.context.trace
        if run is None or trace is None:
            return NO_TARGET
        whole = [step.index for step in trace.steps if trace.complete(step.index)]
        try:
            found = run.landing(whole[-1], self.context.sampling) if whole else None
        except DecoderError:  # nothing can be sampled from it
            return NO_TARGET
        return NO_TARGET if found is None else found.token_id

    def _kept(self, ids: tuple[int, ...], target: int) -> int:
        """How many columns of the table still stand: those whose next token is the same."""
        if self.table is None or self._of is not self.context.run_state:
            return 0
        known = min(len(self._ids), self.table.last)
        same = next(
            (at for at, pair in enumerate(zip(self._ids, ids, strict=False)) if pair[0] != pair[1]),
            min(known, len(ids)),
        )
        if same == known == len(ids):
            last = self.table.target_ids[-1] if self.table.positions else NO_TARGET
            return len(ids) if last == target else len(ids) - 1
        # The last column that agrees has another token after it.
        return max(0, same - 1)
