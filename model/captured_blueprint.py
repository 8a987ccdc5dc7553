"""What a capture says of its model, and what its arrays imply, as a blueprint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.blueprint import Activation, Blueprint, Norm
from model.capture import axes_of
from model.captured_run import Capture
from model.errors import ShapeMismatch
from model.rotary import Floats, Rotary
from model.shape import ModelShape

MOST_PAIRS = 65_536
LARGEST_SIZE, LARGEST_DEPTH = 2**31 - 1, 1_000


@dataclass(frozen=True)
class RecordedFrequencies:
    """Rotary frequencies as a capture lists them, in radians a position."""

    frequencies: tuple[float, ...]
    magnitude: float = 1.0
    name: str = "recorded frequencies"

    def stretch(self, frequencies: Floats, theta: float) -> Floats:
        """Those that were listed, whatever they were made from."""
        return np.array(self.frequencies, dtype=np.float32)


def blueprint_of(capture: Capture) -> Blueprint:
    """Sizes and parts: as they were said, or else as the arrays show them.

    A part of which neither speaks is GPT-2's; :mod:`model.captured_operations` claims nothing
    about such a part.

    Raises:
        ShapeMismatch: what was said contradicts itself; the sentence names the field.
    """
    said = capture.blueprint
    sizes = _sizes(capture)
    names = {name for step in capture.steps for name in step.arrays}
    heads = sizes.get("head") or sizes.get("kv_head") or 1
    shared = sizes.get("kv_head") or heads
    positions = len(capture.token_ids)
    context = _count(said, "context") or positions
    if context < positions:
        raise ShapeMismatch(f"blueprint: a context of {context} for {positions} positions")
    depth = _count(said, "depth") or 1 + max(_layers(names), default=0)
    if depth > LARGEST_DEPTH:
        raise ShapeMismatch(f"there is an array of layer {depth - 1}; shown are {LARGEST_DEPTH}")
    width = sizes.get("d_model") or heads * (sizes.get("d_head") or 1)
    shape = ModelShape(
        depth=depth,
        model_dim=width,
        num_heads=heads,
        context_length=context,
        vocabulary=sizes.get("vocab") or 1 + max(capture.token_ids),
        kv_heads=shared,
        head_dim=sizes.get("d_head") or max(1, width // heads),
        mlp_dim=sizes.get("d_mlp", 0),
        gated=_flag(said, "gated", any(name.endswith(".mlp.gate") for name in names)),
        windows=_windows(said),
    )
    turned = any(name.endswith((".attn.rot_q", ".attn.rot_k")) for name in names)
    normed = any(name.endswith((".attn.q_norm", ".attn.k_norm")) for name in names)
    return Blueprint(
        shape=shape,
        norm=_one_of(Norm, said.get("norm"), "norm") or Norm.LAYER_NORM,
        norm_epsilon=_number(said, "norm_epsilon", 1e-5),
        activation=_activation(said) or Activation.GELU_TANH,
        rotary=_rotary(said, shape.head_dim, turned),
        tied=_flag(said, "tied", False),
        qkv_bias=_flag(said, "qkv_bias", False),
        out_bias=_flag(said, "out_bias", False),
        mlp_bias=_flag(said, "mlp_bias", False),
        qk_norm=_flag(said, "qk_norm", normed),
        parallel=_flag(said, "parallel", False),
    )


def described(blueprint: Blueprint) -> dict[str, Any]:
    """A blueprint as the fields of a capture: the way back of :func:`blueprint_of`."""
    shape, rotary = blueprint.shape, blueprint.rotary
    fields: dict[str, Any] = {
        "depth": shape.depth,
        "model_dim": shape.model_dim,
        "num_heads": shape.num_heads,
        "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "mlp_dim": shape.mlp_dim,
        "vocabulary": shape.vocabulary,
        "context": shape.context_length,
        "gated": shape.gated,
        "windows": list(shape.windows),
        "norm": str(blueprint.norm),
        "norm_epsilon": blueprint.norm_epsilon,
        "activation": str(blueprint.activation),
        "tied": blueprint.tied,
        "qkv_bias": blueprint.qkv_bias,
        "out_bias": blueprint.out_bias,
        "mlp_bias": blueprint.mlp_bias,
        "qk_norm": blueprint.qk_norm,
        "parallel": blueprint.parallel,
    }
    if rotary is not None:
        fields["rotary"] = {"dims": rotary.dims, "theta": rotary.theta}
        if rotary.scaling is not None:
            fields["rotary"] |= {
                "frequencies": rotary.frequencies.tolist(),
                "magnitude": rotary.magnitude,
            }
    return fields


def _sizes(capture: Capture) -> dict[str, int]:
    """How long each axis is; the reader has found all arrays of one mind."""
    sizes: dict[str, int] = {}
    for step in capture.steps:
        for name, array in step.arrays.items():
            sizes |= dict(zip(axes_of(name) or (), array.shape, strict=False))
    for axis, field in (
        ("d_model", "model_dim"),
        ("head", "num_heads"),
        ("kv_head", "kv_heads"),
        ("d_head", "head_dim"),
        ("d_mlp", "mlp_dim"),
        ("vocab", "vocabulary"),
    ):
        sizes[axis] = _count(capture.blueprint, field) or sizes.get(axis, 0)
    return sizes


def _layers(names: set[str]) -> set[int]:
    return {int(name.split(".")[1]) for name in names if name.startswith("blocks.")}


def _count(said: Mapping[str, Any], field: str) -> int:
    """A size, or 0 where it was not said."""
    value = said.get(field)
    if value is None:
        return 0
    most = LARGEST_DEPTH if field == "depth" else LARGEST_SIZE
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ShapeMismatch(f"blueprint: {field} must be a whole number from 1 to {most}")
    return value


def _number(said: Mapping[str, Any], field: str, absent: float) -> float:
    value = said.get(field)
    if value is None:
        return absent
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ShapeMismatch(f"blueprint: {field} must be a finite number")
    return float(value)


def _flag(said: Mapping[str, Any], field: str, absent: bool) -> bool:
    value = said.get(field)
    if value is None:
        return absent
    if not isinstance(value, bool):
        raise ShapeMismatch(f"blueprint: {field} must be true or false")
    return value


def _one_of(kind: type[Norm], value: object, field: str) -> Norm | None:
    if value is None:
        return None
    if value not in tuple(kind):
        raise ShapeMismatch(f"blueprint: {field} must be {' or '.join(kind)}, not {value!r}"[:200])
    return kind(str(value))


def _activation(said: Mapping[str, Any]) -> Activation | None:
    """The activation, or None where it is not said or is none that is known by a formula."""
    value = said.get("activation")
    if value is not None and not isinstance(value, str):
        raise ShapeMismatch("blueprint: activation must be a text")
    return Activation(value) if value in tuple(Activation) else None


def _windows(said: Mapping[str, Any]) -> tuple[int, ...]:
    value = said.get("windows") or []
    if not isinstance(value, list) or not all(type(window) is int for window in value):
        raise ShapeMismatch("blueprint: windows must be a list of whole numbers")
    return tuple(value)


def _rotary(said: Mapping[str, Any], head_dim: int, turned: bool) -> Rotary | None:
    value = said.get("rotary")
    if value is None:
        return Rotary(max(2, head_dim // 2 * 2)) if turned and head_dim > 1 else None
    if not isinstance(value, dict):
        raise ShapeMismatch("blueprint: rotary must be an object with dims and theta")
    dims, theta = _count(value, "dims") or head_dim, _number(value, "theta", 10000.0)
    frequencies = value.get("frequencies")
    if frequencies is None:
        return Rotary(dims, theta)
    if (
        not isinstance(frequencies, list)
        or len(frequencies) != dims // 2
        or len(frequencies) > MOST_PAIRS
        or not all(type(each) in (int, float) and math.isfinite(each) for each in frequencies)
    ):
        raise ShapeMismatch(f"blueprint: rotary frequencies must be {dims // 2} finite numbers")
    magnitude = _number(value, "magnitude", 1.0)
    return Rotary(dims, theta, RecordedFrequencies(tuple(map(float, frequencies)), magnitude))
