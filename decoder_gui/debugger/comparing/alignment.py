"""Which parts of two runs belong together: by position, whatever steps they were computed in.

A cached run has a prefill and a step per token, a full pass has one step, a chunked prefill has
several; position 7 is position 7 in all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from decoder_gui.debugger.comparing.recording import SIZES, Recording
from model.errors import ShapeMismatch
from model.shape import ModelShape
from model.trace import Step


@dataclass(frozen=True)
class Overlap:
    """Positions first to last (one past the end) that one step of each run processed.

    ``same_tokens`` is false from the first position on whose token is another one.
    """

    step: int
    other_step: int
    first: int
    last: int
    same_tokens: bool = True


@dataclass(frozen=True)
class TokenMismatch:
    """The first position where the two runs have different tokens."""

    position: int
    token_id: int
    other_id: int


def require_same_sizes(
    left: ModelShape,
    right: ModelShape,
    names: tuple[str, str],
    known: Collection[str] = frozenset(SIZES),
) -> None:
    """Refuse models whose arrays cannot be laid side by side.

    Raises:
        ShapeMismatch: the first of the known sizes that differs, with both numbers.
    """
    for attribute, words in SIZES.items():
        ours, theirs = getattr(left, attribute), getattr(right, attribute)
        if ours != theirs and attribute in known:
            raise ShapeMismatch(
                f"{names[0]} and {names[1]} cannot be compared: they have {ours} and {theirs} "
                f"{words}"
            )


def token_mismatch(left: Recording, right: Recording) -> TokenMismatch | None:
    """Where the tokens part, or None if they agree as far as both go."""
    ours, theirs = _tokens(left), _tokens(right)
    for position in sorted(ours.keys() & theirs.keys()):
        if ours[position] != theirs[position]:
            return TokenMismatch(position, ours[position], theirs[position])
    return None


def overlaps(left: Recording, right: Recording) -> tuple[Overlap, ...]:
    """The positions that both runs have, in the order in which the left one computed them."""
    parting = token_mismatch(left, right)
    end = None if parting is None else parting.position
    return tuple(part for whole in _pairs(left, right) for part in _split(whole, end))


def _tokens(recording: Recording) -> dict[int, int]:
    tokens: dict[int, int] = {}
    for step in recording.steps:
        for position, token in enumerate(step.token_ids, start=step.first):
            tokens.setdefault(position, token)
    return tokens


def _pairs(left: Recording, right: Recording) -> Iterator[Overlap]:
    alike = {(step.first, step.last): step for step in reversed(right.steps)}
    covering: dict[int, Step] = {}
    for other in right.steps:
        for position in range(other.first, other.last):
            covering.setdefault(position, other)
    for step in left.steps:
        position = step.first
        while position < step.last:
            # A run without a cache computes old positions again in every step: same steps first.
            partner = alike.get((step.first, step.last)) or covering.get(position)
            if partner is None:
                position += 1
                continue
            end = min(step.last, partner.last)
            yield Overlap(step.index, partner.index, position, end)
            position = end


def _split(whole: Overlap, end: int | None) -> Iterator[Overlap]:
    """The part before the tokens differ, and the part after."""
    if end is None or whole.last <= end:
        yield whole
        return
    if whole.first < end:
        yield Overlap(whole.step, whole.other_step, whole.first, end)
    first = max(whole.first, end)
    yield Overlap(whole.step, whole.other_step, first, whole.last, same_tokens=False)
