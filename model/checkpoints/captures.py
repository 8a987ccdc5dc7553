"""A capture opened as if it were a model: it can be stepped through, and computes nothing."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from model.capture_file import looks_like_capture, read_capture
from model.captured_engine import CapturedEngine
from model.captured_run import Capture
from model.captured_tokenizer import CapturedTokenizer
from model.checkpoints.estimate import Reading
from model.checkpoints.loading import Format, LoadedModel, Opening, register_format
from model.errors import CheckpointError, InvalidSampling, ShapeMismatch
from model.sampling import SamplingConfig

SUFFIX = ".safetensors"
SETTINGS = frozenset(setting.name for setting in fields(SamplingConfig))
LARGEST_SETTING = 2**63


def recognises(place: Path) -> bool:
    """A ``.safetensors`` file that holds activations, not weights."""
    return place.is_file() and place.suffix == SUFFIX and looks_like_capture(place)


def open_capture(place: Path) -> Opening:
    """Open such a file.

    Raises:
        CheckpointError: it cannot be used; the sentence names the file and the field.
    """
    yield Reading(place.name, 0, 1)
    capture = read_capture(place)
    try:
        engine = CapturedEngine(capture)
        settings = sampling_of(capture)
    except ShapeMismatch as problem:
        raise CheckpointError(f"{place}: {problem}") from None
    family = capture.blueprint.get("family")
    words = f"capture, {family}" if isinstance(family, str) and family else "capture"
    return LoadedModel(
        name=capture.model or place.stem,
        family=words[:80],
        engine=engine,
        tokenizer=CapturedTokenizer(capture, engine.shape.vocabulary),
        path=place,
        warnings=(*capture.remarks, *_about_draws(capture, settings)),
    )


def _about_draws(capture: Capture, settings: SamplingConfig | None) -> tuple[str, ...]:
    if len(capture.steps) < 2 or (settings is not None and settings.deterministic):
        return ()
    if any(step.draw is not None for step in capture.steps):
        return ()
    return (
        "no draws were recorded, so the numbers held for choosing tokens are this program's own",
    )


def sampling_of(capture: Capture) -> SamplingConfig | None:
    """The sampler's settings of a run, or None where they were not recorded.

    Raises:
        InvalidSampling: they are none.
    """
    said = capture.sampling
    if said is None:
        return None
    known = {name: value for name, value in said.items() if name in SETTINGS and value is not None}
    for name, value in known.items():
        fits = isinstance(value, str) if name == "order" else _is_number(value)
        if not fits or (name in ("top_k", "seed") and not isinstance(value, int)):
            raise InvalidSampling(f"sampling: {name} cannot be {value!r}"[:200])
    try:
        return SamplingConfig(**known)
    except ShapeMismatch as problem:
        raise InvalidSampling(f"sampling: {problem}") from None


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -LARGEST_SETTING < value < LARGEST_SETTING


register_format(Format("capture", recognises, open_capture, narrow=True))
