"""The parts of a decoder that treat each position by itself: pure functions of float32 arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from model.blueprint import Activation, Norm
from model.weights import Floats

ROWS = 32
"""Rows that an activation takes at a time: its intermediate results then stay in the cache."""

# erf(x) is x times a quotient of two polynomials in x², fitted for this program to 2e-8.
ERF_ABOVE = (1.12837905, 0.191564578, 0.0529091046, 0.00381886028, 0.000286707118, 2.04840976e-06)
ERF_BELOW = (1.0, 0.503101632, 0.114595298, 0.0150730307, 0.00117675163, 3.81719598e-05)
ERF_END = 4.0
"""Beyond it, erf is 1 in float32."""


def linear(vectors: Floats, weight: Floats, bias: Floats | None = None) -> Floats:
    """Each vector times a matrix, plus a bias.

    Args:
        vectors: (batch, pos, in)
        weight: (in, out)
        bias: (out,)

    Returns:
        (batch, pos, out)
    """
    batch, positions, width = vectors.shape
    # One product for the whole batch: the weight is read once, not once per sequence.
    rows = vectors.reshape(batch * positions, width)
    projected: Floats = rows @ weight  # (batch * pos, out)
    if bias is not None:
        projected += bias
    return projected.reshape(batch, positions, -1)


def layer_norm(hidden: Floats, gain: Floats, shift: Floats | None, epsilon: float) -> Floats:
    """Each vector brought to mean 0 and variance 1, then scaled and shifted by learned vectors.

    Args:
        hidden: (batch, pos, d_model)
        gain, shift: (d_model,)
        epsilon: added to the variance under the root

    Returns:
        (batch, pos, d_model)
    """
    width = hidden.shape[-1]
    centred = hidden - hidden.sum(axis=-1, keepdims=True) / width
    variance = np.einsum("...d,...d->...", centred, centred)[..., np.newaxis] / width
    centred /= np.sqrt(variance + epsilon)
    normalized: Floats = np.multiply(centred, gain, out=centred)
    if shift is not None:
        normalized += shift
    return normalized


def rms_norm(hidden: Floats, gain: Floats, shift: Floats | None, epsilon: float) -> Floats:
    """Each vector divided by the root of its mean square, then scaled by a learned vector.

    Args:
        hidden: (batch, pos, d_model), or (batch, head, pos, d_head)
        gain, shift: of the last axis
        epsilon: added to the mean square under the root

    Returns:
        an array like ``hidden``
    """
    square = np.einsum("...d,...d->...", hidden, hidden)[..., np.newaxis] / hidden.shape[-1]
    normalized: Floats = hidden / np.sqrt(square + epsilon)
    normalized *= gain
    if shift is not None:
        normalized += shift
    return normalized


def rotate(vectors: Floats, cosine: Floats, sine: Floats) -> Floats:
    """Pairs of coordinates turned by the angles of their positions.

    Coordinate i is paired with coordinate i + pairs; those beyond twice the pairs stay.

    Args:
        vectors: (batch, head, pos, d_head)
        cosine, sine: (pos, pairs), from :func:`model.rotary.turns`

    Returns:
        (batch, head, pos, d_head), a new contiguous array
    """
    pairs = cosine.shape[-1]
    rotated = np.empty(vectors.shape, dtype=np.float32)
    first, second = vectors[..., :pairs], vectors[..., pairs : 2 * pairs]
    turned = rotated[..., :pairs], rotated[..., pairs : 2 * pairs]
    np.multiply(first, cosine, out=turned[0])
    np.subtract(turned[0], second * sine, out=turned[0])
    np.multiply(second, cosine, out=turned[1])
    np.add(turned[1], first * sine, out=turned[1])
    rotated[..., 2 * pairs :] = vectors[..., 2 * pairs :]
    return rotated


def _strips(expanded: Floats, activated: Floats) -> Iterator[tuple[Floats, Floats]]:
    """ROWS rows at a time, (rows, d_mlp): what an activation reads, and where it writes."""
    wide = expanded.shape[-1]
    source, target = expanded.reshape(-1, wide), activated.reshape(-1, wide)
    for start in range(0, len(source), ROWS):
        yield source[start : start + ROWS], target[start : start + ROWS]


def gelu_tanh(expanded: Floats, out: Floats | None = None) -> Floats:
    """The tanh form of GELU: x/2 * (1 + tanh(√(2/π) * (x + 0.044715 x³))).

    Args:
        expanded: (batch, pos, d_mlp)
        out: where the result goes, which may be ``expanded`` itself; a new array by default
    """
    activated = np.empty_like(expanded) if out is None else out
    for x, target in _strips(expanded, activated):
        # x * x, because x**3 goes through pow and is ten times slower.
        inner = x * x
        inner *= 0.044715 * math.sqrt(2.0 / math.pi)
        inner += math.sqrt(2.0 / math.pi)
        inner *= x
        np.tanh(inner, out=inner)
        inner += 1.0
        inner *= 0.5
        np.multiply(x, inner, out=target)
    return activated


def erf(x: Floats) -> Floats:
    """The error function, within 5e-7."""
    x = np.clip(x, -ERF_END, ERF_END)
    square = x * x
    above, below = np.full_like(x, ERF_ABOVE[-1]), np.full_like(x, ERF_BELOW[-1])
    for upper, lower in zip(ERF_ABOVE[-2::-1], ERF_BELOW[-2::-1], strict=True):
        above *= square
        above += upper
        below *= square
        below += lower
    above *= x
    above /= below
    # The quotient reaches 1 at the end and passes it by a rounding error, which must not be left.
    return np.clip(above, -1.0, 1.0, out=above)


def gelu_exact(expanded: Floats, out: Floats | None = None) -> Floats:
    """GELU itself: x/2 * (1 + erf(x/√2)).

    Args:
        expanded: (batch, pos, d_mlp)
        out: where the result goes, which may be ``expanded`` itself; a new array by default
    """
    activated = np.empty_like(expanded) if out is None else out
    for x, target in _strips(expanded, activated):
        inner = erf(x * math.sqrt(0.5))
        inner += 1.0
        inner *= 0.5
        np.multiply(x, inner, out=target)
    return activated


def silu(expanded: Floats, out: Floats | None = None) -> Floats:
    """SiLU: x / (1 + exp(-x)).

    Args:
        expanded: (batch, pos, d_mlp)
        out: where the result goes, which may be ``expanded`` itself; a new array by default
    """
    activated = np.empty_like(expanded) if out is None else out
    for x, target in _strips(expanded, activated):
        inner = np.negative(x)
        np.exp(inner, out=inner)
        inner += 1.0
        np.divide(x, inner, out=target)
    return activated


def gate(opened: Floats, expanded: Floats, out: Floats | None = None) -> Floats:
    """What the gate lets through: the bent gate times the widened vector, number by number."""
    passed: Floats = np.multiply(opened, expanded, out=out)
    return passed


NORMS: dict[Norm, Callable[[Floats, Floats, Floats | None, float], Floats]] = {
    Norm.LAYER_NORM: layer_norm,
    Norm.RMS_NORM: rms_norm,
}
ACTIVATIONS: dict[Activation, Callable[[Floats, Floats | None], Floats]] = {
    Activation.GELU_TANH: gelu_tanh,
    Activation.GELU_EXACT: gelu_exact,
    Activation.SILU: silu,
}
"""The functions that the kinds of a blueprint stand for."""
