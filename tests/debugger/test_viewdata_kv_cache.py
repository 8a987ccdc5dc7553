"""The cache as it stands at the cursor: rows, bytes and figures against the engine's own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import Session
from decoder_gui.viewdata.kv_cache import (
    KvCacheView,
    build_kv_cache,
    describe_row,
    format_flops,
    row_written_at,
)
from decoder_gui.viewdata.moment import Moment
from model.costs import flops_cached, flops_recomputed
from tests.debugger.recorded import SHAPE, moment_of, random_loaded, record, tiny_loaded


@cache
def recorded() -> tuple[Session, Run]:
    return record(random_loaded(), (1, 2, 3), (4, 5))


def at(step: int, operation: str) -> tuple[Moment, KvCacheView]:
    moment = moment_of(random_loaded(), recorded()[1], step, operation)
    return moment, build_kv_cache(moment)


def figure(view: KvCacheView, label: str) -> str:
    return next(figure.value for figure in view.figures if figure.label == label)


def test_at_the_end_of_a_run_the_bytes_are_the_caches_own() -> None:
    cache = recorded()[0].cache
    _, view = at(2, "sample")
    assert view.positions == cache.length == 5
    assert view.bytes_in_use == cache.bytes_used
    assert view.bytes_reserved == cache.bytes_reserved
    assert (view.prefill, view.decode) == (3, 2)
    assert view.hint == "5 of 16 positions"
    assert view.legend == ("prefill 3", "decode 2", "empty 11")


def test_rows_appear_layer_by_layer_as_their_operation_is_passed() -> None:
    row = SHAPE.cache_bytes(1, 4, 1) // SHAPE.depth
    _, before = at(1, "blocks.0.attn.q")
    assert before.slab.written == (3, 3)
    assert before.positions == 3
    _, first = at(1, "blocks.0.cache")
    assert first.slab.written == (4, 3)
    assert first.positions == 4
    assert first.bytes_in_use == before.bytes_in_use + row
    assert first.slab.first_now == 3
    assert first.progress == "This step writes position 3: 1 of 2 layers done."
    _, both = at(1, "blocks.1.cache")
    assert both.slab.written == (4, 4)
    assert both.bytes_in_use == first.bytes_in_use + row


def test_before_the_first_append_nothing_is_in_use() -> None:
    _, view = at(0, "embed")
    assert view.positions == view.bytes_in_use == 0
    assert view.progress == "This step writes positions 0–2: 0 of 2 layers done."


def test_figures_of_the_costs_at_the_cursor() -> None:
    _, view = at(1, "sample")
    cached = flops_cached(SHAPE, 0, 3) + flops_cached(SHAPE, 3, 1)
    recomputed = flops_recomputed(SHAPE, 3) + flops_recomputed(SHAPE, 4)
    assert figure(view, "Work saved against no cache") == f"{100 * (1 - cached / recomputed):.1f}%"
    assert figure(view, "Tokens per weight read") == "2.00"  # four tokens, two passes
    assert figure(view, "Prefill") == "3 tokens"
    assert figure(view, "Decode") == "1 token"
    assert figure(view, "Per token") == "384 B"
    (per_token,) = [found for found in view.figures if found.label == "Per token"]
    assert per_token.note == "2 layers × K and V × 3 heads × 8 × 4 bytes"
    assert 2 * 2 * 3 * 8 * 4 == view.bytes_per_token == 384
    assert figure(view, "Reserved") == "6.0 KiB"


def test_a_row_says_whose_it_is_and_which_step_wrote_it() -> None:
    moment, view = at(2, "blocks.0.cache")
    assert describe_row(moment, view, 1, 3) == (
        f"layer 1, position 3 “{moment.pieces[3].text}”, written in step 1 (decode), 192 bytes"
    )
    assert "written in step 0 (prefill)" in describe_row(moment, view, 0, 2)
    assert "written in step 2" in describe_row(moment, view, 0, 4)
    assert describe_row(moment, view, 1, 4) == "layer 1, position 4: written later in this step"
    assert describe_row(moment, view, 0, 9) == "layer 0, position 9: empty"


def test_a_row_knows_the_operation_that_wrote_it() -> None:
    moment, _ = at(2, "sample")
    assert row_written_at(moment, 1, 3) == (1, moment.trace.operation_index("blocks.1.cache"))
    assert row_written_at(moment, 0, 0) == (0, moment.trace.operation_index("blocks.0.cache"))
    assert row_written_at(moment, 0, 12) is None


def test_a_full_cache_says_so_and_what_can_be_done() -> None:
    moment, _ = at(2, "sample")
    full = build_kv_cache(replace(moment, capacity=5))
    assert full.full == "The cache is full: 5 of 5 positions. Generation stops here."
    assert full.larger == 10
    assert build_kv_cache(replace(moment, capacity=12)).larger == 16
    earlier, _ = at(1, "sample")
    assert build_kv_cache(replace(earlier, capacity=5)).full == ""


def test_a_model_at_its_limit_offers_no_larger_context() -> None:
    loaded = tiny_loaded()
    run = record(loaded, (0, 1, 2, 3))[1]
    view = build_kv_cache(moment_of(loaded, run, 0, "sample"))
    assert view.full.startswith("The cache is full: 4 of 4 positions. Generation stops here.")
    assert "longest context" in view.full
    assert view.larger == 0
    assert view.bytes_in_use == 4 * 2 * 2 * 8


def test_no_model_is_an_empty_view() -> None:
    view = build_kv_cache(None)
    assert view.positions == 0
    assert view.figures == ()


@pytest.mark.parametrize(
    ("count", "text"), [(12, "12 FLOP"), (4_210_000, "4.21 MFLOP"), (3 * 10**12, "3.00 TFLOP")]
)
def test_work_is_written_in_decimal_units(count: int, text: str) -> None:
    assert format_flops(count) == text
