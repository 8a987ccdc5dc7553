"""Continuations in one batch: the rows, their likelihood, what they cost, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from decoder_gui.debugger.laboratory.continuations import (
    Finished,
    Grown,
    Plan,
    continue_in_batch,
    needed_bytes,
)
from decoder_gui.debugger.session import Session
from model.engine import Array
from model.errors import CacheExhausted, InvalidSampling, NotEnoughMemory
from model.sampling import SamplingConfig, stable_log_softmax
from tests.debugger.recorded import SHAPE, random_loaded, record, tiny_loaded

PROMPT = (3, 1, 4, 1, 5)


def prepared() -> tuple[Session, Array]:
    session, run = record(random_loaded(), PROMPT)
    logits = run.trace.logits(0)
    assert logits is not None
    return session, logits


def plan(logits: Array | None, **changes: object) -> Plan:
    settings = {
        "prefix": PROMPT,
        "logits": logits,
        "config": SamplingConfig(0.9, 0.95),
        "count": 6,
        "length": 5,
        "seed": 3,
    }
    return Plan(**(settings | changes))  # type: ignore[arg-type]


def finished(session: Session, chosen: Plan) -> Finished:
    *grown, last = continue_in_batch(session.engine, session.cache, chosen, None)
    assert all(isinstance(each, Grown) for each in grown)
    assert isinstance(last, Finished)
    return last


def test_likelihoods_are_those_of_full_passes() -> None:
    session, logits = prepared()
    for row in finished(session, plan(logits)).rows:
        assert len(row.token_ids) == 5
        ids = np.array([(*PROMPT, *row.token_ids)])
        cache = session.engine.new_cache()
        whole = session.engine.forward(ids, cache, all_logits=True)[0]
        scores = stable_log_softmax(whole[len(PROMPT) - 1 : -1])
        expected = [scores[at, token] for at, token in enumerate(row.token_ids)]
        assert row.log_probabilities == pytest.approx(expected, abs=1e-4)
        assert row.total == pytest.approx(sum(expected), abs=1e-3)
        assert row.per_token == pytest.approx(row.total / 5)


def test_rows_draw_apart_and_do_not_depend_on_how_many_there_are() -> None:
    session, logits = prepared()
    many = finished(session, plan(logits, count=9)).rows
    assert len({row.token_ids for row in many}) > 5
    few = finished(session, plan(logits, count=2)).rows
    assert [row.token_ids for row in few] == [row.token_ids for row in many[:2]]
    other = finished(session, plan(logits, count=2, seed=4)).rows
    assert [row.token_ids for row in other] != [row.token_ids for row in few]


def test_a_row_ends_with_the_end_of_a_text_and_the_others_go_on() -> None:
    session, logits = prepared()
    free = finished(session, plan(logits)).rows
    end = free[2].token_ids[1]
    done = finished(session, plan(logits, end_ids=frozenset({end})))
    for row, whole in zip(done.rows, free, strict=True):
        stop = whole.token_ids.index(end) + 1 if end in whole.token_ids else 5
        assert row.token_ids == whole.token_ids[:stop]
        assert row.ended == (end in whole.token_ids)
        assert row.per_token == pytest.approx(row.total / stop)
    assert any(row.ended for row in done.rows)
    drawn = sum(len(row.token_ids) - 1 for row in done.rows)  # the first cost no pass
    assert done.timing.tokens_per_weight_read == drawn / done.timing.passes


def test_no_pass_is_made_for_rows_that_have_all_ended() -> None:
    session, logits = prepared()
    everything = frozenset(range(SHAPE.vocabulary))
    done = finished(session, plan(logits, end_ids=everything))
    assert [len(row.token_ids) for row in done.rows] == [1] * 6
    assert done.timing.passes == 0


def test_the_session_stays_as_it_is() -> None:
    session, logits = prepared()
    before = session.cache.keys(0).copy()
    finished(session, plan(logits))
    assert session.cache.length == len(PROMPT)
    assert (session.cache.keys(0) == before).all()
    assert len(session.steps) == 1


def test_one_pass_reads_the_weights_once_for_all_rows() -> None:
    session, logits = prepared()
    timing = finished(session, plan(logits, count=8)).timing
    assert (timing.batch, timing.passes) == (8, 4)
    assert timing.tokens_per_weight_read == 8.0
    assert timing.batch_token == timing.batch_pass / 8
    assert timing.single_pass > 0
    assert timing.gain == timing.single_pass / timing.batch_token


def test_one_token_needs_no_pass_at_all() -> None:
    session, logits = prepared()
    last = finished(session, plan(logits, length=1))
    assert last.timing.passes == 0
    assert last.timing.gain == 0.0
    assert all(len(row.token_ids) == 1 for row in last.rows)


def test_progress_is_told_token_by_token() -> None:
    session, logits = prepared()
    *grown, _ = continue_in_batch(session.engine, session.cache, plan(logits), None)
    fractions = [each.fraction for each in grown if isinstance(each, Grown)]
    assert fractions[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_rows_end_where_the_cache_does() -> None:
    session, logits = prepared()
    last = finished(session, plan(logits, length=99))
    assert all(len(row.token_ids) == SHAPE.context_length - len(PROMPT) for row in last.rows)
    full = plan(logits, prefix=tuple([1] * SHAPE.context_length))
    with pytest.raises(CacheExhausted):
        list(continue_in_batch(session.engine, session.cache, full, None))


def test_an_earlier_point_is_continued_from_its_own_rows() -> None:
    session, run = record(random_loaded(), PROMPT, (7, 8, 9))
    logits = run.trace.logits(1)
    assert logits is not None
    early = finished(session, plan(logits, prefix=(*PROMPT, 7))).rows
    shorter, again = record(random_loaded(), PROMPT, (7,))
    same = finished(shorter, plan(again.trace.logits(1), prefix=(*PROMPT, 7))).rows
    assert early == same


def test_greedy_rows_are_all_the_same() -> None:
    session, logits = prepared()
    rows = finished(session, plan(logits, config=SamplingConfig(0.0))).rows
    assert len({row.token_ids for row in rows}) == 1
    assert rows[0].token_ids[0] == int(logits.argmax())


def test_a_penalty_counts_the_text_and_each_rows_own_tokens() -> None:
    session, logits = prepared()
    config = SamplingConfig(0.0, repetition_penalty=1e6)
    rows = finished(session, plan(logits, config=config, count=1, length=10)).rows
    assert not set(rows[0].token_ids) & set(PROMPT)
    assert len(set(rows[0].token_ids)) == 10


def test_an_engine_of_one_sequence_grows_row_by_row() -> None:
    session, run = record(tiny_loaded(), (1, 2))
    logits = run.trace.logits(0)
    last = finished(session, plan(logits, prefix=(1, 2), count=3, length=9))
    assert [len(row.token_ids) for row in last.rows] == [2, 2, 2]
    assert last.timing.batch == 1
    assert last.timing.tokens_per_weight_read == 1.0


def test_memory_is_refused_with_numbers() -> None:
    session, logits = prepared()
    needed = needed_bytes(SHAPE, len(PROMPT) + 5, 6)
    grows = continue_in_batch(session.engine, session.cache, plan(logits), needed - 1)
    with pytest.raises(NotEnoughMemory, match=r"6 continuations of 10 positions need .* available"):
        next(grows)
    assert needed_bytes(SHAPE, 10, 12) > needed
    list(continue_in_batch(session.engine, session.cache, plan(logits), needed))


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"count": 0}, "1 to 256, not 0"), ({"count": 257}, "not 257"), ({"length": 0}, "not 0")],
)
def test_plans_out_of_range_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidSampling, match=said):
        plan(np.zeros(40), **changes)
