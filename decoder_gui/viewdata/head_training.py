"""What the head-only training panel shows: loss, gradient, the update, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoder_gui.viewdata.kv_cache import Figure
from decoder_gui.viewdata.moment import SPELLED_OUT_WIDTH, Moment
from decoder_gui.viewdata.numbers import format_percent, format_value, plural
from decoder_gui.viewdata.plots import Axis, Mark, Plot, Series
from decoder_gui.viewdata.tables import Cell, Column, Table, Tone
from model.engine import Array
from model.head_training import HeadTraining

MOST_TICKS = 6  # whole steps named under the plot
LISTED = 24  # tokens of the table: the likeliest before and after, and the target

TOKENS = (
    Column("token", code=True, stretch=True, tip="◂ is the target"),
    Column("p before", number=True),
    Column("p after", number=True),
    Column("logit", number=True, tip="before any step"),
    Column("after", number=True, tip="the logit now"),
    Column("error", number=True, tip="gradient of the loss by the logit: probability minus target"),
)


@dataclass(frozen=True, eq=False)
class HeadTrainingView:
    """The state of a training.

    Attributes:
        token_ids: of the rows of the table.
        matrix: the gradient, and the copy of the unembedding, written out where the model is small
            enough; empty otherwise.
    """

    title: str
    figures: tuple[Figure, ...]
    table: Table
    token_ids: tuple[int, ...]
    plot: Plot
    matrix: Table


def build_head_training(
    moment: Moment, position: int, training: HeadTraining, unembedding: Array | None = None
) -> HeadTrainingView:
    """The view of a training at a position; the unembedding is (d_model, vocab)."""
    before, after = training.first_probabilities, training.probabilities
    ids = _listed(before, after, training.target_id)
    target = _piece(moment, training.target_id)
    first, now = (loss + 0.0 for loss in (training.losses[0], training.losses[-1]))  # no -0
    return HeadTrainingView(
        title=f"after {moment.pieces[position].text!r} at position {position}, target {target!r}",
        figures=(
            Figure("Loss before", f"{first:.6f} nats", "-log p of the target"),
            Figure("Loss now", f"{now:.6f} nats", f"after {plural(training.steps, 'step')}"),
            Figure(
                "p of the target",
                format_percent(float(after[training.target_id])),
                f"{format_percent(float(before[training.target_id]))} before",
            ),
            Figure(
                "Norm of the gradient",
                format_value(training.gradient_norm, 6),
                f"of all {training.hidden.size} × {after.size} weights",
            ),
        ),
        table=Table(
            TOKENS,
            tuple(_row(moment, training, before, after, token) for token in ids),
            marked=ids.index(training.target_id),
        ),
        token_ids=ids,
        plot=_plot(training),
        matrix=_matrix(moment, training, unembedding),
    )


def _listed(before: Array, after: Array, target: int) -> tuple[int, ...]:
    half = LISTED // 2
    ids = {*_likeliest(after, half), *_likeliest(before, half), target}
    return tuple(sorted(ids, key=lambda token: (-float(after[token]), token)))


def _likeliest(values: Array, count: int) -> list[int]:
    """Ids of the largest values, in no order: a large vocabulary is not sorted for a few."""
    if values.size <= count:
        return list(range(values.size))
    found: list[int] = np.argpartition(-values, count - 1)[:count].tolist()
    return found


def _row(
    moment: Moment, training: HeadTraining, before: Array, after: Array, token: int
) -> tuple[Cell, ...]:
    is_target = token == training.target_id
    rises = bool(after[token] > before[token])
    trained = training.steps > 0
    return (
        Cell(f"{_piece(moment, token)}{' ◂' if is_target else ''}", strong=is_target),
        Cell(format_percent(float(before[token]), 2)),
        Cell(
            format_percent(float(after[token]), 2),
            share=float(after[token]),
            tone=(Tone.GOOD if rises else Tone.PLAIN) if trained else Tone.MUTED,
        ),
        Cell(format_value(float(training.first_logits[token]))),
        Cell(
            format_value(float(training.logits[token])), tone=Tone.PLAIN if trained else Tone.MUTED
        ),
        Cell(format_value(float(training.errors[token]), 4)),
    )


def _plot(training: HeadTraining) -> Plot:
    y = np.asarray(training.losses, dtype=np.float64)
    x = np.arange(len(y), dtype=np.float64)
    last = max(5, training.steps)
    ticks = tuple((float(at), str(at)) for at in range(0, last + 1, -(-last // MOST_TICKS)))
    return Plot(
        Axis("steps", range=(0.0, float(last)), ticks=ticks),
        Axis("loss, nats", range=(0.0, max(1e-6, 1.1 * float(y.max())))),
        (Series("", x, y, mark=Mark.LINE_AND_POINTS),),
        description=f"Loss {y[0]:.6f} nats before, {y[-1]:.6f} after {training.steps} steps.",
    )


def _matrix(moment: Moment, training: HeadTraining, unembedding: Array | None) -> Table:
    width, vocabulary = training.hidden.size, training.first_logits.size
    if unembedding is None or width > SPELLED_OUT_WIDTH or vocabulary > SPELLED_OUT_WIDTH:
        return Table()
    names = [_piece(moment, token) for token in range(vocabulary)]
    columns = (Column("", code=True), *(Column(name, number=True) for name in names))
    own = np.asarray(unembedding, dtype=np.float64)
    return Table(
        columns,
        (
            *_rows("gradient", [training.gradient(t) for t in range(vocabulary)], width),
            *_rows("W before", [own[:, t] for t in range(vocabulary)], width),
            *_rows("W copy", [training.column(t, own[:, t]) for t in range(vocabulary)], width),
        ),
    )


def _rows(name: str, columns: Sequence[Array], width: int) -> list[tuple[Cell, ...]]:
    return [
        (
            Cell(f"{name} {row}", tone=Tone.MUTED),
            *(Cell(format_value(float(column[row]), 6)) for column in columns),
        )
        for row in range(width)
    ]


def _piece(moment: Moment, token_id: int) -> str:
    return moment.model.tokenizer.piece(token_id).shown
