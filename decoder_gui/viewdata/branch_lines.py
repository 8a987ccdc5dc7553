"""The branches beside the one in hand, as lines under the timeline."""

from __future__ import annotations

from dataclasses import dataclass

from decoder_gui.debugger.branches import Branch, Tree
from decoder_gui.viewdata.numbers import plural
from model.tokenizers import Tokenizer
from model.trace import Phase, Step


@dataclass(frozen=True)
class OwnStep:
    """A step that a branch does not share with the line above it."""

    phase: Phase
    label: str


@dataclass(frozen=True)
class BranchLine:
    """One branch that is not in hand.

    Attributes:
        branch: its number.
        name: what it is called.
        above: the line that it leaves: an index into the lines, or -1 for the one in hand.
        phases: of all of its steps, those that it shares included.
        own: the steps after the fork.
        reason: why it was begun, in words.
        pending: whether its own steps have to be run again when it is entered.
        words: all of it in words, for who points at it.
    """

    branch: int
    name: str
    above: int
    phases: tuple[Phase, ...]
    own: tuple[OwnStep, ...]
    reason: str
    pending: bool
    words: str

    @property
    def fork(self) -> int:
        """Index of its first own step."""
        return len(self.phases) - len(self.own)


def build_branch_lines(tree: Tree, tokenizer: Tokenizer) -> tuple[BranchLine, ...]:
    """The branches that are not in hand, in the order in which they were begun.

    Each leaves the line above it with which it has most in common.
    """
    lines: list[BranchLine] = []
    above = [tree.active]
    for branch in tree:
        if branch.id == tree.active:
            continue
        shared = [tree.shared(branch.id, other) for other in above]
        nearest = max(range(len(above)), key=lambda index: shared[index])
        lines.append(_line(branch, nearest - 1, shared[nearest], tokenizer))
        above.append(branch.id)
    return tuple(lines)


def _line(branch: Branch, above: int, shared: int, tokenizer: Tokenizer) -> BranchLine:
    steps = branch.steps
    own = tuple(
        OwnStep(step.phase, _label(step, tokenizer)) for step in steps if step.first >= shared
    )
    pending = bool(branch.planned)
    return BranchLine(
        branch=branch.id,
        name=branch.name,
        above=above,
        phases=tuple(step.phase for step in steps),
        own=own,
        reason=branch.reason,
        pending=pending,
        words=_words(branch, len(own), pending),
    )


def _label(step: Step, tokenizer: Tokenizer) -> str:
    if step.phase is Phase.PREFILL:
        return f"prefill · {plural(len(step.token_ids), 'token')}"
    return tokenizer.piece(step.token_ids[0]).text


def _words(branch: Branch, own: int, pending: bool) -> str:
    parts = [branch.name]
    if branch.reason:
        parts.append(branch.reason)
    parts.append(f"{plural(own, 'step')} of its own")
    if pending:
        parts.append("run again when entered")
    return "; ".join(parts) + ". Click to enter it."
