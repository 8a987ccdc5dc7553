"""Sampling: the cases of public bug reports, the three orders, the draw, and properties of all."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from model.errors import InvalidSampling, NonFiniteLogits, ShapeMismatch, UnknownToken
from model.sampling import (
    ORDERS,
    Distribution,
    SamplingConfig,
    Stage,
    batched_sample,
    distribution,
    distribution_from,
    draw,
    fault_truncate_first,
    order_names,
    rank,
    sample_token,
    sampling_order,
    stable_log_softmax,
    token_score,
    top_candidates,
)
from model.sampling_orders import temperature as temper
from tests.model.hugging_face_cases import CASES, HuggingFaceCase

INF = math.inf
JUST_BELOW_ONE = 1 - 2.0**-53


def ln(*probabilities: float) -> list[float]:
    return [math.log(p) for p in probabilities]


@dataclass(frozen=True)
class Case:
    """One public bug report: an input and the right answer."""

    source: str
    logits: list[float]
    settings: dict[str, Any] = field(default_factory=dict)
    kept: list[int] | None = None
    final: list[float] | None = None
    selected: int | None = None


FOUR = ln(0.3, 0.1, 0.1, 0.5)
FIVE = ln(0.5, 0.2, 0.15, 0.1, 0.05)
TIED = [1.0, 2.0, 2.0, 2.0, 3.0]
PLAIN = [0.1, 0.4, 0.3, 0.2]

REPORTED = [
    Case("transformers#18976", FOUR, {"top_p": 0.8}, kept=[3, 0]),
    Case("Camelid#534", [3, 2, 1], {"temperature": 0.5, "top_p": 0.8}, kept=[0]),
    Case(
        "Camelid#534 in llama.cpp's order",
        [3, 2, 1],
        {"temperature": 0.5, "top_p": 0.8, "order": "llama.cpp"},
        kept=[0, 1],
    ),
    Case("vllm#50979", TIED, {"top_k": 3}, kept=[4, 1, 2]),
    Case(
        "vllm#50979 in transformers' order",
        TIED,
        {"top_k": 3, "order": "hugging-face"},
        kept=[4, 1, 2, 3],
    ),
    Case("mlx-lm#388", FIVE, {"top_k": 1, "top_p": 0.8}, kept=[0]),
    Case("not renormalising", FIVE, {"top_k": 3, "top_p": 0.8}, kept=[0, 1, 2]),
    Case(
        "renormalising",
        FIVE,
        {"top_k": 3, "top_p": 0.8, "order": "hugging-face"},
        kept=[0, 1],
    ),
    Case("mlx-lm#1912", FOUR, {"top_p": 1e-8}, kept=[3]),
    Case("ChatRWKV#170", FOUR, {"top_p": 1.0}, kept=[3, 0, 1, 2]),
    Case("TransformerLens#1347", PLAIN, {"top_k": 50}, kept=[1, 2, 3, 0]),
    Case("mlx-lm#1377", PLAIN, {"top_k": 4}, kept=[1, 2, 3, 0]),
    Case("transformers#11267", [5, 5, 1], {"temperature": 1e-40}, final=[0.5, 0.5, 0.0]),
    Case("transformers#11267, greedy", [5, 5, 1], {"temperature": 0.0}, selected=0),
    Case("masked vocabulary", [1.0, -INF, 2.0], kept=[2, 0]),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", REPORTED, ids=lambda case: case.source)
def test_reported_case(case: Case, dtype: type) -> None:
    found = distribution(np.array(case.logits, dtype), SamplingConfig(**case.settings))
    if case.kept is not None:
        assert found.kept.tolist() == case.kept
    if case.final is not None:
        assert found.final.tolist() == case.final
    if case.selected is not None:
        assert draw(found, 0.5) == case.selected


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.logits[:2]}")
def test_hugging_face_order_is_that_of_transformers(case: HuggingFaceCase) -> None:
    config = SamplingConfig(
        temperature=case.temperature,
        top_k=case.top_k,
        top_p=case.top_p,
        min_p=case.min_p,
        order="hugging-face",
    )
    found = distribution(case.logits, config)
    assert found.kept.tolist() == case.kept
    assert found.final.max() == pytest.approx(case.highest, abs=1e-11)


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("temperature", -1.0, ">= 0, not -1.0"),
        ("temperature", math.nan, ">= 0, not nan"),
        ("temperature", INF, "finite and >= 0, not inf"),
        ("temperature", "1", "not '1'"),
        ("temperature", True, "not True"),
        ("temperature", None, "not None"),
        ("temperature", 10**400, "too large"),
        ("top_p", 0.0, "(0, 1], not 0.0"),
        ("top_p", 1.5, "(0, 1], not 1.5"),
        ("top_p", math.nan, "(0, 1], not nan"),
        ("min_p", -0.1, "[0, 1], not -0.1"),
        ("min_p", 1.1, "[0, 1], not 1.1"),
        ("min_p", math.nan, "[0, 1], not nan"),
        ("top_k", -1, ">= 0, not -1"),
        ("top_k", 2.5, "whole number >= 0, not 2.5"),
        ("top_k", math.nan, "not nan"),
        ("top_k", True, "not True"),
        ("seed", -1, ">= 0, not -1"),
        ("seed", 1.0, "not 1.0"),
        ("repetition_penalty", 0.0, "> 0, not 0.0"),
        ("repetition_penalty", INF, "finite and > 0, not inf"),
        ("repetition_penalty", math.nan, "> 0, not nan"),
        ("repetition_penalty", "1", "not '1'"),
        ("order", "top-k first", "reference, hugging-face, llama.cpp, not 'top-k first'"),
        ("order", 3, "not 3"),
        ("order", ["reference"], "not ['reference']"),
    ],
)
def test_settings_out_of_range_are_refused_with_range_and_value(
    name: str, value: Any, said: str
) -> None:
    with pytest.raises(InvalidSampling) as refusal:
        SamplingConfig(**{name: value})
    assert name in str(refusal.value)
    assert said in str(refusal.value)


def test_settings_are_frozen_and_plain_numbers() -> None:
    config = SamplingConfig(np.float32(0.5), 1, np.int64(3), np.uint8(7))  # type: ignore[arg-type]
    assert config == SamplingConfig(0.5, 1.0, 3, 7)
    assert [type(v) for v in (config.temperature, config.top_p, config.top_k)] == [
        float,
        float,
        int,
    ]
    with pytest.raises(FrozenInstanceError):
        config.top_k = 2  # type: ignore[misc]


def test_only_temperature_zero_is_deterministic() -> None:
    assert SamplingConfig(0.0).deterministic
    assert not SamplingConfig(1e-40).deterministic


# --- logits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("logits", "said"),
    [
        ([1.0, math.nan, 2.0], "token 1 is NaN"),
        ([1.0, 2.0, INF], r"token 2 is \+infinity"),
        ([INF, math.nan], r"token 0 is \+infinity"),
        ([-INF, math.nan], "token 1 is NaN"),
        ([-INF, -INF], "all 2 logits are -infinity"),
    ],
)
def test_logits_that_are_no_distribution_are_refused(logits: list[float], said: str) -> None:
    for call in (rank, stable_log_softmax, lambda row: distribution(row, SamplingConfig(0.0))):
        with pytest.raises(NonFiniteLogits, match=said):
            call(logits)


@pytest.mark.parametrize("logits", [[], [[1.0, 2.0]], 3.0, ["a"], [None, 1.0], [[1.0], [1, 2]]])
def test_logits_of_another_shape_or_type_are_refused(logits: Any) -> None:
    with pytest.raises(ShapeMismatch):
        rank(logits)


def test_later_changes_of_the_callers_logits_change_nothing() -> None:
    logits = np.array([1.0, 3.0, 2.0])
    ranking = rank(logits)
    logits[:] = [9.0, 0.0, 0.0]
    assert ranking.order.tolist() == [1, 2, 0]
    for array in (ranking.logits, ranking.order, distribution(PLAIN, SamplingConfig()).final):
        assert not array.flags.writeable


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_equal_logits_rank_by_id_whatever_their_sign(dtype: type) -> None:
    values: NDArray[Any] = np.array(
        [0.0, -1.0, -0.0, 2.0, -1.0, 0.0, -INF, 2.0, 1e-8, -1e-8], dtype
    )
    expected = sorted(range(values.size), key=lambda token: (-float(values[token]), token))
    assert rank(values).order.tolist() == expected


def test_float64_logits_that_float32_cannot_tell_apart_keep_their_order() -> None:
    assert rank([1.0, 1.0 + 1e-12, 1.0 - 1e-12]).order.tolist() == [1, 0, 2]


# --- distributions ------------------------------------------------------------------------------


def test_stages_of_the_reference_order() -> None:
    found = distribution(FIVE, SamplingConfig(top_k=4, top_p=0.8, min_p=0.35))
    assert [stage.name for stage in found.stages] == [
        "raw",
        "repetition_penalty",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
    ]
    assert [stage.kept_count for stage in found.stages] == [5, 5, 5, 4, 3, 2]
    masses = [stage.mass for stage in found.stages]
    assert masses == pytest.approx([1.0, 1.0, 1.0, 0.95, 0.85, 0.7])
    assert [found.cut_name(token) for token in range(5)] == [None, None, "min_p", "top_p", "top_k"]
    assert found.stages[3].probabilities == pytest.approx(
        np.array([0.5, 0.2, 0.15, 0.1, 0.0]) / 0.95
    )
    assert found.final == pytest.approx(np.array([5 / 7, 2 / 7, 0, 0, 0]))


def test_llama_cpp_measures_on_the_untempered_distribution_and_tempers_last() -> None:
    config = SamplingConfig(temperature=2.0, top_k=3, top_p=0.8, order="llama.cpp")
    found = distribution(FIVE, config)
    # Of the three kept, renormalised .588 .235 .176, two reach .8; then the square roots.
    assert found.kept.tolist() == [0, 1]
    assert found.final[0] == pytest.approx(math.sqrt(0.5) / (math.sqrt(0.5) + math.sqrt(0.2)))
    assert [stage.name for stage in found.stages][-1] == "temperature"


def test_one_setting_keeps_three_different_sets_in_three_orders() -> None:
    kept = {
        order: distribution(
            FIVE, SamplingConfig(temperature=2.0, top_k=3, top_p=0.58, order=order)
        ).kept.tolist()
        for order in order_names()
    }
    # The tempered probabilities are .340 .215 .186 .152 .107; of the first three alone, .459 .290
    # .251; untempered and of the first three alone, .588 .235 .176.
    assert kept == {"reference": [0, 1, 2], "hugging-face": [0, 1], "llama.cpp": [0]}


def test_top_p_reaches_within_one_millionth() -> None:
    assert distribution(ln(0.5, 0.3, 0.2), SamplingConfig(top_p=0.8)).kept_count == 2
    assert distribution(ln(0.5, 0.3, 0.2), SamplingConfig(top_p=0.8 + 9e-7)).kept_count == 2
    assert distribution(ln(0.5, 0.3, 0.2), SamplingConfig(top_p=0.8 + 2e-6)).kept_count == 3


def test_min_p_is_a_share_of_the_highest_probability_at_its_temperature() -> None:
    probabilities = ln(0.5, 0.25, 0.15, 0.1)
    assert distribution(probabilities, SamplingConfig(min_p=0.5)).kept.tolist() == [0, 1]
    assert distribution(probabilities, SamplingConfig(min_p=0.51)).kept.tolist() == [0]
    assert distribution(probabilities, SamplingConfig(min_p=1.0)).kept.tolist() == [0]
    # At temperature 2 the share of the second is the square root of a half.
    warm = SamplingConfig(temperature=2.0, min_p=0.7)
    assert distribution(probabilities, warm).kept.tolist() == [0, 1]
    assert distribution(
        probabilities, SamplingConfig(temperature=2.0, min_p=0.7, order="llama.cpp")
    ).kept.tolist() == [0]


def test_greedy_keeps_the_lowest_id_of_the_highest() -> None:
    found = distribution([1.0, 5.0, -INF, 5.0], SamplingConfig(temperature=0.0, top_k=3))
    assert found.final.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert found.tempered.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert found.kept.tolist() == [1]
    assert [found.cut_name(token) for token in range(4)] == ["greedy", None, "masked", "greedy"]
    assert (found.kept_count, found.entropy, found.effective) == (1, 0.0, 1.0)
    assert {draw(found, u) for u in (0.0, 0.5, JUST_BELOW_ONE)} == {1}


def test_a_masked_token_has_probability_zero_and_says_so() -> None:
    found = distribution([1.0, -INF, 2.0], SamplingConfig())
    assert found.raw[1] == found.final[1] == 0.0
    assert found.log_raw[1] == -INF
    assert found.cut_name(1) == "masked"
    assert found.kept_count == 2


def test_what_a_temperature_rounds_to_zero_is_not_kept() -> None:
    found = distribution([5.0, 5.0, 1.0], SamplingConfig(temperature=1e-40))
    assert found.kept.tolist() == [0, 1]
    assert found.cut_name(2) == "underflow"


@pytest.mark.parametrize("order", [*order_names(), "truncate-before-temperature"])
@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-40, 1e40, 1e300])
def test_any_positive_temperature_gives_finite_probabilities(
    temperature: float, order: str
) -> None:
    logits = [1e308, -1e308, 3.0, -INF, 1e308]
    config = SamplingConfig(temperature, 0.9, 3, None, order, 0.1)
    found = distribution(logits, config)
    for array in (found.raw, found.tempered, found.final):
        assert np.isfinite(array).all()
        assert array.sum() == pytest.approx(1.0)
    assert math.isfinite(found.entropy)
    assert found.cut_name(3) == "masked"


def test_entropy_is_that_of_the_final_distribution() -> None:
    uniform = distribution([2.0] * 8, SamplingConfig(top_k=4))
    assert uniform.entropy == pytest.approx(math.log(4))
    assert uniform.effective == pytest.approx(4.0)
    for order in order_names():
        found = distribution(FIVE, SamplingConfig(0.7, 0.9, order=order))
        kept = found.final[found.final > 0]
        assert found.entropy == pytest.approx(float(-(kept * np.log(kept)).sum()), abs=1e-12)


def test_nothing_cut_at_temperature_one_changes_no_bit() -> None:
    row = np.random.default_rng(4).normal(0, 3, 5_000)
    found = distribution(row, SamplingConfig())
    assert found.raw.tolist() == found.tempered.tolist() == found.final.tolist()
    assert not found.cut_by.any()


def test_log_probabilities_survive_where_probabilities_do_not() -> None:
    found = distribution([0.0, -2000.0], SamplingConfig())
    assert found.raw[1] == 0.0
    assert found.log_raw[1] == -2000.0
    assert token_score(found, 1).log_probability == -2000.0
    assert stable_log_softmax([[0.0, -2000.0], [3.0, 3.0]]).tolist() == [
        [0.0, -2000.0],
        [-math.log(2), -math.log(2)],
    ]


def test_unknown_tokens_are_refused() -> None:
    found = distribution(PLAIN, SamplingConfig())
    for token in (-1, 4):
        with pytest.raises(UnknownToken, match=r"0\.\.3"):
            found.cut_name(token)
        with pytest.raises(UnknownToken):
            token_score(found, token)


def test_candidates_fall_by_raw_probability_and_match_the_arrays() -> None:
    found = distribution(TIED, SamplingConfig(temperature=0.5, top_k=3))
    listed = top_candidates(found, 99)
    assert [candidate.token_id for candidate in listed] == [4, 1, 2, 3, 0]
    for candidate in listed:
        token = candidate.token_id
        assert candidate.raw == found.raw[token]
        assert candidate.tempered == found.tempered[token]
        assert candidate.final == found.final[token]
        assert candidate.log_probability == found.log_raw[token]
        assert candidate.cut_by == found.cut_name(token)
    assert top_candidates(found, 2) == listed[:2]
    assert top_candidates(found, 0) == ()


# --- drawing ------------------------------------------------------------------------------------


def test_draw_takes_the_first_token_whose_cumulative_mass_exceeds_the_uniform() -> None:
    found = distribution(FOUR, SamplingConfig())  # by falling probability: 3, 0, 1, 2
    chosen = [draw(found, u) for u in (0.0, 0.499, 0.501, 0.799, 0.801, 0.899, 0.901)]
    assert chosen == [3, 3, 0, 0, 1, 1, 2]
    half = distribution([0.0, 0.0], SamplingConfig())
    assert [draw(half, u) for u in (0.0, 0.49999, 0.5, JUST_BELOW_ONE)] == [0, 0, 1, 1]


@pytest.mark.parametrize("uniform", [-0.1, 1.0, math.nan, INF])
def test_draw_refuses_what_is_no_uniform_number(uniform: float) -> None:
    with pytest.raises(InvalidSampling, match=r"\[0, 1\)"):
        draw(distribution(PLAIN, SamplingConfig()), uniform)


class Refusing:
    """A generator that must not be asked."""

    def random(self) -> float:
        raise AssertionError("greedy decoding drew a number")


def test_greedy_draws_nothing() -> None:
    greedy = SamplingConfig(temperature=0.0)
    assert sample_token(PLAIN, greedy, Refusing()).token == 1
    assert batched_sample([PLAIN, FOUR], greedy, rng=Refusing()).tolist() == [1, 3]
    assert batched_sample([PLAIN, FOUR], 0.0).tolist() == [1, 3]


def test_a_token_comes_with_its_raw_log_probability() -> None:
    score = sample_token(FOUR, SamplingConfig(temperature=0.5, top_k=1), random.Random(1))
    assert score.token == 3
    assert score.log_probability == pytest.approx(math.log(0.5))


def test_frequencies_are_the_final_probabilities() -> None:
    found = distribution(FIVE, SamplingConfig(temperature=0.8, top_k=3))
    grid = (np.arange(20_000) + 0.5) / 20_000
    counts = np.bincount([draw(found, u) for u in grid.tolist()], minlength=5) / grid.size
    assert counts == pytest.approx(found.final, abs=1e-4)


@pytest.mark.parametrize("make", [random.Random, np.random.default_rng])
@pytest.mark.parametrize("order", order_names())
def test_a_batch_is_its_rows(make: Callable[[int], Any], order: str) -> None:
    logits = np.random.default_rng(3).normal(0, 3, (40, 17)).astype(np.float32)
    config = SamplingConfig(0.8, 0.9, 9, order=order)
    rng = make(5)
    single = [sample_token(row, config, rng).token for row in logits]
    batch = batched_sample(logits, config, rng=make(5))
    assert batch.tolist() == single
    assert batch.dtype == np.int64


def test_a_batch_takes_a_plain_temperature_and_top_p_too() -> None:
    logits = np.random.default_rng(3).normal(0, 3, (20, 17))
    by_config = batched_sample(logits, SamplingConfig(0.7, 0.8), rng=np.random.default_rng(1))
    assert batched_sample(logits, 0.7, 0.8, np.random.default_rng(1)).tolist() == by_config.tolist()


def test_a_batch_refuses_before_it_draws() -> None:
    with pytest.raises(NonFiniteLogits):
        batched_sample([[1.0, 2.0], [1.0, math.nan]], 1.0, rng=Refusing())
    with pytest.raises(ShapeMismatch, match=r"\(batch, vocab\)"):
        batched_sample(PLAIN, 1.0, rng=Refusing())
    with pytest.raises(InvalidSampling, match="generator"):
        batched_sample([PLAIN], 1.0)
    with pytest.raises(InvalidSampling, match="beside"):
        batched_sample([PLAIN], SamplingConfig(), 0.5, Refusing())


# --- the registry and the fault -----------------------------------------------------------------


def test_the_fault_is_reachable_and_not_offered() -> None:
    sound = SamplingConfig(temperature=0.5, top_p=0.8)
    faulty = fault_truncate_first(sound)
    assert faulty.order not in order_names()
    assert distribution([3, 2, 1], sound).kept.tolist() == [0]
    assert distribution([3, 2, 1], faulty).kept.tolist() == [0, 1]
    assert order_names()[0] == SamplingConfig().order == "reference"


def test_an_order_and_a_stage_are_one_function_each() -> None:
    def top_two(before: Stage) -> Stage:
        return before.cut("top_two", 2)

    @sampling_order("two", "temperature, then the two most likely")
    def two(stage: Stage) -> Iterator[Stage]:
        stage = temper(stage)
        yield stage
        yield top_two(stage)

    try:
        assert "two" in order_names()
        found = distribution(FOUR, SamplingConfig(order="two"))
        assert found.kept.tolist() == [3, 0]
        assert found.cut_name(1) == "top_two"
    finally:
        del ORDERS["two"]


# --- properties ---------------------------------------------------------------------------------

logit = st.one_of(
    st.floats(-30, 30, width=32),
    st.integers(-3, 3).map(float),  # ties
    st.just(-INF),
    st.floats(-1e300, 1e300),
)
rows = st.lists(logit, min_size=1, max_size=30).filter(lambda row: max(row) > -INF)
configs = st.builds(
    SamplingConfig,
    temperature=st.one_of(st.sampled_from([0.0, 1e-40, 1.0]), st.floats(0.01, 10)),
    top_p=st.one_of(st.just(1.0), st.floats(1e-9, 1.0)),
    top_k=st.integers(0, 40),
    order=st.sampled_from([*order_names(), "truncate-before-temperature"]),
    min_p=st.one_of(st.just(0.0), st.floats(0.0, 1.0)),
)
uniforms = st.one_of(st.sampled_from([0.0, JUST_BELOW_ONE]), st.floats(0, 1, exclude_max=True))


def everything(found: Distribution) -> list[Any]:
    return [
        found.raw.tolist(),
        found.tempered.tolist(),
        found.final.tolist(),
        found.log_raw.tolist(),
        found.kept.tolist(),
        found.cut_by.tolist(),
        found.entropy,
        [(stage.name, stage.kept_count, stage.mass) for stage in found.stages],
    ]


@given(rows, configs)
def test_kept_tokens_are_a_prefix_of_the_ranking(row: list[float], config: SamplingConfig) -> None:
    found = distribution(row, config)
    order = sorted(range(len(row)), key=lambda token: (-row[token], token))
    counts = [stage.kept_count for stage in found.stages]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] >= 1
    for stage in found.stages:
        assert stage.kept.tolist() == order[: stage.kept_count]
        assert np.count_nonzero(stage.probabilities) <= stage.kept_count
        assert stage.probabilities.sum() == pytest.approx(1.0, abs=1e-12)


@given(rows, configs)
def test_distributions_sum_to_one_and_zero_means_cut(
    row: list[float], config: SamplingConfig
) -> None:
    found = distribution(row, config)
    for array in (found.raw, found.tempered, found.final):
        assert array.sum() == pytest.approx(1.0, abs=1e-12)
        assert (array >= 0).all()
    assert set(np.flatnonzero(found.final).tolist()) == set(found.kept.tolist())
    names = [found.cut_name(token) for token in range(len(row))]
    assert [name is None for name in names] == (found.final > 0).tolist()
    coded = [found.cut_names[code] for code in found.cut_by]
    assert coded == names
    falling = found.final[found.kept]
    assert (falling[1:] <= falling[:-1] * (1 + 1e-12)).all()


@given(rows, configs, uniforms)
def test_a_draw_is_always_a_kept_token(
    row: list[float], config: SamplingConfig, uniform: float
) -> None:
    found = distribution(row, config)
    token = draw(found, uniform)
    assert found.final[token] > 0
    at = found.kept.tolist().index(token)
    # The rule, in exact arithmetic up to the rounding of the probabilities themselves.
    exact = [Fraction(float(p)) for p in found.final[found.kept]]
    share = Fraction(uniform) * sum(exact)
    assert sum(exact[:at]) <= share + Fraction(1, 10**12)
    assert sum(exact[: at + 1]) >= share - Fraction(1, 10**12)


@given(rows, st.lists(configs, min_size=2, max_size=6))
def test_a_ranking_can_be_used_again(row: list[float], several: list[SamplingConfig]) -> None:
    ranking = rank(row)
    for config in several:
        reused = everything(distribution_from(ranking, config))
        assert reused == everything(distribution(row, config))


@given(rows, configs)
def test_looking_at_candidates_draws_no_other_token(
    row: list[float], config: SamplingConfig
) -> None:
    seen, unseen = distribution(row, config), distribution(row, config)
    top_candidates(seen, 20)
    assert draw(seen, 0.7) == draw(unseen, 0.7)


@given(rows, st.floats(0.01, 10), st.floats(0.01, 10))
def test_temperature_never_changes_the_order(row: list[float], low: float, high: float) -> None:
    cool = distribution(row, SamplingConfig(low)).kept.tolist()
    warm = distribution(row, SamplingConfig(high)).kept.tolist()
    shorter = min(len(cool), len(warm))
    assert cool[:shorter] == warm[:shorter]


def reference_kept(row: list[float], config: SamplingConfig) -> list[int]:
    """The default order written once more, straight from its rule."""
    peak = max(row)
    weights = [math.exp((value - peak) / config.temperature) for value in row]
    total = math.fsum(weights)
    order = sorted(range(len(row)), key=lambda token: (-row[token], token))
    kept, mass = [], 0.0
    for at, token in enumerate(order):
        probability = weights[token] / total
        if config.top_k and at >= config.top_k:
            break
        if config.top_p < 1.0 and at and mass >= config.top_p - 1e-6:
            break
        if at and weights[token] < config.min_p * (1 - 1e-6):
            break
        if probability == 0.0:
            break
        kept.append(token)
        mass += probability
    return kept


@settings(max_examples=300)
@given(
    st.lists(st.integers(-80, 80).map(lambda n: n / 8), min_size=1, max_size=25),
    st.sampled_from([0.3, 0.7, 1.0, 1.9]),
    st.integers(0, 30),
    st.integers(1, 1000).map(lambda n: n / 1000 + 1.234567e-5 if n < 1000 else 1.0),
    st.sampled_from([0.0, 0.0123, 0.21, 0.77]),
)
def test_the_reference_order_is_its_rule(
    row: list[float], temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    config = SamplingConfig(temperature, min(top_p, 1.0), top_k, min_p=min_p)
    assert distribution(row, config).kept.tolist() == reference_kept(row, config)


def test_a_large_vocabulary_ranks_like_a_plain_sort() -> None:
    values = np.random.default_rng(2).normal(0, 3, 50_257).astype(np.float32)
    values = np.round(values, 2)  # many ties
    expected = np.lexsort((np.arange(values.size), -values.astype(np.float64)))
    assert np.array_equal(rank(values).order, expected)
