"""The attention panel's data: one head as a matrix, all heads as thumbnails, leaks, the readout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from decoder_gui.viewdata.attention_codes import Codes, encode
from decoder_gui.viewdata.attention_leaks import (
    CheckLine,
    Leak,
    TokenLabel,
    causal_line,
    leak_cells,
    name_leaks,
    token_labels,
)
from decoder_gui.viewdata.attention_store import PatternStore
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_value
from model.engine import Array
from model.trace import Phase, Step


class CellState(Enum):
    """What there is to show of a query and a key."""

    WEIGHT = "weight"
    LEAK = "leak"  # a weight on a later key
    NOT_FINITE = "not finite"
    MASKED = "masked"  # a later key, or one before the window, and no weight on it
    NOT_YET = "not computed yet"
    NOT_KEPT = "not kept"


class Emphasis(Enum):
    """How a part of a readout is set."""

    PLAIN = "plain"
    TOKEN = "token"
    POSITION = "position"
    NUMBER = "number"


@dataclass(frozen=True)
class Readout:
    """One cell and its row, in words and numbers.

    Attributes:
        weight: the cell's weight, None where there is none.
        entropy: of the row, nats; None where the row does not exist. NaN if a weight is.
        row_sum: of the row; None where the row does not exist.
        headline: ``sat 12 attends to cat 7 0.347`` in parts.
        details: ``entropy 1.62 nats · row sum 1.000000``, empty where the row does not exist.
    """

    query: int
    key: int
    state: CellState
    weight: float | None
    entropy: float | None
    row_sum: float | None
    headline: tuple[tuple[str, Emphasis], ...]
    details: str

    @property
    def headline_text(self) -> str:
        """The headline as plain text."""
        return " ".join(part for part, _ in self.headline)

    @property
    def text(self) -> str:
        """All of it as plain text."""
        return " · ".join(part for part in (self.headline_text, self.details) if part)


@dataclass(frozen=True, eq=False)
class AttentionView:
    """What the panel shows of one layer and head at a moment.

    Attributes:
        positions: number of rows and columns: up to the end of the step in hand.
        window: keys that a query of this layer sees, its own included; 0 is all earlier ones.
        weights: (positions, positions) float32, row = query, column = key; 0 where there is none.
        rows: per query its weights exactly as recorded, (keys,), or None.
        rows_computed: rows from there on do not exist yet at the cursor; None before it means
            computed but not kept.
        codes: (positions, positions) uint8 colours, see
            :mod:`decoder_gui.viewdata.attention_codes`.
        newest: first row of the step in hand.
        first_decode: first row that was decoded, None while there are only prefill rows.
        not_kept: steps of this layer to recompute, the one to start with in front.
        leak_cells: (n, 2) query and key of this head's leaks, row by row.
        leak_count: leaks over all heads.
        leaks: the heaviest leaks in words, those of this head first.
        leaking, broken: (layers, heads) heads with a leak, or with NaN or infinity.
        mosaic: (layers, side, heads, side) uint8 colours, ``factor`` positions a cell.
        unfinished: layers whose thumbnails lack patterns that exist at the cursor.
        selected: the cell in hand; None while there are no positions.
    """

    layer: int
    head: int
    layers: int
    heads: int
    positions: int
    window: int
    labels: tuple[TokenLabel, ...]
    weights: NDArray[np.float32]
    rows: tuple[Array | None, ...]
    rows_computed: int
    codes: Codes
    newest: int
    first_decode: int | None
    not_kept: tuple[int, ...]
    leak_cells: NDArray[np.int64]
    leak_count: int
    leaks: tuple[Leak, ...]
    causal: CheckLine
    leaking: NDArray[np.bool_]
    broken: NDArray[np.bool_]
    mosaic: Codes
    unfinished: frozenset[int]
    factor: int
    selected: tuple[int, int] | None

    @property
    def title(self) -> str:
        return f"Attention · block {self.layer} · head {self.head}"

    @property
    def ready(self) -> int:
        """Number of thumbnails that show all there is at the cursor."""
        return (self.layers - len(self.unfinished)) * self.heads

    def state(self, query: int, key: int) -> CellState:
        """What there is to show of a cell."""
        row = self.rows[query]
        if row is None:
            return CellState.NOT_KEPT if query < self.rows_computed else CellState.NOT_YET
        if key >= len(row):
            return CellState.MASKED
        if not np.isfinite(row[key]):
            return CellState.NOT_FINITE
        if self.window and key <= query - self.window and not self.codes[query, key]:
            return CellState.MASKED
        if key <= query:
            return CellState.WEIGHT
        return CellState.LEAK if self.codes[query, key] else CellState.MASKED

    def readout(self, query: int, key: int) -> Readout:
        """Cell (query, key) in words, with its row's entropy and sum."""
        state = self.state(query, key)
        row = self.rows[query]
        weight = entropy = total = None
        details = ""
        if row is not None:
            exact = row.astype(np.float64)
            total, entropy = float(exact.sum()), entropy_nats(exact)
            details = f"entropy {format_value(entropy, 2)} nats · row sum {format_value(total, 6)}"
            if state in (CellState.WEIGHT, CellState.LEAK, CellState.NOT_FINITE):
                weight = float(exact[key])
        return Readout(
            query=query,
            key=key,
            state=state,
            weight=weight,
            entropy=entropy,
            row_sum=total,
            headline=self._headline(query, key, state, weight),
            details=details,
        )

    def _headline(
        self, query: int, key: int, state: CellState, weight: float | None
    ) -> tuple[tuple[str, Emphasis], ...]:
        subject = self._token(query)
        if weight is not None:
            words = "attends to the later" if state is CellState.LEAK else "attends to"
            number = (format_value(weight), Emphasis.NUMBER)
            return *subject, (words, Emphasis.PLAIN), *self._token(key), number
        if state is CellState.MASKED:
            words = "does not see the later" if key > query else "no longer sees"
            return *subject, (words, Emphasis.PLAIN), *self._token(key)
        missing = "not kept" if state is CellState.NOT_KEPT else "not computed yet"
        return *subject, (f"weights in block {self.layer} {missing}", Emphasis.PLAIN)

    def _token(self, position: int) -> tuple[tuple[str, Emphasis], ...]:
        text = self.labels[position].text
        # A lone full stop before a position would read as a decimal point.
        shown = text if any(character.isalnum() for character in text) else f"“{text}”"
        return (shown, Emphasis.TOKEN), (str(position), Emphasis.POSITION)


def entropy_nats(weights: NDArray[np.float64]) -> float:
    """Entropy of a row of weights in nats; a weight of 0 adds nothing, NaN makes it NaN."""
    positive = weights[weights != 0]
    if not np.isfinite(positive).all() or (positive < 0).any():
        return float("nan")
    # 0 - sum, so that a row of a single 1 gives 0.00 and not -0.00.
    return float(0.0 - np.sum(positive * np.log(positive)))


def layer_in_hand(moment: Moment) -> int:
    """The block of the operation in hand; the first before all blocks, the last after them."""
    if moment.cursor is None or moment.operation is None:
        return 0
    if moment.operation.layer is not None:
        return moment.operation.layer
    operations = moment.trace.operations[: moment.cursor.operation]
    begun = any(operation.layer is not None for operation in operations)
    return moment.trace.shape.depth - 1 if begun else 0


def build_attention(
    moment: Moment,
    store: PatternStore | None = None,
    *,
    layer: int | None = None,
    limit: int | None = None,
    first: Sequence[int] = (),
) -> AttentionView:
    """The view of a layer (that of the operation in hand if None) and the selected head.

    As long as nothing of it changes, the next call returns the very same view.

    Args:
        store: the memory that makes the next call cheap; without one all is done from scratch.
        limit: attention weights to look at in this call, at most about as many; the thumbnails of
            the others stay unfinished. All of them if None.
        first: layers whose thumbnails are done before the others.
    """
    store = PatternStore() if store is None else store
    store.follow(moment)
    shape = moment.trace.shape
    layer = layer_in_hand(moment) if layer is None else min(layer, shape.depth - 1)
    head = min(moment.selection.head, shape.num_heads - 1)
    step = moment.step
    positions = 0 if step is None else step.last
    existing = tuple(store.rows_computed(moment, at) for at in range(shape.depth))
    selection = (moment.selection.query, moment.selection.key)
    store.look_at(layer)
    store.take_in(moment, limit, first)
    key = (layer, head, step, existing, selection, store.version)
    latest = store.latest if isinstance(store.latest, AttentionView) else None
    if latest is not None and not latest.not_kept and store.latest_key == key:
        return latest
    matrix = _compose(moment, store, layer, head, positions)
    store.take_in(moment, limit, first)  # a replay may have come to light
    mosaic, factor = store.mosaic(moment)
    labels = token_labels(moment, positions, latest.labels if latest else ())
    decoded = (label.position for label in labels if label.phase is Phase.DECODE)
    found = list(store.leaks(moment))
    leaking = np.zeros((shape.depth, shape.num_heads), np.bool_)
    for at, leaks in found:
        leaking[at, leaks.head] = True
    broken = store.not_finite(moment)
    view = AttentionView(
        layer=layer,
        head=head,
        layers=shape.depth,
        heads=shape.num_heads,
        positions=positions,
        window=shape.window(layer),
        labels=labels,
        weights=matrix.weights,
        rows=matrix.rows,
        rows_computed=existing[layer],
        codes=matrix.codes,
        newest=0 if step is None else step.first,
        first_decode=next(decoded, None),
        not_kept=matrix.not_kept,
        leak_cells=matrix.leak_cells,
        leak_count=sum(leaks.count for _, leaks in found),
        leaks=name_leaks(found, layer, head, labels),
        causal=causal_line(moment, store, found, layer, head, int(broken.sum())),
        leaking=leaking,
        broken=broken > 0,
        mosaic=mosaic,
        unfinished=store.unfinished(moment),
        factor=factor,
        selected=_selected(moment, matrix.rows, positions),
    )
    store.remember((*key[:-1], store.version), view)
    return view


@dataclass(frozen=True, eq=False)
class _Matrix:
    """One head at a cursor, see :class:`AttentionView`; ``key`` says of what it was made."""

    key: tuple[object, ...]
    rows: tuple[Array | None, ...]
    weights: NDArray[np.float32]
    codes: Codes
    leak_cells: NDArray[np.int64]
    not_kept: tuple[int, ...]


def _compose(moment: Moment, store: PatternStore, layer: int, head: int, positions: int) -> _Matrix:
    name = store.names[layer]
    not_kept: list[int] = []
    patterns: list[tuple[Step, Array]] = []
    for step in moment.trace.steps:
        if step.first >= positions:
            break
        pattern = store.pattern(moment, step.index, layer)
        if pattern is not None:
            patterns.append((step, pattern))
        elif moment.exists(step.index, name):
            not_kept.append(step.index)
    key = (layer, head, moment.step, len(patterns), *not_kept)
    if isinstance(store.composed, _Matrix) and store.composed.key == key:
        return store.composed
    rows: list[Array | None] = [None] * positions
    weights = np.zeros((positions, positions), np.float32)
    for step, pattern in patterns:
        square = pattern[head]
        weights[step.first : step.last, : square.shape[1]] = square
        rows[step.first : step.last] = list(square)
    weights.flags.writeable = False
    codes = _blank(encode(weights, window=moment.trace.shape.window(layer)), rows)
    # The newest row is what is looked at, then the prompt, then the rest backwards.
    order = sorted(not_kept, key=lambda index: (index not in (not_kept[-1], 0), -index))
    matrix = _Matrix(key, tuple(rows), weights, codes, leak_cells(codes), tuple(order))
    store.composed = matrix
    return matrix


def _blank(codes: Codes, rows: list[Array | None]) -> Codes:
    for query, row in enumerate(rows):
        if row is None:
            codes[query] = 0
    codes.flags.writeable = False
    return codes


def _selected(
    moment: Moment, rows: tuple[Array | None, ...], positions: int
) -> tuple[int, int] | None:
    """The cell in hand: by default the newest query, and the key with its largest weight."""
    if not positions:
        return None
    query = moment.selection.query
    query = positions - 1 if query is None else min(query, positions - 1)
    key = moment.selection.key
    if key is not None:
        return query, min(key, positions - 1)
    row = rows[query]
    if row is None or not np.isfinite(row).all():
        return query, query
    return query, int(np.argmax(row))
