"""The written form of numbers: never 0 for what is not 0, and never the typographic minus."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder_gui.viewdata import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.3472, "0.347"),
        (0.0, "0.000"),
        (-0.0, "0.000"),
        (-12.5, "-12.500"),
        (1234.56, "1234.6"),
        (3.1e-7, "3e-07"),
        (-2e-4, "-2e-04"),
        (250_000.0, "2.50e+05"),
        (math.nan, "NaN"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
    ],
)
def test_format_value(value: float, text: str) -> None:
    assert numbers.format_value(value) == text


@given(st.floats(-1e300, 1e300), st.integers(1, 8))
def test_a_number_reads_back_as_itself_within_rounding(value: float, digits: int) -> None:
    text = numbers.format_value(value, digits)
    assert "\u2212" not in text
    assert (float(text) == 0) == (value == 0)
    assert math.isclose(float(text), value, rel_tol=0.5, abs_tol=0.51 * 10.0**-digits)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (26 * 1024, "26.0 KiB"), (1024 * 1024 - 1, "1.0 MiB")],
)
def test_format_bytes(count: int, text: str) -> None:
    assert numbers.format_bytes(count) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.412, "41.2%"), (0.0, "0.0%"), (0.0001, "<0.1%"), (0.99999, ">99.9%"), (1.0, "100.0%")],
)
def test_format_percent_never_rounds_to_certainty(fraction: float, text: str) -> None:
    assert numbers.format_percent(fraction) == text


def test_small_words() -> None:
    assert numbers.format_shape((13, 64)) == "[13, 64]"
    assert numbers.format_positions(12, 13) == "12"
    assert numbers.format_positions(0, 8) == "0–7"
    assert numbers.plural(1, "value") == "1 value"
    assert numbers.plural(1024, "value") == "1,024 values"
    assert numbers.format_range(0.0071, 0.347) == "min 0.007 · max 0.347"
