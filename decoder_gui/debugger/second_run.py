"""Where the other run of a comparison comes from.

Each is a function that makes a :class:`~decoder_gui.debugger.recording.Side`, as a generator that
can be left between two operations. What they record has a byte budget of its own, and none of them
touches the session whose run is compared: they make caches of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

import numpy as np

from decoder_gui.debugger.recording import Side, held_draws, sampler
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import BlockReplayed, Session, Update
from model import plain
from model.checkpoints import LoadedModel
from model.engine import Array
from model.errors import DecoderError
from model.plain_model import plain_weights
from model.sampling import SamplingConfig
from model.tokenizers import Tokenizer
from model.trace import Checkpoint, Event, Phase, Step, Trace

SECOND_BUDGET = 256 * 2**20  # bytes of the second run's arrays; the rest is recomputed
PLAIN_PRODUCTS = 400_000_000  # about half a minute of plain loops
PLAIN_TOLERANCE = 1e-12  # of float64

Running = Generator[Update, None, Side]
"""Yields what the second run computes, and returns it as a side."""


class TooSlow(DecoderError, ValueError):
    """More work than anyone would wait for; the message says how much."""


class NotReplayable(DecoderError, RuntimeError):
    """A block that was left out for the byte budget cannot be recomputed any more."""


def pieces(tokenizer: Tokenizer) -> Callable[[int], str]:
    """The text of a token id, for words."""
    return lambda token_id: tokenizer.piece(token_id).text


def recall_with(session: Session, trace: Trace) -> Callable[[int, int], Mapping[str, Array]]:
    """Brings evicted blocks of a session's run back, on the session's own cache."""

    def recall(step: int, layer: int) -> Mapping[str, Array]:
        resid_pre = trace.array(step, f"blocks.{layer}.resid_pre")
        which = trace.steps[step]
        if resid_pre is None or which.last > session.cache.length:
            raise NotReplayable(f"block {layer} of step {step} cannot be recomputed any more")
        arrays: dict[str, Array] = {}
        for update in session.replay(which, layer, resid_pre):
            if isinstance(update, BlockReplayed):
                arrays.update(update.arrays)
        return arrays

    return recall


def side_of(
    session: Session,
    run: Run,
    sampling: SamplingConfig,
    name: str,
    *,
    draws: Mapping[int, float] | None = None,
) -> Side:
    """A run of a session as one side of a comparison.

    ``draws`` are the uniform numbers by position, where they are not the run's own.
    """
    trace = run.trace
    return Side(
        name=name,
        recording=trace,
        choose=sampler(trace, sampling, held_draws(trace) if draws is None else draws, run.faults),
        recall=recall_with(session, trace),
        piece=pieces(session.loaded.tokenizer),
        tolerance=session.engine.tolerance,
    )


def repeated(
    loaded: LoadedModel,
    steps: Sequence[Step],
    sampling: SamplingConfig,
    name: str,
    *,
    faults: Iterable[str] = (),
    capacity: int | None = None,
    budget: int = SECOND_BUDGET,
) -> Running:
    """The same tokens in the same steps, with the same draws, by a model: another checkpoint.

    Raises:
        FaultNotPossible: the model cannot have one of the faults.
        ContextOverflow: it has fewer positions than the steps need.
    """
    size = _capacity(loaded, steps, capacity)
    session = Session(loaded, capacity=size, faults=frozenset(faults), budget=budget)
    run = Run(session.engine, session.faults)
    for update in session.repeat(steps):
        run.apply(update)
        yield update
    return side_of(session, run, sampling, name)


def full_pass(
    loaded: LoadedModel,
    steps: Sequence[Step],
    sampling: SamplingConfig,
    name: str = "full pass",
    *,
    budget: int = SECOND_BUDGET,
) -> Running:
    """All tokens in one pass from nothing, by the sound model: what the cache must not change.

    Choices are made from its logits with the draws that the steps hold.
    """
    ids = [token for step in steps for token in step.token_ids]
    session = Session(loaded, capacity=_capacity(loaded, steps, None), budget=budget)
    run = Run(session.engine)
    for update in session.prefill(ids):
        run.apply(update)
        yield update
    draws = {step.last - 1: step.uniform for step in steps}
    return side_of(session, run, sampling, name, draws=draws)


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
    trace.begin(Step(0, Phase.PREFILL, 0, ids, Checkpoint(0, {}), steps[-1].uniform))
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


def with_sampling(side: Side, run: Run, sampling: SamplingConfig, name: str) -> Side:
    """The same logits and draws under other settings: another order of the sampler's stages."""
    return Side(
        name=name,
        recording=side.recording,
        choose=sampler(side.recording, sampling, held_draws(side.recording), run.faults),
        recall=side.recall,
        piece=side.piece,
        tolerance=side.tolerance,
    )


def finish(running: Running) -> Side:
    """Make a side in one go."""
    while True:
        try:
            next(running)
        except StopIteration as end:
            side: Side = end.value
            return side


def _capacity(loaded: LoadedModel, steps: Sequence[Step], capacity: int | None) -> int:
    needed = steps[-1].last if steps else 1
    return max(needed, 1 if capacity is None else capacity)
