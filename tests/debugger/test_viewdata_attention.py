"""The attention view says what the recorded patterns hold, at every cursor and under faults."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import Session
from decoder_gui.viewdata.attention import (
    AttentionView,
    CellState,
    build_attention,
    entropy_nats,
    layer_in_hand,
)
from decoder_gui.viewdata.attention_codes import (
    LEAK_TOLERANCE,
    LEAKS_KEPT,
    NOTHING,
    STEPS,
    digest,
    encode,
    joined,
    shrink,
    shrink_factor,
)
from decoder_gui.viewdata.attention_leaks import Verdict
from decoder_gui.viewdata.attention_store import PatternStore
from decoder_gui.viewdata.moment import Moment, Selection
from model.shape import ModelShape
from model.trace import Phase
from tests.debugger.recorded import SHAPE, moment_of, random_loaded, record, tiny_loaded

PROMPT = (3, 17, 5, 29, 11)
DECODED = (8, 30, 2, 21, 13, 4)
LOADED = random_loaded()


@pytest.fixture(scope="module")
def run() -> Run:
    return record(LOADED, PROMPT, DECODED)[1]


def pattern_name(layer: int) -> str:
    return f"blocks.{layer}.attn.pattern"


def moment(run: Run, step: int, operation: str | int, **selection: int | None) -> Moment:
    return moment_of(LOADED, run, step, operation, Selection(**selection))  # type: ignore[arg-type]


def expected_weights(run: Run, moment: Moment, layer: int, head: int) -> NDArray[np.float64]:
    """The composite by the plainest loop there is; NaN where a row does not exist."""
    assert moment.step is not None
    size = moment.step.last
    square = np.full((size, size), np.nan)
    for step in run.trace.steps[: moment.step.index + 1]:
        if not moment.exists(step.index, pattern_name(layer)):
            continue
        held = run.trace.array(step.index, pattern_name(layer))
        assert held is not None
        for row in range(held.shape[2]):
            square[step.first + row] = 0.0
            square[step.first + row, : held.shape[3]] = held[0, head, row]
    return square


def assert_equals_the_trace(view: AttentionView, run: Run, moment: Moment) -> None:
    expected = expected_weights(run, moment, view.layer, view.head)
    exists = ~np.isnan(expected).all(axis=1)
    np.testing.assert_array_equal(view.weights[exists], expected[exists].astype(np.float32))
    assert [row is not None for row in view.rows] == exists.tolist()
    assert not view.codes[~exists].any()


@pytest.mark.parametrize("layer", range(SHAPE.depth))
@pytest.mark.parametrize("head", range(SHAPE.num_heads))
def test_the_matrix_is_the_prefill_and_one_row_a_decode_step(
    run: Run, layer: int, head: int
) -> None:
    for step in range(len(run.trace.steps)):
        here = moment(run, step, "sample", head=head)
        view = build_attention(here, layer=layer)
        assert (view.layer, view.head, view.positions) == (layer, head, len(PROMPT) + step)
        assert view.rows_computed == view.positions
        assert_equals_the_trace(view, run, here)


def test_a_row_exists_once_its_softmax_is_done(run: Run) -> None:
    before = build_attention(moment(run, 2, "blocks.1.attn.scores"))
    after = build_attention(moment(run, 2, "blocks.1.attn.pattern"))
    newest = before.positions - 1
    assert before.layer == after.layer == 1
    assert before.rows[newest] is None
    assert after.rows[newest] is not None
    assert before.state(newest, 0) is CellState.NOT_YET
    assert after.state(newest, 0) is CellState.WEIGHT
    assert before.readout(newest, 0).weight is None
    assert "not computed yet" in before.readout(newest, 0).text
    # Of the block before, the row is there already; the thumbnails say the same.
    assert before.mosaic[0, newest].any()
    assert not before.mosaic[1, newest].any()
    assert after.mosaic[1, newest].any()


def test_before_any_softmax_there_is_nothing_and_no_verdict(run: Run) -> None:
    view = build_attention(moment(run, 0, 0))
    assert not view.codes.any()
    assert not view.mosaic.any()
    assert view.causal.verdict is Verdict.OPEN
    assert view.state(0, 0) is CellState.NOT_YET


def test_the_displayed_layer_follows_the_operation(run: Run) -> None:
    assert layer_in_hand(moment(run, 1, "embed")) == 0
    assert layer_in_hand(moment(run, 1, "blocks.0.mlp.out")) == 0
    assert layer_in_hand(moment(run, 1, "blocks.1.ln1")) == 1
    assert layer_in_hand(moment(run, 1, "logits")) == SHAPE.depth - 1


def test_labels_have_positions_phases_and_no_leading_space_sign(run: Run) -> None:
    view = build_attention(moment(run, 3, "sample"))
    assert [label.position for label in view.labels] == list(range(view.positions))
    assert [label.phase for label in view.labels] == [Phase.PREFILL] * 5 + [Phase.DECODE] * 3
    assert view.first_decode == len(PROMPT)
    assert build_attention(moment(run, 0, "sample")).first_decode is None


def test_masked_cells_have_no_code_and_all_others_the_code_of_their_weight(run: Run) -> None:
    view = build_attention(moment(run, len(DECODED), "sample", head=2), layer=1)
    for query in range(view.positions):
        for key in range(view.positions):
            code = int(view.codes[query, key])
            if key > query:
                assert code == NOTHING
                assert view.state(query, key) is CellState.MASKED
                assert "does not see the later" in view.readout(query, key).text
            else:
                assert abs((code - 1) / STEPS - float(view.weights[query, key])) <= 0.5001 / STEPS


def test_the_readout_is_arithmetic_on_the_recorded_row(run: Run) -> None:
    here = moment(run, 4, "sample", head=1, query=6, key=2)
    view = build_attention(here, layer=0)
    assert view.selected == (6, 2)
    readout = view.readout(6, 2)
    held = run.trace.array(2, pattern_name(0))
    assert held is not None
    row = [float(weight) for weight in held[0, 1, 0]]
    assert readout.weight == row[2]
    assert readout.row_sum == pytest.approx(math.fsum(row), abs=1e-9)
    assert readout.entropy == pytest.approx(-math.fsum(w * math.log(w) for w in row), abs=1e-9)
    assert f"{row[2]:.3f}" in readout.text
    assert f"row sum {readout.row_sum:.6f}" in readout.details
    assert f"entropy {readout.entropy:.2f} nats" in readout.details
    assert "attends to" in readout.text


def test_by_default_the_newest_query_and_its_strongest_key_are_in_hand(run: Run) -> None:
    view = build_attention(moment(run, 5, "sample"), layer=1)
    held = run.trace.array(5, pattern_name(1))
    assert held is not None
    assert view.selected == (view.positions - 1, int(np.argmax(held[0, 0, 0])))


def test_a_selection_past_the_end_is_brought_back(run: Run) -> None:
    view = build_attention(moment(run, 0, "sample", query=9, key=9, head=9))
    assert view.selected == (len(PROMPT) - 1, len(PROMPT) - 1)
    assert view.head == SHAPE.num_heads - 1


def test_tiny_shows_its_golden_weights() -> None:
    loaded = tiny_loaded()
    run = record(loaded, tuple(loaded.tokenizer.encode("The cat")))[1]
    view = build_attention(moment_of(loaded, run, 0, "sample"))
    row = view.rows[1]
    assert row is not None
    assert [f"{weight:.6f}" for weight in row] == ["0.382087", "0.617913"]
    assert [label.text for label in view.labels] == ["The", "cat"]


# ---- leaks


def brute_force_leaks(run: Run, here: Moment) -> set[tuple[int, int, int, int]]:
    found = set()
    for layer in range(SHAPE.depth):
        for head in range(SHAPE.num_heads):
            square = expected_weights(run, here, layer, head)
            for query, key in np.argwhere(square > LEAK_TOLERANCE):
                if key > query:
                    found.add((layer, head, int(query), int(key)))
    return found


@pytest.mark.parametrize("fault", ["no-mask", "mask-off-by-one"])
def test_every_leak_is_found_counted_and_named(fault: str) -> None:
    run = record(LOADED, PROMPT, DECODED, faults=frozenset({fault}))[1]
    here = moment(run, 3, "sample", head=2)
    view = build_attention(here, layer=1)
    expected = brute_force_leaks(run, here)
    assert expected
    assert view.leak_count == len(expected)
    own = {(query, key) for layer, head, query, key in expected if (layer, head) == (1, 2)}
    assert {tuple(cell) for cell in view.leak_cells.tolist()} == own
    weights = [float(view.weights[query, key]) for query, key in view.leak_cells]
    named = [leak.weight for leak in view.leaks if (leak.layer, leak.head) == (1, 2)]
    assert named == sorted(weights, reverse=True)[: len(named)]
    assert view.causal.verdict is Verdict.FAILS
    assert f"{len(own)} weights above the diagonal, {len(expected)} in all" in view.causal.text
    query, key = (int(at) for at in view.leak_cells[int(np.argmax(weights))])
    first = view.leaks[0]
    assert (first.layer, first.head, first.query, first.key) == (1, 2, query, key)
    assert first.sentence == (
        f"query {query} “{view.labels[query].text}” attends to the later key {key} "
        f"“{view.labels[key].text}” with {max(weights):.2f}"
    )
    assert view.state(query, key) is CellState.LEAK
    assert view.codes[query, key] != NOTHING
    assert "attends to the later" in view.readout(query, key).text
    assert view.leaking.all()


def test_a_leak_in_another_head_says_where_it_is() -> None:
    run = record(LOADED, PROMPT, faults=frozenset({"no-mask"}))[1]
    # Block 0 has been through its softmax and leaks; block 1 has not.
    view = build_attention(moment(run, 0, "blocks.1.ln1"))
    assert view.layer == 1
    assert not len(view.leak_cells)
    assert view.causal.verdict is Verdict.FAILS
    assert all("(block 0, head" in leak.sentence for leak in view.leaks)


def test_a_sound_run_has_no_leak_at_any_cursor(run: Run) -> None:
    store = PatternStore()
    for step in range(len(run.trace.steps)):
        view = build_attention(moment(run, step, "sample"), store)
        assert view.causal.shown == "✓ no weight above the diagonal"
        assert view.leak_count == 0
        assert not view.leaks


def test_nan_is_flagged_and_never_coloured() -> None:
    deep = random_loaded(replace(SHAPE, depth=4))
    run = record(deep, PROMPT, DECODED, faults=frozenset({"nan-weight"}))[1]
    held = [run.trace.array(0, pattern_name(layer)) for layer in range(4)]
    bad = [i for i, array in enumerate(held) if array is not None and np.isnan(array).any()]
    assert bad, "the poisoned weight must reach some attention pattern"
    view = build_attention(moment_of(deep, run, 2, "sample"), layer=bad[0])
    query, key = (int(at) for at in np.argwhere(~np.isfinite(view.weights))[0])
    assert view.state(query, key) is CellState.NOT_FINITE
    assert view.codes[query, key] == NOTHING
    assert "NaN" in view.readout(query, key).text
    assert view.broken[bad[0]].any()
    assert view.causal.verdict is Verdict.OPEN
    assert "not finite" in view.causal.text


def test_entropy_of_known_rows() -> None:
    assert entropy_nats(np.array([1.0, 0.0, 0.0])) == 0.0
    assert entropy_nats(np.array([0.25] * 4)) == pytest.approx(math.log(4))
    assert math.isnan(entropy_nats(np.array([0.5, math.nan])))


# ---- the memory behind the views


def assert_same(one: AttentionView, other: AttentionView) -> None:
    for name in ("weights", "codes", "mosaic", "leak_cells", "leaking", "broken"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("layer", "head", "labels", "factor", "leak_count", "leaks", "causal", "selected"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize("faults", [frozenset(), frozenset({"no-mask"})])
@pytest.mark.parametrize("side", [64, 4, 3])
def test_stepping_in_any_order_gives_what_a_fresh_start_gives(
    side: int, faults: frozenset[str]
) -> None:
    run = record(LOADED, PROMPT, DECODED, faults=faults)[1]
    cursors = [
        (step, operation)
        for step in range(len(run.trace.steps))
        for operation in range(len(run.trace.operations))
    ]
    store = PatternStore(side)
    random.Random(5).shuffle(cursors)
    for step, operation in cursors:
        here = moment(run, step, operation, head=step % SHAPE.num_heads)
        assert_same(build_attention(here, store), build_attention(here, PatternStore(side)))


def test_a_run_that_is_cut_and_continued_forgets_what_was_cut() -> None:
    session, run = record(LOADED, PROMPT, DECODED)
    store = PatternStore(4)
    build_attention(moment(run, len(DECODED), "sample"), store)
    session.rewind(3)
    run.cut(3)
    for token in (39, 38, 37):
        for update in session.decode(token, drawn=True):
            run.apply(update)
    for step in (5, 2, 4, 3):
        here = moment(run, step, "sample")
        assert_same(build_attention(here, store), build_attention(here, PatternStore(4)))


def test_another_trace_starts_over(run: Run) -> None:
    store = PatternStore()
    build_attention(moment(run, 3, "sample"), store)
    other = record(LOADED, (1, 2, 3), (4,))[1]
    here = moment(other, 1, "sample")
    assert_same(build_attention(here, store), build_attention(here))


def test_the_same_view_is_returned_while_nothing_of_it_changes(run: Run) -> None:
    store = PatternStore()
    first = build_attention(moment(run, 2, "blocks.1.attn.pattern"), store)
    assert build_attention(moment(run, 2, "blocks.1.mlp.post"), store) is first
    assert build_attention(moment(run, 2, "blocks.1.mlp.post", head=1), store) is not first
    again = build_attention(moment(run, 3, "blocks.0.ln1"), store)
    assert again is not first
    assert again.positions == first.positions + 1


def test_thumbnails_have_one_fixed_scale(run: Run) -> None:
    view = build_attention(moment(run, len(DECODED), "sample"))
    assert view.factor == 1
    for layer in range(SHAPE.depth):
        for head in range(SHAPE.num_heads):
            expected = encode(
                expected_weights(run, moment(run, len(DECODED), "sample"), layer, head)
            )
            np.testing.assert_array_equal(view.mosaic[layer, :, head], expected)


def test_shrinking_keeps_a_single_hot_cell(run: Run) -> None:
    positions = len(PROMPT) + len(DECODED)
    view = build_attention(moment(run, len(DECODED), "sample"), PatternStore(4))
    assert view.factor == shrink_factor(positions, 4) == 4
    for layer in range(SHAPE.depth):
        for head in range(SHAPE.num_heads):
            whole = encode(expected_weights(run, moment(run, 6, "sample"), layer, head))
            for row, key in np.ndindex(3, 3):
                block = whole[row * 4 : row * 4 + 4, key * 4 : key * 4 + 4]
                assert view.mosaic[layer, row, head, key] == block.max()


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(np.uint8, st.tuples(st.integers(1, 3), st.integers(1, 19), st.integers(1, 19))),
    st.integers(1, 6),
)
def test_shrink_is_the_maximum_of_every_block(codes: NDArray[np.uint8], factor: int) -> None:
    small = shrink(codes, factor)
    heads, rows, keys = codes.shape
    assert small.shape == (heads, -(-rows // factor), -(-keys // factor))
    for head, row, key in np.ndindex(*small.shape):
        top, left = row * factor, key * factor
        assert small[head, row, key] == codes[head, top : top + factor, left : left + factor].max()


@given(st.floats(0, 1))
def test_a_code_is_its_weight_to_half_a_step(weight: float) -> None:
    code = int(encode(np.array([[weight]]))[0, 0])
    assert 1 <= code <= STEPS + 1
    assert abs((code - 1) / STEPS - weight) <= 0.5 / STEPS + 1e-12


# ---- what was not kept


def bring_back(session_and_run: tuple[Session, Run], step: int, layer: int) -> None:
    session, run = session_and_run
    resid_pre = run.trace.array(step, f"blocks.{layer}.resid_pre")
    assert resid_pre is not None
    for update in session.replay(run.trace.steps[step], layer, resid_pre):
        run.apply(update)


def test_rows_that_were_not_kept_come_back_one_replay_at_a_time() -> None:
    decoded = (*DECODED, 1, 2, 3)  # more steps than a trace holds replays
    both = record(LOADED, PROMPT, decoded, budget=0)
    kept = record(LOADED, PROMPT, decoded)[1]
    store = PatternStore()
    last = len(decoded)
    view = build_attention(moment(both[1], last, "sample"), store)
    assert set(view.not_kept) == set(range(last + 1))
    assert view.not_kept[:2] == (last, 0)  # the newest row, then the prompt
    assert view.state(0, 0) is CellState.NOT_KEPT
    assert "not kept" in view.readout(0, 0).text
    assert view.causal.verdict is Verdict.OPEN
    for left in range(last, -1, -1):
        bring_back(both, view.not_kept[0], view.layer)
        view = build_attention(moment(both[1], last, "sample"), store)
        assert len(view.not_kept) == left
    here = moment(kept, last, "sample")
    np.testing.assert_array_equal(view.weights, build_attention(here).weights)


def test_the_cursor_may_be_at_an_operation_that_was_not_kept(run: Run) -> None:
    both = record(LOADED, PROMPT, budget=0)
    here = moment_of(LOADED, both[1], 0, "blocks.0.attn.pattern")
    assert here.cursor == Cursor(0, both[1].trace.operation_index("blocks.0.attn.pattern"))
    assert build_attention(here).not_kept == (0,)


def test_a_long_run_shrinks_by_a_power_of_two() -> None:
    assert [shrink_factor(n, 64) for n in (1, 64, 65, 128, 129, 1024)] == [1, 1, 2, 2, 4, 16]


# ---- long prompts: a few heads at a time, and by blocks instead of by cells


@st.composite
def long_patterns(draw: st.DrawFn) -> tuple[NDArray[np.float32], int, int, int, str]:
    """A pattern (head, row, key), its first position, its window, a factor, what is wrong."""
    first, rows = draw(st.integers(0, 40)), draw(st.integers(1, 40))
    window, factor = draw(st.sampled_from([0, 0, 3, 20])), draw(st.sampled_from([1, 2, 4, 16]))
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    pattern = generator.random((2, rows, first + rows), dtype=np.float32)
    pattern[generator.random(pattern.shape) < 0.6] *= np.float32(1e-3)
    queries, keys = np.arange(first, first + rows)[:, np.newaxis], np.arange(first + rows)
    pattern[:, keys > queries] = 0
    if window:
        pattern[:, keys <= queries - window] = 0
    wrong = draw(st.sampled_from(["", "", "leak", "not finite"]))
    head = draw(st.integers(0, 1))
    row, key = draw(st.integers(0, rows - 1)), draw(st.integers(0, first + rows - 1))
    if wrong == "leak":
        pattern[head, row, max(key, min(first + row + 1, first + rows - 1))] = 0.5
    if wrong == "not finite":
        pattern[head, row, key] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    return pattern, first, window, factor, wrong


@settings(max_examples=300, deadline=None)
@given(long_patterns())
def test_a_digest_by_blocks_is_the_one_by_cells(
    drawn: tuple[NDArray[np.float32], int, int, int, str],
) -> None:
    pattern, first, window, factor, _ = drawn
    rows, keys = pattern.shape[1:]
    codes = encode(pattern, first, window)
    padded = np.pad(codes, ((0, 0), (first % factor, 0), (0, 0)))
    found = digest(pattern, first, window, factor)
    np.testing.assert_array_equal(found.cells, shrink(padded, factor).transpose(1, 0, 2))
    np.testing.assert_array_equal(found.broken, (~np.isfinite(pattern)).sum(axis=(1, 2)))
    later = np.arange(keys) > np.arange(first, first + rows)[:, np.newaxis]
    for head, square in enumerate(pattern):
        here = [leaks for leaks in found.leaks if leaks.head == head]
        cells = {tuple(cell) for cell in np.argwhere((square > LEAK_TOLERANCE) & later).tolist()}
        assert sum(leaks.count for leaks in here) == len(cells)
        for leaks in here:
            listed = zip(leaks.queries.tolist(), leaks.keys.tolist(), strict=True)
            assert {(query - first, key) for query, key in listed} == cells
    by_head = [digest(pattern[h : h + 1], first, window, factor, h) for h in range(2)]
    together = joined(by_head)
    np.testing.assert_array_equal(together.cells, found.cells)
    np.testing.assert_array_equal(together.broken, found.broken)
    assert [leaks.head for leaks in together.leaks] == [leaks.head for leaks in found.leaks]


def test_of_many_leaks_the_heaviest_are_listed_and_all_are_counted() -> None:
    pattern = np.random.default_rng(3).random((1, 40, 40), dtype=np.float32)
    (leaks,) = digest(pattern, 0, 0, 4).leaks
    above = pattern[0][np.triu_indices(40, 1)]
    assert leaks.count == above.size
    np.testing.assert_array_equal(leaks.weights, np.sort(above)[::-1][:LEAKS_KEPT])
    np.testing.assert_array_equal(leaks.weights, pattern[0][leaks.queries, leaks.keys])


LONG = random_loaded(ModelShape(4, 24, 3, context_length=160, vocabulary=40))
LONG_PROMPT = tuple(int(token) for token in np.random.default_rng(8).integers(0, 40, 130))


@pytest.mark.parametrize("faults", [frozenset(), frozenset({"no-mask"})])
def test_slice_by_slice_the_thumbnails_become_those_of_one_go(faults: frozenset[str]) -> None:
    run = record(LONG, LONG_PROMPT, (1, 2, 3), faults=faults)[1]
    here = moment_of(LONG, run, 3, "sample")
    whole = build_attention(here)
    assert whole.factor == 4
    assert not whole.unfinished
    store, ready = PatternStore(), []
    view = build_attention(here, store, layer=whole.layer, limit=0, first=(2,))
    for _ in range(1000):
        ready.append(view.ready)
        if not store.take_in(here, 1, (2,)):
            break
        view = build_attention(here, store, layer=whole.layer, limit=0, first=(2,))
    view = build_attention(here, store, layer=whole.layer)
    assert len(set(ready)) > 3
    assert ready == sorted(ready)
    assert view.ready == 4 * 3
    assert_same(view, whole)


def test_the_layers_in_sight_come_first() -> None:
    run = record(LONG, LONG_PROMPT)[1]
    here, store = moment_of(LONG, run, 0, "sample"), PatternStore()
    store.follow(here)
    finished: list[int] = []
    while store.take_in(here, 1, (3, 1)):
        done = set(range(4)) - store.unfinished(here)
        finished += sorted(done - set(finished))
    assert finished[:2] == [1, 3]


def test_what_was_not_kept_is_unfinished_until_its_digest_arrives() -> None:
    kept = record(LONG, LONG_PROMPT, (1, 2))[1]
    run = record(LONG, LONG_PROMPT, (1, 2), budget=0)[1]
    here, store = moment_of(LONG, run, 2, "sample"), PatternStore()
    view = build_attention(here, store, layer=0)
    assert view.unfinished == {0, 1, 2, 3}
    assert view.ready == 0
    assert store.absent(here, 1) == (0, 1, 2)
    for step in run.trace.steps:
        pattern = kept.trace.array(step.index, pattern_name(1))
        assert pattern is not None
        store.add(step, 1, view.factor, digest(pattern[0], step.first, 0, view.factor))
    after = build_attention(here, store, layer=0)
    assert store.absent(here, 1) == ()
    assert after.unfinished == {0, 2, 3}
    expected = build_attention(moment_of(LONG, kept, 2, "sample"), layer=0)
    np.testing.assert_array_equal(after.mosaic[1], expected.mosaic[1])
    assert not after.mosaic[[0, 2, 3]].any()
    assert "9 patterns not examined" in after.causal.text


def test_a_digest_of_a_step_that_is_gone_is_dropped() -> None:
    session, run = record(LONG, LONG_PROMPT, (1, 2), budget=0)
    here, store = moment_of(LONG, run, 2, "sample"), PatternStore()
    view = build_attention(here, store, layer=0)
    old = run.trace.steps[2]
    session.rewind(2)
    run.cut(2)
    for update in session.decode(7, drawn=True):
        run.apply(update)
    again = build_attention(moment_of(LONG, run, 2, "sample"), store, layer=0)
    ones = np.ones((3, 1, 133), np.float32)
    store.add(old, 1, view.factor, digest(ones, old.first, 0, view.factor))
    store.keep(old, 0, ones)
    later = build_attention(moment_of(LONG, run, 2, "sample"), store, layer=0)
    np.testing.assert_array_equal(later.mosaic, again.mosaic)
    assert later.not_kept == again.not_kept
