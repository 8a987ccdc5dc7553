"""The logit lens over a whole recorded run: every block's residual at every position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoder_gui.debugger.laboratory.lens import (
    NO_TARGET,
    SLICE_BYTES,
    TOP,
    Doubles,
    Ids,
    LensRows,
    NoReadout,
    normer,
    summarize,
    unembedder,
)
from model.engine import Array
from model.trace import Trace

Read = Callable[[Array], Array]


@dataclass(frozen=True)
class LensTable:
    """What the residual stream says at each depth and position.

    A run of ``depth`` blocks has depth + 1 rows: row n < depth reads the input of block n, the last
    one the output of the last block, which is what the model itself says.

    Attributes:
        first: position of the first column.
        ids, probabilities: of the most likely tokens, (layers, positions, top).
        target_ids: the token that did come next, or would; -1 where there is none, (positions,).
        target_probabilities, target_ranks, entropy, finite: (layers, positions), as
            :class:`LensRows` has them.
    """

    first: int
    ids: Ids
    probabilities: Doubles
    target_ids: Ids
    target_probabilities: Doubles
    target_ranks: Ids
    entropy: Doubles
    finite: NDArray[np.bool_]

    @property
    def layers(self) -> int:
        return len(self.ids)

    @property
    def positions(self) -> int:
        """Number of columns."""
        return len(self.target_ids)

    @property
    def last(self) -> int:
        """One past the last position."""
        return self.first + self.positions

    def upto(self, position: int) -> LensTable:
        """The columns before a position."""
        kept = max(0, position - self.first)
        cut: dict[str, Any] = {
            field.name: getattr(self, field.name)[:, :kept]
            for field in fields(self)
            if field.name not in ("first", "target_ids")
        }
        return replace(self, target_ids=self.target_ids[:kept], **cut)

    def joined(self, more: LensTable) -> LensTable:
        """With the columns that follow.

        Raises:
            ValueError: they do not begin where these end.
        """
        if more.first != self.last:
            raise ValueError(f"position {more.first} does not follow {self.last} columns")
        both: dict[str, Any] = {
            field.name: np.concatenate(
                (getattr(self, field.name), getattr(more, field.name)),
                axis=0 if field.name == "target_ids" else 1,
            )
            for field in fields(self)
            if field.name != "first"
        }
        return replace(self, **both)


def lens_columns(
    trace: Trace, weights: object, *, first: int = 0, target: int = NO_TARGET, top: int = TOP
) -> Iterator[LensTable]:
    """The columns from a position on, a few at a time, in order.

    The token of interest at a position is the next one of the text; at the last one it is
    ``target``. Residuals at each block's input are always recorded, and so is the final norm: with
    the last block left out for the byte budget its row is read from there.

    Raises:
        NoReadout: ``weights`` has nothing to read with.
    """
    normed, unembed = normer(weights), unembedder(weights)
    shape, ids = trace.shape, trace.token_ids
    targets = np.array((*ids[1:], target), dtype=np.int64)[: len(ids)]
    width = max(1, SLICE_BYTES // (shape.vocabulary * 4 * (shape.depth + 1)))
    for step in trace.steps:
        if not trace.complete(step.index):
            return
        if step.last <= first:
            continue
        stream = tuple(_stream(trace, step.index, normed))
        for start in range(max(first, step.first), step.last, width):
            end = min(start + width, step.last)
            wanted = targets[start:end]
            part = slice(start - step.first, end - step.first)
            with np.errstate(all="ignore"):
                vectors = [
                    residual[part] if norm is None else norm(residual[part])
                    for residual, norm in stream
                ]
                # One product for all layers: a narrow one would be slower for each number.
                logits = unembed(np.concatenate(vectors))
            said = summarize(logits, np.tile(wanted, shape.depth + 1), top=top)
            yield _column_wise(said, start, wanted)


def _stream(trace: Trace, step: int, normed: Read) -> Iterator[tuple[Array, Read | None]]:
    """The residual stream of each row, (pos, d_model), and how it is normed, if it is not yet."""
    depth = trace.shape.depth
    for layer in range(depth + 1):
        name = f"blocks.{layer}.resid_pre" if layer < depth else f"blocks.{depth - 1}.resid_post"
        found = trace.array(step, name)
        final = trace.array(step, "ln_final")
        if found is not None:
            yield found[0], normed
        elif layer == depth and final is not None:
            yield final[0], None
        else:
            raise NoReadout(f"{name} of step {step} is not recorded")


def _column_wise(said: LensRows, first: int, targets: Ids) -> LensTable:
    """Rows of all layers below one another, as layers by positions."""

    def split(array: NDArray[Any]) -> NDArray[Any]:
        return array.reshape(-1, len(targets), *array.shape[1:])

    return LensTable(
        first=first,
        ids=split(said.ids),
        probabilities=split(said.probabilities),
        target_ids=targets,
        target_probabilities=split(said.target_probabilities),
        target_ranks=split(said.target_ranks),
        entropy=split(said.entropy),
        finite=split(said.finite),
    )
