"""The tree of branches in the window: what the session tells of it, and the way to another one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands
from decoder_gui.debugger.branch_history import History, Shape
from decoder_gui.debugger.branches import Branch, Tree
from decoder_gui.debugger.cursor import Cursor, last
from decoder_gui.debugger.engine_room import Rearranged, Restarted
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.saving.restoring import Restored, tree_of
from decoder_gui.debugger.session import BranchBegan
from decoder_gui.worker import Ended
from model.errors import sentence

if TYPE_CHECKING:
    from decoder_gui.context import AppContext

WHOLE_TREE = Change.TRACE | Change.CURSOR | Change.SAMPLING | Change.CHECKS | Change.BRANCHES


class BranchTree(Commands):
    """The tree of branches, and what undo and redo lead to.

    A command that is given while the session works waits until it has ended. What the session has
    begun, entered or freed arrives through :meth:`hear`, in order.

    Attributes:
        tree: all branches; empty before a model is open.
        kept: per branch, bytes of keys and values copied out of the cache.
    """

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self.tree = Tree()
        self.kept: dict[int, int] = {}
        self._history = History()
        self._limbo: dict[int, Branch] = {}
        self._waiting: deque[Callable[[], None]] = deque()
        self._wanted: deque[Shape] = deque()  # shapes on their way through the worker
        self._begun: BranchBegan | None = None  # by the job that is running

    @property
    def active(self) -> Branch | None:
        """The branch in hand."""
        return self.tree.active_branch if len(self.tree) else None

    @property
    def undo_words(self) -> str:
        """What undo would take back, or an empty string."""
        return self._history.undo_words

    @property
    def redo_words(self) -> str:
        """What redo would do again, or an empty string."""
        return self._history.redo_words

    # ---- what the session tells; called by the context

    def hear(self, update: BranchBegan | Rearranged | Restarted | Restored) -> Run:
        """Take in what the session did to the tree; returns the run of the active branch."""
        match update:
            case BranchBegan():
                return self._on_begun(update)
            case Rearranged():
                return self._on_rearranged(update)
            case Restarted(branch):
                self._say_what_is_gone()
                run = self.tree.active_branch.run.fork(())
                run.edits = ()  # those of a branch end with it
                self.begin(run, branch)
                return run
            case Restored():
                self.tree = tree_of(update, self.tree.active_branch.run)
                return self.tree.active_branch.run

    def begin(self, run: Run, branch: int) -> None:
        """A new run: there are no branches but this one, and nothing to undo."""
        self.tree = Tree.of(run, branch)
        self.kept = {}
        self._limbo.clear()
        self._waiting.clear()
        self._history.clear()

    def emptied(self, branch: int, faults: frozenset[str]) -> Run:
        """Faults or the context changed: all is to be run again; returns the active run."""
        self.tree = replace(self.tree, active=branch).emptied()
        for held in self.tree:
            held.run.faults = faults
        self._limbo = {held.id: held.emptied() for held in self._limbo.values()}
        self.kept = {}
        return self.tree.active_branch.run

    def _on_begun(self, update: BranchBegan) -> Run:
        """A branch was begun and is active; returns its run."""
        self._history.record(update.reason, self.tree.shape)
        self._drop_unknown()
        self.tree = self.tree.begun(update)
        self.kept = dict(update.kept)
        self._begun = update
        return self.tree.active_branch.run

    def _on_rearranged(self, update: Rearranged) -> Run:
        """The shape that was asked for is there; returns the run of the active branch."""
        shape = self._wanted.popleft()
        tree = self.tree
        back = (self._limbo[limb.id] for limb in shape.limbs if limb.id not in tree)
        tree = replace(tree, branches=(*tree.branches, *back))
        if update.entered is not None:
            tree = tree.entered(update.entered)
        limbo = dict(self._limbo)
        for branch in tree:
            if branch.id in shape:
                limbo.pop(branch.id, None)
            else:
                limbo[branch.id] = branch.emptied()
        self.tree, self._limbo = tree.shaped(shape, limbo), limbo
        self.kept = dict(update.kept)
        return self.tree.active_branch.run

    def _say_what_is_gone(self) -> None:
        others = len(self.tree) - 1
        if others > 0:
            noun = "other branch is" if others == 1 else "other branches are"
            self.context.notice.emit(
                f"{others} {noun} gone: Prefill begins anew. "
                "Edit the text (Ctrl+Shift+P) begins a branch instead."
            )

    def warn_of_others(self) -> None:
        """Say what becomes of the branches that are not in hand when all is run again."""
        others = len(self.tree) - 1
        if others > 0:
            noun = "other branch is" if others == 1 else "other branches are"
            self.context.notice.emit(f"{others} {noun} run again when entered.")

    def ended(self, job: Ended) -> Run | None:
        """A job of the session is over; returns the run to go back to if it was in vain."""
        begun, self._begun = self._begun, None
        completed = not (job.cancelled or job.refusal is not None or job.crash)
        self._wanted.clear()  # it was in vain if it has not been heard of
        back = None
        if begun is not None and begun.continued and not completed:
            steps = self.tree[begun.branch].run.trace
            if len(steps.steps) == len(begun.steps):
                shape = self._history.forget_last()
                if shape is not None:
                    self.tree = replace(self.tree.shaped(shape, {}), active=begun.parent)
                back = self.tree.active_branch.run
        return back

    def proceed(self) -> None:
        """Do what has been waiting for the session."""
        while self._waiting and not self.context.running:
            self._waiting.popleft()()

    # ---- for the commands

    def _when_idle(self, action: Callable[[], None]) -> None:
        if self.context.running or self._waiting:
            self._waiting.append(action)
        else:
            action()

    def _refuse(self, words: object) -> None:
        self.context.notice.emit(sentence(words))

    def _known(self, branch: int) -> bool:
        if branch in self.tree:
            return True
        self._refuse("There is no such branch any more.")
        return False

    def _go_to(self, shape: Shape, at: int | None = None) -> None:
        """Make the tree have a shape; through the worker where more than names differ."""
        tree = self.tree
        remove = [branch.id for branch in tree if branch.id not in shape]
        back = [limb.id for limb in shape.limbs if limb.id not in tree]
        if not remove and not back and shape.active == tree.active:
            self.tree = tree.shaped(shape, {})
            self.tell(Change.BRANCHES)
            return
        known = [*self._history.known, *(limb.id for limb in shape.limbs)]
        room, here = self.context.room, self.context.cursor
        if at is not None and self.context.trace is not None:
            here = Cursor(at, len(self.context.trace.operations) - 1)
        self._wanted.append(shape)
        name = next(limb.name for limb in shape.limbs if limb.id == shape.active)
        self.context.run_on_session(
            f"Entering {name}",
            lambda: room.rearrange(shape.active, put_back=back, remove=remove, known=known),
            lambda: self._same_or_last(here),
        )

    def _same_or_last(self, here: Cursor | None) -> Cursor | None:
        trace = self.context.trace
        if trace is None:
            return None
        there = here is not None and here.step < len(trace.steps)
        return here if there else last(trace)

    def _drop_unknown(self) -> None:
        known = self._history.known
        self._limbo = {i: branch for i, branch in self._limbo.items() if i in known}
