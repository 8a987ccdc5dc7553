"""What the Watches panel says, compared with the trace."""

from __future__ import annotations

import math

import pytest

from decoder_gui.debugger.run import Run
from decoder_gui.debugger.stopping.spots import Shown, Spot
from decoder_gui.debugger.stopping.watches import Histories, WatchList
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_value
from decoder_gui.viewdata.watches import NO_WATCHES, WatchRow, build_watches
from model.sampling import SamplingConfig
from tests.debugger.recorded import held, moment_of, random_loaded, record

PROMPT, DECODED = (3, 1, 4, 1, 5), (9, 2, 6, 5)


@pytest.fixture(scope="module")
def run() -> Run:
    return record(random_loaded(), PROMPT, DECODED)[1]


def row_of(run: Run, moment: Moment, spot: Spot, shown: Shown = Shown.NORM) -> WatchRow:
    watches, histories = WatchList().added(spot, shown), Histories()
    assert histories.advance(run, moment.sampling, watches, 10.0)
    (row,) = build_watches(moment, watches.items, histories.readings).rows
    return row


def at(run: Run, step: int, operation: str) -> Moment:
    return moment_of(random_loaded(), run, step, operation)


def test_without_watches_it_says_how_to_make_one(run: Run) -> None:
    view = build_watches(at(run, 0, "embed"), (), lambda watch: ())
    assert view.message == NO_WATCHES
    assert view.rows == ()


def test_the_value_at_the_cursor_is_that_of_the_trace(run: Run) -> None:
    spot = Spot("blocks.0.attn.pattern", head=1, index=2)
    row = row_of(run, at(run, 3, "blocks.0.attn.pattern"), spot)
    value = float(held(run.trace, 3, spot.array)[0, 1, -1, 2])
    assert row.value == format_value(value, 4)
    assert (row.now, row.here, row.later) == (3, 3, 4)
    assert row.note == ""
    assert row.label == "blocks.0.attn.pattern"
    assert row.place == "head 1 · newest position · key 2 “[id 4]”"


def test_before_the_operation_the_value_of_the_step_before_is_shown_as_such(run: Run) -> None:
    spot = Spot("blocks.0.attn.pattern", head=1, index=2)
    row = row_of(run, at(run, 3, "blocks.0.attn.scores"), spot)
    value = float(held(run.trace, 2, spot.array)[0, 1, -1, 2])
    assert row.value == format_value(value, 4)
    assert row.note == "from step 2"
    assert (row.now, row.later) == (2, 3)
    assert row.point_words(4).endswith(", after the cursor")
    assert not row.point_words(2).endswith(", after the cursor")
    nothing = row_of(run, at(run, 0, "embed"), spot)
    assert (nothing.value, nothing.note, nothing.now) == ("no value", "Not computed yet", -1)
    assert nothing.history == ""


def test_the_last_change_is_told_with_both_values(run: Run) -> None:
    spot = Spot("blocks.0.mlp.post", index=3)
    row = row_of(run, at(run, 3, "sample"), spot)
    before, after = (float(held(run.trace, step, spot.array)[0, -1, 3]) for step in (2, 3))
    assert row.history == (
        f"last changed at step 3: {format_value(before, 4)} → {format_value(after, 4)}"
    )


def test_a_position_is_computed_once_and_stays_known(run: Run) -> None:
    row = row_of(run, at(run, 4, "embed"), Spot("blocks.0.ln1", position=6, index=0))
    assert row.value == format_value(float(held(run.trace, 2, "blocks.0.ln1")[0, 0, 0]), 4)
    assert row.note == "from step 2"
    assert row.history == "computed in step 2, where its position is processed"
    assert row.missing == "position 6 is not in this step in steps 0–1, 3–4"


def test_a_row_shows_its_other_numbers_too(run: Run) -> None:
    row = row_of(run, at(run, 1, "sample"), Spot("blocks.1.resid_post"), Shown.MEAN)
    values = held(run.trace, 1, "blocks.1.resid_post")[0, -1].astype("float64")
    assert row.value == format_value(float(values.mean()), 4)
    norm = math.sqrt(float(values @ values))
    assert row.note == (
        f"norm {format_value(norm)} · max {format_value(float(values.max()))} · "
        f"min {format_value(float(values.min()))}"
    )
    assert row.place == "newest position · whole row, mean"


def test_nan_is_a_word_and_no_place_on_the_scale() -> None:
    _, run = record(random_loaded(), PROMPT, DECODED, faults=frozenset({"nan-weight"}))
    row = row_of(run, at(run, 2, "logits"), Spot("blocks.1.mlp.pre", index=0))
    assert row.value == "NaN"
    assert row.bad
    assert row.range is None
    assert "NaN" in row.words
    assert row.history == "unchanged since step 0"


def test_a_probability_is_named_with_its_token(run: Run) -> None:
    moment = at(run, 2, "sample")
    row = row_of(run, moment, Spot("raw", index=9))
    assert moment.distribution is not None
    assert row.value == format_value(float(moment.distribution.raw[9]), 4)
    assert row.label == "probability, raw"
    assert row.place == "newest position · token 9 “[id 9]”"


def test_equal_digits_are_told_apart(run: Run) -> None:
    other = run.copy()
    for step, value in ((3, 0.50001), (4, 0.50002)):
        event = other.trace._events[step][other.trace.producer("logits")]
        array = event.arrays["logits"].copy()
        array[0, -1, 0] = value
        other.trace._events[step][event.operation] = type(event)(
            step, event.operation, {"logits": array}
        )
    row = row_of(other, at(other, 4, "sample"), Spot("logits", index=0))
    assert row.history == "last changed at step 4: 0.500010014 → 0.500020027"  # float32's nearest


def test_steps_are_counted_in_the_caption(run: Run) -> None:
    watches = WatchList().added(Spot("logits", index=0))
    histories = Histories()
    histories.advance(run, SamplingConfig(), watches, 10.0)
    view = build_watches(at(run, 0, "embed"), watches.items, histories.readings)
    assert view.hint == "1 watch over 5 steps"
