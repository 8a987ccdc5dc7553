"""What a run in hand can be compared with, and the comparison itself as a job of the worker."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from decoder_gui.debugger.comparing.alignment import require_same_sizes
from decoder_gui.debugger.comparing.comparison import comparing
from decoder_gui.debugger.comparing.diff import captured, choices_of, following, known_sizes
from decoder_gui.debugger.comparing.findings import Comparison
from decoder_gui.debugger.comparing.recording import (
    Recording,
    Side,
    held_draws,
    sampler,
)
from decoder_gui.debugger.comparing.second_run import (
    full_pass,
    pieces,
    plain_loops,
    recall_with,
    repeated,
    with_sampling,
)
from decoder_gui.debugger.library import prepare
from decoder_gui.debugger.session import Session
from model.ablation import Edit
from model.captured_engine import CapturedEngine
from model.checkpoints import LoadedModel
from model.errors import NoWeights
from model.sampling import SamplingConfig
from model.trace import Presence, Step, Trace


@dataclass(frozen=True)
class FullPass:
    """All tokens in one pass, without a cache and without faults."""


@dataclass(frozen=True)
class PlainLoops:
    """The same in plain Python, number by number."""


@dataclass(frozen=True)
class OtherOrder:
    """The same logits and draws, with the sampler's stages in another order."""

    order: str


@dataclass(frozen=True)
class OtherBranch:
    """Another branch of the session."""

    branch: int


@dataclass(frozen=True)
class OtherModel:
    """Another model over the same tokens, or a capture: a name, a path, or a hub's repository."""

    spec: str


Against = FullPass | PlainLoops | OtherOrder | OtherBranch | OtherModel


@dataclass(frozen=True, eq=False)
class Line:
    """A run of the session as it stood when a comparison was asked for.

    Attributes:
        trace: a list of its own over the run's arrays; empty where the run is yet to be made.
        steps: those of the trace, or those that are to be run.
        edits: what its engine changes.
        faults: those that are switched on in it.
    """

    name: str
    trace: Trace
    steps: tuple[Step, ...]
    edits: tuple[Edit, ...] = ()
    faults: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Lockstep:
    """How far a comparison has come: what is being done, and how much of it; None is unknown."""

    text: str
    fraction: float | None = None


Job = Generator[Lockstep, None, Comparison]


def lockstep(
    session: Session,
    line: Line,
    sampling: SamplingConfig,
    against: Against,
    *,
    other: Line | None = None,
    tolerance: float | None = None,
) -> Job:
    """Make the second run and compare; must run where the session does, and leaves it as it is.

    ``other`` is the branch that an :class:`OtherBranch` means.

    Raises:
        DecoderError: the second run cannot be made, or cannot be compared; one sentence.
    """
    left = own_side(session, line, sampling)
    right = yield from _second(session, line, left, sampling, against, other)
    steps = comparing(left, right, tolerance)
    while True:
        try:
            done = next(steps)
        except StopIteration as end:
            found: Comparison = end.value
            return found
        yield Lockstep(f"Comparing {done.label}", 0.5 + done.fraction / 2)


def own_side(session: Session, line: Line, sampling: SamplingConfig) -> Side:
    """The run in hand: as the session made it, or as it was recorded elsewhere."""
    engine, trace = session.engine, line.trace
    side = Side(
        name=line.name,
        recording=trace,
        choose=sampler(trace, sampling, held_draws(trace), line.faults),
        recall=recall_with(engine, session.cache, trace),
        piece=pieces(session.loaded.tokenizer),
        tolerance=engine.tolerance,
    )
    if isinstance(engine, CapturedEngine):
        return replace(
            side,
            choose=choices_of(engine.capture, trace),
            recall=None,
            sizes=known_sizes(engine.capture),
        )
    return side


def _second(
    session: Session,
    line: Line,
    left: Side,
    sampling: SamplingConfig,
    against: Against,
    other: Line | None,
) -> Generator[Lockstep, None, Side]:
    making: Generator[object, None, Side]
    match against:
        case FullPass():
            loaded = _with_edits(_weights(session), line.edits)
            making = full_pass(loaded, line.steps, sampling)
            return (yield from _told(making, "Full pass", len(loaded.engine.operations)))
        case PlainLoops():
            plain = plain_loops(_weights(session), line.steps, sampling)
            return (yield from _told(plain, "Plain loops", session.engine.shape.depth))
        case OtherOrder(order):
            return with_sampling(left, replace(sampling, order=order), f"order {order}")
        case OtherBranch():
            if other is None:
                raise NoWeights("there is no such branch any more")
            return (yield from _branch(session, other, sampling))
        case OtherModel(spec):
            loaded = yield from _opened(spec)
            if isinstance(loaded.engine, CapturedEngine):
                return captured(loaded.engine.capture, loaded.name)
            name = loaded.name if loaded.name != line.name else f"{loaded.name} again"
            shapes = line.trace.shape, loaded.engine.shape
            require_same_sizes(*shapes, (line.name, name), left.sizes)
            if isinstance(session.engine, CapturedEngine):
                making = following(loaded, session.engine.capture, name, line.name)
            else:
                making = repeated(loaded, line.steps, sampling, name)
            events = len(loaded.engine.operations) * len(line.steps)
            return (yield from _told(making, f"Running {name}", events))


def _opened(spec: str) -> Generator[Lockstep, None, LoadedModel]:
    """Another model, or a capture."""
    steps = prepare(spec, None)
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            loaded: LoadedModel = end.value.loaded
            return loaded
        fraction = None if step.fraction is None else step.fraction / 4
        yield Lockstep(step.text, fraction)


def _branch(
    session: Session, other: Line, sampling: SamplingConfig
) -> Generator[Lockstep, None, Side]:
    """A branch as it was recorded, or run again where not all of it is there."""
    loaded = session.loaded
    if len(other.trace.steps) == len(other.steps) and not _lacks(other.trace):
        return Side(
            name=other.name,
            recording=other.trace,
            choose=sampler(other.trace, sampling, held_draws(other.trace), other.faults),
            piece=pieces(loaded.tokenizer),
            tolerance=session.engine.tolerance,
        )
    edited = _with_edits(loaded, other.edits)
    making = repeated(edited, other.steps, sampling, other.name, faults=other.faults)
    events = len(loaded.engine.operations) * len(other.steps)
    return (yield from _told(making, f"Running {other.name}", events))


def _lacks(recording: Recording) -> bool:
    """Whether arrays were left out for the byte budget."""
    return any(
        recording.presence(step.index, name) is Presence.EVICTED
        for step in recording.steps
        for operation in recording.operations
        for name in operation.outputs[:1]
    )


def _with_edits(loaded: LoadedModel, edits: Sequence[Edit]) -> LoadedModel:
    if not edits:
        return loaded
    engine = loaded.engine
    return replace(loaded, engine=engine.with_edits((*engine.edits, *edits)))


def _weights(session: Session) -> LoadedModel:
    """The session's model, if it can compute."""
    if isinstance(session.engine, CapturedEngine):
        raise NoWeights("choose a model to compare it with")
    return session.loaded


def _told(
    making: Generator[object, None, Side], text: str, items: int
) -> Generator[Lockstep, None, Side]:
    """A second run that is being made, with how far it has come."""
    done = 0
    while True:
        try:
            next(making)
        except StopIteration as end:
            side: Side = end.value
            return side
        done += 1
        yield Lockstep(text, 0.25 + min(done / max(items, 1), 1.0) / 4)
