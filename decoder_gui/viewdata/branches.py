"""The branches as a table: where each grows, what it changes, what it says and what it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from decoder_gui.debugger.branches import Branch, Tree
from decoder_gui.viewdata.numbers import format_value, plural
from decoder_gui.viewdata.tables import Cell, Column, Row, Table, Tone
from model.ablation import describe
from model.byte_counts import format_bytes
from model.tokenizers import Tokenizer

COLUMNS = (
    Column("Branch"),
    Column("What is different", stretch=True),
    Column("Steps", number=True, tip="Steps in all"),
    Column(
        "ln p",
        number=True,
        tip="Log-likelihood: the sum over its tokens of their log-probabilities given all before "
        "them, in nats",
    ),
    Column(
        "Bytes",
        number=True,
        tip="Recorded arrays that no other branch holds, and keys and values kept beside the cache",
    ),
)
STALE = "stale-cache"  # the one fault under which going back does not restore every row
BEGINNING = "the run that all began with"
AGAIN = "run again when entered"
NAME_LENGTH, TEXT_LENGTH = 20, 120  # characters, beyond which a name or a text is cut


@dataclass(frozen=True)
class BranchesView:
    """The table, and for each row the branch's number and all about it in a few lines."""

    table: Table = field(default_factory=Table)
    ids: tuple[int, ...] = ()
    details: tuple[str, ...] = ()
    hint: str = ""


def log_likelihood(branch: Branch) -> tuple[float, int]:
    """The sum of the known log-probabilities of a branch's tokens, in nats, and their number."""
    known = [value for value in branch.run.log_probabilities if value is not None]
    return math.fsum(known), len(known)


def build_branches(
    tree: Tree, tokenizer: Tokenizer | None, kept: Mapping[int, int]
) -> BranchesView:
    """All branches of a tree, in the order in which they were begun.

    Args:
        tree: the branches.
        tokenizer: of the model in hand; None before there is one.
        kept: per branch, bytes of keys and values copied out of the cache.
    """
    if tokenizer is None or not any(branch.steps for branch in tree):
        return BranchesView()
    own = tree.own_bytes()
    rows: list[Row] = []
    details: list[str] = []
    marked = None
    for index, branch in enumerate(tree):
        active = branch.id == tree.active
        marked = index if active else marked
        rows.append(_row(branch, active, own[branch.id], kept.get(branch.id, 0)))
        details.append(_details(branch, tree, tokenizer))
    return BranchesView(
        Table(COLUMNS, tuple(rows), marked),
        tuple(branch.id for branch in tree),
        tuple(details),
        plural(len(tree), "branch", "branches"),
    )


def _row(branch: Branch, active: bool, own: int, kept: int) -> Row:
    total, count = log_likelihood(branch)
    likelihood = Cell("—", AGAIN, Tone.MUTED)
    if not branch.planned:
        mean = f", {format_value(total / count, 3)} a token" if count else ""
        likelihood = Cell(
            format_value(total), f"{total!r} nats over {plural(count, 'token')}{mean}"
        )
    changed = branch.reason or BEGINNING
    tone = Tone.PLAIN if branch.reason else Tone.MUTED
    name = branch.name
    if len(name) > NAME_LENGTH:
        name = name[: NAME_LENGTH - 1] + "…"
    return (
        Cell(f"▶ {name}" if active else name, branch.name, strong=active),
        Cell(f"{changed}; {AGAIN}" if branch.planned else changed, tone=tone),
        Cell(str(len(branch.steps))),
        likelihood,
        Cell(
            format_bytes(own + kept),
            f"{own:,} bytes of recorded arrays are its own; {kept:,} bytes of keys and values are "
            "kept beside the cache.",
        ),
    )


def _details(branch: Branch, tree: Tree, tokenizer: Tokenizer) -> str:
    """Its text, what it shares, and what is done to its engine."""
    text = tokenizer.decode(list(branch.token_ids))
    lines = [text if len(text) <= TEXT_LENGTH else "…" + text[-TEXT_LENGTH + 1 :]]
    if branch.limb.parent is not None:
        parent = tree[branch.limb.parent].name
        position = branch.limb.position
        lines.append(f"Shares what lies before position {position} with {parent}.")
        if STALE in branch.run.faults and position > 0:
            lines.append(
                f"The fault “{STALE}” is on: the cached row of position {position - 1} is what the "
                "last pass that overwrote it left, in whichever branch."
            )
    if branch.edits:
        lines.append(f"Its engine is edited: {describe(branch.edits)}.")
    if branch.planned:
        lines.append("It was freed, or faults or the context changed: entering it runs it again.")
    return "\n".join(lines)
