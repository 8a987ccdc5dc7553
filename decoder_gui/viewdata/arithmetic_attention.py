"""Arithmetic of attention: where one position looks at others. Keys come from all steps so far."""

from __future__ import annotations

import math

import numpy as np

from decoder_gui.viewdata.arithmetic import Bench, Cell, Worked, derives, dot
from decoder_gui.viewdata.numbers import plural


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
        return Worked((text,), -math.inf, 1.0)
    window = bench.operation.window
    if window and key <= cell.position - window:
        text = (
            f"score[{key}] = -inf: query {cell.position} sees {plural(window, 'key')} up to its "
            f"own, so key {key} is masked"
        )
        return Worked((text,), -math.inf, 1.0)
    q = bench.row(query_name, cell.position, cell.head)
    k = bench.row(key_name, key, _kv_head(bench, cell.head))
    total, size = dot(q, k)
    root = math.sqrt(q.size)
    result = total / root
    products = bench.products(q, k)
    if bench.spelled:
        lines: tuple[str, ...] = (
            f"score[{key}] = q·k[{key}] / √{q.size} = ({products}) / {number(root)} = "
            f"{number(total)} / {number(root)} = {number(result)}",
        )
    else:
        lines = (
            f"score[{key}] = q·k[{key}] / √{q.size} = {number(total)} / {number(root)} = "
            f"{number(result)}",
            f"q·k[{key}] = {products}",
        )
    return Worked(lines, result, size / root)


@derives("attn.pattern")
def weight(bench: Bench, cell: Cell) -> Worked:
    """One score's share of the row."""
    assert cell.head is not None
    key, number, factor = cell.column, bench.number, bench.factor
    scores = bench.row(bench.operation.inputs[0], cell.position, cell.head)
    own = float(scores[key])
    if own == -math.inf:
        text = f"weight[{key}] = 0: key {key} is masked, its score is -inf and exp(-inf) = 0"
        return Worked((text,), 0.0, 1.0)
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
    # exp turns the rounding of the score into a relative error of the weight.
    return Worked(tuple(lines), result, max(result, 1e-30) * (1.0 + abs(own) + abs(peak)))


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
    i, number, factor = cell.column, bench.number, bench.factor
    head_text = f"z[{i}] = Σ weight[key] × v[key][{i}] = "
    if bench.spelled:
        products = bench.products(weights[seen], values)
        return Worked((f"{head_text}{products} = {number(total)}",), total, size)
    order = np.argsort(-np.abs(np.nan_to_num(weights[seen] * values)), kind="stable")[:3]
    pieces = bench.moment.pieces
    largest = " + ".join(
        f"{factor(float(weights[seen[j]]))}×{factor(float(values[j]))} "
        f"(key {seen[j]} {pieces[seen[j]].text})"
        for j in order
    )
    rest = f" + … ({plural(seen.size, 'product')})" if seen.size > order.size else ""
    return Worked((head_text + number(total), f"Σ = {largest}{rest}"), total, size)


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
    return Worked((text,), value, abs(value))


def _short(bench: Bench, value: float) -> str:
    return "1" if value == 1.0 else bench.number(value)
