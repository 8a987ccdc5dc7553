"""A run of one model: weights, cache and random generator, owned by whoever drives it.

In the window that is the worker's thread, on the command line the main one. The session only ever
runs forward; rewinding sets the cache's length and brings the generator's state back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decoder_gui.debugger.freed_memory import keep_freed_memory
from model.checkpoints import LoadedModel
from model.costs import DecodeStats
from model.engine import Array, Cache, Engine
from model.errors import CacheExhausted, ContextOverflow, EmptyPrompt
from model.faults import apply_faults
from model.trace import Checkpoint, Event, Phase, Step

DEFAULT_SEED = 41
TRACE_BUDGET = 512 * 2**20  # bytes of recorded arrays, beyond which blocks are replayed on demand
PROMPT_LOGITS_BUDGET = 64 * 2**20  # bytes of logits worth computing for the prompt's own tokens


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


Update = StepBegan | Event | StepEnded | BlockReplayed


def peek(state: Any) -> tuple[float, Any]:
    """The next uniform number of a generator state, and the state after it; changes neither."""
    generator = np.random.PCG64()
    generator.state = state
    return float(np.random.Generator(generator).random()), generator.state


class Session:
    """One prompt, one cache, one generator.

    Args:
        loaded: the model.
        capacity: positions of the cache; the model's context where None.
        seed: of the session's generator; every run of the same prompt, settings and seed is equal.
        faults: names of deliberate faults that are on.
        budget: bytes of recorded arrays. Beyond it a block's inside is left out and can be
            replayed; the residual stream at each block's input, the last norm and the logits are
            always kept.
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
        self.engine: Engine = apply_faults(loaded.engine, faults)
        self.cache: Cache = self.engine.new_cache(capacity)
        self.seed = DEFAULT_SEED if seed is None else seed
        self.faults = faults
        self.stats = DecodeStats()
        self._budget = budget
        self._recorded: list[int] = []  # bytes per step
        self._steps: list[Step] = []
        self._state: Mapping[str, Any] = np.random.PCG64(self.seed).state
        self._always_kept = self._names_always_kept()

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(self._steps)

    def prefill(self, token_ids: Sequence[int]) -> Iterator[Update]:
        """Start over with a prompt: one parallel pass over all of its tokens.

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
        self.rewind(0)
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
        state = self._steps[-1].checkpoint.generator_state if self._steps else self._state
        self._state = peek(state)[1] if drawn else state
        yield from self._run(Phase.DECODE, (token_id,))

    def repeat(self, steps: Sequence[Step]) -> Iterator[Update]:
        """Start over with the steps of another session, as far as the capacity goes.

        The tokens are the same and so are the numbers held, whatever seed, settings and redraws
        they came from.
        """
        self.rewind(0)
        for step in steps:
            if self.cache.length >= self.cache.capacity:
                return
            self._state = step.checkpoint.generator_state
            yield from self._run(step.phase, step.token_ids)

    def rewind(self, steps: int) -> None:
        """Keep the first ``steps`` steps: set the cache's length and the generator's state back."""
        if steps >= len(self._steps):
            return
        dropped = self._steps[steps]
        self.cache.rewind(dropped.checkpoint.cache_length)
        del self._steps[steps:]
        del self._recorded[steps:]
        self._state = self._steps[-1].checkpoint.generator_state if self._steps else self._state
        self.stats = DecodeStats()
        for step in self._steps:
            self._count(step)

    def redraw(self) -> Step:
        """Use up the newest step's uniform number and hold another; returns the step with it."""
        uniform, _ = peek(peek(self._state)[1])
        self._state = peek(self._state)[1]
        step = self._steps[-1]
        self._steps[-1] = Step(
            step.index,
            step.phase,
            step.first,
            step.token_ids,
            Checkpoint(step.checkpoint.cache_length, self._state),
            uniform,
        )
        return self._steps[-1]

    def replay(self, step: Step, layer: int, resid_pre: Array) -> Iterator[Update]:
        """Recompute one block of a step from the residual stream at its input."""
        arrays: dict[str, Array] = {}
        for activations in self.engine.replay_block(layer, resid_pre, step.first, self.cache):
            arrays.update(activations.arrays)
        yield BlockReplayed(step.index, layer, {k: _read_only(v) for k, v in arrays.items()})

    def _run(self, phase: Phase, token_ids: Sequence[int]) -> Iterator[Update]:
        step = Step(
            index=len(self._steps),
            phase=phase,
            first=self.cache.length,
            token_ids=tuple(token_ids),
            checkpoint=Checkpoint(self.cache.length, self._state),
            uniform=peek(self._state)[0],
        )
        yield StepBegan(step)
        ids = np.asarray([step.token_ids], dtype=np.int64)
        recorded = 0
        spent = sum(self._recorded)
        for activations in self.engine.walk(
            ids, self.cache, keep=True, all_logits=self._wants_all_logits(len(token_ids))
        ):
            arrays = {name: _read_only(array) for name, array in activations.arrays.items()}
            size = sum(array.nbytes for array in arrays.values())
            kept = arrays
            if spent + recorded + size > self._budget:
                kept = {name: a for name, a in arrays.items() if name in self._always_kept}
            recorded += sum(array.nbytes for array in kept.values())
            yield Event(step.index, activations.operation, kept, evicted=len(kept) < len(arrays))
        # The sampler's place in the list: the choice itself is a function of the logits, the
        # settings and the held number, so that a slider can move it without running anything.
        yield Event(step.index, len(self.engine.operations) - 1, {})
        self._steps.append(step)
        self._recorded.append(recorded)
        self._count(step)
        yield StepEnded(step.index)

    def _count(self, step: Step) -> None:
        if step.phase is Phase.PREFILL:
            self.stats.record_prefill(len(step.token_ids))
        else:
            self.stats.record_decode()

    def _wants_all_logits(self, positions: int) -> bool:
        size = positions * self.engine.shape.vocabulary * self.engine.dtype.itemsize
        return size <= PROMPT_LOGITS_BUDGET

    def _names_always_kept(self) -> frozenset[str]:
        outside = {
            name
            for operation in self.engine.operations
            if operation.layer is None
            for name in operation.outputs
        }
        inputs = {f"blocks.{layer}.resid_pre" for layer in range(self.engine.shape.depth)}
        return frozenset(outside | inputs)


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array
