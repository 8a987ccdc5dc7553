"""Leaks of attention in words, and the verdict on causality from the recorded weights."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from decoder_gui.viewdata.attention_codes import LEAKS_KEPT, Codes, HeadLeaks
from decoder_gui.viewdata.attention_store import PatternStore
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_count, format_value, plural
from model.trace import Phase

LEAKS_NAMED = LEAKS_KEPT


class Verdict(Enum):
    """Outcome of a check; :attr:`CheckLine.shown` says it without colour."""

    HOLDS = "✓"
    FAILS = "✗"
    OPEN = "–"  # nothing to examine yet, or not decidable


@dataclass(frozen=True)
class CheckLine:
    """One line beside the matrix: ``✓ no weight above the diagonal``."""

    verdict: Verdict
    text: str

    @property
    def shown(self) -> str:
        return f"{self.verdict.value} {self.text}"


@dataclass(frozen=True)
class TokenLabel:
    """A token at its position, as rows and columns are labelled; ``text`` has no leading ``␣``."""

    position: int
    text: str
    phase: Phase


@dataclass(frozen=True)
class Leak:
    """An attention weight on a later position, which causality forbids."""

    layer: int
    head: int
    query: int
    key: int
    weight: float
    sentence: str


def token_labels(
    moment: Moment, positions: int, known: tuple[TokenLabel, ...] = ()
) -> tuple[TokenLabel, ...]:
    """Labels of the first positions; a leading ``␣`` is left out where something follows it.

    ``known`` are labels of the same run that need not be made again.
    """
    labels = list(known[:positions])
    for step in moment.trace.steps:
        for position in range(max(step.first, len(labels)), min(step.last, positions)):
            text = moment.pieces[position].text
            shown = text[1:] if text.startswith("␣") and len(text) > 1 else text
            labels.append(TokenLabel(position, shown, step.phase))
    return tuple(labels)


def leak_cells(codes: Codes) -> NDArray[np.int64]:
    """Query and key of every cell above the diagonal that has a colour, (n, 2), row by row."""
    above = np.triu(codes, 1)
    return np.argwhere(above) if above.any() else np.zeros((0, 2), np.int64)


def name_leaks(
    found: list[tuple[int, HeadLeaks]], layer: int, head: int, labels: tuple[TokenLabel, ...]
) -> tuple[Leak, ...]:
    """The heaviest leaks in words, those of one head first."""
    candidates: list[tuple[bool, float, int, int, int, int]] = []
    for at, leaks in found:
        elsewhere = (at, leaks.head) != (layer, head)
        columns = zip(leaks.weights, leaks.queries, leaks.keys, strict=True)
        candidates += [
            (elsewhere, -float(weight), at, leaks.head, int(query), int(key))
            for weight, query, key in columns
        ]
    named = []
    for elsewhere, negative, at, of, query, key in sorted(candidates)[:LEAKS_NAMED]:
        sentence = (
            f"query {query} “{labels[query].text}” attends to the later key {key} "
            f"“{labels[key].text}” with {format_value(-negative, 2)}"
        )
        if elsewhere:
            sentence += f" (block {at}, head {of})"
        named.append(Leak(at, of, query, key, -negative, sentence))
    return tuple(named)


def causal_line(
    moment: Moment,
    store: PatternStore,
    found: list[tuple[int, HeadLeaks]],
    layer: int,
    head: int,
    broken: int,
) -> CheckLine:
    total = sum(leaks.count for _, leaks in found)
    if total:
        here = sum(leaks.count for at, leaks in found if (at, leaks.head) == (layer, head))
        among = "all heads" if not store.unchecked(moment) else "the patterns examined"
        text = f"{plural(here, 'weight')} above the diagonal, {format_count(total)} in {among}"
        return CheckLine(Verdict.FAILS, text)
    if broken:
        text = f"causality cannot be judged: {plural(broken, 'weight')} not finite"
        return CheckLine(Verdict.OPEN, text)
    if not any(store.rows_computed(moment, at) for at in range(len(store.names))):
        return CheckLine(Verdict.OPEN, "no weight computed yet")
    skipped = store.unchecked(moment)
    if skipped:
        text = f"no weight above the diagonal; {plural(skipped, 'pattern')} not examined"
        return CheckLine(Verdict.OPEN, text)
    return CheckLine(Verdict.HOLDS, "no weight above the diagonal")
