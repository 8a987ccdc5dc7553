"""Where the other run of a comparison comes from.

Each is a function that makes a :class:`~decoder_gui.debugger.comparing.recording.Side`, as a
generator that can be left between two operations. What they record has a byte budget of its own,
and none of them touches the session whose run is compared: they make caches of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from decoder_gui.debugger.comparing.recording import Recording, Side, held_draws, sampler
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import PROMPT_LOGITS_BUDGET, Session
from model import plain
from model.checkpoints import LoadedModel
from model.engine import Activations, Array, Cache, Engine
from model.errors import DecoderError
from model.faults import apply_faults, in_order
from model.plain_model import plain_weights
from model.sampling import SamplingConfig
from model.tokenizers import Tokenizer
from model.trace import Event, Phase, Step, Trace

SECOND_BUDGET = 256 * 2**20  # bytes of the second run's arrays; the rest is recomputed
PLAIN_PRODUCTS = 400_000_000  # about half a minute of plain loops
PLAIN_TOLERANCE = 1e-12  # of float64

Made = TypeVar("Made")

Running = Generator[Activations, None, Side]
"""Yields what the second run computes, and returns it as a side."""


class TooSlow(DecoderError, ValueError):
    """More work than anyone would wait for; the message says how much."""


class NotReplayable(DecoderError, RuntimeError):
    """A block that was left out for the byte budget cannot be recomputed any more."""


def pieces(tokenizer: Tokenizer) -> Callable[[int], str]:
    """The text of a token id, for words."""
    return lambda token_id: tokenizer.piece(token_id).text


def recall_with(
    engine: Engine, cache: Cache, recording: Recording
) -> Callable[[int, int], Mapping[str, Array]]:
    """Brings evicted blocks of a run back, over the cache that it filled.

    Under the fault ``stale-cache`` later steps have overwritten rows that earlier ones read: of
    those nothing comes back.
    """

    def recall(step: int, layer: int) -> Mapping[str, Array]:
        resid_pre = recording.array(step, f"blocks.{layer}.resid_pre")
        which = recording.steps[step]
        if resid_pre is None or which.last > cache.length:
            raise NotReplayable(f"block {layer} of step {step} cannot be recomputed any more")
        if engine.wiring.stale_cache and which.last < cache.length:
            return {}
        arrays: dict[str, Array] = {}
        for activations in engine.replay_block(layer, resid_pre, which.first, cache):
            arrays.update(activations.arrays)
        return arrays

    return recall


def side_of(session: Session, run: Run, sampling: SamplingConfig, name: str) -> Side:
    """A run of a session as one side of a comparison; its draws are those that its steps hold."""
    trace, engine = run.trace, session.engine
    return Side(
        name=name,
        recording=trace,
        choose=sampler(trace, sampling, held_draws(trace), run.faults),
        recall=recall_with(engine, session.cache, trace),
        piece=pieces(session.loaded.tokenizer),
        tolerance=engine.tolerance,
    )


def repeated(
    loaded: LoadedModel,
    steps: Sequence[Step],
    sampling: SamplingConfig,
    name: str,
    *,
    faults: Iterable[str] = (),
    budget: int = SECOND_BUDGET,
) -> Running:
    """The same tokens in the same steps, with the same draws, by a model: another checkpoint.

    Raises:
        FaultNotPossible: the model cannot have one of the faults.
        ContextOverflow, UnknownToken: it has fewer positions, or fewer tokens, than the steps need.
    """
    names = frozenset(faults)
    engine = apply_faults(loaded.engine, in_order(names))
    cache = engine.new_cache(steps[-1].last if steps else 1)
    trace = yield from recorded(engine, cache, steps, budget)
    return Side(
        name=name,
        recording=trace,
        choose=sampler(trace, sampling, held_draws(trace), names),
        recall=recall_with(engine, cache, trace),
        piece=pieces(loaded.tokenizer),
        tolerance=engine.tolerance,
    )


def full_pass(
    loaded: LoadedModel,
    steps: Sequence[Step],
    sampling: SamplingConfig,
    name: str = "full pass",
    *,
    faults: Iterable[str] = (),
    budget: int = SECOND_BUDGET,
) -> Running:
    """All tokens in one pass from nothing, by the sound model: what the cache must not change.

    Choices are made from its logits with the draws that the steps hold.
    """
    names = frozenset(faults)
    whole = (_whole(steps),)
    side = yield from repeated(loaded, whole, sampling, name, faults=names, budget=budget)
    draws = {step.last - 1: step.uniform for step in steps}
    return replace(side, choose=sampler(side.recording, sampling, draws, names))


def _whole(steps: Sequence[Step]) -> Step:
    """All the tokens of some steps as one."""
    ids = tuple(token for step in steps for token in step.token_ids)
    return Step(0, Phase.PREFILL, 0, ids, steps[0].checkpoint, steps[-1].uniform)


def recorded(
    engine: Engine, cache: Cache, steps: Sequence[Step], budget: int | None
) -> Generator[Activations, None, Trace]:
    """Run some steps; past a budget only what a block can be recomputed from is kept."""
    trace = Trace(engine.operations, engine.shape)
    inputs = {f"blocks.{layer}.resid_pre" for layer in range(engine.shape.depth)}
    spent = 0
    for step in steps:
        trace.begin(step)
        ids = np.array([step.token_ids], dtype=np.int64)
        row = engine.shape.vocabulary * engine.dtype.itemsize
        every = len(step.token_ids) * row <= PROMPT_LOGITS_BUDGET
        for done in engine.walk(ids, cache, all_logits=every):
            inside = engine.operations[done.operation].layer is not None
            size = sum(array.nbytes for array in done.arrays.values())
            arrays = dict(done.arrays)
            if budget is not None and inside and spent + size > budget:
                arrays = {name: array for name, array in arrays.items() if name in inputs}
            spent += sum(array.nbytes for array in arrays.values())
            evicted = len(arrays) < len(done.arrays)
            trace.add(Event(step.index, done.operation, arrays, evicted))
            yield done
        trace.add(Event(step.index, len(engine.operations) - 1, {}))
    return trace


def plain_loops(
    loaded: LoadedModel,
    steps: Sequence[Step],
    sampling: SamplingConfig,
    name: str = "plain loops",
) -> Generator[int, None, Side]:
    """All tokens in one pass of :mod:`model.plain`, float64 and no library; yields each block done.

    Raises:
        ShapeMismatch: the plain loops lack one of the model's parts.
        TooSlow: that many multiplications would take minutes.
    """
    engine = loaded.engine
    ids = tuple(token for step in steps for token in step.token_ids)
    products = len(ids) * (engine.parameters + engine.shape.model_dim * engine.shape.vocabulary)
    if products > PLAIN_PRODUCTS:
        raise TooSlow(
            f"the plain loops would need {products / 1e6:,.0f} million products for "
            f"{len(ids)} tokens; up to {PLAIN_PRODUCTS / 1e6:,.0f} million are done"
        )
    arrays: dict[str, Array] = {}

    def record(name: str, rows: object) -> None:
        arrays[name] = np.array([rows], dtype=np.float64)

    yield from plain.walk(ids, plain_weights(engine), record)
    trace = Trace(engine.operations, engine.shape)
    trace.begin(_whole(steps))
    for index, operation in enumerate(engine.operations):
        found = {name: arrays[name] for name in operation.outputs if name in arrays}
        trace.add(Event(0, index, found))
    draws = {step.last - 1: step.uniform for step in steps}
    return Side(
        name=name,
        recording=trace,
        choose=sampler(trace, sampling, draws),
        piece=pieces(loaded.tokenizer),
        tolerance=PLAIN_TOLERANCE,
    )


def with_sampling(side: Side, sampling: SamplingConfig, name: str) -> Side:
    """The same logits and draws under other settings: another order of the sampler's stages."""
    choose = sampler(side.recording, sampling, held_draws(side.recording))
    return replace(side, name=name, choose=choose)


def finish(running: Generator[object, None, Made]) -> Made:
    """Make a side, or a trace, in one go."""
    while True:
        try:
            next(running)
        except StopIteration as end:
            made: Made = end.value
            return made
