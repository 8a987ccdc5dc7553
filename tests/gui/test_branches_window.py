"""Branches in the whole window, by its keys: the tree is under the timeline in every workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.main_window import MainWindow
from decoder_gui.panels.compare.branches import BranchesPanel
from decoder_gui.panels.timeline import TimelinePanel
from decoder_gui.view import View
from decoder_gui.waiting import wait_until
from decoder_gui.widgets.notice import Notice
from decoder_gui.workspace import Workspace

CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def workspace(qtbot: QtBot, make_context: Callable[..., AppContext]) -> Iterator[Workspace]:
    context = make_context("stories", "Once upon a time", tokens=4, temperature=0.0)
    window = MainWindow(context.style)
    window.resize(QSize(1440, 900))
    window.show()
    window.furnish(context)
    qtbot.waitExposed(window)
    assert window.workspace is not None
    yield window.workspace
    window.close()
    window.deleteLater()
    QApplication.sendPostedEvents(None, 0)
    QApplication.processEvents()


def press(workspace: Workspace, key: Qt.Key, *modifiers: Qt.KeyboardModifier) -> None:
    held = Qt.KeyboardModifier.NoModifier
    for modifier in modifiers:
        held |= modifier
    QTest.keyClick(workspace.window(), key, held)
    assert wait_until(lambda: not workspace.context.running)


def names(workspace: Workspace) -> list[str]:
    return [branch.name for branch in workspace.context.branches.tree]


def test_fork_undo_redo_and_going_from_branch_to_branch_by_key(workspace: Workspace) -> None:
    context = workspace.context
    assert context.trace is not None
    context.seek(Cursor(1, len(context.trace.operations) - 1))
    assert context.moment is not None
    taken = context.moment.choices[1].token_id
    context.take(next(c.token_id for c in context.moment.candidates if c.token_id != taken))
    assert wait_until(lambda: not context.running)
    assert names(workspace) == ["main", "branch 1"]
    timeline = workspace.findChild(TimelinePanel)
    assert timeline is not None
    high = timeline.timeline.height()
    press(workspace, Qt.Key.Key_Z, CONTROL)
    assert names(workspace) == ["main"]
    assert wait_until(lambda: timeline.timeline.height() < high)
    press(workspace, Qt.Key.Key_Z, CONTROL, SHIFT)
    assert names(workspace) == ["main", "branch 1"]
    assert context.branches.tree.active == 1
    press(workspace, Qt.Key.Key_BracketRight, CONTROL)
    assert context.branches.tree.active == 0
    press(workspace, Qt.Key.Key_BracketLeft, CONTROL)
    assert context.branches.tree.active == 1


def test_the_panel_stands_in_find(workspace: Workspace) -> None:
    workspace.show_view(View.COMPARE)
    panel = workspace.findChild(BranchesPanel)
    assert panel is not None
    assert wait_until(panel.isVisible)
    press(workspace, Qt.Key.Key_E, CONTROL)
    dialogs = [
        w for w in QApplication.topLevelWidgets() if w.windowTitle().startswith("New branch")
    ]
    (dialog,) = [each for each in dialogs if each.isVisible()]
    QTest.keyClick(dialog, Qt.Key.Key_Return)
    assert wait_until(lambda: len(workspace.context.branches.tree) == 2)
    assert wait_until(lambda: not workspace.context.running)
    assert wait_until(lambda: panel.table.shown(1, 1).startswith("zeroed head"))


def test_a_new_prompt_says_that_the_branches_are_gone_above_the_foot(workspace: Workspace) -> None:
    context, bar = workspace.context, workspace.top_bar
    assert context.trace is not None
    window = workspace.window()
    (foot,) = (p for p in workspace.panels.values() if isinstance(p, TimelinePanel))
    bar.show_notice("Something else.")
    low = foot.height()
    context.seek(Cursor(1, len(context.trace.operations) - 1))
    context.resample()
    assert wait_until(lambda: not context.running)
    context.branches.edit_prompt("Once upon a day")
    assert wait_until(lambda: not context.running)
    assert len(context.branches.tree) == 3
    assert wait_until(lambda: foot.height() > low)
    notice = window.findChild(Notice)
    assert notice is not None
    top = foot.mapTo(window, QPoint(0, 0)).y()
    assert wait_until(lambda: notice.geometry().bottom() < top)
    context.prefill()
    assert wait_until(lambda: not context.running)
    assert bar.notice.startswith("2 other branches are gone: Prefill begins anew.")
    context.prefill()
    assert wait_until(lambda: not context.running)
    assert len(context.branches.tree) == 1


def test_the_branch_in_hand_is_in_sight_in_a_low_panel(workspace: Workspace) -> None:
    context = workspace.context
    assert context.trace is not None
    for _ in range(6):
        context.seek(Cursor(1, len(context.trace.operations) - 1))
        context.resample()
        assert wait_until(lambda: not context.running)
    workspace.show_view(View.COMPARE)
    workspace.window().resize(1280, 620)
    QApplication.processEvents()
    panel = workspace.panels["branches"]
    assert isinstance(panel, BranchesPanel)
    table = panel.table
    last = len(panel.view.ids) - 1
    assert table.currentIndex().row() == last
    place = table.visualRect(table.model().index(last, 0))
    assert table.viewport().rect().contains(place)
    assert not table.viewport().rect().contains(table.visualRect(table.model().index(0, 0)))


def test_the_list_of_keys_follows_the_scale_while_it_is_open(workspace: Workspace) -> None:
    context = workspace.context
    QTest.keyClicks(workspace.window(), "?")
    dialog = workspace.shortcuts_dialog
    assert dialog is not None
    assert dialog.isVisible()
    label = dialog.findChildren(QLabel)[-1]
    before = label.font().pixelSize(), label.font().pointSizeF()
    context.set_scale(0.6)
    assert (label.font().pixelSize(), label.font().pointSizeF()) < before
    dialog.close()
