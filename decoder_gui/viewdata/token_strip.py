"""What the token strip shows: tokens, where the cursor stands, and whether the run is sound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import is_

from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_exact, format_log_probability
from model.ablation import describe
from model.checks import CheckResult
from model.tokenizers import Piece
from model.trace import Phase, Step

# What a chip stands for. Checks that are in no chip of their own show only when they fall short.
CAUSAL = "causal"
CACHE = "cache = full pass"
CHIPS: dict[str, tuple[str, ...]] = {
    CAUSAL: ("causal-weights", "causal-behaviour"),
    CACHE: ("cache-equals-full",),
}
MOST_SURPRISE = 8.0  # nats from which the colour behind a number is full
WHITE_SPACE = frozenset("␣⏎⇥")


@dataclass(frozen=True)
class TokenCell:
    """One token of the run.

    Attributes:
        step: the step that processed it.
        text: as shown: white space visible, partial characters as hex.
        log_probability: nats, given all tokens before it; None where it was not computed.
        shown_log_probability: the same as written, an empty string for None.
        by_hand: taken by hand, not by the draw.
    """

    position: int
    step: int
    phase: Phase
    token_id: int
    text: str
    partial: bool
    log_probability: float | None
    shown_log_probability: str
    by_hand: bool

    @property
    def surprise(self) -> float:
        """How surprising it was, from 0 (certain) to 1 (8 nats or more, a probability of 3e-4)."""
        if self.log_probability is None or math.isnan(self.log_probability):
            return 0.0
        return min(1.0, max(0.0, -self.log_probability / MOST_SURPRISE))

    def whole(self, *, computed: bool = True) -> str:
        """All that is known about it, in words; without its probability until that is computed."""
        lines = [f"“{self.text}” at position {self.position}, {self.phase.value}, step {self.step}"]
        lines.append(f"token id {self.token_id}")
        if self.partial:
            lines.append("part of a character, its bytes as hex")
        if self.by_hand:
            lines.append("taken by hand")
        if computed and self.log_probability is not None:
            exact = format_exact(self.log_probability, 6)
            lines.append(f"log-probability {exact} nats given the tokens before it")
        return "\n".join(lines)


class ChipState(StrEnum):
    """How a status chip looks."""

    PLAIN = "plain"
    WAITING = "waiting"
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True)
class StatusChip:
    """One rounded word beside the strip."""

    name: str  # what a click on it tells
    text: str
    state: ChipState
    detail: str  # in a sentence or more, for the tooltip and a screen reader


@dataclass(frozen=True)
class TokenStripView:
    """The strip at one moment.

    Attributes:
        cells: one for each position of the whole recording.
        existing: positions below it are processed, or being processed, at the cursor.
        in_hand: the position that is outlined; None before anything is computed.
        step_positions: all positions of the step in hand, first and one past the last.
        numbers_to: positions below it have their log-probability at the cursor, if it is known.
        pending: the position that the next token will have; None where there is none.
        made_of: what the cells were made of; as long as it is the same, so are they.
    """

    cells: tuple[TokenCell, ...] = ()
    existing: int = 0
    in_hand: int | None = None
    step_positions: tuple[int, int] = (0, 0)
    numbers_to: int = 0
    pending: int | None = None
    made_of: tuple[object, ...] = field(default=(), compare=False, repr=False)

    def shown_log_probability(self, position: int) -> str:
        """What stands under a token at the cursor: empty while it is not computed."""
        return self.cells[position].shown_log_probability if position < self.numbers_to else ""


EMPTY = TokenStripView()


def build_token_strip(moment: Moment, before: TokenStripView = EMPTY) -> TokenStripView:
    """The strip of a moment; cells of ``before`` that did not change are used again."""
    step, trace, cursor = moment.step, moment.trace, moment.cursor
    made_of = (moment.pieces, moment.token_log_probabilities, trace.steps, moment.choices)
    cells = before.cells if made_of == before.made_of else _cells(moment, before.cells)
    if step is None or cursor is None:
        return TokenStripView(cells=cells, made_of=made_of)
    query = moment.selection.query
    in_hand = query if query is not None and step.first <= query < step.last else step.last - 1
    # A decoded token has its log-probability from the step before; those of a prompt come out
    # of its own pass, with the logits.
    computed = step.phase is Phase.DECODE or moment.exists(step.index, "logits")
    return TokenStripView(
        cells=cells,
        existing=step.last,
        in_hand=in_hand,
        step_positions=(step.first, step.last),
        numbers_to=step.last if computed else step.first,
        pending=trace.positions if trace.positions < moment.capacity else None,
        made_of=made_of,
    )


def _cells(moment: Moment, before: tuple[TokenCell, ...]) -> tuple[TokenCell, ...]:
    """The cells; ``before`` itself where nothing changed, which spares a new arrangement."""
    cells: list[TokenCell] = []
    numbers = moment.token_log_probabilities
    for step in moment.trace.steps:
        by_hand = 0 < step.index <= len(moment.choices) and moment.choices[step.index - 1].by_hand
        for position in range(step.first, min(step.last, len(moment.pieces))):
            piece = moment.pieces[position]
            number = numbers[position] if position < len(numbers) else None
            old = before[position] if position < len(before) else None
            if old is not None and _same(old, piece, number, step.index, by_hand):
                cells.append(old)
                continue
            shown = "" if number is None else format_log_probability(number)
            cells.append(
                TokenCell(
                    position=position,
                    step=step.index,
                    phase=step.phase,
                    token_id=piece.token_id,
                    text=piece.shown,
                    partial=piece.partial,
                    log_probability=number,
                    shown_log_probability=shown,
                    by_hand=by_hand,
                )
            )
    same = len(cells) == len(before) and all(map(is_, cells, before))
    return before if same else tuple(cells)


def _same(old: TokenCell, piece: Piece, number: float | None, step: int, by_hand: bool) -> bool:
    return (
        old.token_id == piece.token_id
        and old.text == piece.text
        and old.log_probability == number
        and old.step == step
        and old.by_hand == by_hand
    )


def build_status(
    moment: Moment | None, checks: Sequence[CheckResult], *, pending: bool
) -> tuple[StatusChip, ...]:
    """The chips beside the strip: phase, the checks that matter most, and whatever falls short.

    A verdict that has arrived is shown though others are pending.
    """
    if moment is None or moment.step is None:
        return ()
    chips = [_phase_chip(moment.step)]
    if moment.faults:
        words = f"Fault on: {', '.join(sorted(moment.faults))}"
        why = "A deliberate fault is switched on: the numbers are wrong on purpose."
        chips.append(StatusChip("faults", words, ChipState.BAD, why))
    if moment.edits:
        why = f"The engine of this branch is edited: {describe(moment.edits)}. Checks are of it."
        chips.append(StatusChip("edits", "Edited", ChipState.PLAIN, why))
    named = {result.name: result for result in checks}
    for chip, names in CHIPS.items():
        chips.append(_check_chip(chip, [named.get(name) for name in names], pending))
    grouped = {name for names in CHIPS.values() for name in names}
    chips += [
        StatusChip(result.name, f"✗ {result.name}", ChipState.BAD, result.detail)
        for result in checks
        if not result.holds and result.name not in grouped
    ]
    return tuple(chips)


def _phase_chip(step: Step) -> StatusChip:
    if step.phase is Phase.PREFILL:
        return StatusChip(
            "phase",
            "Prefill",
            ChipState.PLAIN,
            f"Step {step.index}: {len(step.token_ids)} positions in one pass.",
        )
    return StatusChip(
        "phase",
        f"Decode · step {step.index}",
        ChipState.PLAIN,
        f"Step {step.index}: one token, at position {step.first}.",
    )


def _check_chip(name: str, results: Sequence[CheckResult | None], pending: bool) -> StatusChip:
    arrived = [result for result in results if result is not None]
    if arrived and not any(result.examined for result in arrived):
        return StatusChip(name, f"{name}: not examined", ChipState.PLAIN, arrived[0].detail)
    failing = [result for result in arrived if not result.holds]
    details = "\n".join(f"{result.name}: {result.detail}" for result in failing or arrived)
    if failing:
        return StatusChip(name, f"✗ {name}", ChipState.BAD, details)
    if len(arrived) == len(results):
        return StatusChip(name, f"✓ {name}", ChipState.GOOD, details)
    if pending:
        return StatusChip(name, f"{name}: checking…", ChipState.WAITING, "The check is running.")
    why = "Checking this model takes a while, so it waits until you ask: click to check now."
    return StatusChip(name, f"{name}: not checked", ChipState.WAITING, why)
