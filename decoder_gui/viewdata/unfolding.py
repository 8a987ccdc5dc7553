"""A cell's operands as a list that a panel shows: what can be followed, what is only said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from decoder_gui.viewdata.arithmetic import SPELLED_DIGITS, Derivation
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_value
from decoder_gui.viewdata.operands import Cell, Operand, Sum, Term, symbol_of
from decoder_gui.viewdata.provenance import VOCABULARY, rest_words, sum_words, where_words

FIRST_TERMS, MORE_TERMS = 6, 60


@dataclass(frozen=True)
class Part:
    """Words in a row of operands; ``source`` is where following them leads."""

    text: str
    tip: str = ""
    source: Cell | None = None


Entry = tuple[Part, ...]
"""Parts that belong together: ``q[3] 0.200``, `` × ``, ``k[7][3] 0.121``, `` = 0.024``."""


@dataclass(frozen=True)
class More:
    """What of a sum is not listed: how many terms and what they add, in words."""

    sum_index: int
    words: str


@dataclass(frozen=True)
class Unfolded:
    """Operands one by one, then each sum's largest terms, each list with what it leaves out."""

    entries: tuple[Entry, ...]
    more: tuple[More, ...]


def unfold(moment: Moment, worked: Derivation, shown: Callable[[int], int]) -> Unfolded:
    """The operands of a number.

    Args:
        shown: how many terms of the sum of an index to list.
    """
    digits = SPELLED_DIGITS if moment.model.spelled_out else 3
    entries: list[Entry] = [(_part(moment, operand, digits),) for operand in worked.operands]
    more: list[More] = []
    for index, total in enumerate(worked.sums):
        count = min(shown(index), len(total))
        if len(worked.sums) > 1 or worked.operands:
            entries.append((Part(f"{total.name}:", sum_words(total)),))
        for term in total.largest(count):
            entries.append(_term(moment, total, term, digits))
        words = rest_words(total, count)
        if words:
            more.append(More(index, words))
    return Unfolded(tuple(entries), tuple(more))


def read_by(moment: Moment, cell: Cell) -> tuple[Entry, ...]:
    """What the operation of a cell reads, where nothing can be worked out: the way goes on there.

    Of an array with a head axis the cell's own head, or the first one.
    """
    operation = moment.operation
    if operation is None:
        return ()
    entries: list[Entry] = []
    for name in operation.inputs:
        array = None if moment.step is None else moment.array(moment.step.index, name)
        if array is None:
            continue
        head = (cell.head or 0) if array.ndim == 3 else None
        head = None if head is None else min(head, array.shape[0] - 1)
        source = Cell(name, cell.position, head, 0)
        entries.append((Part("reads "), Part(symbol_of(name), where_words(moment, source), source)))
    return tuple(entries)


def _term(moment: Moment, total: Sum, term: Term, digits: int) -> Entry:
    joined = f" {total.joined} " if total.joined == "×" else " "
    parts: list[Part] = []
    for operand in term.operands:
        if parts:
            parts.append(Part(joined))
        parts.append(_part(moment, operand, digits))
    if total.joined:  # a term that is its own contribution is not said twice
        equals = " = " if total.joined == "×" else " → "
        parts.append(Part(f"{equals}{format_value(term.contribution, digits)}"))
    return tuple(parts)


def _part(moment: Moment, operand: Operand, digits: int) -> Part:
    source = operand.source
    label = operand.label
    if label == "token":
        text = f"token {int(operand.value)}"
    elif isinstance(source, Cell) and source.array in VOCABULARY:
        piece = moment.model.tokenizer.piece(source.column).text
        text = f"{label} {piece} {format_value(operand.value, digits)}"
    else:
        text = f"{label} {format_value(operand.value, digits)}"
    return Part(
        text,
        where_words(moment, source),
        source if isinstance(source, Cell) else None,
    )
