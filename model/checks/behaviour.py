"""The causal mask seen from outside: what comes later must not change what came before."""

from __future__ import annotations

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
from model.engine import Array

NAME = "causal-behaviour"
TOLERANCE = 1e-5


@check(NAME, "replacing a later token moves no earlier logit")
def causal_behaviour(subject: Subject) -> CheckResult:
    """Replace the last token, then one in the middle, each in one pass of the same shape.

    A move is relative to the largest logit of the run, so the unit of the logits does not matter.
    """
    ids = subject.token_ids
    vocabulary = subject.engine.shape.vocabulary
    if len(ids) < 2 or vocabulary < 2:
        reason = (
            f"the context has {plural(subject.positions, 'position')}"
            if len(ids) < 2
            else "the vocabulary has one token"
        )
        return CheckResult(NAME, True, 0.0, TOLERANCE, f"nothing to examine: {reason}")

    before = _logits(subject, ids)
    scale = max(float(np.abs(row).max()) for row in before) or 1.0
    worst, detail, where = 0.0, "", None
    replaced = sorted({len(ids) - 1, max(1, len(ids) // 2)})
    for position in replaced:
        other = (ids[position] + 1) % vocabulary
        after = _logits(subject, (*ids[:position], other, *ids[position + 1 :]))
        with np.errstate(invalid="ignore"):
            pairs = zip(before[:position], after[:position], strict=True)
            moves = np.array([np.abs(new - old).max() / scale for old, new in pairs])
        query = int(moves.argmax())  # a NaN counts as the largest
        if worse(float(moves[query]), worst):
            worst = float(moves[query])
            where = Where(query=query, key=position, step=0, operation="logits")
            detail = (
                f"replacing token {position} (id {ids[position]} by {other}) moves the logits of "
                f"the earlier position {query} by {number(worst)} of the largest logit"
            )
    holds = within(worst, TOLERANCE)
    if holds:
        tokens = " and then ".join(f"token {position}" for position in replaced)
        detail = (
            f"replacing {tokens} of {len(ids)} moves no logit of "
            f"{plural(replaced[-1], 'earlier position')}; largest move {number(worst)} of the "
            "largest logit"
        )
    return CheckResult(NAME, holds, worst, TOLERANCE, detail, where)


def _logits(subject: Subject, token_ids: tuple[int, ...]) -> Array:
    """Logits of all positions in one pass, (pos, vocab)."""
    engine = subject.engine
    logits = engine.forward(as_batch(token_ids), subject.new_cache(), all_logits=True)
    rows: Array = logits[0]
    return rows
