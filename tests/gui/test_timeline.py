"""Timeline and transport in use, through real clicks and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor, Granularity
from decoder_gui.debugger.stopping.rules.places import OnOperation, OnStep
from decoder_gui.panels.timeline import TimelinePanel
from decoder_gui.theme.palette import PALETTES, Palette, contrast
from decoder_gui.theme.style import Style
from decoder_gui.viewdata.timeline import Block, TimelineView
from decoder_gui.widgets.timeline import Timeline
from decoder_gui.widgets.timeline_layout import arrange
from decoder_gui.widgets.transport import RATES, Transport, TransportView
from model.trace import Phase
from tests.gui.conftest import STORY, settle


@pytest.fixture
def panel(stories_context: AppContext, qtbot: QtBot) -> Iterator[TimelinePanel]:
    panel = TimelinePanel(stories_context)
    qtbot.addWidget(panel)
    panel.resize(1440, 90)
    panel.show()
    QTest.qWaitForWindowExposed(panel)
    yield panel
    panel.hide()


def press(panel: TimelinePanel, x: float, y: float) -> None:
    QTest.mouseClick(panel.timeline, Qt.MouseButton.LeftButton, pos=QPoint(round(x), round(y)))


def middle(panel: TimelinePanel) -> float:
    return panel.timeline.scene.block_box(0).center().y()


def test_the_buttons_move_the_cursor(panel: TimelinePanel) -> None:
    context, transport = panel.context, panel.transport
    transport.first.click()
    assert context.cursor == Cursor(0, 0)
    assert not transport.first.isEnabled()
    assert not transport.back.isEnabled()
    transport.step.click()
    assert context.cursor == Cursor(0, 1)
    transport.back.click()
    assert context.cursor == Cursor(0, 0)
    transport.last.click()
    assert context.at_end
    assert not transport.last.isEnabled()


def test_run_says_how_many_breakpoints_are_on(panel: TimelinePanel) -> None:
    stops, run = panel.context.stops, panel.transport.run
    assert run.shown_text() == "Run to"
    stops.add(OnStep(1))
    stops.add(OnOperation("sample"))
    assert run.shown_text() == "Run to 2"
    assert run.accessibleName().endswith(": 2 on")
    for item in stops.items:
        assert item.rule.words in run.toolTip()
    stops.switch(stops.items.items[0].number, False)
    assert run.shown_text() == "Run to 1"
    stops.clear()
    assert run.shown_text() == "Run to"
    assert run.toolTip() == "Run to the next breakpoint (F5)"


def test_granularity_and_speed_are_chosen_and_shown(panel: TimelinePanel) -> None:
    context, transport = panel.context, panel.transport
    for granularity, button in transport.granularities.items():
        button.click()
        assert context.granularity is granularity
        checked = [g for g, other in transport.granularities.items() if other.isChecked()]
        assert checked == [granularity]
    actions = {action.data(): action for action in transport.rate_menu().actions()}
    assert tuple(actions) == RATES
    actions[0.5].trigger()
    assert context.play_rate == 0.5
    assert transport.rate.shown_text() == "0.5 / s"
    assert actions[0.5].isChecked()


def test_play_becomes_pause_and_nothing_moves(panel: TimelinePanel) -> None:
    transport = panel.transport
    places = [button.x() for button in transport.buttons]
    transport.play.click()
    assert panel.context.playing
    assert transport.play.shown_text() == "Pause"
    QTest.qWait(1)  # a new arrangement would be made now
    assert [button.x() for button in transport.buttons] == places
    transport.play.click()
    assert not panel.context.playing
    assert transport.play.shown_text() == "Play"


def test_a_click_in_a_block_travels_to_the_event_there(panel: TimelinePanel) -> None:
    context, timeline = panel.context, panel.timeline
    assert context.trace is not None
    count = len(context.trace.operations)
    for wanted in (Cursor(2, count // 2), Cursor(0, 3), Cursor(4, count - 1)):
        press(panel, timeline.scene.event_x(wanted) - 0.01, middle(panel))
        assert context.cursor is not None
        assert context.cursor.step == wanted.step
        # Where an operation is narrower than a pixel or two, the pointer is as exact as it can be.
        assert abs(context.cursor.operation - wanted.operation) <= 1


def test_dragging_travels_and_lands_where_the_button_is_let_go(panel: TimelinePanel) -> None:
    context, timeline = panel.context, panel.timeline
    y = round(middle(panel))
    begin, end = timeline.scene.block_box(1).center(), timeline.scene.block_box(4).center()
    seen: list[Cursor | None] = []
    context.changed.connect(lambda _: seen.append(context.cursor))
    QTest.mousePress(timeline, Qt.MouseButton.LeftButton, pos=QPoint(round(begin.x()), y))
    for x in range(round(begin.x()), round(end.x()), 3):
        QTest.mouseMove(timeline, QPoint(x, y))
    QTest.mouseMove(timeline, QPoint(round(end.x()), y))
    QTest.mouseRelease(timeline, Qt.MouseButton.LeftButton, pos=QPoint(round(end.x()), y))
    assert context.cursor == timeline.scene.event_at(round(end.x()))
    moves = (round(end.x()) - round(begin.x())) // 3
    assert 2 <= len(seen) < moves  # throttled: fewer journeys than mouse moves


def test_a_click_above_the_blocks_toggles_a_breakpoint(panel: TimelinePanel) -> None:
    context, timeline = panel.context, panel.timeline
    x = timeline.scene.block_box(2).center().x()
    before = context.cursor
    press(panel, x, 3)
    (mark,) = context.breakpoints
    assert mark.step == 2
    assert context.cursor == before
    assert timeline.tooltip_at(QPointF(x, 3)).startswith("Breakpoint: ")
    context.go_first()
    panel.transport.run.click()
    settle(context)
    assert context.cursor == mark
    press(panel, timeline.scene.event_x(mark) + 2, 3)  # near enough to the dot
    assert context.breakpoints == frozenset()


def test_the_menu_sets_goes_and_clears(panel: TimelinePanel) -> None:
    context, timeline = panel.context, panel.timeline
    x = timeline.scene.block_box(3).center().x()
    for words in ("Set a breakpoint here", "Go here", "Remove all breakpoints"):
        menu = timeline.build_menu(x)
        {action.text(): action for action in menu.actions()}[words].trigger()
        menu.deleteLater()
        if words == "Set a breakpoint here":
            (mark,) = context.breakpoints
    assert context.cursor == mark
    assert context.breakpoints == frozenset()


def test_the_place_at_the_end_decodes_one_more_token(panel: TimelinePanel) -> None:
    context, timeline = panel.context, panel.timeline
    assert context.trace is not None
    context.go_first()
    steps = len(context.trace.steps)
    end = timeline.scene.end_box().center()
    assert timeline.tooltip_at(end).startswith("Decode one more token")
    press(panel, end.x(), end.y())
    settle(context)
    assert len(context.trace.steps) == steps + 1
    assert context.cursor == Cursor(steps, 0)
    assert len(panel.timeline._view.blocks) == steps + 1


def test_a_full_cache_is_said_in_words_and_nothing_is_offered(
    make_context: Callable[..., AppContext], qtbot: QtBot
) -> None:
    context = make_context("tiny", "The cat", tokens=3, temperature=0.0)
    panel = TimelinePanel(context)
    qtbot.addWidget(panel)
    panel.resize(1440, 90)
    panel.show()
    context.go_last()
    assert context.exhausted
    assert not panel.transport.step.isEnabled()
    end = panel.timeline.scene.end_box().center()
    assert panel.timeline.tooltip_at(end) == context.exhausted
    with qtbot.assertNotEmitted(panel.timeline.decode_requested):
        press(panel, end.x(), end.y())


def test_keys_travel_while_the_timeline_has_the_focus(panel: TimelinePanel) -> None:
    context, timeline = panel.context, panel.timeline
    assert context.trace is not None
    last = len(context.trace.operations) - 1
    context.seek(Cursor(0, last))
    QTest.keyClick(timeline, Qt.Key.Key_Right)
    assert context.cursor == Cursor(1, 0)
    QTest.keyClick(timeline, Qt.Key.Key_Left)
    assert context.cursor == Cursor(0, last)
    QTest.keyClick(timeline, Qt.Key.Key_Right, Qt.KeyboardModifier.ControlModifier)
    assert context.cursor == Cursor(1, last)
    description = timeline.accessibleDescription()
    assert description.startswith(timeline._view.describe(Cursor(1, last)))


def test_what_the_worker_does_is_shown_and_can_be_cancelled(qtbot: QtBot) -> None:
    transport = Transport(Style())
    qtbot.addWidget(transport)
    transport.resize(1440, 40)
    transport.show()
    assert not transport.cancel.isVisible()
    busy = TransportView(ready=True, busy="Prefill of 12 tokens", fraction=0.4)
    transport.set_view(busy, Style())
    assert transport.cancel.isVisible()
    assert transport.busy_line.shown_text() == "Prefill of 12 tokens · 40%"
    with qtbot.waitSignal(transport.cancel_requested):
        transport.cancel.click()
    transport.set_view(replace(busy, busy="", fraction=None), Style())
    assert not transport.cancel.isVisible()


@pytest.mark.parametrize(("width", "scale"), [(1440, 1.0), (1440, 1.5), (1024, 1.5), (1100, 1.0)])
def test_there_is_always_room_to_cancel(qtbot: QtBot, width: int, scale: float) -> None:
    style = Style(scale=scale)
    transport = Transport(style)
    qtbot.addWidget(transport)
    transport.resize(width, style.px(40))
    transport.show()
    text = "Downloading 143.0 MiB of 474.7 MiB"
    transport.set_view(TransportView(ready=True, busy=text, fraction=0.3), style)
    QApplication.processEvents()
    assert transport.cancel.width() >= transport.cancel.sizeHint().width()
    right = transport.cancel.mapTo(transport, transport.cancel.rect().bottomRight()).x()
    assert right <= width
    assert transport.busy_line.label.text().startswith("Down")
    assert transport.busy_line.label.text().endswith(" · 30%")
    assert transport.step.isVisible()
    assert transport.run.isVisible() or width < 1100
    transport.set_view(TransportView(ready=True), style)
    QApplication.processEvents()
    assert transport.step.isVisible()
    assert transport.play.isVisible()


def view_of(tokens: int, step: int = 0) -> TimelineView:
    blocks = [Block(0, Phase.PREFILL, 0, 8, 10, "prefill · 8 tokens in one pass", "")]
    blocks += [Block(n, Phase.DECODE, 7 + n, 8 + n, 10, "␣word", "") for n in range(1, tokens + 1)]
    names = tuple(f"operation {n}" for n in range(10))
    return TimelineView(tuple(blocks), 10, Cursor(step, 4), (), True, "+ decode", "", names)


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("tokens", [0, 5, 20, 60, 600])
def test_blocks_never_overlap_and_get_narrower_before_they_scroll(
    qtbot: QtBot, tokens: int, scale: float
) -> None:
    style = Style(scale=scale)
    layout = arrange(view_of(tokens).blocks, 1400, style, end=True)
    for one, other in zip(layout.spans, [*layout.spans[1:], layout.end], strict=True):
        assert other.left - one.right >= style.px(3)
    if tokens <= 5 and scale == 1.0:
        assert layout.spans[0].width == 300
        assert layout.labels[0] == "prefill · 8 tokens in one pass"
    if tokens == 20 and scale == 1.0:
        assert layout.total <= 1400
    if tokens == 600:
        assert layout.total > 1400
        assert set(layout.labels[1:]) == {""}


def test_with_hundreds_of_tokens_the_timeline_follows_the_playhead(qtbot: QtBot) -> None:
    timeline = Timeline(Style())
    qtbot.addWidget(timeline)
    timeline.resize(1000, 47)
    timeline.set_view(view_of(600), Style())
    assert timeline.scene.block_box(0).left() >= 0
    timeline.set_view(view_of(600, step=500), Style())
    box = timeline.scene.block_box(500)
    assert 0 <= box.left() < box.right() <= 1000
    assert timeline.scene.event_at(timeline.scene.event_x(Cursor(500, 4))) == Cursor(500, 4)
    timeline.set_view(view_of(600, step=2), Style())
    assert timeline.scene.block_box(2).left() >= 0


@pytest.mark.parametrize("palette", list(PALETTES.values()), ids=lambda palette: palette.name)
def test_every_block_can_be_read_before_at_and_after_the_playhead(
    qtbot: QtBot, palette: Palette
) -> None:
    timeline = Timeline(Style(palette))
    qtbot.addWidget(timeline)
    least = 7.0 if palette.name == "contrast" else 4.5
    for step in range(3):
        view = view_of(2, step=step)
        timeline.set_view(view, Style(palette))
        for block in view.blocks:
            ground, text = timeline.scene.block_colours(block)
            assert contrast(ground, text) >= least


def test_an_empty_timeline_does_nothing(qtbot: QtBot) -> None:
    timeline = Timeline(Style())
    qtbot.addWidget(timeline)
    timeline.show()
    assert timeline.scene.event_at(100.0) is None
    assert timeline.tooltip_at(QPointF(100, 20)) == ""
    QTest.mouseClick(timeline, Qt.MouseButton.LeftButton, pos=QPoint(100, 20))
    QTest.keyClick(timeline, Qt.Key.Key_Right)
    assert timeline.accessibleDescription() == "Nothing has been computed yet"


def test_every_button_has_words_and_can_be_reached_by_tab(panel: TimelinePanel) -> None:
    for button in panel.transport.buttons:
        assert button.accessibleName()
        assert button.toolTip()
        assert button.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert len({button.accessibleName() for button in panel.transport.buttons}) == len(
        panel.transport.buttons
    )
    assert set(panel.transport.granularities) == set(Granularity)
    assert panel.context.prompt == STORY
