"""The one owner of the window's state, and the only place that talks to the worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject

from decoder_gui.ahead import Ahead
from decoder_gui.change import Change
from decoder_gui.check_schedule import CheckSchedule
from decoder_gui.commands.base import Commands, Listener, Told
from decoder_gui.commands.branch_tree import WHOLE_TREE
from decoder_gui.commands.branches import Branches
from decoder_gui.commands.cache_lab import CacheLab
from decoder_gui.commands.captures import Captures
from decoder_gui.commands.choices import Choices
from decoder_gui.commands.comparison import Comparisons
from decoder_gui.commands.learning import Learning
from decoder_gui.commands.lens import Lens
from decoder_gui.commands.sampler_lab import SamplerLab
from decoder_gui.commands.sessions import Sessions
from decoder_gui.commands.stops import Stops
from decoder_gui.commands.trail import Trail
from decoder_gui.commands.watches import Watches
from decoder_gui.context_runs import ContextRuns
from decoder_gui.debugger.cursor import Cursor, clamped, last
from decoder_gui.debugger.engine_room import (
    Checked,
    EngineRoom,
    Opened,
    Rearranged,
    Redrawn,
    Restarted,
)
from decoder_gui.debugger.keeping import stream_in_hand
from decoder_gui.debugger.library import Preparing
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.saving.restoring import Restored
from decoder_gui.debugger.session import BlockReplayed, BranchBegan, StepBegan, StepEnded
from decoder_gui.engine_link import EngineLink
from decoder_gui.theme.style import Style
from decoder_gui.viewdata import display_check  # noqa: F401  it registers a check
from decoder_gui.viewdata.moment import ModelInfo, Selection
from decoder_gui.worker import Ended, Progressed, Report
from model.captured_engine import CapturedEngine
from model.captured_run import Capture
from model.checkpoints.captures import sampling_of
from model.errors import sentence
from model.trace import Event

CHECKS_UP_TO = 400_000_000  # parameters x positions that are checked without being asked
CANCELLED = "Cancelled. Everything up to the last complete step is kept."
NOT_OPENED = "Cancelled. The model in hand stays."
RUN, CHECKS, REPLAY = "run", "checks", "replay"


class AppContext(ContextRuns):
    """What can be done to the window's state.

    Everything lives in the GUI thread; arrays arrive from the worker read-only. No command blocks:
    what it causes is told through ``changed``, once for everything that happened together.
    """

    def __init__(self, style: Style | None = None, parent: QObject | None = None) -> None:
        super().__init__(style, parent)
        self._link = EngineLink(self._on_report, self._on_batch, self)
        self._heard = Change(0)
        self._arrival: Callable[[], Cursor | None] | None = None
        self._listening: dict[int, Listener] = {}  # by number of the job
        self._runs = 0  # jobs on the session that have not ended
        self._checking = CheckSchedule(self)
        self._checking.due.connect(self._begin_checks)
        self._checking.verdicts.connect(self._show_verdicts)
        self.stops = Stops(self)
        self.watches = Watches(self)
        self.trail = Trail(self)
        self.lens = Lens(self)
        self.learning = Learning(self)
        self.cache_lab = CacheLab(self)
        self.sampler_lab = SamplerLab(self)
        self.choices = Choices(self)
        self.branches = Branches(self)
        self.comparison = Comparisons(self)
        self.captures = Captures(self)
        self.sessions = Sessions(self)
        self._groups: tuple[Commands, ...] = (
            self.choices,
            self.branches,
            self.comparison,
            self.stops,
            self.watches,
            self.trail,
            self.lens,
            self.learning,
            self.cache_lab,
            self.sampler_lab,
            self.captures,
            self.sessions,
        )

    @property
    def checks_pending(self) -> bool:
        """Whether verdicts on the tokens in hand are still to come."""
        return self._checking.pending

    @property
    def idle(self) -> bool:
        """Whether the worker has nothing to do and nothing more to tell."""
        return self._link.idle

    @property
    def room(self) -> EngineRoom:
        """What the worker owns: only jobs that run there may ask it for anything."""
        return self._link.room

    def submit(
        self, tag: str, text: str, job: Callable[[], Iterator[object]], listener: Listener
    ) -> None:
        """Run a job beside the session; what it yields goes to its listener.

        A newer job of the same tag replaces it, and any job on the session interrupts it.
        """
        self._listening[self._link.submit(tag, text, job, replace=True)] = listener

    def cancel_jobs(self, tag: str) -> None:
        """Stop the jobs of one tag between two of their items."""
        self._link.cancel(tag)

    @property
    def running(self) -> bool:
        """Whether a job on the session has not ended."""
        return self._runs > 0

    def run_on_session(
        self,
        text: str,
        job: Callable[[], Iterator[object]],
        arrival: Callable[[], Cursor | None] | None = None,
    ) -> None:
        """Run a job of the room that changes the session; then the cursor goes to ``arrival()``."""
        if arrival is not None:
            self._arrive(arrival)
        self._submit(RUN, text, job)

    def tell(self, change: Change) -> None:
        """Say that something is different; for groups of commands."""
        self._tell(change)

    def tell_what_was_heard(self) -> None:
        """Say now what the worker has told, not after the rest of it has been heard."""
        self._on_batch()

    # ---- commands

    def cancel(self) -> None:
        """Stop what the worker is doing at the next event."""
        self._player.stop()
        self._checking.stop()
        self._link.cancel()

    # ---- selection and sampling

    def set_sampling(self, **changes: Any) -> None:
        """Change sampling settings; the held draw stays and nothing is run.

        Raises:
            InvalidSampling: out of range; the settings stay as they were.
        """
        sampling = replace(self.sampling, **changes)
        if sampling != self.sampling:
            self.sampling = sampling
            self._tell(Change.SAMPLING)

    def take(self, token_id: int) -> None:
        """Take a token by hand after the step in hand; later steps stay, in their branch."""
        self.choices.take(token_id)

    def take_landing(self) -> None:
        """Take the token on which the held draw falls."""
        moment = self.moment
        if moment is not None and moment.landing is not None:
            self.take(moment.landing.token_id)

    def resample(self) -> None:
        """Hold another uniform number at the step in hand; later steps stay, in their branch."""
        self.choices.resample()

    def draws(self, count: int) -> NDArray[np.int64]:
        """How often each token comes up in ``count`` draws; (vocab,).

        They come from a generator of their own: the session's is not touched.
        """
        return self.choices.draws(count)

    def replay(self, step: int, layer: int) -> None:
        """Ask for a block that the byte budget left out, beginning with the half in hand."""
        trace = self.trace
        resid_pre = None if trace is None else trace.array(step, f"blocks.{layer}.resid_pre")
        if trace is None or resid_pre is None or self.recorded:
            return
        room, which = self._link.room, trace.steps[step]
        resid_mid = stream_in_hand(trace, self.cursor, step, layer)
        self._submit(
            f"{REPLAY} {step} {layer}",
            f"Recomputing block {layer}",
            lambda: room.replay(which, layer, resid_pre, resid_mid),
        )

    def run_checks(self) -> None:
        """Every check on the tokens in hand, in the worker."""
        self._begin_checks()
        self._tell(Change.CHECKS)

    def _begin_checks(self) -> None:
        if self.trace is None or not self.trace.steps:
            return
        room, sampling = self._link.room, self.sampling
        ids = self.trace.token_ids
        split = self.trace.prompt
        self._checking.begun()
        self._submit(CHECKS, "Checking", lambda: room.check(ids[:split], ids[split:], sampling))

    def _show_verdicts(self) -> None:
        self._tell(Change.CHECKS)

    def close(self) -> None:
        """Stop the timers and the worker; nothing runs afterwards."""
        self._player.stop()
        self._checking.stop()
        self._link.close()

    # ---- inside

    def _arrive(self, where: Callable[[], Cursor | None]) -> None:
        """Where the cursor goes once the job that is about to be submitted has ended."""
        self._arrival = where

    def _submit(self, tag: str, text: str, job: Callable[[], Iterator[object]]) -> None:
        if tag == RUN:
            self._runs += 1
            self._ahead = replace(self._ahead, again=None)
            self._checking.stop()
            self._link.cancel(CHECKS)
            for listener in self._listening.values():
                self._link.cancel(listener.tag)
        self._link.submit(tag, text, job, replace=tag != RUN)

    def _go_on(self) -> None:
        self.choices.go_on()

    def _passes_by(self, step: int) -> bool:
        return self.choices.passes_by(step)

    def _leave(self, step: int) -> None:
        self.choices.leave(step)

    # ---- what the worker says

    def _on_report(self, report: Report) -> None:
        listener = self._listening.get(report.number)
        if listener is not None and self._heard & Change.MODEL:
            # What it says may be of the model before: groups drop that first.
            self.tell_what_was_heard()
        match report:
            case Progressed(_, _, update) if listener is not None:
                listener.heard(update)
            case Ended() if listener is not None:
                del self._listening[report.number]
                listener.ended(report)
                self._heard |= Change.BUSY
                self._complain(report)
            case Progressed(_, _, update):
                self._heard |= self._take_in(update)
            case Ended():
                self._heard |= self._on_ended(report)

    def _tell(self, change: Change) -> None:
        if change & Change.GROWTH:
            change = change & ~Change.GROWTH if change & Change.TRACE else change | Change.TRACE
        for group in self._groups:
            group.reset(change)
        super()._tell(change)

    def _on_batch(self) -> None:
        change, self._heard = self._heard | self._update_busy(), Change(0)
        if change:
            self._tell(change)

    def _update_busy(self) -> Change:
        trace = self.trace
        busy = self._link.busy(None if trace is None else trace.fraction_of_last)
        if busy == self.busy:
            return Change(0)
        self.busy = busy
        return Change.BUSY

    def _take_in(self, update: object) -> Change:
        change = Change(0)
        match update:
            case Preparing():
                pass  # the link has kept it
            case Opened():
                change = self._on_opened(update)
            case BranchBegan() | Rearranged() | Restarted() | Restored():
                self.run_state = self.branches.hear(update)
                self.cursor = clamped(self.trace, self.cursor)
                change = WHOLE_TREE
            case Redrawn(step):
                if self.run_state is not None:
                    self.run_state.trace.replace_last(step)
                self.cursor = clamped(self.trace, self.cursor)
                self.notice.emit(f"A new number was drawn: {step.uniform:.3f}.")
                change = Change.TRACE | Change.SAMPLING | Change.CURSOR
            case Checked(result):
                self.checks = (*(c for c in self.checks if c.name != result.name), result)
                self._checking.arrived()
            case Told(heard, what):
                heard(what)
            case StepBegan() | StepEnded() | Event() | BlockReplayed():
                if self.run_state is not None:
                    self.run_state.apply(update)
                    self.cursor = clamped(self.trace, self.cursor)
                change = self._growth(update)
            case _:
                raise TypeError(f"the worker sent {update!r}")
        return change

    def _growth(self, update: StepBegan | StepEnded | Event | BlockReplayed) -> Change:
        """What an update of the trace concerns: the step in hand, or only later ones.

        The beginning of the next step tells the one in hand which token was taken.
        """
        if self.cursor is None or isinstance(update, BlockReplayed):
            return Change.TRACE
        step = update.step.index - 1 if isinstance(update, StepBegan) else update.step
        return Change.GROWTH if step > self.cursor.step else Change.TRACE

    def _on_opened(self, opened: Opened) -> Change:
        engine = opened.loaded.engine
        self.spec = opened.spec or self.spec
        changed = self.model is None or self.model.path != str(opened.loaded.path)
        self.model = ModelInfo.of(opened.loaded)
        if opened.carried:
            self.run_state = self.branches.emptied(opened.branch, opened.faults)
        else:
            self.run_state = Run(engine, opened.faults)
            self.branches.begin(self.run_state, opened.branch)
        self.faults = opened.faults
        self.capacity = opened.capacity
        self.checks = ()
        self.cursor = None
        if isinstance(engine, CapturedEngine):  # it was run already, on its own prompt
            self.sampling = sampling_of(engine.capture) or self.sampling
            self.prompt = opened.loaded.tokenizer.decode(engine.capture.steps[0].token_ids)
            self._arrive(partial(self._played, engine.capture))
        if changed:
            self.selection = Selection()
            self.prompt_ids = ()
        remarks = [opened.remark, *opened.loaded.warnings] if opened.spec else []
        if any(remarks):
            self.remarked.emit(" ".join(sentence(remark) for remark in remarks if remark))
        return Change.ALL

    def _played(self, capture: Capture) -> Cursor | None:
        """A capture has been played: remember what was chosen by hand, and stand at its end."""
        if self.run_state is None or self.trace is None:
            return None
        for index, step in enumerate(capture.steps):
            if step.by_hand:
                self.run_state.mark_by_hand(index)
        return last(self.trace)

    def _on_ended(self, ended: Ended) -> Change:
        change = Change.BUSY
        if ended.tag == CHECKS:
            self._checking.ended()
            change |= Change.CHECKS
        self._runs -= ended.tag == RUN
        if not self._runs:
            self._ahead = Ahead()
        if ended.tag == RUN and self.run_state is not None:
            change |= Change.TRACE  # panels at the cursor have not heard of all of it
            if ended.cancelled or ended.refusal is not None or ended.crash:
                self.run_state.drop_unfinished()
                self.cursor = clamped(self.trace, self.cursor)
                change |= Change.CURSOR
            back = self.branches.ended(ended)
            if back is not None:
                self.run_state = back
                self.cursor = clamped(self.trace, self.cursor)
                change |= WHOLE_TREE
            self.choices.mark()
            change |= self._settle()
            self._check_if_cheap()
            change |= Change.CHECKS
        if ended.cancelled and ended.tag == RUN:
            self.notice.emit(NOT_OPENED if self._link.preparing else CANCELLED)
        self._complain(ended)
        if ended.tag == RUN:
            self.branches.proceed()
        return change

    def _complain(self, ended: Ended) -> None:
        if ended.refusal is not None:
            self.notice.emit(sentence(ended.refusal))
        if ended.crash:
            self.crashed.emit(ended.crash)

    def _settle(self) -> Change:
        arrival, self._arrival = self._arrival, None
        target = None if arrival is None else arrival()
        if target is None and self.cursor is None and self.trace is not None:
            target = last(self.trace)
        if target is None or target == self.cursor:
            return Change(0)
        self.cursor = target
        return Change.CURSOR

    def _check_if_cheap(self) -> None:
        self.checks = ()
        if (
            self.model is not None
            and self.trace
            and self.model.parameters * self.trace.positions <= CHECKS_UP_TO
        ):
            self._checking.soon()

    def _on_tick(self) -> None:
        if not self._runs:
            self.stops.play_on()
