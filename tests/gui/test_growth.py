"""While a run grows behind the cursor, panels that show the cursor's step are left alone."""

from __future__ import annotations

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.rules.core import Side
from decoder_gui.debugger.stopping.rules.sampling import Entropy
from decoder_gui.panels.base import Panel
from decoder_gui.waiting import wait_until


class _Counting(Panel):
    panel_id = "counting"
    wants = Change.TRACE

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self.redrawn = 0

    def redraw(self, changes: Change) -> None:
        self.redrawn += 1


class _AtCursor(_Counting):
    at_cursor = True


def test_a_panel_at_the_cursor_is_not_redrawn_for_later_steps(
    stories_context: AppContext,
) -> None:
    everything, here = _Counting(stories_context), _AtCursor(stories_context)
    everything.show()
    here.show()
    before = everything.redrawn, here.redrawn
    stories_context.changed.emit(Change.TRACE | Change.GROWTH)
    assert (everything.redrawn, here.redrawn) == (before[0] + 1, before[1])
    stories_context.changed.emit(Change.TRACE)
    assert (everything.redrawn, here.redrawn) == (before[0] + 2, before[1] + 1)


def test_decoding_far_behind_the_cursor_is_told_as_growth(stories_context: AppContext) -> None:
    context = stories_context
    heard: list[Change] = []
    context.changed.connect(heard.append)
    assert context.trace is not None
    context.seek(Cursor(0, 0))
    steps = len(context.trace.steps)
    context.stops.add(Entropy(Side.ABOVE, 99.0))
    context.stops.set_limit(60)  # far more than one look at the worker brings
    context.run()
    assert wait_until(lambda: context.idle and not context.stops.running)
    assert len(context.trace.steps) == steps + 60
    assert any(change & Change.GROWTH for change in heard)
    assert all(change & Change.TRACE for change in heard if change & Change.GROWTH)
    last_growth = max(at for at, change in enumerate(heard) if change & Change.GROWTH)
    later = heard[last_growth + 1 :]
    assert any(change & Change.TRACE for change in later)  # the end is told to every panel
