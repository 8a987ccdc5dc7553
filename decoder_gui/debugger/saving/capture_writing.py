"""A run of a session written to a capture, blocks that the byte budget left out included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import BlockReplayed, Session
from model.capture import CaptureWriter
from model.captured_blueprint import described
from model.captured_engine import CapturedEngine
from model.captured_tokenizer import recorded_text
from model.decoder import Decoder
from model.engine import Array, Engine
from model.errors import DecoderError, NonFiniteLogits
from model.sampling import SamplingConfig, top_candidates
from model.trace import Presence

CANDIDATES = 40  # whose text is written beside that of the run's own tokens, for each step


@dataclass(frozen=True)
class Writing:
    """How far a capture has been written; ``step`` of ``steps`` is in hand."""

    step: int
    steps: int
    fraction: float


class NotWritable(DecoderError, RuntimeError):
    """A run of which not everything can be had any more, or a file with no place to be."""


def write_run(
    path: Path, session: Session, run: Run, sampling: SamplingConfig
) -> Iterator[Writing]:
    """Write every complete step of a run; stopped between two items, it leaves no file behind.

    Of the arrays only one block is held besides the trace. Must run where the session does.

    Raises:
        NotWritable: the file cannot be written, or a block that was left out cannot be computed
            again.
    """
    try:
        yield from _write(path, session, run, sampling)
    except OSError as error:
        raise NotWritable(f"{path} cannot be written: {error.strerror or error}") from None


def _write(path: Path, session: Session, run: Run, sampling: SamplingConfig) -> Iterator[Writing]:
    trace = run.trace
    steps = [step for step in trace.steps if trace.complete(step.index)]
    if not steps:
        raise NotWritable("nothing has been run yet, so there is nothing to save")
    count = len(trace.operations) - 1
    with CaptureWriter(path, **_about(session, run, sampling)) as writer:
        for step in steps:
            by_hand = step.index in run.taken_by_hand
            draw = None if by_hand else _draw(run, step.index, sampling)
            writer.step(step.token_ids, {}, phase=step.phase, draw=draw, by_hand=by_hand)
            block: Mapping[str, Array] = {}
            replayed: int | None = None
            for index, operation in enumerate(trace.operations[:-1]):
                yield Writing(step.index, len(steps), (step.index + index / count) / len(steps))
                arrays = {}
                for name in operation.outputs:
                    found = trace.array(step.index, name)
                    evicted = trace.presence(step.index, name) is Presence.EVICTED
                    layer = operation.layer
                    if evicted and layer is not None:
                        if replayed != layer:
                            block, replayed = _block(session, run, step.index, layer), layer
                        found = block.get(name)
                    if found is not None:
                        arrays[name] = found
                writer.more(arrays)
        writer.texts = _texts(session, run, sampling)


def _block(session: Session, run: Run, index: int, layer: int) -> Mapping[str, Array]:
    """A block that was left out, computed again bit for bit."""
    step = run.trace.steps[index]
    resid_pre = run.trace.array(index, f"blocks.{layer}.resid_pre")
    if resid_pre is None or step.last > session.cache.length:
        raise NotWritable(f"block {layer} of step {index} was not kept and cannot be had again")
    arrays: dict[str, Array] = {}
    for update in session.replay(step, layer, resid_pre):
        if isinstance(update, BlockReplayed):
            arrays |= update.arrays
    return arrays


def _draw(run: Run, index: int, sampling: SamplingConfig) -> float | None:
    """The number that chose the token after a step, under the settings that are written with it."""
    step = run.trace.steps[index]
    if sampling.deterministic:
        return None
    following = run.trace.steps[index + 1 : index + 2]
    if not following:
        return step.uniform
    try:
        landing = run.landing(index, sampling)
    except DecoderError:
        return None
    # The settings may have been others when the token was chosen; then it is not this number's.
    fits = landing is not None and following[0].token_ids == (landing.token_id,)
    return step.uniform if fits else None


def _about(session: Session, run: Run, sampling: SamplingConfig) -> dict[str, Any]:
    engine = session.engine
    about: dict[str, Any] = {
        "model": session.loaded.name,
        "sampling": {k: v for k, v in asdict(sampling).items() if v is not None},
        "events": [operation.name for operation in run.trace.operations],
        "made_by": _made_by(run),
    }
    if isinstance(engine, CapturedEngine):
        return about | dict(engine.capture.blueprint)
    about |= {"family": session.loaded.family, "parameters": engine.parameters}
    return about | _blueprint(engine)


def _blueprint(engine: Engine) -> dict[str, Any]:
    """What is known of an engine, in the fields of a capture."""
    if isinstance(engine, Decoder):
        return described(engine.blueprint)
    shape = engine.shape
    sizes = {
        "depth": shape.depth,
        "model_dim": shape.model_dim,
        "num_heads": shape.num_heads,
        "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "mlp_dim": shape.mlp_dim,
        "vocabulary": shape.vocabulary,
        "context": shape.context_length,
    }
    parts = ("norm", "norm_epsilon", "activation")
    return sizes | {name: getattr(engine, name) for name in parts if hasattr(engine, name)}


def _made_by(run: Run) -> str:
    try:
        made_by = f"decoder-gui {version('decoder-gui')}"
    except PackageNotFoundError:
        made_by = "decoder-gui"
    if run.faults:
        made_by += f", with the deliberate faults {', '.join(sorted(run.faults))}"
    return made_by


def _texts(session: Session, run: Run, sampling: SamplingConfig) -> dict[int, str]:
    """The text of the run's tokens and of each step's likeliest ones."""
    ids = dict.fromkeys(run.trace.token_ids)
    for step in run.trace.steps:
        try:
            shown = run.distribution(step.index, sampling)
        except (NonFiniteLogits, DecoderError):
            continue
        if shown is not None:
            ids |= dict.fromkeys(each.token_id for each in top_candidates(shown, CANDIDATES))
    if isinstance(session.engine, CapturedEngine):
        ids |= dict.fromkeys(session.engine.capture.texts)
    texts = {token: recorded_text(session.loaded.tokenizer.piece(token)) for token in ids}
    return {token: text for token, text in texts.items() if text}
