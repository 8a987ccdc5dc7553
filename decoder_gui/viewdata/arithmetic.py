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

from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_value
from decoder_gui.viewdata.operands import (
    Cell,
    Doubles,
    Operand,
    Parameter,
    Sum,
    label_of,
    short_name,
)
from decoder_gui.viewdata.rounding import of_bytes
from decoder_gui.viewdata.weights import Weights
from model.engine import Array
from model.operations import Kind, Operation
from model.trace import Presence, Step

SPELLED_DIGITS = 6

__all__ = [
    "Bench",
    "Cell",
    "Derivation",
    "Doubles",
    "NoArithmetic",
    "NotKept",
    "Worked",
    "derive",
    "derives",
    "dot",
    "recorded",
    "short_name",
]

MODULES = (
    "arithmetic_attention",
    "arithmetic_bends",
    "arithmetic_positions",
    "arithmetic_sampling",
    "arithmetic_turns",
)


@dataclass(frozen=True)
class Derivation:
    """A number worked out again.

    Attributes:
        lines: the arithmetic, most important line first.
        result: in float64.
        recorded: what the engine computed.
        tolerance: how far rounding alone may put them apart (:mod:`.rounding`).
        operands: what goes into it one by one, in the order of the formula.
        sums: what is added up in it, term by term.
    """

    lines: tuple[str, ...]
    result: float
    recorded: float
    tolerance: float
    operands: tuple[Operand, ...] = ()
    sums: tuple[Sum, ...] = ()

    @property
    def difference(self) -> float:
        """How far the two are apart; 0 where both are the same infinity or both no number."""
        if self.result == self.recorded or (math.isnan(self.result) and math.isnan(self.recorded)):
            return 0.0
        return abs(self.result - self.recorded)

    @property
    def verdict(self) -> str:
        """``recomputed 0.347291, recorded 0.347290, difference 6e-08: within rounding``."""
        words = f"recomputed {_six(self.result)}, recorded {_six(self.recorded)}"
        if self.agrees:
            if self.difference == 0:
                return f"{words}: equal"
            return f"{words}, difference {self.difference:.0e}: within rounding"
        if not math.isfinite(self.difference):
            return f"{words}: not rounding"
        words += f", difference {_six(self.difference)}"
        return f"{words}: more than rounding (at most {self.tolerance:.0e})"

    @property
    def short_verdict(self) -> str:
        """The gist of it: ``equal``, ``within rounding (6e-08)`` or ``more than rounding``."""
        if not self.agrees:
            return "more than rounding" if math.isfinite(self.difference) else "not rounding"
        return f"within rounding ({self.difference:.0e})" if self.difference else "equal"

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
    """What a derivation function returns; ``bound`` is how far off rounding may put the engine."""

    lines: tuple[str, ...]
    result: float
    bound: float
    operands: tuple[Operand, ...] = ()
    sums: tuple[Sum, ...] = ()


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
    return Derivation(
        worked.lines, worked.result, float(recorded), worked.bound, worked.operands, worked.sums
    )


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
        self.rounding = of_bytes(moment.model.bytes_per_value)

    def row(self, name: str, position: int, head: int | None = None) -> Doubles:
        """The last axis of a recorded array at an absolute position, of whichever step holds it."""
        step = self.step_of(position)
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
        if self.moment.model.recorded is not None:
            raise NoArithmetic(f"a capture holds no weights, and this number needs {name}")
        weights = self.moment.model.weights
        return None if weights is None else weights.parameter(name)

    @property
    def weights(self) -> Weights:
        weights = self.moment.model.weights or self.moment.model.recorded
        if weights is None:
            raise NoArithmetic("the weights of this model are not at hand")
        return weights

    def weight(self, label: str, name: str, *index: int) -> Operand:
        """One number of a weight as an operand."""
        return Operand(label, float(self.parameter(name)[index]), Parameter(name, index))

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
        """All products of a dot product: for the model whose numbers are all written out."""
        return " + ".join(
            f"{self.factor(a)}×{self.factor(b)}"
            for a, b in zip(left.tolist(), right.tolist(), strict=True)
        )

    def step_of(self, position: int) -> Step:
        """The step that computed a position."""
        for step in (self.step, *self.moment.trace.steps):
            if step.first <= position < step.last:
                return step
        raise NoArithmetic(f"position {position} does not exist")


def dot(left: Doubles, right: Array) -> tuple[float, float]:
    """A dot product in float64, and the sum of its terms' sizes."""
    terms = left * np.asarray(right, np.float64)
    return float(terms.sum()), float(np.abs(terms).sum())


def recorded(cell: Cell, value: float, here: Cell) -> Operand:
    """A recorded number as an operand of the cell ``here``."""
    return Operand(label_of(cell, here), float(value), cell)


def _six(value: float) -> str:
    return format_value(value, 6)
