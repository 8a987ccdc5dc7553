"""The context: what a user's commands do to the state, through the real worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from decoder_gui import check_schedule
from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor, Granularity, first, last
from decoder_gui.waiting import wait_until
from model.errors import InvalidSampling
from tests.gui.conftest import STORY, settle
from tests.model.gguf_files import write_small

# Commands and the checks between them share one worker, as in the window.
pytestmark = pytest.mark.checked


def position(context: AppContext) -> Cursor:
    assert context.cursor is not None
    return context.cursor


def texts(context: AppContext) -> list[str]:
    assert context.moment is not None
    return [piece.text for piece in context.moment.pieces]


def listen(context: AppContext) -> list[str]:
    heard: list[str] = []
    context.notice.connect(heard.append)
    return heard


def test_a_prompt_ends_on_the_last_operation_of_the_prefill(
    make_context: Callable[..., AppContext],
) -> None:
    context = make_context("stories", STORY)
    assert context.trace is not None
    assert context.cursor == last(context.trace)
    assert len(context.trace.steps) == 1
    assert context.at_end
    assert all(check.holds for check in context.checks)
    assert context.checks


def test_thirty_steps_forward_and_thirty_back_are_the_same_moment(
    stories_context: AppContext,
) -> None:
    context = stories_context
    context.go_first()
    moments = [context.moment]
    for _ in range(30):
        context.move(1)
        moments.append(context.moment)
    for expected in reversed(moments[:-1]):
        context.move(-1)
        assert context.moment is not None
        assert expected is not None
        assert context.moment.cursor == expected.cursor
        assert context.moment.selection == expected.selection
        assert context.moment.candidates == expected.candidates


def test_stepping_past_the_end_asks_the_worker_for_one_more_token(
    stories_context: AppContext,
) -> None:
    context = stories_context
    assert context.trace is not None
    assert context.moment is not None
    steps = len(context.trace.steps)
    landing = context.moment.landing
    assert landing is not None
    context.move(1)
    settle(context)
    assert len(context.trace.steps) == steps + 1
    assert context.trace.steps[-1].token_ids == (landing.token_id,)
    assert context.cursor == Cursor(steps, 0)
    context.set_granularity(Granularity.TOKEN)
    context.move(1)
    context.move(1)
    settle(context)
    assert len(context.trace.steps) == steps + 2
    assert context.at_end


def test_settings_move_the_landing_and_never_the_draw(stories_context: AppContext) -> None:
    context = stories_context
    assert context.trace is not None
    uniforms = [step.uniform for step in context.trace.steps]
    states = [step.checkpoint.generator_state for step in context.trace.steps]
    events = len(context.trace)
    landings = set()
    for temperature in (0.0, 0.3, 1.0, 3.0, 50.0):
        context.set_sampling(temperature=temperature)
        assert context.moment is not None
        assert context.moment.landing is not None
        landings.add(context.moment.landing.token_id)
    assert len(landings) > 1
    assert [step.uniform for step in context.trace.steps] == uniforms
    assert [step.checkpoint.generator_state for step in context.trace.steps] == states
    assert len(context.trace) == events
    with pytest.raises(InvalidSampling):
        context.set_sampling(top_p=0.0)
    assert context.sampling.temperature == 50.0


def test_how_many_candidates_are_listed_changes_nothing(stories_context: AppContext) -> None:
    context = stories_context
    context.displayed = 3
    context.set_sampling(temperature=0.9)
    few = context.moment
    context.displayed = 200
    context.set_sampling(temperature=0.91)
    context.set_sampling(temperature=0.9)
    many = context.moment
    assert few is not None
    assert many is not None
    assert few.landing == many.landing
    assert (len(few.candidates), len(many.candidates)) == (3, 200)


def test_taking_a_token_by_hand_forks_there(stories_context: AppContext) -> None:
    context = stories_context
    assert context.trace is not None
    context.seek(Cursor(2, len(context.trace.operations) - 1))
    assert context.moment is not None
    before = context.trace.token_ids[: context.trace.steps[2].last]
    other = next(
        candidate.token_id
        for candidate in context.moment.candidates
        if context.moment.landing and candidate.token_id != context.moment.landing.token_id
    )
    context.take(other)
    settle(context)
    assert context.trace.token_ids == (*before, other)
    assert context.at_end
    assert context.moment.choices[2].token_id == other
    assert context.moment.choices[2].by_hand
    assert not context.moment.choices[1].by_hand


def test_resampling_holds_another_number_and_says_so(stories_context: AppContext) -> None:
    context = stories_context
    heard = listen(context)
    assert context.trace is not None
    before = context.trace.steps[-1].uniform
    context.resample()
    settle(context)
    after = context.trace.steps[-1].uniform
    assert after != before
    assert f"{after:.3f}" in heard[-1]


def test_a_thousand_draws_leave_the_session_alone(stories_context: AppContext) -> None:
    context = stories_context
    assert context.trace is not None
    state = context.trace.steps[-1].checkpoint.generator_state
    counts = context.draws(1000)
    assert counts.sum() == 1000
    assert context.trace.steps[-1].checkpoint.generator_state == state
    assert context.moment is not None
    assert context.moment.distribution is not None
    assert not counts[context.moment.distribution.final == 0].any()


def test_panels_hear_of_verdicts_together_at_the_end(
    make_context: Callable[..., AppContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_schedule, "SHOWN_AFTER", 600_000)
    context = make_context("tiny", "The cat", temperature=0.0)
    told: list[int] = []

    def hear(change: Change) -> None:
        if change & Change.CHECKS:
            told.append(len(context.checks))

    context.checks = ()
    context.changed.connect(hear)
    context.run_checks()
    assert context.checks_pending
    settle(context)
    assert set(told) == {0, len(context.checks)}
    assert len(context.checks) > 2


def test_verdicts_that_take_long_are_shown_before_the_last(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_schedule, "SHOWN_AFTER", 1)
    parent = QObject()
    schedule = check_schedule.CheckSchedule(parent)
    schedule.begun()
    with qtbot.waitSignal(schedule.verdicts):
        schedule.arrived()
    schedule.arrived()
    schedule.ended()  # whoever hears of the end shows the rest
    with qtbot.assertNotEmitted(schedule.verdicts, wait=20):
        pass


def test_a_fault_runs_the_same_tokens_again_and_a_check_fails(
    stories_context: AppContext,
) -> None:
    context = stories_context
    assert context.trace is not None
    tokens, here = context.trace.token_ids, position(context)
    logits = context.trace.logits(3)
    context.set_fault("no-mask", True)
    settle(context)
    assert context.trace.token_ids == tokens
    assert context.cursor == here
    failed = [check for check in context.checks if not check.holds]
    assert {"causal-weights", "causal-behaviour"} <= {check.name for check in failed}
    assert all("no-mask" in check.detail for check in failed)
    context.clear_faults()
    settle(context)
    assert all(check.holds for check in context.checks)
    restored = context.trace.logits(3)
    assert logits is not None
    assert restored is not None
    assert restored.tobytes() == logits.tobytes()


def test_nothing_is_sampled_from_ruined_logits(stories_context: AppContext) -> None:
    context = stories_context
    heard = listen(context)
    context.set_fault("nan-weight", True)
    settle(context)
    assert context.moment is not None
    assert context.moment.landing is None
    assert "NaN" in context.moment.sampling_refusal
    assert context.trace is not None
    steps = len(context.trace.steps)
    context.go_last()
    context.move(1)
    settle(context)
    assert len(context.trace.steps) == steps
    assert "NaN" in heard[-1]


def test_a_full_cache_stops_generation_in_words(
    make_context: Callable[..., AppContext],
) -> None:
    context = make_context("tiny", "The cat sat .")
    heard = listen(context)
    assert "full" in context.exhausted
    context.move(1)
    settle(context)
    assert context.trace is not None
    assert len(context.trace.steps) == 1
    assert "4" in heard[-1]


def test_a_prompt_that_does_not_fit_is_reported_and_never_cut(
    make_context: Callable[..., AppContext], qtbot: QtBot
) -> None:
    context = make_context("tiny", "The cat")
    tokens = context.trace.token_ids if context.trace else ()
    with qtbot.waitSignal(context.overflowed) as blocker:
        context.prefill("The cat sat . The")
    assert blocker.args == [[0, 1, 2, 3, 0], 4]
    settle(context)
    assert context.trace is not None
    assert context.trace.token_ids == tokens


@pytest.mark.parametrize(("prompt", "words"), [("", "at least one"), ("The dog", "dog")])
def test_a_refused_prompt_leaves_the_run_as_it_is(
    tiny_context: AppContext, prompt: str, words: str
) -> None:
    heard = listen(tiny_context)
    before = tiny_context.trace.token_ids if tiny_context.trace else ()
    tiny_context.prefill(prompt)
    settle(tiny_context)
    assert words in heard[-1]
    assert tiny_context.trace is not None
    assert tiny_context.trace.token_ids == before


def test_a_model_that_cannot_be_opened_leaves_the_one_in_hand(
    tiny_context: AppContext,
) -> None:
    heard = listen(tiny_context)
    tiny_context.open_model("no-such-model")
    settle(tiny_context)
    assert "no-such-model" in heard[-1]
    assert tiny_context.model is not None
    assert tiny_context.model.name == "tiny"
    assert tiny_context.trace is not None
    assert len(tiny_context.trace.steps) == 2


def test_another_context_runs_the_same_tokens(stories_context: AppContext) -> None:
    context = stories_context
    heard = listen(context)
    assert context.trace is not None
    tokens = context.trace.token_ids
    context.set_capacity(32)
    settle(context)
    assert context.capacity == 32
    assert context.trace.token_ids == tokens
    context.set_capacity(4)
    assert "do not fit" in heard[-1]
    context.set_capacity(1000)
    assert "128" in heard[-1]
    assert context.capacity == 32


def test_run_goes_to_breakpoints_in_both_directions(stories_context: AppContext) -> None:
    context = stories_context
    assert context.trace is not None
    softmax = context.trace.operation_index("blocks.2.attn.pattern")
    marks = [Cursor(1, softmax), Cursor(3, softmax)]
    for mark in marks:
        context.toggle_breakpoint(mark)
    context.go_first()
    visited = []
    for _ in range(2):
        context.run()
        settle(context)
        visited.append(context.cursor)
    assert visited == marks
    context.run()
    settle(context)
    assert context.at_end
    context.run(-1)
    settle(context)
    assert context.cursor == marks[1]
    context.toggle_breakpoint()
    assert context.breakpoints == {marks[0]}
    context.run(-1)
    settle(context)
    context.run(-1)
    settle(context)
    assert context.cursor == first(context.trace)


def test_play_moves_by_itself_and_stops(stories_context: AppContext, qtbot: QtBot) -> None:
    context = stories_context
    context.go_first()
    context.set_play_rate(100.0)
    context.toggle_play()
    assert context.playing
    assert wait_until(lambda: position(context).operation >= 4, 10_000)
    context.toggle_play()
    here = position(context)
    qtbot.wait(50)
    assert context.cursor == here


def test_cancelling_keeps_the_last_complete_step(
    make_context: Callable[..., AppContext],
) -> None:
    context = make_context("stories", STORY)
    heard = listen(context)
    context.prefill(STORY, tokens=100)
    assert wait_until(lambda: context.trace is not None and len(context.trace.steps) > 4)
    context.cancel()
    settle(context)
    assert context.trace is not None
    assert 3 < len(context.trace.steps) < 100
    assert context.trace.complete(len(context.trace.steps) - 1)
    assert any("Cancelled" in sentence for sentence in heard)
    context.move(1)
    settle(context)
    assert context.trace.complete(len(context.trace.steps) - 1)


def test_changes_are_told_once_per_command(stories_context: AppContext) -> None:
    told: list[Change] = []
    stories_context.changed.connect(told.append)
    stories_context.move(-1)
    stories_context.select(head=2)
    stories_context.set_sampling(top_k=5)
    stories_context.select(head=2)
    assert told == [Change.CURSOR, Change.SELECTION, Change.SAMPLING]


def test_the_seed_of_the_settings_is_used_by_the_next_prompt(
    make_context: Callable[..., AppContext],
) -> None:
    runs = []
    for seed in (1, 1, 2):
        context = make_context("stories", STORY, tokens=8, seed=seed)
        runs.append(texts(context))
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_the_token_that_begins_a_text_is_shown_and_kept(
    make_context: Callable[..., AppContext], tmp_path: Path
) -> None:
    path = write_small(tmp_path / "a.gguf")
    context = make_context(str(path), "ab")
    assert texts(context) == ["<s>", "ab"]
    assert context.moment is not None
    assert [piece.special for piece in context.moment.pieces] == [True, False]
    assert context.prompt == "ab"
    assert context.prompt_ids == (0, 3)


def draws(context: AppContext) -> list[float]:
    assert context.trace is not None
    return [step.uniform for step in context.trace.steps]


@pytest.mark.parametrize("changes", [{}, {"temperature": 0.0}, {"seed": 7}])
def test_running_the_same_tokens_again_holds_the_same_draws(
    stories_context: AppContext, changes: dict[str, float]
) -> None:
    context = stories_context
    context.resample()
    settle(context)
    held = draws(context)
    context.set_sampling(**changes)
    context.set_fault("no-scale", True)
    settle(context)
    assert draws(context) == held
    context.set_capacity(100)
    settle(context)
    assert draws(context) == held


def test_wishes_that_come_faster_than_the_worker_add_up(stories_context: AppContext) -> None:
    context = stories_context
    assert context.trace is not None
    tokens, here = context.trace.token_ids, position(context)
    context.set_fault("no-mask", True)
    context.set_capacity(100)
    context.set_fault("no-scale", True)
    settle(context)
    assert context.faults == {"no-mask", "no-scale"}
    assert context.capacity == 100
    assert context.trace.token_ids == tokens
    assert context.cursor == here
    context.set_fault("no-mask", False)
    context.clear_faults()
    settle(context)
    assert not context.faults
    assert context.trace.token_ids == tokens


def test_a_fault_that_comes_in_the_middle_of_another_loses_no_token(
    stories_context: AppContext, qtbot: QtBot
) -> None:
    context = stories_context
    assert context.trace is not None
    tokens = context.trace.token_ids
    context.set_fault("no-mask", True)
    qtbot.waitUntil(lambda: "no-mask" in context.faults)  # opened; the steps are on their way
    context.set_fault("no-scale", True)
    settle(context)
    assert context.faults == {"no-mask", "no-scale"}
    assert context.trace.token_ids == tokens


def test_a_fault_right_behind_a_prompt_or_a_model_is_one_of_the_new_run(
    stories_context: AppContext,
) -> None:
    context = stories_context
    heard = listen(context)
    context.prefill("Once upon a time")
    context.set_fault("no-scale", True)
    settle(context)
    assert "".join(texts(context)) == "Once␣upon␣a␣time"
    context.open_model("tiny")
    context.set_fault("no-mask", True)
    settle(context)
    assert context.model is not None
    assert (context.model.name, context.capacity) == ("tiny", 4)
    assert context.faults == {"no-scale", "no-mask"}
    assert heard == []
