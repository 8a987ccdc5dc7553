"""What the arithmetic on screen needs to know of a model's weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from model.captured_engine import CapturedEngine
from model.engine import Array
from model.rotary import Rotary


@runtime_checkable
class Weights(Protocol):
    """Read-only weights and the facts that choose the arithmetic; both engines are one of these."""

    @property
    def norm(self) -> str:
        """``LayerNorm`` or ``RMSNorm``."""
        ...

    @property
    def norm_epsilon(self) -> float:
        """Added to the variance, or to the mean square, under the root."""
        ...

    @property
    def activation(self) -> str:
        """``GELU`` (the tanh form), ``exact GELU``, ``SiLU`` or ``ReLU``."""
        ...

    @property
    def rotary(self) -> Rotary | None:
        """How queries and keys are turned; None where positions are a table."""
        ...

    def parameter(self, name: str) -> Array | None:
        """A weight by its canonical name (:mod:`model.parameters`), or None if there is none."""
        ...


@dataclass(frozen=True)
class RecordedFacts:
    """What a capture says of the arithmetic; its weights are not in it."""

    norm: str
    norm_epsilon: float
    activation: str
    rotary: Rotary | None

    @classmethod
    def of(cls, engine: CapturedEngine) -> RecordedFacts:
        """As far as the capture says; a rotary rule that is not said is none."""
        blueprint, said = engine.blueprint, engine.capture.blueprint
        return cls(
            norm=str(blueprint.norm),
            norm_epsilon=blueprint.norm_epsilon,
            activation=str(said.get("activation") or "an activation that was not recorded"),
            rotary=blueprint.rotary if said.get("rotary") else None,
        )

    def parameter(self, name: str) -> Array | None:
        """None, whichever it is."""
        return None
