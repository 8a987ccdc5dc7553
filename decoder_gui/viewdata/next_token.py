"""What the Next token panel shows: every candidate at every stage, and what cut it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from decoder_gui.viewdata.moment import Choice, Moment
from decoder_gui.viewdata.numbers import (
    format_count,
    format_percent,
    format_value,
    plural,
)
from model.sampling import Candidate, Distribution
from model.trace import Step

CUT_WORDS = {
    "top_k": "top-k",
    "top_p": "top-p",
    "min_p": "min-p",
    "greedy": "greedy",
    "masked": "masked",
    "underflow": "rounds to 0",
}
"""How a stage that cut a token is called on screen; a stage that is not listed keeps its name."""

_NICE = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True)
class BarRow:
    """One candidate. Probabilities are fractions of 1; the texts are what is shown for them."""

    token_id: int
    text: str
    raw: float
    tempered: float
    final: float
    raw_text: str
    tempered_text: str
    final_text: str  # the final probability, or what cut the token
    cut: str  # what cut it, "" for a token that can be drawn
    landing: bool  # the held draw falls on it
    taken: bool  # the run went on with it
    observed: float | None  # its share of the draws made to compare
    observed_text: str
    spoken: str  # all of it in one sentence


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws made only to compare shares with probabilities; ``counts`` is (vocab,)."""

    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True)
class NextToken:
    """The panel's contents; an empty ``rows`` always comes with a ``refusal`` in words."""

    hint: str = ""
    rows: tuple[BarRow, ...] = ()
    full_width: float = 1.0  # the probability that a bar across the whole width stands for
    full_width_text: str = ""
    summary: str = ""
    outside: str = ""
    observed: str = ""
    branch: str = ""  # what was taken at this step, and that taking another begins a branch
    draw: str = ""
    draw_exact: str = ""
    seed_note: str = ""  # that the seed shown is not yet the one of this run
    take_text: str = "Take"
    take_tip: str = ""
    can_take: bool = False
    resample_tip: str = ""
    can_resample: bool = False
    refusal: str = ""
    non_finite: bool = False  # refused because the logits are no numbers to sample from


def build_next_token(
    moment: Moment | None, draws: Draws | None = None, exhausted: str = ""
) -> NextToken:
    """The panel's contents at a moment.

    Args:
        moment: the state; None before a model is open.
        draws: the draws made to compare, if they belong to this step and these settings.
        exhausted: why no token can be taken at the newest step, "" if one can.
    """
    if moment is None or moment.step is None or moment.cursor is None:
        return NextToken(refusal="Nothing is computed yet: Prefill runs the prompt.")
    step, shown = moment.step, moment.distribution
    draw, draw_exact = _draw_words(moment, step)
    seed_note = _seed_note(moment)
    if shown is None:
        refusal = _why_no_distribution(moment, step.index)
        return NextToken(
            draw=draw,
            draw_exact=draw_exact,
            seed_note=seed_note,
            refusal=refusal,
            non_finite=moment.trace.logits(step.index) is not None,
        )
    taken = moment.choices[step.index] if step.index < len(moment.choices) else None
    candidates = _with_landing_and_taken(moment, shown, taken)
    rows = tuple(_row(moment, candidate, taken, draws) for candidate in candidates)
    full = _nice_ceiling(max(max(row.raw, row.tempered, row.final) for row in rows))
    later = len(moment.trace.steps) - 1 - step.index
    blocked = exhausted if later == 0 else ""
    take_text, take_tip = _take_words(moment, taken, later)
    return NextToken(
        hint="raw → final"
        if moment.exists(step.index, "logits")
        else "computed later in this step",
        rows=rows,
        full_width=full,
        full_width_text=format_percent(full, 0 if full >= 0.01 else 1),
        summary=_summary(shown),
        outside=_outside(rows, shown),
        observed=_observed_words(rows, draws),
        branch=_branch_words(moment, taken, later),
        draw=draw,
        draw_exact=draw_exact,
        seed_note=seed_note,
        take_text=take_text,
        take_tip=blocked or take_tip,
        can_take=moment.landing is not None and not blocked,
        resample_tip=_resample_words(moment, later),
        can_resample=not moment.sampling.deterministic,
    )


def _draw_words(moment: Moment, step: Step) -> tuple[str, str]:
    if moment.sampling.deterministic:
        return (
            "greedy, nothing drawn",
            "Temperature 0 takes the most likely token; no number is used.",
        )
    exact = (
        f"The uniform number {step.uniform!r} in [0, 1) is held for this step: the controls move "
        "the distribution under it and never draw another one."
    )
    return f"draw {step.uniform:.3f} held", exact


def _seed_note(moment: Moment) -> str:
    """Whether another seed than the run's own was typed since its Prefill."""
    seed = moment.sampling.seed
    started = moment.trace.steps[0].checkpoint.generator_state
    if seed is None or not started or _increment(seed) == started["state"]["inc"]:
        return ""
    return f"This run has another seed; {seed} applies at the next Prefill."


@lru_cache(maxsize=8)
def _increment(seed: int) -> int:
    # PCG64's increment comes from the seed and never changes, however many numbers are drawn.
    return int(np.random.PCG64(seed).state["state"]["inc"])


def _why_no_distribution(moment: Moment, step: int) -> str:
    logits = moment.trace.logits(step)
    if logits is None and moment.model.recorded is not None:
        return "The logits of this step are not recorded in this capture."
    if logits is None:
        return "The logits of this step are not computed yet."
    for bad, word in ((np.isnan(logits), "NaN"), (np.isposinf(logits), "+infinity")):
        found = np.flatnonzero(bad)
        if found.size:
            token = int(found[0])
            others = found.size - 1
            more = f", and {plural(others, 'other')} like it" if others else ""
            return (
                f"The logit of “{_text(moment, token)}” (token {token}) is {word}{more}: "
                "there is no distribution, and nothing is sampled."
            )
    if moment.sampling_refusal:
        return f"{moment.sampling_refusal[:1].upper()}{moment.sampling_refusal[1:]}."
    return "Every logit is -infinity: there is no distribution, and nothing is sampled."


def _with_landing_and_taken(
    moment: Moment, shown: Distribution, taken: Choice | None
) -> tuple[Candidate, ...]:
    """The candidates listed, and after them the marked tokens that are less likely than those."""
    candidates = list(moment.candidates)
    listed = {candidate.token_id for candidate in candidates}
    for choice in (moment.landing, taken):
        if choice is not None and choice.token_id not in listed:
            listed.add(choice.token_id)
            candidates.append(shown.candidate(choice.token_id))
    return tuple(candidates)


def _row(moment: Moment, candidate: Candidate, taken: Choice | None, draws: Draws | None) -> BarRow:
    token = candidate.token_id
    cut = "" if candidate.cut_by is None else CUT_WORDS.get(candidate.cut_by, candidate.cut_by)
    landing = moment.landing is not None and moment.landing.token_id == token
    was_taken = taken is not None and taken.token_id == token
    observed = None if draws is None else float(draws.counts[token] / max(1, draws.total))
    raw, tempered = format_percent(candidate.raw), format_percent(candidate.tempered)
    final = cut or format_percent(candidate.final)
    text = _text(moment, token)
    parts = [
        f"{text}, token {token}",
        f"raw {raw}, tempered {tempered}, " + (f"cut by {cut}" if cut else f"final {final}"),
        f"log-probability {format_value(candidate.log_probability)} nats",
    ]
    if landing:
        parts.append("the held draw lands here")
    if was_taken:
        parts.append("taken at this step")
    if observed is not None:
        parts.append(f"observed {format_percent(observed)}")
    return BarRow(
        token_id=token,
        text=text,
        raw=candidate.raw,
        tempered=candidate.tempered,
        final=candidate.final,
        raw_text=raw,
        tempered_text=tempered,
        final_text=final,
        cut=cut,
        landing=landing,
        taken=was_taken,
        observed=observed,
        observed_text="" if observed is None else format_percent(observed),
        spoken="; ".join(parts),
    )


def _text(moment: Moment, token: int) -> str:
    return moment.model.tokenizer.piece(token).text


def _nice_ceiling(probability: float) -> float:
    """The next round number, so that bars keep their scale while a slider moves a little."""
    if not probability > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(probability))
    return min(1.0, next(nice * power for nice in _NICE if nice * power >= probability * 0.999999))


def _summary(shown: Distribution) -> str:
    return (
        f"{format_count(shown.kept_count)} of {plural(shown.ranking.vocabulary, 'token')} kept · "
        f"entropy {format_value(shown.entropy, 2)} nats · "
        f"{format_value(shown.effective, 1)} effective choices"
    )


def _outside(rows: Sequence[BarRow], shown: Distribution) -> str:
    """The mass that no row stands for, raw and final."""
    rest = shown.ranking.vocabulary - len(rows)
    if not rest:
        return "every token is listed"
    raw = _remainder(row.raw for row in rows)
    # Where every token that can be drawn is listed, what is left is exactly nothing.
    kept = sum(not row.cut for row in rows)
    final = 0.0 if kept == shown.kept_count else _remainder(row.final for row in rows)
    return (
        f"{plural(rest, 'token')} not listed: raw {format_percent(raw)}, "
        f"final {format_percent(final)}"
    )


def _remainder(parts: Iterable[float]) -> float:
    return max(0.0, 1.0 - math.fsum(parts))


def _observed_words(rows: Sequence[BarRow], draws: Draws | None) -> str:
    """The observed shares against the expected, and the error that chance alone allows."""
    if draws is None or not draws.total:
        return ""
    total = draws.total
    deviations = [(abs(row.observed - row.final), row) for row in rows if row.observed is not None]
    worst, where = max(deviations, key=lambda pair: pair[0])
    error = max(math.sqrt(row.final * (1 - row.final) / total) for row in rows)
    at = math.sqrt(where.final * (1 - where.final) / total)
    times = f" ({worst / at:.1f} standard errors)" if at else ""
    return (
        f"{format_count(total)} draws: standard error √(p(1-p)/n) up to {format_percent(error)}; "
        f"furthest off {where.text}, {format_percent(worst)}{times}"
    )


def _take_words(moment: Moment, taken: Choice | None, later: int) -> tuple[str, str]:
    if moment.landing is None:
        return "Take", "No token to take."
    text = _text(moment, moment.landing.token_id)
    chosen = "the most likely token" if moment.sampling.deterministic else "the held draw's token"
    if not later:
        return f"Take {text}", f"Takes {chosen} and decodes it as the next step."
    if taken is not None and taken.token_id == moment.landing.token_id:
        return f"Go to {text}", f"{text} was taken here: goes to the end of the step that read it."
    return (
        f"Fork {text}",
        f"Takes {chosen} after this step, in a new branch: {_kept(later)}.",
    )


def _resample_words(moment: Moment, later: int) -> str:
    if moment.sampling.deterministic:
        return "Temperature 0 draws nothing: there is nothing to draw anew."
    kept = f" A new branch begins: {_kept(later)}." if later else ""
    return "Draws another number for this step and holds it; nothing is taken." + kept


def _kept(later: int) -> str:
    return f"{plural(later, 'later step')} {'stays' if later == 1 else 'stay'} in this one"


def _branch_words(moment: Moment, taken: Choice | None, later: int) -> str:
    if not later or taken is None:
        return ""
    by_hand = " by hand" if taken.by_hand else ""
    return f"Taken here{by_hand}: {_text(moment, taken.token_id)}; another token begins a branch."
