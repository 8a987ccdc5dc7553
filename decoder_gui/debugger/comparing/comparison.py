"""Two runs side by side: how far every operation's results are apart, and where that begins."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from decoder_gui.debugger.comparing.alignment import (
    Overlap,
    TokenMismatch,
    overlaps,
    require_same_sizes,
    token_mismatch,
)
from decoder_gui.debugger.comparing.differences import Apart, measure, rank
from decoder_gui.debugger.comparing.findings import Comparison, OperationResult, Origin, Place
from decoder_gui.debugger.comparing.origin import NOT_COMPARED, Traced, cache_is_wrong, trace_back
from decoder_gui.debugger.comparing.pairs import paired_rows, whole_history
from decoder_gui.debugger.comparing.recording import Arrays, Chosen, Recording, Side, variation
from model.engine import Array
from model.errors import DecoderError
from model.operations import Kind, Operation

OPERATIONS_A_BREATH = 4  # compared between two chances to cancel
SAME_CHOICE = 1e-3  # distance of two distributions whose logits agree within rounding


class NothingToCompare(DecoderError, ValueError):
    """Two runs without a common position or a common array; the message says which."""


@dataclass(frozen=True)
class Compared:
    """How far a comparison has come, in 0 to 1, and what it is about to look at."""

    fraction: float
    label: str


Comparing = Generator[Compared, None, Comparison]


def compare(left: Side, right: Side, tolerance: float | None = None) -> Comparison:
    """Compare two runs in one go; for the arguments see :func:`comparing`."""
    steps = comparing(left, right, tolerance)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Comparison = end.value
            return found


def comparing(left: Side, right: Side, tolerance: float | None = None) -> Comparing:
    """Compare two runs, an operation at a time; it can be left between two of them.

    No more than a few blocks are held besides what the recordings hold.

    Args:
        left, right: the runs; positions, not steps, decide what belongs together.
        tolerance: largest relative difference accepted; None is what the less precise of the two
            can be held to (1e-12 for the tiny decoder, 1e-4 for float32).

    Raises:
        ShapeMismatch: models of different sizes, or arrays of different axes.
        NothingToCompare: no common position, or no common array.
    """
    return _Run(left, right, tolerance).compare()


def _rank(place: Place) -> float:
    return rank(place.difference)


def past(difference: float, tolerance: float) -> bool:
    """Whether a difference is not accepted; NaN never is."""
    return not difference <= tolerance


_Found = tuple[list[tuple[Place, Place | None]], int, int]
"""Worst place of each array with the first past the tolerance; numbers compared; NaN in both."""


@dataclass
class _Tally:
    """What is known of an operation so far; see :class:`OperationResult`."""

    worst: Place | None = None
    beyond: Place | None = None
    compared: int = 0
    both_nan: int = 0


def _by_layer(operations: Sequence[Operation]) -> list[list[int]]:
    """Indices of operations, those of a block together, in order."""
    return [
        list(group) for _, group in groupby(range(len(operations)), lambda i: operations[i].layer)
    ]


class _Run:
    """One comparison while it is being made."""

    def __init__(self, left: Side, right: Side, tolerance: float | None) -> None:
        known = left.sizes & right.sizes
        shapes = left.recording.shape, right.recording.shape
        require_same_sizes(*shapes, (left.name, right.name), known)
        self.scale = shapes["head_dim" not in left.sizes].scale
        self.left, self.right = Arrays(left), Arrays(right)
        ours, theirs = left.recording.operations, right.recording.operations
        self.operations = theirs if len(theirs) > len(ours) else ours
        self.parts = overlaps(left.recording, right.recording)
        if not self.parts:
            raise NothingToCompare(f"{left.name} and {right.name} have no position in common")
        coarser = max(left.tolerance, right.tolerance)
        self.tolerance = coarser if tolerance is None else tolerance
        self.grid = np.full((len(self.operations), len(self.parts)), NOT_COMPARED)
        self.first: tuple[int, int, Place] | None = None  # overlap, operation, place
        self.missing: set[str] = set()  # arrays that are not in both, in some overlap
        self.one_sided: tuple[list[str], list[str]] = ([], [])

    def compare(self) -> Comparing:
        tallies = [_Tally() for _ in self.operations]
        for group in _by_layer(self.operations):
            yield from self._group(group, tallies)
        results = [self._result(index, tally) for index, tally in enumerate(tallies)]
        if all(result.worst is None and result.beyond is None for result in results):
            raise NothingToCompare(
                f"{self.left.side.name} and {self.right.side.name} have no array in common"
            )
        mismatch = token_mismatch(self.left.side.recording, self.right.side.recording)
        return Comparison(
            self.left.side,
            self.right.side,
            self.tolerance,
            self.operations,
            self.parts,
            tuple(results),
            None if self.first is None else self.first[2],
            self._origin(),
            mismatch,
            tuple(self._remarks(mismatch)),
        )

    def _group(
        self, group: Sequence[int], tallies: Sequence[_Tally]
    ) -> Generator[Compared, None, None]:
        """The operations of one layer over all positions.

        Positions are the outer loop, so that a block that has to be recomputed is needed once.
        """
        count = len(self.operations)
        for number, part in enumerate(self.parts):
            for at, index in enumerate(group):
                operation = self.operations[index]
                if number == 0 or at % OPERATIONS_A_BREATH == 0:
                    done = (number * len(group) + at) / len(self.parts)
                    yield Compared((group[0] + done) / count, operation.label)
                sampled = operation.kind is Kind.SAMPLE
                found = self._choices(index, part) if sampled else self._arrays(index, part)
                self._count(tallies[index], index, number, found)

    def _count(self, tally: _Tally, index: int, number: int, found: _Found) -> None:
        """Take in what one operation of one overlap gave."""
        places, pairs, nans = found
        tally.compared += pairs
        tally.both_nan += nans
        for here, earliest in places:
            if not self.parts[number].same_tokens:
                tally.beyond = _worse(tally.beyond, here)
                continue
            tally.worst = _worse(tally.worst, here)
            self.grid[index, number] = max(self.grid[index, number], _rank(here))
            if earliest is not None and (self.first is None or (number, index) < self.first[:2]):
                self.first = (number, index, earliest)

    def _result(self, index: int, tally: _Tally) -> OperationResult:
        operation, worst = self.operations[index], tally.worst
        for name in operation.outputs:
            if name in self.missing:
                self._note_one_sided(operation, name)
        over = worst is not None and self._is_past(worst)
        return OperationResult(operation, worst, over, tally.compared, tally.both_nan, tally.beyond)

    def _is_past(self, place: Place) -> bool:
        if not place.name:
            return place.difference > SAME_CHOICE
        return past(place.difference, self.tolerance)

    def _arrays(self, index: int, part: Overlap) -> _Found:
        """Worst and earliest place past the tolerance of each array of an operation."""
        operation = self.operations[index]
        places, pairs, nans = [], 0, 0
        for name in operation.outputs:
            found = paired_rows(self.left, self.right, part, operation, name)
            if found is None:
                self.missing.add(name)
                continue
            left, right, first = found
            apart = measure(left, right)
            pairs, nans = pairs + left.size, nans + apart.both_nan
            row = apart.first_past(self.tolerance)

            place = partial(_place, index, name, part, first, (left, right), apart)
            places.append((place(apart.worst), None if row is None else place(row)))
        return places, pairs, nans

    def _choices(self, index: int, part: Overlap) -> _Found:
        """The choice made after the last position of an overlap, if both runs made one there."""
        position = part.last - 1
        left = self.left.side.choose(position)
        right = self.right.side.choose(position) if left is not None else None
        if left is None or right is None or (left.token_id is None and right.token_id is None):
            return [], 0, 0
        if _drawn_apart(left, right):
            return [], 0, 0
        difference = _choice_difference(left, right)
        place = Place(
            operation=index,
            name="",
            step=part.step,
            other_step=part.other_step,
            position=position,
            head=None,
            column=None,
            left=_token(left),
            right=_token(right),
            difference=difference,
        )
        return [(place, place if self._is_past(place) else None)], 1, 0

    def _origin(self) -> Origin | None:
        if self.first is None:
            return None
        number, index, place = self.first
        if not place.name:
            return Origin(index, place, "the logits agree")
        traced = trace_back(
            self.operations, self.grid, (index, number), self.tolerance, self.missing
        )
        operation, part = self.operations[traced.operation], self.parts[traced.overlap]
        cache = self._cache_of(operation)
        if cache is not None and not traced.unrecorded and self._reads_other_rows(operation, part):
            kind = "keys" if operation.kind is Kind.SCORES else "values"
            return Origin(cache, None, f"attention read other {kind} than those computed")
        return Origin(traced.operation, self._shown(traced, place), _reason(traced))

    def _shown(self, traced: Traced, first: Place) -> Place:
        """Where a traced operation differs."""
        if self.operations[traced.operation] is self.operations[first.operation] and (
            self.parts[traced.overlap].step == first.step
            and self.parts[traced.overlap].other_step == first.other_step
        ):
            return first
        places, _, _ = self._arrays(traced.operation, self.parts[traced.overlap])
        return max((worst for worst, _ in places), key=_rank, default=first)

    def _cache_of(self, operation: Operation) -> int | None:
        return next(
            (
                index
                for index, other in enumerate(self.operations)
                if other.kind is Kind.CACHE and other.layer == operation.layer
            ),
            None,
        )

    def _reads_other_rows(self, operation: Operation, part: Overlap) -> bool:
        def rows(name: str) -> tuple[Array, Array] | None:
            found = paired_rows(self.left, self.right, part, self._producer(name), name)
            return None if found is None else (found[0], found[1])

        def history(name: str, left: bool) -> Array | None:
            side = self.left if left else self.right
            return whole_history(side, self._producer(name), name, part.last)

        first = max(
            self.left.steps[part.step].first,
            self.right.steps[part.other_step].first,
        )
        return cache_is_wrong(
            operation,
            rows,
            history,
            first=first,
            scale=self.scale,
            tolerance=self.tolerance,
        )

    def _producer(self, name: str) -> Operation:
        return next(operation for operation in self.operations if name in operation.outputs)

    def _note_one_sided(self, operation: Operation, name: str) -> None:
        part = self.parts[0]  # what a run records, it records in every step
        ours = self.left.get(part.step, operation, name) is not None
        theirs = self.right.get(part.other_step, operation, name) is not None
        if ours != theirs:
            self.one_sided[0 if ours else 1].append(name)

    def _remarks(self, mismatch: TokenMismatch | None) -> Iterator[str]:
        names = (self.left.side.name, self.right.side.name)
        if mismatch is not None and self.first is not None:
            yield (
                f"the tokens part at position {mismatch.position}, "
                f"{_quoted(self.left.side, mismatch.token_id)} in {names[0]} and "
                f"{_quoted(self.right.side, mismatch.other_id)} in {names[1]}: the positions "
                "before it are compared"
            )
        for has, lacks, missing in (
            (names[0], names[1], self.one_sided[0]),
            (names[1], names[0], self.one_sided[1]),
        ):
            if missing:
                shown = ", ".join(missing[:4]) + (", …" if len(missing) > 4 else "")
                yield f"recorded in {has} and not in {lacks}: {shown}"
        ends = [_positions(side.side.recording) for side in (self.left, self.right)]
        if ends[0] != ends[1]:
            yield f"positions: {ends[0]} in {names[0]} and {ends[1]} in {names[1]}"


def _place(
    index: int,
    name: str,
    part: Overlap,
    begin: int,
    pair: tuple[Array, Array],
    apart: Apart,
    row: int,
) -> Place:
    head, column = apart.cell(row)
    cell = (row, column) if head is None else (head, row, column)
    return Place(
        operation=index,
        name=name,
        step=part.step,
        other_step=part.other_step,
        position=begin + row,
        head=head,
        column=column,
        left=float(pair[0][cell]),
        right=float(pair[1][cell]),
        difference=float(apart.rows[row]),
    )


def _worse(before: Place | None, here: Place) -> Place:
    return here if before is None or _rank(here) > _rank(before) else before


def _drawn_apart(left: Chosen, right: Chosen) -> bool:
    """Whether two tokens were drawn by different numbers: then they may differ as they like."""
    draws = left.uniform, right.uniform
    if None in draws or draws[0] == draws[1]:
        return False
    return left.shown is None or right.shown is None


def _choice_difference(left: Chosen, right: Chosen) -> float:
    same_draw = None in (left.uniform, right.uniform) or left.uniform == right.uniform
    if left.token_id != right.token_id and same_draw:
        return 1.0
    if left.shown is None or right.shown is None:
        return 0.0
    distance = variation(left.shown, right.shown)
    same_logits = np.array_equal(left.shown.ranking.order, right.shown.ranking.order)
    if same_logits and left.shown.kept_count != right.shown.kept_count:
        return max(distance, math.nextafter(SAME_CHOICE, 1.0))
    return distance


def _token(chosen: Chosen) -> float:
    return math.nan if chosen.token_id is None else float(chosen.token_id)


def _reason(traced: Traced) -> str:
    if traced.unrecorded:
        return f"what it reads, {', '.join(traced.unrecorded)}, is not recorded in both"
    return "what it reads agrees"


def _positions(recording: Recording) -> int:
    return max((step.last for step in recording.steps), default=0)


def _quoted(side: Side, token_id: int) -> str:
    return f"“{side.piece(token_id)}”"
