"""Play stops where a breakpoint is on the way, and says why."""

from __future__ import annotations

import pytest

from decoder_gui.commands import stops as stops_module
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor, Granularity, last
from decoder_gui.debugger.stopping.rules import Side
from decoder_gui.debugger.stopping.rules.places import AtEvent, OnOperation, OnStep
from decoder_gui.debugger.stopping.rules.sampling import Entropy
from decoder_gui.waiting import wait_until


def _play(context: AppContext, granularity: Granularity) -> list[str]:
    """Play until it stops; what was said meanwhile."""
    said: list[str] = []
    context.notice.connect(said.append)
    context.set_granularity(granularity)
    context.set_play_rate(200.0)
    context.toggle_play()
    assert wait_until(lambda: not context.playing and context.idle)
    return said


@pytest.mark.parametrize("granularity", list(Granularity))
def test_it_stops_at_an_event_on_the_way(
    stories_context: AppContext, granularity: Granularity
) -> None:
    context = stories_context
    assert context.trace is not None
    name = context.trace.operations[9].name
    context.stops.add(AtEvent(2, name))
    context.seek(Cursor(0, 0))
    said = _play(context, granularity)
    assert context.cursor == Cursor(2, 9)
    assert len(said) == 1
    assert said[0].startswith(f"Stopped at step 2, {name}: ")
    assert context.stops.halt is not None
    assert context.stops.halt.words == said[0]


def test_it_goes_on_from_a_breakpoint(stories_context: AppContext) -> None:
    context = stories_context
    assert context.trace is not None
    context.stops.add(OnOperation("sample"))
    context.seek(Cursor(0, 0))
    at = len(context.trace.operations) - 1
    for step in range(3):
        _play(context, Granularity.TOKEN)
        assert context.cursor == Cursor(step, at)


@pytest.mark.parametrize("granularity", [Granularity.OPERATION, Granularity.TOKEN])
def test_it_stops_in_a_step_that_it_decodes(
    stories_context: AppContext, granularity: Granularity
) -> None:
    context = stories_context
    assert context.trace is not None
    steps = len(context.trace.steps)
    name = context.trace.operations[4].name
    context.stops.add(OnStep(steps + 1))
    context.stops.add(AtEvent(steps, name))
    context.go_last()
    _play(context, granularity)
    assert context.cursor == Cursor(steps, 4)
    _play(context, granularity)
    assert context.cursor == Cursor(steps + 1, 0)


def test_it_plays_to_the_end_where_nothing_is_hit(stories_context: AppContext) -> None:
    context = stories_context
    assert context.trace is not None
    context.stops.add(Entropy(Side.ABOVE, 99.0))
    context.set_capacity(len(context.trace.token_ids) + 2)
    assert wait_until(lambda: context.idle)
    context.go_last()
    said = _play(context, Granularity.TOKEN)
    assert context.exhausted
    assert context.cursor == last(context.trace)
    assert "full" in said[-1] or "capacity" in said[-1]


def test_a_long_search_takes_several_turns(
    stories_context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stops_module, "SLICE", 0.0001)
    context = stories_context
    assert context.trace is not None
    context.stops.add(AtEvent(3, context.trace.operations[0].name))
    context.seek(Cursor(0, 0))
    _play(context, Granularity.PHASE)
    assert context.cursor == Cursor(3, 0)


def test_a_breakpoint_that_is_off_stops_nothing(stories_context: AppContext) -> None:
    context = stories_context
    assert context.trace is not None
    context.stops.add(AtEvent(1, context.trace.operations[3].name))
    context.stops.switch(context.stops.items.items[0].number, False)
    context.seek(Cursor(0, 0))
    context.set_granularity(Granularity.TOKEN)
    context.set_play_rate(200.0)
    context.toggle_play()
    assert wait_until(lambda: context.cursor is not None and context.cursor.step == 3)
    context.toggle_play()
    assert context.stops.halt is None
