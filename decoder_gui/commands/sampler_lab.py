"""The sampling laboratory: stages on and off, a second setting, many draws, continuations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands
from decoder_gui.debugger.choosing import draw_many
from decoder_gui.debugger.cursor import last
from decoder_gui.debugger.laboratory.continuations import (
    Continuation,
    Finished,
    Grown,
    Plan,
    Timing,
    continue_in_batch,
)
from decoder_gui.debugger.laboratory.sampling_code import is_on
from decoder_gui.debugger.laboratory.sampling_paste import read_settings
from decoder_gui.debugger.session import DEFAULT_SEED
from decoder_gui.viewdata.vocabulary_csv import csv_lines
from decoder_gui.worker import Ended
from model.checkpoints.estimate import available_memory
from model.errors import DecoderError, InvalidSampling, sentence
from model.faults import sampling_under
from model.sampling import STAGES, SamplingConfig, find_order, own_order
from model.sampling_statistics import DrawStatistics, draw_statistics
from model.tokenizers import end_ids

if TYPE_CHECKING:
    from decoder_gui.context import AppContext

DRAWS = 1000
DRAWN_EVERY = 0.1  # s between two drawings of what grows
ON = {"repetition_penalty": 1.1, "temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.05}
OFF = {"repetition_penalty": 1.0, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
SECOND = SamplingConfig(0.8, 0.95, 40, None, "llama.cpp", 0.05)  # what llama.cpp does by default
CONTINUE, EXPORT = "continuations", "export"

# What a result belongs to: the tokens so far, the settings really followed.
_Key = tuple[tuple[int, ...], SamplingConfig]


@dataclass(frozen=True, eq=False)
class ManyDraws:
    """Draws made to compare, and what they belong to."""

    key: _Key
    found: DrawStatistics


@dataclass(frozen=True)
class Continuations:
    """The continuations in hand; they grow while ``running``."""

    key: _Key
    step: int
    length: int
    rows: tuple[Continuation, ...] = ()
    timing: Timing | None = None
    running: bool = True

    @property
    def prefix(self) -> tuple[int, ...]:
        """The text that they continue."""
        return self.key[0]


class SamplerLab(Commands):
    """What can be done in the sampling laboratory.

    Attributes:
        other: settings B, beside the session's own, which are A.
        draws: many draws from the distribution in hand, or None.
        continuations: of the present point or an earlier one, or None.
        count, length: of the next continuations.
        refusal: why the last command was not carried out, a sentence; empty if it was.
        unread: why the settings that were pasted last could not be read, a sentence.
        remarks: what was left aside or assumed when settings were pasted.
    """

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self.other = SECOND
        self.draws: ManyDraws | None = None
        self.continuations: Continuations | None = None
        self.count, self.length = 8, 24
        self.refusal = self.unread = ""
        self.remarks: tuple[str, ...] = ()
        self._values: dict[str, float] = dict(ON)  # what a stage gets when it is switched on
        # Neither the session's generator nor the Next token panel's: draws of its own.
        self._generator = np.random.default_rng((DEFAULT_SEED, 2))
        self._rounds = 0
        self._told = 0.0

    def reset(self, change: Change) -> None:
        key = self._key()
        if self.draws is not None and self.draws.key != key:
            self.draws = None
        if self.continuations is not None and not self._still_there(self.continuations):
            self.continuations = None

    def facts(self) -> tuple[object, ...]:
        """All that the distribution in hand and its draw depend on, cheap to compare."""
        context, moment = self.context, self.context.moment
        if moment is None or moment.step is None:
            return (context.model,)
        logits = moment.trace.logits(moment.step.index)
        return (
            context.model,
            self._key(),
            context.sampling,
            context.faults,
            None if logits is None else logits.ctypes.data,
            moment.step.index,
            moment.step.uniform,
            moment.sampling_refusal,
        )

    # ---- the pipeline

    def set_stage(self, stage: str, value: float) -> None:
        """Set what a stage does."""
        self._set(**{stage: int(value) if stage == "top_k" else value})

    def toggle(self, stage: str) -> None:
        """Switch a stage off, or on again with the value that it had."""
        config = self.context.sampling
        if is_on(config, stage):
            self._values[stage] = getattr(config, stage)
            self.set_stage(stage, OFF[stage])
        else:
            self.set_stage(stage, self._values[stage])

    def set_order(self, order: str) -> None:
        """One of the orders with a name, or one of one's own."""
        self._set(order=order)

    def move(self, stage: str, by: int) -> None:
        """Put a stage earlier (negative) or later; the order becomes one of one's own."""
        names = list(find_order(self.context.sampling.order).names)
        self.place(stage, names.index(stage) + by)

    def place(self, stage: str, at: int) -> None:
        """Put a stage at a place among the others, from 0."""
        names = list(find_order(self.context.sampling.order).names)
        before = list(names)
        names.remove(stage)
        names.insert(max(0, min(at, len(names))), stage)
        if names != before:
            self._set(order=own_order(names))

    def _set(self, **changes: Any) -> bool:
        try:
            self.context.set_sampling(**changes)
        except InvalidSampling as refusal:
            self._refuse(sentence(refusal))
            return False
        return True

    # ---- two settings

    def set_other(self, **changes: Any) -> None:
        """Change settings B.

        Raises:
            InvalidSampling: out of range; they stay as they were.
        """
        self.other = replace(self.other, **changes)
        self.tell(Change.LAB)

    def swap(self) -> None:
        """A becomes B and B becomes A; the seed is the session's and stays."""
        mine, other = self.context.sampling, self.other
        self.other = replace(mine, seed=None)
        self._take_on(other)
        self.tell(Change.LAB)

    def copy_to_other(self) -> None:
        """B becomes what A is."""
        self.other = replace(self.context.sampling, seed=None)
        self.tell(Change.LAB)

    def copy_from_other(self) -> None:
        """A becomes what B is."""
        self._take_on(self.other)

    def _take_on(self, config: SamplingConfig) -> None:
        self._set(**{name: getattr(config, name) for name in (*STAGES, "order")})

    # ---- settings as text

    def paste(self, text: str) -> bool:
        """Take on settings from JSON; returns whether they could be read."""
        try:
            pasted = read_settings(text)
        except InvalidSampling as refusal:
            self.remarks, self.unread = (), sentence(refusal)
            self.context.notice.emit(self.unread)
            self.tell(Change.LAB)
            return False
        self.unread, self.remarks = "", pasted.remarks
        self._take_on(pasted.config)
        if pasted.config.seed is not None:
            self._set(seed=pasted.config.seed)
        self.tell(Change.LAB)
        return True

    def export(self, path: Path) -> None:
        """Write the distribution in hand, every token of it, as CSV."""
        moment = self.context.moment
        if moment is None or moment.distribution is None:
            self._refuse("There is no distribution to write down.")
            return
        shown, tokenizer = moment.distribution, moment.model.tokenizer

        def job() -> Iterator[object]:
            with path.open("w", encoding="utf-8", newline="") as file:
                for lines in csv_lines(shown, tokenizer):
                    file.write(lines)
                    yield None

        def ended(end: Ended) -> None:
            whole = not (end.cancelled or end.crash or end.refusal)
            rows = f"{shown.ranking.vocabulary:,} tokens"
            self.context.notice.emit(
                f"{rows} written to {path.name}." if whole else f"{path.name} is not complete."
            )

        try:
            path.open("a", encoding="utf-8").close()
        except OSError as error:
            self._refuse(f"{path.name} cannot be written: {error.strerror or error}.")
            return
        self.submit("Writing the table", job, heard=lambda _: None, ended=ended, tag=EXPORT)

    # ---- many draws

    def draw(self, count: int = DRAWS) -> None:
        """Draw many times from the distribution in hand; nothing is taken, and the session's
        generator is not touched."""
        moment, key = self.context.moment, self._key()
        if moment is None or moment.distribution is None or key is None:
            self._refuse("There is no distribution to draw from.")
            return
        counts = draw_many(moment.distribution, count, self._generator)
        self.draws = ManyDraws(key, draw_statistics(moment.distribution, counts))
        self.tell(Change.LAB)

    # ---- continuations

    def set_continuations(self, count: int, length: int) -> None:
        """How many, and how many tokens each."""
        self.count, self.length = count, length

    def go_on(self) -> None:
        """Grow continuations from the present point, all in one batch, in the worker."""
        moment, key = self.context.moment, self._key()
        if moment is None or moment.step is None or moment.distribution is None or key is None:
            self._refuse("There is no distribution to continue from.")
            return
        logits = moment.trace.logits(moment.step.index)
        assert logits is not None  # the distribution was made of them
        seed = (self.context.sampling.seed or 0) + (self._rounds << 64)
        self._rounds += 1
        try:
            ends = end_ids(moment.model.tokenizer)
            plan = Plan(key[0], logits, key[1], self.count, self.length, seed, ends)
        except InvalidSampling as refusal:
            self._refuse(sentence(refusal))
            return
        room = self.context.room
        self.continuations = Continuations(key, moment.step.index, self.length)
        self.refusal = ""

        def job() -> Iterator[object]:
            session = room.session
            yield from continue_in_batch(session.engine, session.cache, plan, available_memory())

        self.submit(
            f"{self.count} continuations",
            job,
            heard=self._on_grown,
            ended=self._on_grown_up,
            tag=CONTINUE,
        )
        self.tell(Change.LAB)

    def stop(self) -> None:
        """Stop growing; what is there stays."""
        self.cancel(CONTINUE)

    def _on_grown(self, item: object) -> None:
        held = self.continuations
        if held is None:
            return
        if isinstance(item, Grown):
            self.continuations = replace(held, rows=item.rows, length=item.length)
            if held.rows and monotonic() - self._told < DRAWN_EVERY:
                return  # drawing every token would slow down what is being timed
            self._told = monotonic()
        elif isinstance(item, Finished):
            self.continuations = replace(held, rows=item.rows, timing=item.timing)
        self.tell(Change.LAB)

    def _on_grown_up(self, end: Ended) -> None:
        if self.continuations is not None:
            self.continuations = replace(self.continuations, running=False)
        if end.refusal is not None:
            self.refusal = sentence(end.refusal)
            if self.continuations is not None and not self.continuations.rows:
                self.continuations = None
        self.tell(Change.LAB)

    def adopt(self, row: int) -> None:
        """Go on with one of the continuations: its tokens are taken after the step it began at.

        Where steps follow already, that is a branch of its own, and they stay in theirs.
        """
        held = self.continuations
        if held is None or held.running or not 0 <= row < len(held.rows):
            return
        tokens, step = held.rows[row].token_ids, held.step
        room, reason = self.context.room, f"continuation {row + 1} after step {step}"
        self.context.choices.expect(step)
        self.context.run_on_session(
            f"Taking the {len(tokens)} tokens of {reason}",
            lambda: room.adopt(step, tokens, reason),
            lambda: None if self.context.trace is None else last(self.context.trace),
        )

    # ---- inside

    def _refuse(self, words: str) -> None:
        self.refusal = words
        self.context.notice.emit(words)
        self.tell(Change.LAB)

    def _key(self) -> _Key | None:
        """The tokens up to the step in hand and the settings that are really followed."""
        trace, cursor = self.context.trace, self.context.cursor
        if trace is None or cursor is None or cursor.step >= len(trace.steps):
            return None
        try:
            followed = sampling_under(self.context.sampling, self.context.faults)
        except DecoderError:
            return None
        return trace.token_ids[: trace.steps[cursor.step].last], followed

    def _still_there(self, held: Continuations) -> bool:
        """Whether the text that they continue is still the beginning of the one in hand."""
        trace = self.context.trace
        return trace is not None and trace.token_ids[: len(held.prefix)] == held.prefix
