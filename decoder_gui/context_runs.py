"""What is run: a model, a prompt, a context, deliberate faults; and running all that again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from decoder_gui.ahead import Again, Ahead
from decoder_gui.context_travel import ContextTravel
from decoder_gui.debugger.cursor import Cursor, last
from decoder_gui.debugger.engine_room import EngineRoom
from decoder_gui.theme.style import Style
from model.errors import ContextOverflow, DecoderError, sentence
from model.tokenizers import encode_prompt

if TYPE_CHECKING:
    from decoder_gui.commands.branches import Branches
    from decoder_gui.commands.choices import Choices


class ContextRuns(ContextTravel):
    """Commands that begin a session or begin it anew.

    What one of them asks for before another has been done is added to it.
    """

    branches: Branches
    choices: Choices

    def __init__(self, style: Style | None = None, parent: QObject | None = None) -> None:
        super().__init__(style, parent)
        self._ahead = Ahead()

    @property
    def room(self) -> EngineRoom:
        """What the worker owns: only jobs that run there may ask it for anything."""
        raise NotImplementedError

    def run_on_session(
        self,
        text: str,
        job: Callable[[], Iterator[object]],
        arrival: Callable[[], Cursor | None] | None = None,
    ) -> None:
        """Run a job of the room that changes the session; then the cursor goes to ``arrival()``."""
        raise NotImplementedError

    # ---- models and prompts

    def open_model(self, spec: str, *, capacity: int | None = None) -> None:
        """Open a model by name or path; the one in hand stays until the new one is ready."""
        room, faults = self.room, self._faults_to_come
        seed = self._seed()
        self.run_on_session(
            f"Opening {spec}",
            lambda: room.open(spec, capacity=capacity, seed=seed, faults=faults),
        )
        self._ahead = Ahead(capacity, faults, Again())

    def prefill(self, text: str | None = None, *, tokens: int = 0) -> bool:
        """Run a prompt (the present one where None), then choose ``tokens`` tokens.

        Returns whether it could be read; a notice says why not.
        """
        if self.model is None:
            return False
        self.prompt = self.prompt if text is None else text
        try:
            ids = encode_prompt(self.model.tokenizer, self.prompt)
        except DecoderError as refusal:
            self.notice.emit(sentence(refusal))
            return False
        self.prefill_ids(ids, tokens=tokens)
        return True

    def prefill_suitable(self, sample: str) -> None:
        """Run the present prompt if the model in hand can read it and it fits; else a sample."""
        for prompt in filter(None, (self.prompt, sample)):
            if self.model is None or self.recorded:
                return
            try:
                ids = encode_prompt(self.model.tokenizer, prompt)
            except DecoderError:
                continue
            if 0 < len(ids) <= self.capacity:
                self.prompt = prompt
                self.prefill_ids(ids)
                return

    def prefill_ids(self, token_ids: list[int], *, tokens: int = 0) -> None:
        """The same for token ids; a prompt that does not fit is reported, never cut silently."""
        if len(token_ids) > self.capacity:
            self.notice.emit(sentence(ContextOverflow(len(token_ids), self.capacity)))
            self.overflowed.emit(token_ids, self.capacity)  # whoever asks back answers within it
            return
        room, seed, config = self.room, self._seed(), self.sampling
        ids = tuple(token_ids)
        self.prompt_ids = ids
        self.choices.expect(0)
        if tokens > 0:
            self.run_on_session(
                f"Prefill of {len(ids)} tokens, then {tokens} chosen",
                lambda: room.generate(ids, seed, config, tokens),
                self._end,
            )
        else:
            self.run_on_session(
                f"Prefill of {len(ids)} tokens", lambda: room.prefill(ids, seed), self._end
            )
            self._ahead = replace(self._ahead, again=Again(prompt=ids))

    def prefill_in(self, token_ids: list[int], capacity: int) -> None:
        """Run a prompt in another context."""
        self._rebuild(capacity=capacity, prompt=tuple(token_ids))

    def set_capacity(self, capacity: int) -> None:
        """Another context: the same tokens are run again in a cache of that size."""
        if self.model is None or capacity == self.capacity:
            return
        limit = self.model.shape.context_length
        if not 1 <= capacity <= limit:
            self.notice.emit(f"The context must lie in 1 to {limit} positions, not {capacity}.")
            return
        used = self.branches.tree.positions  # of the longest branch
        if used > capacity:
            self.notice.emit(f"{used} positions are in use and do not fit in {capacity}.")
            return
        self._rebuild(capacity=capacity)

    def set_fault(self, name: str, on: bool) -> None:
        """Switch a deliberate fault on or off and run the same tokens again."""
        before = self._faults_to_come
        faults = before | {name} if on else before - {name}
        if faults != before:
            self._rebuild(faults=faults)

    def clear_faults(self) -> None:
        """Switch every fault off."""
        if self._faults_to_come:
            self._rebuild(faults=frozenset())

    # ---- inside

    @property
    def _faults_to_come(self) -> frozenset[str]:
        """The faults that will be on once everything asked for has been done."""
        asked = self._ahead.faults
        return self.faults if asked is None else asked

    def _in_hand(self, prompt: tuple[int, ...]) -> Again:
        """What is on screen, as something to run again; another prompt is run instead of it."""
        if prompt or self.trace is None or self.run_state is None:
            return Again(prompt=prompt)
        return Again((), self.trace.steps, self.run_state.taken_by_hand, self.cursor)

    def _rebuild(
        self,
        *,
        capacity: int | None = None,
        faults: frozenset[str] | None = None,
        prompt: tuple[int, ...] = (),
    ) -> None:
        """The steps in hand again, or another prompt, in a new session; None leaves as it is."""
        # What an unfinished job of this kind was asked for, not the part of it that is there yet.
        pending = None if prompt else self._ahead.again
        again = self._in_hand(prompt) if pending is None else pending
        size = capacity
        if size is None:  # another model may be on its way, with a context of its own
            size = self.capacity if self._ahead.faults is None else self._ahead.capacity
        broken = self._faults_to_come if faults is None else faults
        room, seed = self.room, self._seed()
        if not again.prompt:
            self.branches.warn_of_others()

        def arrival() -> Cursor | None:
            if self.trace is None or self.run_state is None:
                return None
            for step in again.by_hand:
                self.run_state.mark_by_hand(step)
            known = again.here is not None and again.here.step < len(self.trace.steps)
            return again.here if known else last(self.trace)

        self.run_on_session(
            "Running the same tokens again",
            lambda: room.rebuild(
                capacity=size,
                seed=seed,
                faults=broken,
                steps=again.steps,
                prompt_ids=again.prompt,
            ),
            arrival,
        )
        self._ahead = Ahead(size, broken, again)

    def _end(self) -> Cursor | None:
        return None if self.trace is None else last(self.trace)
