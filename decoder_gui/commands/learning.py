"""What a text says about the model, and training its unembedding on a copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands
from decoder_gui.debugger.laboratory.evidence import Evidence, Surprise, weigh
from decoder_gui.debugger.laboratory.free_run import free_run
from decoder_gui.debugger.laboratory.lens import NoReadout, unembedder
from decoder_gui.worker import Ended
from model.engine import Array
from model.errors import DecoderError, InvalidLearningRate, sentence
from model.head_training import HeadTraining, begin, step

if TYPE_CHECKING:
    from decoder_gui.context import AppContext

LEARNING_RATE = 0.1
STEPS_AT_ONCE = 1000
EVIDENCE, FREE = "evidence", "free run"
# Whose text it is: the model, the faults that are on, and the tokens.
_Key = tuple[str, frozenset[str], tuple[int, ...]]


@dataclass(frozen=True)
class FreeRun:
    """What the model chose greedily after the first ``given`` tokens; grows while it runs."""

    given: int
    chosen: tuple[int, ...] = ()


@dataclass(frozen=True)
class Lesson:
    """A training and where its final vector comes from.

    ``proposed``: nobody chose its target; it follows the cursor until somebody trains.
    """

    step: int
    position: int
    training: HeadTraining
    proposed: bool = False


class Learning(Commands):
    """Evidence, free runs and head-only training.

    Attributes:
        evidence: what is known of the text in hand; grows while it is worked out.
        pending: whether more of it is on its way.
        free: the free run in hand, or None.
        lesson: the training in hand, or None.
        learning_rate: of the next step.
        refusal: why the last command was not carried out, in a sentence; empty if it was.
        refusals: why the last job of a tag ended early, in a sentence.
    """

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self.evidence = Evidence()
        self.pending = False
        self.free: FreeRun | None = None
        self.lesson: Lesson | None = None
        self.learning_rate = LEARNING_RATE
        self.refusal = ""
        self.refusals: dict[str, str] = {}
        self._weighed: _Key | None = None
        self._text: _Key | None = None
        self._weighing: _Key | None = None  # what the running job weighs

    def reset(self, change: Change) -> None:
        if not change & (Change.TRACE | Change.MODEL):
            return
        old, self._text = self._text, self._key()
        if old is not None and not _grown(old, self._text):
            self.free = self.lesson = self._weighed = self._weighing = None
            self.evidence = Evidence()
            self.refusal, self.refusals = "", {}

    # ---- evidence

    def want_evidence(self) -> None:
        """Work out what is not known yet of the text in hand; for a panel that is on show."""
        context, key = self.context, self._key()
        trace, model = context.trace, context.model
        if self.pending or trace is None or model is None or key is None or key == self._weighed:
            return
        if not trace.steps or not trace.complete(len(trace.steps) - 1):
            return
        known = (
            len(self._weighed[2]) if self._weighed is not None and _grown(self._weighed, key) else 1
        )
        self.evidence = self.evidence if known > 1 else Evidence()
        self.pending, self._weighing = True, key
        copied, weights = trace.copy(), model.weights

        def heard(item: object) -> None:
            if self._weighing == key:  # not of a text that has been replaced meanwhile
                self._on_weighed(item)

        def ended(end: Ended) -> None:
            self.pending = False
            whole = not (end.cancelled or end.crash or end.refusal)
            if self._weighing == key:
                self._weighed = key if whole else None
            self.tell(Change.LAB)

        self.submit(
            "Weighing the text",
            lambda: weigh(copied, weights, first=known),
            heard=heard,
            ended=ended,
            tag=EVIDENCE,
        )

    def _on_weighed(self, item: object) -> None:
        known = self.evidence
        if isinstance(item, int):
            self.evidence = replace(known, missing=(*known.missing, item))
        elif isinstance(item, tuple):
            more = tuple(each for each in item if isinstance(each, Surprise))
            self.evidence = replace(known, surprises=known.surprises + more)

    def run_free(self, given: int) -> None:
        """Let the model go on by itself after the first ``given`` tokens of the text."""
        trace = self.context.trace
        if trace is None or not 1 <= given < len(trace.token_ids):
            self._refuse("A free run needs a token of the text to begin at, and one after it.")
            return
        ids, room = trace.token_ids, self.context.room
        self.free = FreeRun(given)

        def job() -> Iterator[object]:
            return free_run(room.session.engine, ids, given)

        def heard(item: object) -> None:
            if self.free is not None and isinstance(item, int):
                self.free = replace(self.free, chosen=(*self.free.chosen, item))

        def ended(end: Ended) -> None:
            if end.refusal is not None:
                self.free = None
                self.refusals = {FREE: sentence(end.refusal)}
            self.tell(Change.LAB)

        self.refusal, self.refusals = "", {}
        self.submit("Free run", job, heard=heard, ended=ended, tag=FREE)
        self.tell(Change.LAB)

    # ---- training

    def want_lesson(self) -> None:
        """Propose a target where none was chosen: the token that came next, or the likeliest."""
        old = self.lesson
        if old is not None and not (old.proposed and old.training.steps == 0):
            return
        place = self._place()
        if place is None:
            self.lesson = None
            return
        at, position, hidden, logits = place
        ids = () if self.context.trace is None else self.context.trace.token_ids
        target = ids[position + 1] if position + 1 < len(ids) else int(np.argmax(logits))
        if old is not None and (old.position, old.training.target_id) == (position, target):
            return
        try:
            self.lesson = Lesson(at, position, begin(hidden, logits, target), proposed=True)
        except DecoderError:
            self.lesson = None

    def choose_target(self, token_id: int) -> None:
        """Begin anew, at the position in hand, with a token that should come next."""
        place = self._place()
        if place is None:
            self._refuse("Training needs the logits of the step in hand: step on to Logits.")
            return
        at, position, hidden, logits = place
        try:
            training = begin(hidden, logits, token_id)
        except DecoderError as refusal:
            self._refuse(sentence(refusal))
            return
        self.lesson = Lesson(at, position, training)
        self.refusal = ""
        self.tell(Change.LAB)

    def train(self, steps: int = 1) -> None:
        """Take steps on the copy."""
        if self.lesson is None:
            return
        training = self.lesson.training
        for _ in range(min(steps, STEPS_AT_ONCE)):
            training = step(training, self.learning_rate)
        self.lesson = replace(self.lesson, training=training)
        self.tell(Change.LAB)

    def start_again(self) -> None:
        """The same target before any step."""
        if self.lesson is not None:
            old = self.lesson.training
            fresh = begin(old.hidden, old.first_logits, old.target_id)
            self.lesson = replace(self.lesson, training=fresh)
            self.tell(Change.LAB)

    def set_learning_rate(self, rate: float) -> None:
        """Of the steps from now on.

        Raises:
            InvalidLearningRate: not a positive finite number; the old one stays.
        """
        if not (np.isfinite(rate) and rate > 0):
            raise InvalidLearningRate(rate)
        self.learning_rate = rate
        self.tell(Change.LAB)

    # ---- inside

    def _place(self) -> tuple[int, int, Array, Array] | None:
        """Step, position, final vector and logits of what is in hand."""
        moment = self.context.moment
        position = None if moment is None else moment.position
        if moment is None or moment.step is None or position is None:
            return None
        here = moment.step
        final, logits = (moment.array(here.index, name) for name in ("ln_final", "logits"))
        if final is None or logits is None:
            return None
        row = position - here.first
        if len(logits) == len(final):
            found = logits[row]
        elif row == len(final) - 1:
            found = logits[-1]
        else:
            try:
                found = unembedder(moment.model.weights)(final[row : row + 1])[0]
            except NoReadout:
                return None
        return here.index, position, final[row], found

    def _refuse(self, words: str) -> None:
        self.refusal = words
        self.context.notice.emit(words)
        self.tell(Change.LAB)

    def _key(self) -> _Key | None:
        context = self.context
        if context.model is None or context.trace is None:
            return None
        return context.model.path, context.faults, context.trace.token_ids


def _grown(old: _Key, new: _Key | None) -> bool:
    """Whether a text only goes on from another one of the same model."""
    return new is not None and old[:2] == new[:2] and new[2][: len(old[2])] == old[2]
