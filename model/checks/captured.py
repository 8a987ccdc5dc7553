"""Checks of a capture: what can be said of recorded arrays without any weights.

Each check that an engine is put to has a counterpart here if it can be made on what was recorded;
of the others the result says that they were not examined. One check exists only here: that what was
recorded of an operation is what its recorded operands give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from model.captured_engine import CapturedEngine
from model.checks.core import CheckResult, Where, all_checks, number, plural, within, worse
from model.checks.recorded import check_trace
from model.checks.rules import RULES, Operands
from model.engine import Array
from model.errors import DecoderError, NonFiniteLogits
from model.sampling import SamplingConfig, distribution, draw
from model.trace import Trace

ARITHMETIC = "arithmetic"
TABLE = "pos_embed"
OF_PATTERNS = frozenset({"causal-weights", "rows-sum-to-one"})


@dataclass(frozen=True)
class Recorded:
    """What is examined: a capture as an engine, its steps as a trace.

    Attributes:
        sampling: the settings of the run, None where they were not recorded.
    """

    engine: CapturedEngine
    trace: Trace
    sampling: SamplingConfig | None = None


RecordedFunction = Callable[[Recorded], CheckResult]
_RECORDED: dict[str, RecordedFunction] = {}


def recorded_check(name: str) -> Callable[[RecordedFunction], RecordedFunction]:
    """Register what a check of an engine becomes on a capture."""

    def register(function: RecordedFunction) -> RecordedFunction:
        _RECORDED[name] = function
        return function

    return register


def check_capture(recorded: Recorded, names: Iterable[str] | None = None) -> Iterator[CheckResult]:
    """Every check on a capture, one verdict at a time.

    Raises:
        DecoderError: there is no check of that name.
    """
    order = (ARITHMETIC, *(each.name for each in all_checks()))
    chosen = order if names is None else tuple(names)
    for name in chosen:
        if name not in order:
            raise DecoderError(f"there is no check {name!r}; there are {', '.join(order)}")
    return (_verdict(recorded, name) for name in chosen)


def not_examined(name: str, why: str) -> CheckResult:
    """The result of a check that could not be made."""
    return CheckResult(name, True, 0.0, 0.0, f"not examined: {why}", examined=False)


def _verdict(recorded: Recorded, name: str) -> CheckResult:
    names = {name for step in recorded.engine.capture.steps for name in step.arrays}
    if name in OF_PATTERNS and not any(each.endswith(".attn.pattern") for each in names):
        return not_examined(name, "no attention weights were recorded")
    tallied = {result.name: result for result in check_trace(recorded.trace)}
    if name in tallied:
        return tallied[name]
    function = _RECORDED.get(name)
    if function is None:
        return not_examined(name, "it computes passes of its own, and a capture holds no weights")
    return function(recorded)


@recorded_check(ARITHMETIC)
def arithmetic(recorded: Recorded) -> CheckResult:
    """Recompute each operation whose operands were all recorded, and compare."""
    return _recompute(recorded, ARITHMETIC, RULES, old_keys_only=False)


@recorded_check("cache-constant")
def cache_constant(recorded: Recorded) -> CheckResult:
    """Whether the scores of later steps are made of the keys as they were when they were new.

    A step whose scores with its own new keys are not what those give says nothing about old ones:
    that is for ``arithmetic``.
    """
    rules = {"attn.scores": RULES["attn.scores"]}
    return _recompute(recorded, "cache-constant", rules, old_keys_only=True)


def _recompute(
    recorded: Recorded,
    name: str,
    rules: dict[str, Callable[[Operands], Array | None]],
    *,
    old_keys_only: bool,
) -> CheckResult:
    engine, trace = recorded.engine, recorded.trace
    tolerance = engine.tolerance
    worst, where, detail, made = 0.0, None, "", 0
    kinds: dict[str, None] = {}
    for step in trace.steps[1 if old_keys_only else 0 :]:
        for operation in trace.operations:
            for output in operation.outputs:
                operands = Operands(engine, trace, step, operation, output, old_keys_only)
                rule = rules.get(operands.short)
                expected = None if rule is None else rule(operands)
                held = operands.result()
                if expected is None or held is None:
                    continue
                if old_keys_only and not _agrees_on_new_keys(held, expected, operands, tolerance):
                    continue
                made += 1
                kinds[operands.short] = None
                difference, place = _apart(held, expected, operands)
                if worse(difference, worst):
                    worst = difference
                if where is None and not within(difference, tolerance):
                    where = Where(
                        layer=operation.layer,
                        head=place[0] if held.ndim == 3 else None,
                        query=step.last - held.shape[-2] + place[-2],
                        key=place[-1] if output.endswith((".scores", ".pattern")) else None,
                        step=step.index,
                        operation=operation.name,
                    )
                    detail = (
                        f"{output} is not what {operands.read} give: position {where.query} is "
                        f"off by {number(difference)} relative ({step.phase}, step {step.index})"
                    )
    if not made:
        return not_examined(name, _missing(trace, old_keys_only))
    results = f"{plural(made, 'result')} of {', '.join(kinds)}"
    if where is None:
        what = "older keys as they were recorded" if old_keys_only else "their operands"
        detail = f"{results} are what {what} give; largest relative difference {number(worst)}"
    else:
        detail += f"; largest {number(worst)} among {results}"
    return CheckResult(name, where is None, worst, tolerance, detail, where)


def _missing(trace: Trace, old_keys_only: bool) -> str:
    if old_keys_only and len(trace.steps) < 2:
        return "there is one step"
    if old_keys_only:
        return "no later step has scores that its own new keys explain"
    return "no operation was recorded together with its operands"


def _agrees_on_new_keys(held: Array, expected: Array, operands: Operands, tolerance: float) -> bool:
    new = slice(operands.step.first, None)
    whole = replace(operands, old_keys_only=False)
    difference = np.where(whole.seen(held.shape), _difference(held, expected), 0.0)
    return within(float(difference[..., new].max()), tolerance * _scale(expected))


def _difference(held: Array, expected: Array) -> Array:
    ours, theirs = held.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        found: Array = np.where(ours == theirs, 0.0, np.abs(ours - theirs))
    return found


def _scale(expected: Array) -> float:
    finite = np.abs(expected[np.isfinite(expected)])
    return (float(finite.max()) if finite.size else 0.0) or 1.0


def _apart(held: Array, expected: Array, operands: Operands) -> tuple[float, tuple[int, ...]]:
    """Largest difference, relative to the largest number expected, and where it is."""
    difference = np.where(operands.seen(held.shape), _difference(held, expected), 0.0)
    place = np.unravel_index(int(difference.argmax()), difference.shape)  # NaN counts as most
    return float(difference[place]) / _scale(expected), tuple(int(index) for index in place)


@recorded_check("positions")
def positions(recorded: Recorded) -> CheckResult:
    """No position's row may be that of another; rotary keys are turned as their position says."""
    name, trace = "positions", recorded.trace
    if recorded.engine.capture.blueprint.get("rotary") is not None:
        rules = {short: RULES[short] for short in ("attn.rot_q", "attn.rot_k")}
        return _recompute(recorded, name, rules, old_keys_only=False)
    tables = [(step, trace.array(step.index, TABLE)) for step in trace.steps]
    rows = {
        step.first + index: (row, step.index)
        for step, table in tables
        if table is not None
        for index, row in enumerate(table[0])
    }
    if len(rows) < 2:
        return not_examined(name, f"{TABLE} was not recorded, nor what rotary positions are like")
    seen: dict[bytes, int] = {}
    for position, (row, step) in rows.items():
        before = seen.setdefault(row.tobytes(), position)
        if before != position:
            detail = f"step {step} gave position {position} the row of position {before}"
            where = Where(query=position, step=step, operation="embed")
            return CheckResult(name, False, math.inf, 0.0, detail, where)
    detail = f"the {len(rows)} positions have rows of {TABLE} that differ from one another"
    return CheckResult(name, True, 0.0, 0.0, detail)


@recorded_check("sampling")
def sampling(recorded: Recorded) -> CheckResult:
    """Whether each token taken is the one on which its draw falls under the recorded settings."""
    name, config, trace = "sampling", recorded.sampling, recorded.trace
    if config is None:
        return not_examined(name, "the sampler's settings were not recorded")
    steps = list(zip(recorded.engine.capture.steps, trace.steps, strict=False))
    examined = 0
    for (captured, step), following in zip(steps, trace.steps[1:], strict=False):
        logits = trace.logits(step.index)
        drawless = captured.draw is None and not config.deterministic
        if logits is None or drawless or captured.by_hand or len(following.token_ids) > 1:
            continue
        history = trace.token_ids[: step.last] if config.repetition_penalty != 1.0 else ()
        try:
            shown = distribution(logits, config, history)
        except NonFiniteLogits:
            continue
        examined += 1
        drawn, took = draw(shown, step.uniform), following.token_ids[0]
        if drawn != took:
            share = float(shown.final[took])
            detail = (
                f"step {step.index} took token {took}, whose probability is {share:.4g} by the "
                f"order {config.order}; the draw "
                + ("is greedy" if config.deterministic else f"{step.uniform:.6f}")
                + f" falls on token {drawn}"
            )
            where = Where(step=step.index, operation="sample")
            return CheckResult(name, False, math.inf, 0.0, detail, where)
    if not examined:
        return not_examined(name, "no step has its logits, its draw and a token taken after it")
    detail = f"{plural(examined, 'token')} taken are those on which the draws fall"
    return CheckResult(name, True, 0.0, 0.0, f"{detail} by the order {config.order}")
