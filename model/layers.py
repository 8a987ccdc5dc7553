"""The parts of a decoder that treat each position by itself: pure functions of float32 arrays."""

from __future__ import annotations

import math

import numpy as np

from model.weights import Floats

GELU_ROWS = 32
"""Rows that :func:`gelu_tanh` takes at a time: its intermediate results then stay in the cache."""


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


def layer_norm(hidden: Floats, gain: Floats, shift: Floats, epsilon: float) -> Floats:
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
    normalized += shift
    return normalized


def gelu_tanh(expanded: Floats, out: Floats | None = None) -> Floats:
    """The tanh form of GELU: x/2 * (1 + tanh(√(2/π) * (x + 0.044715 x³))).

    Args:
        expanded: (batch, pos, d_mlp)
        out: where the result goes, which may be ``expanded`` itself; a new array by default
    """
    activated = np.empty_like(expanded) if out is None else out
    wide = expanded.shape[-1]
    source, target = expanded.reshape(-1, wide), activated.reshape(-1, wide)
    for start in range(0, len(source), GELU_ROWS):
        x = source[start : start + GELU_ROWS]
        # x * x, because x**3 goes through pow and is ten times slower.
        inner = x * x
        inner *= 0.044715 * math.sqrt(2.0 / math.pi)
        inner += math.sqrt(2.0 / math.pi)
        inner *= x
        np.tanh(inner, out=inner)
        inner += 1.0
        inner *= 0.5
        np.multiply(x, inner, out=target[start : start + GELU_ROWS])
    return activated
