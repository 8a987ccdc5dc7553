"""The arithmetic that made one number, with its operands, worked out again from what was recorded.

One function per array, registered by the array's short name (``attn.scores``): a new operation is a
new function. Each takes its operands from the recording and from the sound weights, computes the
number again in float64 and says how. Where a deliberate fault is on, the result differs from what
was recorded, and the panel says so: that is the fault, seen in one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_value
from decoder_gui.viewdata.weights import Weights
from model.engine import Array
from model.operations import Kind, Operation
from model.trace import Presence, Step

Doubles = NDArray[np.float64]

ROUNDING = 64.0  # tolerance in units of the last place of the largest sum of magnitudes
SPELLED_DIGITS = 6
FIRST_TERMS, LARGEST_TERMS = 2, 2
MODULES = (
    "arithmetic_attention",
    "arithmetic_bends",
    "arithmetic_positions",
    "arithmetic_sampling",
    "arithmetic_turns",
)


@dataclass(frozen=True)
class Cell:
    """One number of an array.

    Attributes:
        array: canonical name, or ``raw``, ``tempered``, ``final`` for the sampler's.
        position: absolute position of its row.
        head: its head, None where the array has no head axis.
        column: index on the last axis: a key's position, a coordinate, a token id.
    """

    array: str
    position: int
    head: int | None
    column: int

    @property
    def short(self) -> str:
        """The array's name without its block: ``attn.scores``."""
        return short_name(self.array)


@dataclass(frozen=True)
class Derivation:
    """A number worked out again.

    Attributes:
        lines: the arithmetic, most important line first.
        result: in float64.
        recorded: what the engine computed.
        tolerance: how far rounding alone may put them apart.
    """

    lines: tuple[str, ...]
    result: float
    recorded: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether the two are the same number within rounding (NaN is NaN, -inf is -inf)."""
        if math.isnan(self.result) or math.isnan(self.recorded):
            return math.isnan(self.result) and math.isnan(self.recorded)
        if math.isinf(self.result) or math.isinf(self.recorded):
            return self.result == self.recorded
        return abs(self.result - self.recorded) <= self.tolerance


@dataclass(frozen=True)
class Worked:
    """What a derivation function returns; ``magnitude`` is the size of the terms added up."""

    lines: tuple[str, ...]
    result: float
    magnitude: float


class NotKept(LookupError):
    """An operand was left out for the byte budget; ``step`` and ``layer`` say what to replay."""

    def __init__(self, step: int, layer: int | None) -> None:
        super().__init__(f"block {layer} of step {step} is not kept")
        self.step = step
        self.layer = layer


class NoArithmetic(LookupError):
    """There is nothing to work out with; the message says why."""


Derive = Callable[["Bench", Cell], Worked]
_DERIVATIONS: dict[str, Derive] = {}


def derives(*short_names: str) -> Callable[[Derive], Derive]:
    """Decorator: the function works out cells of arrays of these short names."""

    def register(function: Derive) -> Derive:
        _DERIVATIONS.update(dict.fromkeys(short_names, function))
        return function

    return register


def derive(moment: Moment, operation: Operation, cell: Cell, recorded: float) -> Derivation:
    """Work a cell of an operation's output out again.

    Raises:
        NotKept: an operand was left out for the byte budget.
        NoArithmetic: the model has no weights to look at, or nobody wrote down this arithmetic.
    """
    for module in MODULES:
        import_module(f"decoder_gui.viewdata.{module}")
    copied = operation.kind is Kind.CACHE  # what it shows is another operation's output
    function = _DERIVATIONS.get("cache" if copied else cell.short)
    if function is None:
        raise NoArithmetic(f"the arithmetic of {cell.short} is not written down")
    bench = Bench(moment, operation)
    with np.errstate(all="ignore"):
        worked = function(bench, cell)
    tolerance = max(ROUNDING * bench.epsilon * worked.magnitude, 1e-300)
    return Derivation(worked.lines, worked.result, float(recorded), tolerance)


def short_name(array: str) -> str:
    """``attn.scores`` for ``blocks.2.attn.scores``."""
    return array.split(".", 2)[2] if array.startswith("blocks.") else array


class Bench:
    """Operands of one operation: recorded rows and weights, as float64."""

    def __init__(self, moment: Moment, operation: Operation) -> None:
        step = moment.step
        assert step is not None
        self.moment = moment
        self.operation = operation
        self.step: Step = step
        self.spelled = moment.model.spelled_out
        self.digits = SPELLED_DIGITS if self.spelled else 3
        single = moment.model.bytes_per_value <= 4
        self.epsilon = float(np.finfo(np.float32 if single else np.float64).eps)

    def row(self, name: str, position: int, head: int | None = None) -> Doubles:
        """The last axis of a recorded array at an absolute position, of whichever step holds it."""
        step = self._step_of(position)
        array = self.moment.array(step.index, name)
        if array is None:
            if self.moment.trace.presence(step.index, name) is Presence.EVICTED:
                producer = self.moment.trace.operations[self.moment.trace.producer(name)]
                raise NotKept(step.index, producer.layer)
            raise NoArithmetic(f"{name} of position {position} is not recorded")
        # Fewer rows than positions means the last ones only: logits, as a rule.
        at = position - (step.last - array.shape[-2])
        if not 0 <= at < array.shape[-2]:
            raise NoArithmetic(f"{name} of position {position} was not computed")
        found: Doubles = np.asarray(array[at] if head is None else array[head, at], np.float64)
        return found

    def column(self, name: str, head: int, column: int, positions: int) -> Doubles:
        """One coordinate of a recorded array at all positions below a number, (positions,)."""
        parts: list[Array] = []
        for step in self.moment.trace.steps:
            if step.first >= positions:
                break
            held = self.moment.array(step.index, name)
            if held is None:
                self.row(name, step.first, head)  # says why
                raise NoArithmetic(f"{name} of step {step.index} is not recorded")
            parts.append(held[head, : positions - step.first, column])
        return np.concatenate(parts, dtype=np.float64)

    def parameter(self, name: str) -> Array:
        """A weight; its absence means that there is no arithmetic to show."""
        found = self.optional(name)
        if found is None:
            raise NoArithmetic(f"the weight {name} is not at hand")
        return found

    def optional(self, name: str) -> Array | None:
        """A weight, or None where the model has none of that name, such as a bias."""
        weights = self.moment.model.weights
        return None if weights is None else weights.parameter(name)

    @property
    def weights(self) -> Weights:
        weights = self.moment.model.weights
        if weights is None:
            raise NoArithmetic("the weights of this model are not at hand")
        return weights

    def number(self, value: float) -> str:
        """A number in the digits that suit the model."""
        return format_value(value, self.digits)

    def factor(self, value: float) -> str:
        """A number as a factor or a summand: negative ones in brackets."""
        text = self.number(value)
        return f"({text})" if text.startswith("-") else text

    def sum_text(self, terms: Sequence[float]) -> str:
        """Every summand, ``a + b + (-c)``: for the model whose numbers are all written out."""
        return " + ".join(self.factor(term) for term in terms)

    def products(self, left: Doubles, right: Doubles) -> str:
        """All products of a dot product, or the first and the largest few with the count."""
        pairs = (
            [
                f"{self.factor(a)}×{self.factor(b)}"
                for a, b in zip(left.tolist(), right.tolist(), strict=True)
            ]
            if self.spelled
            else []
        )
        if self.spelled:
            return " + ".join(pairs)

        def term(i: int) -> str:
            return f"{self.factor(float(left[i]))}×{self.factor(float(right[i]))}"

        terms = left * right
        if terms.size <= FIRST_TERMS + LARGEST_TERMS:
            return " + ".join(term(i) for i in range(terms.size))
        largest = np.argsort(-np.abs(np.nan_to_num(terms)), kind="stable")[:LARGEST_TERMS]
        shown = ", ".join(f"[{i}] {term(i)} = {self.number(float(terms[i]))}" for i in largest)
        first = " + ".join(term(i) for i in range(FIRST_TERMS))
        return f"{first} + … ({terms.size:,} products; largest {shown})"

    def _step_of(self, position: int) -> Step:
        for step in (self.step, *self.moment.trace.steps):
            if step.first <= position < step.last:
                return step
        raise NoArithmetic(f"position {position} does not exist")


def dot(left: Doubles, right: Array) -> tuple[float, float]:
    """A dot product in float64, and the sum of its terms' sizes."""
    terms = left * np.asarray(right, np.float64)
    return float(terms.sum()), float(np.abs(terms).sum())
