"""Two settings side by side, and many draws beside their distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import ShapeMismatch
from model.sampling import SamplingConfig, distribution
from model.sampling_comparison import compare
from model.sampling_statistics import (
    chi_square_tail,
    draw_statistics,
    expected_count,
    standard_error,
)

FIVE = [math.log(p) for p in (0.5, 0.2, 0.15, 0.1, 0.05)]


def test_a_smaller_nucleus_inside_a_larger_one() -> None:
    wide = distribution(FIVE, SamplingConfig())
    narrow = distribution(FIVE, SamplingConfig(top_k=2))
    found = compare(wide, narrow)
    assert found.both.tolist() == [0, 1]
    assert found.only_first.tolist() == [2, 3, 4]
    assert found.only_second.tolist() == []
    assert found.jaccard == pytest.approx(2 / 5)
    assert found.shared_mass == pytest.approx(0.7)
    assert found.first_inside == pytest.approx(0.7)
    assert found.second_inside == 1.0
    assert found.forward == math.inf  # the first draws what the second cannot
    assert found.backward == pytest.approx(-math.log(0.7))


def test_temperature_alone_keeps_all_and_diverges_both_ways() -> None:
    first = distribution([1.0, 0.0], SamplingConfig())
    second = distribution([1.0, 0.0], SamplingConfig(0.5))
    p, q = first.final, second.final
    found = compare(first, second)
    assert (found.jaccard, found.first_inside, found.second_inside) == (1.0, 1.0, 1.0)
    assert found.forward == pytest.approx(float((p * np.log(p / q)).sum()))
    assert found.backward == pytest.approx(float((q * np.log(q / p)).sum()))
    assert found.shared_mass == pytest.approx(1 - abs(p[0] - q[0]))


def test_nothing_shared() -> None:
    first = distribution([1.0, 0.9], SamplingConfig(0.0))
    second = distribution([1.0, 0.9], SamplingConfig(0.0, repetition_penalty=2.0), [0])
    found = compare(first, second)
    assert (found.jaccard, found.shared_mass, found.first_inside) == (0.0, 0.0, 0.0)
    assert (found.forward, found.backward) == (math.inf, math.inf)


def test_other_vocabularies_are_refused() -> None:
    with pytest.raises(ShapeMismatch, match="2 tokens and one of 3"):
        compare(
            distribution([1.0, 2.0], SamplingConfig()),
            distribution([1.0, 2.0, 3.0], SamplingConfig()),
        )


@given(
    st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=15),
    st.floats(0.1, 3),
    st.integers(0, 6),
    st.floats(0.1, 1.0),
)
def test_bounds_of_every_measure(
    row: list[float], temperature: float, top_k: int, top_p: float
) -> None:
    first = distribution(row, SamplingConfig(temperature, top_p))
    second = distribution(row, SamplingConfig(1.0, 1.0, top_k))
    found, back = compare(first, second), compare(second, first)
    assert found.forward >= 0
    assert found.backward >= 0
    assert 0 <= found.jaccard <= 1
    assert 0 <= found.shared_mass <= min(found.first_inside, found.second_inside) + 1e-9
    assert (found.forward, found.backward) == (back.backward, back.forward)
    assert compare(first, first).forward == 0.0


@pytest.mark.parametrize(
    ("statistic", "degrees", "tail"),
    [  # critical values of the usual tables
        (3.841459, 1, 0.05),
        (6.634897, 1, 0.01),
        (18.307038, 10, 0.05),
        (23.209251, 10, 0.01),
        (124.342113, 100, 0.05),
        (1074.679449, 1000, 0.05),
        (2.0 * math.log(4.0), 2, 0.25),
        (0.0, 3, 1.0),
        (50.0, 0, 1.0),
    ],
)
def test_tail_of_chi_square(statistic: float, degrees: int, tail: float) -> None:
    assert chi_square_tail(statistic, degrees) == pytest.approx(tail, rel=1e-6)


def test_tail_of_chi_square_far_out_and_with_many_degrees() -> None:
    assert chi_square_tail(1e6, 5000) == 0.0
    assert 0.49 < chi_square_tail(151_935.0, 151_935) < 0.51


def test_expected_error_of_a_count() -> None:
    assert expected_count(0.2, 1000) == 200.0
    assert standard_error(0.2, 1000) == pytest.approx(math.sqrt(160.0))
    assert standard_error(1.0, 1000) == 0.0


def test_statistics_of_exact_shares() -> None:
    source = distribution(FIVE, SamplingConfig())
    counts = np.array([500, 200, 150, 100, 50])
    found = draw_statistics(source, counts)
    assert found.chi_square == pytest.approx(0.0, abs=1e-9)
    assert (found.total, found.groups, found.degrees) == (1000, 5, 4)
    assert found.p_value == pytest.approx(1.0)
    assert found.entropy == pytest.approx(source.entropy)
    assert found.exact_entropy == source.entropy
    assert found.entropy_bias == pytest.approx(4 / 2000)
    spread = sum(p * (math.log(p) + source.entropy) ** 2 for p in (0.5, 0.2, 0.15, 0.1, 0.05))
    assert found.entropy_error == pytest.approx(math.sqrt(spread / 1000))


def test_rare_tokens_are_pooled_and_a_wrong_generator_is_noticed() -> None:
    source = distribution(FIVE, SamplingConfig())
    few = draw_statistics(source, np.array([20, 8, 6, 4, 2]))  # 40 draws: .1 and .05 are pooled
    assert few.groups == 4
    skewed = draw_statistics(source, np.array([400, 300, 150, 100, 50]))
    assert skewed.chi_square == pytest.approx(100**2 / 500 + 100**2 / 200)
    assert skewed.p_value < 1e-10
    one = draw_statistics(distribution(FIVE, SamplingConfig(0.0)), np.array([9, 0, 0, 0, 0]))
    assert (one.groups, one.p_value, one.entropy) == (1, 1.0, 0.0)


def test_p_values_of_fair_draws_are_spread_over_the_whole_range() -> None:
    source = distribution(FIVE, SamplingConfig(0.8))
    rng = np.random.default_rng(3)
    found = [draw_statistics(source, rng.multinomial(1000, source.final)) for _ in range(400)]
    values = np.array([each.p_value for each in found])
    assert 0.4 < values.mean() < 0.6
    assert 0.02 < (values < 0.1).mean() < 0.2
    entropies = np.array([each.entropy for each in found])
    assert entropies.std() == pytest.approx(found[0].entropy_error, rel=0.2)
