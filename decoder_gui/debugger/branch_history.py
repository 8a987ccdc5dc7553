"""Where branches grow, without what they have run, and the way back to how they grew before."""

from __future__ import annotations

from dataclasses import dataclass, replace

HISTORY = 200  # changes that can be undone


@dataclass(frozen=True)
class Limb:
    """Where a branch grows in the tree, without what it has run.

    Attributes:
        id: the session's number for it.
        name: chosen by hand, or ``branch 2``.
        parent: the branch that it shares positions with; None for the first.
        position: the first position that is its own.
    """

    id: int
    name: str
    parent: int | None = None
    position: int = 0


@dataclass(frozen=True)
class Shape:
    """A tree without what was run: what undo goes back to."""

    limbs: tuple[Limb, ...]
    active: int

    def __contains__(self, branch: int) -> bool:
        return any(limb.id == branch for limb in self.limbs)

    def named(self, branch: int, name: str) -> Shape:
        """The same with another name for a branch."""
        limbs = (replace(limb, name=name) if limb.id == branch else limb for limb in self.limbs)
        return replace(self, limbs=tuple(limbs))

    def without(self, branch: int) -> Shape:
        """The same without a branch: those that grew from it grow from its parent.

        Without the first branch, its first child takes its place.
        """
        gone = next(limb for limb in self.limbs if limb.id == branch)
        children = [limb for limb in self.limbs if limb.parent == branch]
        heir, reach = gone.parent, gone.position
        if heir is None and children:
            heir, reach = children[0].id, children[0].position

        def moved(limb: Limb) -> Limb:
            if limb.id == heir and gone.parent is None:
                return replace(limb, parent=None, position=0)
            if limb.parent == branch:
                return replace(limb, parent=heir, position=min(limb.position, reach))
            return limb

        active = heir if self.active == branch and heir is not None else self.active
        return Shape(tuple(moved(limb) for limb in self.limbs if limb.id != branch), active)


@dataclass(frozen=True)
class Edited:
    """A change of the tree that can be undone: what it was, and the tree on the other side."""

    words: str
    shape: Shape


class History:
    """Trees to go back to and forward to."""

    def __init__(self) -> None:
        self._back: list[Edited] = []
        self._forth: list[Edited] = []

    @property
    def undo_words(self) -> str:
        """What undo would take back, or an empty string."""
        return self._back[-1].words if self._back else ""

    @property
    def redo_words(self) -> str:
        """What redo would do again, or an empty string."""
        return self._forth[-1].words if self._forth else ""

    @property
    def known(self) -> frozenset[int]:
        """Branches that undo or redo may bring back."""
        return frozenset(
            limb.id for edited in (*self._back, *self._forth) for limb in edited.shape.limbs
        )

    def record(self, words: str, before: Shape) -> None:
        """A change was made to a tree; what was undone before it cannot be redone."""
        self._back.append(Edited(words, before))
        del self._back[:-HISTORY]
        self._forth.clear()

    def forget_last(self) -> Shape | None:
        """The newest change was never completed; returns the tree before it."""
        return self._back.pop().shape if self._back else None

    def undo(self, now: Shape) -> Shape | None:
        """The tree before the newest change, or None; ``now`` is what redo comes back to."""
        return self._travel(self._back, self._forth, now)

    def redo(self, now: Shape) -> Shape | None:
        """The tree after the newest change that was undone, or None."""
        return self._travel(self._forth, self._back, now)

    def clear(self) -> None:
        self._back.clear()
        self._forth.clear()

    @staticmethod
    def _travel(source: list[Edited], target: list[Edited], now: Shape) -> Shape | None:
        if not source:
            return None
        edited = source.pop()
        target.append(Edited(edited.words, now))
        return edited.shape
