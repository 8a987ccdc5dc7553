"""The benchmark says everything that it promises, in a shape that can be read; never how fast."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from decoder_gui.bench.command import as_lines, measure
from decoder_gui.bench.processes import BenchFailed, measured
from decoder_gui.bench.rounds import median, median_ratio, percentile

TIMES = (
    "products_ms",
    "decode_ms",
    "prefill_products_ms",
    "prefill_ms",
    "gui_longest_block_ms",
    "gui_longest_block_checking_ms",
    "gui_longest_block_first_shown_ms",
    "startup_ms",
    "bare_window_ms",
    "startup_ready_ms",
)
RATIOS = (
    "decode_over_products",
    "prefill_over_products",
    "record_over_products",
    "startup_over_bare",
)
GROUPS = {
    "sampler_redraw_ms": {"1024", "50257", "151936"},
    "sampler_rank_ms": {"1024", "50257", "151936"},
    "step_to_paint_ms": {"p50", "p95"},
    "head_switch_ms": {"p50", "p95"},
    "layer_switch_ms": {"p50", "p95"},
    "layer_complete_ms": {"p50", "p95"},
    "strip_scroll_ms": {"p50", "p95"},
    "tree_scroll_ms": {"p50", "p95"},
    "slider_tick_window_ms": {"p50", "p95"},
}


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """Everything once."""
    return measure("stories", rounds=1)


def test_every_figure_is_a_positive_number(figures: dict[str, Any]) -> None:
    numbers = {name: figures[name] for name in (*TIMES, *RATIOS)}
    for name, keys in GROUPS.items():
        assert set(figures[name]) == keys
        numbers |= {f"{name} {key}": value for key, value in figures[name].items()}
    for name, value in numbers.items():
        assert isinstance(value, float), name
        assert math.isfinite(value), name
        assert value > 0, name


def test_one_round_is_consistent_with_itself(figures: dict[str, Any]) -> None:
    """Of a single round the median of the ratios is the ratio of the medians."""
    for name, above, below in (
        ("decode_over_products", "decode_ms", "products_ms"),
        ("prefill_over_products", "prefill_ms", "prefill_products_ms"),
        ("startup_over_bare", "startup_ms", "bare_window_ms"),
    ):
        # Both sides are rounded to a thousandth, and the products here take a tenth of one.
        assert figures[name] == pytest.approx(figures[above] / figures[below], rel=0.05)
    assert figures["step_to_paint_ms"]["p50"] <= figures["step_to_paint_ms"]["p95"]
    assert figures["startup_ms"] <= figures["startup_ready_ms"]


def test_the_circumstances_are_part_of_it(figures: dict[str, Any]) -> None:
    assert figures["shape"] == "stories"
    assert set(figures["rounds"].values()) == {1}
    assert figures["threads"] >= 1
    assert figures["python"].count(".") == 2
    assert figures["numpy"]
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_the_table_has_a_line_for_every_number(figures: dict[str, Any]) -> None:
    lines = as_lines(figures)
    assert all(line == line.rstrip() for line in lines)
    table = lines[: lines.index("")]
    assert len(table) == len(TIMES) + len(RATIOS) + sum(len(keys) for keys in GROUPS.values())
    for name in TIMES:
        (line,) = (line for line in table if line.startswith(f"{name} "))
        assert f" {figures[name]:,.2f} ms " in line
    assert len({line.index(" ms ") for line in table if " ms " in line}) == 1


def test_median_of_ratios_and_percentiles() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0
    # A machine that becomes ten times slower in the middle of it leaves the ratio as it is.
    assert median_ratio([2.0, 20.0, 2.2], [1.0, 10.0, 1.0]) == 2.0
    hundred = [float(number) for number in range(100, 0, -1)]
    assert percentile(hundred, 0.95) == 95.0
    assert percentile(hundred, 0.5) == 50.0
    assert percentile([7.0], 0.95) == 7.0
    assert percentile(hundred, 1.0) == 100.0


def test_a_process_that_fails_is_refused_in_words() -> None:
    with pytest.raises(BenchFailed, match="status 1"):
        measured("decoder_gui.bench.startup", "neither")
