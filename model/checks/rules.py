"""What an operation of a capture must give, from recorded operands alone, in float64.

A rule gets the operands of one array and gives what the array should be, without its batch axis, or
None where something that it needs was not recorded. The arithmetic is written out here on its own,
so that it shares nothing with the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from model.captured_engine import CapturedEngine
from model.engine import Array
from model.operations import Operation
from model.trace import Step, Trace

Doubles = NDArray[np.float64]
Rule = Callable[["Operands"], Array | None]

FITTED = 6  # positions from which on a norm's gain and shift are fitted

RULES: dict[str, Rule] = {}
"""Short name of an array -> what it should be."""


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass
class Operands:
    """What was recorded around one array of one step."""

    engine: CapturedEngine
    trace: Trace
    step: Step
    operation: Operation
    name: str
    old_keys_only: bool = False
    used: list[str] = field(default_factory=list)

    @property
    def short(self) -> str:
        """The name without its block."""
        return self.name.split(".", 2)[2] if self.name.startswith("blocks.") else self.name

    @property
    def read(self) -> str:
        """What the rule read, in words."""
        return " and ".join(dict.fromkeys(self.used))

    def result(self) -> Array | None:
        """The array itself, without its batch axis."""
        held = self.trace.array(self.step.index, self.name)
        return None if held is None else held[0]

    def here(self, short: str) -> Doubles | None:
        """Another array of the same block (or of none) in this step."""
        held = self.trace.array(self.step.index, self.full(short))
        if held is None:
            return None
        self.used.append(short)
        return np.asarray(held[0], np.float64)

    def so_far(self, short: str) -> Doubles | None:
        """An array of the same block over all positions so far, (kv_head, key, d_head)."""
        name, parts = self.full(short), []
        for step in self.trace.steps[: self.step.index + 1]:
            held = self.trace.array(step.index, name)
            if held is None:
                return None
            parts.append(np.asarray(held[0], np.float64))
        self.used.append(short)
        return np.concatenate(parts, axis=-2)

    def full(self, short: str) -> str:
        """The canonical name of an array of this block."""
        front = self.name.removesuffix(self.short)
        return short if short in ("embed", "pos_embed") else front + short

    def shared(self, rows: Doubles) -> Doubles:
        """Keys or values repeated for the query heads that share them, (head, key, d_head)."""
        shape = self.engine.shape
        repeated: Doubles = rows.repeat(shape.num_heads // shape.kv_heads, axis=0)
        return repeated

    def seen(self, shape: tuple[int, ...]) -> Array:
        """Which entries count: a masked score may be written in more than one way."""
        every: Array = np.ones(shape, dtype=bool)
        if self.short == "attn.scores":
            queries = np.arange(self.step.first, self.step.last)[:, np.newaxis]
            keys = np.arange(shape[-1])
            every &= keys <= queries
            if self.operation.window:
                every &= keys > queries - self.operation.window
            if self.old_keys_only:
                every &= keys < self.step.first
        return every

    def said(self, field: str) -> object:
        """What the capture says of its model, or None."""
        return self.engine.capture.blueprint.get(field)


@_rule("resid_pre")
def _embedded(operands: Operands) -> Array | None:
    if not operands.name.startswith("blocks.0."):
        return None  # it is the end of the block before
    token, position = operands.here("embed"), operands.here("pos_embed")
    return None if token is None or position is None else token + position


@_rule("ln1", "ln2", "ln_final")
def _norm(operands: Operands) -> Array | None:
    """The stream at one size; gain and shift are those that fit all positions best.

    The fit cannot absorb a wrong size of single positions, which is what a wrong epsilon gives.
    """
    blueprint = operands.engine.blueprint
    if operands.said("norm") is None or operands.said("norm_epsilon") is None:
        return None
    source = operands.operation.inputs[0]
    steps = operands.trace.steps
    streams = [operands.trace.array(step.index, source) for step in steps]
    results = [operands.trace.array(step.index, operands.name) for step in steps]
    if any(array is None for array in (*streams, *results)):
        return None
    x = np.concatenate([np.asarray(a[0], np.float64) for a in streams if a is not None])
    y = np.concatenate([np.asarray(a[0], np.float64) for a in results if a is not None])
    if len(x) < FITTED or len(x) != len(y):
        return None
    operands.used.append(source)
    shifted = str(blueprint.norm) == "LayerNorm"
    if shifted:
        x = x - x.mean(axis=-1, keepdims=True)
    n = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + blueprint.norm_epsilon)
    centre, middle = (n.mean(axis=0), y.mean(axis=0)) if shifted else (0.0, 0.0)
    spread = ((n - centre) ** 2).sum(axis=0)
    gain = ((n - centre) * (y - middle)).sum(axis=0) / np.where(spread > 0, spread, 1.0)
    fitted = (n - centre) * gain + middle
    return np.asarray(fitted[operands.step.first : operands.step.last])


@_rule("attn.rot_q", "attn.rot_k")
def _turned(operands: Operands) -> Array | None:
    rotary = operands.engine.blueprint.rotary
    if operands.said("rotary") is None or rotary is None:
        return None
    which = operands.short[-1]
    x = operands.here(f"attn.{which}_norm")
    x = operands.here(f"attn.{which}") if x is None else x
    if x is None:
        return None
    operands.used.append("the position")
    pairs = rotary.dims // 2
    places = np.arange(operands.step.first, operands.step.last, dtype=np.float64)
    angles = np.multiply.outer(places, rotary.frequencies.astype(np.float64))  # (pos, pairs)
    cosine, sine = np.cos(angles) * rotary.magnitude, np.sin(angles) * rotary.magnitude
    first, second, rest = x[..., :pairs], x[..., pairs : 2 * pairs], x[..., 2 * pairs :]
    parts = [first * cosine - second * sine, second * cosine + first * sine, rest]
    return np.concatenate(parts, axis=-1)


@_rule("attn.scores")
def _scores(operands: Operands) -> Array | None:
    for query, key in (("rot_q", "rot_k"), ("q_norm", "k_norm"), ("q", "k")):
        # A turned query against a key that was not recorded turned says nothing.
        if any(
            operands.trace.array(operands.step.index, operands.full(f"attn.{part}")) is not None
            for part in (query, key)
        ):
            q, k = operands.here(f"attn.{query}"), operands.so_far(f"attn.{key}")
            if q is None or k is None:
                return None
            scores: Array = q @ operands.shared(k).swapaxes(-1, -2) / math.sqrt(q.shape[-1])
            return scores
    return None


@_rule("attn.pattern")
def _pattern(operands: Operands) -> Array | None:
    scores = operands.here("attn.scores")
    if scores is None:
        return None
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights: Array = powers / powers.sum(axis=-1, keepdims=True)
    return weights


@_rule("attn.z")
def _mixed(operands: Operands) -> Array | None:
    pattern, values = operands.here("attn.pattern"), operands.so_far("attn.v")
    if pattern is None or values is None:
        return None
    mixed: Array = pattern @ operands.shared(values)
    return mixed


@_rule("resid_mid")
def _middle(operands: Operands) -> Array | None:
    stream, update = operands.here("resid_pre"), operands.here("attn.out")
    return None if stream is None or update is None else stream + update


@_rule("mlp.post")
def _bent(operands: Operands) -> Array | None:
    bend = BENDS.get(str(operands.said("activation")))
    widened, gate = operands.here("mlp.pre"), None
    if operands.engine.shape.gated:
        gate = operands.here("mlp.gate")
        if gate is None:
            return None
    if bend is None or widened is None:
        return None
    return bend(widened) if gate is None else bend(gate) * widened


@_rule("resid_post")
def _end(operands: Operands) -> Array | None:
    update = operands.here("mlp.out")
    middle = None if operands.engine.blueprint.parallel else operands.here("resid_mid")
    if middle is None:
        stream, attended = operands.here("resid_pre"), operands.here("attn.out")
        middle = None if stream is None or attended is None else stream + attended
    return None if update is None or middle is None else middle + update


def _gelu(x: Doubles) -> Doubles:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _exact_gelu(x: Doubles) -> Doubles:
    erf = np.vectorize(math.erf, otypes=[float])
    bent: Doubles = 0.5 * x * (1 + erf(x / math.sqrt(2)))
    return bent


def _silu(x: Doubles) -> Doubles:
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


def _relu(x: Doubles) -> Doubles:
    return np.maximum(x, 0)


BENDS: dict[str, Callable[[Doubles], Doubles]] = {
    "GELU": _gelu,
    "exact GELU": _exact_gelu,
    "SiLU": _silu,
    "ReLU": _relu,
}
"""What a capture may call an activation -> its arithmetic."""
