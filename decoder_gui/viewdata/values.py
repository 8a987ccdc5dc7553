"""The output of the operation in hand as numbers: one row of it, or all of it as a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from decoder_gui.viewdata.arithmetic import (
    SPELLED_DIGITS,
    Cell,
    Derivation,
    NoArithmetic,
    NotKept,
    derive,
    short_name,
)
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_range, format_value, plural
from model.engine import Array
from model.operations import Kind, Operation
from model.tokenizers import Piece, Tokenizer
from model.trace import Presence, Step

OUTPUT_WORDS = {
    "embed": "token",
    "pos_embed": "pos",
    "resid_pre": "sum",
    "raw": "raw",
    "tempered": "tempered",
    "final": "final",
}
"""What an output is called in the switch; anything else by the last part of its name."""

STAGES = ("raw", "tempered", "final")


@dataclass(frozen=True)
class Labels:
    """Names of columns, made one at a time: a vocabulary has too many to make them all.

    ``pieces`` names positions, ``tokenizer`` names token ids; without either, a plain index.
    """

    pieces: Sequence[Piece] = ()
    tokenizer: Tokenizer | None = None

    def __getitem__(self, column: int) -> str:
        if self.tokenizer is not None:
            return self.tokenizer.piece(column).text
        if column < len(self.pieces):
            return _at_a_position(self.pieces[column])
        return str(column)


def _at_a_position(piece: Piece) -> str:
    """A token where its position says which it is: a space in front would only take room."""
    return piece.text.removeprefix("␣") or piece.text


@dataclass(frozen=True)
class Statistics:
    """Counts and range of some values; masked ones are not among them.

    ``low``, ``high`` and ``total`` are of the finite values, NaN where there are none.
    """

    count: int
    low: float
    high: float
    total: float
    masked: int
    nan: int
    infinite: int

    @property
    def text(self) -> str:
        """``13 values · min 0.007 · max 0.347 · sum 1.000``, and whatever is wrong with them."""
        parts = [plural(self.count, "value")]
        if not math.isnan(self.low):
            parts += [format_range(self.low, self.high), f"sum {format_value(self.total)}"]
        if self.masked:
            parts.append(f"{self.masked:,} masked")
        return " · ".join(parts)

    @property
    def problem(self) -> str:
        """In words that some are not numbers, or an empty string."""
        parts = []
        if self.nan:
            parts.append(f"{self.nan:,} NaN")
        if self.infinite:
            parts.append(f"{self.infinite:,} infinite")
        return f"Not finite: {', '.join(parts)}." if parts else ""


@dataclass(frozen=True)
class ValuesView:
    """Everything that the Values panel shows of one array.

    The matrix has one row per position, or per head and position; ``array`` is (pos, columns) or
    (head, pos, columns), read-only and never copied.

    Attributes:
        outputs: (canonical name, word) of every array that can be chosen.
        row, column: the chosen cell in the matrix.
        axis: name of the columns' axis.
        cell: what the chosen cell is.
        sequential: values from 0 to 1 on the scale of the attention panel; otherwise values on
            both sides of 0, up to ``limit``.
        message: in words why there is nothing to see; everything else is then empty.
        missing: (step, layer) to be replayed before the array, or an operand, can be shown.
    """

    title: str
    hint: str
    label: str = ""
    outputs: tuple[tuple[str, str], ...] = ()
    output: str = ""
    array: Array | None = None
    scores: Array | None = field(default=None, repr=False)  # where the masked ones are -inf
    heads: int = 0  # 0: no head axis
    first: int = 0  # position of the first row
    row: int = 0
    column: int = 0
    cell: Cell | None = None
    pieces: Sequence[Piece] = ()
    labels: Labels = Labels()
    axis: str = ""
    sequential: bool = False
    row_limit: float = 1.0
    digits: int = 3
    statistics: Statistics | None = None
    derivation: Derivation | None = None
    without: str = ""  # why there is no derivation
    faults: tuple[str, ...] = ()
    edited: str = ""  # what an edit of this run did to this number, in words
    message: str = ""
    missing: tuple[int, int] | None = None

    @cached_property
    def order(self) -> Array | None:
        """Columns of the chosen row as they stand when it is shown alone, (columns,).

        Over the vocabulary by falling value, the lower id first among equals: nobody looks for a
        token's place in the alphabet of ids. None where columns stand in their own order.
        """
        if self.axis != "vocab" or self.array is None:
            return None
        return np.argsort(-self.row_values(self.row), kind="stable")

    @property
    def positions(self) -> int:
        """Positions in the array."""
        return 0 if self.array is None else self.array.shape[-2]

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return self.positions * max(self.heads, 1)

    @property
    def columns(self) -> int:
        """Columns of the matrix."""
        return 0 if self.array is None else self.array.shape[-1]

    def row_values(self, row: int) -> Array:
        """One row of the matrix, (columns,)."""
        assert self.array is not None
        head, at = divmod(row, self.positions)
        found: Array = self.array[head, at] if self.heads else self.array[at]
        return found

    def row_masked(self, row: int) -> Array | None:
        """Which cells of a row are masked, (columns,) bool, or None where nothing ever is."""
        if self.scores is None:
            return None
        head, at = divmod(row, self.positions)
        found: Array = np.isneginf(self.scores[head, at])
        return found

    def value(self, row: int, column: int) -> float:
        """One number."""
        return float(self.row_values(row)[column])

    def masked(self, row: int, column: int) -> bool:
        """Whether a cell lies beyond the causal mask."""
        found = self.row_masked(row)
        return found is not None and bool(found[column])

    def text(self, row: int, column: int) -> str:
        """What is written in a cell."""
        return self.text_of(self.value(row, column), masked=self.masked(row, column))

    def text_of(self, value: float, *, masked: bool) -> str:
        """The same for a number that has been looked up already."""
        return "masked" if masked else format_value(value, self.digits)

    def row_label(self, row: int) -> str:
        """``12 sat``, or ``1 · 12 sat`` with the head in front."""
        head, at = divmod(row, self.positions)
        position = self.first + at
        words = f"{position} {_at_a_position(self.pieces[position])}"
        return f"{head} · {words}" if self.heads > 1 else words

    def place(self, row: int) -> tuple[int | None, int]:
        """Head (None without a head axis) and absolute position of a row."""
        head, at = divmod(row, self.positions)
        return (head if self.heads else None), self.first + at

    def row_of(self, head: int, position: int) -> int:
        """The row of a head and an absolute position."""
        return (head if self.heads else 0) * self.positions + position - self.first

    @property
    def whole_title(self) -> str:
        """The title where all of the array is shown."""
        heads = f"{plural(self.heads, 'head')} × " if self.heads else ""
        sizes = f"{plural(self.positions, 'position')} × {plural(self.columns, 'column')}"
        return f"{self.label} · {heads}{sizes}"

    def whole_statistics(self) -> Statistics:
        """Statistics of the whole array; a pass over all of it."""
        assert self.array is not None
        masked = None if self.scores is None else np.isneginf(self.scores)
        return statistics_of(self.array, masked)

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """The lines of the derivation, or the one that says why there is none."""
        if self.derivation is None:
            return (self.without,) if self.without else ()
        return self.derivation.lines

    @property
    def verdict(self) -> str:
        """The number worked out, the recorded one and what their difference means."""
        words = "" if self.derivation is None else self.derivation.verdict
        return f"{words[:1].upper()}{words[1:]}." if words else ""

    @property
    def disagreement(self) -> str:
        """In words that the arithmetic does not give the recorded number, or an empty string."""
        if self.derivation is None or self.derivation.agrees:
            return ""
        if self.edited:
            return f"{self.verdict} This run is edited: {self.edited}."
        if self.faults:
            return f"{self.verdict} Switched on: {', '.join(self.faults)}."
        return f"{self.verdict} This operation did something else than its formula says."


def build_values(moment: Moment, output: str = "", axis: str = "") -> ValuesView | None:
    """The panel's content at a moment, or None before anything was computed.

    Args:
        output: name of the array to show, with or without its block, where the operation has
            several; its main one if it has none of that name.
        axis: the axis on which ``selection.cell`` was chosen; a column of another axis says
            nothing about this one. Empty where it is not known.
    """
    step, operation = moment.step, moment.operation
    if step is None or operation is None:
        return None
    outputs = tuple((name, _word(name)) for name in _output_names(operation))
    names = [name for name, _ in outputs]
    # What was chosen in one panel, or travelled to, is so in all; then what this one would like.
    pointed = moment.selection.array
    if pointed in names:
        output, axis = pointed, axis_of(short_name(pointed))
    fitting = [name for name in names if output in (name, short_name(name))]
    chosen = fitting[0] if fitting else _main(operation, names)
    array, message, missing = _find(moment, step, chosen)
    label = operation.label if len(outputs) == 1 else f"{operation.label} · {dict(outputs)[chosen]}"
    if array is None:
        return ValuesView(label, "", label, outputs, chosen, message=message, missing=missing)

    heads = array.shape[0] if array.ndim == 3 else 0
    first = step.last - array.shape[-2]
    head = min(moment.selection.head, heads - 1) if heads else 0
    query = moment.selection.query
    position = query if query is not None and first <= query < step.last else step.last - 1
    row = head * array.shape[-2] + position - first
    short = short_name(chosen)
    square = axis_of(short) == "key"
    scores = _scores(moment, step, chosen, array) if square else None
    bare = ValuesView(label, "", array=array, heads=heads, scores=scores)
    values, masked = bare.row_values(row), bare.row_masked(row)
    own_axis = axis_of(short)
    fits = axis in ("", own_axis)
    column = _column(moment, values, masked, square=square, fits=fits)
    cell = Cell(chosen, position, head if heads else None, column)
    worked, without, operand = _derive(moment, operation, cell, float(values[column]))
    statistics = statistics_of(values, masked)
    return ValuesView(
        title=_title(label, head if heads else None, position, moment.pieces[position], square),
        hint=statistics.text,
        label=label,
        outputs=outputs,
        output=chosen,
        array=array,
        scores=scores,
        heads=heads,
        first=first,
        row=row,
        column=column,
        cell=cell,
        pieces=moment.pieces,
        labels=labels_for(moment, short),
        axis=own_axis,
        sequential=short == "attn.pattern" or chosen in STAGES,
        row_limit=limit_of(statistics),
        digits=SPELLED_DIGITS if moment.model.spelled_out else 3,
        statistics=statistics,
        derivation=worked,
        without=without,
        faults=tuple(sorted(moment.faults)),
        edited=_edited(moment, operation, cell),
        missing=operand,
    )


def _edited(moment: Moment, operation: Operation, cell: Cell) -> str:
    """The words of the edits of a number; the names that one array has stand for each other."""
    names = operation.outputs if operation.kind is Kind.RESIDUAL else (cell.array,)
    return "; ".join(
        edit.words
        for edit in moment.edits
        if edit.name in names and edit.touches(cell.position, cell.head)
    )


def statistics_of(values: Array, masked: Array | None = None) -> Statistics:
    """Statistics of an array; ``masked`` is a boolean array of the same shape."""
    seen = values if masked is None else values[~masked]
    finite = np.isfinite(seen)
    numbers = seen if finite.all() else seen[finite]
    nan = int(np.isnan(seen).sum()) if numbers.size < seen.size else 0
    return Statistics(
        count=int(seen.size),
        low=float(numbers.min()) if numbers.size else math.nan,
        high=float(numbers.max()) if numbers.size else math.nan,
        total=float(numbers.sum(dtype=np.float64)) if numbers.size else math.nan,
        masked=int(values.size - seen.size),
        nan=nan,
        infinite=int(seen.size - numbers.size) - nan,
    )


def limit_of(statistics: Statistics) -> float:
    """The end of a scale that is symmetric about 0 and holds all finite values; at least a little.

    A row of zeros has no range of its own.
    """
    if math.isnan(statistics.low):
        return 1.0
    return max(abs(statistics.low), abs(statistics.high)) or 1.0


def _output_names(operation: Operation) -> tuple[str, ...]:
    """The arrays that can be looked at while an operation is in hand."""
    if operation.kind is Kind.SAMPLE:
        return STAGES
    if operation.kind is Kind.CACHE:
        return operation.inputs  # what is being written
    # One array may be recorded under two names: the end of a block and the start of the next.
    own = [
        name
        for name in operation.outputs
        if operation.layer is None or name.startswith(f"blocks.{operation.layer}.")
    ]
    return tuple(own)


def _main(operation: Operation, names: list[str]) -> str:
    # The sum is what the formula of an embedding is about, the final stage what is drawn from.
    return names[-1] if operation.kind in (Kind.EMBED, Kind.SAMPLE) else names[0]


def _word(name: str) -> str:
    short = short_name(name)
    return OUTPUT_WORDS.get(short, short.rpartition(".")[2])


def _find(
    moment: Moment, step: Step, name: str
) -> tuple[Array | None, str, tuple[int, int] | None]:
    """The array; without it, why not in words and what to replay."""
    if name in STAGES:
        shown = moment.distribution
        if shown is None:
            return None, moment.sampling_refusal or "Nothing has been sampled yet.", None
        array: Array = getattr(shown, name)
        return array[np.newaxis], "", None
    held = moment.array(step.index, name)
    if held is not None:
        return held, "", None
    if moment.trace.presence(step.index, name) is Presence.EVICTED:
        layer = moment.trace.operations[moment.trace.producer(name)].layer
        recorded = moment.model.recorded is not None
        if layer is not None and not recorded:
            return None, "Not kept: recomputing.", (step.index, layer)
        return None, "Not recorded in this capture." if recorded else "Not kept.", None
    return None, "Not computed yet.", None


def _scores(moment: Moment, step: Step, name: str, array: Array) -> Array | None:
    if name.endswith(".scores"):
        return array
    return moment.array(step.index, name.removesuffix("pattern") + "scores")


def _column(
    moment: Moment, values: Array, masked: Array | None, *, square: bool, fits: bool
) -> int:
    """The chosen column: the key in hand, the cell chosen, or the largest value."""
    selection, count = moment.selection, len(values)
    wanted = selection.cell[1] if selection.cell is not None and fits else None
    if square and selection.key is not None:
        wanted = selection.key
    if wanted is not None and 0 <= wanted < count:
        return wanted
    usable = np.isfinite(values) if masked is None else np.isfinite(values) & ~masked
    if not usable.any():
        return 0
    # The largest, with its sign: the strongest weight, the best token.
    return int(np.where(usable, values, -np.inf).argmax())


def axis_of(short: str) -> str:
    """The axis of the columns of an array, by its name without its block."""
    if short in ("attn.scores", "attn.pattern"):
        return "key"
    if short == "logits" or short in STAGES:
        return "vocab"
    if short.startswith("attn.") and short != "attn.out":
        return "d_head"
    return "d_mlp" if short in ("mlp.pre", "mlp.post", "mlp.gate") else "d_model"


def labels_for(moment: Moment, short: str) -> Labels:
    """The names of those columns."""
    if axis_of(short) == "key":
        return Labels(pieces=moment.pieces)
    if axis_of(short) == "vocab":
        return Labels(tokenizer=moment.model.tokenizer)
    return Labels()


def _title(label: str, head: int | None, position: int, piece: Piece, square: bool) -> str:
    """``Softmax · head 1 · query 12 “sat”``."""
    parts = [label]
    if head is not None:
        parts.append(f"head {head}")
    parts.append(f"{'query' if square else 'position'} {position} “{_at_a_position(piece)}”")
    return " · ".join(parts)


def _derive(
    moment: Moment, operation: Operation, cell: Cell, recorded: float
) -> tuple[Derivation | None, str, tuple[int, int] | None]:
    """The arithmetic; without it, why not in words and what to replay."""
    try:
        return derive(moment, operation, cell, recorded), "", None
    except NotKept as gone:
        missing = None if gone.layer is None else (gone.step, gone.layer)
        words = "An operand was not kept" + (": recomputing." if missing else ".")
        return None, words, missing
    except NoArithmetic as reason:
        words = str(reason)
        return None, f"{words[:1].upper()}{words[1:]}.", None
