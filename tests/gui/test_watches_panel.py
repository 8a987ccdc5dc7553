"""Watches as a person pins and uses them: from Values, in the list, by mouse and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger import session
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.spots import Shown, Spot
from decoder_gui.main_window import MainWindow
from decoder_gui.panels.find.watches import WatchesPanel
from decoder_gui.panels.values import ValuesPanel
from decoder_gui.theme.palette import ThemeName
from decoder_gui.view import View
from decoder_gui.viewdata.numbers import format_value
from decoder_gui.viewdata.watches import NO_WATCHES
from decoder_gui.waiting import wait_until
from tests.debugger.recorded import held
from tests.gui.conftest import STORY, settle

Key = Qt.Key
PATTERN = Spot("blocks.1.attn.pattern", head=2, index=0)
ROW = Spot("blocks.2.resid_post")


@pytest.fixture
def panel(
    stories_context: AppContext, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> WatchesPanel:
    # Every reading at once, however busy the machine is.
    monkeypatch.setattr("decoder_gui.panels.find.watches.AT_ONCE", 600.0)
    made = WatchesPanel(stories_context)
    qtbot.addWidget(made)
    made.resize(600, 400)
    made.show()
    qtbot.waitExposed(made)
    return made


def show_panel(qtbot: QtBot, panel: ValuesPanel) -> None:
    qtbot.addWidget(panel)
    panel.resize(900, 300)
    panel.show()
    qtbot.waitExposed(panel)


def series(context: AppContext, spot: Spot) -> list[float]:
    assert context.trace is not None
    return [
        float(held(context.trace, step, spot.array)[0, spot.head, -1, spot.index])
        for step in range(len(context.trace.steps))
    ]


def point(panel: WatchesPanel, row: int, step: int) -> QPoint:
    return panel.list.plot(row).point(step).toPoint()


def test_an_empty_panel_says_how_to_pin(panel: WatchesPanel) -> None:
    assert panel.empty.text() == NO_WATCHES
    assert panel.empty.isVisible()
    assert not panel.list.isVisible()


def test_the_numbers_shown_are_those_of_the_trace(panel: WatchesPanel) -> None:
    context = panel.context
    context.watches.add(PATTERN)
    (row,) = panel.list.rows
    assert [reading.value for reading in row.readings] == series(context, PATTERN)
    assert row.value == format_value(series(context, PATTERN)[-1], 4)
    context.move(-1)
    context.seek(Cursor(2, context.trace.operation_index("blocks.1.attn.pattern")))  # type: ignore[union-attr]
    (row,) = panel.list.rows
    assert row.value == format_value(series(context, PATTERN)[2], 4)
    context.move(-1)  # the weights of this step do not exist yet
    (row,) = panel.list.rows
    assert (row.value, row.note) == (format_value(series(context, PATTERN)[1], 4), "from step 1")
    assert row.later == 2


def test_the_plot_puts_larger_values_higher(panel: WatchesPanel) -> None:
    context = panel.context
    context.watches.add(PATTERN)
    values = series(context, PATTERN)
    plot = panel.list.plot(0)
    heights = [-plot.point(step).y() for step in range(len(values))]
    assert np.argsort(heights, kind="stable").tolist() == np.argsort(values).tolist()
    across = [plot.point(step).x() for step in range(len(values))]
    assert across == sorted(across)
    assert plot.box.left() < across[0]
    assert across[-1] < plot.box.right()


def test_a_click_on_a_point_travels_there_and_chooses_the_cell(
    panel: WatchesPanel, qtbot: QtBot
) -> None:
    context = panel.context
    values = ValuesPanel(context)
    show_panel(qtbot, values)
    context.watches.add(PATTERN)
    QTest.mouseClick(panel.list.viewport(), Qt.MouseButton.LeftButton, pos=point(panel, 0, 3))
    assert context.trace is not None
    assert context.cursor == Cursor(3, context.trace.operation_index("blocks.1.attn.pattern"))
    assert context.selection.head == 2
    view = values.view
    assert view is not None
    assert view.cell is not None
    assert (view.cell.head, view.column) == (2, 0)
    assert view.value(view.row, view.column) == series(context, PATTERN)[3]


def test_keys_choose_a_step_travel_and_remove(panel: WatchesPanel) -> None:
    context = panel.context
    context.watches.add(PATTERN)
    context.watches.add(ROW)
    listed = panel.list
    listed.setFocus()
    assert listed.chosen_step == 5
    QTest.keyClick(listed, Key.Key_Left)
    QTest.keyClick(listed, Key.Key_Left)
    assert listed.chosen_step == 3
    assert listed.accessibleDescription().endswith(
        "Step 3, position 14: " + (f"{series(context, PATTERN)[3]:.9g}.")
    )
    QTest.keyClick(listed, Key.Key_Return)
    assert context.cursor is not None
    assert context.cursor.step == 3
    QTest.keyClick(listed, Key.Key_Down)
    assert listed.chosen is not None
    assert listed.chosen.label == "blocks.2.resid_post"
    QTest.keyClick(listed, Key.Key_Home)
    QTest.keyClick(listed, Key.Key_Space)
    assert context.cursor.step == 0
    QTest.keyClick(listed, Key.Key_Delete)
    assert [watch.spot for watch in context.watches.items] == [PATTERN]


def test_a_row_shows_another_number_by_key_and_menu(panel: WatchesPanel) -> None:
    context = panel.context
    context.watches.add(ROW)
    assert context.trace is not None
    array = context.trace.array(5, ROW.array)
    assert array is not None
    values = array[0, -1].astype(np.float64)
    assert panel.list.rows[0].value == format_value(float(np.sqrt(values @ values)), 4)
    panel.list.setFocus()
    QTest.keyClick(panel.list, Key.Key_N)
    assert panel.list.rows[0].shown is Shown.MEAN
    assert panel.list.rows[0].value == format_value(float(values.mean()), 4)
    menu = panel.list.build_menu(0)
    {action.text(): action for action in menu.actions()}["Show its max"].trigger()
    menu.deleteLater()
    assert panel.list.rows[0].value == format_value(float(values.max()), 4)
    menu = panel.list.build_menu(0)
    {action.text(): action for action in menu.actions()}["Stop watching"].trigger()
    menu.deleteLater()
    assert not context.watches.items.items


def test_gaps_are_hatched_and_named(panel: WatchesPanel) -> None:
    context = panel.context
    last = context.trace.positions - 2  # type: ignore[union-attr]
    context.watches.add(Spot("blocks.0.attn.pattern", head=0, index=last))
    (row,) = panel.list.rows
    assert row.missing == f"no key {last} in steps 0–3"
    assert row.point_words(0) == f"Step 0: no key {last}"
    assert panel.list.tooltip_at(point(panel, 0, 0)) == row.point_words(0)
    assert row.missing in panel.list.tooltip_at(panel.list.row_rect(0).topLeft() + QPoint(9, 9))


def test_a_run_that_grows_is_watched_on(panel: WatchesPanel) -> None:
    context = panel.context
    context.watches.add(PATTERN)
    context.go_last()
    context.take_landing()
    settle(context)
    assert context.trace is not None
    assert wait_until(lambda: len(panel.list.rows[0].readings) == 7)
    assert [r.value for r in panel.list.rows[0].readings] == series(context, PATTERN)
    context.prefill("A dog.")
    settle(context)
    assert len(panel.list.rows[0].readings) == 1


def test_what_was_not_kept_is_said(
    make_context: Callable[..., AppContext], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        session.Session.__init__,
        "__kwdefaults__",
        {**(session.Session.__init__.__kwdefaults__ or {}), "budget": 0},
    )
    context = make_context("stories", STORY, tokens=3)
    panel = WatchesPanel(context)
    qtbot.addWidget(panel)
    panel.show()
    qtbot.waitExposed(panel)
    context.watches.add(PATTERN)
    assert panel.list.rows[0].missing == "not kept in steps 0–2"
    assert panel.list.rows[0].value == "no value"
    context.replay(1, 1)
    settle(context)
    assert panel.list.rows[0].missing == "not kept in steps 0, 2"
    assert panel.list.rows[0].readings[1].value == series_at(context, 1)


def series_at(context: AppContext, step: int) -> float:
    assert context.trace is not None
    array = context.trace.array(step, PATTERN.array)
    assert array is not None
    return float(array[0, PATTERN.head, -1, PATTERN.index])


def test_a_place_is_pinned_once(panel: WatchesPanel) -> None:
    heard: list[str] = []
    panel.context.notice.connect(heard.append)
    panel.context.watches.add(PATTERN)
    panel.context.watches.add(PATTERN)
    assert len(panel.context.watches.items) == 1
    assert "already" in heard[-1]


def test_what_is_saved_is_read_again(stories_context: AppContext) -> None:
    watches = stories_context.watches
    watches.add(PATTERN)
    watches.add(ROW, Shown.MAX)
    saved = watches.save()
    watches.clear()
    assert watches.load([*saved, {"array": 3}]) == (
        "Watch 3 was left out: a place needs the name of an array, such as blocks.0.mlp.post.",
    )
    assert [(w.spot, w.shown) for w in watches.items] == [(PATTERN, Shown.NORM), (ROW, Shown.MAX)]


def test_values_pins_a_cell_and_a_row_by_key_and_menu(
    stories_context: AppContext, qtbot: QtBot
) -> None:
    context = stories_context
    assert context.trace is not None
    panel = ValuesPanel(context)
    show_panel(qtbot, panel)
    context.seek(Cursor(4, context.trace.operation_index("blocks.1.attn.pattern")))
    context.select(head=2)
    cell = panel.grid.cell_rect(panel.view.row, 5).center()  # type: ignore[union-attr]
    QTest.mouseClick(panel.grid.viewport(), Qt.MouseButton.LeftButton, pos=cell)
    panel.grid.setFocus()
    QTest.keyClick(panel.grid, Key.Key_W)
    QTest.keyClick(panel.grid, Key.Key_W, Qt.KeyboardModifier.ShiftModifier)
    spots = [watch.spot for watch in context.watches.items]
    assert spots == [
        Spot("blocks.1.attn.pattern", head=2, index=5),
        Spot("blocks.1.attn.pattern", head=2),
    ]
    menu = panel.cells.build_menu(panel.view.row, 6)  # type: ignore[union-attr]
    texts = [action.text().split("\t")[0] for action in menu.actions()]
    assert texts == ["Watch this value", "Watch this row", "Stop when this value crosses…"]
    menu.actions()[0].trigger()
    menu.deleteLater()
    assert context.watches.items.items[-1].spot.index == 6


def test_a_position_that_is_not_the_newest_is_pinned_as_such(
    stories_context: AppContext, qtbot: QtBot
) -> None:
    context = stories_context
    assert context.trace is not None
    panel = ValuesPanel(context)
    show_panel(qtbot, panel)
    context.seek(Cursor(0, context.trace.operation_index("blocks.0.mlp.post")))
    context.select(query=3)
    panel.cells.watch(3, 11)
    (watch,) = context.watches.items
    assert watch.spot == Spot("blocks.0.mlp.post", position=3, index=11)


def test_a_probability_of_the_sampler_can_be_pinned(
    stories_context: AppContext, qtbot: QtBot
) -> None:
    context = stories_context
    panel = ValuesPanel(context)
    show_panel(qtbot, panel)
    context.go_last()
    view = panel.view
    assert view is not None
    panel.cells.watch(view.row, view.column)
    (watch,) = context.watches.items
    assert watch.spot == Spot("final", index=view.column)
    assert context.watches.refresh(10.0)
    readings = context.watches.histories.readings(watch)
    assert readings[-1].value == view.value(view.row, view.column)
    context.set_sampling(temperature=2.0)
    assert context.watches.refresh(10.0)
    assert context.watches.histories.readings(watch)[-1].value != readings[-1].value
    context.watches.travel(watch.number, 2)
    assert context.trace is not None
    assert context.cursor == Cursor(2, len(context.trace.operations) - 1)


@pytest.fixture
def window(qtbot: QtBot, make_context: Callable[..., AppContext]) -> Iterator[MainWindow]:
    context = make_context("stories", STORY, tokens=6)
    made = MainWindow(context.style)
    made.resize(QSize(1440, 900))
    made.show()
    made.furnish(context)
    qtbot.waitExposed(made)
    yield made
    made.close()
    made.deleteLater()
    QApplication.sendPostedEvents(None, 0)
    QApplication.processEvents()


def test_w_pins_what_is_chosen_wherever_the_keyboard_is(qtbot: QtBot, window: MainWindow) -> None:
    assert window.workspace is not None
    context = window.workspace.context
    window.activateWindow()
    qtbot.keyClick(window, Key.Key_W)
    assert [watch.spot.array for watch in context.watches.items] == ["final"]
    window.workspace.show_view(View.FIND)
    qtbot.keyClick(window, Key.Key_Home)
    qtbot.keyClick(window, Key.Key_W, Qt.KeyboardModifier.ShiftModifier)
    assert context.watches.items.items[-1].spot == Spot("blocks.0.resid_pre")
    panel = window.workspace.panels["watches"]
    assert isinstance(panel, WatchesPanel)
    assert len(panel.list.rows) == 2


def test_it_is_painted_in_every_theme_without_a_hidden_line(
    panel: WatchesPanel,
) -> None:
    context = panel.context
    context.watches.add(PATTERN)
    for name in ThemeName:
        context.set_theme(name)
        picture = panel.list.viewport().grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
        box = panel.list.plot(0).box
        accent = context.style.colour("accent").rgb()
        seen = sum(
            picture.pixel(x, y) == accent
            for x in range(box.left(), box.right())
            for y in range(box.top(), box.bottom())
        )
        assert seen > 20
