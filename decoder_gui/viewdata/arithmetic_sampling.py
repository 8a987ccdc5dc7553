"""Arithmetic of the sampler: from a logit to the probability that the token is drawn with."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from decoder_gui.viewdata.arithmetic import Bench, Cell, NoArithmetic, Worked, derives, recorded
from decoder_gui.viewdata.numbers import plural
from decoder_gui.viewdata.operands import Constant, Operand, Sum
from decoder_gui.viewdata.rounding import DOUBLE, FUNCTION_ROUNDINGS
from model.engine import Array
from model.sampling import Distribution, distribution_from


def _shares(bench: Bench, cell: Cell, logits: Array, temperature: float, symbol: str) -> Worked:
    """A softmax of logits / temperature."""
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

    written = bench.row("logits", cell.position)  # before any penalty

    def logit_of(token: int) -> tuple[Operand, ...]:
        return (recorded(Cell("logits", cell.position, None, token), written[token], cell),)

    # In float64 whatever the engine: a difference, its division, exp, the sum and the quotient.
    apart = np.where(powers > 0, peak - logits, 0.0)
    shifts = 2 * (abs(own - peak) + float((powers * apart).sum()) / total) / temperature
    relative = DOUBLE.gamma(logits.size) + DOUBLE.unit * (shifts + 2 * FUNCTION_ROUNDINGS + 2)
    read = dict.fromkeys((i, int(logits.argmax())))  # once, where they are one and the same
    operands = tuple(each for token in read for each in logit_of(token))
    if over:
        given = Constant("the temperature, a setting of the sampler")
        operands += (Operand("temperature", temperature, given),)
    return Worked(
        tuple(lines),
        result,
        result * relative + DOUBLE.smallest,
        operands,
        (Sum(f"exp({every})", powers, logit_of, "exp"),),
    )


@derives("raw")
def raw(bench: Bench, cell: Cell) -> Worked:
    """The softmax of the logits as they are."""
    return _shares(bench, cell, bench.row("logits", cell.position), 1.0, "raw")


@derives("tempered")
def tempered(bench: Bench, cell: Cell) -> Worked:
    """The softmax of logits divided by the temperature; 0 puts everything on the best one."""
    shown, i, number = _distribution(bench), cell.column, bench.number
    logits, penalty = shown.penalised.logits, shown.config.repetition_penalty
    if shown.config.temperature > 0:
        worked = _shares(bench, cell, logits, shown.config.temperature, "tempered")
    else:
        best = shown.penalised.best
        result = 1.0 if i == best else 0.0
        text = (
            f"tempered[{i}] = {result:g}: at temperature 0 the highest logit, that of token "
            f"{best}, is taken"
        )
        written = bench.row("logits", cell.position)
        operands = tuple(
            recorded(Cell("logits", cell.position, None, token), written[token], cell)
            for token in dict.fromkeys((i, best))
        )
        worked = Worked((text,), result, 0.0, operands)
    if penalty == 1.0:
        return worked
    before, after = float(shown.ranking.logits[i]), float(logits[i])
    sign = "/" if before > 0 else "×"
    line = (
        f"l[{i}] = {number(before)} {sign} {penalty:g} = {number(after)}: the token has occurred"
        if before != after
        else f"l[{i}] = {number(after)}: the repetition penalty {penalty:g} does not move it"
    )
    given = Operand("penalty", penalty, Constant("the repetition penalty, a setting"))
    return replace(worked, lines=(*worked.lines, line), operands=(*worked.operands, given))


@derives("final")
def final(bench: Bench, cell: Cell) -> Worked:
    """The tempered probability over the mass that was kept, or 0 where a stage cut the token."""
    shown, i, number = _distribution(bench), cell.column, bench.number
    if shown.config != bench.moment.sampling:  # a fault of the sampler
        before = bench.moment.trace.token_ids[: cell.position + 1]
        shown = distribution_from(shown.ranking, bench.moment.sampling, before)
    tempered, kept = shown.tempered, shown.kept

    def share_of(token: int) -> tuple[Operand, ...]:
        return (recorded(Cell("tempered", cell.position, None, token), tempered[token], cell),)

    cut = shown.cut_name(i)
    if cut is not None:
        return Worked((f"final[{i}] = 0: cut by {cut}",), 0.0, 0.0, share_of(i))
    share = float(tempered[i])
    shares = tempered[kept]
    mass = math.fsum(shares.tolist())
    result = share / mass
    if bench.spelled:
        written = bench.sum_text(shares.tolist())
    else:
        written = f"sum over {plural(shown.kept_count, 'token')} kept"
    lines = (
        f"final[{i}] = tempered[{i}] / kept mass = {number(share)} / {number(mass)} = "
        f"{number(result)}",
        f"kept mass = {written} = {number(mass)}",
    )
    # Where nothing is cut the whole mass is taken for 1, which rounding may have left it short of.
    bound = result * (DOUBLE.gamma(2 * tempered.size) + 2 * DOUBLE.unit)
    return Worked(
        lines,
        result,
        bound,
        share_of(i),
        (Sum("tempered of the tokens kept", shares, lambda at: share_of(int(kept[at])), ""),),
    )


def _distribution(bench: Bench) -> Distribution:
    shown = bench.moment.distribution
    if shown is None:
        raise NoArithmetic(bench.moment.sampling_refusal or "nothing has been sampled yet")
    return shown
