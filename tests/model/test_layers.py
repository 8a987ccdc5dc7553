"""The parts that each position goes through alone, against the same in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from model.layers import erf, gate, gelu_exact, gelu_tanh, rms_norm, rotate, silu
from model.rotary import Floats, Linear, Llama3, Rotary, Yarn, turns

RANDOM = np.random.default_rng(0)
WIDE = np.concatenate([np.linspace(-12, 12, 4001), [-1e4, -1e-8, 0.0, 1e-8, 1e4]])


def numbers(*size: int) -> Floats:
    return RANDOM.standard_normal(size, dtype=np.float32)


def exact_erf(values: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array([math.erf(value) for value in values.tolist()])


def test_erf_is_that_of_the_standard_library() -> None:
    x = WIDE.astype(np.float32)
    found = erf(x)
    assert found.dtype == np.float32
    assert np.abs(found - exact_erf(x)).max() < 5e-7
    assert (np.abs(found[np.abs(x) > 4]) == 1).all()
    assert np.array_equal(erf(-x), -found)


@pytest.mark.parametrize(
    ("activation", "wanted"),
    [
        (gelu_exact, lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2)))),
        (silu, lambda x: x / (1 + math.exp(-x)) if x > -700 else 0.0),
    ],
)
def test_activations(
    activation: Callable[[Floats, Floats | None], Floats], wanted: Callable[[float], float]
) -> None:
    x = np.broadcast_to(WIDE.astype(np.float32), (1, 70, len(WIDE))).copy()
    with np.errstate(over="ignore"):
        found = activation(x, None)
        assert np.array_equal(x[0, 0], WIDE.astype(np.float32))
        assert np.array_equal(activation(x, x), found)
    assert np.array_equal(x, found)
    exact = np.array([wanted(value) for value in WIDE.astype(np.float32).tolist()])
    np.testing.assert_allclose(found[0, 69], exact, rtol=3e-7, atol=3e-6)


def test_the_two_gelus_differ_by_less_than_a_thousandth() -> None:
    x = WIDE.astype(np.float32).reshape(1, 1, -1)
    assert 1e-4 < np.abs(gelu_exact(x) - gelu_tanh(x)).max() < 1e-3


def test_a_gate_multiplies() -> None:
    opened, expanded = numbers(1, 3, 8), numbers(1, 3, 8)
    wanted = opened * expanded
    assert gate(opened, expanded, out=opened) is opened
    assert np.array_equal(opened, wanted)


def test_rms_norm_divides_by_the_root_mean_square() -> None:
    hidden, gain = numbers(2, 3, 16), numbers(16)
    wanted = hidden.astype(np.float64)
    wanted = wanted / np.sqrt((wanted**2).mean(axis=-1, keepdims=True) + 1e-3) * gain
    found = rms_norm(hidden, gain, None, 1e-3)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    np.testing.assert_allclose(rms_norm(hidden, gain, gain, 1e-3), wanted + gain, atol=2e-6)


def test_turning_is_multiplication_by_a_complex_number() -> None:
    rotary = Rotary(6, theta=50.0)
    vectors = numbers(2, 3, 4, 9)
    cosine, sine = turns(rotary.frequencies, 1.0, first=11, count=4)
    assert cosine.shape == sine.shape == (4, 3)
    found = rotate(vectors, cosine, sine)
    angles = np.arange(11, 15)[:, np.newaxis] * 50.0 ** (-np.arange(0, 6, 2) / 6)
    wanted = (vectors[..., :3] + 1j * vectors[..., 3:6]) * np.exp(1j * angles)
    np.testing.assert_allclose(found[..., :3], wanted.real, atol=2e-6)
    np.testing.assert_allclose(found[..., 3:6], wanted.imag, atol=2e-6)
    assert np.array_equal(found[..., 6:], vectors[..., 6:])
    assert found.flags.c_contiguous
    assert found.dtype == np.float32


def test_a_score_depends_on_the_distance_alone() -> None:
    rotary = Rotary(8)
    query, key = numbers(1, 1, 1, 8), numbers(1, 1, 1, 8)

    def score(at: int, back: int) -> float:
        frequencies = rotary.frequencies
        turned = rotate(query, *turns(frequencies, 1.0, at, 1))
        other = rotate(key, *turns(frequencies, 1.0, at - back, 1))
        return float((turned * other).sum())

    assert score(5, 3) == pytest.approx(score(900, 3), abs=1e-4)
    assert score(5, 3) != pytest.approx(score(5, 4), abs=1e-3)


def test_stretched_positions() -> None:
    plain = Rotary(64, 1e4).frequencies
    np.testing.assert_allclose(Rotary(64, 1e4, Linear(4.0)).frequencies, plain / 4, rtol=1e-6)
    for scaling in (Llama3(8.0, 1.0, 4.0, 2048), Yarn(8.0, 2048, 1.2)):
        ratio = plain / Rotary(64, 1e4, scaling).frequencies
        assert ratio[0] == pytest.approx(1)
        assert ratio[-1] == pytest.approx(8)
        assert (np.diff(ratio) > -1e-5).all()
    assert Rotary(64, 1e4, Yarn(8.0, 2048, 1.2)).magnitude == 1.2
    cosine, _ = turns(plain, 1.2, 0, 1)
    np.testing.assert_allclose(cosine, 1.2)


def test_frequencies_are_to_the_bit_those_that_transformers_computes() -> None:
    # transformers 5.24.0, head_dim 16, rope_theta 5e5.
    llama3 = Rotary(16, 5e5, Llama3(8.0, 1.0, 4.0, 512)).frequencies
    assert np.array_equal(llama3, np.array(LLAMA3, dtype=np.float32))
    yarn = Rotary(16, 5e5, Yarn(4.0, 1024, 1.0)).frequencies
    assert np.array_equal(yarn, np.array(YARN, dtype=np.float32))


LLAMA3 = [
    1.0,
    0.193922758,
    0.0273441337,
    0.000911583134,
    0.000176776681,
    3.42810235e-05,
    6.64786967e-06,
    1.28917316e-06,
]
YARN = [
    1.0,
    0.157562241,
    0.0235037692,
    0.00319054094,
    0.000353553361,
    6.85620471e-05,
    1.32957393e-05,
    2.57834631e-06,
]
