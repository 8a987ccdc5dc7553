"""Arithmetic of rotary positions: one coordinate of a query or a key, turned with its partner."""

from __future__ import annotations

import math

from decoder_gui.viewdata.arithmetic import Bench, Cell, NoArithmetic, Worked, derives


@derives("attn.rot_q", "attn.rot_k")
def turned(bench: Bench, cell: Cell) -> Worked:
    """One coordinate after its pair was turned by the angle of its position."""
    rotary = bench.weights.rotary
    if rotary is None:
        raise NoArithmetic("this model has no rotary positions")
    name = bench.operation.inputs[bench.operation.outputs.index(cell.array)]
    row = bench.row(name, cell.position, cell.head)
    symbol = cell.short.removeprefix("attn.rot_")
    i, pairs, number, factor = cell.column, rotary.dims // 2, bench.number, bench.factor
    left = f"rot_{symbol}[{i}]"
    if i >= rotary.dims:
        value = float(row[i])
        text = f"{left} = {symbol}[{i}] = {number(value)}: only {rotary.dims} numbers are turned"
        return Worked((text,), value, abs(value))
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
    # The engine's angle is a float32: its rounding grows with the position.
    return Worked(lines, result, (abs(own) + abs(other)) * (1.0 + abs(angle)) * rotary.magnitude)
