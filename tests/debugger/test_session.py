"""A session runs forward, rewinds exactly, replays bit for bit and keeps to its budget."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from decoder_gui.debugger.choosing import generate
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.keeping import names_kept, nbytes, stream_in_hand
from decoder_gui.debugger.library import open_model
from decoder_gui.debugger.report import execute
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import BlockReplayed, Session, peek
from model.blueprint import Blueprint
from model.checkpoints import LoadedModel
from model.errors import CacheExhausted, ContextOverflow, EmptyPrompt
from model.random_model import llama_blueprint, random_decoder
from model.sampling import SamplingConfig
from model.shape import ModelShape
from model.tokenizers import IdTokenizer
from model.trace import Presence, Trace

PROMPT = "Once upon a time there was a little cat named Tom."


@pytest.fixture(scope="module")
def stories() -> LoadedModel:
    return open_model("stories")


def ids_of(loaded: LoadedModel) -> list[int]:
    return loaded.tokenizer.encode(PROMPT)


def arrays_of(trace: Trace) -> dict[tuple[int, str], bytes]:
    return {(step, name): array.tobytes() for step, name, array in trace.held()}


def test_the_same_seed_gives_the_same_run(stories: LoadedModel) -> None:
    config = SamplingConfig(temperature=0.9, top_p=0.95)
    runs = [execute(Session(stories, seed=7), ids_of(stories), config, 6) for _ in range(2)]
    assert runs[0].run.trace.token_ids == runs[1].run.trace.token_ids
    assert arrays_of(runs[0].run.trace) == arrays_of(runs[1].run.trace)
    other = execute(Session(stories, seed=8), ids_of(stories), config, 6)
    assert [s.uniform for s in other.run.trace.steps] != [
        s.uniform for s in runs[0].run.trace.steps
    ]


def test_n_tokens_are_n_steps_and_the_last_is_not_processed(stories: LoadedModel) -> None:
    outcome = execute(Session(stories), ids_of(stories), SamplingConfig(), 5)
    assert len(outcome.run.trace.steps) == 5
    assert outcome.session.cache.length == len(ids_of(stories)) + 4
    alone = execute(Session(stories), ids_of(stories), SamplingConfig(), 0)
    assert len(alone.run.trace.steps) == 1


def test_rewinding_and_decoding_again_is_bit_identical(stories: LoadedModel) -> None:
    session = Session(stories, seed=3)
    run = Run(session.engine)
    for update in generate(session, ids_of(stories), SamplingConfig(), 5):
        run.apply(update)
    before = arrays_of(run.trace)
    uniforms = [step.uniform for step in run.trace.steps]
    tokens = run.trace.token_ids[-2:]
    session.rewind(3)
    for token in tokens:
        for update in session.decode(token, drawn=True):
            run.apply(update)
    assert arrays_of(run.trace) == before
    assert [step.uniform for step in run.trace.steps] == uniforms
    assert session.stats.decode_tokens == 4


def test_greedy_decoding_does_not_touch_the_generator(stories: LoadedModel) -> None:
    outcome = execute(Session(stories), ids_of(stories), SamplingConfig(temperature=0.0), 4)
    states = [step.checkpoint.generator_state for step in outcome.run.trace.steps]
    assert all(state == states[0] for state in states)


def test_peeking_changes_nothing() -> None:
    state = np.random.PCG64(5).state
    assert peek(state) == peek(state)
    assert peek(state)[0] == np.random.Generator(np.random.PCG64(5)).random()


def test_redraw_holds_the_next_number(stories: LoadedModel) -> None:
    session = Session(stories, seed=11)
    list(session.prefill(ids_of(stories)))
    reference = np.random.Generator(np.random.PCG64(11))
    assert session.steps[0].uniform == reference.random()
    assert session.redraw().uniform == reference.random()
    list(session.decode(5, drawn=True))
    assert session.steps[1].uniform == reference.random()


def replay(session: Session, run: Run, step: int, layer: int, *, mlp_first: bool = False) -> int:
    """Bring a block back; in how many pieces it came."""
    trace, count = run.trace, 0
    resid_pre = trace.array(step, f"blocks.{layer}.resid_pre")
    assert resid_pre is not None, "the residual stream at a block's input is always kept"
    resid_mid = trace.array(step, f"blocks.{layer}.resid_mid") if mlp_first else None
    for update in session.replay(trace.steps[step], layer, resid_pre, resid_mid):
        run.apply(update)
        count += 1
    return count


@pytest.mark.parametrize("budget", [0, 60_000])
def test_past_the_budget_a_block_is_replayed_bit_for_bit(stories: LoadedModel, budget: int) -> None:
    whole = execute(Session(stories), ids_of(stories), SamplingConfig(temperature=0.0), 3)
    session = Session(stories, budget=budget)
    thrifty = execute(session, ids_of(stories), SamplingConfig(temperature=0.0), 3).run
    trace, full = thrifty.trace, whole.run.trace
    assert arrays_of(trace).keys() < arrays_of(full).keys()
    for step in range(3):
        for layer in range(trace.shape.depth):
            assert replay(session, thrifty, step, layer) == 2
            assert_equal_in_block(trace, full, step, layer)


def assert_equal_in_block(trace: Trace, full: Trace, step: int, layer: int) -> None:
    """Every array of a block is there, and is the one of a trace that holds everything."""
    for operation in trace.operations:
        for name in operation.outputs if operation.layer == layer else ():
            assert trace.presence(step, name) is Presence.HELD
            found, original = trace.array(step, name), full.array(step, name)
            assert found is not None
            assert original is not None
            assert np.array_equal(found, original), name
            assert found.tobytes() == original.tobytes()
            assert not found.flags.writeable


LONG_SHAPE = ModelShape(depth=3, model_dim=24, num_heads=3, context_length=160, vocabulary=40)


@cache
def long_runs(family: str) -> tuple[Session, Run, Trace]:
    """A prefill of 150 tokens and some decoded ones: nothing kept, and everything."""
    sizes: ModelShape | Blueprint = LONG_SHAPE
    if family != "gpt2":
        sizes = llama_blueprint(replace(LONG_SHAPE, kv_heads=1, gated=True))
    if family == "parallel":
        sizes = replace(Blueprint(LONG_SHAPE), parallel=True)
    loaded = LoadedModel(
        name="random",
        family="",
        engine=random_decoder(sizes, seed=3, spread=0.3),
        tokenizer=IdTokenizer(LONG_SHAPE.vocabulary, ""),
        path=Path("random"),
    )
    prompt = np.random.default_rng(0).integers(0, LONG_SHAPE.vocabulary, 150).tolist()
    sampling = SamplingConfig(temperature=0.0)
    thrifty = execute(Session(loaded, budget=0), prompt, sampling, 5)
    whole = execute(Session(loaded), prompt, sampling, 5)
    return thrifty.session, thrifty.run, whole.run.trace


@pytest.mark.parametrize("mlp_first", [False, True])
@pytest.mark.parametrize("family", ["gpt2", "llama", "parallel"])
def test_a_block_of_a_long_pass_comes_back_by_halves(family: str, mlp_first: bool) -> None:
    session, run, full = long_runs(family)
    for step in (0, 2):
        for layer in range(LONG_SHAPE.depth):
            assert replay(session, run, step, layer, mlp_first=mlp_first) == 2
            replay(session, run, step, layer, mlp_first=mlp_first)  # now that it is there
            assert_equal_in_block(run.trace, full, step, layer)


def test_the_half_in_hand_comes_first() -> None:
    session, run, _ = long_runs("gpt2")
    trace, names = run.trace, ("blocks.1.attn.pattern", "blocks.1.mlp.post")
    pre, mid = (trace.array(0, f"blocks.1.{name}") for name in ("resid_pre", "resid_mid"))
    assert pre is not None
    assert mid is not None
    for stream, first in ((None, 0), (mid, 1)):
        halves = session.replay(trace.steps[0], 1, pre, stream)
        update = next(halves)
        assert isinstance(update, BlockReplayed)
        assert (names[first] in update.arrays, names[1 - first] in update.arrays) == (True, False)
        next(halves)
        assert all(name in update.arrays for name in names)
    at_mlp = Cursor(2, trace.operation_index("blocks.1.mlp.out"))
    assert stream_in_hand(trace, at_mlp, 0, 1) is mid
    assert stream_in_hand(trace, at_mlp, 0, 2) is None
    assert stream_in_hand(trace, Cursor(0, trace.operation_index(names[0])), 0, 1) is None


def test_one_array_can_be_had_without_the_trace_holding_it() -> None:
    session, run, full = long_runs("gpt2")
    replay(session, run, 0, 0)
    name, held = "blocks.2.attn.pattern", session.memory.held
    resid_pre = run.trace.array(0, "blocks.2.resid_pre")
    assert resid_pre is not None
    found, original = session.recompute(run.trace.steps[0], 2, resid_pre, name), full.array(0, name)
    assert found is not None
    assert original is not None
    assert found.tobytes() == original.tobytes()
    assert session.memory.held == held
    assert "blocks.0.attn.pattern" in {each for step, each, _ in run.trace.held() if step == 0} or (
        run.trace.array(0, "blocks.0.attn.pattern") is not None
    )


def test_a_step_that_is_gone_is_not_replayed(stories: LoadedModel) -> None:
    session = Session(stories, budget=0)
    run = execute(session, ids_of(stories), SamplingConfig(), 3).run
    list(session.prefill(ids_of(stories)[:4]))
    resid_pre = run.trace.array(0, "blocks.0.resid_pre")
    assert resid_pre is not None
    assert list(session.replay(run.trace.steps[0], 0, resid_pre)) == []
    assert session.recompute(run.trace.steps[0], 0, resid_pre, "blocks.0.attn.z") is None


@pytest.mark.parametrize("budget", [0, 300_000, 2_000_000])
def test_a_trace_holds_no_more_than_its_budget(
    stories: LoadedModel, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.trace_memory.SPARE", 0)
    session = Session(stories, budget=budget)
    run = Run(session.engine)
    blocks_held = set()
    kept = names_kept(run.trace.operations, run.trace.shape.depth, long_pass=False)
    for update in generate(session, ids_of(stories), SamplingConfig(), 8):
        run.apply(update)
        held = {id(array): nbytes(array) for _, _, array in run.trace.held()}
        fixed = sum(
            {
                id(array): nbytes(array) for step, name, array in run.trace.held() if name in kept
            }.values()
        )
        assert sum(held.values()) <= max(budget, fixed)
        assert sum(held.values()) == session.memory.fixed + session.memory.held
        blocks_held.add(session.memory.held > 0)
    # The largest holds everything, the smallest nothing.
    assert blocks_held == {0: {False}, 300_000: {True, False}, 2_000_000: {True, False}}[budget]
    run.cut(0)
    assert session.memory.held == 0


def test_arrays_are_read_only(stories: LoadedModel) -> None:
    outcome = execute(Session(stories), ids_of(stories), SamplingConfig(), 2)
    assert all(not array.flags.writeable for _, _, array in outcome.run.trace.held())


def test_what_does_not_fit_is_refused_with_both_numbers(stories: LoadedModel) -> None:
    ids = ids_of(stories)
    with pytest.raises(ContextOverflow, match=rf"{len(ids)} tokens .* {len(ids) - 1} positions"):
        list(Session(stories, capacity=len(ids) - 1).prefill(ids))
    with pytest.raises(EmptyPrompt):
        list(Session(stories).prefill([]))
    session = Session(stories, capacity=len(ids))
    list(session.prefill(ids))
    with pytest.raises(CacheExhausted, match=str(len(ids))):
        list(session.decode(0, drawn=True))
    assert session.cache.length == len(ids)


def test_a_full_cache_ends_the_run_and_keeps_it(stories: LoadedModel) -> None:
    ids = ids_of(stories)
    outcome = execute(Session(stories, capacity=len(ids) + 2), ids, SamplingConfig(), 9)
    assert len(outcome.run.trace.steps) == 3
    assert str(len(ids) + 2) in outcome.exhausted


def test_abandoning_a_step_leaves_the_session_as_it_was(stories: LoadedModel) -> None:
    session = Session(stories)
    list(session.prefill(ids_of(stories)))
    length = session.cache.length
    updates = session.decode(5, drawn=True)
    for _ in range(7):
        next(updates)
    assert isinstance(updates, Generator)
    updates.close()
    assert session.cache.length == length
    assert len(session.steps) == 1
    # Nor has the abandoned step used up a random number.
    list(session.decode(5, drawn=True))
    undisturbed = Session(stories)
    list(undisturbed.prefill(ids_of(stories)))
    list(undisturbed.decode(5, drawn=True))
    assert [step.uniform for step in session.steps] == [s.uniform for s in undisturbed.steps]


def test_log_probabilities_of_the_prompt_are_its_own(stories: LoadedModel) -> None:
    outcome = execute(Session(stories), ids_of(stories), SamplingConfig(), 3)
    found = outcome.run.log_probabilities
    assert found[0] is None
    assert len(found) == outcome.run.trace.positions
    logits = outcome.run.trace.array(0, "logits")
    assert logits is not None
    row = logits[0, 3].astype(np.float64)
    expected = row[ids_of(stories)[4]] - np.log(np.exp(row - row.max()).sum()) - row.max()
    assert found[4] == pytest.approx(expected, abs=1e-9)
