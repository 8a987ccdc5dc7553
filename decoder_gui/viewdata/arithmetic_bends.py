"""Arithmetic of an MLP's bend: one number, and in a gated MLP the number that it lets through."""

from __future__ import annotations

import math
from collections.abc import Callable

from decoder_gui.viewdata.arithmetic import Bench, Cell, NoArithmetic, Worked, derives

Bent = tuple[float, str, str]
"""A bent number, the rule in symbols with its numbers, and what else there is to say."""


@derives("mlp.post")
def bend(bench: Bench, cell: Cell) -> Worked:
    """The activation function of one number, times another if the MLP is gated."""
    *front, last = bench.operation.inputs
    gated = bool(front)
    value = float(bench.row(front[0] if gated else last, cell.position)[cell.column])
    kind = bench.weights.activation
    if kind not in BENDS:
        raise NoArithmetic(f"the arithmetic of {kind} is not written down")
    i, symbol = cell.column, "e" if gated else "h"
    bent, rule, more = BENDS[kind](bench, value, symbol, i)
    lines = (more,) if more else ()
    if not gated:
        text = f"g[{i}] = {rule} = {bench.number(bent)}"
        return Worked((text, *lines), bent, abs(value))
    up = float(bench.row(last, cell.position)[i])
    result = bent * up
    text = (
        f"g[{i}] = {kind}(e[{i}]) × h[{i}] = {bench.factor(bent)} × {bench.factor(up)} = "
        f"{bench.number(result)}"
    )
    own = f"{kind}(e[{i}]) = {rule} = {bench.number(bent)}"
    return Worked((text, own, *lines), result, abs(value * up))


def _relu(bench: Bench, value: float, symbol: str, i: int) -> Bent:
    return max(value, 0.0), f"max({symbol}[{i}], 0) = max({bench.number(value)}, 0)", ""


def _gelu(bench: Bench, value: float, symbol: str, i: int) -> Bent:
    inner = math.sqrt(2.0 / math.pi) * (value + 0.044715 * value**3)
    bent = math.tanh(inner)
    number, factor = bench.number, bench.factor
    rule = (
        f"{symbol}/2 × (1 + tanh(√(2/π) × ({symbol} + 0.044715 {symbol}³))) = {number(value / 2)} ×"
        f" (1 + {factor(bent)})"
    )
    more = f"tanh({number(inner)}) = {number(bent)} with {symbol}[{i}] = {number(value)}"
    return 0.5 * value * (1.0 + bent), rule, more


def _exact_gelu(bench: Bench, value: float, symbol: str, i: int) -> Bent:
    inner = value / math.sqrt(2.0)
    bent = math.erf(inner)
    number, factor = bench.number, bench.factor
    rule = f"{symbol}/2 × (1 + erf({symbol}/√2)) = {number(value / 2)} × (1 + {factor(bent)})"
    more = f"erf({number(inner)}) = {number(bent)} with {symbol}[{i}] = {number(value)}"
    return 0.5 * value * (1.0 + bent), rule, more


def _silu(bench: Bench, value: float, symbol: str, i: int) -> Bent:
    # exp(-x) of a very negative number is beyond what a float holds; the result is 0 then.
    power = math.exp(-value) if value > -700 else math.inf
    number = bench.number
    rule = f"{symbol} / (1 + exp(-{symbol})) = {number(value)} / (1 + {number(power)})"
    more = f"exp({number(-value)}) = {number(power)} with {symbol}[{i}] = {number(value)}"
    return value / (1.0 + power), rule, more


BENDS: dict[str, Callable[[Bench, float, str, int], Bent]] = {
    "ReLU": _relu,
    "GELU": _gelu,
    "exact GELU": _exact_gelu,
    "SiLU": _silu,
}
"""What an engine calls its activation -> its arithmetic."""
