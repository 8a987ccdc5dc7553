"""A run of one model: weights, cache and random generator, owned by whoever drives it.

In the window that is the worker's thread, on the command line the main one. The session only ever
runs forward; rewinding sets the cache's length and brings the generator's state back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decoder_gui.debugger.freed_memory import keep_freed_memory
from decoder_gui.debugger.keeping import Keeping, recomputed, replayed
from decoder_gui.debugger.lines import Continuation, Entry, Line, Lines, Pass
from model.ablation import Edit
from model.checkpoints import LoadedModel
from model.costs import DecodeStats
from model.engine import Array, Cache, Engine
from model.errors import CacheExhausted, ContextOverflow, EmptyPrompt, ShapeMismatch
from model.faults import apply_faults
from model.trace import Checkpoint, Event, Phase, Step
from model.trace_memory import TraceMemory

DEFAULT_SEED = 41
TRACE_BUDGET = 240 * 2**20
"""Bytes of recorded arrays. With those of a pass in the making, of the pictures made of them and of
the program itself, a session of 1,024 tokens of GPT-2 small stays within 512 MB."""
PROMPT_LOGITS_BUDGET = 64 * 2**20
"""Bytes of logits worth computing for the prompt's own tokens; they are part of the trace."""


@dataclass(frozen=True)
class StepBegan:
    """A step was started; its events follow."""

    step: Step


@dataclass(frozen=True)
class StepEnded:
    """A step is complete; the cache now holds its positions."""

    step: int


@dataclass(frozen=True)
class BlockReplayed:
    """A block that the byte budget had left out, recomputed bit for bit."""

    step: int
    layer: int
    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class BranchBegan:
    """A branch is active that shares what was run before ``position`` with its ``parent``.

    Attributes:
        branch: its number; 0 is the line that a session begins with.
        steps: those that it shares; the last one may end before the parent's does.
        edits: what its engine changes, that of the parent included.
        reason: in words, what it is for.
        continued: whether steps of its own follow; if the first is not completed, the branch is
            forgotten and the parent is active again.
        kept: per branch, bytes of keys and values copied out of the cache.
    """

    branch: int
    parent: int
    position: int
    steps: tuple[Step, ...]
    edits: tuple[Edit, ...]
    reason: str
    continued: bool
    kept: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class BranchEntered:
    """Another branch is active; steps that it has yet to run again follow.

    Attributes:
        branch: which.
        steps: those that are there.
        source: the branch that has run some of them since; None where nobody had to.
    """

    branch: int
    steps: tuple[Step, ...]
    source: int | None


Update = StepBegan | Event | StepEnded | BlockReplayed | BranchBegan


def peek(state: Any) -> tuple[float, Any]:
    """The next uniform number of a generator state, and the state after it; changes neither."""
    generator = np.random.PCG64()
    generator.state = state
    return float(np.random.Generator(generator).random()), generator.state


class Session:
    """One cache, one generator, and the branches of one prompt.

    Args:
        loaded: the model.
        capacity: positions of the cache; the model's context where None.
        seed: of the session's generator; every run of the same prompt, settings and seed is equal.
        faults: names of deliberate faults that are on.
        budget: bytes of recorded arrays, replayed ones included. Beyond it the insides of blocks
            give way and can be replayed; see :mod:`decoder_gui.debugger.keeping` for what stays.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        capacity: int | None = None,
        seed: int | None = None,
        faults: frozenset[str] = frozenset(),
        budget: int = TRACE_BUDGET,
    ) -> None:
        keep_freed_memory()
        self.loaded = loaded
        self._unedited: Engine = apply_faults(loaded.engine, faults)
        self.engine = self._unedited
        self.cache: Cache = self.engine.new_cache(capacity)
        self.lines = Lines(self.cache)
        self.seed = DEFAULT_SEED if seed is None else seed
        self.faults = faults
        self.stats = DecodeStats()
        self._keeping = Keeping(self.engine, budget)
        self._state: Mapping[str, Any] = np.random.PCG64(self.seed).state

    @property
    def memory(self) -> TraceMemory:
        """What the trace holds, within the budget."""
        return self._keeping.memory

    @property
    def steps(self) -> tuple[Step, ...]:
        """Those of the active branch."""
        return self.lines.active.steps

    @property
    def edits(self) -> tuple[Edit, ...]:
        """What the engine of the active branch changes."""
        return self.lines.active.edits

    def prefill(self, token_ids: Sequence[int]) -> Iterator[Update]:
        """Start over with a prompt, without branches: one parallel pass over all of its tokens.

        Raises:
            EmptyPrompt: there are none.
            ContextOverflow: they do not fit; nothing is dropped silently.
        """
        if not token_ids:
            raise EmptyPrompt
        if len(token_ids) > self.cache.capacity:
            raise ContextOverflow(
                len(token_ids),
                self.cache.capacity,
                "choose a larger context, shorten the prompt, or cut its front explicitly",
            )
        self.lines.start_over()
        self._enter_engine()
        self._state = np.random.PCG64(self.seed).state
        yield from self._run(Phase.PREFILL, token_ids)

    def decode(self, token_id: int, *, drawn: bool) -> Iterator[Update]:
        """Process one chosen token at the next position.

        ``drawn`` says whether the step before used up its uniform number: it did unless the token
        was chosen greedily, where nothing is drawn.

        Raises:
            CacheExhausted: there is no position left; everything so far stays.
        """
        if self.cache.length >= self.cache.capacity:
            raise CacheExhausted(self.cache.length, self.cache.capacity)
        # From the newest complete step, not from where an abandoned one left the generator.
        self.lines.active.planned.clear()
        state = self._newest_state()
        self._state = peek(state)[1] if drawn else state
        yield from self._run(Phase.DECODE, (token_id,))

    def take_over(self, other: Session, steps: Sequence[Step]) -> None:
        """Plan the branches of another session, and these steps as those of the active one.

        The tokens are the same and so are the numbers held, whatever seed, settings and redraws
        they came from. :meth:`run_planned` runs the active one, entering another runs that.
        """
        self.lines.take_over(other.lines)
        line = self.lines.active
        planned = line.planned
        line.planned = []
        for index, step in enumerate(steps):
            known = index < len(planned) and planned[index].step.token_ids == step.token_ids
            line.planned.append(Entry(step, planned[index].made_by if known else Pass(step.last)))
            if not known:
                planned = planned[:index]
        self._enter_engine()

    def restore(self, lines: Iterable[Line], active: int) -> None:
        """Plan the lines of a file; :meth:`run_planned` runs the active one."""
        self.lines.restore(lines, active)
        self._enter_engine()

    def require_edits(self, edits: Sequence[Edit]) -> None:
        """Refuse edits that this engine cannot make.

        Raises:
            EditNotPossible: a sentence on why.
        """
        self._edited(edits)

    def rewind(self, steps: int) -> None:
        """Keep the first ``steps`` steps: set the cache's length and the generator's state back."""
        if steps >= len(self.steps):
            return
        self.lines.rewind(steps)
        self._state = self._newest_state()
        self._recount()

    def redraw(self) -> Step:
        """Use up the newest step's uniform number and hold another; returns the step with it."""
        self._state = peek(self._newest_state())[1]
        step = self.steps[-1]
        held = replace(
            step,
            checkpoint=Checkpoint(step.checkpoint.cache_length, self._state),
            uniform=peek(self._state)[0],
        )
        self.lines.active.done[-1] = Entry(held, self.lines.active.done[-1].made_by)
        return held

    # ---- branches

    def fork(
        self,
        position: int,
        continuation: Sequence[Continuation] = (),
        *,
        edits: Sequence[Edit] | None = None,
        reason: str = "",
    ) -> Iterator[Update]:
        """Begin a branch that shares everything before a position, and run its own steps.

        Nothing before the position is computed again: a step that contains it is shared up to
        there. If the first step of its own is not completed, the branch is forgotten again.

        Args:
            position: the first one that is the branch's own.
            continuation: the steps that it runs; without any it ends there.
            edits: what its engine changes; as in the active branch, if not given.
            reason: in words, what it is for.

        Raises:
            EditNotPossible, CacheExhausted: nothing has been begun.
        """
        parent = self.lines.active
        parent.planned.clear()
        changes = parent.edits if edits is None else tuple(edits)
        engine = self._edited(changes)
        wanted = position + sum(len(part.token_ids) for part in continuation)
        if wanted > self.cache.capacity:
            raise CacheExhausted(wanted - 1, self.cache.capacity)
        if position > self.cache.length:
            raise ShapeMismatch(f"there are {self.cache.length} positions, and none at {position}")
        line = self.lines.fork(position, changes)
        self.engine = engine
        self._state = self._newest_state()
        self._recount()
        self._plan(line, continuation)
        shared = len(line.done)
        yield BranchBegan(
            line.id,
            parent.id,
            position,
            line.steps,
            changes,
            reason,
            bool(continuation),
            self.lines.kept_bytes,
        )
        try:
            yield from self.run_planned()
        finally:
            if len(line.done) == shared and continuation:
                self.lines.abandon(line, parent.id)
                self._enter_engine()

    def enter(self, branch: int) -> BranchEntered:
        """Enter another branch: its keys and values are copied back, and nothing is computed.

        Steps of it that were run before the faults or the context changed, or before it was
        deleted, and that no other branch has run since, are left to :meth:`run_planned`.
        """
        line = self.lines[branch]
        source = self.lines.adopt(line)
        self.lines.enter(line)
        self._enter_engine()
        return BranchEntered(line.id, line.steps, source)

    def run_planned(self) -> Iterator[Update]:
        """Run what the active branch has yet to run, as far as the capacity goes.

        Once that is cancelled or refused, nothing is planned any more: what was run stays.
        """
        line = self.lines.active
        try:
            while line.planned:
                step, made_by = line.planned[0].step, line.planned[0].made_by
                if step.last > self.cache.capacity:
                    return
                self._state = step.checkpoint.generator_state
                whole = made_by.last == step.last and not made_by.ran
                yield from self._run(step.phase, step.token_ids, made_by if whole else None)
        finally:
            line.planned.clear()

    def _plan(self, line: Line, continuation: Sequence[Continuation]) -> None:
        index, first = len(line.done), line.positions
        for part in continuation:
            checkpoint = part.checkpoint or Checkpoint(first, self._state)
            step = Step(
                index,
                part.phase,
                first,
                part.token_ids,
                Checkpoint(first, checkpoint.generator_state),
                peek(checkpoint.generator_state)[0],
            )
            line.planned.append(Entry(step, Pass(step.last)))
            index, first = index + 1, step.last

    def _edited(self, edits: Sequence[Edit]) -> Engine:
        if not edits:
            return self._unedited
        return self._unedited.with_edits((*self._unedited.edits, *edits))

    def _enter_engine(self) -> None:
        """The engine, the generator and the counts of the line that is active now."""
        self.engine = self._edited(self.edits)
        self._state = self._newest_state()
        self._recount()

    def _newest_state(self) -> Mapping[str, Any]:
        done = self.lines.active.done
        return done[-1].step.checkpoint.generator_state if done else self._state

    def _recount(self) -> None:
        self.stats = DecodeStats()
        for step in self.steps:
            self._count(step)

    def replay(
        self, step: Step, layer: int, resid_pre: Array, resid_mid: Array | None = None
    ) -> Iterator[Update]:
        """Recompute one block of a step from the residual stream at its input.

        It comes in halves: attention first, or the MLP first where the stream before it is given
        and the engine can. Nothing comes of a step that is not in the active branch any more.
        """
        if not self._holds(step):
            return
        self._keeping.make_room(self.lines.active.done[step.index].made_by.block_bytes)
        halves = replayed(
            self.memory, self.engine, self.cache, layer, step.first, resid_pre, resid_mid
        )
        for arrays in halves:
            yield BlockReplayed(step.index, layer, arrays)
        self._keeping.tidy()

    def recompute(self, step: Step, layer: int, resid_pre: Array, name: str) -> Array | None:
        """One array of a block of a step, which the trace is not to hold; None as above."""
        if not self._holds(step):
            return None
        self._keeping.make_room(self.lines.active.done[step.index].made_by.block_bytes)
        return recomputed(self.engine, self.cache, layer, step.first, resid_pre, name)

    def _holds(self, step: Step) -> bool:
        return any(step is mine for mine in self.steps[step.index : step.index + 1])

    def _run(
        self, phase: Phase, token_ids: Sequence[int], made_by: Pass | None = None
    ) -> Iterator[Update]:
        line = self.lines.active
        step = Step(
            index=len(line.done),
            phase=phase,
            first=self.cache.length,
            token_ids=tuple(token_ids),
            checkpoint=Checkpoint(self.cache.length, self._state),
            uniform=peek(self._state)[0],
        )
        yield StepBegan(step)
        ids = np.asarray([step.token_ids], dtype=np.int64)
        keeper = self._keeping.keeper(len(token_ids), self.lines.spent)
        for activations in self.engine.walk(
            ids, self.cache, keep=True, all_logits=self._wants_all_logits(len(token_ids))
        ):
            yield Event(step.index, activations.operation, keeper(activations))
        # The sampler's place in the list: the choice itself is a function of the logits, the
        # settings and the held number, so that a slider can move it without running anything.
        yield Event(step.index, len(self.engine.operations) - 1, {})
        made = Pass(step.last) if made_by is None else made_by
        made.ran, made.nbytes, made.block_bytes = True, keeper.fixed, keeper.block_bytes
        line.done.append(Entry(step, made))
        del line.planned[:1]  # it was this step, if there was any
        self._count(step)
        self._keeping.tidy()
        yield StepEnded(step.index)

    def _count(self, step: Step) -> None:
        if step.phase is Phase.PREFILL:
            self.stats.record_prefill(len(step.token_ids))
        else:
            self.stats.record_decode()

    def _wants_all_logits(self, positions: int) -> bool:
        size = positions * self.engine.shape.vocabulary * self.engine.dtype.itemsize
        return size <= PROMPT_LOGITS_BUDGET
