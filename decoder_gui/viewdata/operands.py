"""What a number is made of: operands with the place that each comes from, and sums of many terms.

A sum may have one term per token of a vocabulary, so its terms are made one at a time, when
somebody looks at them; only their contributions are held, as one array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """One number of an array.

    Attributes:
        array: canonical name, or ``raw``, ``tempered``, ``final`` for the sampler's.
        position: absolute position of its row.
        head: its head, None where the array has no head axis.
        column: index on the last axis: a key's position, a coordinate, a token id.
    """

    array: str
    position: int
    head: int | None
    column: int

    @property
    def short(self) -> str:
        """The array's name without its block: ``attn.scores``."""
        return short_name(self.array)


@dataclass(frozen=True)
class Parameter:
    """One number of a weight: its canonical name and its index."""

    name: str
    index: tuple[int, ...]

    @property
    def text(self) -> str:
        """``blocks.2.mlp.W_in[5, 17]``."""
        return f"{self.name}[{', '.join(map(str, self.index))}]"


@dataclass(frozen=True)
class Constant:
    """A number that is given: by the shape of the model, a setting, the prompt; in words."""

    words: str


Source = Cell | Parameter | Constant
"""Where an operand comes from; only a cell has been computed by an operation."""


@dataclass(frozen=True)
class Operand:
    """One number that goes into another, with its name in the formula."""

    label: str
    value: float
    source: Source


@dataclass(frozen=True)
class Term:
    """One term of a sum: what it adds, and the factors or the argument that it is made of."""

    index: int
    contribution: float
    operands: tuple[Operand, ...]


@dataclass(frozen=True, eq=False)
class Sum:
    """Many terms that are added up.

    Attributes:
        name: what is added, as the formula has it: ``y·W_U[:, 262]``, ``exp(score - max)``.
        contributions: what each term adds, (terms,), float64.
        make: the operands of the term of an index.
        joined: how the operands of a term make its contribution: ``×``, or a function's name.
    """

    name: str
    contributions: Doubles
    make: Callable[[int], tuple[Operand, ...]] = field(repr=False)
    joined: str = "×"
    _found: dict[int, NDArray[np.intp]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return self.contributions.size

    @cached_property
    def total(self) -> float:
        """All terms, summed in float64."""
        return float(self.contributions.sum())

    @cached_property
    def _sizes(self) -> Doubles:
        """How large each term is; one that is not a number is larger than any."""
        sizes: Doubles = np.abs(self.contributions)
        return np.where(np.isnan(sizes), np.inf, sizes) if np.isnan(self.total) else sizes

    def _largest(self, count: int) -> NDArray[np.intp]:
        """Indices of the ``count`` largest terms by falling size, the lower index among equals."""
        if count not in self._found:
            self._found[count] = self._find(count)
        return self._found[count]

    def _find(self, count: int) -> NDArray[np.intp]:
        sizes = self._sizes
        if count >= sizes.size:
            return np.argsort(-sizes, kind="stable")
        # Of a vocabulary nobody looks at more than a few: sorting all of it would be slow.
        edge = np.partition(sizes, sizes.size - count)[sizes.size - count]
        candidates = np.flatnonzero(sizes >= edge)
        return candidates[np.argsort(-sizes[candidates], kind="stable")][:count]

    def term(self, index: int) -> Term:
        """The term of an index, with its operands."""
        return Term(index, float(self.contributions[index]), self.make(index))

    def largest(self, count: int) -> tuple[Term, ...]:
        """The ``count`` largest terms by falling size."""
        return tuple(self.term(int(i)) for i in self._largest(count)) if count else ()

    def rest(self, shown: int) -> tuple[int, float]:
        """How many terms there are beyond the ``shown`` largest, and what they add."""
        left = self.contributions.copy()
        if shown:
            left[self._largest(shown)] = 0.0
        return max(0, left.size - shown), float(left.sum())


def short_name(array: str) -> str:
    """``attn.scores`` for ``blocks.2.attn.scores``."""
    return array.split(".", 2)[2] if array.startswith("blocks.") else array


def symbol_of(array: str) -> str:
    """What an array is called in a list of operands: ``rot_q``, ``mlp.post``, ``resid_mid``."""
    return short_name(array).removeprefix("attn.")


def label_of(cell: Cell, here: Cell | None = None) -> str:
    """``ln_final[12]``; with head or position where they are not those of the cell explained."""
    label = symbol_of(cell.array)
    if cell.head is not None and (here is None or cell.head != here.head):
        label += f"[head {cell.head}]"
    if here is None or cell.position != here.position:
        label += f"[position {cell.position}]"
    return f"{label}[{cell.column}]"
