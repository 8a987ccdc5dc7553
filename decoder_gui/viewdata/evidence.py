"""What the evidence panels show: each token's surprise, totals, and the model's own choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoder_gui.debugger.laboratory.evidence import Evidence, Surprise
from decoder_gui.viewdata.kv_cache import Figure
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import (
    format_count,
    format_log_probability,
    format_percent,
    format_value,
    plural,
)
from decoder_gui.viewdata.plots import Axis, Mark, Plot, Series
from decoder_gui.viewdata.tables import Cell, Column, Table, Tone
from decoder_gui.viewdata.token_strip import MOST_SURPRISE

LABELS = 9  # tokens named under the bars, the most surprising ones that do not crowd each other
LABEL_LENGTH = 8
HEADROOM = 1.45  # of the highest bar, for the legend
MOST_SURPRISING = 3
SURPRISED = 3.0  # nats from which a token stands out: a probability below 5 %

COLUMNS = (
    Column("pos", number=True),
    Column("token", code=True),
    Column("log p", number=True, tip="nats, given the tokens before it"),
    Column("p", number=True),
    Column("rank", number=True, tip="1 is the token that the model held most likely"),
    Column("model's choice", code=True, tip="the most likely token there, given the text so far"),
    Column("its p", number=True),
    Column("free run", code=True, tip="what the model chose when it read its own choices"),
    Column("", stretch=True),
)


@dataclass(frozen=True, eq=False)
class EvidenceView:
    """The text as evidence.

    Attributes:
        positions: of the rows of the table, in its order.
        words: what is known and what is not, in a sentence or two.
    """

    plot: Plot
    figures: tuple[Figure, ...]
    table: Table
    positions: tuple[int, ...]
    words: str
    hint: str


def build_evidence(
    moment: Moment,
    evidence: Evidence,
    *,
    pending: bool = False,
    by_surprise: bool = False,
    free: tuple[int, Sequence[int]] | None = None,
) -> EvidenceView:
    """The view of a text; ``free`` is how many tokens a free run was given and what it chose."""
    known = evidence.surprises
    order = sorted(known, key=lambda s: (s.log_probability, s.position)) if by_surprise else known
    here = moment.position
    apart = _departure(moment, free)
    positions = tuple(each.position for each in order)
    return EvidenceView(
        plot=_plot(moment, known),
        figures=_figures(moment, evidence),
        table=Table(
            COLUMNS,
            tuple(_row(moment, each, free, apart) for each in order),
            marked=positions.index(here) if here in positions else None,
        ),
        positions=positions,
        words=_words(moment, evidence, pending, free, apart),
        hint="working…" if pending else plural(len(known), "token") + " after the first",
    )


def _plot(moment: Moment, known: Sequence[Surprise]) -> Plot:
    x = np.asarray([each.position for each in known], dtype=np.float64)
    y = np.asarray([-each.log_probability for each in known], dtype=np.float64)
    expected = np.asarray([each.entropy for each in known], dtype=np.float64)
    ticks = tuple((float(at), _short(moment, at)) for at in _labelled(known))
    mean = float(y.mean()) if len(y) and np.isfinite(y).all() else math.nan
    finite = [value for value in (*y, *expected) if math.isfinite(value)]
    top = max([1.0, *finite])
    across = ((mean, f"mean {mean:.2f} nats"),) if math.isfinite(mean) else ()
    worst = max(known, key=lambda each: -each.log_probability, default=None)
    gist = (
        ""
        if worst is None
        else (
            f"Most surprising: {_token(moment, worst.position)} at position {worst.position}, "
            f"{-worst.log_probability:.2f} nats. Mean {mean:.2f} nats."
        )
    )
    return Plot(
        Axis("token by position, the most surprising ones named", ticks=ticks),
        Axis("surprise, nats", range=(0.0, top * HEADROOM)),
        (
            Series("surprise, -log p", x, np.where(np.isfinite(y), y, np.nan), mark=Mark.BARS),
            Series("expected (entropy)", x, expected, "decode", Mark.POINTS, "d"),
        )
        if len(known)
        else (),
        across=across,
        description=gist,
    )


def _labelled(known: Sequence[Surprise]) -> list[int]:
    """Positions to name: the most surprising first, each with room around it."""
    apart = -(-len(known) // LABELS)
    chosen: list[int] = []
    for each in sorted(known, key=lambda each: (each.log_probability, each.position)):
        if all(abs(each.position - other) >= apart for other in chosen):
            chosen.append(each.position)
    return sorted(chosen)


def _figures(moment: Moment, evidence: Evidence) -> tuple[Figure, ...]:
    known = evidence.surprises
    if not known:
        return ()
    count, total = len(known), evidence.log_likelihood
    odd = sorted(known, key=lambda each: (each.log_probability, each.position))[:MOST_SURPRISING]
    agree = evidence.agreements
    share = format_percent(agree / count, 0)
    return (
        Figure("Log-likelihood", f"{format_value(total)} nats", f"sum over {count} tokens"),
        Figure("Per token", f"{format_value(total / count)} nats", _bits(total, count)),
        Figure("Perplexity", format_value(evidence.perplexity), "exp of the mean surprise"),
        Figure("Model would agree", f"{agree} of {count}", f"{share} of the tokens have rank 1"),
        Figure(
            "Colour on the strip", f"0 to {MOST_SURPRISE:g} nats", "behind each log-probability"
        ),
        Figure(
            "Most surprising",
            f"{format_log_probability(odd[0].log_probability)} nats",
            "   ".join(
                f"{_token(moment, each.position)} at {each.position}, rank "
                f"{format_count(each.rank)}"
                for each in odd
            ),
            below=True,
        ),
    )


def _bits(total: float, count: int) -> str:
    return f"{format_value(total / count / math.log(2))} bits"


def _row(
    moment: Moment,
    each: Surprise,
    free: tuple[int, Sequence[int]] | None,
    apart: int | None,
) -> tuple[Cell, ...]:
    odd = each.log_probability < -SURPRISED
    share = min(1.0, -each.log_probability / 10) if math.isfinite(each.log_probability) else 1.0
    cell, note = _free(moment, each, free, apart)
    return (
        Cell(str(each.position)),
        Cell(_token(moment, each.position), strong=odd),
        Cell(format_log_probability(each.log_probability), share=share),
        Cell(format_percent(math.exp(each.log_probability))),
        Cell(format_count(each.rank), tone=Tone.MUTED if each.agrees else Tone.PLAIN),
        Cell("the same" if each.agrees else _piece(moment, each.choice_id), tone=_tone(each)),
        Cell(format_percent(math.exp(each.choice_log_probability)), tone=_tone(each)),
        cell,
        Cell(note, tone=Tone.MUTED),
    )


def _departure(moment: Moment, free: tuple[int, Sequence[int]] | None) -> int | None:
    """The first position at which a free run chose another token than the text has, or None."""
    if free is None:
        return None
    given, chosen = free
    pairs = zip(chosen, moment.trace.token_ids[given:], strict=False)
    return next((given + i for i, (one, other) in enumerate(pairs) if one != other), None)


def _free(
    moment: Moment,
    each: Surprise,
    free: tuple[int, Sequence[int]] | None,
    apart: int | None,
) -> tuple[Cell, str]:
    if free is None:
        return Cell(""), ""
    given, chosen = free
    at = each.position - given
    if at < 0:
        return Cell("given", tone=Tone.FAINT), ""
    if at >= len(chosen):
        return Cell("…", tone=Tone.FAINT), ""
    same = chosen[at] == each.token_id
    note = "parts here" if each.position == apart else ""
    return Cell(_piece(moment, chosen[at]), tone=Tone.MUTED if same else Tone.WARNING), note


def _words(
    moment: Moment,
    evidence: Evidence,
    pending: bool,
    free: tuple[int, Sequence[int]] | None,
    apart: int | None,
) -> str:
    words = []
    if pending and not evidence.surprises:
        words.append("Weighing the text…")
    if len(moment.trace.token_ids) < 2:
        words.append("A text of one token says nothing: nothing came before it.")
    if evidence.missing:
        count = plural(len(evidence.missing), "token")
        words.append(
            f"Nothing is known about {count}: the logits before it were not recorded, or are not "
            "finite."
        )
    if free is not None:
        given, chosen = free
        to_come = len(moment.trace.token_ids) - given
        if len(chosen) < to_come:
            words.append(f"Free run: {len(chosen)} of {to_come} tokens.")
        elif apart is None:
            words.append(
                f"After {plural(given, 'token')} the model writes the same text by itself."
            )
        else:
            words.append(
                f"Given {plural(given, 'token')}, the model by itself parts from the text at "
                f"position {apart}; from there on it reads another text."
            )
    return " ".join(words)


def _tone(each: Surprise) -> Tone:
    return Tone.MUTED if each.agrees else Tone.PLAIN


def _token(moment: Moment, position: int) -> str:
    return moment.pieces[position].shown


def _piece(moment: Moment, token_id: int) -> str:
    return moment.model.tokenizer.piece(token_id).shown


def _short(moment: Moment, position: int) -> str:
    text = _token(moment, position)
    return text if len(text) <= LABEL_LENGTH else text[: LABEL_LENGTH - 1] + "…"
