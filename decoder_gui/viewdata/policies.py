"""What the panel on full caches shows: each policy's divergence, position by position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from decoder_gui.debugger.laboratory.policies import Divergence, Policy
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_log_probability, format_value, plural
from decoder_gui.viewdata.plots import Axis, Mark, Plot, Series
from decoder_gui.viewdata.tables import Cell, Column, Table, Tone

LOOKS = {
    Policy.STOP: ("muted", "d"),
    Policy.SLIDE: ("prefill", "o"),
    Policy.KEEP_FIRST: ("decode", "s"),
}
SUMMARY = (
    Column("when the cache is full", stretch=True),
    Column("positions", number=True),
    Column("mean KL, nats", number=True, tip="over the positions after the first row was let go"),
    Column("worst", number=True),
    Column("at", number=True),
    Column("same choice", number=True, tip="positions with the same most likely next token"),
    Column("text, nats", number=True, tip="log-likelihood of the text; the full context's beside"),
)


@dataclass(frozen=True, eq=False)
class PoliciesView:
    """Every policy that was run.

    ``words`` say what happens where the policies differ most.
    """

    plot: Plot
    table: Table
    words: str
    hint: str


def build_policies(
    moment: Moment,
    found: Mapping[Policy, Sequence[Divergence]],
    capacity: int,
    *,
    keep_first: int,
    running: bool,
) -> PoliciesView:
    """The view of a comparison at a capacity."""
    total = len(moment.trace.token_ids)
    series = []
    for policy, items in found.items():
        role, symbol = LOOKS[policy]
        x = np.asarray([item.position for item in items], dtype=np.float64)
        y = np.asarray([item.divergence for item in items])
        series.append(
            Series(
                policy.value,
                x,
                np.where(np.isfinite(y), y, np.nan),
                role,
                Mark.LINE_AND_POINTS,
                symbol,
            )
        )
    return PoliciesView(
        plot=Plot(
            Axis("position"),
            Axis("KL, nats"),
            tuple(series),
            upright=((capacity - 0.5, f"full: {capacity}"),) if capacity < total else (),
            description=_words(moment, found),
        ),
        table=Table(SUMMARY, tuple(_row(each, items, total) for each, items in found.items())),
        words=_words(moment, found) or _before(total, capacity, keep_first),
        hint="running…" if running else f"{plural(total, 'token')} in a cache of {capacity}",
    )


def _before(total: int, capacity: int, keep_first: int) -> str:
    if capacity >= total:
        return (
            f"All {total} positions fit in {capacity}, so nothing would ever be let go. Choose a "
            "smaller cache, or decode more tokens."
        )
    return (
        f"Runs the text in a cache of {capacity} positions under three policies: stop, slide, and "
        f"keep the first {keep_first} and slide. Rows that stay keep the positions they were "
        "computed at."
    )


def _words(moment: Moment, found: Mapping[Policy, Sequence[Divergence]]) -> str:
    slid = [item for items in found.values() for item in items if item.divergence > 0]
    if not slid:
        return ""
    worst = max(slid, key=lambda item: item.divergence)
    tokenizer = moment.model.tokenizer
    before = moment.pieces[worst.position].text
    choices = [tokenizer.piece(token).text for token in (worst.reference_choice, worst.choice)]
    words = (
        f"Furthest apart after “{before}” at position {worst.position}: "
        f"{format_value(worst.divergence)} nats with {plural(worst.kept, 'row')} left."
    )
    if worst.same_choice:
        return f"{words} Both still say “{choices[0]}” first."
    return f"{words} The full context says “{choices[0]}”, the small one “{choices[1]}”."


def _row(policy: Policy, items: Sequence[Divergence], total: int) -> tuple[Cell, ...]:
    if policy is Policy.STOP:
        words = f"{policy.value} after position {len(items) - 1}"
        if len(items) == total:
            words = policy.value
        return (
            Cell(words),
            Cell(f"{len(items)} of {total}"),
            *(Cell("", tone=Tone.FAINT) for _ in range(5)),
        )
    apart = [item for item in items if item.kept <= item.position]
    worst = max(apart, key=lambda item: item.divergence, default=None)
    mean = sum(item.divergence for item in apart) / len(apart) if apart else 0.0
    known = [item for item in items if not math.isnan(item.log_probability)]
    same = sum(item.same_choice for item in items)
    text = sum(item.log_probability for item in known)
    reference = sum(item.reference for item in known)
    return (
        Cell(policy.value),
        Cell(f"{len(items)} of {total}"),
        Cell(format_value(mean, 4)),
        Cell("" if worst is None else format_value(worst.divergence)),
        Cell("" if worst is None else str(worst.position)),
        Cell(f"{same} of {len(items)}"),
        Cell(
            f"{format_log_probability(text)} / {format_log_probability(reference)}",
            tip="under the policy / under the full context",
        ),
    )
