"""What every order of the sampler would keep under the same settings and the same luck."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_count, plural
from model.errors import DecoderError
from model.faults import sampling_under
from model.sampling import Distribution, distribution_from, draw, find_order, order_names

NAMED = 3  # tokens that an order keeps or drops are named


@dataclass(frozen=True)
class OrderChoice:
    """An order that can be chosen, and what it would keep."""

    name: str
    title: str
    rule: str
    kept: int
    lands_on: str
    current: bool
    change: str  # what it keeps and drops beside the order in force, in words
    text: str  # all of it on a button: "hugging-face 12"
    tip: str


def token_text(moment: Moment, token: int) -> str:
    """A token as every panel writes it."""
    return moment.model.tokenizer.piece(token).text


def order_choices(moment: Moment, shown: Distribution) -> tuple[OrderChoice, ...]:
    """What every order with a name would keep under the same settings and the same luck."""
    own = moment.sampling.order not in order_names()
    names = [*order_names(), *([moment.sampling.order] if own else [])]
    return tuple(_choice(moment, shown, name) for name in names)


def _change(moment: Moment, shown: Distribution, other: Distribution) -> str:
    """What another distribution keeps that this one does not, and the reverse, in words."""
    parts = []
    for word, one, two in (("also keeps", other, shown), ("drops", shown, other)):
        if one.stages[-1].ranking is two.stages[-1].ranking:  # each keeps the first ones of it
            apart = one.kept[two.kept_count :]
        else:
            apart = np.setdiff1d(one.kept, two.kept, assume_unique=True)
        if apart.size:
            likely = apart[np.argsort(shown.ranking.places[apart])][:NAMED].tolist()
            names = " ".join(token_text(moment, token) for token in likely)
            rest = f" and {plural(apart.size - NAMED, 'other')}" if apart.size > NAMED else ""
            parts.append(f"{word} {names}{rest}")
    return " and ".join(parts) or "keeps the same"


def _choice(moment: Moment, shown: Distribution, name: str) -> OrderChoice:
    config = replace(moment.sampling, order=name)
    current = name == moment.sampling.order
    found = shown
    if not current:
        try:
            followed = sampling_under(config, moment.faults)
        except DecoderError:
            followed = config
        history = shown.stages[0].occurred.tolist()
        found = distribution_from(shown.ranking, followed, history)
    assert moment.step is not None  # there is a distribution
    lands = token_text(moment, draw(found, 0.0 if config.deterministic else moment.step.uniform))
    order = find_order(name)
    title = name if name in order_names() else "one's own"
    return OrderChoice(
        name=name,
        title=title,
        rule=order.rule,
        kept=found.kept_count,
        lands_on=lands,
        current=current,
        change="" if current else _change(moment, shown, found),
        text=f"{title}  {format_count(found.kept_count)}",
        tip=(
            f"{order.rule[:1].upper()}{order.rule[1:]}. Keeps "
            f"{plural(found.kept_count, 'token')}; the held draw lands on {lands}."
        ),
    )
