"""The Forward pass panel, with real clicks and keys; what it shows is what the trace holds."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.panels.forward_pass import ForwardPassPanel
from decoder_gui.theme.palette import ThemeName
from decoder_gui.theme.style import Style
from decoder_gui.viewdata.forward_pass import BlockRow, Progress
from decoder_gui.widgets.operation_tree import ShownRow
from decoder_gui.widgets.source_view import SourceView

LEFT = Qt.MouseButton.LeftButton
PLAIN = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def panel(qtbot: QtBot, stories_context: AppContext) -> ForwardPassPanel:
    return shown(qtbot, stories_context)


def shown(
    qtbot: QtBot, context: AppContext, width: int = 270, height: int = 700
) -> ForwardPassPanel:
    panel = ForwardPassPanel(context)
    qtbot.addWidget(panel)
    panel.resize(width, height)
    panel.show()
    qtbot.waitExposed(panel)
    return panel


def rows(panel: ForwardPassPanel) -> dict[str, ShownRow]:
    return {row.label: row for row in panel.tree.shown_rows()}


def go(panel: ForwardPassPanel, step: int, operation: str) -> None:
    trace = panel.context.trace
    assert trace is not None
    panel.context.seek(Cursor(step, trace.operation_index(operation)))


def click(panel: ForwardPassPanel, label: str) -> None:
    tree = panel.tree
    index = [row.label for row in tree.shown_rows()].index(label)
    rect = tree.row_rect(index)
    if not tree.viewport().rect().contains(rect.center()):
        tree.verticalScrollBar().setValue(rect.top() + tree.verticalScrollBar().value())
    QTest.mouseClick(tree.viewport(), LEFT, PLAIN, tree.row_rect(index).center())


def test_the_row_in_hand_is_marked_and_its_neighbours_are_done_or_to_come(
    panel: ForwardPassPanel,
) -> None:
    go(panel, 5, "blocks.2.attn.pattern")
    found = rows(panel)
    assert [row.label for row in panel.tree.shown_rows() if row.current] == ["Softmax"]
    assert found["Scores q·k/√d"].progress is Progress.DONE
    assert found["Weighted values"].progress is Progress.TO_COME
    assert (found["Block 1"].opened, found["Block 2"].opened) == (False, True)
    moment = panel.context.moment
    assert moment is not None
    held = moment.array(5, "blocks.2.attn.pattern")
    assert held is not None
    assert found["Softmax"].detail == str(list(held.shape))
    assert panel.source.file.text() == "model/attention.py"
    marked = [line for _, line, mark in panel.source.code.shown_lines() if mark]
    assert marked == ["weights /= total"]
    assert "sum to 1" in panel.source.sentence.text()
    assert "in hand" in panel.tree.accessibleDescription()


def test_a_click_on_an_operation_goes_there(panel: ForwardPassPanel) -> None:
    go(panel, 1, "blocks.0.ln1")
    click(panel, "MLP up")
    assert panel.context.moment is not None
    assert panel.context.moment.operation is not None
    assert panel.context.moment.operation.name == "blocks.0.mlp.pre"
    click(panel, "Embedding + position")
    assert panel.context.cursor == Cursor(1, 0)


def test_blocks_open_and_close_by_click_and_the_block_in_hand_by_itself(
    panel: ForwardPassPanel,
) -> None:
    go(panel, 1, "blocks.0.ln1")
    assert [r.label for r in panel.tree.shown_rows() if r.opened] == ["Block 0"]
    click(panel, "Block 3")
    assert [r.label for r in panel.tree.shown_rows() if r.opened] == ["Block 0", "Block 3"]
    go(panel, 1, "blocks.1.ln1")
    assert [r.label for r in panel.tree.shown_rows() if r.opened] == ["Block 1", "Block 3"]
    click(panel, "Block 1")
    closed = rows(panel)["Block 1"]
    assert (closed.opened, closed.current) == (False, True)
    go(panel, 1, "blocks.2.ln1")
    assert [r.label for r in panel.tree.shown_rows() if r.opened] == ["Block 2", "Block 3"]


def test_the_keyboard_opens_and_goes(panel: ForwardPassPanel) -> None:
    go(panel, 1, "embed")
    tree = panel.tree
    tree.setFocus()
    QTest.keyClick(tree, Qt.Key.Key_Down)
    assert "Block 0" in tree.accessibleDescription()
    QTest.keyClick(tree, Qt.Key.Key_Left)
    assert rows(panel)["Block 0"].opened is False
    QTest.keyClick(tree, Qt.Key.Key_Right)
    QTest.keyClick(tree, Qt.Key.Key_Down)
    QTest.keyClick(tree, Qt.Key.Key_Return)
    assert panel.context.cursor == Cursor(1, 1)
    QTest.keyClick(tree, Qt.Key.Key_End)
    QTest.keyClick(tree, Qt.Key.Key_Space)
    assert panel.context.trace is not None
    assert panel.context.cursor == Cursor(1, len(panel.context.trace.operations) - 1)


def test_a_click_leaves_the_keyboard_where_it_was(panel: ForwardPassPanel) -> None:
    panel.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    panel.setFocus()
    click(panel, "Block 3")
    assert not panel.tree.hasFocus()


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_the_row_in_hand_stays_in_sight(
    qtbot: QtBot, stories_context: AppContext, scale: float
) -> None:
    stories_context.set_scale(scale)
    panel = shown(qtbot, stories_context, round(270 * scale), 430)
    trace = stories_context.trace
    assert trace is not None
    for operation in range(len(trace.operations)):
        stories_context.seek(Cursor(2, operation))
        index = [row.current for row in panel.tree.shown_rows()].index(True)
        assert panel.tree.viewport().rect().contains(panel.tree.row_rect(index).center())
        assert sum(mark for _, _, mark in panel.source.code.shown_lines()) == 1
        assert len(panel.source.code.shown_lines()) >= 3


def test_tiny_in_another_theme(qtbot: QtBot, tiny_context: AppContext) -> None:
    tiny_context.set_theme(ThemeName.CONTRAST)
    panel = shown(qtbot, tiny_context)
    captions: list[tuple[str, str]] = []
    panel.caption_changed.connect(lambda title, hint: captions.append((title, hint)))
    go(panel, 0, "blocks.0.cache")
    assert captions[-1] == ("Forward pass", "prefill, tokens 0–1")
    assert rows(panel)["Append K, V to cache"].detail == "pos 0–1"
    assert panel.source.file.text() == "model/tiny.py"
    blocks = [row.row for row in panel.tree.shown_rows() if isinstance(row.row, BlockRow)]
    assert len(blocks) == 1


def test_a_wide_panel_puts_the_source_beside_the_tree(
    qtbot: QtBot, stories_context: AppContext
) -> None:
    panel = shown(qtbot, stories_context, 1200, 600)
    QApplication.processEvents()
    assert panel.source.geometry().left() >= panel.tree.geometry().right()
    panel.resize(280, 600)
    QApplication.processEvents()
    assert panel.source.geometry().top() >= panel.tree.geometry().bottom()


def test_before_anything_is_computed(qtbot: QtBot, qapp: object) -> None:
    context = AppContext()
    try:
        panel = shown(qtbot, context)
        assert panel.empty.isVisible()
        assert not panel.tree.isVisible()
    finally:
        context.close()


def test_a_formula_gives_back_its_second_line_once_there_is_room(qtbot: QtBot) -> None:
    view = SourceView()
    qtbot.addWidget(view)
    view.set_explanation(None, "p = exp(s - max s) / sum exp(s - max s)", "A sentence.", Style())
    view.resize(160, 300)
    view.show()
    qtbot.waitExposed(view)
    narrow = view.formula.minimumHeight()
    view.resize(640, 300)
    assert view.formula.minimumHeight() < narrow
    view.resize(160, 300)
    assert view.formula.minimumHeight() == narrow
