"""A place in an activation that can be looked at in every step: a cell, or a whole row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from model.engine import Array
from model.errors import DecoderError
from model.trace import Step

BY_KEY = (".attn.scores", ".attn.pattern")
STAGES = ("raw", "tempered", "final")
"""What a sampler makes of the logits of a step: probabilities over the vocabulary."""

Lookup = Callable[[int, str], Array | None]
"""The array of a step by its canonical name without its batch axis; None if there is none (yet)."""


class InvalidSpot(DecoderError, ValueError):
    """A place that no activation has; the message says what is wrong with it."""


class Shown(StrEnum):
    """The one number that stands for a whole row."""

    NORM = "norm"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True)
class Spot:
    """A cell of an array, or a row of it.

    Attributes:
        array: canonical name; or ``raw``, ``tempered``, ``final``: probabilities of a step.
        head: None where the array has no head axis.
        position: absolute; None is the newest position of each step.
        index: column: a key, a dimension or a token id; None is the whole row.
    """

    array: str
    head: int | None = None
    position: int | None = None
    index: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.array, str) or not self.array.strip():
            raise InvalidSpot("a place needs the name of an array, such as blocks.0.mlp.post")
        for what, number in (
            ("head", self.head),
            ("position", self.position),
            ("index", self.index),
        ):
            whole = isinstance(number, int) and not isinstance(number, bool)
            if number is not None and not (whole and number >= 0):
                raise InvalidSpot(f"the {what} must be a whole number from 0 on, not {number!r}")

    @property
    def column(self) -> str:
        """What the index counts."""
        if self.array.endswith(BY_KEY):
            return "key"
        return "token" if self.array in (*STAGES, "logits") else "index"

    @property
    def words(self) -> str:
        """``blocks.1.attn.pattern, head 2, newest position, key 5``."""
        parts = [self.array]
        if self.head is not None:
            parts.append(f"head {self.head}")
        parts.append("newest position" if self.position is None else f"position {self.position}")
        parts.append("whole row" if self.index is None else f"{self.column} {self.index}")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {
            "array": self.array,
            "head": self.head,
            "position": self.position,
            "index": self.index,
        }

    @classmethod
    def from_dict(cls, data: object) -> Spot:
        """The inverse.

        Raises:
            InvalidSpot: no such place.
        """
        if not isinstance(data, Mapping) or set(data) - {"array", "head", "position", "index"}:
            raise InvalidSpot(f"a place needs array, head, position and index, not {data!r}")
        array, numbers = data.get("array", ""), [data.get(n) for n in ("head", "position", "index")]
        return cls(array, *numbers)  # the constructor looks at what they are


@dataclass(frozen=True)
class Reading:
    """What a spot is in one step.

    Attributes:
        value: the cell, or the number that stands for the row; None where there is none.
        position: absolute, of the row that was read; -1 where there is none.
        why: in words why there is no value: empty if there is one.
    """

    step: int
    value: float | None
    position: int = -1
    why: str = ""


def read_row(spot: Spot, step: Step, lookup: Lookup) -> tuple[Array | None, int, str]:
    """The row of a spot in a step as (columns,), its position, and why there is none in words."""
    array = lookup(step.index, spot.array)
    if array is None:
        return None, -1, "not computed"
    if array.ndim == 3:
        head = 0 if spot.head is None else spot.head
        if head >= array.shape[0]:
            return None, -1, f"no head {head}"
        array = array[head]
    position = step.last - 1 if spot.position is None else spot.position
    row = position - (step.last - array.shape[0])
    if not 0 <= row < array.shape[0]:
        return None, -1, f"position {position} is not in this step"
    return array[row], position, ""


def read(spot: Spot, step: Step, lookup: Lookup, shown: Shown = Shown.NORM) -> Reading:
    """What a spot is in a step; ``shown`` says which number stands for a whole row.

    NaN and infinity are values. Whatever ``lookup`` raises goes through.
    """
    row, position, why = read_row(spot, step, lookup)
    if row is None:
        return Reading(step.index, None, why=why)
    if spot.index is None:
        return Reading(step.index, summary(row, shown), position)
    if spot.index >= row.shape[0]:
        return Reading(step.index, None, why=f"no {spot.column} {spot.index}")
    return Reading(step.index, float(row[spot.index]), position)


def summary(row: Array, shown: Shown) -> float:
    """One number for a row, in float64: its Euclidean norm, mean, largest or smallest value."""
    values = row.astype("float64")
    if shown is Shown.NORM:
        return math.sqrt(float(values @ values))
    if shown is Shown.MEAN:
        return float(values.mean())
    return float(values.max() if shown is Shown.MAX else values.min())
