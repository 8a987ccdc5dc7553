"""The sampler against a recomputation in plain Python of the order that the settings state.

The recomputation shares nothing with :mod:`model.sampling`: lists, a sort, and the rules.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from model.checks.core import (
    CheckResult,
    Subject,
    Where,
    as_batch,
    check,
    number,
    plural,
    within,
    worse,
)
from model.errors import NonFiniteLogits
from model.faults import sampling_under
from model.sampling import ORDERS, SamplingConfig, distribution, draw, find_order

NAME = "sampling"
TOLERANCE = 1e-9
REACHES = 1e-6  # a mass this close to its target has reached it
DRAWS = 8  # tokens that must be drawn in the middle of their share of [0, 1)
PROBE_HISTORY = (1, 0, 1)  # tokens so far of a probe: what a repetition penalty counts
STEPS = 3  # of the run, the last ones: a sort in plain Python is slow for a large vocabulary

PROBES: tuple[tuple[tuple[float, ...], dict[str, float | int]], ...] = (
    ((3.0, 2.0, 1.0), {"temperature": 0.5, "top_p": 0.8}),
    ((3.0, 2.0, 1.0), {"temperature": 2.0, "top_p": 0.8}),
    ((1.0, 2.0, 2.0, 2.0, 3.0), {"top_k": 3}),
    ((math.log(0.5), math.log(0.2), math.log(0.15), math.log(0.1), math.log(0.05)),
     {"top_k": 3, "top_p": 0.8}),
    ((0.1, 0.4, -math.inf, 0.2), {"temperature": 0.7, "top_p": 0.6, "min_p": 0.1}),
    ((5.0, 5.0, 1.0), {"temperature": 1e-40}),
    ((5.0, 5.0, 1.0), {"temperature": 0.0}),
    ((2.0, -0.5, 1.5, 1.0), {"repetition_penalty": 1.6, "temperature": 0.8, "top_k": 2}),
    ((2.0, 1.9, 1.5, 1.0), {"repetition_penalty": 2.0, "temperature": 0.0}),
)  # fmt: skip
"""Logits and settings at which orders differ, ties break, or numbers overflow."""

Kept = list[int]
Probabilities = dict[int, float]


def softmax(logits: Sequence[float], ids: Sequence[int], temperature: float) -> Probabilities:
    """Probabilities of some tokens at a temperature, over those tokens alone."""
    largest = max(logits[i] for i in ids)
    powers = {i: math.exp((logits[i] - largest) / temperature) for i in ids}
    total = math.fsum(powers.values())
    return {i: power / total for i, power in powers.items()}


def _nucleus(kept: Kept, mass: Probabilities, top_p: float) -> Kept:
    """The shortest run whose mass reaches top_p."""
    if top_p == 1.0:
        return kept
    running = 0.0
    for count, i in enumerate(kept, start=1):
        running += mass[i]
        if running >= top_p - REACHES:
            return kept[:count]
    return kept


def _likely(kept: Kept, mass: Probabilities, min_p: float) -> Kept:
    """Those with at least min_p of the highest probability."""
    if min_p == 0.0:
        return kept
    bound = min_p * mass[kept[0]] * (1.0 - REACHES)
    return [i for i in kept if mass[i] >= bound]


Rule = Callable[[Sequence[float], Kept, SamplingConfig], Probabilities]
RULES: dict[str, Rule] = {}


def recomputation(order: str) -> Callable[[Rule], Rule]:
    """Register the plain recomputation of an order."""

    def register(rule: Rule) -> Rule:
        RULES[order] = rule
        return rule

    return register


def penalised(
    logits: Sequence[float], config: SamplingConfig, history: Sequence[int]
) -> list[float]:
    """The logits after the repetition penalty."""
    seen, penalty = set(history), config.repetition_penalty
    if penalty == 1.0:
        return list(logits)
    moved = [
        (logit / penalty if logit > 0 else logit * penalty) if i in seen else logit
        for i, logit in enumerate(logits)
    ]
    # A penalty never masks a token, nor makes one certain.
    most = sys.float_info.max
    return [
        old if math.isinf(old) else max(-most, min(most, new))
        for old, new in zip(logits, moved, strict=True)
    ]


def ranking(logits: Sequence[float], ids: Sequence[int]) -> Kept:
    """Ids by falling logit, the lower id first among equals."""
    return sorted(ids, key=lambda i: (-logits[i], i))


def _in_turn(
    logits: Sequence[float], config: SamplingConfig, history: Sequence[int]
) -> Probabilities:
    """An order of one's own: each stage on the tokens that those before it left."""
    kept = ranking(logits, [i for i, logit in enumerate(logits) if logit > -math.inf])
    temperature = 1.0
    for name in find_order(config.order).names:
        if name == "repetition_penalty":
            logits = penalised(logits, config, history)
            kept = ranking(logits, kept)
        elif name == "temperature":
            temperature = config.temperature
            # What the whole distribution gives probability 0 at this temperature is out.
            mass = softmax(logits, kept, temperature)
            kept = [i for i in kept if mass[i] > 0.0]
        elif name == "top_k":
            kept = kept[: config.top_k or None]
        elif name == "top_p":
            kept = _nucleus(kept, softmax(logits, kept, temperature), config.top_p)
        else:
            kept = _likely(kept, softmax(logits, kept, temperature), config.min_p)
    return softmax(logits, kept, temperature)


@recomputation("reference")
def _reference(logits: Sequence[float], ranked: Kept, config: SamplingConfig) -> Probabilities:
    mass = softmax(logits, ranked, config.temperature)
    possible = [i for i in ranked if mass[i] > 0.0]
    first = possible[: config.top_k or None]
    nucleus = _nucleus(possible, mass, config.top_p)
    likely = _likely(possible, mass, config.min_p)
    kept = min(first, nucleus, likely, key=len)  # each is a prefix of the same ranking
    return softmax(logits, kept, config.temperature)


@recomputation("hugging-face")
def _hugging_face(logits: Sequence[float], ranked: Kept, config: SamplingConfig) -> Probabilities:
    mass = softmax(logits, ranked, config.temperature)
    kept = [i for i in ranked if mass[i] > 0.0]
    if 0 < config.top_k < len(kept):
        edge = logits[kept[config.top_k - 1]]
        kept = [i for i in kept if logits[i] >= edge]
    kept = _nucleus(kept, softmax(logits, kept, config.temperature), config.top_p)
    kept = _likely(kept, softmax(logits, kept, config.temperature), config.min_p)
    return softmax(logits, kept, config.temperature)


@recomputation("llama.cpp")
def _llama_cpp(logits: Sequence[float], ranked: Kept, config: SamplingConfig) -> Probabilities:
    kept = ranked[: config.top_k or None]
    kept = _nucleus(kept, softmax(logits, kept, 1.0), config.top_p)
    kept = _likely(kept, softmax(logits, kept, 1.0), config.min_p)
    return softmax(logits, kept, config.temperature)


def can_recompute(config: SamplingConfig) -> bool:
    """Whether the order of these settings has an independent recomputation."""
    return config.order in RULES or config.order not in ORDERS


def recompute(
    logits: Sequence[float], config: SamplingConfig, history: Sequence[int] = ()
) -> Probabilities:
    """Final probability of every kept token, by falling probability, the lower id among equals.

    ``history`` is the ids so far, for the repetition penalty.

    Raises:
        NonFiniteLogits: NaN, +infinity, or only -infinity.
    """
    if any(math.isnan(logit) or logit == math.inf for logit in logits):
        raise NonFiniteLogits("a logit is NaN or +infinity")
    possible = [i for i, logit in enumerate(logits) if logit > -math.inf]
    if not possible:
        raise NonFiniteLogits("every logit is -infinity")
    moved = penalised(logits, config, history)
    if config.temperature == 0.0:
        return {ranking(moved, possible)[0]: 1.0}
    if config.order in RULES:
        final = RULES[config.order](moved, ranking(moved, possible), config)
    else:
        final = _in_turn(logits, config, history)
    return {i: p for i, p in final.items() if p > 0.0}


@dataclass(frozen=True)
class _Case:
    title: str
    logits: tuple[float, ...]
    config: SamplingConfig
    history: tuple[int, ...]
    step: int | None = None


def _cases(subject: Subject) -> Iterator[_Case]:
    for step, row, history in _run_logits(subject):
        yield _Case(f"step {step} of the run", row, subject.sampling, history, step)
    for logits, settings in PROBES:
        neutral: dict[str, float] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
        neutral["repetition_penalty"] = 1.0
        config = replace(subject.sampling, **(neutral | settings))  # type: ignore[arg-type]
        said = ", ".join(f"{key} {value:g}" for key, value in settings.items())
        shown = ", ".join(f"{logit:.3g}" for logit in logits)
        yield _Case(f"the probe [{shown}] with {said}", logits, config, PROBE_HISTORY)


def _run_logits(subject: Subject) -> list[tuple[int, tuple[float, ...], tuple[int, ...]]]:
    """Last-position logits of the run's last steps, and the tokens so far."""
    ids, cache = subject.token_ids, subject.new_cache()
    found: list[tuple[int, tuple[float, ...], tuple[int, ...]]] = []
    passes = [ids[: subject.prefilled], *((i,) for i in ids[subject.prefilled :])]
    for step, chunk in enumerate(passes):
        logits = subject.engine.forward(as_batch(chunk), cache)[0, -1]
        history = tuple(int(i) for i in ids[: subject.prefilled + step])
        found.append((step, tuple(logits.astype(np.float64).tolist()), history))
    return found[-STEPS:]


@dataclass(frozen=True)
class _Verdict:
    """``difference`` is of probabilities; infinite where kept tokens or a refusal differ."""

    difference: float
    words: str
    refused: bool = False


def _compare(case: _Case, faults: tuple[str, ...]) -> _Verdict:
    """The session's pipeline, faults included, beside the recomputation of what is stated."""
    try:
        expected = recompute(case.logits, case.config, case.history)
    except NonFiniteLogits as refusal:
        try:
            distribution(case.logits, sampling_under(case.config, faults), case.history)
        except NonFiniteLogits:
            return _Verdict(0.0, "", refused=True)
        return _Verdict(math.inf, f"sampled although {refusal}")
    try:
        ours = distribution(case.logits, sampling_under(case.config, faults), case.history)
    except NonFiniteLogits as refusal:
        return _Verdict(math.inf, f"refused: {refusal}")
    kept = ours.kept.tolist()
    if kept != list(expected):
        return _Verdict(math.inf, f"kept {_some(kept)} and not {_some(list(expected))}")
    apart = np.abs(ours.final[kept] - np.array(list(expected.values())))
    stray = float(ours.final.sum() - ours.final[kept].sum())
    difference = float(apart.max()) + abs(stray)
    reached = 0.0
    for token_id, probability in list(expected.items())[:DRAWS]:
        middle = reached + probability / 2
        reached += probability
        if probability > REACHES and (drawn := draw(ours, middle)) != token_id:
            return _Verdict(math.inf, f"drew id {drawn} and not {token_id} at {middle:.6g}")
    return _Verdict(difference, f"final probabilities differ by {number(difference)}")


def _some(ids: Sequence[int]) -> str:
    if len(ids) <= 6:
        return f"ids {', '.join(map(str, ids))}"
    return f"{len(ids):,} tokens from {', '.join(map(str, ids[:3]))} on"


@check(NAME, "kept tokens and probabilities are those of the stated order")
def sampling(subject: Subject) -> CheckResult:
    """On logits of the run with the session's settings, and on fixed probes in the same order."""
    order = subject.sampling.order
    if not can_recompute(subject.sampling):
        detail = f"the order {order} has no independent recomputation to compare with"
        return CheckResult(NAME, False, math.inf, TOLERANCE, detail)
    cases = list(_cases(subject))
    refused = failed = 0
    worst, where, words = 0.0, None, ""
    for case in cases:
        verdict = _compare(case, subject.faults)
        refused += verdict.refused
        if not within(verdict.difference, TOLERANCE):
            failed += 1
            if not words:
                where = Where(step=case.step, operation="sample")
                words = f"{case.title}: the sampler {verdict.words}"
        if worse(verdict.difference, worst):
            worst = verdict.difference
    if failed:
        detail = f"{words} by the order {order}; {failed} of {len(cases)} cases differ"
        return CheckResult(NAME, False, worst, TOLERANCE, detail, where)
    run = sum(case.step is not None for case in cases)
    detail = (
        f"kept tokens and probabilities are those of the order {order} at "
        f"{plural(run, 'step')} of the run and {plural(len(cases) - run, 'probe')}; largest "
        f"difference {number(worst)}"
    )
    if refused:
        detail += f"; logits that are not finite were refused, as they must be, {refused} times"
    return CheckResult(NAME, True, worst, TOLERANCE, detail)
