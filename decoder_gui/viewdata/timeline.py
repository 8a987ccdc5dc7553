"""What the timeline shows: one block for each step, and where the cursor and breakpoints are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.viewdata.branch_lines import BranchLine
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_positions, plural
from model.operations import Operation
from model.trace import Phase


@dataclass(frozen=True)
class Block:
    """One step: the prefill of the prompt, or the decoding of one token."""

    step: int
    phase: Phase
    first: int  # first position processed
    last: int  # one past the last
    events: int  # operations recorded so far
    label: str  # "prefill · 8 tokens in one pass", or the token
    summary: str  # the whole of it in words


@dataclass(frozen=True)
class TimelineView:
    """The timeline at one moment.

    Attributes:
        blocks: one for each step recorded, in order.
        operations: operations of a complete step; places inside a block are fractions of it.
        cursor: the event in hand.
        breakpoints: events at which Run stops, in order; only those that are recorded.
        can_decode: whether one more token can be decoded at the end.
        end_text: what the place at the end says: ``+ decode`` or why there is nothing more.
        end_reason: the same in a sentence, empty where decoding can go on.
        names: the operations' labels with their block, e.g. ``Softmax, block 2``.
        lines: the branches that are not in hand.
        branch: the name of the one in hand, empty where it is the only one.
    """

    blocks: tuple[Block, ...] = ()
    operations: int = 0
    cursor: Cursor | None = None
    breakpoints: tuple[Cursor, ...] = ()
    can_decode: bool = False
    end_text: str = ""
    end_reason: str = ""
    names: tuple[str, ...] = ()
    lines: tuple[BranchLine, ...] = ()
    branch: str = ""

    def fraction(self, cursor: Cursor) -> float:
        """How much of a step is done once an event is computed, in (0, 1]."""
        return (cursor.operation + 1) / self.operations

    def event_at(self, step: int, fraction: float) -> Cursor:
        """The recorded event that lies at a fraction of a step."""
        nearest = round(fraction * self.operations) - 1
        return Cursor(step, max(0, min(self.blocks[step].events - 1, nearest)))

    def describe(self, cursor: Cursor) -> str:
        """An event in words: ``sat · Softmax, block 2 · operation 28 of 45``."""
        block = self.blocks[cursor.step]
        label = "prefill" if block.phase is Phase.PREFILL else block.label
        number = f"operation {cursor.operation + 1} of {self.operations}"
        return f"{label} · {self.names[cursor.operation]} · {number}"


EMPTY = TimelineView()


def operation_name(operation: Operation) -> str:
    """An operation's label with the block that it belongs to."""
    where = "" if operation.layer is None else f", block {operation.layer}"
    return operation.label + where


def build_timeline(
    moment: Moment,
    breakpoints: Iterable[Cursor] = (),
    exhausted: str = "",
    lines: tuple[BranchLine, ...] = (),
    branch: str = "",
) -> TimelineView:
    """The timeline of a moment, beside the branches that are not in hand.

    ``breakpoints`` that lie on events not recorded are left out. ``exhausted`` says in words that
    the cache is full or that this is a recording, and is empty otherwise.
    """
    trace = moment.trace
    blocks = tuple(_block(moment, index) for index in range(len(trace.steps)))
    held = (
        where
        for where in breakpoints
        if where.step < len(blocks) and where.operation < blocks[where.step].events
    )
    return TimelineView(
        blocks=blocks,
        operations=len(trace.operations),
        cursor=moment.cursor,
        breakpoints=tuple(sorted(held)),
        can_decode=bool(blocks) and not exhausted,
        end_text=_end(moment, exhausted) if blocks else "",
        end_reason=exhausted,
        names=tuple(operation_name(operation) for operation in trace.operations),
        lines=lines,
        branch=branch,
    )


def _end(moment: Moment, exhausted: str) -> str:
    if moment.model.recorded is not None:
        return "end"
    return "cache full" if exhausted else "+ decode"


def _block(moment: Moment, index: int) -> Block:
    step = moment.trace.steps[index]
    count = len(step.token_ids)
    prefill = step.phase is Phase.PREFILL
    token = moment.pieces[step.first].text if step.first < len(moment.pieces) else "?"
    if prefill:
        label = f"prefill · {plural(count, 'token')} in one pass"
        summary = f"Step {index}: prefill of positions {format_positions(step.first, step.last)}"
    else:
        label = token
        summary = f"Step {index}: decode of “{token}” at position {step.first}"
        if 0 < index <= len(moment.choices) and moment.choices[index - 1].by_hand:
            summary += ", taken by hand"
    events = moment.trace.events_in(index)
    if events < len(moment.trace.operations):
        summary += f", {events} of {len(moment.trace.operations)} operations computed"
    return Block(index, step.phase, step.first, step.last, events, label, summary)
