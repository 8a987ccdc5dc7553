"""The token strip's data against the run that it shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from decoder_gui.debugger.run import Run
from decoder_gui.viewdata.moment import Selection
from decoder_gui.viewdata.token_strip import (
    CACHE,
    CAUSAL,
    ChipState,
    build_status,
    build_token_strip,
)
from model.checks import CheckResult
from model.tokenizers import Piece
from model.trace import Phase
from tests.debugger.recorded import moment_of, random_loaded, record

PROMPT = (3, 1, 4, 1, 5)
DECODED = (9, 2, 6)
LAST = "sample"


@pytest.fixture(scope="module")
def run() -> Run:
    return record(random_loaded(), PROMPT, DECODED)[1]


def test_a_cell_for_each_position_with_its_step_and_phase(run: Run) -> None:
    view = build_token_strip(moment_of(random_loaded(), run, 3, LAST))
    assert [cell.token_id for cell in view.cells] == [*PROMPT, *DECODED]
    assert [cell.position for cell in view.cells] == list(range(8))
    assert [cell.step for cell in view.cells] == [0] * 5 + [1, 2, 3]
    assert [cell.phase for cell in view.cells] == [Phase.PREFILL] * 5 + [Phase.DECODE] * 3
    assert view.pending == 8


def test_the_numbers_are_those_of_the_run_in_nats(run: Run) -> None:
    view = build_token_strip(moment_of(random_loaded(), run, 3, LAST))
    exact = run.log_probabilities
    assert exact[0] is None
    assert view.shown_log_probability(0) == ""
    for position in range(1, 8):
        number = exact[position]
        assert number is not None
        assert view.cells[position].log_probability == number
        assert float(view.shown_log_probability(position)) == pytest.approx(number, abs=0.005)
        assert f"{number:.6g} nats" in view.cells[position].whole()
        assert "nats" not in view.cells[position].whole(computed=False)


def test_a_prompt_has_no_numbers_before_its_logits(run: Run) -> None:
    loaded = random_loaded()
    early = build_token_strip(moment_of(loaded, run, 0, "blocks.1.attn.pattern"))
    late = build_token_strip(moment_of(loaded, run, 0, LAST))
    assert [early.shown_log_probability(p) for p in range(8)] == [""] * 8
    assert all(late.shown_log_probability(p) for p in range(1, 5))


def test_what_comes_later_is_marked_and_has_no_number(run: Run) -> None:
    view = build_token_strip(moment_of(random_loaded(), run, 1, 0))
    assert view.existing == 6
    assert view.in_hand == 5
    assert view.step_positions == (5, 6)
    assert view.shown_log_probability(5) != ""
    assert [view.shown_log_probability(p) for p in (6, 7)] == ["", ""]


@pytest.mark.parametrize(("query", "in_hand"), [(None, 4), (2, 2), (7, 4)])
def test_in_the_prefill_the_selected_query_is_in_hand(
    run: Run, query: int | None, in_hand: int
) -> None:
    moment = moment_of(random_loaded(), run, 0, LAST, Selection(query=query))
    view = build_token_strip(moment)
    assert view.in_hand == in_hand
    assert view.step_positions == (0, 5)


def test_no_pending_cell_when_the_cache_is_full(run: Run) -> None:
    moment = replace(moment_of(random_loaded(), run, 3, LAST), capacity=8)
    assert build_token_strip(moment).pending is None


def test_nothing_in_hand_before_anything_is_computed(run: Run) -> None:
    moment = replace(moment_of(random_loaded(), run, 0, 0), cursor=None)
    view = build_token_strip(moment)
    assert (view.in_hand, view.existing, view.pending) == (None, 0, None)
    assert build_status(moment, (), pending=False) == ()


def test_cells_are_used_again_while_nothing_changes(run: Run) -> None:
    loaded = random_loaded()
    first = build_token_strip(moment_of(loaded, run, 1, 3))
    second = build_token_strip(moment_of(loaded, run, 2, 5), first)
    assert second.cells is first.cells
    assert second != first
    other = record(loaded, PROMPT, (9, 2, 7))[1]
    third = build_token_strip(moment_of(loaded, other, 3, LAST), first)
    assert third.cells[6] is first.cells[6]
    assert third.cells[7].token_id == 7


def test_a_token_taken_by_hand_says_so() -> None:
    loaded = random_loaded()
    run = record(loaded, PROMPT, DECODED)[1]
    run.mark_by_hand(1)
    view = build_token_strip(moment_of(loaded, run, 3, LAST))
    assert [cell.by_hand for cell in view.cells] == [False] * 6 + [True, False]
    assert "taken by hand" in view.cells[6].whole()


def test_partial_characters_and_blanks_are_shown_as_the_tokenizer_says(run: Run) -> None:
    pieces = [Piece(7, b" a", "␣a"), Piece(8, b"\xe2\x9c", "E2·9C", partial=True)]
    moment = moment_of(random_loaded(), run, 0, LAST)
    moment = replace(moment, pieces=(*pieces, *moment.pieces[2:]))
    view = build_token_strip(moment)
    assert [cell.text for cell in view.cells[:2]] == ["␣a", "E2·9C"]
    assert "part of a character" in view.cells[1].whole()


def result(name: str, holds: bool) -> CheckResult:
    return CheckResult(name, holds, 0.5, 1e-9, f"{name} says why")


def test_chips_say_the_phase_and_wait_for_verdicts(run: Run) -> None:
    prefill = build_status(moment_of(random_loaded(), run, 0, 0), (), pending=True)
    decode = build_status(moment_of(random_loaded(), run, 2, 0), (), pending=False)
    assert [chip.text for chip in prefill] == [
        "Prefill",
        "causal: checking…",
        "cache = full pass: checking…",
    ]
    assert decode[0].text == "Decode · step 2"
    assert [chip.text for chip in decode[1:]] == [
        "causal: not checked",
        "cache = full pass: not checked",
    ]


def test_a_chip_is_good_only_when_all_its_checks_hold(run: Run) -> None:
    moment = moment_of(random_loaded(), run, 0, 0)
    some = [result("causal-weights", True), result("cache-equals-full", True)]
    chips = {chip.name: chip for chip in build_status(moment, some, pending=True)}
    assert chips[CAUSAL].state is ChipState.WAITING
    assert chips[CACHE].state is ChipState.GOOD
    every = [*some, result("causal-behaviour", True)]
    chips = {chip.name: chip for chip in build_status(moment, every, pending=False)}
    assert chips[CAUSAL].text == "✓ causal"
    assert "causal-behaviour says why" in chips[CAUSAL].detail


def test_a_failing_check_is_red_at_once_and_says_why(run: Run) -> None:
    moment = replace(moment_of(random_loaded(), run, 0, 0), faults=frozenset({"no-mask"}))
    results = [result("causal-weights", False), result("finite", False)]
    chips = {chip.name: chip for chip in build_status(moment, results, pending=True)}
    assert chips[CAUSAL].text == "✗ causal"
    assert chips[CAUSAL].detail == "causal-weights: causal-weights says why"
    assert chips["finite"].text == "✗ finite"
    assert chips["faults"].text == "Fault on: no-mask"
    assert all(chips[name].state is ChipState.BAD for name in (CAUSAL, "finite", "faults"))


def test_checks_that_hold_have_no_chip_of_their_own(run: Run) -> None:
    moment = moment_of(random_loaded(), run, 0, 0)
    chips = build_status(moment, [result("finite", True)], pending=False)
    assert "finite" not in {chip.name for chip in chips}
