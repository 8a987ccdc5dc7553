"""Comparing the run in hand with another one, and travelling to where they differ."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands
from decoder_gui.debugger.comparing.against import (
    Against,
    FullPass,
    Line,
    Lockstep,
    OtherBranch,
    OtherModel,
    OtherOrder,
    PlainLoops,
    lockstep,
)
from decoder_gui.debugger.comparing.comparison_words import headline
from decoder_gui.debugger.comparing.findings import Comparison, OperationResult, Place
from decoder_gui.debugger.comparing.pairs import Differences, differences_in, paired_rows
from decoder_gui.debugger.comparing.recording import Arrays
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.viewdata.operands import Cell
from decoder_gui.viewdata.provenance import selection_at
from decoder_gui.worker import Ended
from model.errors import sentence
from model.sampling import order_names
from model.trace import Trace

if TYPE_CHECKING:
    from decoder_gui.context import AppContext

TELL_EVERY = 0.1  # s between two looks at how far a comparison has come
COMPARING, CELLS = "comparison", "comparison cells"
NOTHING_RUN = "Nothing has been computed yet: there is nothing to compare."
NOTHING_COMPARED = "Choose in the workspace Compare what to compare the run with."
ELSEWHERE = "That place is in another run than the one in hand."


@dataclass(frozen=True)
class Offer:
    """Something that the run in hand can be compared with, in words."""

    label: str
    against: Against


class Comparisons(Commands):
    """The newest comparison, and the way to it.

    Attributes:
        against: what the run was compared with last, or is being compared with.
        found: the result; None before there is one, and while the next is on its way.
        stage: how far one that is on its way has come.
        refusal: why the last could not be made, in a sentence; empty if it was.
        tolerance: the largest relative difference accepted; None is the model's own.
        cells: the difference of one array in one step, the last that was asked for.
    """

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self.against: Against | None = None
        self.found: Comparison | None = None
        self.stage: Lockstep | None = None
        self.refusal = ""
        self.tolerance: float | None = None
        self.cells: Differences | None = None
        self.subtracting = False  # whether cells are being worked out
        self._wanted: tuple[str, int, int] | None = None  # cells on their way, or not to be had
        self._model = ""
        self._told = 0.0

    # ---- what there is to choose from

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What the run in hand can be compared with, without a file to choose."""
        context = self.context
        if context.model is None:
            return ()
        offers: list[Offer] = []
        if context.model.recorded is None:
            offers.append(Offer("Full pass, no cache, no faults", FullPass()))
            offers.append(Offer("Plain loops, no cache, no faults", PlainLoops()))
            offers.extend(
                Offer(f"Sampling order {name}", OtherOrder(name))
                for name in order_names()
                if name != context.sampling.order
            )
        tree = context.branches.tree
        offers.extend(
            Offer(f"Branch {branch.name}", OtherBranch(branch.id))
            for branch in tree
            if branch.id != tree.active
        )
        if isinstance(self.against, OtherModel):
            offers.append(Offer(_short(self.against.spec), self.against))
        return tuple(offers)

    @property
    def stale(self) -> bool:
        """Whether the run in hand is no longer the one that was compared."""
        compared, trace = self._compared, self.context.trace
        if compared is None or trace is None:
            return False
        if len(compared.steps) != len(trace.steps):
            return True
        return not all(compared.same_recording(trace, step.index) for step in trace.steps)

    def stale_at(self, step: int) -> bool:
        """Whether a step of the run in hand is not the one that was compared."""
        compared, trace = self._compared, self.context.trace
        if compared is None or trace is None or step >= len(compared.steps):
            return True
        return not compared.same_recording(trace, step)

    # ---- comparing

    def compare(self, against: Against) -> None:
        """Compare the run in hand with another; a comparison on its way is given up."""
        context = self.context
        line = self._line_in_hand()
        self.against, self.refusal = against, ""
        self._drop()
        if line is None or not line.steps:
            self._refuse(NOTHING_RUN)
            return
        other = self._branch(against)
        if isinstance(against, OtherBranch) and other is None:
            self._refuse("There is no such branch any more.")
            return
        room, sampling, tolerance = context.room, context.sampling, self.tolerance

        def job() -> Iterator[object]:
            steps = lockstep(
                room.session, line, sampling, against, other=other, tolerance=tolerance
            )
            return _with_result(steps)

        self.stage = Lockstep("Comparing")
        self._model = context.spec
        self.submit("Comparing", job, heard=self._hear, ended=self._end, tag=COMPARING)
        self.tell(Change.COMPARISON)

    def again(self) -> None:
        """The same comparison of the run as it is now."""
        if self.against is None:
            self.context.notice.emit(NOTHING_COMPARED)
        else:
            self.compare(self.against)

    def stop(self) -> None:
        """Give up a comparison that is on its way."""
        self.cancel(COMPARING)

    def set_tolerance(self, tolerance: float | None) -> None:
        """Another tolerance from now on, and at once where there is a result.

        Raises:
            ValueError: not a finite number of at least 0.
        """
        if tolerance is not None and not 0 <= tolerance < float("inf"):
            raise ValueError("A tolerance is a finite number of at least 0.")
        if tolerance != self.tolerance:
            self.tolerance = tolerance
            if self.found is not None or self.stage is not None:
                self.again()
            else:
                self.tell(Change.COMPARISON)

    # ---- travelling

    def go_to_first(self) -> None:
        """Travel to the first place past the tolerance."""
        if self.found is None:
            self.context.notice.emit(NOTHING_COMPARED)
        elif self.found.first is None:
            self.context.notice.emit(headline(self.found))
        else:
            self.travel(self.found.first)

    def go_to_origin(self) -> None:
        """Travel to the operation that the first difference comes from."""
        found = self.found
        if found is None or found.origin is None or found.first is None:
            return
        if found.origin.place is not None:
            self.travel(found.origin.place)
        else:
            self._go(found.first, found.operations[found.origin.operation].name, {})

    def go_to_result(self, result: OperationResult, *, beyond: bool = False) -> None:
        """Travel to the largest difference of an operation, over the same tokens or others."""
        if beyond:
            if result.beyond is not None:
                self.travel(result.beyond)
        elif result.worst is not None:
            self.travel(result.worst)
        elif self.is_origin(result):
            self.go_to_origin()

    def is_origin(self, result: OperationResult) -> bool:
        """Whether the first difference comes from an operation."""
        found = self.found
        if found is None or found.origin is None:
            return False
        return found.results[found.origin.operation] is result

    def travel(self, place: Place) -> None:
        """Go to a place of the run in hand and select its cell."""
        found, moment = self.found, self.context.moment
        if found is None or moment is None:
            return
        operation = found.operations[place.operation]
        changes: dict[str, object] = {}
        if place.name and place.column is not None:
            column = place.column
            cell = Cell(place.name, place.position, place.head, column)
            changes = selection_at(moment, cell)
        self._go(place, operation.name, changes)

    def _go(self, place: Place, operation: str, changes: dict[str, object]) -> None:
        trace, compared = self.context.trace, self._compared
        here = trace is not None and place.step < len(trace.steps)
        if trace is None or compared is None or not here:
            self.context.notice.emit(ELSEWHERE)
            return
        if not compared.same_recording(trace, place.step):
            self.context.notice.emit(ELSEWHERE)
            return
        names = [each.name for each in trace.operations]
        if operation in names:
            self.context.travel(Cursor(place.step, names.index(operation)), **changes)

    # ---- cell by cell

    def want_cells(self, name: str, step: int, position: int) -> Differences | None:
        """The difference of an array in a step, or None until it has been worked out."""
        found, held = self.found, self.cells
        if found is None or self.context.running:
            return None
        if held is not None and (held.name, held.step) == (name, step):
            rows = held.array.shape[-2]
            if held.first <= position < held.first + rows:
                return held
        key = (name, step, position)
        operation = next((each for each in found.operations if name in each.outputs), None)
        if key == self._wanted or operation is None:
            return None
        self._wanted, self.subtracting = key, True
        left, right, parts = found.left, found.right, found.parts

        def job() -> Iterator[object]:
            yield differences_in(
                Arrays(left), Arrays(right), parts, operation, name, step, position
            )

        self.submit("Subtracting", job, heard=self._hear_cells, ended=self._cells_ended, tag=CELLS)
        return None

    def pair(
        self, name: str, position: int, head: int | None, column: int
    ) -> tuple[float, float] | None:
        """Both numbers of a cell, where both are held."""
        found = self.found
        if found is None:
            return None
        operation = next((each for each in found.operations if name in each.outputs), None)
        part = next((each for each in found.parts if each.first <= position < each.last), None)
        if operation is None or part is None:
            return None
        left, right = (Arrays(replace(side, recall=None)) for side in (found.left, found.right))
        rows = paired_rows(left, right, part, operation, name)
        if rows is None or not rows[2] <= position:
            return None
        cell = (position - rows[2], column)
        whole = cell if head is None else (head, *cell)
        if column >= rows[0].shape[-1]:
            return None
        return float(rows[0][whole]), float(rows[1][whole])

    def _hear_cells(self, item: object) -> None:
        self.cells = item if isinstance(item, Differences) else None

    def _cells_ended(self, ended: Ended) -> None:
        self.subtracting = False
        if ended.cancelled:
            self._wanted = None
        self.tell(Change.COMPARISON)

    # ---- inside

    def reset(self, change: Change) -> None:
        if change & Change.MODEL and self.context.spec != self._model:
            self._drop()
            self.against = None
            self.refusal = ""
        trace, compared = self.context.trace, self._compared
        if not change & Change.TRACE or compared is None or trace is None or not trace.steps:
            return
        if trace.steps[0].token_ids != compared.steps[0].token_ids:
            self._drop()  # another prompt: nothing of the old run is kept for its sake

    @property
    def _compared(self) -> Trace | None:
        recording = None if self.found is None else self.found.left.recording
        return recording if isinstance(recording, Trace) else None

    def _line_in_hand(self) -> Line | None:
        trace, model, branch = self.context.trace, self.context.model, self.context.branches.active
        if trace is None or model is None:
            return None
        copied = trace.copy()
        last = len(copied.steps) - 1
        if last >= 0 and not copied.complete(last):
            copied.truncate(last)
        edits = () if branch is None else branch.edits
        alone = len(self.context.branches.tree) < 2
        name = model.name if branch is None or alone else branch.name
        return Line(name, copied, copied.steps, edits, self.context.faults)

    def _branch(self, against: Against) -> Line | None:
        tree = self.context.branches.tree
        if not isinstance(against, OtherBranch) or against.branch not in tree:
            return None
        branch = tree[against.branch]
        trace = branch.run.trace.copy()
        return Line(branch.name, trace, branch.steps, branch.edits, branch.run.faults)

    def _hear(self, item: object) -> None:
        if isinstance(item, Lockstep):
            self.stage = item
            if perf_counter() - self._told < TELL_EVERY:
                return
        elif isinstance(item, Comparison):
            self.found = item
        self._told = perf_counter()
        self.tell(Change.COMPARISON)

    def _end(self, ended: Ended) -> None:
        self.stage = None
        if ended.refusal is not None:
            self.refusal = sentence(ended.refusal)
        elif ended.cancelled and self.found is None:
            self.refusal = "The comparison was given up before its end."
        self.tell(Change.COMPARISON)

    def _refuse(self, words: str) -> None:
        self.refusal = words
        self.context.notice.emit(words)
        self.tell(Change.COMPARISON)

    def _drop(self) -> None:
        self.found = self.cells = self._wanted = self.stage = None


def _with_result(steps: Generator[Lockstep, None, Comparison]) -> Iterator[object]:
    """What a comparison yields, and at last what it found."""
    found = yield from steps
    yield found


def _short(spec: str) -> str:
    """A model or a capture as a list shows it."""
    return spec.rstrip("/").rpartition("/")[2] or spec
