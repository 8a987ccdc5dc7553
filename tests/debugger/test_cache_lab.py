"""The cache laboratory without its window: curves, phases, rows and what happens at capacity."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from decoder_gui.debugger.laboratory import roofline
from decoder_gui.debugger.laboratory.cache_rows import read_row, shorten
from decoder_gui.debugger.laboratory.cost_curve import (
    CostPoint,
    counts,
    fitted_exponent,
    lengths_for,
    measure,
    totals,
)
from decoder_gui.debugger.laboratory.policies import (
    Divergence,
    NotSlidable,
    Policy,
    compare,
    divergence,
    stop_sentence,
)
from decoder_gui.debugger.laboratory.roofline import (
    Machine,
    Measuring,
    PhaseTime,
    measure_machine,
    measure_phases,
)
from model.costs import flops_cached, flops_recomputed
from model.errors import ContextOverflow, ShapeMismatch
from model.trace import Phase
from tests.debugger.recorded import random_loaded, record, tiny_loaded

PROMPT = (3, 9, 27, 5, 12)


def test_points_carry_exact_counts_and_times_of_a_clock() -> None:
    engine = random_loaded().engine
    points = [
        each for each in measure(engine, lengths_for(16), repeats=1) if isinstance(each, CostPoint)
    ]
    assert [point.length for point in points] == [1, 2, 4, 8, 15]
    for point in points:
        assert point.flops_with == flops_cached(engine.shape, point.length, 1)
        assert point.flops_without == flops_recomputed(engine.shape, point.length + 1)
        assert point.with_cache > 0
        assert point.without > 0
        assert point.attention_with <= point.flops_with


def test_long_measurements_stop_the_curve_and_say_so_by_leaving_it() -> None:
    engine = random_loaded().engine
    items = list(measure(engine, (1, 2, 4), repeats=1, longest=0.0))
    assert [each.length for each in items if isinstance(each, CostPoint)] == [1]


def test_a_measurement_can_be_left_between_any_two_passes() -> None:
    engine = random_loaded().engine
    items = [type(item) for item in measure(engine, (8,), repeats=1)]
    assert items == [Measuring, Measuring, CostPoint]
    timed = list(measure_phases(engine, PROMPT, (1, 2, 3)))
    assert sum(isinstance(item, Measuring) for item in timed) >= 4


def test_attention_alone_grows_with_the_square_and_the_cube() -> None:
    shape = random_loaded().engine.shape
    lengths = [256, 512, 1024, 2048]
    sums = totals(shape, lengths)
    assert fitted_exponent(lengths, [s[2] for s in sums]) == pytest.approx(2.0, abs=0.01)
    assert fitted_exponent(lengths, [s[3] for s in sums]) == pytest.approx(3.0, abs=0.01)
    by_hand = [sum(counts(shape, at)[1] for at in range(n)) for n in (3, 7)]
    assert [s[1] for s in totals(shape, (3, 7))] == by_hand


def test_a_fit_finds_the_power_and_refuses_to_guess() -> None:
    assert fitted_exponent([1, 2, 4], [5, 40, 320]) == pytest.approx(3.0)
    assert math.isnan(fitted_exponent([2], [1]))
    assert math.isnan(fitted_exponent([2, 2], [1, 5]))


def test_phases_are_counted_exactly_and_apart() -> None:
    engine = random_loaded().engine
    timed = measure_phases(engine, PROMPT, (1, 2, 3))
    prefill, decode = [each for each in timed if isinstance(each, PhaseTime)]
    assert (prefill.phase, prefill.tokens, prefill.passes) == (Phase.PREFILL, 5, 1)
    assert (decode.phase, decode.tokens, decode.passes) == (Phase.DECODE, 3, 3)
    assert prefill.flops == flops_cached(engine.shape, 0, 5)
    assert decode.flops == sum(flops_cached(engine.shape, at, 1) for at in (5, 6, 7))
    assert prefill.intensity > decode.intensity  # one read of the weights serves five tokens
    alone = [each for each in measure_phases(engine, PROMPT, ()) if isinstance(each, PhaseTime)]
    assert [each.phase for each in alone] == [Phase.PREFILL]


def test_the_roofline_is_the_lower_of_two_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(bandwidth=10.0, peak=40.0)
    assert machine.ridge == 4.0
    assert [machine.limit(at) for at in (1.0, 4.0, 9.0)] == [10.0, 40.0, 40.0]
    monkeypatch.setattr(roofline, "VECTOR_ROWS", 64)
    monkeypatch.setattr(roofline, "VECTOR_COLUMNS", 64)
    monkeypatch.setattr(roofline, "SQUARE", 32)
    *progress, last = measure_machine(rounds=2)
    assert isinstance(last, Machine)
    assert last.bandwidth > 0
    assert last.peak > 0
    assert len(progress) == 2


@pytest.mark.parametrize("model", ["tiny", "random"])
def test_a_row_is_what_its_step_wrote_bit_for_bit(model: str) -> None:
    loaded = tiny_loaded() if model == "tiny" else random_loaded()
    session, run = record(loaded, (0, 1), (2,))
    for position, step in ((0, 0), (1, 0), (2, 1)):
        row = read_row(session.cache, run.trace, 0, position)
        assert row is not None
        assert (row.step, row.changed) == (step, 0)
        assert np.array_equal(row.keys, session.cache.keys(0)[0, :, position])
    assert read_row(session.cache, run.trace, 0, 3) is None


def test_a_row_that_was_overwritten_is_found() -> None:
    session, run = record(random_loaded(), PROMPT, (1, 2), faults=frozenset({"stale-cache"}))
    changed = [read_row(session.cache, run.trace, 1, at) for at in range(7)]
    assert any(row is not None and row.changed for row in changed)
    sound, sound_run = record(random_loaded(), PROMPT, (1, 2))
    keys = sound.cache.keys(1)
    keys[0, 0, 2, 1] = np.nextafter(keys[0, 0, 2, 1], np.float32(9))
    row = read_row(sound.cache, sound_run.trace, 1, 2)
    assert row is not None
    assert row.changed == 1
    assert row.numbers == 2 * 24


def test_setting_a_length_back_clears_nothing() -> None:
    loaded = random_loaded()
    session, _ = record(loaded, PROMPT)
    cache = session.cache
    before = cache.rows(0, cache.length)
    for after in (0, 2, cache.length):
        found = shorten(loaded.engine, cache, after)
        assert (found.before, found.after, found.changed) == (cache.length, after, 0)
        per_position = before.keys[:, :, :, 0].size + before.values[:, :, :, 0].size
        assert found.numbers == (cache.length - after) * per_position
    again = cache.rows(0, cache.length)  # the cache itself was left alone
    assert np.array_equal(again.keys, before.keys)
    with pytest.raises(ShapeMismatch):
        shorten(loaded.engine, cache, cache.length + 1)


def test_a_cache_that_is_a_list_keeps_nothing_behind_its_length() -> None:
    loaded = tiny_loaded()
    session, _ = record(loaded, (0, 1))
    assert shorten(loaded.engine, session.cache, 0).changed is None


def test_stopping_ends_where_the_cache_is_full() -> None:
    engine = random_loaded().engine
    ids = list(range(12))
    assert len(list(compare(engine, ids, 8, Policy.STOP))) == 8
    assert "8" in stop_sentence(12, 8)
    assert stop_sentence(5, 8) == "All 5 positions fit in 8."


def run_policy(capacity: int, policy: Policy, keep_first: int = 0) -> Iterator[Divergence]:
    return compare(
        random_loaded().engine, list(range(1, 15)), capacity, policy, keep_first=keep_first
    )


def test_there_is_no_divergence_until_a_row_is_let_go() -> None:
    for policy, first in ((Policy.SLIDE, 0), (Policy.KEEP_FIRST, 3)):
        found = list(run_policy(8, policy, first))
        assert len(found) == 14
        assert all(each.divergence == 0.0 for each in found[:8])
        assert all(each.divergence > 0.0 for each in found[8:])
        assert [each.kept for each in found] == [*range(1, 9), *([8] * 6)]
        assert math.isnan(found[-1].log_probability)


def test_keeping_the_first_is_another_choice_than_sliding() -> None:
    slid = [each.divergence for each in run_policy(8, Policy.SLIDE)]
    kept = [each.divergence for each in run_policy(8, Policy.KEEP_FIRST, 3)]
    assert slid[:8] == kept[:8]
    assert slid[9:] != kept[9:]


def test_divergence_is_that_of_kullback_and_leibler() -> None:
    p, q = np.log([0.5, 0.25, 0.25]), np.log([0.25, 0.5, 0.25])
    found = divergence(3, 4, p, q, 1)
    assert found.divergence == pytest.approx(0.5 * math.log(2) - 0.25 * math.log(2))
    assert found.log_probability == pytest.approx(math.log(0.5))
    assert not found.same_choice
    ruled_out = divergence(0, 1, p, np.asarray([0.0, 0.0, -np.inf]), None)
    assert ruled_out.divergence == math.inf
    assert (
        divergence(0, 1, np.asarray([0.0, -np.inf]), np.asarray([0.0, -np.inf]), 0).divergence == 0
    )


def test_what_cannot_slide_is_refused_in_words() -> None:
    with pytest.raises(NotSlidable, match="NumPy engine"):
        next(compare(tiny_loaded().engine, [0, 1], 2, Policy.SLIDE))
    with pytest.raises(ShapeMismatch, match="no room to slide behind 4"):
        next(run_policy(5, Policy.KEEP_FIRST, 4))
    with pytest.raises(ContextOverflow, match="17"):
        next(compare(random_loaded().engine, [1] * 17, 8, Policy.SLIDE))
