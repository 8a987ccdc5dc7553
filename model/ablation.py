"""Edits of a pass: an activation is changed where it was computed, before anything reads it.

Zeroing a head or an MLP asks what the model does without it; patching an activation with that of
another position, step or run asks what the model knows there. An edit acts on absolute positions
from ``first`` on: a pass over a whole sequence and one token at a time make the same numbers, and
what was computed before an edit began needs no second look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

import numpy as np

from model.engine import Array
from model.errors import EditNotPossible
from model.operations import Kind, Operation
from model.shape import ModelShape

SQUARE_KINDS = frozenset({Kind.SCORES, Kind.PATTERN})


class Edit(Protocol):
    """A change of one activation."""

    @property
    def name(self) -> str:
        """Canonical name of the array that is changed."""
        ...

    @property
    def first(self) -> int:
        """The first position whose numbers it changes."""
        ...

    @property
    def words(self) -> str:
        """What is done, in a few words: ``zeroed head 2.1``."""
        ...

    def write(self, array: Array, start: int) -> None:
        """Change an array in place; its last axis but one holds positions ``start`` and on."""
        ...

    def touches(self, position: int, head: int | None) -> bool:
        """Whether it changes the numbers of a position, in a head where the array has heads."""
        ...

    def require(self, operation: Operation, shape: ModelShape) -> None:
        """Refuse a model that has no such part; ``operation`` is the one that makes the array.

        Raises:
            EditNotPossible: a sentence on why.
        """
        ...


@dataclass(frozen=True)
class ZeroHead:
    """What a head of a layer found, ``attn.z``, becomes 0 at all positions from ``first`` on."""

    layer: int
    head: int
    first: int = 0

    @property
    def name(self) -> str:
        return f"blocks.{self.layer}.attn.z"

    @property
    def words(self) -> str:
        return f"zeroed head {self.layer}.{self.head}"

    def write(self, array: Array, start: int) -> None:
        """See :class:`Edit`; the array is (batch, head, pos, d_head)."""
        array[:, self.head, max(0, self.first - start) :] = 0.0

    def touches(self, position: int, head: int | None) -> bool:
        """See :class:`Edit`."""
        return position >= self.first and head == self.head

    def require(self, operation: Operation, shape: ModelShape) -> None:
        """See :class:`Edit`."""
        _require_position(self.first)
        if not 0 <= self.head < shape.num_heads:
            raise EditNotPossible(
                f"layer {self.layer} has {shape.num_heads} heads and no head {self.head}"
            )


@dataclass(frozen=True)
class ZeroMlp:
    """The update of a layer's MLP, ``mlp.out``, becomes 0 at all positions from ``first`` on."""

    layer: int
    first: int = 0

    @property
    def name(self) -> str:
        return f"blocks.{self.layer}.mlp.out"

    @property
    def words(self) -> str:
        return f"zeroed MLP {self.layer}"

    def write(self, array: Array, start: int) -> None:
        """See :class:`Edit`; the array is (batch, pos, d_model)."""
        array[:, max(0, self.first - start) :] = 0.0

    def touches(self, position: int, head: int | None) -> bool:
        """See :class:`Edit`."""
        return position >= self.first

    def require(self, operation: Operation, shape: ModelShape) -> None:
        """See :class:`Edit`."""
        _require_position(self.first)


@dataclass(frozen=True, eq=False)
class Patch:
    """An activation of some positions becomes what was recorded elsewhere.

    Attributes:
        name: canonical name of the array, such as ``blocks.2.resid_post``.
        positions: absolute positions that are overwritten, in increasing order.
        values: the array's own axes without the batch, with those positions on the last axis but
            one; without a head axis if there is a ``head``. Made read-only. In scores and attention
            weights, which have one column a key, position p takes the first p + 1 columns.
        head: the only head that is overwritten, or None for all of the array.
        source: where the values come from, in words: ``position 3 of step 0``.
    """

    name: str
    positions: tuple[int, ...]
    values: Array = field(repr=False)
    head: int | None = None
    source: str = "given values"

    def __post_init__(self) -> None:
        values = np.array(self.values)  # a copy of its own: whoever gave it may go on
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    @property
    def first(self) -> int:
        return self.positions[0] if self.positions else 0

    @property
    def words(self) -> str:
        whose = "" if self.head is None else f" of head {self.head}"
        where = ", ".join(str(position) for position in self.positions)
        noun = "position" if len(self.positions) == 1 else "positions"
        return f"patched {self.name}{whose} at {noun} {where} with {self.source}"

    def write(self, array: Array, start: int) -> None:
        """See :class:`Edit`."""
        target = array if self.head is None else array[:, self.head]
        square = self.name.endswith((".attn.scores", ".attn.pattern"))
        for row, position in enumerate(self.positions):
            if start <= position < start + array.shape[-2]:
                width = position + 1 if square else array.shape[-1]
                target[..., position - start, :width] = self.values[..., row, :width]

    def touches(self, position: int, head: int | None) -> bool:
        """See :class:`Edit`."""
        return position in self.positions and (self.head is None or head == self.head)

    def require(self, operation: Operation, shape: ModelShape) -> None:
        """See :class:`Edit`."""
        if operation.kind is Kind.EMBED and not self.name.endswith("resid_pre"):
            raise EditNotPossible(
                f"{self.name} cannot be patched by itself: patch blocks.0.resid_pre, which is what "
                "the first block reads"
            )
        if not self.positions or list(self.positions) != sorted(set(self.positions)):
            raise EditNotPossible("a patch needs some positions, each once, in increasing order")
        _require_position(self.first)
        wanted = self._wanted(operation, shape)
        if self.values.shape != wanted:
            raise EditNotPossible(
                f"{self.name} takes values of shape {wanted} there, not {self.values.shape}"
            )

    def _wanted(self, operation: Operation, shape: ModelShape) -> tuple[int, ...]:
        shared = self.name.rpartition(".")[2] in ("k", "v", "k_norm", "rot_k")
        sizes = {
            "d_model": shape.model_dim,
            "d_head": shape.head_dim,
            "d_mlp": shape.mlp_dim,
            "vocab": shape.vocabulary,
            "head": shape.kv_heads if shared else shape.num_heads,
            "pos": len(self.positions),
            "key": self.values.shape[-1] if self.values.ndim else 0,
        }
        axes = operation.axes[1:]
        if self.head is not None:
            if "head" not in axes or not 0 <= self.head < sizes["head"]:
                raise EditNotPossible(f"{self.name} has no head {self.head}")
            axes = tuple(axis for axis in axes if axis != "head")
        if "key" in axes and sizes["key"] <= self.positions[-1]:
            raise EditNotPossible(
                f"a row of {self.name} has a number for each key that its query sees, "
                f"{self.positions[-1] + 1} of them at position {self.positions[-1]}, and not "
                f"{sizes['key']}"
            )
        return tuple(sizes[axis] for axis in axes)


def _require_position(position: int) -> None:
    if position < 0:
        raise EditNotPossible(f"there is no position {position}")


@dataclass(frozen=True)
class Edits:
    """The edits of an engine by the array that each changes; false where there are none."""

    by_name: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, edits: Sequence[Edit], operations: Sequence[Operation], shape: ModelShape) -> Edits:
        """Edits of a model that has these operations.

        Raises:
            EditNotPossible: the model has no such part, or the values do not fit it.
        """
        makers = {name: operation for operation in operations for name in operation.outputs}
        by_name: dict[str, tuple[Edit, ...]] = {}
        for edit in edits:
            if edit.name not in makers:
                raise EditNotPossible(f"this model records no {edit.name}")
            edit.require(makers[edit.name], shape)
            by_name[edit.name] = (*by_name.get(edit.name, ()), edit)
        return cls(MappingProxyType(by_name))

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def write(self, name: str, array: Array, end: int) -> None:
        """Change an array in place where an edit asks for it.

        Args:
            name: its canonical name.
            array: (..., pos, width), the newest rows of the pass.
            end: one past the absolute position of the last row.
        """
        for edit in self.by_name.get(name, ()):
            edit.write(array, end - array.shape[-2])


UNEDITED = Edits()


def describe(edits: Sequence[Edit]) -> str:
    """Some edits in words, or nothing: ``zeroed head 2.1 from position 7``."""
    parts = [
        edit.words if isinstance(edit, Patch) else f"{edit.words} from position {edit.first}"
        for edit in edits
    ]
    return "; ".join(parts)
