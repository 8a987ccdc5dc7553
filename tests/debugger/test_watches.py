"""Watches: what they read in every step, what they say of changes and gaps, and as data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import BlockReplayed
from decoder_gui.debugger.stopping.spots import InvalidSpot, Reading, Shown, Spot, read, read_row
from decoder_gui.debugger.stopping.watches import (
    Changed,
    Histories,
    WatchList,
    last_change,
    missing_words,
)
from model.sampling import SamplingConfig, distribution
from tests.debugger.recorded import held, logits_of, random_loaded, record

PROMPT, DECODED = (3, 1, 4, 1, 5), (9, 2, 6, 5)
CONFIG = SamplingConfig(temperature=0.5)


@pytest.fixture(scope="module")
def run() -> Run:
    return record(random_loaded(), PROMPT, DECODED)[1]


def read_all(run: Run, *spots: Spot, shown: Shown = Shown.NORM) -> list[tuple[Reading, ...]]:
    watches = WatchList()
    for spot in spots:
        watches = watches.added(spot, shown)
    histories = Histories()
    assert histories.advance(run, CONFIG, watches, 10.0)
    return [histories.readings(watch) for watch in watches]


def test_a_cell_of_the_newest_position_is_read_in_every_step(run: Run) -> None:
    (readings,) = read_all(run, Spot("blocks.1.attn.z", head=2, index=4))
    for step, reading in enumerate(readings):
        assert reading.step == step
        assert reading.position == run.trace.steps[step].last - 1
        assert reading.value == float(held(run.trace, step, "blocks.1.attn.z")[0, 2, -1, 4])


def test_a_cell_at_a_position_exists_in_one_step(run: Run) -> None:
    first, later = read_all(
        run,
        Spot("blocks.0.mlp.post", position=2, index=7),
        Spot("blocks.0.mlp.post", position=6, index=7),
    )
    assert first[0].value == float(held(run.trace, 0, "blocks.0.mlp.post")[0, 2, 7])
    assert [r.value is None for r in first] == [False, True, True, True, True]
    assert [r.value is None for r in later] == [True, True, False, True, True]
    assert missing_words(later) == "position 6 is not in this step in steps 0–1, 3–4"


@pytest.mark.parametrize("shown", Shown)
def test_a_row_is_shown_by_one_number(run: Run, shown: Shown) -> None:
    (readings,) = read_all(run, Spot("blocks.0.ln2"), shown=shown)
    functions: dict[Shown, Callable[..., Any]] = {
        Shown.NORM: np.linalg.norm,
        Shown.MEAN: np.mean,
        Shown.MAX: np.max,
        Shown.MIN: np.min,
    }
    for step, reading in enumerate(readings):
        row = held(run.trace, step, "blocks.0.ln2")[0, -1].astype(np.float64)
        assert reading.value == pytest.approx(float(functions[shown](row)), rel=1e-12)


def test_a_key_that_does_not_exist_yet_is_said_to_be_missing(run: Run) -> None:
    (readings,) = read_all(run, Spot("blocks.0.attn.pattern", head=0, index=7))
    assert missing_words(readings) == "no key 7 in steps 0–2"
    assert readings[3].value == float(held(run.trace, 3, "blocks.0.attn.pattern")[0, 0, -1, 7])


def test_a_probability_follows_the_settings(run: Run) -> None:
    (readings,) = read_all(run, Spot("final", index=9))
    for step, reading in enumerate(readings):
        expected = distribution(logits_of(run.trace, step), CONFIG).final[9]
        assert reading.value == float(expected)
    histories, watches = Histories(), WatchList().added(Spot("final", index=9))
    assert histories.advance(run, CONFIG, watches, 10.0)
    assert histories.advance(run, SamplingConfig(temperature=2.0), watches, 10.0)
    hot = histories.readings(watches.items[0])
    assert [r.value for r in hot] != [r.value for r in readings]


def test_settings_that_change_and_change_back_half_way_leave_nothing_behind(run: Run) -> None:
    watches, histories = WatchList().added(Spot("final", index=9)), Histories()
    assert histories.advance(run, CONFIG, watches, 10.0)
    before = histories.readings(watches.items[0])
    hot = SamplingConfig(temperature=2.0)
    assert not histories.advance(run, hot, watches, 1e-9)
    histories.advance(run, hot, watches, 2e-4)  # as far as it comes
    assert histories.advance(run, CONFIG, watches, 10.0)
    assert histories.readings(watches.items[0]) == before


def test_nan_is_a_value_and_nothing_to_sample_is_none() -> None:
    _, run = record(random_loaded(), PROMPT, DECODED, faults=frozenset({"nan-weight"}))
    nan, none = read_all(run, Spot("blocks.1.mlp.pre", index=0), Spot("raw", index=0))
    assert all(r.value is not None and np.isnan(r.value) for r in nan)
    assert missing_words(none) == "nothing to sample in steps 0–4"
    assert last_change(nan) is None


def test_what_was_not_kept_is_said_and_read_when_it_is_back() -> None:
    whole = record(random_loaded(), PROMPT, DECODED)[1]
    session, lean = record(random_loaded(), PROMPT, DECODED, budget=0)
    spot = Spot("blocks.0.mlp.post", index=3)
    watches, histories = WatchList().added(spot), Histories()
    assert histories.advance(lean, CONFIG, watches, 10.0)
    assert missing_words(histories.readings(watches.items[0])) == "not kept in steps 0–4"
    step = lean.trace.steps[2]
    for update in session.replay(step, 0, held(lean.trace, 2, "blocks.0.resid_pre")):
        assert isinstance(update, BlockReplayed)
        lean.apply(update)
    assert histories.advance(lean, CONFIG, watches, 10.0)
    readings = histories.readings(watches.items[0])
    assert missing_words(readings) == "not kept in steps 0–1, 3–4"
    assert readings[2].value == float(held(whole.trace, 2, spot.array)[0, -1, 3])


def test_a_run_is_read_a_little_at_a_time_and_again_where_it_was_cut(run: Run) -> None:
    watches = WatchList().added(Spot("logits", index=1)).added(Spot("blocks.0.ln1"))
    histories, slices = Histories(), 0
    while not histories.advance(run, CONFIG, watches, 0.0):
        slices += 1
        if slices > 3:
            assert histories.advance(run, CONFIG, watches, 10.0)
            break
    (before, _) = (histories.readings(watch) for watch in watches)
    assert len(before) == 5
    other = run.copy()
    assert histories.advance(other, CONFIG, watches, 10.0)
    other.cut(3)
    assert histories.advance(other, CONFIG, watches, 10.0)
    assert histories.readings(watches.items[0]) == before[:3]


def test_a_step_that_is_not_complete_is_read_when_it_is(run: Run) -> None:
    growing = run.copy()
    growing.cut(4)
    growing.trace.begin(run.trace.steps[4])
    watches, histories = WatchList().added(Spot("logits", index=1)), Histories()
    assert histories.advance(growing, CONFIG, watches, 10.0)
    assert histories.readings(watches.items[0])[4].why == "not computed"
    for event in run.trace._events[4]:
        growing.trace.add(event)
    assert histories.advance(growing, CONFIG, watches, 10.0)
    assert histories.readings(watches.items[0])[4].value == float(logits_of(run.trace, 4)[1])


def readings_of(*values: float | None) -> list[Reading]:
    return [Reading(step, value) for step, value in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.12, 0.12, 0.12, 0.12, 0.35), Changed(4, 0.12, 0.35)),
        ((0.12, 0.35, 0.35), Changed(1, 0.12, 0.35)),
        ((0.5, 0.5), None),
        ((0.5,), None),
        ((), None),
        ((1.0, None, None, 2.0, None), Changed(3, 1.0, 2.0)),
        ((1.0, None, 1.0), None),
    ],
)
def test_the_last_change(values: tuple[float | None, ...], expected: Changed | None) -> None:
    assert last_change(readings_of(*values)) == expected


def test_becoming_nan_is_a_change() -> None:
    changed = last_change(readings_of(1.0, float("nan"), float("nan")))
    assert changed is not None
    assert (changed.step, changed.before) == (1, 1.0)
    assert np.isnan(changed.after)


def test_places_that_cannot_be_are_refused() -> None:
    for bad in ({"array": ""}, {"array": "x", "index": -1}, {"array": "x", "head": 1.5}, ["x"]):
        with pytest.raises(InvalidSpot):
            Spot.from_dict(bad)
    with pytest.raises(InvalidSpot, match="position must be a whole number"):
        Spot("x", position=True)


def test_a_head_that_is_not_there_is_said(run: Run) -> None:
    step = run.trace.steps[0]

    def lookup(at: int, name: str) -> np.ndarray | None:
        found = run.trace.array(at, name)
        return None if found is None else found[0]

    assert read(Spot("blocks.0.attn.q", head=9, index=0), step, lookup).why == "no head 9"
    assert read(Spot("blocks.7.mlp.pre", index=0), step, lookup).why == "not computed"
    row, position, _ = read_row(Spot("blocks.0.attn.q", head=1, position=3), step, lookup)
    assert position == 3
    np.testing.assert_array_equal(row, held(run.trace, 0, "blocks.0.attn.q")[0, 1, 3])


def test_watches_are_saved_and_a_damaged_list_keeps_what_can_be_read() -> None:
    watches = (
        WatchList()
        .added(Spot("blocks.0.attn.pattern", head=1, index=0))
        .added(Spot("blocks.0.ln1"), Shown.MAX)
    )
    assert watches.added(Spot("blocks.0.ln1")) == watches
    again, refused = WatchList.from_list(json.loads(json.dumps(watches.to_list())))
    assert again == watches
    assert refused == ()
    damaged = [{"array": "logits", "shown": "sum"}, 3, *watches.to_list(), {"array": "x", "y": 1}]
    kept, refused = WatchList.from_list(damaged)
    assert [w.spot for w in kept] == [w.spot for w in watches]
    assert [sentence[:8] for sentence in refused] == ["Watch 1 ", "Watch 2 ", "Watch 5 "]
    assert [w.number for w in watches.without(1).added(Spot("logits"))] == [2, 3]
    found = watches.showing(2, Shown.MIN).find(2)
    assert found is not None
    assert found.shown is Shown.MIN
