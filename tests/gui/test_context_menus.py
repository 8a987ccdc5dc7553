"""Context menus by the real event, with the mouse and with the menu key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.rules.places import OnOperation
from decoder_gui.debugger.stopping.spots import Spot
from decoder_gui.panels.find.watches import WatchesPanel
from decoder_gui.panels.forward_pass import ForwardPassPanel
from decoder_gui.panels.values import ValuesPanel

Reason = QContextMenuEvent.Reason


@pytest.fixture(autouse=True)
def no_menu_is_left() -> Iterator[None]:
    yield
    menu = QApplication.activePopupWidget()
    if menu is not None:
        menu.close()
    QApplication.processEvents()


def shown(qtbot: QtBot, panel: QWidget) -> None:
    qtbot.addWidget(panel)
    panel.resize(900, 700)
    panel.show()
    qtbot.waitExposed(panel)


def open_menu(area: QAbstractScrollArea, at: QPoint, reason: Reason = Reason.Mouse) -> QMenu:
    """Ask for the menu as Qt does, and find it on the screen."""
    target = area if reason is Reason.Keyboard else area.viewport()
    QApplication.sendEvent(target, QContextMenuEvent(reason, at, target.mapToGlobal(at)))
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    return menu


def choose(menu: QMenu, words: str) -> None:
    """Down to an entry and Enter."""
    texts = [action.text().split("\t")[0] for action in menu.actions()]
    for _ in range(texts.index(words) + 1):
        QTest.keyClick(menu, Qt.Key.Key_Down)
    QTest.keyClick(menu, Qt.Key.Key_Return)


@pytest.mark.parametrize("reason", [Reason.Mouse, Reason.Keyboard])
def test_a_cell_is_watched_from_its_menu(
    stories_context: AppContext, qtbot: QtBot, reason: Reason
) -> None:
    context = stories_context
    assert context.trace is not None
    panel = ValuesPanel(context)
    shown(qtbot, panel)
    context.seek(Cursor(4, context.trace.operation_index("blocks.1.attn.pattern")))
    assert panel.view is not None
    context.select(head=1, cell=(panel.view.row, 3))
    assert panel.view is not None
    column = 3 if reason is Reason.Keyboard else 7
    cell = panel.grid.cell_rect(panel.view.row, column).center()
    choose(open_menu(panel.grid, cell, reason), "Watch this value")
    (watch,) = context.watches.items
    assert watch.spot == Spot("blocks.1.attn.pattern", head=1, index=column)
    assert panel.view.column == column  # what the menu is about is also chosen


def test_an_operation_is_a_stop_from_its_menu(stories_context: AppContext, qtbot: QtBot) -> None:
    context = stories_context
    panel = ForwardPassPanel(context)
    shown(qtbot, panel)
    rows = panel.tree.shown_rows()
    index = next(i for i, row in enumerate(rows) if row.label == "Logits")
    menu = open_menu(panel.tree, panel.tree.row_rect(index).center())
    choose(menu, "Stop at this operation in every step")
    assert [item.rule for item in context.stops.items] == [OnOperation("logits")]


def test_a_watch_leads_to_its_value_from_its_menu(
    stories_context: AppContext, qtbot: QtBot
) -> None:
    context = stories_context
    assert context.trace is not None
    panel = WatchesPanel(context)
    shown(qtbot, panel)
    context.watches.add(Spot("blocks.0.ln1", index=2))
    context.seek(Cursor(3, 0))
    menu = open_menu(panel.list, panel.list.row_rect(0).center())
    choose(menu, "Go to the value shown")
    assert context.cursor == Cursor(2, context.trace.operation_index("blocks.0.ln1"))
