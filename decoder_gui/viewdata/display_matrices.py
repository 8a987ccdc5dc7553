"""Readers of the two panels that show arrays: Attention and Values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoder_gui.viewdata.arithmetic import Cell
from decoder_gui.viewdata.attention import (
    AttentionView,
    CellState,
    Emphasis,
    build_attention,
)
from decoder_gui.viewdata.display_panels import ROWS_READ, bare, reads
from decoder_gui.viewdata.display_reading import Held, read_numbers, spread
from decoder_gui.viewdata.display_scene import LEAK, Doubles, Scene
from decoder_gui.viewdata.values import STAGES, Statistics, ValuesView, build_values
from model.engine import Array
from model.operations import Kind
from model.trace import Step

Patterns = list[tuple[int, Step, Array | None]]  # layer, step, (head, row, key)

CELLS_READ = 5  # cells of a row of values
WHOLE_READ = 1_000_000  # numbers of an array up to which all of it is summed as well
MOSAIC_READ = 2_000_000  # weights up to which all thumbnails are read at once


@reads("attention", Kind.PATTERN)
def read_attention(scene: Scene) -> None:
    """The block in hand, and another one as if it had been chosen."""
    depth = scene.record.trace.shape.depth
    layers: dict[int | None, int] = {None: scene.layer_in_hand()}
    if scene.ends_step:
        layers |= {scene.index % depth: scene.index % depth}
    for asked, layer in layers.items():
        view = build_attention(scene.moment, scene.record.store, layer=asked)
        _read_matrix(scene, view, layer)
        _read_leaks(scene, view, layer)


def _read_matrix(scene: Scene, view: AttentionView, layer: int) -> None:
    ledger, head = scene.ledger, scene.moment.selection.head
    count = scene.step.last
    ledger.line("the title", view.title, layer, head)
    ledger.same("the number of positions", view.positions, count)
    ledger.same("the window", view.window, scene.record.trace.shape.window(layer))
    ledger.same("the first row of this step", view.newest, scene.step.first)
    rows: list[Array | None] = [None] * count
    weights = np.zeros((count, count), np.float32)
    colours = np.full((count, count), -1.0)
    existing = 0
    for at, step, pattern in scene.patterns():
        if at != layer:
            continue
        existing = step.last
        if pattern is not None:
            square = pattern[head]
            rows[step.first : step.last] = list(square)
            weights[step.first : step.last, : square.shape[1]] = square
            coloured = _colours(scene, layer, square, step.first)
            colours[step.first : step.last, : square.shape[1]] = coloured
    ledger.same("the rows that exist", view.rows_computed, existing)
    ledger.array("weight", view.weights, weights)
    ledger.codes("colour", view.codes, colours)
    tokens = scene.record.trace.token_ids
    for query in _places(scene, count):
        what, row, shown = f"row {query}", rows[query], view.rows[query]
        ledger.same(f"whether {what} is there", shown is None, row is None)
        if row is not None and shown is not None:
            ledger.array(what, shown, row)
        label = bare(scene.record.model.tokenizer.piece(tokens[query]).text)
        ledger.same(f"the label of {what}", view.labels[query].text, label)
        for key in sorted({query // 2, query, min(query + 1, count - 1)}):
            _read_cell(scene, view, query, key, row, existing)
    newest = rows[count - 1] if scene.moment.selection.query is None else None
    if newest is not None and np.isfinite(newest).all():
        ledger.same("the cell in hand", view.selected, (count - 1, int(newest.argmax())))


def _places(scene: Scene, count: int) -> list[int]:
    """Some queries: the newest, the one before this step, and one that changes."""
    first = scene.step.first
    return sorted({max(0, first - 1), count - 1, (7 * scene.index) % count})


def _colours(scene: Scene, layer: int, square: Array, first: int) -> Doubles:
    """Weights of a pattern (..., row, key) as far as they are coloured, elsewhere -1."""
    rows, keys = square.shape[-2:]
    behind = np.arange(first, first + rows)[:, np.newaxis] - np.arange(keys)
    hidden = (behind < 0) | (behind >= (scene.record.trace.shape.window(layer) or np.inf))
    with np.errstate(invalid="ignore"):
        absent = ~np.isfinite(square) | (hidden & ~(square > LEAK))
    return np.where(absent, -1.0, square.astype(np.float64))


def _state(
    query: int, key: int, row: Array | None, existing: int, window: int
) -> tuple[CellState, float | None]:
    """What there is of a cell, and its weight if it is one; ``window`` 0 is none."""
    if row is None:
        return (CellState.NOT_KEPT if query < existing else CellState.NOT_YET), None
    if key >= len(row):
        return CellState.MASKED, None
    weight = float(row[key])
    if not math.isfinite(weight):
        return CellState.NOT_FINITE, weight
    if window and query - key >= window and not weight > LEAK:
        return CellState.MASKED, None
    if key <= query:
        return CellState.WEIGHT, weight
    return (CellState.LEAK, weight) if weight > LEAK else (CellState.MASKED, None)


def _read_cell(
    scene: Scene, view: AttentionView, query: int, key: int, row: Array | None, existing: int
) -> None:
    ledger, what = scene.ledger, f"query {query} and key {key}"
    readout = view.readout(query, key)
    state, weight = _state(query, key, row, existing, view.window)
    ledger.same(f"the state of {what}", readout.state, state)
    places = [part for part, kind in readout.headline if kind is Emphasis.POSITION]
    ledger.line(f"the positions of {what}", " ".join(places), *((query, key)[: len(places)]))
    numbers = [part for part, kind in readout.headline if kind is Emphasis.NUMBER]
    ledger.line(f"the weight of {what}", " ".join(numbers), *(() if weight is None else (weight,)))
    if row is None:
        ledger.line(f"the row of {what}", readout.details)
        return
    exact = row.astype(np.float64)
    with np.errstate(invalid="ignore"):
        sound = bool(np.isfinite(exact).all() and (exact >= 0).all())
        total = math.fsum(exact.tolist()) if sound else float(exact.sum())
    terms = exact[exact > 0] * np.log(exact[exact > 0]) if sound else np.full(1, np.nan)
    entropy = Held(abs(math.fsum(terms.tolist())), 1.0) if sound else Held(math.nan)
    ledger.line(f"entropy and sum of row {query}", readout.details, entropy, Held(total, 1.0))


def _read_leaks(scene: Scene, view: AttentionView, layer: int) -> None:
    ledger, shape = scene.ledger, scene.record.trace.shape
    head = scene.moment.selection.head
    patterns = scene.patterns()
    if any(pattern is None for *_, pattern in patterns):
        return  # what was not kept is not examined by the panel either, and it says so
    leaking = np.zeros((shape.depth, shape.num_heads), np.int64)
    broken = np.zeros_like(leaking)
    for at, step, pattern in patterns:
        assert pattern is not None
        broken[at] += np.count_nonzero(~np.isfinite(pattern), axis=(1, 2))
        rows, keys = pattern.shape[1:]
        if step.first + 1 < keys:
            later = np.arange(keys) > np.arange(step.first, step.first + rows)[:, np.newaxis]
            leaking[at] += np.count_nonzero((pattern > LEAK) & later, axis=(1, 2))
    total, here = int(leaking.sum()), int(leaking[layer, head])
    ledger.same("the leaks in all heads", view.leak_count, total)
    ledger.same("the leaks of this head", len(view.leak_cells), here)
    ledger.array("heads that leak", view.leaking, leaking > 0)
    ledger.array("heads with numbers that are not finite", view.broken, broken > 0)
    counts = (here, total) if total else (int(broken.sum()),) if broken.any() else ()
    ledger.line("the verdict on causality", view.causal.text, *counts)
    for leak in view.leaks:
        step = next(s for s in scene.record.trace.steps if s.last > leak.query)
        found = next(p for at, s, p in patterns if at == leak.layer and s is step)
        assert found is not None
        weight = float(found[leak.head, leak.query - step.first, leak.key])
        ledger.same("a leak", leak.weight, weight)
        place = () if (leak.layer, leak.head) == (layer, head) else (leak.layer, leak.head)
        ids = scene.record.trace.token_ids
        piece = scene.record.model.tokenizer.piece
        tokens = tuple(bare(piece(ids[at]).text) for at in (leak.query, leak.key))
        ledger.line("a leak", leak.sentence, leak.query, leak.key, weight, *place, without=tokens)
    _read_mosaic(scene, view, patterns)


def _read_mosaic(scene: Scene, view: AttentionView, patterns: Patterns) -> None:
    """The thumbnails of all heads: the colours of their weights, the largest of each block."""
    shape, count = scene.record.trace.shape, scene.step.last
    if shape.depth * shape.num_heads * count * count > MOSAIC_READ:
        return
    if scene.operation.kind is not Kind.PATTERN and not scene.ends_step:
        return
    side = view.mosaic.shape[1] * view.factor
    whole = np.full((shape.depth, side, shape.num_heads, side), -1.0)
    for at, step, pattern in patterns:
        assert pattern is not None
        colours = _colours(scene, at, pattern, step.first).transpose(1, 0, 2)
        whole[at, step.first : step.last, :, : colours.shape[2]] = colours
    blocks = whole.reshape(
        shape.depth, side // view.factor, view.factor, shape.num_heads, -1, view.factor
    )
    scene.ledger.codes("thumbnail", view.mosaic, blocks.max(axis=(2, 5)))


@reads("values")
def read_values(scene: Scene) -> None:
    """Each output of the operation in hand: numbers, names of rows, statistics, arithmetic."""
    view = build_values(scene.moment)
    assert view is not None
    _read_output(scene, view)
    for name, _ in view.outputs:
        if name != view.output:
            other = build_values(scene.moment, name)
            assert other is not None
            scene.ledger.same("the output chosen", other.output, name)
            _read_output(scene, other)


def _output(scene: Scene, name: str) -> Array | None:
    if name in STAGES:
        shares = scene.record.shares(scene.cursor.step)
        return None if shares is None else np.asarray(getattr(shares, name))[np.newaxis]
    return scene.array(scene.cursor.step, name)


def _read_output(scene: Scene, view: ValuesView) -> None:
    ledger, step, name = scene.ledger, scene.step, view.output
    held = _output(scene, name)
    ledger.same(f"whether {name} is there", view.array is None, held is None)
    if view.array is None or held is None:
        return
    if name in STAGES:
        ledger.same(f"the shape of {name}", view.array.shape, held.shape)
        apart = float(np.abs(view.array - held).max())
        ledger.same(f"{name} but for rounding", apart <= 1e-12, True)
    else:
        ledger.array(name, view.array, held)
    heads, first = (held.shape[0] if held.ndim == 3 else 0), step.last - held.shape[-2]
    masked = _masked(scene, name, held)
    selection = scene.moment.selection
    head = min(selection.head, heads - 1) if heads else None
    query = selection.query
    position = query if query is not None and first <= query < step.last else step.last - 1
    at = (position - first) if head is None else (head, position - first)
    token = bare(_text(scene, position))
    place = (position,) if head is None else (head, position)
    ledger.line("the title", view.title, *place, without=(token,))
    hidden = None if masked is None else masked[at]
    assert view.statistics is not None
    _read_statistics(scene, f"{name}, row {place}", view.statistics, held[at], hidden)
    ledger.same("the statistics", view.hint, view.statistics.text)
    if held.size <= WHOLE_READ:
        _read_statistics(scene, f"all of {name}", view.whole_statistics(), held, masked)
    sizes = (held.shape[-2], held.shape[-1])
    label_numbers = [each.value for each in read_numbers(view.label)]
    ledger.line("the size", view.whole_title, *label_numbers, *((heads,) if heads else ()), *sizes)
    _read_cells(scene, view, held, masked, first)
    _read_arithmetic(scene, view, held[at])


def _text(scene: Scene, position: int) -> str:
    record = scene.record
    return record.model.tokenizer.piece(record.trace.token_ids[position]).text


def _masked(scene: Scene, name: str, held: Array) -> NDArray[np.bool_] | None:
    """Which cells lie beyond the causal mask: those with a score of -infinity."""
    if name.endswith(".attn.scores"):
        return np.isneginf(held)
    if name.endswith(".attn.pattern"):
        scores = scene.array(scene.cursor.step, name.replace("pattern", "scores"))
        return None if scores is None else np.isneginf(scores)
    return None


def _read_statistics(
    scene: Scene,
    what: str,
    shown: Statistics,
    values: Array,
    masked: NDArray[np.bool_] | None,
) -> None:
    ledger = scene.ledger
    seen = values.ravel() if masked is None else values[~masked]
    finite = seen[np.isfinite(seen)].astype(np.float64)
    expected: list[float | Held] = [seen.size]
    ledger.same(f"the count of {what}", shown.count, seen.size)
    if finite.size:
        low, high = float(np.sort(finite)[0]), float(np.sort(finite)[-1])
        total = Held(math.fsum(finite.tolist()), float(np.abs(finite).sum()))
        expected += [low, high, total]
        ledger.near(f"the smallest of {what}", shown.low, low)
        ledger.near(f"the largest of {what}", shown.high, high)
    hidden = values.size - seen.size
    ledger.line(f"the statistics of {what}", shown.text, *expected, *((hidden,) if hidden else ()))
    nan = int(np.isnan(seen).sum())
    infinite = seen.size - finite.size - nan
    ledger.same(f"NaN in {what}", shown.nan, nan)
    ledger.same(f"infinities in {what}", shown.infinite, infinite)
    if not nan:  # the words for it are not a number that is shown
        ledger.line(f"what is wrong in {what}", shown.problem, *((infinite,) if infinite else ()))


def _read_cells(
    scene: Scene, view: ValuesView, held: Array, masked: NDArray[np.bool_] | None, first: int
) -> None:
    """Cells of some rows as they are written, and the rows' names."""
    ledger = scene.ledger
    rows = held.reshape(-1, held.shape[-1])
    hidden = None if masked is None else masked.reshape(rows.shape)
    positions = held.shape[-2]
    for row in sorted({view.row, *spread(len(rows), ROWS_READ)}):
        head, at = divmod(row, positions)
        token = bare(_text(scene, first + at))
        label = view.row_label(row)
        ledger.same("the token of a row", label.endswith(f" {token}"), True)
        place = (head, first + at) if view.heads > 1 else (first + at,)
        ledger.line(f"the name of row {row}", label.removesuffix(token), *place)
        for column in sorted({view.column, *spread(rows.shape[1], CELLS_READ)}):
            what = f"{view.output} [{row}, {column}]"
            text = view.text(row, column)
            if hidden is not None and hidden[row, column]:
                ledger.line(what, text)
            else:
                ledger.line(what, text, float(rows[row, column]))


def _read_arithmetic(scene: Scene, view: ValuesView, row: Array) -> None:
    """The number that was recorded, the one worked out, and how far they are apart."""
    worked, ledger = view.derivation, scene.ledger
    if worked is None:
        return
    name, column = view.output, view.column
    recorded, what = float(row[column]), f"the arithmetic of {name} [{column}]"
    if name in STAGES:
        ledger.near(f"{what}, recorded", worked.recorded, recorded)
    else:
        ledger.same(f"{what}, recorded", worked.recorded, recorded)
    numbers = read_numbers(worked.lines[0].rpartition("=")[2].rpartition("←")[2])
    if numbers and " = " in worked.lines[0] and ":" not in worked.lines[0]:
        ledger.line(what, numbers[0].text, worked.result)
    ours = _work_out(scene, view, column)
    if ours is not None:
        ledger.near(f"{what}, again", worked.result, ours.result, ours.size)
        written = " = ".join(worked.lines[0].split(" = ")[-2:])
        operands = (Held(each, ours.size) for each in ours.operands)
        ledger.line(f"{what}, its operands", written, *operands, worked.result)
    compared = [worked.result, recorded]
    if math.isfinite(worked.difference) and worked.difference:
        compared.append(worked.difference)
        if not worked.agrees:
            compared.append(worked.tolerance)
    ledger.line(f"{what}, compared", view.verdict, *compared)
    ledger.same(f"{what}, an alarm", bool(view.disagreement), not worked.agrees)


@dataclass(frozen=True)
class _Again:
    """A number worked out again: its operands as they are written, and the size of its terms."""

    result: float
    size: float
    operands: tuple[float, ...]


def _work_out(scene: Scene, view: ValuesView, column: int) -> _Again | None:
    """The chosen number, where it comes of recorded numbers alone; a masked one does not."""
    operation, cell = scene.operation, view.cell
    assert cell is not None
    if operation.kind not in (Kind.SCORES, Kind.PATTERN, Kind.RESIDUAL):
        return None
    read = operation.inputs if operation.kind is Kind.RESIDUAL else operation.inputs[:2]
    found = [scene.row(name, cell.position) for name in read]
    operands = [np.asarray(each, np.float64) for each in found if each is not None]
    if len(operands) < len(found):
        return None
    if operation.kind is Kind.RESIDUAL:
        terms = [float(each[column]) for each in operands]
        return _Again(sum(terms), sum(map(abs, terms)), tuple(terms))
    assert cell.head is not None
    if operation.kind is Kind.PATTERN:
        scores = operands[0][cell.head]
        if np.isneginf(scores[column]):
            return None
        powers = np.exp(scores - scores.max())
        total = math.fsum(powers.tolist()) if np.isfinite(powers).all() else math.nan
        return _Again(float(powers[column]) / total, 1.0, (float(powers[column]), total))
    return _score(scene, operands[0][cell.head], cell, column)


def _score(scene: Scene, query: Doubles, cell: Cell, column: int) -> _Again | None:
    shape = scene.record.trace.shape
    window = scene.operation.window or cell.position + 1
    seen = cell.position - window < column <= cell.position
    key = scene.row(scene.operation.inputs[1], column) if seen else None
    if key is None or cell.head is None:
        return None
    narrow = np.asarray(key[cell.head * shape.kv_heads // shape.num_heads], np.float64)
    terms = (query * narrow).tolist()
    root = math.sqrt(shape.head_dim)
    return _Again(sum(terms) / root, sum(map(abs, terms)), (sum(terms), root))
