"""Between a tree of branches and what a file keeps of it, and back to lines to be run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from decoder_gui.debugger.branch_history import Limb
from decoder_gui.debugger.branches import Branch, Tree
from decoder_gui.debugger.lines import Entry, Line, Pass
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.saving.session_file import SavedBranch, SavedStep, SessionFileError
from decoder_gui.debugger.session import Session, peek
from model.trace import Checkpoint, Step


@dataclass(frozen=True)
class Restored:
    """Branches of a file are in the session: the active one runs now, others when entered."""

    branches: tuple[SavedBranch, ...]
    active: int


def saved_branches(tree: Tree) -> tuple[SavedBranch, ...]:
    """What a file keeps of a tree, parents before their children."""
    return tuple(
        SavedBranch(
            id=branch.id,
            name=branch.name,
            parent=branch.limb.parent,
            position=branch.limb.position,
            reason=branch.reason,
            steps=tuple(
                SavedStep(step.phase, step.token_ids, step.checkpoint.generator_state)
                for step in branch.steps
            ),
            edits=branch.edits,
            by_hand=branch.run.taken_by_hand,
            settings=dict(branch.run.settings),
        )
        for branch in _parents_first(tree)
    )


def steps_of(branch: SavedBranch) -> tuple[Step, ...]:
    """The steps of a saved branch, at their positions and with their draws."""
    steps: list[Step] = []
    first = 0
    for index, saved in enumerate(branch.steps):
        steps.append(
            Step(
                index=index,
                phase=saved.phase,
                first=first,
                token_ids=saved.token_ids,
                checkpoint=Checkpoint(first, saved.generator_state),
                uniform=peek(saved.generator_state)[0],
            )
        )
        first = steps[-1].last
    return tuple(steps)


def plan(session: Session, branches: Sequence[SavedBranch], active: int) -> None:
    """Give a new session the lines of a file; nothing is run yet.

    Raises:
        SessionFileError: a token that the model does not have, or more than the context holds.
        EditNotPossible: an edit of a part that the model does not have.
    """
    vocabulary, capacity = session.engine.shape.vocabulary, session.cache.capacity
    lines: dict[int, Line] = {}
    for branch in branches:
        session.require_edits(branch.edits)
        steps = steps_of(branch)
        beyond = [t for step in steps for t in step.token_ids if t >= vocabulary]
        if beyond:
            raise SessionFileError(
                f"branch {branch.name!r} has token {beyond[0]}, and the model {vocabulary} tokens"
            )
        if steps and steps[-1].last > capacity:
            raise SessionFileError(
                f"branch {branch.name!r} has {steps[-1].last} positions, and the context {capacity}"
            )
        parent = None if branch.parent is None else lines[branch.parent]
        line = Line(branch.id, branch.edits)
        for step in steps:
            line.planned.append(Entry(step, _pass_of(step, branch, parent)))
        lines[branch.id] = line
    session.restore(lines.values(), active)


def tree_of(restored: Restored, empty: Run) -> Tree:
    """The tree of a file; ``empty`` is a run of the model without steps."""
    branches = []
    for saved in restored.branches:
        run = empty.emptied()
        run.edits = saved.edits
        for step in saved.by_hand:
            run.mark_by_hand(step)
        for step, settings in saved.settings.items():
            run.mark_settings([step], settings)
        planned = () if saved.id == restored.active else steps_of(saved)
        limb = Limb(saved.id, saved.name, saved.parent, saved.position)
        branches.append(Branch(limb, saved.reason, saved.edits, run, planned))
    return Tree(tuple(branches), restored.active)


def _pass_of(step: Step, branch: SavedBranch, parent: Line | None) -> Pass:
    """The pass that a step shares with the parent's, or one of its own."""
    if parent is not None and step.last <= branch.position and step.index < len(parent.planned):
        entry = parent.planned[step.index]
        shared = entry.step.token_ids[: len(step.token_ids)]
        if entry.step.first == step.first and shared == step.token_ids:
            return entry.made_by
    return Pass(step.last)


def _parents_first(tree: Tree) -> list[Branch]:
    """The branches, so ordered that each comes after the one that it grows from."""
    ordered: list[Branch] = []
    known: set[int | None] = {None}
    waiting = list(tree)
    while waiting:
        ready = [branch for branch in waiting if branch.limb.parent in known]
        if not ready:
            raise ValueError("the branches make no tree")
        ordered += ready
        known |= {branch.id for branch in ready}
        waiting = [branch for branch in waiting if branch.id not in known]
    return ordered
