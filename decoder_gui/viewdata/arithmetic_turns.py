"""Arithmetic of rotary positions: one coordinate of a query or a key, turned with its partner."""

from __future__ import annotations

import math

from decoder_gui.viewdata.arithmetic import Bench, Cell, NoArithmetic, Worked, derives, recorded
from decoder_gui.viewdata.operands import Constant, Operand
from decoder_gui.viewdata.rounding import FUNCTION_ROUNDINGS


@derives("attn.rot_q", "attn.rot_k")
def turned(bench: Bench, cell: Cell) -> Worked:
    """One coordinate after its pair was turned by the angle of its position."""
    rotary = bench.weights.rotary
    if rotary is None:
        raise NoArithmetic("how rotary positions turn is not known")
    name = bench.operation.inputs[bench.operation.outputs.index(cell.array)]
    row = bench.row(name, cell.position, cell.head)
    symbol = cell.short.removeprefix("attn.rot_")
    i, pairs, number, factor = cell.column, rotary.dims // 2, bench.number, bench.factor
    left = f"rot_{symbol}[{i}]"

    def read(at: int) -> Operand:
        return recorded(Cell(name, cell.position, cell.head, at), row[at], cell)

    if i >= rotary.dims:
        value = float(row[i])
        text = f"{left} = {symbol}[{i}] = {number(value)}: only {rotary.dims} numbers are turned"
        return Worked((text,), value, 0.0, (read(i),))
    first = i < pairs
    pair = i if first else i - pairs
    frequency = float(rotary.frequencies[pair])
    angle = cell.position * frequency
    cosine, sine = math.cos(angle), math.sin(angle)
    own, other = float(row[i]), float(row[i + pairs if first else i - pairs])
    partner, sign = (i + pairs, "-") if first else (i - pairs, "+")
    result = own * cosine - other * sine if first else own * cosine + other * sine
    front = after = ""
    if rotary.magnitude != 1.0:
        result *= rotary.magnitude
        front, after = f"{number(rotary.magnitude)} × (", ")"
    lines = (
        f"{left} = {front}{symbol}[{i}]·cos t {sign} {symbol}[{partner}]·sin t{after} = "
        f"{front}{factor(own)}×{factor(cosine)} {sign} {factor(other)}×{factor(sine)}{after} = "
        f"{number(result)}",
        f"t = position × frequency[{pair}] = {cell.position} × {number(frequency)} = "
        f"{number(angle)}",
    )
    words = f"of the angle t of position {cell.position} and pair {pair}"
    given = (
        Operand("cos t", cosine, Constant(f"cosine {words}")),
        Operand("sin t", sine, Constant(f"sine {words}")),
    )
    # The engine's angle is rounded, which moves cosine and sine by that much; then both of them,
    # the magnitude and its product, the two products and their sum are.
    roundings = abs(angle) + FUNCTION_ROUNDINGS + 4
    bound = bench.rounding.unit * roundings * (abs(own) + abs(other)) * rotary.magnitude
    return Worked(lines, result, bound, (read(i), read(partner), *given))
