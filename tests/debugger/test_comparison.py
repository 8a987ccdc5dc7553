"""Two runs side by side: equal ones agree, and a mistake is named where it is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder_gui.arguments import sample_prompt
from decoder_gui.debugger.choosing import generate
from decoder_gui.debugger.comparing.against import Against, FullPass, Line, OtherBranch, lockstep
from decoder_gui.debugger.comparing.comparison import NothingToCompare, compare, comparing
from decoder_gui.debugger.comparing.comparison_words import headline
from decoder_gui.debugger.comparing.findings import Comparison
from decoder_gui.debugger.comparing.recording import Side, held_draws, sampler
from decoder_gui.debugger.comparing.second_run import (
    TooSlow,
    finish,
    full_pass,
    plain_loops,
    repeated,
    side_of,
    with_sampling,
)
from decoder_gui.debugger.library import open_model
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import Session
from model.ablation import Patch, ZeroHead
from model.checkpoints import LoadedModel
from model.engine import Array
from model.errors import NoWeights, ShapeMismatch
from model.faults import fault_names
from model.random_model import random_decoder
from model.sampling import SamplingConfig
from model.shape import ModelShape
from model.tokenizers import IdTokenizer, encode_prompt
from model.trace import Checkpoint, Event, Phase, Step, Trace
from tests.debugger.recorded import FAMILIES, SHAPE, family_loaded, random_loaded, record

SAMPLING = SamplingConfig(temperature=0.7, top_p=0.9)
IDS = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3)


@cache
def model(spec: str) -> LoadedModel:
    return open_model(spec)


@cache
def sound(spec: str) -> Side:
    """A cached run of a bundled model: a prefill and some decoded tokens."""
    loaded = model(spec)
    session = Session(loaded)
    run = Run(session.engine)
    ids = encode_prompt(loaded.tokenizer, sample_prompt(spec))
    for update in generate(session, ids, SAMPLING, 3 if spec == "tiny" else 7):
        run.apply(update)
    return side_of(session, run, SAMPLING, "the run")


def in_chunks(loaded: LoadedModel, sizes: Sequence[int], name: str = "chunks") -> Side:
    """IDS in passes of so many tokens each."""
    first, steps = 0, []
    for index, size in enumerate(sizes):
        ids = IDS[first : first + size]
        steps.append(Step(index, Phase.PREFILL, first, ids, _nowhere(first), 0.5))
        first += size
    return finish(repeated(loaded, steps, SAMPLING, name))


def _nowhere(first: int) -> Checkpoint:
    return Checkpoint(first, np.random.PCG64(1).state)


def named(found: Comparison) -> str:
    """The operation that a comparison says it is."""
    assert found.origin is not None
    return found.operations[found.origin.operation].name


# ---- runs that are equal


@pytest.mark.parametrize(("spec", "tolerance"), [("tiny", 1e-12), ("stories", 1e-4)])
def test_a_cached_run_agrees_with_a_full_pass_and_with_the_plain_loops(
    spec: str, tolerance: float
) -> None:
    run = sound(spec)
    steps = run.recording.steps
    for other in (
        finish(full_pass(model(spec), steps, SAMPLING)),
        finish(plain_loops(model(spec), steps, SAMPLING)),
    ):
        found = compare(run, other)
        assert found.tolerance == tolerance
        assert found.agrees
        assert found.first is None
        assert found.origin is None
        assert not found.remarks
        assert found.positions == steps[-1].last
        recorded = {name for op in found.operations for name in op.outputs}
        compared = [r for r in found.results if r.worst is not None and r.operation.outputs]
        assert {name for r in compared for name in r.operation.outputs} == recorded
        assert not any(result.past for result in found.results)
        assert f"{steps[-1].last} positions agree" in headline(found)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_agrees_with_its_full_pass(name: str) -> None:
    loaded = family_loaded(name)
    session, run = record(loaded, (1, 2, 3, 4), (5, 6, 7))
    side = side_of(session, run, SAMPLING, "the run")
    assert compare(side, finish(full_pass(loaded, run.trace.steps, SAMPLING))).agrees


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.lists(st.integers(1, 5), max_size=6))
@settings(max_examples=20, deadline=None)
def test_chunks_of_any_sizes_agree(some: list[int], others: list[int]) -> None:
    loaded = random_loaded()
    left, right = (in_chunks(loaded, _filled(sizes)) for sizes in (some, others))
    found = compare(left, right)
    assert found.agrees
    assert found.positions == len(IDS)
    ends = {0, len(IDS)} | {step.first for side in (left, right) for step in side.recording.steps}
    parts = [(part.first, part.last) for part in found.parts]
    assert parts == list(zip(sorted(ends)[:-1], sorted(ends)[1:], strict=True))


def _filled(sizes: Sequence[int]) -> list[int]:
    """Sizes that make up IDS."""
    filled: list[int] = []
    for size in sizes:
        filled.append(min(size, len(IDS) - sum(filled)))
    filled.append(len(IDS) - sum(filled))
    return [size for size in filled if size]


def test_a_run_is_equal_to_itself_to_the_last_bit() -> None:
    found = compare(sound("stories"), sound("stories"), 0.0)
    assert found.agrees
    assert all(result.worst is None or result.worst.difference == 0 for result in found.results)


# ---- mistakes

ACTS_AT = {
    "no-mask": "blocks.0.attn.scores",
    "mask-off-by-one": "blocks.0.attn.scores",
    "positions-restart": "embed",
    "stale-cache": "blocks.0.cache",
    "no-scale": "blocks.0.attn.scores",
    "truncate-before-temperature": "sample",
    "nan-weight": "blocks.1.mlp.pre",
}


def test_every_fault_has_its_place() -> None:
    assert set(ACTS_AT) == set(fault_names())


# With four words both orders of the sampler's stages keep the same ones at these settings.
FAULTY = [("stories", fault) for fault in ACTS_AT]
FAULTY += [("tiny", fault) for fault in ACTS_AT if fault != "truncate-before-temperature"]


@pytest.mark.parametrize(("spec", "fault"), FAULTY)
def test_a_fault_is_named_where_it_acts(spec: str, fault: str) -> None:
    right = sound(spec)
    wrong = finish(repeated(model(spec), right.recording.steps, SAMPLING, "B", faults=[fault]))
    wanted = ACTS_AT[fault]
    if spec == "tiny" and fault == "nan-weight":
        wanted = "blocks.0.attn.q"
    for pair in ((right, wrong), (wrong, right)):
        found = compare(*pair)
        assert not found.agrees
        assert named(found) == wanted
        assert found.first is not None
        acts_in_decode = fault in ("positions-restart", "stale-cache")
        assert found.first.step == (1 if acts_in_decode else 0)
        assert "First difference at step" in headline(found)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gpt_neox", "mistral"])
@pytest.mark.parametrize(
    ("fault", "wanted"),
    [("positions-restart", "blocks.0.attn.rot_q"), ("stale-cache", "blocks.0.cache")],
)
def test_the_same_with_rotary_positions_and_shared_heads(
    name: str, fault: str, wanted: str
) -> None:
    loaded = family_loaded(name)
    session, run = record(loaded, (1, 2, 3, 4), (5, 6, 7))
    side = side_of(session, run, SAMPLING, "the run")
    other = finish(repeated(loaded, run.trace.steps, SAMPLING, "B", faults=[fault]))
    assert named(compare(side, other)) == wanted


def edited(loaded: LoadedModel, name: str, position: int, cell: int, by: float) -> Side:
    """A run of IDS, prefill of six and four decoded, with one number changed where it is made."""
    _, run = record(loaded, IDS[:6], IDS[6:])
    step = next(step for step in run.trace.steps if step.first <= position < step.last)
    array = run.trace.array(step.index, name)
    assert array is not None
    row = position - step.first - (len(step.token_ids) - array.shape[-2])
    values = np.array(array[0, ..., row : row + 1, :])
    seen = values[..., : position + 1] if name.endswith(("scores", "pattern")) else values
    size = np.abs(values[np.isfinite(values)]).max()
    flat = seen.reshape(-1)
    changed = flat.copy()
    changed[cell % flat.size] += np.float32(by * size)
    values[..., : seen.shape[-1]] = changed.reshape(seen.shape)
    broken = replace(loaded, engine=loaded.engine.with_edits([Patch(name, (position,), values)]))
    return finish(repeated(broken, run.trace.steps, SAMPLING, "edited"))


PATCHED = [
    name
    for op in random_loaded().engine.operations
    for name in op.outputs
    if name not in ("embed", "pos_embed")
]


@given(
    st.sampled_from(PATCHED),
    st.integers(0, len(IDS) - 1),
    st.integers(0, 10_000),
    st.floats(0.01, 0.5),
)
@settings(max_examples=60, deadline=None)
def test_one_number_changed_anywhere_is_found_to_the_cell(
    name: str, position: int, cell: int, by: float
) -> None:
    loaded = random_loaded()
    if name == "logits":
        position = max(position, 5)
    side = finish(repeated(loaded, record(loaded, IDS[:6], IDS[6:])[1].trace.steps, SAMPLING, "A"))
    other = edited(loaded, name, position, cell, by)
    found = compare(side, other)
    assert found.first is not None
    assert name in found.operations[found.first.operation].outputs
    assert name in found.operations[_origin_of(found)].outputs
    assert found.first.position == position
    step = side.recording.steps[found.first.step]
    assert step.first <= position < step.last
    values = [side.recording.array(found.first.step, found.first.name) for side in (side, other)]
    assert [_at(found, array) for array in values] == [found.first.left, found.first.right]


def _origin_of(found: Comparison) -> int:
    assert found.origin is not None
    return found.origin.operation


def _at(found: Comparison, array: Array | None) -> float:
    assert array is not None
    assert found.first is not None
    row = found.first.position - found.left.recording.steps[found.first.step].first
    row -= len(found.left.recording.steps[found.first.step].token_ids) - array.shape[-2]
    cell = (row, found.first.column)
    return float(array[0][cell if found.first.head is None else (found.first.head, *cell)])


def test_a_small_mistake_is_followed_back_from_where_it_passed_the_tolerance() -> None:
    loaded = random_loaded()
    side = finish(repeated(loaded, record(loaded, IDS[:6], IDS[6:])[1].trace.steps, SAMPLING, "A"))
    other = edited(loaded, "blocks.0.ln1", 3, 5, 9e-5)
    found = compare(side, other)
    assert found.first is not None
    assert found.operations[found.first.operation].name != "blocks.0.ln1"
    assert named(found) == "blocks.0.ln1"
    assert "It comes from block 0, LayerNorm" in headline(found)
    assert found.origin is not None
    assert found.origin.place is not None
    assert (found.origin.place.position, found.origin.place.column) == (3, 5)


def test_an_ablated_head_is_named() -> None:
    loaded = random_loaded()
    broken = replace(loaded, engine=loaded.engine.with_edits([ZeroHead(1, 2, first=7)]))
    steps = record(loaded, IDS[:6], IDS[6:])[1].trace.steps
    found = compare(
        finish(repeated(loaded, steps, SAMPLING, "A")),
        finish(repeated(broken, steps, SAMPLING, "B")),
    )
    assert named(found) == "blocks.1.attn.z"
    assert found.first is not None
    assert (found.first.position, found.first.head, found.first.right) == (7, 2, 0.0)


# ---- sampling


def test_another_order_on_the_same_logits_differs_in_the_sampler_alone() -> None:
    run = sound("stories")
    other = with_sampling(run, replace(SAMPLING, order="llama.cpp"), "llama.cpp")
    found = compare(run, other)
    assert named(found) == "sample"
    assert [result.operation.name for result in found.results if result.past] == ["sample"]
    assert compare(run, with_sampling(run, SAMPLING, "again")).agrees


def test_a_different_choice_from_equal_logits_is_the_sampler() -> None:
    run = sound("stories")
    trace = run.recording
    draws = held_draws(trace)
    greedy = sampler(trace, SamplingConfig(temperature=0.0), draws)
    found = compare(run, replace(run, name="greedy", choose=greedy))
    assert named(found) == "sample"
    assert found.first is not None
    assert found.first.left != found.first.right
    assert "chooses" in headline(found)


# ---- tokens that part


def test_what_comes_before_another_token_is_compared_and_the_rest_set_apart() -> None:
    loaded = random_loaded()
    left_session, left = record(loaded, IDS[:6], IDS[6:])
    right_session, right = record(loaded, IDS[:6], (IDS[6], 30, *IDS[8:]))
    found = compare(
        side_of(left_session, left, SAMPLING, "main"),
        side_of(right_session, right, SAMPLING, "branch"),
    )
    assert found.mismatch is not None
    assert (found.mismatch.position, found.mismatch.token_id, found.mismatch.other_id) == (
        7,
        IDS[7],
        30,
    )
    assert found.first is None
    assert not found.agrees
    assert found.positions == 7
    assert headline(found).startswith("The tokens part at position 7: ")
    assert "The 7 positions before it agree within 1e-4" in headline(found)
    embed = found.results[0]
    assert embed.worst is not None
    assert embed.worst.difference == 0
    assert embed.beyond is not None
    assert embed.beyond.position == 7
    assert embed.beyond.difference > 0.1


def test_runs_that_have_no_token_in_common_still_say_so() -> None:
    loaded = random_loaded()
    sides = [side_of(*record(loaded, (first, 2, 3)), SAMPLING, "run") for first in (0, 1)]
    found = compare(sides[0], sides[1])
    assert found.positions == 0
    assert "No position before it is left to compare." in headline(found)


# ---- numbers that are none


def _one_array(values: Array, name: str = "ln_final") -> Side:
    """A recording of a single array, for what no engine would make."""
    engine = random_loaded().engine
    trace = Trace(engine.operations, engine.shape)
    count = values.shape[-2]
    trace.begin(Step(0, Phase.PREFILL, 0, tuple(range(count)), _nowhere(0), 0.5))
    for index, operation in enumerate(engine.operations):
        trace.add(Event(0, index, {name: values} if name in operation.outputs else {}))
    return Side("one", trace)


def _rows(*edits: tuple[int, int, float]) -> Array:
    values = np.ones((1, 4, SHAPE.model_dim), np.float32)
    for row, column, value in edits:
        values[0, row, column] = value
    return values


def test_nan_against_a_number_is_a_difference_and_against_nan_is_told() -> None:
    both = compare(_one_array(_rows((2, 3, math.nan))), _one_array(_rows((2, 3, math.nan))))
    assert both.agrees
    assert sum(result.both_nan for result in both.results) == 1
    one = compare(_one_array(_rows((2, 3, math.nan))), _one_array(_rows()))
    assert one.first is not None
    assert (one.first.position, one.first.column) == (2, 3)
    assert math.isnan(one.first.difference)
    assert "NaN against 1" in headline(one)
    infinite = compare(_one_array(_rows((1, 0, math.inf))), _one_array(_rows((1, 0, -math.inf))))
    assert infinite.first is not None
    assert infinite.first.difference == math.inf
    assert compare(_one_array(_rows((1, 0, math.inf))), _one_array(_rows((1, 0, math.inf)))).agrees


def test_a_missing_key_is_a_masked_one_however_it_is_written() -> None:
    heads = SHAPE.num_heads
    scores = np.where(np.tri(4, dtype=bool), np.float32(0.5), -np.inf).astype(np.float32)
    square = np.broadcast_to(scores, (1, heads, 4, 4)).copy()
    padded = np.full((1, heads, 4, 9), np.finfo(np.float32).min, np.float32)
    padded[..., :4] = np.where(np.tri(4, dtype=bool), square, np.finfo(np.float32).min)
    name = "blocks.1.attn.scores"
    assert compare(_one_array(square, name), _one_array(padded, name)).agrees
    leaking = padded.copy()
    leaking[0, 1, 2, 6] = 0.25
    found = compare(_one_array(square, name), _one_array(leaking, name))
    assert found.first is not None
    assert (found.first.head, found.first.position, found.first.column) == (1, 2, 6)
    assert (found.first.left, found.first.right) == (-math.inf, 0.25)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_difference_is_symmetric_and_that_of_the_definition(data: st.DataObject) -> None:
    numbers = st.floats(-1e6, 1e6, width=32)
    cells = st.lists(numbers, min_size=8, max_size=8)
    ours, theirs = (np.zeros((1, 2, SHAPE.model_dim), np.float32) for _ in range(2))
    for array in (ours, theirs):
        array.reshape(-1)[:8] = data.draw(cells)
    left, right = _one_array(ours), _one_array(theirs)
    found, back = compare(left, right), compare(right, left)
    worst, mirrored = found.worst, back.worst
    assert worst is not None
    assert mirrored is not None
    scale = max(np.abs(ours).max(), np.abs(theirs).max()) or 1.0
    apart = np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max() / scale
    assert worst.difference == mirrored.difference == pytest.approx(apart, abs=0, rel=1e-12)
    assert found.agrees == back.agrees == (apart <= found.tolerance)


# ---- memory, cancelling, bad input


def test_blocks_left_out_for_the_budget_are_recomputed_and_compared() -> None:
    loaded = random_loaded()
    session, run = record(loaded, IDS[:6], IDS[6:], budget=1)
    assert run.trace.array(1, "blocks.1.mlp.pre") is None
    side = side_of(session, run, SAMPLING, "small")
    other = finish(full_pass(loaded, run.trace.steps, SAMPLING, budget=1))
    found = compare(side, other)
    assert found.agrees
    assert all(r.compared for r in found.results if r.operation.outputs)
    broken = finish(
        repeated(loaded, run.trace.steps, SAMPLING, "B", faults=["nan-weight"], budget=1)
    )
    assert named(compare(side, broken)) == "blocks.1.mlp.pre"
    assert run.trace.array(1, "blocks.1.mlp.pre") is None  # looked at, and let go


def lockstepped(session: Session, line: Line, against: Against, other: Line | None) -> Comparison:
    steps = lockstep(session, line, SAMPLING, against, other=other)
    while True:
        try:
            item = next(steps)
        except StopIteration as end:
            found: Comparison = end.value
            return found
        assert item.text
        assert item.fraction is None or 0 <= item.fraction <= 1


@pytest.mark.parametrize("budget", [1, 10**9])
def test_a_branch_is_compared_as_recorded_or_run_again(budget: int) -> None:
    loaded = random_loaded()
    session, run = record(loaded, IDS[:6], IDS[6:], budget=budget)
    zeroed = (ZeroHead(1, 0, first=8),)
    broken = replace(loaded, engine=loaded.engine.with_edits(zeroed))
    _, branch = record(broken, IDS[:6], IDS[6:], budget=budget)
    line = Line("main", run.trace, run.trace.steps)
    other = Line("branch 1", branch.trace, branch.trace.steps, zeroed)
    found = lockstepped(session, line, OtherBranch(1), other)
    assert found.right.name == "branch 1"
    assert named(found) == "blocks.1.attn.z"
    assert found.first is not None
    assert found.first.position == 8
    empty = replace(other, trace=Trace(run.trace.operations, run.trace.shape))
    assert named(lockstepped(session, line, OtherBranch(1), empty)) == "blocks.1.attn.z"
    with pytest.raises(NoWeights, match="no such branch"):
        lockstepped(session, line, OtherBranch(1), None)
    # The full pass is edited as the branch is, so that only its cache is on trial.
    edited_session, edited_run = record(broken, IDS[:6], IDS[6:], budget=budget)
    plain_line = Line("edited", edited_run.trace, edited_run.trace.steps)
    assert lockstepped(edited_session, plain_line, FullPass(), None).agrees


def test_nothing_is_recomputed_from_rows_that_a_fault_has_overwritten() -> None:
    loaded = random_loaded()
    faults = frozenset({"stale-cache"})
    session, run = record(loaded, IDS[:6], IDS[6:], faults=faults, budget=1)
    line = Line("main", run.trace, run.trace.steps, faults=faults)
    found = lockstepped(session, line, FullPass(), None)
    assert not found.agrees
    assert found.first is not None
    scores = next(r for r in found.results if r.operation.name == "blocks.0.attn.scores")
    assert scores.compared  # of the newest step, whose rows are still there
    assert scores.worst is not None
    assert scores.worst.step == len(run.trace.steps) - 1


def test_it_can_be_left_between_two_operations() -> None:
    steps = comparing(sound("tiny"), sound("tiny"))
    seen = list(steps)
    assert {item.label for item in seen} == {op.label for op in sound("tiny").recording.operations}
    assert [item.fraction for item in seen] == sorted(item.fraction for item in seen)
    assert 0 <= seen[0].fraction < seen[-1].fraction <= 1
    left = comparing(sound("tiny"), sound("tiny"))
    next(left)
    left.close()


def test_other_sizes_are_refused_by_name() -> None:
    wider = random_loaded(replace(SHAPE, depth=3))
    sides = [
        side_of(*record(loaded, IDS[:3]), SAMPLING, "run") for loaded in (wider, random_loaded())
    ]
    with pytest.raises(ShapeMismatch, match="they have 3 and 2 layers"):
        compare(sides[0], sides[1])


def test_nothing_in_common_is_refused() -> None:
    values = _rows()
    with pytest.raises(NothingToCompare, match="no array in common"):
        compare(_one_array(values, "ln_final"), _one_array(values, "blocks.0.resid_mid"))
    empty = replace(_one_array(values), recording=Trace((), SHAPE))
    with pytest.raises(NothingToCompare, match="no position in common"):
        compare(_one_array(values), empty)


def test_arrays_of_other_axes_are_refused_by_name() -> None:
    with pytest.raises(ShapeMismatch, match="ln_final"):
        compare(_one_array(_rows()), _one_array(np.ones((1, 4, 7), np.float32)))


def test_what_only_one_records_is_said() -> None:
    session, run = record(random_loaded(), IDS[:4])
    full = side_of(session, run, SAMPLING, "the run")
    partial = _one_array(np.array(run.trace.array(0, "ln_final")))
    aligned = replace(partial, recording=_with_tokens(partial, IDS[:4]))
    found = compare(full, aligned)
    assert found.agrees
    assert found.remarks[0].startswith("recorded in the run and not in one: embed, pos_embed")


def test_inputs_that_are_not_recorded_are_not_said_to_agree() -> None:
    """A projection that was called past its hook: its siblings are recorded, it is not."""
    session, run = record(family_loaded("llama"), IDS[:4])
    trace = Trace(run.trace.operations, run.trace.shape)
    trace.begin(run.trace.steps[0])
    for index, operation in enumerate(run.trace.operations):
        held = {name: run.trace.array(0, name) for name in operation.outputs}
        arrays = {name: array for name, array in held.items() if array is not None}
        if arrays.pop("blocks.0.attn.q", None) is None and "blocks.0.attn.rot_q" in arrays:
            arrays["blocks.0.attn.rot_q"] = arrays["blocks.0.attn.rot_q"] + np.float32(1)
        trace.add(Event(0, index, arrays))
    sound = side_of(session, run, SAMPLING, "the run")
    found = compare(sound, replace(sound, name="mine", recording=trace, recall=None))
    assert found.origin is not None
    assert found.operations[found.origin.operation].name == "blocks.0.attn.rot_q"
    assert found.origin.reason == "what it reads, blocks.0.attn.q, is not recorded in both"
    assert "recorded in the run and not in mine: blocks.0.attn.q" in found.remarks


def _with_tokens(side: Side, ids: tuple[int, ...]) -> Trace:
    trace = side.recording
    assert isinstance(trace, Trace)
    trace.replace_last(replace(trace.steps[0], token_ids=ids))
    return trace


def test_the_plain_loops_refuse_what_they_lack_and_what_would_take_too_long() -> None:
    loaded = family_loaded("llama")
    _, run = record(loaded, (1, 2, 3))
    with pytest.raises(ShapeMismatch, match="plain loops have no rotary positions"):
        finish_plain(loaded, run)
    shape = ModelShape(depth=1, model_dim=64, num_heads=1, context_length=64, vocabulary=200_000)
    large = LoadedModel(
        name="large",
        family="GPT-2",
        engine=random_decoder(shape),
        tokenizer=IdTokenizer(shape.vocabulary, ""),
        path=random_loaded().path,
    )
    _, run = record(large, tuple(range(20)))
    with pytest.raises(TooSlow, match="million products for 20 tokens"):
        finish_plain(large, run)


def finish_plain(loaded: LoadedModel, run: Run) -> None:
    for _ in plain_loops(loaded, run.trace.steps, SAMPLING):
        pass
