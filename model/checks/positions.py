"""The position that each token is given, read from what was added to it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from model.checks.cache import relative_difference
from model.checks.core import CheckResult, Subject, Where, check, number, plural, within, worse
from model.checks.observe import Observation, observe_decode, observe_pass
from model.engine import Array

NAME = "positions"
TABLE = "pos_embed"
ROTATED = "blocks.0.attn.rot_k"
"""Depends on the token and its position alone: the first layer's keys have seen no other token."""


@check(NAME, "each decoded token is given the position that the cache length says")
def positions(subject: Subject) -> CheckResult:
    """Compare what was added for the position with the rows of one full pass of the sound engine.

    A row of the position table is looked up, so it must be equal bit for bit. Where positions are
    rotary, the first layer's rotated keys are compared within the engine's tolerance instead.
    """
    names = {name for operation in subject.engine.operations for name in operation.outputs}
    name = next((name for name in (TABLE, ROTATED) if name in names), None)
    tolerance = subject.sound_engine.tolerance if name == ROTATED else 0.0
    if name is None or not subject.decoded:
        reason = subject.remark or "; this engine records no positions"
        return CheckResult(NAME, True, 0.0, tolerance, f"nothing to examine{reason}")

    full = observe_pass(subject.sound_engine, subject.token_ids, subject.new_cache(), "full", 0)
    table = next(seen.array for seen in full if seen.name == name)[0]  # (..., pos, n)
    worst, where, detail = 0.0, None, ""
    for seen in _decoded(subject, name):
        difference = relative_difference(seen.array, table[..., seen.first : seen.first + 1, :])
        if worse(difference, worst):
            worst = difference
        if where is not None or within(difference, tolerance):
            continue
        where = Where(query=seen.first, step=seen.step, operation=seen.operation.name)
        detail = (
            f"step {seen.step} gave its token {_given(seen.array, table, name)}, with "
            f"{plural(seen.first, 'position')} in the cache; {seen.name} is off by "
            f"{number(difference)} relative"
        )
    holds = within(worst, tolerance)
    if holds:
        last = len(subject.token_ids) - 1
        first = subject.prefilled
        places = f"position {last}" if last == first else f"positions {first} to {last}"
        detail = (
            f"{plural(subject.decoded, 'decoded token')} at {places}, as many as there were in the "
            f"cache each time; largest difference of {name} {number(worst)}"
            f"{subject.remark}"
        )
    return CheckResult(NAME, holds, worst, tolerance, detail, where)


def _decoded(subject: Subject, name: str) -> Iterator[Observation]:
    return (seen for seen in observe_decode(subject) if seen.name == name)


def _given(array: Array, table: Array, name: str) -> str:
    """Which row of the table an array is, in words."""
    if name == ROTATED:  # what a key would be at another position is in no row of the table
        return "another position than its own"
    equal = np.flatnonzero((table == array[0]).all(axis=-1))
    return f"position {equal[0]}" if len(equal) else "a position that is none of this run's"
