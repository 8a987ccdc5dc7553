"""Fields of a config.json, each held against what it has to be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from model.blueprint import Activation
from model.checkpoints.loading import Config
from model.errors import CheckpointError

LARGEST_SIZE = 2**31 - 1
LARGEST_DEPTH = 10_000

ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": Activation.GELU_EXACT,
    "gelu_new": Activation.GELU_TANH,
    "gelu_fast": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "silu": Activation.SILU,
    "swish": Activation.SILU,
}
"""Names of activations in a config.json -> what they are."""


@dataclass(frozen=True)
class Fields:
    """A config.json, or an object within it.

    A field that is null counts as one that is not there. Every method raises CheckpointError, which
    names the file and the field, if the value is not what it has to be.
    """

    values: Config
    source: Path

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self.values.get(name) is not None

    def size(self, *names: str, absent: int | None = None) -> int:
        """A positive whole number, under the first of its names that is there."""
        for name in names:
            if self.has(name):
                value: Any = self.values[name]
                if isinstance(value, bool) or not isinstance(value, int):
                    self.refuse(f"{name} must be a whole number, not {value!r}")
                if not 1 <= value <= LARGEST_SIZE:
                    self.refuse(
                        f"{name} must be at least 1 and at most {LARGEST_SIZE}, not {value}"
                    )
                return value
        if absent is None:
            self.refuse(f"{names[0]} is missing")
        return absent

    def depth(self, name: str) -> int:
        """A number of layers."""
        depth = self.size(name)
        if depth > LARGEST_DEPTH:
            self.refuse(f"{name} is {depth}; at most {LARGEST_DEPTH} are read")
        return depth

    def number(self, name: str, absent: float | None = None) -> float:
        """A finite number."""
        value: Any = self.values.get(name)
        if value is None:
            if absent is None:
                self.refuse(f"{name} is missing")
            return absent
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(f"{name} must be a number, not {value!r}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.refuse(f"{name} must be a finite number, not {value!r}")
        return number

    def above(self, name: str, least: float, absent: float | None = None) -> float:
        """A number above another one."""
        number = self.number(name, absent)
        if not number > least:
            self.refuse(f"{name} must be above {least:g}, not {number:g}")
        return number

    def epsilon(self, name: str, absent: float) -> float:
        """A number from 0 to 1, which is added under a root."""
        number = self.number(name, absent)
        if not 0 <= number < 1:
            self.refuse(f"{name} must be a number from 0 to 1, not {number:g}")
        return number

    def flag(self, name: str, absent: bool) -> bool:
        """True or false."""
        value: Any = self.values.get(name)
        if value is None:
            return absent
        if not isinstance(value, bool):
            self.refuse(f"{name} must be true or false, not {value!r}")
        return value

    def activation(self, name: str, absent: str) -> Activation:
        """What the name of an activation stands for."""
        value: Any = self.values.get(name)
        value = absent if value is None else value
        if not isinstance(value, str) or value not in ACTIVATIONS:
            known = ", ".join(sorted(ACTIVATIONS))
            self.refuse(f"{name} is {value!r}; computed here are {known}")
        return ACTIVATIONS[value]

    def inside(self, name: str) -> Fields | None:
        """The object in a field, or None where there is none."""
        value: Any = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.refuse(f"{name} must be an object, not {value!r}")
        return Fields(value, self.source)

    def refuse_quantised(self) -> None:
        """Weights in packed numbers have other names, other shapes and a rule of their own."""
        if self.has("quantization_config"):
            self.refuse(
                "quantization_config says that the weights are quantised, which is read from GGUF "
                "files only"
            )

    def require(self, wanted: Mapping[str, object]) -> None:
        """Fields that change the arithmetic, with the only value computed here, their default."""
        for name, value in wanted.items():
            found: Any = self.values.get(name)
            if found is not None and found != value:
                self.refuse(f"{name} is {found!r}; only {value} is computed here")

    def refuse(self, why: str) -> NoReturn:
        """Say what is wrong with the file."""
        raise CheckpointError(f"{self.source}: {why}")
