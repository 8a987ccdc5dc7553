"""The repetition penalty and orders of one's own, against a recomputation in plain Python."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.checks.sampling import recompute
from model.errors import FaultNotPossible, InvalidSampling, ShapeMismatch, UnknownToken
from model.faults import sampling_under
from model.ranking import rank
from model.sampling import (
    STAGES,
    SamplingConfig,
    batched_sample,
    distribution,
    distribution_from,
    draw,
    find_order,
    order_names,
    own_order,
    sample_token,
    top_candidates,
)

INF = math.inf
LATE = "top_k,top_p,min_p,repetition_penalty,temperature"
FAULT = "truncate-before-temperature"


def ln(*probabilities: float) -> list[float]:
    return [math.log(p) for p in probabilities]


# --- the penalty --------------------------------------------------------------------------------


def test_the_penalty_divides_positive_logits_and_multiplies_others() -> None:
    config = SamplingConfig(repetition_penalty=2.0)
    row = [4.0, -1.0, 0.0, 3.0, -INF]
    found = distribution(row, config, [0, 1, 2, 0, 4])
    assert found.penalised.logits.tolist() == [2.0, -2.0, 0.0, 3.0, -INF]
    assert found.kept.tolist() == [3, 0, 2, 1]
    weights = np.exp([2.0, -2.0, 0.0, 3.0])
    assert found.final[:4] == pytest.approx(weights / weights.sum())
    assert found.raw[0] > found.raw[3]  # as the model gave it
    assert found.log_raw[0] == distribution(row, SamplingConfig()).log_raw[0]


def test_how_often_a_token_occurred_does_not_matter() -> None:
    config = SamplingConfig(repetition_penalty=1.3)
    once, often = (distribution([2.0, 1.0], config, ids) for ids in ([0], [0, 0, 0, 0]))
    assert once.final.tolist() == often.final.tolist()


@pytest.mark.parametrize("order", [*order_names(), LATE, FAULT])
def test_without_a_history_or_with_penalty_one_nothing_moves(order: str) -> None:
    row = np.random.default_rng(1).normal(0, 3, 50).astype(np.float32)
    plain = distribution(row, SamplingConfig(0.7, 0.9, 20, order=order))
    for penalty, history in ((1.0, [3, 4]), (1.7, [])):
        config = SamplingConfig(0.7, 0.9, 20, order=order, repetition_penalty=penalty)
        found = distribution(row, config, history)
        assert found.final.tolist() == plain.final.tolist()
        assert found.penalised is found.ranking


def test_greedy_takes_the_highest_penalised_logit() -> None:
    config = SamplingConfig(temperature=0.0, repetition_penalty=1.5)
    found = distribution([3.0, 2.5, 2.5], config, [0])
    assert found.kept.tolist() == [1]
    assert found.tempered.tolist() == found.final.tolist() == [0.0, 1.0, 0.0]
    assert [stage.name for stage in found.stages] == ["raw", "repetition_penalty", "greedy"]
    assert found.cut_name(0) == "greedy"


def test_a_penalty_below_one_makes_what_occurred_more_likely_and_stays_finite() -> None:
    config = SamplingConfig(repetition_penalty=1e-300)
    found = distribution([1e308, -1e308, 1.0], config, [0, 1])
    assert np.isfinite(found.penalised.logits).all()
    assert found.kept.tolist() == [0]
    enormous = distribution([-1e308, -1.0], SamplingConfig(repetition_penalty=1e300), [0])
    assert np.isfinite(enormous.penalised.logits).all()
    assert enormous.cut_name(0) == "underflow"  # of probability 0, and not masked


def test_the_penalty_comes_before_top_k_in_the_orders_of_libraries() -> None:
    for order in order_names():
        config = SamplingConfig(top_k=1, repetition_penalty=4.0, order=order)
        assert distribution([2.0, 1.0, 0.5], config, [0]).kept.tolist() == [1]
    # After top-k there is only one token left to penalise.
    config = SamplingConfig(top_k=1, repetition_penalty=4.0, order=LATE)
    assert distribution([2.0, 1.0, 0.5], config, [0]).kept.tolist() == [0]


def test_what_was_cut_before_a_late_penalty_stays_out() -> None:
    config = SamplingConfig(top_k=2, repetition_penalty=10.0, order=LATE)
    found = distribution([3.0, 2.0, 1.9, -INF], config, [0])
    assert found.kept.tolist() == [1, 0]  # ranked anew, and token 2 is no candidate
    assert [found.cut_name(token) for token in range(4)] == [None, None, "top_k", "masked"]
    assert found.cut_by.tolist() == [0, 0, 2, 1]
    assert found.cut_names[2] == "top_k"
    assert found.final[0] == pytest.approx(1 / (1 + math.exp(2.0 - 0.3)))


def test_a_history_outside_the_vocabulary_is_refused() -> None:
    for history in ([-1], [2], [0, 5]):
        with pytest.raises(UnknownToken, match=r"0\.\.1"):
            distribution([1.0, 2.0], SamplingConfig(repetition_penalty=1.2), history)
    assert distribution([1.0, 2.0], SamplingConfig(), [9]).kept_count == 2  # nobody asks


def test_single_and_batched_draws_take_histories() -> None:
    config = SamplingConfig(0.0, repetition_penalty=5.0)
    rng = random.Random(1)
    assert sample_token([3.0, 2.0], config, rng, [0]).token == 1
    assert batched_sample([[3.0, 2.0], [3.0, 2.0]], config, histories=[[0], [1]]).tolist() == [1, 0]
    with pytest.raises(ShapeMismatch, match="2 rows of logits have 1 histories"):
        batched_sample([[3.0, 2.0], [3.0, 2.0]], config, histories=[[0]])


@pytest.mark.parametrize("seed", range(6))
def test_merging_gives_the_order_of_a_sort(seed: int) -> None:
    rng = np.random.default_rng(seed)
    row = np.round(rng.normal(0, 2, 3000), 1).astype(np.float32)  # many ties
    row[rng.random(row.size) < 0.1] = -INF
    occurred = np.unique(rng.integers(0, row.size, 400))
    moved = rank(row).penalised(float(rng.choice([0.5, 1.25, 2.0])), occurred)
    assert moved.order.tolist() == rank(moved.logits).order.tolist()
    assert moved.places[moved.order].tolist() == list(range(row.size))
    assert (moved.highest, moved.best) == (moved.logits.max(), int(moved.logits.argmax()))


def test_a_penalised_ranking_is_kept_for_the_next_slider() -> None:
    ranking = rank(np.random.default_rng(1).normal(0, 3, 500))
    first = distribution_from(ranking, SamplingConfig(0.7, repetition_penalty=1.2), [1, 2])
    second = distribution_from(ranking, SamplingConfig(0.8, repetition_penalty=1.2), [2, 1, 1])
    assert first.penalised is second.penalised


# --- orders -------------------------------------------------------------------------------------


def test_every_permutation_is_an_order() -> None:
    for names in itertools.permutations(STAGES):
        order = find_order(own_order(names))
        assert order.names == names
        assert not order.offered
        assert SamplingConfig(order=order.name).order == ",".join(names)


def test_an_order_of_ones_own_may_be_spaced_and_hyphenated() -> None:
    config = SamplingConfig(order=" top-k, top-p ,min-p,repetition-penalty, temperature")
    assert config.order == LATE
    assert find_order(config.order).rule.startswith("top-k, top-p, min-p, repetition penalty, then")


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("top_k,top_p", "does not name repetition_penalty, temperature, min_p"),
        ("top_k,top_k,top_p,min_p,temperature", "names the stage top_k twice"),
        ("top_k,typical_p", "no stage 'typical_p' to order: there are repetition_penalty"),
        (",", "no stage ''"),
        ("sideways", "reference, hugging-face, llama.cpp, not 'sideways'"),
    ],
)
def test_an_order_that_is_none_is_refused_in_words(order: str, said: str) -> None:
    with pytest.raises(InvalidSampling) as refusal:
        SamplingConfig(order=order)
    assert said in str(refusal.value)


def test_each_stage_measures_what_those_before_it_left() -> None:
    five = ln(0.5, 0.2, 0.15, 0.1, 0.05)
    settings_ = {"temperature": 2.0, "top_k": 3, "top_p": 0.58}
    by_order = {
        "repetition_penalty,temperature,top_k,top_p,min_p": [0, 1],  # .459 .290 .251
        "repetition_penalty,top_k,top_p,min_p,temperature": [0],  # .588 .235 .176
        "repetition_penalty,temperature,top_p,top_k,min_p": [0, 1, 2],  # .340 .215 .186 of all
        "top_p,repetition_penalty,temperature,top_k,min_p": [0, 1],  # .5 .2 of all, untempered
    }
    for order, kept in by_order.items():
        config = SamplingConfig(order=order, **settings_)  # type: ignore[arg-type]
        assert distribution(five, config).kept.tolist() == kept


def test_the_fault_needs_an_order_that_tempers_before_top_p() -> None:
    early = SamplingConfig(order="repetition_penalty,temperature,top_p,min_p,top_k")
    assert sampling_under(early, [FAULT]).order == FAULT
    with pytest.raises(FaultNotPossible, match="truncates before the temperature"):
        sampling_under(SamplingConfig(order=LATE), [FAULT])


# --- properties ---------------------------------------------------------------------------------

logits = st.one_of(
    st.integers(-24, 24).map(lambda n: n / 8), st.floats(-30, 30, width=32), st.just(-INF)
)
rows = st.lists(logits, min_size=1, max_size=20).filter(lambda row: max(row) > -INF)
orders = st.one_of(st.sampled_from(order_names()), st.permutations(list(STAGES)).map(",".join))
configs = st.builds(
    SamplingConfig,
    temperature=st.sampled_from([0.0, 0.3, 0.77, 1.0, 1.9]),
    top_p=st.one_of(st.just(1.0), st.integers(1, 999).map(lambda n: n / 1000 + 1.7e-5)),
    top_k=st.integers(0, 12),
    min_p=st.sampled_from([0.0, 0.0123, 0.217, 0.771]),
    repetition_penalty=st.sampled_from([0.5, 1.0, 1.13, 1.7, 3.0]),
    order=orders,
)


def test_logits_that_differ_by_less_than_the_highest_can_tell_are_no_tie() -> None:
    config = SamplingConfig(temperature=0.3, top_k=2, order="hugging-face")
    assert distribution([0.0, 0.125, 5.5e-33], config).kept.tolist() == [1, 2]
    assert distribution([0.0, 0.125, 0.0], config).kept.tolist() == [1, 0, 2]


@settings(max_examples=400)
@given(rows, configs, st.data())
def test_every_order_and_penalty_is_its_rule(
    row: list[float], config: SamplingConfig, data: st.DataObject
) -> None:
    history = data.draw(st.lists(st.integers(0, len(row) - 1), max_size=6))
    found = distribution(row, config, history)
    expected = recompute(row, config, history)
    assert found.kept.tolist() == list(expected)
    assert found.final[found.kept] == pytest.approx(list(expected.values()), abs=1e-12)
    assert found.final.sum() == pytest.approx(1.0)
    assert set(np.flatnonzero(found.final).tolist()) == set(expected)
    names = [found.cut_name(token) for token in range(len(row))]
    assert names == [found.cut_names[code] for code in found.cut_by]
    assert [name is None for name in names] == (found.final > 0).tolist()
    assert draw(found, 0.5) in expected
    listed: list[Any] = list(top_candidates(found, len(row)))
    assert [c.final for c in listed] == [found.final[c.token_id] for c in listed]
    assert [c.tempered for c in listed] == [found.tempered[c.token_id] for c in listed]
    counts = [stage.kept_count for stage in found.stages]
    assert counts == sorted(counts, reverse=True)
