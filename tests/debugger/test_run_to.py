"""Running to the next stop in both directions, and past the end of what is recorded."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pytest

from decoder_gui.debugger.choosing import generate
from decoder_gui.debugger.cursor import Cursor, first, last
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import Session, StepEnded
from decoder_gui.debugger.stopping import run_to
from decoder_gui.debugger.stopping.breakpoints import Breakpoint
from decoder_gui.debugger.stopping.rules import Rule, Side
from decoder_gui.debugger.stopping.rules.attention import RowSum
from decoder_gui.debugger.stopping.rules.cache import CacheShare
from decoder_gui.debugger.stopping.rules.places import (
    AtEvent,
    OnLayer,
    OnOperation,
    OnPhase,
    OnPosition,
    OnStep,
)
from decoder_gui.debugger.stopping.rules.sampling import Entropy
from decoder_gui.debugger.stopping.rules.values import NotFinite
from decoder_gui.debugger.stopping.run_to import (
    Halt,
    Judge,
    Searched,
    run_back,
    run_on,
    search,
    session_recompute,
)
from decoder_gui.debugger.stopping.scene import Elsewhere, Scene
from model.errors import NoWeights
from model.sampling import SamplingConfig
from model.trace import Phase
from tests.debugger.recorded import random_loaded, record

PROMPT, DECODED = (3, 1, 4, 1, 5), (9, 2, 6, 5)
CONFIG = SamplingConfig(temperature=0.8)


def judge_of(run: Run, *rules: Rule, session: Session | None = None, capacity: int = 16) -> Judge:
    scene = Scene(run.copy(), sampling=CONFIG, capacity=capacity, weights=random_loaded().engine)
    if session is not None:
        session_recompute(session, scene)
    return Judge(scene, [Breakpoint(at, rule) for at, rule in enumerate(rules, start=1)])


def found(judge: Judge, start: Cursor | None, direction: int) -> Halt | None:
    searching = search(judge, start, direction)
    while True:
        try:
            next(searching)
        except StopIteration as ended:
            halt: Halt | None = ended.value
            return halt


def travels(run: Run, rules: Sequence[Rule], start: Cursor, direction: int) -> list[Cursor]:
    stops: list[Cursor] = []
    here = start
    while True:
        halt = found(judge_of(run, *rules), here, direction)
        if halt is None:
            return stops
        assert halt.cursor is not None
        here = halt.cursor
        stops.append(here)


RULES: tuple[tuple[Rule, ...], ...] = (
    (OnOperation("blocks.*.attn.pattern"),),
    (OnLayer(1), OnPosition(6)),
    (Entropy(Side.ABOVE, 1.0),),
    (CacheShare(50.0), OnOperation("logits")),
)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules[0].kind)
def test_backwards_visits_the_same_stops_in_the_opposite_order(rules: tuple[Rule, ...]) -> None:
    _, run = record(random_loaded(), PROMPT, DECODED)
    begin, end = first(run.trace), last(run.trace)
    assert begin is not None
    assert end is not None
    forth = travels(run, rules, begin, 1)
    back = travels(run, rules, end, -1)
    assert forth
    assert [c for c in forth if c != end] == [c for c in reversed(back) if c != begin]


def test_nan_is_met_at_the_same_operations_in_both_directions() -> None:
    _, run = record(random_loaded(), PROMPT, DECODED, faults=frozenset({"nan-weight"}))
    pre = run.trace.operation_index("blocks.1.mlp.pre")
    forth = travels(run, (NotFinite(),), Cursor(0, 0), 1)
    assert forth == [Cursor(step, pre) for step in range(5)]
    end = last(run.trace)
    assert end is not None
    assert travels(run, (NotFinite(),), end, -1) == forth[::-1]


def test_the_reason_is_said_in_words_and_all_that_hold_are_named() -> None:
    _, run = record(random_loaded(), PROMPT, DECODED, faults=frozenset({"nan-weight"}))
    halt = found(judge_of(run, NotFinite(), OnOperation("blocks.1.mlp.pre")), None, 1)
    assert halt is not None
    assert [reason.breakpoint for reason in halt.reasons] == [1, 2]
    assert halt.words.startswith(
        "Stopped at step 0, blocks.1.mlp.pre: NaN in blocks.1.mlp.pre at position 0, index 0"
    )
    assert halt.words.endswith("; breakpoint on blocks.1.mlp.pre in every step.")


def test_the_first_event_itself_can_be_a_stop() -> None:
    _, run = record(random_loaded(), PROMPT, DECODED)
    halt = found(judge_of(run, OnOperation("embed")), None, 1)
    assert halt is not None
    assert halt.cursor == Cursor(0, 0)
    again = found(judge_of(run, OnOperation("embed")), halt.cursor, 1)
    assert again is not None
    assert again.cursor == Cursor(1, 0)


def drive(session: Session, judge: Judge, start: Cursor | None, limit: int) -> Halt:
    halts = [u for u in run_on(judge, start, session, limit) if isinstance(u, Halt)]
    (halt,) = halts
    return halt


def test_running_decodes_on_to_a_stop_and_takes_what_the_sampler_takes() -> None:
    session, run = record(random_loaded(), PROMPT)
    judge = judge_of(run, OnPosition(9), session=session)
    halt = drive(session, judge, last(run.trace), 100)
    assert halt.cursor == Cursor(5, 0)
    assert halt.decoded == 5
    assert halt.words.startswith("Stopped at step 5, embed: position 9, ")
    alone = Session(random_loaded())
    for _ in generate(alone, PROMPT, CONFIG, 6):
        pass
    assert session.steps == alone.steps
    assert judge.scene.trace.token_ids == tuple(t for s in alone.steps for t in s.token_ids)


def test_running_goes_through_the_recording_before_it_decodes() -> None:
    session, run = record(random_loaded(), PROMPT, DECODED)
    halt = drive(session, judge_of(run, OnPosition(6), session=session), Cursor(0, 3), 100)
    assert halt.cursor == Cursor(2, 0)
    assert halt.decoded == 0
    assert len(session.steps) == 5


def test_a_run_decodes_only_if_something_may_stop_it_or_from_the_very_end() -> None:
    session, run = record(random_loaded(), PROMPT, DECODED)
    behind = (AtEvent(1, "logits"), OnPosition(6), OnStep(2), OnPhase(Phase.DECODE))
    halt = drive(session, judge_of(run, *behind, session=session), Cursor(3, 0), 100)
    assert halt.cursor == last(run.trace)
    assert halt.decoded == 0
    assert halt.words.startswith("No breakpoint further on: the end of the recording.")
    halt = drive(session, judge_of(run, session=session), Cursor(3, 0), 100)
    assert halt.words.startswith("No breakpoint is on: the end of the recording.")
    halt = drive(session, judge_of(run, OnStep(7), session=session), Cursor(3, 0), 100)
    assert (halt.cursor, halt.decoded) == (Cursor(7, 0), 3)


def test_without_breakpoints_a_run_from_the_end_goes_to_the_limit() -> None:
    session, run = record(random_loaded(), PROMPT)
    halt = drive(session, judge_of(run, session=session), last(run.trace), 4)
    assert halt.decoded == 4


def test_a_full_cache_and_the_limit_end_a_run_in_words() -> None:
    session, run = record(random_loaded(), PROMPT)
    halt = drive(session, judge_of(run, NotFinite(), session=session), last(run.trace), 100)
    assert session.cache.length == 16
    assert halt.decoded == 11
    assert halt.cursor == Cursor(11, len(run.trace.operations) - 1)
    assert "No breakpoint was reached, and the key-value cache is full" in halt.words

    session, run = record(random_loaded(), PROMPT)
    halt = drive(session, judge_of(run, NotFinite(), session=session), last(run.trace), 3)
    assert halt.decoded == 3
    assert halt.words == "No breakpoint was reached in 3 tokens, the limit of a run."


def test_nothing_to_sample_ends_a_run() -> None:
    session, run = record(random_loaded(), PROMPT, faults=frozenset({"nan-weight"}))
    halt = drive(session, judge_of(run, RowSum(), session=session), last(run.trace), 5)
    assert halt.decoded == 0
    assert "there is nothing to sample after step 0: " in halt.words


def test_a_recording_ends_a_run_in_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    session, lean = record(random_loaded(), PROMPT, budget=0)

    def refused(*_: object, **__: object) -> None:
        raise NoWeights

    monkeypatch.setattr(session, "decode", refused)
    monkeypatch.setattr(session, "replay", refused)
    halt = drive(session, judge_of(lean, RowSum(), session=session), Cursor(0, 0), 5)
    assert halt.cursor == last(lean.trace)
    assert halt.words == (
        "No breakpoint was reached, and a capture holds no weights: nothing further can be "
        "computed. 2 events could not be examined: blocks.0.attn.pattern of step 0 was not kept "
        "and cannot be recomputed."
    )


def test_many_verdicts_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_to, "VERDICTS_HELD", 5)
    _, run = record(random_loaded(), PROMPT, DECODED, faults=frozenset({"nan-weight"}))
    pre = run.trace.operation_index("blocks.1.mlp.pre")
    forth = travels(run, (NotFinite(), OnLayer(1)), Cursor(0, 0), 1)
    assert [c for c in forth if c.operation == pre] == [Cursor(step, pre) for step in range(5)]
    assert len(forth) == 10


def test_a_run_can_be_left_between_any_two_updates() -> None:
    session, run = record(random_loaded(), PROMPT)
    going = run_on(judge_of(run, NotFinite(), session=session), last(run.trace), session, 100)
    assert isinstance(going, Generator)
    ended = 0
    for update in going:
        ended += isinstance(update, StepEnded)
        if ended == 2:
            break
    next(going)  # within the third step
    next(going)
    going.close()
    assert len(session.steps) == 3
    assert session.cache.length == 7


def test_what_the_budget_leaves_out_of_new_steps_is_judged_all_the_same() -> None:
    whole_session, whole = record(random_loaded(), PROMPT)
    session, lean = record(random_loaded(), PROMPT, budget=0)
    rule = RowSum(0.0)  # rounding alone is more than nothing
    expected = drive(
        whole_session, judge_of(whole, rule, session=whole_session), last(whole.trace), 3
    )
    assert drive(session, judge_of(lean, rule, session=session), last(lean.trace), 3) == expected
    assert expected.reasons


def test_where_the_past_cannot_be_had_again_it_is_said() -> None:
    faults = frozenset({"stale-cache"})
    session, lean = record(random_loaded(), PROMPT, DECODED, faults=faults, budget=0)
    judge = judge_of(lean, RowSum(), session=session)
    halts = [u for u in run_back(judge, Cursor(4, 0)) if isinstance(u, Halt)]
    assert halts[0].cursor == Cursor(0, 0)
    assert halts[0].words.startswith(
        "No breakpoint before this: the beginning of the run. 8 events"
    )
    assert "cannot be recomputed" in halts[0].words


def test_the_window_leaves_recomputing_to_the_worker() -> None:
    _, lean = record(random_loaded(), PROMPT, budget=0)
    scene = Scene(lean.copy(), sampling=CONFIG, capacity=16, elsewhere=True)
    judge = Judge(scene, [Breakpoint(1, RowSum())])
    with pytest.raises(Elsewhere):
        found(judge, None, 1)
    assert not judge.unexamined


def test_a_long_search_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_to, "PACE", 0.0)
    _, run = record(random_loaded(), PROMPT, DECODED)
    told = list(run_back(judge_of(run, NotFinite()), Cursor(4, 0)))
    assert isinstance(told[-1], Halt)
    assert [u.cursor for u in told if isinstance(u, Searched)][:2] == [
        Cursor(3, len(run.trace.operations) - 1),
        Cursor(3, len(run.trace.operations) - 2),
    ]
    assert len(told) == 4 * len(run.trace.operations) + 1
