"""Where a number comes from: its operands, what made each of them, and whether they give it.

:func:`explain` unfolds one level. The arithmetic is the sound decoder's, worked out in float64
from what was recorded: where an operation did something else, exactly its numbers disagree, and
those of the operations behind it, which did right with what they were given, agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.viewdata.arithmetic import Derivation, NoArithmetic, NotKept, derive
from decoder_gui.viewdata.moment import Moment, Selection
from decoder_gui.viewdata.numbers import format_percent, format_value, plural
from decoder_gui.viewdata.operands import Cell, Operand, Parameter, Source, Sum, symbol_of
from model.engine import Array
from model.operations import Operation
from model.trace import Presence, Trace

STAGES = ("raw", "tempered", "final")
VOCABULARY = ("logits", *STAGES)


@dataclass(frozen=True)
class Explanation:
    """One number, one level down.

    Attributes:
        cell: which number; a copy stands for what it is a copy of.
        place: the event that computed it.
        operation: the operation of that event.
        derivation: the arithmetic in words, its operands and sums, recomputed and recorded.
        title: the number in words, ``logit ␣big 16.776``.
    """

    cell: Cell
    place: Cursor
    operation: Operation
    derivation: Derivation
    title: str

    @property
    def operands(self) -> tuple[Operand, ...]:
        """What goes into it one by one."""
        return self.derivation.operands

    @property
    def sums(self) -> tuple[Sum, ...]:
        """What is added up in it, term by term."""
        return self.derivation.sums

    @property
    def agrees(self) -> bool:
        """Whether the recorded number is the recomputed one within rounding."""
        return self.derivation.agrees

    @property
    def verdict(self) -> str:
        """One sentence with both numbers, their difference and what it means."""
        return self.derivation.verdict


def explain(moment: Moment, cell: Cell) -> Explanation:
    """Unfold a number that exists at the cursor into its operands.

    Raises:
        NotKept: the number or an operand was left out for the byte budget; what to replay.
        NoArithmetic: it does not exist, or there is nothing to work it out with, in words.
    """
    cell = original(moment.trace, cell)
    place = place_of(moment.trace, cell)
    operation = moment.trace.operations[place.operation]
    value = recorded_value(moment, cell)
    derivation = derive(moment, operation, cell, value)
    return Explanation(cell, place, operation, derivation, words_of(moment, cell, value))


def original(trace: Trace, cell: Cell) -> Cell:
    """The cell that a cell is a trivial copy of, or itself.

    The input of a block is the output of the one before under another name, and without a table of
    positions the first input is the embedding.
    """
    if not cell.array.endswith(".resid_pre"):
        return cell
    outputs = trace.operations[trace.producer(cell.array)].outputs
    first = outputs[0]
    # Two names for one array: of three, the last is the sum of the others.
    return replace(cell, array=first) if len(outputs) == 2 and first != cell.array else cell


def place_of(trace: Trace, cell: Cell) -> Cursor:
    """The event that computed a cell.

    Raises:
        NoArithmetic: no step has that position, or the model has no such array.
    """
    step = next((s.index for s in trace.steps if s.first <= cell.position < s.last), None)
    if step is None:
        raise NoArithmetic(f"position {cell.position} does not exist")
    if cell.array in STAGES:
        return Cursor(step, len(trace.operations) - 1)
    try:
        return Cursor(step, trace.producer(cell.array))
    except KeyError:
        raise NoArithmetic(f"no operation of this model records {cell.array}") from None


def recorded_value(moment: Moment, cell: Cell) -> float:
    """The recorded number.

    Raises:
        NotKept: it was left out for the byte budget.
        NoArithmetic: it does not exist at the cursor.
    """
    place = place_of(moment.trace, cell)
    if cell.array in STAGES:
        shown = moment.distribution
        if shown is None or moment.step is None or place.step != moment.step.index:
            raise NoArithmetic(
                moment.sampling_refusal or "probabilities are those of the step in hand"
            )
        stage: Array = getattr(shown, cell.array)
        return float(stage[cell.column])
    array = moment.array(place.step, cell.array)
    if array is None:
        if not moment.exists(place.step, cell.array):
            raise NoArithmetic(f"{cell.array} of position {cell.position} is not computed yet")
        if moment.trace.presence(place.step, cell.array) is Presence.EVICTED:
            raise NotKept(place.step, moment.trace.operations[place.operation].layer)
        raise NoArithmetic(f"{cell.array} is not recorded")
    at = cell.position - (moment.trace.steps[place.step].last - array.shape[-2])
    if at < 0:
        raise NoArithmetic(f"{cell.array} of position {cell.position} was not computed")
    row = array[at] if cell.head is None else array[cell.head, at]
    return float(row[cell.column])


def selection_at(moment: Moment, cell: Cell) -> dict[str, object]:
    """The changes of the selection that make a cell the one in hand, at :func:`place_of` it."""
    changes: dict[str, object] = {"array": cell.array, "cell": (0, cell.column)}
    if cell.head is not None:
        changes["head"] = cell.head
    changes["query"] = cell.position
    if symbol_of(cell.array) in ("scores", "pattern"):
        changes["key"] = cell.column
    layer = moment.trace.operations[place_of(moment.trace, cell).operation].layer
    if layer is not None:
        changes["layer"] = layer
    assert changes.keys() <= Selection.__dataclass_fields__.keys()
    return changes


def words_of(moment: Moment, cell: Cell, value: float) -> str:
    """A cell with its number as a trail shows it: ``final ␣big 98.8%``, ``resid_post[3] 0.214``."""
    name = "logit" if cell.array == "logits" else symbol_of(cell.array)
    if cell.array in VOCABULARY:
        name = f"{name} {moment.model.tokenizer.piece(cell.column).text}"
        number = format_value(value) if cell.array == "logits" else format_percent(value)
        return f"{name} {number}"
    return f"{name}[{cell.column}] {format_value(value)}"


def where_words(moment: Moment, source: Source) -> str:
    """Where an operand comes from, for a tooltip: step and operation, the weight, the reason."""
    if isinstance(source, Parameter):
        return f"Weight {source.text}"
    if not isinstance(source, Cell):
        return f"{source.words[:1].upper()}{source.words[1:]}"
    place = place_of(moment.trace, original(moment.trace, source))
    operation = moment.trace.operations[place.operation]
    block = "" if operation.layer is None else f", block {operation.layer}"
    head = "" if source.head is None else f", head {source.head}"
    piece = moment.pieces[source.position].text
    return f"{operation.label}{block}{head}, position {source.position} {piece}, step {place.step}"


def sum_words(total: Sum) -> str:
    """``64 products y·W_U[:, 262], summing to 7.310``."""
    noun = "product" if total.joined == "×" else "term"
    return f"{plural(len(total), noun)} {total.name}, summing to {format_value(total.total)}"


def rest_words(total: Sum, shown: int) -> str:
    """``… and 760 more, summing to 0.120``, or an empty string where all are shown."""
    count, rest = total.rest(shown)
    return f"… and {count:,} more, summing to {format_value(rest)}" if count else ""
