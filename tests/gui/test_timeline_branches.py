"""The tree under the timeline, through real clicks and the wheel, with the numbers read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.panels.timeline import TimelinePanel
from decoder_gui.theme.palette import PALETTES
from decoder_gui.theme.style import Style
from decoder_gui.waiting import wait_until
from decoder_gui.widgets.timeline_scene import HEIGHT


def settle(context: AppContext) -> None:
    assert wait_until(lambda: not context.running)


def take_other(context: AppContext, step: int, rank: int = 1) -> None:
    assert context.trace is not None
    context.seek(Cursor(step, len(context.trace.operations) - 1))
    assert context.moment is not None
    taken = [choice.token_id for choice in context.moment.choices[step : step + 1]]
    others = [c.token_id for c in context.moment.candidates if c.token_id not in taken]
    context.take(others[rank])
    settle(context)


@pytest.fixture
def panel(make_context: Callable[..., AppContext], qtbot: QtBot) -> Iterator[TimelinePanel]:
    context = make_context("stories", "Once upon a time", tokens=6, temperature=0.0)
    panel = TimelinePanel(context)
    qtbot.addWidget(panel)
    panel.resize(1440, 160)
    panel.show()
    QTest.qWaitForWindowExposed(panel)
    yield panel
    panel.hide()


def click(panel: TimelinePanel, where: QPointF) -> None:
    QTest.mouseClick(panel.timeline, Qt.MouseButton.LeftButton, pos=where.toPoint())


def test_one_branch_is_as_high_as_ever(panel: TimelinePanel) -> None:
    style = panel.context.style
    assert panel.timeline.sizeHint().height() == style.px(HEIGHT)
    assert panel.timeline.branch_scene.in_sight == range(0)
    assert panel.timeline.branch_scene.line_at(40) is None


def test_a_fork_shows_the_line_that_was_left_and_a_click_enters_it(panel: TimelinePanel) -> None:
    context, timeline = panel.context, panel.timeline
    single = timeline.sizeHint().height()
    assert context.trace is not None
    old = context.trace
    take_other(context, 2)
    assert single < timeline.sizeHint().height() < 2 * single
    scene = timeline.branch_scene
    assert [line.name for line in scene.lines] == ["main"]
    line = scene.lines[0]
    assert context.model is not None
    assert [step.label for step in line.own] == [
        context.model.tokenizer.piece(step.token_ids[0]).text for step in old.steps[3:]
    ]
    assert line.fork == 3
    # Its blocks stand under the steps that they stand beside, and the fork where it leaves.
    assert scene.box(0, 0).left() == timeline.scene.block_box(3).left()
    assert scene.layouts[0].fork == pytest.approx(timeline.scene.block_box(3).left(), abs=3)
    assert "main" in timeline.accessibleDescription()
    assert "In branch 1" in timeline.accessibleDescription()
    click(panel, scene.box(0, 1).center())
    settle(context)
    assert context.trace is old
    (line,) = timeline.branch_scene.lines
    assert line.name == "branch 1"
    assert "took “" in timeline.tooltip_at(timeline.branch_scene.box(0, 0).center())
    assert timeline.branch_scene.name(0).startswith("branch 1 · took “")


def test_a_branch_leaves_the_line_that_it_has_most_in_common_with(panel: TimelinePanel) -> None:
    context = panel.context
    take_other(context, 1)
    context.go_last()
    context.move(1)
    settle(context)
    take_other(context, 2)
    context.branches.switch(0)
    settle(context)
    lines = panel.timeline.branch_scene.lines
    assert [(line.name, line.above, line.fork) for line in lines] == [
        ("branch 1", -1, 2),
        ("branch 2", 0, 3),
    ]


def test_more_lines_than_fit_are_scrolled_to(panel: TimelinePanel) -> None:
    context, timeline = panel.context, panel.timeline
    for rank in range(5):
        context.branches.switch(0)
        settle(context)
        take_other(context, 1, rank)
    context.branches.switch(0)
    settle(context)
    high = timeline.sizeHint().height()
    scene = timeline.branch_scene
    assert len(scene.lines) == 5
    assert scene.in_sight == range(3)
    assert scene.name(2).endswith("(2 more: scroll here)")
    over = scene.row(1).center()
    for _ in range(4):
        wheel = QWheelEvent(
            over,
            timeline.mapToGlobal(over.toPoint()).toPointF(),
            QPoint(),
            QPoint(0, -120),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(timeline, wheel)
    scene = timeline.branch_scene
    assert scene.in_sight == range(2, 5)
    chosen = scene.lines[4]
    click(panel, scene.row(4).center())
    settle(context)
    assert context.branches.tree.active == chosen.branch
    assert timeline.sizeHint().height() == high


def test_a_click_on_the_fork_of_a_branch_without_steps_of_its_own(panel: TimelinePanel) -> None:
    context, timeline = panel.context, panel.timeline
    context.set_sampling(temperature=0.7)
    assert context.trace is not None
    context.seek(Cursor(2, len(context.trace.operations) - 1))
    context.resample()
    settle(context)
    context.branches.switch(0)
    settle(context)
    scene = timeline.branch_scene
    assert scene.lines[0].own == ()
    click(panel, scene.row(0).center())
    settle(context)
    assert context.branches.tree.active == 1


def test_what_has_to_be_run_again_is_drawn_as_a_frame(panel: TimelinePanel) -> None:
    context, timeline = panel.context, panel.timeline
    take_other(context, 2)
    context.branches.switch(0)
    settle(context)
    image = QImage(timeline.size(), QImage.Format.Format_ARGB32)
    timeline.render(image)
    spot = timeline.branch_scene.box(0, 0)
    place = QPoint(round(spot.right()) - 3, round(spot.center().y()))
    filled = image.pixelColor(place)
    context.set_fault("no-scale", True)
    settle(context)
    assert timeline.branch_scene.lines[0].pending
    assert "run again" in timeline.tooltip_at(spot.center())
    timeline.render(image)
    assert image.pixelColor(place) != filled
    context.branches.switch(1)
    settle(context)
    assert not timeline.branch_scene.lines[0].pending


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("palette", list(PALETTES))
def test_lines_lie_within_the_widget_at_every_scale(
    panel: TimelinePanel, palette: str, scale: float
) -> None:
    context = panel.context
    take_other(context, 2)
    style = replace(Style(), palette=PALETTES[palette], scale=scale)  # type: ignore[index]
    timeline = panel.timeline
    timeline.set_view(timeline._view, style)
    timeline.resize(1440, timeline.sizeHint().height())
    scene = timeline.branch_scene
    assert scene.row(0).bottom() <= timeline.height()
    assert scene.box(0, 0).height() < scene.row(0).height()
    assert scene.row(0).top() >= timeline.scene.block_box(0).bottom()
    timeline.grab()
