"""What the Next token panel shows is what the distribution holds, and what it reads it checks."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from decoder_gui.debugger.run import Run
from decoder_gui.viewdata.moment import Choice, Moment
from decoder_gui.viewdata.next_token import Draws, NextToken, build_next_token
from decoder_gui.viewdata.numbers import format_percent
from decoder_gui.viewdata.sampling_controls import Setting, read_seed, sampling_settings
from model.errors import InvalidSampling
from model.sampling import SamplingConfig, distribution
from model.trace import Trace
from tests.debugger.recorded import moment_of, random_loaded, record, tiny_loaded


@cache
def recorded() -> Run:
    return record(random_loaded(), (1, 2, 3), (4, 5))[1]


def shown(
    step: int = 2, operation: str = "sample", draws: Draws | None = None, **settings: Any
) -> tuple[Moment, NextToken]:
    config = SamplingConfig(**settings)
    moment = moment_of(random_loaded(), recorded(), step, operation, sampling=config)
    return moment, build_next_token(moment, draws)


def setting(field: str, vocabulary: int = 1024) -> Setting:
    return next(found for found in sampling_settings(vocabulary) if found.field == field)


@pytest.mark.parametrize("order", ["reference", "hugging-face", "llama.cpp"])
def test_every_row_equals_the_distribution(order: str) -> None:
    moment, view = shown(temperature=0.7, top_p=0.6, top_k=9, order=order)
    logits = moment.trace.logits(2)
    assert logits is not None
    expected = distribution(logits, moment.sampling)
    assert len(view.rows) == 20
    for row in view.rows:
        assert row.raw == expected.raw[row.token_id]
        assert row.tempered == expected.tempered[row.token_id]
        assert row.final == expected.final[row.token_id]
        assert row.raw_text == format_percent(row.raw)
        assert row.final_text == (row.cut or format_percent(row.final))
        assert bool(row.cut) == (expected.cut_name(row.token_id) is not None)
        assert row.text in row.spoken
    assert [row.raw for row in view.rows] == sorted((row.raw for row in view.rows), reverse=True)
    assert any(row.cut == "top-p" for row in view.rows)
    assert view.summary.startswith(f"{expected.kept_count} of 40 tokens kept")
    assert f"entropy {expected.entropy:.2f} nats" in view.summary
    assert f"{expected.effective:.1f} effective choices" in view.summary


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"top_k": 2}, "top-k"),
        ({"top_p": 0.05}, "top-p"),
        ({"min_p": 0.9}, "min-p"),
        ({"temperature": 0.0}, "greedy"),
    ],
)
def test_a_cut_token_says_what_cut_it(settings: dict[str, Any], word: str) -> None:
    _, view = shown(**settings)
    last = view.rows[-1]
    assert (last.cut, last.final_text, last.final) == (word, word, 0.0)
    assert f"cut by {word}" in last.spoken


def test_the_mass_outside_the_rows_is_stated() -> None:
    moment, view = shown(temperature=1.5)
    whole = moment.distribution
    assert whole is not None
    listed = [row.token_id for row in view.rows]
    raw = 1 - whole.raw[listed].sum()
    final = 1 - whole.final[listed].sum()
    rest = 40 - len(listed)
    assert view.outside == (
        f"{rest} tokens not listed: raw {format_percent(raw)}, final {format_percent(final)}"
    )


def test_no_final_mass_is_outside_when_every_kept_token_is_listed() -> None:
    _, view = shown(top_k=3)
    assert view.outside.endswith("final 0.0%")


def test_every_token_listed_is_said_so() -> None:
    run = record(tiny_loaded(), (0, 1))[1]
    view = build_next_token(moment_of(tiny_loaded(), run, 0, "sample"))
    assert view.outside == "every token is listed"
    assert [row.raw_text for row in view.rows] == ["48.3%", "28.1%", "18.3%", "5.4%"]


def test_how_many_rows_are_listed_changes_nothing_else() -> None:
    moment, view = shown(temperature=1.3)
    few = build_next_token(replace(moment, candidates=moment.candidates[:4]))
    kept = [row for row in few.rows if row.landing]
    assert [row.token_id for row in kept] == [row.token_id for row in view.rows if row.landing]
    assert few.summary == view.summary


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("order", ["reference", "llama.cpp"])
def test_the_landing_token_is_listed_even_below_the_candidates(
    temperature: float, order: str
) -> None:
    moment, _ = shown(temperature=temperature, top_k=30, order=order)
    expected = moment.distribution
    assert expected is not None
    for token in (_least_likely(moment), int(expected.ranking.order[25])):
        view = build_next_token(replace(moment, landing=Choice(token, -9.0)))
        assert len(view.rows) == 21
        row = view.rows[-1]
        assert row.landing
        assert row.token_id == token
        assert (row.raw, row.tempered, row.final) == (
            expected.raw[token],
            expected.tempered[token],
            expected.final[token],
        )
        assert bool(row.cut) == (expected.cut_name(token) is not None)
        assert "the held draw lands here" in row.spoken
        assert sum(row.landing for row in view.rows) == 1


def _least_likely(moment: Moment) -> int:
    assert moment.distribution is not None
    return int(np.argmin(moment.distribution.raw))


def test_an_older_step_marks_what_was_taken_and_says_that_a_fork_is_a_branch() -> None:
    _, view = shown(step=0)
    (taken,) = [row for row in view.rows if row.taken]
    assert taken.token_id == 4
    assert "taken at this step" in taken.spoken
    assert view.take_text.startswith("Fork ")
    assert "in a new branch: 2 later steps stay in this one" in view.take_tip
    assert "another token begins a branch" in view.branch
    assert "2 later steps stay in this one" in view.resample_tip
    _, newest = shown(step=2)
    assert newest.take_text.startswith("Take ")
    assert not newest.branch
    assert not any(row.taken for row in newest.rows)


def test_where_the_draw_lands_on_what_was_taken_there_is_nothing_to_fork() -> None:
    moment, _ = shown(step=0)
    assert moment.landing is not None
    same = replace(moment, choices=(moment.landing, *moment.choices[1:]))
    view = build_next_token(same)
    assert view.take_text.startswith("Go to ")
    assert "was taken here" in view.take_tip


def test_before_its_logits_the_outcome_of_the_step_is_shown_and_said_to_be_later() -> None:
    _, early = shown(operation="blocks.1.attn.pattern")
    _, late = shown(operation="logits")
    assert early.hint == "computed later in this step"
    assert late.hint == "raw → final"
    assert early.rows == late.rows


def test_the_held_draw_is_named_exactly_and_greedy_draws_nothing() -> None:
    moment, view = shown()
    assert moment.step is not None
    assert view.draw == f"draw {moment.step.uniform:.3f} held"
    assert repr(moment.step.uniform) in view.draw_exact
    _, greedy = shown(temperature=0.0)
    assert greedy.draw == "greedy, nothing drawn"
    assert not greedy.can_resample
    assert greedy.can_take


def test_a_full_cache_takes_nothing_at_the_newest_step_only() -> None:
    moment, _ = shown()
    view = build_next_token(moment, exhausted="the cache is full")
    assert not view.can_take
    assert view.take_tip == "the cache is full"
    older, _ = shown(step=0)
    assert build_next_token(older, exhausted="the cache is full").can_take


@pytest.mark.parametrize(("value", "word"), [(math.nan, "is NaN"), (math.inf, "is +infinity")])
def test_logits_that_are_no_numbers_are_refused_naming_the_token(value: float, word: str) -> None:
    moment, _ = shown()
    broken = _with_logit(moment, 17, value)
    view = build_next_token(broken)
    assert not view.rows
    assert view.non_finite
    assert "token 17" in view.refusal
    assert word in view.refusal
    assert not view.can_take


def _with_logit(moment: Moment, token: int, value: float) -> Moment:
    """The moment as it would be had one logit of its step been another value."""
    assert moment.cursor is not None
    trace = Trace(moment.trace.operations, moment.trace.shape)
    for step in moment.trace.steps:
        trace.begin(step)
        for index in range(moment.trace.events_in(step.index)):
            event = moment.trace._events[step.index][index]
            arrays = dict(event.arrays)
            if step.index == moment.cursor.step and "logits" in arrays:
                logits = arrays["logits"].copy()
                logits[0, -1, token] = value
                arrays["logits"] = logits
            trace.add(replace(event, arrays=arrays))
    return replace(moment, trace=trace, distribution=None, candidates=(), landing=None)


def test_nothing_computed_yet_is_said_quietly() -> None:
    view = build_next_token(None)
    assert not view.rows
    assert not view.non_finite
    assert "Prefill" in view.refusal


def test_observed_shares_stand_beside_the_expected_with_their_error() -> None:
    moment, _ = shown(top_k=4)
    assert moment.distribution is not None
    counts = np.zeros(40, dtype=np.int64)
    counts[moment.distribution.kept] = [400, 300, 200, 100]
    _, view = shown(draws=Draws(counts), top_k=4)
    assert [row.observed for row in view.rows[:4]] == [0.4, 0.3, 0.2, 0.1]
    assert view.rows[4].observed == 0.0
    error = max(math.sqrt(row.final * (1 - row.final) / 1000) for row in view.rows)
    assert view.observed.startswith("1,000 draws: standard error")
    assert f"up to {format_percent(error)}" in view.observed
    off = max(abs(row.final - (row.observed or 0.0)) for row in view.rows)
    assert format_percent(off) in view.observed


def test_a_new_seed_is_said_to_wait_for_the_next_prefill() -> None:
    _, same = shown(seed=41)
    _, other = shown(seed=42)
    assert same.seed_note == ""
    assert "42 applies at the next Prefill" in other.seed_note


def test_bars_keep_their_scale_while_a_slider_moves_a_little() -> None:
    scales = {shown(temperature=t / 100)[1].full_width for t in range(95, 105)}
    assert len(scales) <= 2
    for t in (0.05, 0.5, 1.0, 5.0):
        _, view = shown(temperature=t)
        highest = max(max(row.raw, row.tempered, row.final) for row in view.rows)
        assert highest <= view.full_width * 1.000001
        assert view.full_width <= 2 * highest


# --- the controls -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("temperature", "0.8", 0.8),
        ("temperature", " .5 ", 0.5),
        ("temperature", "0", 0.0),
        ("temperature", "greedy", 0.0),
        ("temperature", "1e-40", 1e-40),
        ("temperature", "37.5", 37.5),
        ("top_k", "off", 0.0),
        ("top_k", "Off", 0.0),
        ("top_k", "5000", 5000.0),
        ("top_p", "1", 1.0),
        ("top_p", "off", 1.0),
        ("top_p", "1e-8", 1e-8),
        ("min_p", "0.05", 0.05),
        ("min_p", "off", 0.0),
    ],
)
def test_possible_values_are_taken_exactly(field: str, text: str, value: float) -> None:
    assert setting(field).read(text) == value
    settings: dict[str, Any] = {field: int(value) if field == "top_k" else value}
    assert getattr(SamplingConfig(**settings), field) == value


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("temperature", "-1", "any positive number"),
        ("temperature", "−1", "any positive number"),  # U+2212
        ("temperature", "nan", "any positive number"),
        ("temperature", "inf", "any positive number"),
        ("temperature", "1e999", "any positive number"),
        ("temperature", "0,8", "decimal sign is “.”"),
        ("temperature", "", "any positive number"),
        ("temperature", "1_0", "any positive number"),
        ("top_k", "-1", "whole number from 1"),
        ("top_k", "2.5", "whole number from 1"),
        ("top_k", "many", "1,024 keeps every token"),
        ("top_p", "0", "above 0 and up to 1"),
        ("top_p", "1.01", "above 0 and up to 1"),
        ("top_p", "90%", "above 0 and up to 1"),
        ("min_p", "1.5", "from 0 (off) to 1"),
    ],
)
def test_impossible_values_are_refused_naming_the_range(field: str, text: str, words: str) -> None:
    with pytest.raises(InvalidSampling) as refusal:
        setting(field).read(text)
    assert words in str(refusal.value)


@pytest.mark.parametrize("vocabulary", [1, 4, 1024, 151_936])
def test_top_k_goes_from_off_to_the_vocabulary_each_count_once(vocabulary: int) -> None:
    stops = setting("top_k", vocabulary).stops
    assert stops[:2] == (0.0, 1.0)
    assert stops[-1] == vocabulary
    assert list(stops) == sorted(set(stops))
    assert len(stops) <= 164


@pytest.mark.parametrize("field", ["temperature", "top_k", "top_p", "min_p"])
def test_every_stop_survives_being_written_and_read(field: str) -> None:
    found = setting(field)
    for index, stop in enumerate(found.stops):
        assert found.read(found.write(stop)) == stop
        assert found.nearest(stop) == index
    assert found.nearest(1e9) == len(found.stops) - 1


def test_seeds_are_whole_numbers() -> None:
    assert read_seed(" 41 ") == 41
    assert read_seed(str(2**100)) == 2**100
    for text in ("-1", "4.5", "", "x", "9" * 80):
        with pytest.raises(InvalidSampling, match="whole number"):
            read_seed(text)
