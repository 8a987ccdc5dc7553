"""What the worker's thread does: the one owner of the session, as jobs that yield updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from decoder_gui.debugger.choosing import generate
from decoder_gui.debugger.freed_memory import give_back, keep_freed_memory
from decoder_gui.debugger.library import Preparing, prepare
from decoder_gui.debugger.lines import Continuation
from decoder_gui.debugger.report import checks_of, play
from decoder_gui.debugger.saving.captured_session import CapturedSession, session_for
from decoder_gui.debugger.saving.restoring import Restored, plan
from decoder_gui.debugger.saving.session_file import SavedSession
from decoder_gui.debugger.session import DEFAULT_SEED, BranchEntered, Session, Update, peek
from model.ablation import Edit
from model.checkpoints import LoadedModel
from model.checkpoints.estimate import available_memory, require_cache
from model.checks import CheckResult, Subject, run_checks
from model.engine import Array
from model.sampling import SamplingConfig
from model.trace import Checkpoint, Phase, Step


@dataclass(frozen=True)
class Opened:
    """A model is ready; an empty run of it begins.

    Attributes:
        spec: what to open to have it again; empty where it was open already.
        remark: one sentence about the context, or empty.
        branch: the number of the branch that is active.
        carried: whether the branches of the run before stay, to be run again.
    """

    loaded: LoadedModel
    capacity: int
    faults: frozenset[str]
    spec: str = ""
    remark: str = ""
    branch: int = 0
    carried: bool = False


@dataclass(frozen=True)
class Restarted:
    """A new run begins, without branches but this one."""

    branch: int


@dataclass(frozen=True)
class Redrawn:
    """The newest step holds another uniform number."""

    step: Step


@dataclass(frozen=True)
class Rearranged:
    """Branches were brought back, freed or entered, all at once.

    Attributes:
        entered: the branch that is active now, if it was not before.
        kept: per branch, bytes of keys and values copied out of the cache.
    """

    entered: BranchEntered | None
    kept: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Checked:
    """One more check has its verdict."""

    result: CheckResult


RoomUpdate = Update | Preparing | Opened | Restarted | Restored | Redrawn | Rearranged | Checked


class EngineRoom:
    """Owns the model and the session. Every method but the constructor runs in the worker."""

    def __init__(self) -> None:
        keep_freed_memory()  # before there is a worker
        self._session: Session | None = None
        self._swept = True  # whether what the last model left behind has been given back

    @property
    def session(self) -> Session:
        if self._session is None:
            raise RuntimeError("no model has been opened yet")
        return self._session

    def open(
        self, spec: str, *, capacity: int | None, seed: int, faults: frozenset[str] = frozenset()
    ) -> Iterator[RoomUpdate]:
        """Open a model; the one in hand stays until the new one is ready."""
        ready = yield from prepare(spec, capacity)
        broken = frozenset[str]() if ready.recorded else faults  # a recording is as it is
        session = session_for(ready.loaded, capacity=ready.capacity, seed=seed, faults=broken)
        self._session, self._swept = session, False
        yield Opened(ready.loaded, session.cache.capacity, broken, spec, ready.remark)
        yield from session.run_planned()  # of a capture, all that was recorded

    def restore(
        self, spec: str, saved: SavedSession, *, matches: Callable[[LoadedModel], None]
    ) -> Iterator[RoomUpdate]:
        """Open the model of a session file and run its active branch; the others wait.

        ``matches`` may refuse the model once it is open; the one in hand stays until then.
        """
        ready = yield from prepare(spec, saved.context)
        matches(ready.loaded)
        broken = frozenset[str]() if ready.recorded else saved.faults
        seed = DEFAULT_SEED if saved.sampling.seed is None else saved.sampling.seed
        session = session_for(ready.loaded, capacity=ready.capacity, seed=seed, faults=broken)
        if not ready.recorded:
            plan(session, saved.branches, saved.active)
        self._session, self._swept = session, False
        capacity = session.cache.capacity
        yield Opened(ready.loaded, capacity, broken, spec, ready.remark, branch=saved.active)
        if not ready.recorded:
            yield Restored(saved.branches, saved.active)
        yield from session.run_planned()

    def rebuild(
        self,
        *,
        capacity: int | None,
        seed: int,
        faults: frozenset[str],
        steps: Sequence[Step],
        prompt_ids: Sequence[int] = (),
    ) -> Iterator[RoomUpdate]:
        """The same steps again in a new session: another context, or other faults.

        The branches are taken along, and run again when they are entered. A prompt, where one is
        given, is run instead of all that.
        """
        loaded = self.session.loaded
        shape = loaded.engine.shape
        wanted = shape.context_length if capacity is None else capacity
        require_cache(shape, wanted, available_memory())
        before = self.session
        session = session_for(loaded, capacity=capacity, seed=seed, faults=faults)
        self._session = session
        if prompt_ids and not isinstance(session, CapturedSession):
            yield Opened(loaded, session.cache.capacity, faults)
            yield from session.prefill(prompt_ids)
        else:
            session.take_over(before, steps)
            active = session.lines.active.id
            yield Opened(loaded, session.cache.capacity, faults, branch=active, carried=True)
            yield from session.run_planned()

    def prefill(self, token_ids: Sequence[int], seed: int) -> Iterator[RoomUpdate]:
        """A new prompt, from the seed."""
        self._sweep()
        self.session.seed = seed
        yield from self._restarted(self.session.prefill(token_ids))

    def decode(
        self, after: int, token_id: int, *, drawn: bool, reason: str = ""
    ) -> Iterator[RoomUpdate]:
        """Take a token after a step; where steps follow it, in a branch that leaves them alone."""
        session = self.session
        if after + 1 >= len(session.steps):
            yield from session.decode(token_id, drawn=drawn)
            return
        step = session.steps[after]
        state = step.checkpoint.generator_state
        checkpoint = Checkpoint(step.last, peek(state)[1] if drawn else state)
        taken = Continuation(Phase.DECODE, (token_id,), checkpoint)
        yield from session.fork(step.last, [taken], reason=reason)

    def adopt(self, after: int, token_ids: Sequence[int], reason: str) -> Iterator[RoomUpdate]:
        """Take tokens one after another after a step; where steps follow it, in a branch."""
        session = self.session
        if after + 1 >= len(session.steps):
            for token in token_ids:
                yield from session.decode(token, drawn=True)
            return
        step = session.steps[after]
        state, taken = step.checkpoint.generator_state, []
        for at, token in enumerate(token_ids):
            state = peek(state)[1]  # each step holds the next number, as if its token was drawn
            checkpoint = Checkpoint(step.last + at, state)
            taken.append(Continuation(Phase.DECODE, (token,), checkpoint))
        yield from session.fork(step.last, taken, reason=reason)

    def fork(
        self,
        position: int,
        continuation: Sequence[Continuation],
        *,
        edits: Sequence[Edit] | None = None,
        reason: str = "",
    ) -> Iterator[RoomUpdate]:
        """Begin a branch at a position; see :meth:`Session.fork`."""
        yield from self.session.fork(position, continuation, edits=edits, reason=reason)

    def rearrange(
        self,
        active: int,
        *,
        put_back: Sequence[int] = (),
        remove: Sequence[int] = (),
        known: Sequence[int] = (),
    ) -> Iterator[RoomUpdate]:
        """Bring branches back, enter one, then free others.

        Args:
            active: the branch to enter, if it is not active.
            put_back, remove: branches by number.
            known: the removed branches that may yet be brought back.
        """
        lines = self.session.lines
        for branch in put_back:
            lines.put_back(branch)
        entered = self.session.enter(active) if active != lines.active.id else None
        for branch in remove:
            lines.remove(branch)
        lines.forget(known)
        yield Rearranged(entered, lines.kept_bytes)
        yield from self.session.run_planned()

    def generate(
        self, token_ids: Sequence[int], seed: int, config: SamplingConfig, tokens: int
    ) -> Iterator[RoomUpdate]:
        """A new prompt and then tokens chosen by the sampler, ``tokens`` in all."""
        self._sweep()
        self.session.seed = seed
        yield from self._restarted(generate(self.session, token_ids, config, tokens))

    def redraw(self, after: int, reason: str = "") -> Iterator[RoomUpdate]:
        """Hold another uniform number at a step; where steps follow it, in a branch."""
        if after + 1 < len(self.session.steps):
            yield from self.session.fork(self.session.steps[after].last, reason=reason)
        yield Redrawn(self.session.redraw())

    def _restarted(self, updates: Iterator[Update]) -> Iterator[RoomUpdate]:
        """A run from the first step on, and before it the word that it has replaced the others."""
        first = next(updates, None)
        yield Restarted(self.session.lines.active.id)
        if first is not None:
            yield first
        yield from updates

    def replay(
        self, step: Step, layer: int, resid_pre: Array, resid_mid: Array | None = None
    ) -> Iterator[RoomUpdate]:
        """Recompute a block that gave way; see :meth:`Session.replay`."""
        yield from self.session.replay(step, layer, resid_pre, resid_mid)

    def recompute(self, step: Step, layer: int, resid_pre: Array, name: str) -> Array | None:
        """One array of such a block, for whoever asks alone; see :meth:`Session.recompute`."""
        return self.session.recompute(step, layer, resid_pre, name)

    def check(
        self,
        prompt_ids: Sequence[int],
        continuation_ids: Sequence[int],
        sampling: SamplingConfig,
        names: Sequence[str] | None = None,
    ) -> Iterator[RoomUpdate]:
        """Every check on the tokens in hand, one verdict at a time."""
        session = self.session
        if isinstance(session, CapturedSession):
            again = play(
                CapturedSession(session.loaded), sampling
            )  # the one in hand stays as it is
            for result in checks_of(again, names):
                yield Checked(result)
            return
        engine = session.loaded.engine
        if session.edits:
            engine = engine.with_edits((*engine.edits, *session.edits))
        subject = Subject.under(
            engine,
            prompt_ids,
            session.faults,
            continuation=tuple(continuation_ids),
            context=session.cache.capacity,
            sampling=sampling,
        )
        for result in run_checks(subject, names):
            yield Checked(result)

    def _sweep(self) -> None:
        """Once after a model was opened: the one before it has been let go by now."""
        if not self._swept:
            self._swept = True
            give_back()
