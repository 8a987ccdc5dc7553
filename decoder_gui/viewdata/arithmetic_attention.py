"""Arithmetic of attention: where one position looks at others. Keys come from all steps so far."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from decoder_gui.viewdata.arithmetic import Bench, Cell, Worked, derives, dot, recorded
from decoder_gui.viewdata.numbers import plural
from decoder_gui.viewdata.operands import Constant, Operand, Sum
from decoder_gui.viewdata.rounding import FUNCTION_ROUNDINGS


def _kv_head(bench: Bench, head: int) -> int:
    """The key/value head that a query head reads."""
    shape = bench.moment.model.shape
    return head // (shape.num_heads // shape.kv_heads)


@derives("attn.scores")
def score(bench: Bench, cell: Cell) -> Worked:
    """One query against one key."""
    assert cell.head is not None
    key, number = cell.column, bench.number
    query_name, key_name = bench.operation.inputs
    if key > cell.position:
        text = f"score[{key}] = -inf: key {key} comes after query {cell.position}, so it is masked"
        return Worked((text,), -math.inf, 0.0)
    window = bench.operation.window
    if window and key <= cell.position - window:
        text = (
            f"score[{key}] = -inf: query {cell.position} sees {plural(window, 'key')} up to its "
            f"own, so key {key} is masked"
        )
        return Worked((text,), -math.inf, 0.0)
    q = bench.row(query_name, cell.position, cell.head)
    kv_head = _kv_head(bench, cell.head)
    k = bench.row(key_name, key, kv_head)
    total, size = dot(q, k)
    root = math.sqrt(q.size)
    result = total / root
    if bench.spelled:
        products = bench.products(q, k)
        lines: tuple[str, ...] = (
            f"score[{key}] = q·k[{key}] / √{q.size} = ({products}) / {number(root)} = "
            f"{number(total)} / {number(root)} = {number(result)}",
        )
    else:
        lines = (
            f"score[{key}] = q·k[{key}] / √{q.size} = {number(total)} / {number(root)} = "
            f"{number(result)}",
        )

    def factors(i: int) -> tuple[Operand, ...]:
        return (
            recorded(Cell(query_name, cell.position, cell.head, i), q[i], cell),
            recorded(Cell(key_name, key, kv_head, i), k[i], cell),
        )

    # A rounding for each product and sum, and two for the scale and its product.
    bound = bench.rounding.gamma(q.size + 2) * size / root
    scale = Operand(f"√{q.size}", root, Constant("the root of the head width divides the sum"))
    return Worked(lines, result, bound, (scale,), (Sum(f"q·k[{key}]", q * k, factors),))


@derives("attn.pattern")
def weight(bench: Bench, cell: Cell) -> Worked:
    """One score's share of the row."""
    assert cell.head is not None
    key, number, factor = cell.column, bench.number, bench.factor
    name = bench.operation.inputs[0]
    scores = bench.row(name, cell.position, cell.head)
    own = float(scores[key])

    def score_of(i: int) -> tuple[Operand, ...]:
        return (recorded(Cell(name, cell.position, cell.head, i), scores[i], cell),)

    if own == -math.inf:
        text = f"weight[{key}] = 0: key {key} is masked, its score is -inf and exp(-inf) = 0"
        return Worked((text,), 0.0, 0.0, score_of(key))
    seen = scores[np.isfinite(scores)]
    peak = float(scores.max())
    powers = np.exp(scores - peak)
    total, power = float(powers.sum()), math.exp(own - peak) if own <= peak else math.nan
    result = power / total
    lines = [
        f"weight[{key}] = exp({number(own)} - {factor(peak)}) / Σ exp(score - {factor(peak)}) = "
        f"{_short(bench, power)} / {number(total)} = {number(result)}"
    ]
    if bench.spelled:
        terms = " + ".join(f"exp({number(float(s))} - {factor(peak)})" for s in seen)
        values = bench.sum_text(powers[np.isfinite(scores)].tolist())
        lines.append(f"Σ exp = {terms} = {values} = {number(total)}")
    else:
        lines.append(
            f"Σ over {plural(seen.size, 'score')}, the largest {number(peak)} at key "
            f"{int(scores.argmax())}{'; masked ones add 0' if seen.size < scores.size else ''}"
        )
    # exp turns the rounding of a difference into a relative error; the sum has the mean of them.
    apart = np.where(powers > 0, peak - scores, 0.0)
    shifts = abs(own - peak) + float((powers * apart).sum()) / total
    roundings = shifts + 2 * FUNCTION_ROUNDINGS + 2
    relative = bench.rounding.gamma(seen.size) + bench.rounding.unit * roundings
    return Worked(
        tuple(lines),
        result,
        result * relative + bench.rounding.smallest,
        _own_and_largest(score_of, key, int(scores.argmax())),
        (Sum(f"exp(score - {factor(peak)})", powers, score_of, "exp"),),
    )


@derives("attn.z")
def mixed_value(bench: Bench, cell: Cell) -> Worked:
    """One coordinate of the values that a query sees, each times its weight."""
    assert cell.head is not None
    pattern_name, value_name = bench.operation.inputs
    weights = bench.row(pattern_name, cell.position, cell.head)
    head = _kv_head(bench, cell.head)
    seen = np.flatnonzero(weights != 0)
    values = bench.column(value_name, head, cell.column, weights.size)[seen]
    total, size = dot(weights[seen], values)
    bound = bench.rounding.gamma(weights.size) * size

    def factors(at: int) -> tuple[Operand, ...]:
        key = int(seen[at])
        return (
            recorded(Cell(pattern_name, cell.position, cell.head, key), weights[key], cell),
            recorded(Cell(value_name, key, head, cell.column), values[at], cell),
        )

    sums = (Sum(f"weight × v[:, {cell.column}]", weights[seen] * values, factors),)
    i, number = cell.column, bench.number
    head_text = f"z[{i}] = Σ weight[key] × v[key][{i}] = "
    if bench.spelled:
        products = bench.products(weights[seen], values)
        return Worked((f"{head_text}{products} = {number(total)}",), total, bound, (), sums)
    return Worked((head_text + number(total),), total, bound, (), sums)


@derives("cache")
def cached_row(bench: Bench, cell: Cell) -> Worked:
    """A number that goes into the cache as it is."""
    name = "V" if cell.short == "attn.v" else "K"
    value = float(bench.row(cell.array, cell.position, cell.head)[cell.column])
    layer = bench.operation.layer
    text = (
        f"{name}[layer {layer}][head {cell.head}][position {cell.position}][{cell.column}] ← "
        f"{cell.short.removeprefix('attn.')}[{cell.column}] = {bench.number(value)}"
    )
    source = Cell(cell.array, cell.position, cell.head, cell.column)
    return Worked((text,), value, 0.0, (recorded(source, value, cell),))


def _own_and_largest(
    operand: Callable[[int], tuple[Operand, ...]], own: int, largest: int
) -> tuple[Operand, ...]:
    """What a softmax reads of its row by name: once, where they are one and the same."""
    return tuple(each for at in dict.fromkeys((own, largest)) for each in operand(at))


def _short(bench: Bench, value: float) -> str:
    return "1" if value == 1.0 else bench.number(value)
