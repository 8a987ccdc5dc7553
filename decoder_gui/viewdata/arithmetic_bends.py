"""Arithmetic of an MLP's bend: one number, and in a gated MLP the number that it lets through."""

from __future__ import annotations

import math
from collections.abc import Callable

from decoder_gui.viewdata.arithmetic import Bench, Cell, NoArithmetic, Worked, derives, recorded
from decoder_gui.viewdata.rounding import ERF_ERROR, FUNCTION_ROUNDINGS

Bent = tuple[float, str, str, float]
"""A bent number, the rule in symbols with its numbers, what else there is to say, and how far off
rounding may put it."""


@derives("mlp.post")
def bend(bench: Bench, cell: Cell) -> Worked:
    """The activation function of one number, times another if the MLP is gated."""
    *front, last = bench.operation.inputs
    gated = bool(front)
    read = front[0] if gated else last
    value = float(bench.row(read, cell.position)[cell.column])
    bent_of = recorded(Cell(read, cell.position, None, cell.column), value, cell)
    kind = bench.weights.activation
    if kind not in BENDS:
        raise NoArithmetic(f"the arithmetic of {kind} is not written down")
    i, symbol = cell.column, "e" if gated else "h"
    bent, rule, more, bound = BENDS[kind](bench, value, symbol, i)
    lines = (more,) if more else ()
    unit = bench.rounding.unit
    bound += bench.rounding.smallest * (1.0 + abs(value))
    if not gated:
        text = f"g[{i}] = {rule} = {bench.number(bent)}"
        return Worked((text, *lines), bent, bound, (bent_of,))
    up = float(bench.row(last, cell.position)[i])
    result = bent * up
    text = (
        f"g[{i}] = {kind}(e[{i}]) × h[{i}] = {bench.factor(bent)} × {bench.factor(up)} = "
        f"{bench.number(result)}"
    )
    own = f"{kind}(e[{i}]) = {rule} = {bench.number(bent)}"
    passed = recorded(Cell(last, cell.position, None, i), up, cell)
    bound = bound * abs(up) + unit * abs(result) + bench.rounding.smallest
    return Worked((text, own, *lines), result, bound, (bent_of, passed))


def _relu(bench: Bench, value: float, symbol: str, i: int) -> Bent:
    return max(value, 0.0), f"max({symbol}[{i}], 0) = max({bench.number(value)}, 0)", "", 0.0


def _gelu(bench: Bench, value: float, symbol: str, i: int) -> Bent:
    inner = math.sqrt(2.0 / math.pi) * (value + 0.044715 * value**3)
    bent = math.tanh(inner)
    number, factor = bench.number, bench.factor
    rule = (
        f"{symbol}/2 × (1 + tanh(√(2/π) × ({symbol} + 0.044715 {symbol}³))) = {number(value / 2)} ×"
        f" (1 + {factor(bent)})"
    )
    more = f"tanh({number(inner)}) = {number(bent)} with {symbol}[{i}] = {number(value)}"
    result = 0.5 * value * (1.0 + bent)
    # What tanh is given is off by six roundings at most, which its slope makes small again.
    slope = (1.0 - bent * bent) * abs(inner) * 6
    bound = abs(value) / 2 * (slope + FUNCTION_ROUNDINGS * abs(bent) + 1.0 + bent) + abs(result)
    return result, rule, more, bench.rounding.unit * bound


def _exact_gelu(bench: Bench, value: float, symbol: str, i: int) -> Bent:
    inner = value / math.sqrt(2.0)
    bent = math.erf(inner)
    number, factor = bench.number, bench.factor
    rule = f"{symbol}/2 × (1 + erf({symbol}/√2)) = {number(value / 2)} × (1 + {factor(bent)})"
    more = f"erf({number(inner)}) = {number(bent)} with {symbol}[{i}] = {number(value)}"
    result = 0.5 * value * (1.0 + bent)
    # erf's slope is at most 2/√π where its argument, off by two roundings, is small.
    unit = bench.rounding.unit
    bound = abs(value) / 2 * (ERF_ERROR + unit * (1.0 + 1.0 + bent)) + unit * abs(result)
    return result, rule, more, bound


def _silu(bench: Bench, value: float, symbol: str, i: int) -> Bent:
    # exp(-x) of a very negative number is beyond what a float holds; the result is 0 then.
    power = math.exp(-value) if value > -700 else math.inf
    number = bench.number
    rule = f"{symbol} / (1 + exp(-{symbol})) = {number(value)} / (1 + {number(power)})"
    more = f"exp({number(-value)}) = {number(power)} with {symbol}[{i}] = {number(value)}"
    result = value / (1.0 + power)
    share = 1.0 if math.isinf(power) else power / (1.0 + power)
    bound = bench.rounding.unit * abs(result) * (FUNCTION_ROUNDINGS * share + 2)
    return result, rule, more, bound


BENDS: dict[str, Callable[[Bench, float, str, int], Bent]] = {
    "ReLU": _relu,
    "GELU": _gelu,
    "exact GELU": _exact_gelu,
    "SiLU": _silu,
}
"""What an engine calls its activation -> its arithmetic."""
