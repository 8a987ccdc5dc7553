"""Choosing tokens: past the end, by hand, at an earlier step; what the run remembers of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QTimer

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands
from decoder_gui.debugger.choosing import draw_many
from decoder_gui.debugger.cursor import Cursor, advance, last
from decoder_gui.debugger.session import DEFAULT_SEED
from model.errors import CacheExhausted, sentence
from model.sampling import SamplingConfig
from model.trace import Phase

if TYPE_CHECKING:
    from decoder_gui.context import AppContext


class Choices(Commands):
    """Takes tokens. At the end of a branch that continues it, before the end it begins another."""

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        # Not seeded like the session: the same numbers would not be independent draws.
        self._comparing = np.random.default_rng((DEFAULT_SEED, 1))
        self._by_hand: int | None = None  # the step after which the job takes a token by hand
        self._settings: tuple[int, SamplingConfig] | None = None  # from a step on

    def take(self, token_id: int) -> None:
        """Take a token after the step in hand; later steps stay, in a branch of their own.

        A token that was taken there already, in this branch or another, is gone to.
        """
        cursor, moment, trace = self.context.cursor, self.context.moment, self.context.trace
        if cursor is None or moment is None or trace is None:
            return
        after = cursor.step + 1
        if after < len(trace.steps) and trace.complete(after):
            if trace.steps[after].token_ids == (token_id,):
                self.context.seek(Cursor(after, trace.events_in(after) - 1))
                return
            if self._went_there(cursor.step, token_id):
                return
        by_hand = moment.landing is None or moment.landing.token_id != token_id
        self._decode(cursor.step, token_id, by_hand=by_hand, whole=True)

    def resample(self) -> None:
        """Hold another uniform number at the step in hand; later steps stay in their branch."""
        if self.context.cursor is None:
            return
        room, step = self.context.room, self.context.cursor.step
        reason = f"drew anew after step {step}"
        self.context.run_on_session("Drawing anew", lambda: room.redraw(step, reason))

    def draws(self, count: int) -> NDArray[np.int64]:
        """How often each token comes up in ``count`` draws from a generator apart; (vocab,)."""
        moment = self.context.moment
        if moment is None or moment.distribution is None:
            return np.zeros(0, dtype=np.int64)
        return draw_many(moment.distribution, count, self._comparing)

    # ---- stepping on

    def go_on(self) -> None:
        """Past the end: take the landing token of the newest step."""
        context, moment = self.context, self.context.moment
        if context.running:
            return
        if context.exhausted:
            context.stop_playing()
            context.notice.emit(sentence(context.exhausted))
            self.tell(Change.BUSY)
            return
        if context.trace is None or moment is None:
            return
        if moment.landing is None:
            context.stop_playing()
            context.notice.emit(sentence(moment.sampling_refusal or "there is nothing to take"))
            return
        step = len(context.trace.steps) - 1
        self._decode(step, moment.landing.token_id, by_hand=False, whole=False)

    def passes_by(self, step: int) -> bool:
        """Whether the settings of now take another token after a step than was taken there.

        Only where they have changed since: a token taken by hand stays.
        """
        run, moment = self.context.run_state, self.context.moment
        if run is None or moment is None or moment.landing is None or self.context.running:
            return False
        after = run.trace.steps[step + 1]
        settings = self.context.sampling
        return (
            run.settings.get(step, settings) != settings
            and step not in run.taken_by_hand
            and after.phase is Phase.DECODE
            and after.token_ids != (moment.landing.token_id,)
        )

    def leave(self, step: int) -> None:
        """Step on under changed settings: a branch begins, or one like it is entered."""
        moment = self.context.moment
        if moment is None or moment.landing is None:
            return
        token = moment.landing.token_id
        if not self._went_there(step, token):
            self._decode(step, token, by_hand=False, whole=False)

    # ---- what the run remembers

    def expect(self, first: int) -> None:
        """The job to come takes tokens after step ``first`` and on, under the settings of now."""
        self._settings = (first, self.context.sampling)

    def mark(self) -> None:
        """Remember how the tokens were chosen that the job has taken."""
        run, hand, settings = self.context.run_state, self._by_hand, self._settings
        self._by_hand = self._settings = None
        if run is None:
            return
        steps = len(run.trace.steps)
        if hand is not None and hand + 1 < steps:
            run.mark_by_hand(hand)
        if settings is not None:
            run.mark_settings(range(settings[0], steps - 1), settings[1])

    # ---- inside

    def _went_there(self, step: int, token_id: int) -> bool:
        """Enter a branch that took the token after the same steps, if there is one."""
        branches = self.context.branches
        other = branches.tree.likeness(step + 1, token_id)
        if other is None:
            return False
        self.context.notice.emit(f"That token was taken before, in {other.name}: this is it.")
        branches.switch(other.id, at=step + 1)
        return True

    def _decode(self, step: int, token_id: int, *, by_hand: bool, whole: bool) -> None:
        context, trace = self.context, self.context.trace
        if trace is None:
            return
        if context.recorded:
            context.notice.emit(sentence(context.exhausted))
            return
        if trace.steps[step].last >= context.capacity:
            context.notice.emit(sentence(CacheExhausted(trace.steps[step].last, context.capacity)))
            self.tell(Change.BUSY)
            return
        drawn = by_hand or not context.sampling.deterministic
        text = "" if context.model is None else context.model.tokenizer.piece(token_id).text
        reason = f"{'took' if by_hand else 'sampled'} “{text}” after step {step}"
        room, here = context.room, context.cursor

        def arrival() -> Cursor | None:
            if context.trace is None:
                return None
            if whole or here is None:
                return last(context.trace)
            if context.stops.looks_ahead and step + 1 < len(context.trace.steps):
                QTimer.singleShot(0, context.stops.play_on)
                return here
            return advance(context.trace, here, context.granularity, 1)

        self._by_hand = step if by_hand else None
        self.expect(step)
        context.run_on_session(
            "Decoding one token",
            lambda: room.decode(step, token_id, drawn=drawn, reason=reason),
            arrival,
        )
