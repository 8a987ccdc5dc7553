"""Rotary positions as a config.json describes them, in either of the two ways in use.

Older files have ``rope_theta`` (or ``rotary_emb_base``) and ``rope_scaling``; newer ones have
``rope_parameters`` with everything in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from model.checkpoints.fields import Fields
from model.errors import ShapeMismatch
from model.rotary import Linear, Llama3, Rotary, Scaling, Yarn

DEFAULT_THETA = 10_000.0
FRACTION = "partial_rotary_factor"
ORIGINAL = "original_max_position_embeddings"


def rotary_of(
    fields: Fields,
    head_dim: int,
    context: int,
    *,
    theta: str = "rope_theta",
    fraction: str = "",
    default_fraction: float = 1.0,
) -> Rotary:
    """The rotary positions of a model.

    Args:
        fields: the whole config.json.
        head_dim: coordinates of a head.
        context: positions that the model has.
        theta: name of the base in older files.
        fraction: name of the turned part of a head in older files; empty if the family always turns
            all of it.
        default_fraction: that part where nothing is said.

    Raises:
        CheckpointError: a field is malformed, or asks for what is not computed here.
    """
    inside = fields.inside("rope_parameters") or fields.inside("rope_scaling")
    own = inside or Fields({}, fields.source)
    base = own if own.has("rope_theta") else fields
    turned = default_fraction
    if fraction:
        part, name = (own, FRACTION) if own.has(FRACTION) else (fields, fraction)
        turned = part.above(name, 0.0, absent=default_fraction)
        if turned > 1:
            fields.refuse(f"{name} is {turned:g}, and no more than the whole of a head is turned")
    else:
        own.require({FRACTION: 1.0})
        fields.require({FRACTION: 1.0})
    value = base.above("rope_theta" if base is own else theta, 1.0, absent=DEFAULT_THETA)
    try:
        # int() as the models were trained: half a coordinate is none.
        return Rotary(int(head_dim * turned), value, _scaling(own, fields, context))
    except ShapeMismatch as error:
        fields.refuse(f"rotary positions: {error}")


def _scaling(own: Fields, fields: Fields, context: int) -> Scaling | None:
    kind = own.values.get("rope_type") or own.values.get("type") or "default"
    if not isinstance(kind, str) or kind not in SCALINGS:
        fields.refuse(f"rope_type is {kind!r}; computed here are {', '.join(SCALINGS)}")
    if fields.has(ORIGINAL):  # it counts more than the one inside
        own = Fields({**own.values, ORIGINAL: fields.values[ORIGINAL]}, own.source)
    return SCALINGS[kind](own, context)


def _original(own: Fields, context: int) -> int:
    return own.size(ORIGINAL, absent=context)


def _unscaled(own: Fields, context: int) -> None:
    """Nothing is stretched; ``dynamic`` stretches only beyond the context, where no token is."""


def _linear(own: Fields, context: int) -> Scaling:
    return Linear(own.above("factor", 0.0))


def _llama3(own: Fields, context: int) -> Scaling:
    low, high = own.above("low_freq_factor", 0.0), own.above("high_freq_factor", 0.0)
    if high <= low:
        own.refuse(f"high_freq_factor must be above low_freq_factor, {low:g}, not {high:g}")
    return Llama3(own.above("factor", 0.0), low, high, _original(own, context))


def _yarn(own: Fields, context: int) -> Scaling:
    original = _original(own, context)
    factor = own.above("factor", 0.0, absent=context / original)
    if own.has("attention_factor"):
        magnitude = own.above("attention_factor", 0.0)
    else:
        magnitude = _growth(factor, 1.0)
        every, each = own.number("mscale", 0.0), own.number("mscale_all_dim", 0.0)
        if every and each:
            magnitude = _growth(factor, every) / _growth(factor, each)
    fast, slow = own.number("beta_fast", 32.0) or 32.0, own.number("beta_slow", 1.0) or 1.0
    if not 0 < slow < fast:
        own.refuse(f"beta_fast must be above beta_slow, {slow:g}, and that above 0, not {fast:g}")
    return Yarn(factor, original, magnitude, fast, slow, own.flag("truncate", True))


def _growth(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


SCALINGS: dict[str, Callable[[Fields, int], Scaling | None]] = {
    "default": _unscaled,
    "dynamic": _unscaled,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}
"""How positions may be stretched, by the name that a config.json gives it."""
