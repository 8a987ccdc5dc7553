"""A text as evidence: the numbers against the model's own likelihood, and free runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from decoder_gui.debugger.choosing import generate
from decoder_gui.debugger.laboratory.evidence import Evidence, Surprise, surprise, weigh
from decoder_gui.debugger.laboratory.free_run import free_run
from decoder_gui.debugger.library import open_model
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import Session
from model.checkpoints import LoadedModel
from model.errors import ContextOverflow
from model.likelihood import exact_log_likelihood, perplexity
from model.sampling import SamplingConfig
from model.tokenizers import encode_prompt

STORY = "Once upon a time there was a little cat named Tom."


def recorded(loaded: LoadedModel, prompt: str, tokens: int = 0) -> Run:
    session = Session(loaded)
    run = Run(session.engine)
    ids = encode_prompt(loaded.tokenizer, prompt)
    for update in generate(session, ids, SamplingConfig(), max(1, tokens)):
        run.apply(update)
    return run


def weighed(run: Run, weights: object | None, first: int = 1) -> Evidence:
    surprises: list[Surprise] = []
    missing: list[int] = []
    for item in weigh(run.trace, weights, first=first):
        if isinstance(item, int):
            missing.append(item)
        else:
            surprises.extend(item)
    return Evidence(tuple(surprises), tuple(missing))


@pytest.fixture(scope="module")
def stories() -> LoadedModel:
    return open_model("stories")


@pytest.fixture(scope="module")
def run(stories: LoadedModel) -> Run:
    return recorded(stories, STORY, tokens=5)


def test_totals_are_those_of_one_pass_over_the_text(stories: LoadedModel, run: Run) -> None:
    evidence = weighed(run, None)
    ids = run.trace.token_ids
    engine = stories.engine
    logits = engine.forward(np.asarray([ids]), engine.new_cache(), all_logits=True)[0, :-1]
    assert evidence.log_likelihood == pytest.approx(exact_log_likelihood(logits, ids[1:]), abs=1e-3)
    assert evidence.perplexity == pytest.approx(perplexity(logits, ids[1:]), rel=1e-4)
    assert [each.position for each in evidence.surprises] == list(range(1, len(ids)))
    assert not evidence.missing


def test_the_numbers_are_those_of_the_token_strip(run: Run) -> None:
    for each in weighed(run, None).surprises:
        assert each.log_probability == run.log_probabilities[each.position]


def test_ranks_and_choices_follow_the_logits(run: Run) -> None:
    logits = run.trace.array(0, "logits")
    assert logits is not None
    for each in weighed(run, None).surprises[:11]:
        row = logits[0, each.position - 1]
        order = np.argsort(-row, kind="stable")
        assert order[each.rank - 1] == each.token_id
        assert order[0] == each.choice_id
        assert each.agrees == (each.choice_id == each.token_id)


def test_logits_that_were_not_recorded_are_read_again_from_the_final_norm(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = weighed(recorded(stories, STORY), None)
    monkeypatch.setattr("decoder_gui.debugger.session.PROMPT_LOGITS_BUDGET", 0)
    lean = recorded(stories, STORY)
    assert weighed(lean, None).missing == tuple(range(1, len(lean.trace.token_ids)))
    again = weighed(lean, stories.engine)
    assert not again.missing
    for one, other in zip(whole.surprises, again.surprises, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)


def test_what_is_known_is_not_worked_out_again(run: Run) -> None:
    whole = weighed(run, None)
    assert weighed(run, None, first=9).surprises == whole.surprises[8:]


def test_equal_logits_rank_by_id_and_entropy_is_that_of_the_distribution() -> None:
    flat = surprise(np.zeros(4, dtype=np.float32), 2, 7)
    assert (flat.rank, flat.choice_id, flat.position) == (3, 0, 7)
    assert flat.entropy == pytest.approx(math.log(4))
    assert flat.log_probability == pytest.approx(-math.log(4))
    certain = surprise(np.asarray([1000.0, 0.0]), 1, 1)
    assert certain.log_probability == -1000.0  # not the logarithm of 0
    assert certain.entropy == 0.0


def test_a_free_run_reads_its_own_choices(stories: LoadedModel, run: Run) -> None:
    ids = list(run.trace.token_ids)
    chosen = list(free_run(stories.engine, ids, 12))
    assert len(chosen) == len(ids) - 12
    engine = stories.engine
    text = ids[:12]
    for token in chosen:
        logits = engine.forward(np.asarray([text]), engine.new_cache())[0, -1]
        assert int(np.argmax(logits)) == token
        text.append(token)


def test_a_text_longer_than_the_context_is_refused(stories: LoadedModel) -> None:
    with pytest.raises(ContextOverflow, match="129"):
        list(free_run(stories.engine, [1] * 129, 4))
