"""A session runs forward, rewinds exactly, replays bit for bit and keeps to its budget."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest

from decoder_gui.debugger.choosing import generate
from decoder_gui.debugger.library import open_model
from decoder_gui.debugger.report import execute
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import Session, peek
from model.checkpoints import LoadedModel
from model.errors import CacheExhausted, ContextOverflow, EmptyPrompt
from model.sampling import SamplingConfig
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


@pytest.mark.parametrize("budget", [0, 60_000])
def test_past_the_budget_a_block_is_replayed_bit_for_bit(stories: LoadedModel, budget: int) -> None:
    whole = execute(Session(stories), ids_of(stories), SamplingConfig(temperature=0.0), 3)
    session = Session(stories, budget=budget)
    thrifty = execute(session, ids_of(stories), SamplingConfig(temperature=0.0), 3).run
    trace, full = thrifty.trace, whole.run.trace
    assert arrays_of(trace).keys() < arrays_of(full).keys()
    for step in range(3):
        for layer in range(trace.shape.depth):
            resid_pre = trace.array(step, f"blocks.{layer}.resid_pre")
            assert resid_pre is not None, "the residual stream at a block's input is always kept"
            for update in session.replay(trace.steps[step], layer, resid_pre):
                thrifty.apply(update)
            name = f"blocks.{layer}.attn.pattern"
            assert trace.presence(step, name) is Presence.HELD
            replayed, original = trace.array(step, name), full.array(step, name)
            assert replayed is not None
            assert original is not None
            assert replayed.tobytes() == original.tobytes()


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
