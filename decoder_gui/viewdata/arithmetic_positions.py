"""Arithmetic of what each position does by itself: tables, norms, matrices, bends, sums."""

from __future__ import annotations

import math

import numpy as np

from decoder_gui.viewdata.arithmetic import (
    Bench,
    Cell,
    Doubles,
    Worked,
    derives,
    dot,
    short_name,
)

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
        value = float(bench.parameter("embed.W_E")[token, cell.column])
        text = f"E[token {token}][{cell.column}] = {bench.number(value)}"
    else:
        value = float(bench.parameter("pos_embed.W_pos")[where, cell.column])
        text = f"P[position {where}][{cell.column}] = {bench.number(value)}"
    return Worked((text,), value, abs(value))


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
    return Worked((text + number(result),), result, sum(map(abs, terms)))


@derives("attn.q_norm", "attn.k_norm")
def head_norm(bench: Bench, cell: Cell) -> Worked:
    """One coordinate of a query or a key brought to the size that scores are made of."""
    name = bench.operation.inputs[bench.operation.outputs.index(cell.array)]
    x = bench.row(name, cell.position, cell.head)
    gain = _element(bench, f"{cell.array}.w", cell.column, 1.0)
    return _rms_norm(bench, cell, x, bench.weights.norm_epsilon, gain)


@derives("ln1", "ln2", "ln_final")
def norm(bench: Bench, cell: Cell) -> Worked:
    """One coordinate brought to the size that the next part reads."""
    x = bench.row(bench.operation.inputs[0], cell.position)
    epsilon = bench.weights.norm_epsilon
    gain = _element(bench, f"{cell.array}.w", cell.column, 1.0)
    shift = _element(bench, f"{cell.array}.b", cell.column, 0.0)
    if bench.weights.norm == "RMSNorm":
        return _rms_norm(bench, cell, x, epsilon, gain)
    return _layer_norm(bench, cell, x, epsilon, gain, shift)


def _layer_norm(
    bench: Bench, cell: Cell, x: Doubles, epsilon: float, gain: float, shift: float
) -> Worked:
    number, factor, i = bench.number, bench.factor, cell.column
    mean = float(x.mean())
    variance = float(((x - mean) ** 2).mean())
    root = math.sqrt(variance + epsilon)
    value = float(x[i])
    result = (value - mean) / root * gain + shift
    lines = (
        f"{cell.short}[{i}] = (x[{i}] - mean) / √(var + {epsilon:g}) × g[{i}] + b[{i}] = "
        f"({number(value)} - {factor(mean)}) / {number(root)} × {factor(gain)} + {factor(shift)}"
        f" = {number(result)}",
        f"mean = Σ x / {x.size} = {number(float(x.sum()))} / {x.size} = {number(mean)}",
        f"var = Σ (x - mean)² / {x.size} = {number(float(((x - mean) ** 2).sum()))} / {x.size}"
        f" = {number(variance)}",
    )
    largest = abs(value) + float(np.abs(x).mean())
    return Worked(lines, result, largest / root * abs(gain) + abs(shift) + abs(result))


def _rms_norm(bench: Bench, cell: Cell, x: Doubles, epsilon: float, gain: float) -> Worked:
    number, factor, i = bench.number, bench.factor, cell.column
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
    return Worked(lines, result, abs(result))


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
    products = bench.products(vector, column)
    if offset is None:
        head = f"{symbol}{where} = Σ {read}·{name}[:, {i}] = "
        if bench.spelled:
            return Worked((f"{head}{products} = {bench.number(total)}",), total, size)
        return Worked((head + bench.number(total), f"Σ = {products}"), total, size)
    added = float(offset[i])
    result = total + added
    text = (
        f"{symbol}{where} = Σ {read}·{name}[:, {i}] + b[{i}] = {bench.number(total)} + "
        f"{bench.factor(added)} = {bench.number(result)}"
    )
    return Worked((text, f"Σ = {products}"), result, size + abs(added))


def _element(bench: Bench, name: str, index: int, absent: float) -> float:
    found = bench.optional(name)
    return absent if found is None else float(found[index])
