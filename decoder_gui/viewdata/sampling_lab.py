"""What the laboratory shows of the draw, of many draws, of two settings, and of continuations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from decoder_gui.debugger.laboratory.continuations import Continuation, Timing
from decoder_gui.viewdata.kv_cache import Figure
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_count, format_percent, format_value, plural
from decoder_gui.viewdata.order_choices import token_text
from decoder_gui.viewdata.sampling_controls import stage_settings
from decoder_gui.viewdata.tables import Cell, Column, Row, Table, Tone
from model.errors import DecoderError
from model.faults import sampling_under
from model.ranking import Ids
from model.sampling import (
    STAGE_WORDS,
    STAGES,
    Distribution,
    SamplingConfig,
    distribution_from,
    draw,
    order_names,
)
from model.sampling_comparison import compare
from model.sampling_statistics import DrawStatistics, expected_count, standard_error

LISTED = 30
NOTICEABLE = 3.0  # standard errors from which a count stands out
SHOWN_APART = 12  # tokens kept by one setting alone that are named
NOTHING = "Nothing is computed yet: Prefill runs the prompt."


# ---- the held draw


@dataclass(frozen=True)
class Step:
    """One token on the cumulative curve: it owns the numbers from ``low`` up to ``high``."""

    rank: int  # from 1, among the tokens kept
    token_id: int
    text: str
    low: float
    high: float


@dataclass(frozen=True)
class HeldDraw:
    """The cumulative curve and the number held on it.

    Attributes:
        steps: the tokens drawn as steps, the landing token always among them.
        kept: how many there are in all.
        uniform: the number held, None where nothing is drawn.
        landing: index into ``steps``.
        words: where the number lands, in a sentence.
        note: that another number was drawn, or that moving a control draws none.
    """

    steps: tuple[Step, ...] = ()
    kept: int = 0
    uniform: float | None = None
    landing: int = 0
    words: str = ""
    note: str = ""
    refusal: str = ""


def build_held_draw(moment: Moment | None) -> HeldDraw:
    """The curve at a moment."""
    refusal = _refusal(moment)
    if moment is None or moment.step is None or moment.distribution is None or refusal:
        return HeldDraw(refusal=refusal)
    shown, landing = moment.distribution, moment.landing
    assert landing is not None
    at = int(shown.stages[-1].ranking.places[landing.token_id])
    ranks = sorted({*_ranks(shown.kept_count), at})
    total = float(shown.cumulative[-1])
    steps = tuple(_step(moment, shown, rank, total) for rank in ranks)
    here = ranks.index(at)
    greedy = moment.sampling.deterministic
    uniform = None if greedy else moment.step.uniform
    own = steps[here]
    text = f"{own.text} (id {own.token_id}, rank {own.rank} of {format_count(shown.kept_count)})"
    words = (
        f"Temperature 0 takes {text}; no number is drawn."
        if uniform is None
        else f"u = {uniform:.6f} lies in [{own.low:.6f}, {own.high:.6f}), which belongs to {text}."
    )
    return HeldDraw(
        steps,
        shown.kept_count,
        uniform,
        here,
        words,
        "" if greedy else "The number is held: moving a control moves the curve under it.",
    )


def _ranks(kept: int) -> list[int]:
    """Ranks on the curve: all of the first, then ever fewer, and the last."""
    if kept <= 2 * LISTED:
        return list(range(kept))
    spread = np.unique(np.geomspace(LISTED, kept, LISTED).astype(int)) - 1
    return [*range(LISTED), *spread.tolist(), kept - 1]


def _step(moment: Moment, shown: Distribution, rank: int, total: float) -> Step:
    token = int(shown.stages[-1].ranking.order[rank]) if rank else int(shown.kept[0])
    low = float(shown.cumulative[rank - 1]) / total if rank else 0.0
    return Step(
        rank + 1, token, token_text(moment, token), low, float(shown.cumulative[rank]) / total
    )


# ---- many draws


NO_TABLE = Table()


@dataclass(frozen=True)
class DrawsView:
    """Observed against expected; without rows there are ``words`` that say why."""

    table: Table = NO_TABLE
    figures: tuple[Figure, ...] = ()
    words: str = ""


DRAW_COLUMNS = (
    Column("token", code=True, stretch=True),
    Column("expected", number=True, tip="n p ± √(n p (1 − p)): the count and its standard error"),
    Column("± error", number=True, tip="√(n p (1 − p)), the standard deviation of the count"),
    Column("observed", number=True),
    Column("off by", number=True, tip="(observed − expected) / standard error"),
)


def build_draws(moment: Moment | None, found: DrawStatistics | None) -> DrawsView:
    """Draws beside the distribution that they came from."""
    refusal = _refusal(moment)
    if moment is None or moment.distribution is None or refusal:
        return DrawsView(words=refusal)
    if found is None:
        return DrawsView(
            words="No draws yet for this step and these settings. They come from a generator of "
            "their own: the session's numbers stay as they are."
        )
    shown = moment.distribution
    probabilities = shown.stages[-1].ranked
    ids = shown.kept[: min(LISTED, shown.kept_count)].tolist()
    most = max(1.0, float(found.counts.max()), found.total * float(probabilities[0]))
    rows: list[Row] = []
    for at, token in enumerate(ids):
        p, seen = float(probabilities[at]), int(found.counts[token])
        rows.append(_draw_row(token_text(moment, token), token, p, seen, found.total, most))
    rest = shown.kept_count - len(ids)
    if rest:
        p = max(0.0, 1.0 - math.fsum(probabilities[: len(ids)].tolist()))
        seen = found.total - sum(int(found.counts[token]) for token in ids)
        name = f"{plural(rest, 'other')}"
        rows.append(_draw_row(name, None, p, seen, found.total, most))
    return DrawsView(Table(DRAW_COLUMNS, tuple(rows)), _draw_figures(found, shown.kept_count))


def _draw_row(text: str, token: int | None, p: float, seen: int, total: int, most: float) -> Row:
    expected, error = expected_count(p, total), standard_error(p, total)
    apart = (seen - expected) / error if error > 0 else 0.0
    far = abs(apart) >= NOTICEABLE
    off = "0" if error == 0 else f"{apart:+.1f} σ"
    return (
        Cell(text, tip=text if token is None else f"{text}, token {token}"),
        Cell(format_value(expected, 1), share=expected / most),
        Cell(format_value(error, 1), tone=Tone.MUTED),
        Cell(format_count(seen), share=seen / most),
        Cell(off, tone=Tone.WARNING if far else Tone.MUTED, strong=far),
    )


def _draw_figures(found: DrawStatistics, kept: int) -> tuple[Figure, ...]:
    verdict = (
        "as far off as chance alone often is"
        if found.p_value >= 0.05
        else "chance alone is this far off less than one time in twenty"
    )
    apart = found.entropy - found.exact_entropy
    return (
        Figure("Draws", format_count(found.total), "from a separate generator"),
        Figure(
            "Chi-square",
            format_value(found.chi_square, 2),
            f"{plural(found.groups, 'group')}, {plural(found.degrees, 'degree')} of freedom",
        ),
        Figure("At least as far off", format_percent(found.p_value), verdict, below=True),
        Figure(
            "Entropy observed",
            f"{format_value(found.entropy)} nats",
            f"± {format_value(found.entropy_error)}",
        ),
        Figure("Entropy exact", f"{format_value(found.exact_entropy)} nats"),
        Figure(
            "Difference",
            f"{apart:+.3f} nats",
            f"about −{format_value(found.entropy_bias)} is due to few draws of "
            f"{plural(kept, 'token')}",
            below=True,
        ),
    )


# ---- two settings


@dataclass(frozen=True)
class SettingRow:
    """One setting of both; ``field`` is of SamplingConfig."""

    field: str
    label: str
    first: str
    second: str
    differs: bool


@dataclass(frozen=True)
class TwoSettings:
    """A and B on the same logits, under the same luck."""

    settings: tuple[SettingRow, ...] = ()
    figures: tuple[Figure, ...] = ()
    only_first: str = ""
    only_second: str = ""
    first_lands: str = ""
    second_lands: str = ""
    same_landing: bool = True
    refusal: str = ""


def setting_rows(
    first: SamplingConfig, second: SamplingConfig, vocabulary: int
) -> tuple[SettingRow, ...]:
    """Every setting of both, as it is written."""
    settings = stage_settings(vocabulary)
    rows = []
    for stage in STAGES:
        mine, other = getattr(first, stage), getattr(second, stage)
        write = settings[stage].write
        label = STAGE_WORDS[stage].capitalize()
        rows.append(SettingRow(stage, label, write(mine), write(other), mine != other))
    mine, other = (
        config.order if config.order in order_names() else "one's own" for config in (first, second)
    )
    rows.append(SettingRow("order", "Order", mine, other, first.order != second.order))
    return tuple(rows)


def build_two_settings(moment: Moment | None, other: SamplingConfig) -> TwoSettings:
    """A, the session's own settings, beside B."""
    refusal = _refusal(moment)
    if moment is None or moment.step is None or moment.distribution is None or refusal:
        return TwoSettings(refusal=refusal)
    first = moment.distribution
    rows = setting_rows(moment.sampling, other, first.ranking.vocabulary)
    history = moment.trace.token_ids[: moment.step.last]
    try:
        followed = sampling_under(replace(other, seed=None), moment.faults)
        second = distribution_from(first.ranking, followed, history)
    except DecoderError as problem:
        return TwoSettings(rows, refusal=f"{str(problem)[:1].upper()}{str(problem)[1:]}.")
    found = compare(first, second)
    only = [_by_rank(ids, first) for ids in (found.only_first, found.only_second)]
    landings = [
        draw(each, 0.0 if each.config.deterministic else moment.step.uniform)
        for each in (first, second)
    ]
    figures = (
        Figure("Kept by A", format_count(first.kept_count)),
        Figure("Kept by B", format_count(second.kept_count)),
        Figure("Kept by both", format_count(int(found.both.size))),
        Figure("Jaccard index", format_value(found.jaccard), "both / either"),
        Figure("Shared mass", format_percent(found.shared_mass), "Σ min(pA, pB)"),
        Figure("Mass of A inside B", format_percent(found.first_inside)),
        Figure("Mass of B inside A", format_percent(found.second_inside)),
        _divergence("KL(A, B)", found.forward, "A", "B"),
        _divergence("KL(B, A)", found.backward, "B", "A"),
    )
    texts = [token_text(moment, token) for token in landings]
    return TwoSettings(
        settings=rows,
        figures=figures,
        only_first=_named(moment, only[0]),
        only_second=_named(moment, only[1]),
        first_lands=texts[0],
        second_lands=texts[1],
        same_landing=landings[0] == landings[1],
    )


def _divergence(label: str, value: float, one: str, other: str) -> Figure:
    if math.isinf(value):
        note = f"{one} can draw what {other} never does"
        return Figure(label, "infinite", note, below=True)
    return Figure(label, f"{format_value(value)} nats", f"Σ p{one} ln(p{one} / p{other})")


def _by_rank(ids: Ids, shown: Distribution) -> Ids:
    """The same tokens, the likeliest by raw probability first, without sorting them."""
    among = np.zeros(shown.ranking.vocabulary, bool)
    among[ids] = True
    order = shown.ranking.order
    return order[among[order]]


def _named(moment: Moment, ids: Ids) -> str:
    """Some tokens, the likeliest first."""
    if not ids.size:
        return "none"
    words = " ".join(token_text(moment, token) for token in ids[:SHOWN_APART].tolist())
    more = ids.size - SHOWN_APART
    return words + (f" and {plural(more, 'other')}" if more > 0 else "")


# ---- continuations


CONTINUATION_COLUMNS = (
    Column("#", number=True),
    Column("continuation", code=True, stretch=True),
    Column("tokens", number=True, tip="∎: it ended with the token that ends a text"),
    Column("log-likelihood", number=True, tip="Sum of the raw log-probabilities, nats"),
    Column("per token", number=True, tip="The same divided by the number of tokens, nats"),
)


def continuation_table(moment: Moment, rows: tuple[Continuation, ...]) -> Table:
    """The continuations as they were numbered; the likeliest is written bold."""
    if not rows:
        return Table(CONTINUATION_COLUMNS)
    best = max(range(len(rows)), key=lambda at: rows[at].total)
    worst = min(row.total for row in rows)
    span = max(1e-12, rows[best].total - worst)
    decode = moment.model.tokenizer.decode
    return Table(
        CONTINUATION_COLUMNS,
        tuple(
            (
                Cell(str(row.row + 1), tone=Tone.MUTED),
                Cell(_one_line(decode(list(row.token_ids))), strong=at == best),
                Cell(f"{'∎ ' if row.ended else ''}{len(row.token_ids)}", tone=Tone.MUTED),
                Cell(format_value(row.total, 2), share=(row.total - worst) / span * 0.94 + 0.06),
                Cell(format_value(row.per_token, 3), tone=Tone.MUTED),
            )
            for at, row in enumerate(rows)
        ),
    )


def timing_words(timing: Timing) -> str:
    """What the batch bought, against one row alone."""
    if not timing.passes:
        return "No pass was needed: the logits of the first token were there."
    each = f"{format_value(timing.batch_token)} ms per token"
    if timing.batch == 1:
        return f"1 token per weight read: this model runs one sequence at a time. {each}."
    fastest = f"the fastest {format_value(timing.batch_pass)} ms"
    passes = f"{plural(timing.passes, 'pass', 'passes')}, {fastest}"
    return (
        f"{format_value(timing.tokens_per_weight_read, 0)} tokens per weight read · {passes} · "
        f"{each}, one row alone {format_value(timing.single_pass)} ms · "
        f"{format_value(timing.gain, 1)} × the tokens per second"
    )


def _one_line(text: str) -> str:
    return text.replace("\n", "⏎")


def _refusal(moment: Moment | None) -> str:
    if moment is None or moment.step is None:
        return NOTHING
    if moment.distribution is None:
        words = moment.sampling_refusal or "the logits of this step are not computed yet"
        return f"{words[:1].upper()}{words[1:]}."
    return ""
