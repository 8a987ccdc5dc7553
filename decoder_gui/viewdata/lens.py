"""The logit lens as a table on screen: blocks by positions, and one position by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoder_gui.debugger.laboratory.lens import NO_TARGET, Doubles
from decoder_gui.debugger.laboratory.lens_table import LensTable
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_count, format_percent
from decoder_gui.viewdata.operands import Cell
from decoder_gui.viewdata.plots import Axis, Mark, Plot, Series
from decoder_gui.viewdata.provenance import original, place_of
from decoder_gui.viewdata.tables import Cell as TableCell
from decoder_gui.viewdata.tables import Column, Table, Tone
from model.tokenizers import Piece, Tokenizer


@dataclass(frozen=True)
class LensCell:
    """One residual: the token it would say and how sure, and the token that came next.

    Attributes:
        share: probability of the token said, NaN where the logits are not finite.
        hit: whether the token said is the one that came next, or would.
        tip: the most likely tokens with their probabilities, and the rank of the next one.
    """

    text: str
    number: str
    share: float
    hit: bool
    tip: str


@dataclass(frozen=True)
class LensView:
    """What the panel shows; cells are made when they come into sight.

    Row n reads the input of block n, the last row what the model itself says; columns are the
    positions that the cursor has reached.

    Attributes:
        first: position at which the step in hand begins.
        reached: how many rows exist there at the cursor.
    """

    table: LensTable
    tokenizer: Tokenizer
    pieces: Sequence[Piece]
    columns: int
    first: int
    reached: int

    @property
    def rows(self) -> int:
        return self.table.layers

    def exists(self, row: int, column: int) -> bool:
        """Whether a residual has been computed at the cursor."""
        return column < self.first or row < self.reached

    def alike(self, other: LensView | None) -> bool:
        """Whether another view differs in no more than how far the step in hand has come."""
        return other is not None and (
            self.table is other.table
            and self.tokenizer is other.tokenizer
            and self.pieces is other.pieces
            and (self.columns, self.first) == (other.columns, other.first)
        )

    def row_label(self, row: int) -> str:
        """``embedding``, ``after block 2``, ``output``."""
        if row == 0:
            return "embedding"
        return "output" if row == self.rows - 1 else f"after block {row - 1}"

    def row_tip(self, row: int) -> str:
        """What a row reads, in a sentence."""
        if row == 0:
            return "What enters block 0, read by the final norm and the unembedding."
        if row == self.rows - 1:
            return f"What leaves block {row - 1}, the last: the model's own prediction."
        return f"What leaves block {row - 1}, read by the final norm and the unembedding."

    def column_label(self, column: int) -> str:
        """The token at a position."""
        return self.pieces[column].text

    def cell(self, row: int, column: int) -> LensCell:
        """One cell with its words."""
        table = self.table
        if not self.exists(row, column):
            return LensCell("", "", float("nan"), hit=False, tip="Not computed yet at the cursor.")
        if not table.finite[row, column]:
            tip = "The logits are not finite: nothing can be said."
            return LensCell("NaN", "", float("nan"), hit=False, tip=tip)
        ids, shares = table.ids[row, column], table.probabilities[row, column]
        target = int(table.target_ids[column])
        said = int(ids[0])
        lines = [f"{self.row_label(row)}, position {column} {self.column_label(column)}"]
        lines += [
            f"{self._piece(int(token))}  {format_percent(float(share))}"
            for token, share in zip(ids, shares, strict=True)
        ]
        if target != NO_TARGET:
            lines.append(self.target_words(row, column))
        return LensCell(
            text=self._piece(said),
            number=share_text(float(shares[0])),
            share=float(shares[0]),
            hit=said == target,
            tip="\n".join(lines),
        )

    def target_words(self, row: int, column: int) -> str:
        """``next ␣big: rank 3, 12.1%``."""
        rank = format_count(int(self.table.target_ranks[row, column]))
        share = format_percent(float(self.table.target_probabilities[row, column]))
        return f"{self.target_name(column)}: rank {rank}, {share}"

    def target_name(self, column: int) -> str:
        """``next ␣big``; ``would be ␣big`` where no token has been taken yet."""
        target = int(self.table.target_ids[column])
        word = "next" if column + 1 < len(self.pieces) else "would be"
        return f"{word} {self._piece(target)}"

    def target(self, column: int) -> str | None:
        """The token that came next, or would; None where nothing can be drawn."""
        target = int(self.table.target_ids[column])
        return None if target == NO_TARGET else self._piece(target)

    def _piece(self, token: int) -> str:
        return self.tokenizer.piece(token).text


def build_lens(moment: Moment, table: LensTable | None) -> LensView | None:
    """The table as far as the cursor has come, or None where there is none of it yet."""
    if table is None or moment.step is None or table.positions == 0:
        return None
    assert moment.cursor is not None
    reached = sum(
        place_of(moment.trace, residual_cell(moment, row, moment.step.first)) <= moment.cursor
        for row in range(table.layers)
    )
    return LensView(
        table=table,
        tokenizer=moment.model.tokenizer,
        pieces=moment.pieces,
        columns=min(moment.step.last, table.positions),
        first=moment.step.first,
        reached=reached,
    )


def residual_cell(moment: Moment, row: int, position: int) -> Cell:
    """The first number of the residual that a row reads at a position, where it was computed."""
    depth = moment.model.shape.depth
    name = f"blocks.{row}.resid_pre" if row < depth else f"blocks.{depth - 1}.resid_post"
    return original(moment.trace, Cell(name, position, None, 0))


def share_text(share: float) -> str:
    """A probability in a narrow cell: ``.43``, ``1`` and ``.00`` are as the attention panel's."""
    hundredths = round(100 * share)
    return "1.0" if hundredths >= 100 else f".{hundredths:02d}"


BY_BLOCK = (
    Column("read"),
    Column("says", code=True, stretch=True),
    Column("p", number=True, tip="Probability of the token said, at temperature 1"),
    Column("rank", number=True, tip="Rank of the next token: 1 is the most likely"),
    Column("its p", number=True, tip="Probability of the next token, at temperature 1"),
)


def by_block(view: LensView, column: int, marked: int) -> Table:
    """One position from block to block, as numbers."""
    table = view.table
    rows = []
    for row in range(view.rows):
        cell = view.cell(row, column)
        label = TableCell(view.row_label(row), view.row_tip(row))
        if not view.exists(row, column):
            yet = TableCell("", cell.tip, hatched=True)
            rows.append((label, yet, yet, yet, yet))
            continue
        words = f"✓ {cell.text}" if cell.hit else cell.text
        said = TableCell(words, cell.tip, Tone.GOOD if cell.hit else Tone.PLAIN)
        if view.target(column) is None or not table.finite[row, column]:
            rank = share = TableCell("–", "There is no next token to compare with", Tone.MUTED)
        else:
            rank = TableCell(format_count(int(table.target_ranks[row, column])))
            value = float(table.target_probabilities[row, column])
            share = TableCell(format_percent(value), share=value)
        number = TableCell(format_percent(cell.share), share=cell.share)
        rows.append((label, said, number, rank, share))
    return Table(BY_BLOCK, tuple(rows), marked)


def rank_plot(view: LensView, column: int) -> Plot:
    """Rank of the next token by block, with a logarithmic axis: 1 is the most likely."""
    ranks = view.table.target_ranks[:, column].astype(np.float64)
    there = np.array([view.exists(row, column) for row in range(view.rows)])
    usable = view.table.finite[:, column] & (ranks > 0) & there
    ranks = np.where(usable, ranks, np.nan)
    name = view.target_name(column) if view.target(column) is not None else ""
    places = tuple((float(row), _short_label(view, row)) for row in range(view.rows))
    return Plot(
        x=Axis("after block", ticks=_thinned(places)),
        # 1, the best there is, is always in sight.
        y=Axis("rank", logarithmic=True, range=(1.0, max(2.0, float(np.nanmax(ranks, initial=2))))),
        series=(
            Series(
                f"rank of {name}",
                np.arange(view.rows, dtype=np.float64),
                ranks,
                mark=Mark.LINE_AND_POINTS,
            ),
        )
        if name
        else (),
        description=_rank_words(view, ranks, name),
    )


def _rank_words(view: LensView, ranks: Doubles, name: str) -> str:
    """``Rank of next ␣big: embedding 812, after block 0 40, output 1.``"""
    said = [f"{view.row_label(row)} {int(rank):,}" for row, rank in enumerate(ranks) if rank > 0]
    return f"Rank of {name}: {', '.join(said)}." if name and said else "No next token to rank."


def _short_label(view: LensView, row: int) -> str:
    if row == 0:
        return "emb."
    return str(row - 1)


def _thinned(places: tuple[tuple[float, str], ...]) -> tuple[tuple[float, str], ...]:
    """At most a dozen of them, the first and the last among these."""
    every = max(1, -(-len(places) // 12))
    return tuple(p for at, p in enumerate(places) if at % every == 0 or at == len(places) - 1)
