"""A run that was recorded, as data: what a capture holds once it has been read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model.capture import Array, CaptureWriter, Texts


@dataclass(frozen=True)
class CapturedStep:
    """One pass: the prefill of a prompt, a chunk of it, or one decoded token.

    Attributes:
        phase: "prefill" or "decode".
        first: the first position processed.
        arrays: canonical name -> array with a leading batch axis of 1; the pos axis has this
            step's positions, the key axis all positions so far.
        draw: the uniform number in [0, 1) that chose the token after this step, if it is known.
        by_hand: somebody chose that token, and not the sampler.
    """

    phase: str
    first: int
    token_ids: tuple[int, ...]
    arrays: Mapping[str, Array]
    draw: float | None = None
    by_hand: bool = False


@dataclass(frozen=True)
class Capture:
    """A run that was recorded.

    Attributes:
        blueprint: what was said of the model, by the names of :data:`FIELDS`.
        texts: the text of some token ids, by id.
        sampling: the sampler's settings, or None where they were not said.
        events: names of the operations of a step in their order, where they were said.
        remarks: one sentence each on what a reader should know, such as a name without a place.
    """

    steps: tuple[CapturedStep, ...]
    model: str = ""
    blueprint: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[int, str] = field(default_factory=dict)
    sampling: Mapping[str, Any] | None = None
    events: tuple[str, ...] = ()
    made_by: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens processed, one a position."""
        return tuple(token for step in self.steps for token in step.token_ids)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text of the tokens processed; empty for one whose text is not known."""
        return tuple(self.texts.get(token, "") for token in self.token_ids)

    @property
    def draws(self) -> tuple[float | None, ...]:
        """The draw of every step, None where it is not known."""
        return tuple(step.draw for step in self.steps)


def write_capture(
    path: str | Path,
    steps: Iterable[CapturedStep],
    *,
    model: str = "",
    token_texts: Texts = None,
    **metadata: Any,
) -> None:
    """Write steps that are in hand; ``metadata`` is what :class:`CaptureWriter` takes."""
    with CaptureWriter(path, model=model, token_texts=token_texts, **metadata) as writer:
        for step in steps:
            writer.step(
                step.token_ids,
                step.arrays,
                phase=str(step.phase),
                draw=step.draw,
                by_hand=step.by_hand,
            )
