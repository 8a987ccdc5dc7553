"""Two models or recordings side by side without a window: what ``decoder-gui diff`` compares."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from decoder_gui.debugger.comparing.alignment import require_same_sizes
from decoder_gui.debugger.comparing.recording import (
    SIZES,
    Choose,
    Side,
    nothing_chosen,
    sampler,
    taken,
)
from decoder_gui.debugger.comparing.second_run import finish, full_pass, recorded, repeated, side_of
from decoder_gui.debugger.report import execute
from decoder_gui.debugger.session import Session
from model.capture import axes_of
from model.capture_file import looks_like_capture, read_capture
from model.captured_engine import CapturedEngine
from model.captured_run import Capture
from model.captured_tokenizer import CapturedTokenizer
from model.checkpoints import LoadedModel
from model.errors import CheckpointError, DecoderError, InvalidSampling, NonFiniteLogits
from model.sampling import SamplingConfig
from model.trace import Checkpoint, Phase, Step, Trace

BY_AXIS = {
    "d_model": "model_dim",
    "head": "num_heads",
    "kv_head": "kv_heads",
    "d_head": "head_dim",
    "d_mlp": "mlp_dim",
    "vocab": "vocabulary",
}
"""Axis of an array -> the size that it shows."""

Source = LoadedModel | Capture
Making = Generator[object, None, Side]


class CannotRecompute(DecoderError, ValueError):
    """A recording cannot be run again; the message says what was asked of it."""


@dataclass(frozen=True)
class Second:
    """How the right run of a comparison is made."""

    fault: str | None = None  # a deliberate fault switched on in it
    full: bool = False  # all tokens in one pass, without a cache


def capture_at(spec: str) -> Capture | None:
    """The capture at a path, or None if that is a model, a name, or nothing at all.

    Raises:
        CheckpointError: it is a capture that cannot be used.
    """
    path = Path(spec).expanduser()
    try:
        if not path.is_file() or not looks_like_capture(path):
            return None
    except CheckpointError:
        return None  # whoever opens models says what is wrong with it
    return read_capture(path)


def as_source(loaded: LoadedModel) -> Source:
    """A model that was opened, or the capture that it stands for."""
    return loaded.engine.capture if isinstance(loaded.engine, CapturedEngine) else loaded


def sources(
    specs: tuple[str, str], open_model: Callable[[str], LoadedModel]
) -> tuple[Source, Source]:
    """What two names or paths stand for; the same one is opened once."""
    found: dict[str, Source] = {}
    for spec in specs:
        if spec not in found:
            capture = capture_at(spec)
            found[spec] = as_source(open_model(spec)) if capture is None else capture
    return found[specs[0]], found[specs[1]]


def side_names(
    pair: tuple[Source, Source], specs: tuple[str, str], second: Second
) -> tuple[str, str]:
    """What sentences call the two sides: always two different names."""
    left, right = (
        Path(spec).name if isinstance(source, Capture) else source.name
        for source, spec in zip(pair, specs, strict=True)
    )
    extra = [f"with {second.fault}"] if second.fault else []
    extra += ["in one pass"] if second.full else []
    changed = " ".join([right, *extra])
    return (left, changed) if left != changed else (f"{left} (A)", f"{right} (B)")


def pair(
    left: Source,
    right: Source,
    names: tuple[str, str],
    prompt_ids: Callable[[LoadedModel], Sequence[int]],
    sampling: SamplingConfig,
    tokens: int,
    second: Second,
) -> tuple[Side, Side]:
    """Both sides, run over the same tokens.

    They are those of the capture, if one of them is one; else the left model prefills the prompt
    and chooses ``tokens`` tokens, and the right one follows it. Two captures are as they are.

    Raises:
        CannotRecompute: a fault or a full pass of a capture.
        ShapeMismatch: models of different sizes; neither is run.
    """
    if isinstance(right, Capture):
        if second.fault or second.full:
            wanted = "run in one pass" if second.full else f"given the fault {second.fault}"
            raise CannotRecompute(f"{names[1]} is a recording and cannot be {wanted}")
        ours = (
            captured(left, names[0])
            if isinstance(left, Capture)
            else finish(following(left, right, *names, Second()))
        )
        return ours, captured(right, names[1])
    if isinstance(left, Capture):
        return captured(left, names[0]), finish(following(right, left, names[1], names[0], second))
    require_same_sizes(left.engine.shape, right.engine.shape, names)
    ids = prompt_ids(left)
    try:  # a full cache ends it early; what it has is compared
        outcome = execute(Session(left), ids, sampling, tokens)
    except NonFiniteLogits:  # nothing can be chosen: the prompt alone is compared
        outcome = execute(Session(left), ids, sampling, 0)
    first = side_of(outcome.session, outcome.run, sampling, names[0])
    return first, finish(_again(right, outcome.run.trace.steps, sampling, names[1], second))


def captured(capture: Capture, name: str) -> Side:
    """A recording as a side: its tokens are those that were really taken."""
    engine = CapturedEngine(capture)
    steps = steps_of(capture)
    running = recorded(engine, engine.new_cache(steps[-1].last), steps, None)
    trace = finish(running)
    tokenizer = CapturedTokenizer(capture, engine.shape.vocabulary)
    return Side(
        name=name,
        recording=trace,
        choose=choices_of(capture, trace),
        piece=lambda token_id: tokenizer.piece(token_id).text,
        tolerance=engine.tolerance,
        sizes=known_sizes(capture),
    )


def choices_of(capture: Capture, trace: Trace) -> Choose:
    """The tokens that a recorded run took, and the draws as far as they are known."""
    last = {step.first + len(step.token_ids) - 1: step for step in capture.steps}
    draws = {position: step.draw for position, step in last.items()}
    return taken(trace, draws, {position for position, step in last.items() if step.by_hand})


def known_sizes(capture: Capture) -> frozenset[str]:
    """The sizes that were said or that the arrays show; not how many layers there are in all."""
    axes = {axis for step in capture.steps for name in step.arrays for axis in axes_of(name) or ()}
    said = {field for field in SIZES if capture.blueprint.get(field)}
    return frozenset(said | {field for axis, field in BY_AXIS.items() if axis in axes})


def steps_of(capture: Capture) -> tuple[Step, ...]:
    """The recorded steps; one whose draw is not known holds 0."""
    return tuple(
        Step(
            index,
            Phase(step.phase),
            step.first,
            step.token_ids,
            Checkpoint(step.first, {}),
            0.0 if step.draw is None else step.draw,
        )
        for index, step in enumerate(capture.steps)
    )


def sampling_of(capture: Capture) -> SamplingConfig | None:
    """The recorded settings of the sampler, None where there are none that are understood."""
    said: Mapping[str, Any] | None = capture.sampling
    if said is None:
        return None
    known = {field.name for field in fields(SamplingConfig)}
    if not said.keys() <= known:
        return None
    try:
        return SamplingConfig(**said)
    except (InvalidSampling, TypeError):
        return None


def following(
    loaded: LoadedModel, capture: Capture, name: str, other: str, second: Second | None = None
) -> Making:
    """A model over the tokens of a capture; it chooses where settings and draw are known."""
    second = Second() if second is None else second
    shapes = loaded.engine.shape, CapturedEngine(capture).shape
    require_same_sizes(*shapes, (name, other), known_sizes(capture))
    settings = sampling_of(capture)
    side = yield from _again(loaded, steps_of(capture), settings or SamplingConfig(), name, second)
    draws = {
        step.first + len(step.token_ids) - 1: step.draw or 0.0
        for step in capture.steps
        if step.draw is not None or (settings is not None and settings.deterministic)
    }
    if settings is None:
        return replace(side, choose=nothing_chosen)
    faults = frozenset() if second.fault is None else frozenset((second.fault,))
    return replace(side, choose=sampler(side.recording, settings, draws, faults))


def _again(
    loaded: LoadedModel,
    steps: Sequence[Step],
    sampling: SamplingConfig,
    name: str,
    second: Second,
) -> Making:
    faults = () if second.fault is None else (second.fault,)
    if second.full:
        return (yield from full_pass(loaded, steps, sampling, name, faults=faults))
    return (yield from repeated(loaded, steps, sampling, name, faults=faults))
