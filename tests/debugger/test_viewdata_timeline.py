"""The timeline's data against the run that it shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.run import Run
from decoder_gui.viewdata.timeline import build_timeline
from model.trace import Phase
from tests.debugger.recorded import moment_of, random_loaded, record

PROMPT = (3, 1, 4, 1, 5)
DECODED = (9, 2, 6)


@pytest.fixture(scope="module")
def run() -> Run:
    return record(random_loaded(), PROMPT, DECODED)[1]


def test_one_block_for_the_prefill_and_one_for_each_decoded_token(run: Run) -> None:
    moment = moment_of(random_loaded(), run, 2, 4)
    view = build_timeline(moment)
    assert [block.phase for block in view.blocks] == [Phase.PREFILL] + [Phase.DECODE] * 3
    assert [(block.first, block.last) for block in view.blocks] == [(0, 5), (5, 6), (6, 7), (7, 8)]
    assert view.blocks[0].label == "prefill · 5 tokens in one pass"
    assert [block.label for block in view.blocks[1:]] == [
        moment.pieces[position].text for position in (5, 6, 7)
    ]
    assert view.cursor == Cursor(2, 4)
    assert view.operations == len(run.trace.operations)
    assert view.blocks[2].summary.startswith("Step 2: decode of")


def test_one_token_is_not_called_tokens() -> None:
    loaded = random_loaded()
    run = record(loaded, (3,))[1]
    assert build_timeline(moment_of(loaded, run, 0, 0)).blocks[0].label == (
        "prefill · 1 token in one pass"
    )


def test_places_and_events_are_inverse(run: Run) -> None:
    view = build_timeline(moment_of(random_loaded(), run, 0, 0))
    for operation in range(view.operations):
        cursor = Cursor(1, operation)
        assert view.event_at(1, view.fraction(cursor)) == cursor
    assert view.fraction(Cursor(1, view.operations - 1)) == 1.0
    assert view.event_at(1, -3.0) == Cursor(1, 0)
    assert view.event_at(1, 9.0) == Cursor(1, view.operations - 1)


def test_an_unfinished_step_offers_only_what_is_recorded(run: Run) -> None:
    view = build_timeline(moment_of(random_loaded(), run, 0, 0))
    half = replace(view, blocks=(replace(view.blocks[0], events=3), *view.blocks[1:]))
    assert half.event_at(0, 1.0) == Cursor(0, 2)


def test_breakpoints_are_sorted_and_only_recorded_ones_count(run: Run) -> None:
    moment = moment_of(random_loaded(), run, 0, 0)
    marks = {Cursor(3, 1), Cursor(0, 2), Cursor(9, 0), Cursor(1, 10_000)}
    assert build_timeline(moment, marks).breakpoints == (Cursor(0, 2), Cursor(3, 1))


def test_the_end_offers_a_token_more_until_the_cache_is_full(run: Run) -> None:
    moment = moment_of(random_loaded(), run, 0, 0)
    view = build_timeline(moment)
    assert (view.can_decode, view.end_text, view.end_reason) == (True, "+ decode", "")
    full = build_timeline(moment, exhausted="the cache is full: 16 of 16 positions")
    assert (full.can_decode, full.end_text) == (False, "cache full")
    assert full.end_reason == "the cache is full: 16 of 16 positions"


def test_events_are_described_in_words(run: Run) -> None:
    view = build_timeline(moment_of(random_loaded(), run, 0, 0))
    pattern = run.trace.operation_index("blocks.1.attn.pattern")
    label = run.trace.operations[pattern].label
    count = len(run.trace.operations)
    assert view.describe(Cursor(0, pattern)) == (
        f"prefill · {label}, block 1 · operation {pattern + 1} of {count}"
    )
    assert view.describe(Cursor(1, 0)).startswith(view.blocks[1].label)


def test_a_token_taken_by_hand_says_so() -> None:
    loaded = random_loaded()
    run = record(loaded, PROMPT, DECODED)[1]
    run.mark_by_hand(1)
    summaries = [b.summary for b in build_timeline(moment_of(loaded, run, 0, 0)).blocks]
    assert [text.endswith("taken by hand") for text in summaries] == [False, False, True, False]
