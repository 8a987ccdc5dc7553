"""The check ``display`` holds for whatever an engine computes, and for nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.library import open_model
from decoder_gui.viewdata import (
    attention,
    attention_codes,
    display_check,
    display_matrices,
    display_panels,
    forward_pass,
    kv_cache,
    next_token,
    timeline,
    token_strip,
    values,
)
from decoder_gui.viewdata.arithmetic import derive
from decoder_gui.viewdata.display_check import cursors, display
from decoder_gui.viewdata.display_reading import (
    Held,
    Ledger,
    Shown,
    deviation,
    read_numbers,
    spread,
)
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.numbers import format_percent, format_value
from model.checks import CheckResult, Subject, all_checks, run_checks
from model.faults import fault_names
from model.operations import Kind
from model.sampling import SamplingConfig
from model.tiny_engine import TinyEngine
from model.trace import Trace
from tests.debugger.recorded import FAMILIES, SHAPE, family_loaded, random_loaded, record

PANELS = {
    "forward pass",
    "attention",
    "values",
    "next token",
    "KV cache",
    "token strip",
    "timeline",
}
TINY = TinyEngine()
PROMPT, FOLLOWING = (3, 1, 4, 1, 5), (9, 2, 6)


def small(*faults: str, **settings: Any) -> Subject:
    """A small decoder with random weights, with more tokens to choose from than are listed."""
    return Subject.under(
        random_loaded().engine,
        PROMPT,
        faults,
        continuation=FOLLOWING,
        sampling=SamplingConfig(**settings),
    )


def caught(panel: str, result: CheckResult) -> None:
    assert not result.holds
    assert result.worst > result.tolerance
    assert f"the panel {panel} shows" in result.detail
    assert result.where is not None


# ---------------------------------------------------------------- it holds


def test_it_is_one_of_the_checks() -> None:
    assert "display" in [found.name for found in all_checks()]
    (result,) = run_checks(small(), ["display"])
    assert result.holds, result.detail
    assert result == display(small())


@pytest.mark.parametrize("name", FAMILIES)
def test_it_holds_on_every_family(name: str) -> None:
    ids = (3, 1, 4, 1, 5, 9, 2, 6)
    result = display(Subject.under(family_loaded(name).engine, ids, continuation=3))
    assert result.holds, result.detail


def test_every_panel_is_read_at_every_operation_of_the_last_step() -> None:
    assert {reader.panel for reader in display_panels.READERS} == PANELS
    _, run = record(random_loaded(), PROMPT, FOLLOWING)
    looked_at = cursors(run.trace)
    count = len(run.trace.operations)
    assert {Cursor(3, operation) for operation in range(count)} <= set(looked_at)
    assert {Cursor(step, count - 1) for step in range(4)} <= set(looked_at)
    assert Cursor(0, 0) in looked_at
    assert looked_at != sorted(looked_at)  # it travels back as well


def test_the_prefill_is_looked_at_where_positions_differ() -> None:
    _, run = record(random_loaded(), PROMPT, FOLLOWING)
    trace = run.trace
    kinds = {trace.operations[at.operation].kind for at in cursors(trace) if at.step == 0}
    assert kinds >= {Kind.CACHE, Kind.SCORES, Kind.PATTERN, Kind.LOGITS, Kind.SAMPLE}


def test_a_long_run_is_looked_at_in_places() -> None:
    _, run = record(random_loaded(), (1,), tuple(range(2, 14)))
    trace: Trace = run.trace
    assert len(cursors(trace)) < 2 * len(trace.operations)
    assert list(spread(1000, 4)) == [0, 333, 666, 999]
    assert list(spread(3, 4)) == [0, 1, 2]


@pytest.mark.parametrize("fault", [None, *fault_names()])
@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.0},
        {"temperature": 0.6, "top_k": 7, "top_p": 0.9, "min_p": 0.01},
        {
            "temperature": 0.8,
            "top_p": 0.9,
            "repetition_penalty": 1.6,
            "order": "repetition_penalty,temperature,top_p,min_p,top_k",
        },
    ],
)
def test_it_holds_with_every_fault_on(fault: str | None, settings: dict[str, Any]) -> None:
    faults = () if fault is None else (fault,)
    for subject in (
        small(*faults, **settings),
        Subject.under(TINY, (0, 1), faults, sampling=SamplingConfig(**settings)),
    ):
        result = display(subject)
        assert result.holds, result.detail
        assert result.worst <= result.tolerance == 0.5
        assert "7 panels" in result.detail


@pytest.mark.parametrize("order", ["hugging-face", "llama.cpp"])
def test_it_holds_in_every_order_of_the_sampler(order: str) -> None:
    result = display(small(temperature=2.0, top_k=9, top_p=0.5, order=order))
    assert result.holds, result.detail


@pytest.mark.parametrize("prompt", [(2,), (0, 1), (0, 1, 2, 3)])
def test_it_holds_for_short_and_for_full_runs(prompt: tuple[int, ...]) -> None:
    for continuation in (0, 1, 8):
        result = display(Subject.under(TINY, prompt, continuation=continuation))
        assert result.holds, result.detail


def test_it_holds_for_the_bundled_model() -> None:
    loaded = open_model("stories")
    ids = loaded.tokenizer.encode("Once upon a time there was a little cat")
    result = display(Subject.under(loaded.engine, ids, continuation=3))
    assert result.holds, result.detail


def test_what_was_not_kept_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display_check, "BUDGET", 0)
    result = display(small())
    assert result.holds, result.detail


# ---------------------------------------------------------------- it can fail


def off_by_one_digit(formatter: Callable[..., str]) -> Callable[..., str]:
    """The same text with its last digit another one."""

    def wrong(*args: Any, **kwargs: Any) -> str:
        text = formatter(*args, **kwargs)
        at = max((i for i, c in enumerate(text) if c.isdigit()), default=-1)
        if at < 0:
            return text
        return text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]

    return wrong


@pytest.mark.parametrize(
    ("panel", "module", "formatter"),
    [
        ("forward pass", forward_pass, "format_shape"),
        ("forward pass", forward_pass, "format_positions"),
        ("attention", attention, "format_value"),
        ("values", values, "format_value"),
        ("values", values, "format_range"),
        ("next token", next_token, "format_percent"),
        ("next token", next_token, "format_value"),
        ("next token", next_token, "format_count"),
        ("KV cache", kv_cache, "format_bytes"),
        ("KV cache", kv_cache, "format_count"),
        ("KV cache", kv_cache, "format_flops"),
        ("KV cache", kv_cache, "format_percent"),
        ("token strip", token_strip, "format_log_probability"),
        ("token strip", token_strip, "format_exact"),
        ("timeline", timeline, "format_positions"),
        ("timeline", timeline, "plural"),
    ],
)
def test_one_digit_that_is_off_is_noticed(
    monkeypatch: pytest.MonkeyPatch, panel: str, module: Any, formatter: str
) -> None:
    monkeypatch.setattr(module, formatter, off_by_one_digit(getattr(module, formatter)))
    caught(panel, display(small(temperature=0.8)))


def test_a_head_that_was_swapped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(moment: Moment, *args: Any, **kwargs: Any) -> attention.AttentionView:
        view = attention.build_attention(moment, *args, **kwargs)
        head = (moment.selection.head + 1) % SHAPE.num_heads
        selection = replace(moment.selection, head=head)
        other = attention.build_attention(replace(moment, selection=selection), **kwargs)
        return replace(view, rows=other.rows, weights=other.weights, codes=other.codes)

    monkeypatch.setattr(display_matrices, "build_attention", swapped)
    caught("attention", display(small()))


def test_swapped_thumbnails_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(*args: Any, **kwargs: Any) -> attention.AttentionView:
        view = attention.build_attention(*args, **kwargs)
        return replace(view, mosaic=view.mosaic[:, :, ::-1])

    monkeypatch.setattr(display_matrices, "build_attention", swapped)
    result = display(small())
    caught("attention", result)
    assert "thumbnail" in result.detail


def test_attention_that_is_not_computed_yet_may_not_be_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_early(self: Moment, step: int, array_name: str) -> Any:
        found = self.trace.array(step, array_name)
        return None if found is None else found[0]

    monkeypatch.setattr(Moment, "exists", lambda self, step, name: step <= self.cursor.step)
    monkeypatch.setattr(Moment, "array", too_early)
    assert not display(small()).holds


def test_a_row_left_over_from_a_later_event_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, attention.AttentionView] = {}

    def stale(moment: Moment, store: Any, *, layer: int | None = None) -> attention.AttentionView:
        view = attention.build_attention(moment, store, layer=layer)
        old = seen.setdefault(view.positions, view)
        return view if old.layer != view.layer else replace(view, weights=old.weights)

    monkeypatch.setattr(display_matrices, "build_attention", stale)
    caught("attention", display(small()))


def test_bits_are_no_nats(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = attention.entropy_nats
    monkeypatch.setattr(attention, "entropy_nats", lambda row: sound(row) / math.log(2))
    result = display(small())
    caught("attention", result)
    assert "entropy" in result.detail


def test_leaks_that_are_not_counted_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_codes, "find_leaks", lambda square, first, head: [])
    assert display(small()).holds
    caught("attention", display(small("no-mask")))


def test_a_number_in_the_place_of_nan_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def hopeful(value: float, digits: int = 3) -> str:
        return format_value(0.0 if math.isnan(value) else value, digits)

    monkeypatch.setattr(attention, "format_value", hopeful)
    assert display(small()).holds
    result = display(Subject.under(TINY, (0, 1), ("nan-weight",)))
    caught("attention", result)
    assert "holds nan" in result.detail
    assert result.worst == math.inf


def test_the_values_of_another_row_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def last_row(self: values.ValuesView, row: int) -> Any:
        assert self.array is not None
        return self.array.reshape(-1, self.columns)[row - 1]

    monkeypatch.setattr(values.ValuesView, "row_values", last_row)
    caught("values", display(small()))


def test_a_sum_over_masked_numbers_too_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = values.statistics_of
    monkeypatch.setattr(values, "statistics_of", lambda array, masked=None: sound(array))
    caught("values", display(small()))


def test_arithmetic_of_another_number_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*args: Any) -> Any:
        worked = derive(*args)
        return replace(worked, recorded=worked.recorded + 1.0)

    monkeypatch.setattr(values, "derive", wrong)
    caught("values", display(small()))


def test_stages_that_were_swapped_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(moment: Moment) -> next_token.NextToken:
        view = next_token.build_next_token(moment)
        rows = tuple(
            replace(row, raw_text=row.tempered_text, tempered_text=row.raw_text)
            for row in view.rows
        )
        return replace(view, rows=rows)

    monkeypatch.setattr(display_panels, "build_next_token", swapped)
    assert display(small()).holds  # at temperature 1 the two are the same
    caught("next token", display(small(temperature=0.5)))


def test_a_cache_row_before_it_is_written_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(moment: Moment) -> kv_cache.Slab:
        assert moment.step is not None
        written = (moment.step.last,) * SHAPE.depth
        return kv_cache.Slab(moment.capacity, moment.trace.steps[0].last, written, 0)

    monkeypatch.setattr(kv_cache, "_slab", whole)
    caught("KV cache", display(small()))


def test_a_token_that_is_still_to_come_has_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_many(moment: Moment) -> token_strip.TokenStripView:
        view = token_strip.build_token_strip(moment)
        return replace(view, numbers_to=len(view.cells))

    monkeypatch.setattr(display_panels, "build_token_strip", too_many)
    caught("token strip", display(small()))


def test_an_operation_counted_wrongly_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = timeline.TimelineView.describe

    def one_more(self: timeline.TimelineView, cursor: Cursor) -> str:
        return sound(self, cursor).replace(" of ", "0 of ")

    monkeypatch.setattr(timeline.TimelineView, "describe", one_more)
    caught("timeline", display(small()))


def test_the_wrong_operation_in_hand_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def behind(moment: Moment) -> forward_pass.ForwardPassView | None:
        view = forward_pass.build_forward_pass(moment)
        return None if view is None else replace(view, current=max(0, view.current - 1))

    monkeypatch.setattr(display_panels, "build_forward_pass", behind)
    caught("forward pass", display(small()))


def test_the_fault_that_is_on_is_named_in_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_token, "format_percent", off_by_one_digit(format_percent))
    (result,) = run_checks(small("no-mask"), ["display"])
    assert "no-mask" in result.detail


# ---------------------------------------------------------------- how numbers are read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("entropy 1.62 nats · row sum 1.000000", (1.62, 1.0)),
        ("prefill, tokens 0–7", (0, 7)),
        ("3 × [13, 64]", (3, 13, 64)),
        ("-12.500 and 3e-07", (-12.5, 3e-7)),
        ("26.0 KiB × 1,024 positions", (26.0 * 1024, 1024)),
        ("4.21 MFLOP", (4.21e6,)),
        ("41.2%", (0.412,)),
        ("min -inf · max inf", (-math.inf, math.inf)),
        ("Softmax of what is infinite", ()),
        ("x2 is a name", ()),
    ],
)
def test_numbers_are_read_from_text(text: str, expected: tuple[float, ...]) -> None:
    assert [shown.value for shown in read_numbers(text)] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "held", "off"),
    [
        ("0.347", 0.3474, 0.4),
        ("0.347", 0.3481, 1.1),
        ("1234.5", 1234.54, 0.4),
        ("3e-07", 2.6e-7, 0.4),
        ("41.2%", 0.41249, 0.49),
        ("26.0 KiB", 26 * 1024 + 512, 5.0),
        ("13", 14, 1.0),
        ("NaN", math.nan, 0.0),
        ("NaN", 0.0, math.inf),
        ("0.000", math.nan, math.inf),
        ("-inf", -math.inf, 0.0),
        ("inf", -math.inf, math.inf),
        ("<0.1%", 0.0004, 0.0),
        ("<0.1%", 0.0, math.inf),
        ("<0.1%", 0.002, math.inf),
        (">99.9%", 0.99999, 0.0),
        (">99.9%", 1.0, math.inf),
    ],
)
def test_a_deviation_is_in_units_of_the_last_digit(text: str, held: float, off: float) -> None:
    (shown,) = read_numbers(text)
    assert deviation(shown, Held(held)) == pytest.approx(off)


def test_a_digit_is_worth_what_its_unit_says() -> None:
    (shown,) = read_numbers("1.5 KiB")
    assert shown == Shown("1.5 KiB", 1536.0, shown.digit)
    assert shown.digit == pytest.approx(102.4)


def test_numbers_that_are_missing_or_too_many_are_noticed() -> None:
    ledger = Ledger()
    ledger.line("a sum", "1.0 and 2.0", 1.0)
    ledger.line("a token", "“7” at position 3", 3, without=("7",))
    assert (ledger.failed, ledger.numbers) == (1, 2)
    assert ledger.finding is not None
    assert ledger.finding.what == "a sum"


def test_arrays_are_compared_bit_for_bit() -> None:
    one, other = np.array([1.0, np.nan]), np.array([1.0 + 2**-52, np.nan])
    ledger = Ledger()
    ledger.array("same", one, one.copy())
    assert ledger.failed == 0
    ledger.array("another", one, other)
    ledger.array("another shape", one, one[:1])
    assert ledger.failed == 2
