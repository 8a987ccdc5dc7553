"""The hugging-face order against transformers' own logits processors, golden and at random."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from model.ranking import rank
from model.sampling import Distribution, SamplingConfig, distribution
from tests.model.make_transformers_golden import (
    COMMITTED,
    GOLDEN,
    RandomCase,
    by_transformers,
    random_cases,
)

RANDOM = 4000
NEAR = 5e-6  # an edge this close to its bound is decided by rounding in one library or the other


def ours(case: RandomCase) -> Distribution:
    config = SamplingConfig(
        temperature=case.temperature,
        top_k=case.top_k,
        top_p=case.top_p,
        min_p=case.min_p,
        repetition_penalty=case.repetition_penalty,
        order="hugging-face",
    )
    return distribution(case.logits, config, case.history)


def decided_by_rounding(found: Distribution) -> bool:
    """Whether a mass or a share lies as close to its bound as rounding reaches."""
    config = found.config
    stages = {stage.name: stage for stage in found.stages}
    running = np.cumsum(stages["top_k"].ranked)
    if config.top_p < 1.0 and np.abs(running - config.top_p).min() < NEAR:
        return True
    shares = stages["top_p"].ranked / stages["top_p"].ranked[0]
    return bool(config.min_p and np.abs(shares - config.min_p).min() < NEAR)


def assert_same(found: Distribution, expected: NDArray[np.float64]) -> None:
    """The same probabilities; which of several equal logits stays at an edge of top-p is open.

    There transformers has what torch's sort leaves, and the rule here is the lower id.
    """
    logits = found.penalised.logits
    theirs = np.flatnonzero(expected > 0)
    assert found.kept_count == theirs.size
    assert sorted(logits[found.kept].tolist()) == sorted(logits[theirs].tolist())
    assert np.sort(found.final) == pytest.approx(np.sort(expected), abs=1e-9)
    differing = set(found.kept.tolist()) ^ set(theirs.tolist())
    edge = float(logits[found.kept].min())
    assert all(logits[token] == edge for token in differing)


def golden() -> list[tuple[RandomCase, NDArray[np.float64]]]:
    rows = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    found = []
    for row in rows:
        final = np.array(row.pop("final"))
        row["logits"] = [-math.inf if logit is None else logit for logit in row["logits"]]
        found.append((RandomCase(**row), final))
    return found


@pytest.mark.parametrize("number", range(COMMITTED))
def test_golden_case(number: int) -> None:
    case, final = golden()[number]
    found = ours(case)
    assert not decided_by_rounding(found)
    assert_same(found, final)


def test_golden_cases_have_every_stage_on_and_ties() -> None:
    cases = [case for case, _ in golden()]
    assert any(case.top_k and case.top_p < 1 and case.min_p for case in cases)
    assert any(case.repetition_penalty > 1 and case.history for case in cases)
    assert any(case.repetition_penalty < 1 and case.history for case in cases)
    assert any(len(set(case.logits)) < len(case.logits) for case in cases)
    moved = [found for found in map(ours, cases) if found.penalised is not found.ranking]
    assert any(f.penalised.order.tolist() != rank(f.ranking.logits).order.tolist() for f in moved)


def test_thousands_of_random_cases() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    compared = 0
    for case in random_cases(2024, RANDOM):
        found = ours(case)
        if not decided_by_rounding(found):
            assert_same(found, by_transformers(case))
            compared += 1
    assert compared > RANDOM * 0.97
