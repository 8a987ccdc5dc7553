"""Arithmetic of what each position does by itself: tables, norms, matrices, bends, sums."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from decoder_gui.viewdata.arithmetic import (
    Bench,
    Cell,
    Doubles,
    Worked,
    derives,
    dot,
    recorded,
    short_name,
)
from decoder_gui.viewdata.operands import Constant, Operand, Parameter, Sum

MATRICES = {
    "attn.q": ("q", "n", "attn.W_Q", "attn.b_Q"),
    "attn.k": ("k", "n", "attn.W_K", "attn.b_K"),
    "attn.v": ("v", "n", "attn.W_V", "attn.b_V"),
    "attn.out": ("o", "z", "attn.W_O", "attn.b_O"),
    "mlp.gate": ("e", "m", "mlp.W_gate", "mlp.b_gate"),
    "mlp.pre": ("h", "m", "mlp.W_in", "mlp.b_in"),
    "mlp.out": ("f", "g", "mlp.W_out", "mlp.b_out"),
    "logits": ("logit", "y", "unembed.W_U", "unembed.b_U"),
}
"""Short name of an array -> what it is called in a formula, its input, its matrix, its bias."""


@derives("embed", "pos_embed")
def table_row(bench: Bench, cell: Cell) -> Worked:
    """A row of a table: the token's, or the position's."""
    where = cell.position
    if cell.array == "embed":
        token = bench.moment.trace.token_ids[where]
        entry = bench.weight(f"W_E[{token}, {cell.column}]", "embed.W_E", token, cell.column)
        text = f"E[token {token}][{cell.column}] = {bench.number(entry.value)}"
        return Worked((text,), entry.value, 0.0, (entry, _token(bench, where, token)))
    entry = bench.weight(f"W_pos[{where}, {cell.column}]", "pos_embed.W_pos", where, cell.column)
    text = f"P[position {where}][{cell.column}] = {bench.number(entry.value)}"
    return Worked((text,), entry.value, 0.0, (entry,))


def _token(bench: Bench, position: int, token: int) -> Operand:
    """The token of a position: given with the prompt, or chosen by the step before."""
    step = bench.step_of(position)
    if step.index == 0:
        return Operand("token", float(token), Constant("a token of the prompt"))
    # A place to go, more than a number: its row of probabilities is where the choice was made.
    return Operand("token", float(token), Cell("final", position - 1, None, token))


@derives("resid_pre", "resid_mid", "resid_post")
def residual_sum(bench: Bench, cell: Cell) -> Worked:
    """The stream plus its updates, or the token's row plus the position's, if it has one."""
    i, number = cell.column, bench.number
    if bench.operation.inputs:
        names = bench.operation.inputs
        symbols = tuple(short_name(name).removeprefix("attn.") for name in names)
    else:
        names = tuple(name for name in bench.operation.outputs if name != cell.array)
        token = bench.moment.trace.token_ids[cell.position]
        symbols = (f"E[token {token}]", f"P[position {cell.position}]")[: len(names)]
    terms = [float(bench.row(name, cell.position)[i]) for name in names]
    result = math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms)
    left = short_name(cell.array)
    text = f"{left}[{i}] = {' + '.join(f'{symbol}[{i}]' for symbol in symbols)} = "
    if len(terms) > 1:
        text += f"{bench.sum_text(terms)} = "
    operands = tuple(
        recorded(Cell(name, cell.position, None, i), term, cell)
        for name, term in zip(names, terms, strict=True)
    )
    # One rounding for each sum of two; a copy has none.
    bound = bench.rounding.gamma(len(terms) - 1) * sum(map(abs, terms)) if len(terms) > 1 else 0.0
    return Worked((text + number(result),), result, bound, operands)


@derives("attn.q_norm", "attn.k_norm")
def head_norm(bench: Bench, cell: Cell) -> Worked:
    """One coordinate of a query or a key brought to the size that scores are made of."""
    name = bench.operation.inputs[bench.operation.outputs.index(cell.array)]
    x = bench.row(name, cell.position, cell.head)
    return _rms_norm(bench, cell, name, x)


@derives("ln1", "ln2", "ln_final")
def norm(bench: Bench, cell: Cell) -> Worked:
    """One coordinate brought to the size that the next part reads."""
    name = bench.operation.inputs[0]
    x = bench.row(name, cell.position)
    if bench.weights.norm == "RMSNorm":
        return _rms_norm(bench, cell, name, x)
    return _layer_norm(bench, cell, name, x)


def _layer_norm(bench: Bench, cell: Cell, name: str, x: Doubles) -> Worked:
    number, factor, i = bench.number, bench.factor, cell.column
    epsilon = bench.weights.norm_epsilon
    learned = (*_learned(bench, cell, "w", "g"), *_learned(bench, cell, "b", "b"))
    gain = learned[0].value if learned and learned[0].label.startswith("g") else 1.0
    shift = learned[-1].value if learned and learned[-1].label.startswith("b") else 0.0
    mean = float(x.mean())
    centred = x - mean
    variance = float((centred**2).mean())
    root = math.sqrt(variance + epsilon)
    value = float(x[i])
    result = (value - mean) / root * gain + shift
    lines = (
        f"{cell.short}[{i}] = (x[{i}] - mean) / √(var + {epsilon:g}) × g[{i}] + b[{i}] = "
        f"({number(value)} - {factor(mean)}) / {number(root)} × {factor(gain)} + {factor(shift)}"
        f" = {number(result)}",
        f"mean = Σ x / {x.size} = {number(float(x.sum()))} / {x.size} = {number(mean)}",
        f"var = Σ (x - mean)² / {x.size} = {number(float((centred**2).sum()))} / {x.size}"
        f" = {number(variance)}",
    )
    # Off are: the mean, so each difference, so the variance; then root, quotient, gain and shift.
    unit = bench.rounding.unit
    off_mean = bench.rounding.gamma(x.size + 1) * float(np.abs(x).mean())
    off_centred = off_mean + unit * np.abs(centred)
    off_variance = (
        2 * float((np.abs(centred) * off_centred).mean())
        + float((off_centred**2).mean())
        + bench.rounding.gamma(x.size + 2) * variance
        + 2 * unit * epsilon
    )
    scaled = abs(centred[i] / root * gain)
    bound = (
        float(off_centred[i]) / root * abs(gain)
        + scaled * (off_variance / (2 * root * root) + 4 * unit)
        + unit * abs(result)
    )
    own, read = _own_and_all(cell, name, x)
    sums = (Sum("x", x, read, ""), Sum("(x - mean)²", centred**2, read, "square"))
    return Worked(lines, result, float(bound), (own, *learned), sums)


def _rms_norm(bench: Bench, cell: Cell, name: str, x: Doubles) -> Worked:
    number, factor, i = bench.number, bench.factor, cell.column
    epsilon = bench.weights.norm_epsilon
    learned = _learned(bench, cell, "w", "g")
    gain = learned[0].value if learned else 1.0
    squares = x * x
    mean = float(squares.mean())
    root = math.sqrt(mean + epsilon)
    value = float(x[i])
    result = gain * value / root
    written = (
        f"({' + '.join(f'{factor(float(each))}²' for each in x)})" if bench.spelled else "Σ x²"
    )
    lines = (
        f"{cell.short}[{i}] = g[{i}] × x[{i}] / rms = {factor(gain)} × {factor(value)} / "
        f"{number(root)} = {number(result)}",
        f"rms = √({written} / {x.size} + {epsilon:g}) = "
        f"√({number(mean)} + {epsilon:g}) = {number(root)}",
    )
    # The mean square, its sum with epsilon, and the root halve; then quotient and gain.
    relative = bench.rounding.gamma(x.size + 3) / 2 + 3 * bench.rounding.unit
    own, read = _own_and_all(cell, name, x)
    sums = (Sum("x²", squares, read, "square"),)
    return Worked(lines, result, abs(result) * relative, (own, *learned), sums)


def _own_and_all(
    cell: Cell, name: str, x: Doubles
) -> tuple[Operand, Callable[[int], tuple[Operand, ...]]]:
    """What a norm reads at the cell's own place, and at any."""

    def read(at: int) -> tuple[Operand, ...]:
        return (recorded(Cell(name, cell.position, cell.head, at), x[at], cell),)

    return read(cell.column)[0], read


@derives(*MATRICES)
def matrix_column(bench: Bench, cell: Cell) -> Worked:
    """A vector times one column of a matrix, plus a bias."""
    symbol, read, matrix, bias = MATRICES[cell.short]
    prefix = "" if cell.array == cell.short else cell.array.removesuffix(cell.short)
    weight, i = bench.parameter(prefix + matrix), cell.column
    offset = bench.optional(prefix + bias)
    source = bench.operation.inputs[0]
    where = f"[{i}]"
    if cell.head is not None:
        vector, column = bench.row(source, cell.position), weight[cell.head, :, i]
        offset = None if offset is None else offset[cell.head]
        where = f"[head {cell.head}][{i}]"
    elif cell.short == "attn.out":
        # The heads' results side by side: their rows of the matrix lie in the same order.
        heads = range(weight.shape[0])
        vector = np.concatenate([bench.row(source, cell.position, head) for head in heads])
        column = weight[:, :, i].reshape(-1)
    else:
        vector, column = bench.row(source, cell.position), weight[:, i]
    total, size = dot(vector, column)
    column = np.asarray(column, np.float64)
    name = matrix.rpartition(".")[2]

    def factors(at: int) -> tuple[Operand, ...]:
        head = cell.head
        index: tuple[int, ...] = (at, i)
        place = Cell(source, cell.position, None, at)
        if head is not None:
            index = (head, at, i)
        elif cell.short == "attn.out":
            head, inner = divmod(at, weight.shape[1])
            index, place = (head, inner, i), Cell(source, cell.position, head, inner)
        label = f"{name}[{', '.join(map(str, index))}]"
        entry = Operand(label, float(column[at]), Parameter(prefix + matrix, index))
        return recorded(place, vector[at], cell), entry

    sums = (Sum(f"{read}·{name}[:, {i}]", vector * column, factors),)
    if offset is None:
        bound = bench.rounding.gamma(vector.size) * size
        head = f"{symbol}{where} = Σ {read}·{name}[:, {i}] = "
        products = f"{bench.products(vector, column)} = " if bench.spelled else ""
        line = f"{head}{products}{bench.number(total)}"
        return Worked((line,), total, bound, (), sums)
    added = float(offset[i])
    result = total + added
    text = (
        f"{symbol}{where} = Σ {read}·{name}[:, {i}] + b[{i}] = {bench.number(total)} + "
        f"{bench.factor(added)} = {bench.number(result)}"
    )
    at_bias = (i,) if cell.head is None else (cell.head, i)
    given = Operand(f"b[{', '.join(map(str, at_bias))}]", added, Parameter(prefix + bias, at_bias))
    bound = bench.rounding.gamma(vector.size + 1) * (size + abs(added))
    more = (f"Σ = {bench.products(vector, column)}",) if bench.spelled else ()
    return Worked((text, *more), result, bound, (given,), sums)


def _learned(bench: Bench, cell: Cell, which: str, symbol: str) -> tuple[Operand, ...]:
    """The element of a norm's learned vector at the cell's place, if it has that vector."""
    name = f"{cell.array}.{which}"
    if bench.optional(name) is None:
        return ()
    return (bench.weight(f"{symbol}[{cell.column}]", name, cell.column),)
