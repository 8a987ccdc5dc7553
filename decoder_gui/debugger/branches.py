"""The tree of branches as the window sees it: names, what each shares, and the way back.

A branch owns a run; what it shares with its parent are the very same events. Nothing here computes:
the session does, and tells what it has begun, entered and freed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from decoder_gui.debugger.branch_history import Limb, Shape
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import BranchBegan, BranchEntered
from model.ablation import Edit
from model.trace import Step, Trace

ROOT = "main"


@dataclass(frozen=True)
class Branch:
    """A branch: where it grows, what it is for, and its run.

    Attributes:
        reason: in words, why it was begun: ``took “ dog” after step 3``.
        edits: what its engine changes, that of its parents included.
        run: what it has run; grows while it is active.
        planned: the steps that entering it runs again; empty unless faults or the context changed
            since, or it was deleted and brought back.
    """

    limb: Limb
    reason: str
    edits: tuple[Edit, ...]
    run: Run = field(compare=False)
    planned: tuple[Step, ...] = ()

    @property
    def id(self) -> int:
        return self.limb.id

    @property
    def name(self) -> str:
        return self.limb.name

    @property
    def steps(self) -> tuple[Step, ...]:
        """Its steps, whether they are there or have to be run again."""
        return self.planned or self.run.trace.steps

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token for step in self.steps for token in step.token_ids)

    @property
    def positions(self) -> int:
        return self.steps[-1].last if self.steps else 0

    @property
    def first_own_step(self) -> int:
        """Index of the first step that it does not share; past the last one if it shares all."""
        return next(
            (step.index for step in self.steps if step.first >= self.limb.position), len(self.steps)
        )

    def emptied(self) -> Branch:
        """The same branch, to be run again when it is entered."""
        return replace(self, run=self.run.emptied(), planned=self.steps)


@dataclass(frozen=True)
class Tree:
    """All branches, in the order in which they were begun, and which of them is active."""

    branches: tuple[Branch, ...] = ()
    active: int = 0

    @classmethod
    def of(cls, run: Run, branch: int = 0) -> Tree:
        """A tree of one branch."""
        return cls((Branch(Limb(branch, ROOT), "", (), run),), branch)

    def __iter__(self) -> Iterator[Branch]:
        return iter(self.branches)

    def __len__(self) -> int:
        return len(self.branches)

    def __contains__(self, branch: int) -> bool:
        return any(held.id == branch for held in self.branches)

    def __getitem__(self, branch: int) -> Branch:
        return next(held for held in self.branches if held.id == branch)

    @property
    def active_branch(self) -> Branch:
        return self[self.active]

    @property
    def shape(self) -> Shape:
        return Shape(tuple(branch.limb for branch in self.branches), self.active)

    @property
    def positions(self) -> int:
        """Those of the longest branch."""
        return max((branch.positions for branch in self.branches), default=0)

    def children(self, branch: int) -> tuple[Branch, ...]:
        """The branches that grow from one, in the order in which they were begun."""
        return tuple(held for held in self.branches if held.limb.parent == branch)

    def shared(self, left: int, right: int) -> int:
        """How many positions two branches share, by where they grew."""
        if left == right:
            return self[left].positions
        reaches = self._reaches(left), self._reaches(right)
        common = reaches[0].keys() & reaches[1].keys()
        return max(min(reaches[0][held], reaches[1][held]) for held in common)

    def _reaches(self, branch: int) -> dict[int, int]:
        """Per branch on the way to the first one, how many positions are shared with it."""
        held = self[branch]
        found = {branch: held.positions}
        reach = held.positions
        while held.limb.parent is not None:
            reach = min(reach, held.limb.position)
            held = self[held.limb.parent]
            found[held.id] = reach
        return found

    def begun(self, update: BranchBegan) -> Tree:
        """The tree with a new branch, which is active."""
        run = self[update.parent].run.fork(update.steps)
        run.edits = update.edits
        limb = Limb(update.branch, f"branch {update.branch}", update.parent, update.position)
        new = Branch(limb, update.reason, update.edits, run)
        return Tree((*self.branches, new), new.id)

    def entered(self, update: BranchEntered) -> Tree:
        """The tree with another branch active; what others have run since is shared with them."""
        branch = self[update.branch]
        run = branch.run
        if update.source is not None:
            run = self[update.source].run.fork(update.steps)
            run.take_marks(branch.run)
            run.edits = branch.edits
        entered = replace(branch, run=run, planned=())
        held = (entered if old.id == entered.id else old for old in self.branches)
        return Tree(tuple(held), entered.id)

    def emptied(self) -> Tree:
        """The tree after faults or the context changed: every branch is to be run again.

        The active one is being run already, so it plans nothing.
        """
        branches = (branch.emptied() for branch in self.branches)
        return replace(
            self,
            branches=tuple(
                replace(branch, planned=()) if branch.id == self.active else branch
                for branch in branches
            ),
        )

    def shaped(self, shape: Shape, limbo: Mapping[int, Branch]) -> Tree:
        """The branches of a shape: those not here come from ``limbo``; the active one stays."""
        held = {**limbo, **{branch.id: branch for branch in self.branches}}
        return replace(
            self, branches=tuple(replace(held[limb.id], limb=limb) for limb in shape.limbs)
        )

    def likeness(self, steps: int, token: int) -> Branch | None:
        """A branch that took a token after the first ``steps`` steps of the active one, or None."""
        trace = self.active_branch.run.trace
        for branch in self.branches:
            other = branch.run.trace
            if (
                branch.id != self.active
                and branch.edits == self.active_branch.edits
                and len(other.steps) > steps
                and other.steps[steps].token_ids == (token,)
                and shared_steps(trace, other) >= steps
            ):
                return branch
        return None

    def own_bytes(self) -> dict[int, int]:
        """Per branch, bytes of recorded arrays that no other branch holds.

        The rows that a branch shares of a step that it leaves halfway are the parent's.
        """
        found = {}
        for branch in self.branches:
            trace = branch.run.trace
            others = (other.run.trace for other in self.branches if other.id != branch.id)
            shared = max((shared_steps(trace, other) for other in others), default=0)
            own = max(shared, branch.first_own_step)
            found[branch.id] = sum(trace.nbytes(step) for step in range(own, len(trace.steps)))
        return found


def shared_steps(left: Trace, right: Trace) -> int:
    """How many steps of two traces are the same recording, not merely equal."""
    count = 0
    for one, other in zip(left.steps, right.steps, strict=False):
        if not left.same_recording(right, one.index) or one.last != other.last:
            break
        count += 1
    return count


def shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginning."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))
