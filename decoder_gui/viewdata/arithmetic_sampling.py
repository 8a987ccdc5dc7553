"""Arithmetic of the sampler: from a logit to the probability that the token is drawn with."""

from __future__ import annotations

import math

import numpy as np

from decoder_gui.viewdata.arithmetic import Bench, Cell, NoArithmetic, Worked, derives
from decoder_gui.viewdata.numbers import plural
from model.sampling import Distribution


def _shares(bench: Bench, cell: Cell, temperature: float, symbol: str) -> Worked:
    """A softmax of logits / temperature."""
    logits = bench.row("logits", cell.position)
    number, factor, i = bench.number, bench.factor, cell.column
    peak, own = float(logits.max()), float(logits[i])
    powers = np.exp((logits - peak) / temperature)
    total, power = float(powers.sum()), math.exp((own - peak) / temperature)
    over = "" if temperature == 1.0 else f" / {temperature:g}"
    inner = f"({number(own)} - {factor(peak)}){over}" if over else f"{number(own)} - {factor(peak)}"
    every = f"(l - {factor(peak)}){over}" if over else f"l - {factor(peak)}"
    result = power / total
    lines = [
        f"{symbol}[{i}] = exp({inner}) / Σ exp({every}) = "
        f"{'1' if power == 1.0 else number(power)} / {number(total)} = {number(result)}"
    ]
    if bench.spelled:
        terms = " + ".join(
            f"exp(({number(float(logit))} - {factor(peak)}){over})" for logit in logits
        )
        lines.append(f"Σ = {terms} = {bench.sum_text(powers.tolist())} = {number(total)}")
    else:
        lines.append(f"Σ over {plural(logits.size, 'logit')}, the largest {number(peak)}")
    size = max(result, 1e-30) * (1.0 + (abs(own) + abs(peak)) / temperature)
    return Worked(tuple(lines), result, size)


@derives("raw")
def raw(bench: Bench, cell: Cell) -> Worked:
    """The softmax of the logits as they are."""
    return _shares(bench, cell, 1.0, "raw")


@derives("tempered")
def tempered(bench: Bench, cell: Cell) -> Worked:
    """The softmax of logits divided by the temperature; 0 puts everything on the best one."""
    temperature = _distribution(bench).config.temperature
    if temperature > 0:
        return _shares(bench, cell, temperature, "tempered")
    best = int(bench.row("logits", cell.position).argmax())
    result = 1.0 if cell.column == best else 0.0
    text = (
        f"tempered[{cell.column}] = {result:g}: at temperature 0 the highest logit, that of "
        f"token {best}, is taken"
    )
    return Worked((text,), result, 1.0)


@derives("final")
def final(bench: Bench, cell: Cell) -> Worked:
    """The tempered probability over the mass that was kept, or 0 where a stage cut the token."""
    shown, i, number = _distribution(bench), cell.column, bench.number
    cut = shown.cut_name(i)
    if cut is not None:
        return Worked((f"final[{i}] = 0: cut by {cut}",), 0.0, 1.0)
    share = float(shown.tempered[i])
    mass = math.fsum(shown.tempered[shown.kept].tolist())
    result = share / mass
    if bench.spelled:
        kept = bench.sum_text([float(shown.tempered[token]) for token in shown.kept])
    else:
        kept = f"sum over {plural(shown.kept_count, 'token')} kept"
    lines = (
        f"final[{i}] = tempered[{i}] / kept mass = {number(share)} / {number(mass)} = "
        f"{number(result)}",
        f"kept mass = {kept} = {number(mass)}",
    )
    return Worked(lines, result, 1.0)


def _distribution(bench: Bench) -> Distribution:
    shown = bench.moment.distribution
    if shown is None:
        raise NoArithmetic(bench.moment.sampling_refusal or "nothing has been sampled yet")
    return shown
