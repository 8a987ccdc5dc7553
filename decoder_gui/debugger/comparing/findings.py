"""What comparing two runs gives, as data."""

from __future__ import annotations

from dataclasses import dataclass

from decoder_gui.debugger.comparing.alignment import Overlap, TokenMismatch
from decoder_gui.debugger.comparing.differences import rank
from decoder_gui.debugger.comparing.recording import Side
from model.operations import Operation


@dataclass(frozen=True)
class Place:
    """One cell of two recordings, and what each holds there.

    Attributes:
        operation: index into the comparison's operations.
        name: canonical name of the array; empty for a choice of a token.
        step, other_step: the step of the left run that computed it, and that of the right one.
        position: absolute position.
        head: None where the array has no heads.
        column: key, coordinate or token id; for a choice, None.
        left, right: the two numbers; for a choice, the two token ids.
        difference: relative, see :mod:`decoder_gui.debugger.comparing.differences`; may be NaN or
            infinite. For a choice, the distance of the two distributions, or 1 for two different
            tokens.
    """

    operation: int
    name: str
    step: int
    other_step: int
    position: int
    head: int | None
    column: int | None
    left: float
    right: float
    difference: float


@dataclass(frozen=True)
class OperationResult:
    """One operation over all positions.

    Attributes:
        worst: its largest difference; None where nothing of it could be compared.
        past: whether that is past the tolerance.
        compared: how many pairs of numbers.
        both_nan: how many of them are NaN in both runs.
        beyond: the largest difference after the tokens part, which is no fault of the operation.
    """

    operation: Operation
    worst: Place | None
    past: bool
    compared: int
    both_nan: int = 0
    beyond: Place | None = None


@dataclass(frozen=True)
class Origin:
    """The operation that the first difference comes from.

    Attributes:
        operation: index into the comparison's operations.
        place: where it shows first; None for an operation that records nothing.
        reason: in words, why it is this one.
    """

    operation: int
    place: Place | None
    reason: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """What comparing two runs gave.

    Attributes:
        left, right: the two sides.
        tolerance: the largest relative difference that is accepted.
        operations: those of the fuller recording, in the order of a pass.
        parts: the positions compared, and by which steps.
        results: one per operation.
        first: the first place past the tolerance, in the order of computation.
        origin: the operation that it comes from; None where there is no difference.
        mismatch: where the tokens part, if they do.
        remarks: one sentence each on what was not compared.
    """

    left: Side
    right: Side
    tolerance: float
    operations: tuple[Operation, ...]
    parts: tuple[Overlap, ...]
    results: tuple[OperationResult, ...]
    first: Place | None
    origin: Origin | None
    mismatch: TokenMismatch | None
    remarks: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """No difference past the tolerance, and the same tokens."""
        return self.first is None and self.mismatch is None

    @property
    def positions(self) -> int:
        """Positions with the same tokens."""
        return sum(part.last - part.first for part in self.parts if part.same_tokens)

    @property
    def worst(self) -> Place | None:
        """The largest difference of two numbers."""
        worsts = (result.worst for result in self.results)
        places = [place for place in worsts if place is not None and place.name]
        return max(places, key=lambda place: rank(place.difference), default=None)
