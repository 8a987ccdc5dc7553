"""The Branches panel and its dialogs, through real clicks and keys, with the numbers read back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialogButtonBox, QInputDialog, QWidget
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.comparing.against import OtherBranch
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.panels.base import NO_MODEL
from decoder_gui.panels.compare.branches import BranchesPanel
from decoder_gui.theme.palette import ThemeName
from decoder_gui.viewdata.edit_form import EditKind
from decoder_gui.waiting import wait_until
from decoder_gui.widgets.edit_dialog import EditDialog
from decoder_gui.widgets.text_dialog import TextDialog
from model.ablation import Patch, ZeroHead, ZeroMlp
from model.byte_counts import format_bytes

LEFT = Qt.MouseButton.LeftButton
OK = QDialogButtonBox.StandardButton.Ok


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


def shown_in(context: AppContext, qtbot: QtBot) -> BranchesPanel:
    panel = BranchesPanel(context)
    qtbot.addWidget(panel)
    panel.resize(520, 420)
    panel.show()
    QTest.qWaitForWindowExposed(panel)
    return panel


@pytest.fixture
def panel(make_context: Callable[..., AppContext], qtbot: QtBot) -> Iterator[BranchesPanel]:
    context = make_context("stories", "Once upon a time", tokens=5, temperature=0.0)
    panel = shown_in(context, qtbot)
    yield panel
    panel.hide()


def click(widget: QWidget) -> None:
    assert widget.isEnabled()
    QTest.mouseClick(widget, LEFT)


def point_at(panel: BranchesPanel, row: int) -> None:
    panel.table.setFocus()
    QTest.keyClick(panel.table, Qt.Key.Key_Home, Qt.KeyboardModifier.ControlModifier)
    for _ in range(row):
        QTest.keyClick(panel.table, Qt.Key.Key_Down)
    assert panel.table.currentIndex().row() == row


def column(panel: BranchesPanel, at: int) -> list[str]:
    return [panel.table.shown(row, at) for row in range(len(panel.table.table.rows))]


def test_before_a_model_it_says_so(qtbot: QtBot) -> None:
    context = AppContext()
    panel = shown_in(context, qtbot)
    assert panel.empty.text() == NO_MODEL
    assert not panel.table.isVisible()
    assert not panel.ablate_button.isEnabled()
    panel.hide()
    context.close()


def test_the_table_holds_what_the_branches_hold(panel: BranchesPanel) -> None:
    context = panel.context
    take_other(context, 2)
    tree = context.branches.tree
    assert column(panel, 0) == ["main", "▶ branch 1"]
    assert column(panel, 1) == ["the run that all began with", tree[1].reason]
    assert column(panel, 2) == [str(len(branch.steps)) for branch in tree]
    for row, branch in enumerate(tree):
        known = [p for p in branch.run.log_probabilities if p is not None]
        assert float(panel.table.shown(row, 3)) == pytest.approx(math.fsum(known), abs=0.0005)
        taken = tree.own_bytes()[branch.id] + context.branches.kept[branch.id]
        assert panel.table.shown(row, 4) == format_bytes(taken)
    assert context.branches.kept[0] > 0
    assert "Shares what lies before position" in panel.details.text()
    assert context.branches.text(1) in panel.details.text()


def test_enter_and_click_switch(panel: BranchesPanel) -> None:
    context = panel.context
    take_other(context, 2)
    point_at(panel, 0)
    QTest.keyClick(panel.table, Qt.Key.Key_Return)
    settle(context)
    assert context.branches.tree.active == 0
    assert column(panel, 0) == ["▶ main", "branch 1"]
    point_at(panel, 1)
    click(panel.switch_button)
    settle(context)
    assert context.branches.tree.active == 1
    assert not panel.switch_button.isEnabled()
    row = panel.table.visualRect(panel.table.model().index(0, 1)).center()
    QTest.mouseClick(panel.table.viewport(), LEFT, pos=row)
    settle(context)
    assert context.branches.tree.active == 0


def test_delete_undo_and_redo(panel: BranchesPanel) -> None:
    context = panel.context
    assert not panel.delete_button.isEnabled()
    take_other(context, 2)
    point_at(panel, 1)
    QTest.keyClick(panel.table, Qt.Key.Key_Delete)
    settle(context)
    assert column(panel, 0) == ["▶ main"]
    assert panel.undo_button.toolTip() == "deleted branch 1 (Ctrl+Z)"
    click(panel.undo_button)
    settle(context)
    assert column(panel, 0) == ["main", "▶ branch 1"]
    click(panel.redo_button)
    settle(context)
    assert column(panel, 0) == ["▶ main"]
    assert not panel.redo_button.isEnabled()


def test_a_freed_branch_says_that_it_is_run_again(panel: BranchesPanel) -> None:
    context = panel.context
    take_other(context, 2)
    context.branches.switch(0)
    settle(context)
    context.branches.delete(1)
    settle(context)
    context.branches.undo()
    settle(context)
    assert column(panel, 1)[1].endswith("; run again when entered")
    assert column(panel, 3)[1] == "—"
    point_at(panel, 1)
    assert "entering it runs it again" in panel.details.text()
    assert not panel.compare_button.isEnabled()


def test_rename_by_key(panel: BranchesPanel) -> None:
    context = panel.context
    take_other(context, 2)
    point_at(panel, 1)
    QTest.keyClick(panel.table, Qt.Key.Key_F2)
    dialog = panel.dialog
    assert isinstance(dialog, QInputDialog)
    dialog.setTextValue("a dog instead of a cat, at some length")
    dialog.accept()
    assert context.branches.tree[1].name == "a dog instead of a cat, at some length"
    assert column(panel, 0)[1].endswith("…")


def test_compare_compares_with_the_chosen_branch(panel: BranchesPanel) -> None:
    context = panel.context
    context.branches.zero_head(1, 0, 2)
    settle(context)
    point_at(panel, 0)
    click(panel.compare_button)
    assert context.comparison.against == OtherBranch(0)
    assert wait_until(lambda: context.comparison.found is not None)
    found = context.comparison.found
    assert found is not None
    assert found.first is not None
    assert found.first.name == "blocks.1.attn.z"


def test_ablate_begins_with_what_is_selected(panel: BranchesPanel) -> None:
    context = panel.context
    assert context.trace is not None
    context.select(layer=2, head=3)
    context.seek(Cursor(1, 4))
    click(panel.ablate_button)
    dialog = panel.dialog
    assert isinstance(dialog, EditDialog)
    assert (dialog.layer.value(), dialog.head.value(), dialog.step.value()) == (2, 3, 1)
    assert dialog.layer.isVisible()
    assert not dialog.name.isVisible()
    click(dialog.buttons.button(OK))
    settle(context)
    branch = context.branches.active
    assert branch is not None
    assert branch.edits == (ZeroHead(2, 3, context.trace.steps[1].first),)
    assert column(panel, 1)[1] == "zeroed head 2.3 from step 1"
    assert "Its engine is edited: zeroed head 2.3 from position" in panel.details.text()


def test_zero_an_mlp_of_one_step(panel: BranchesPanel) -> None:
    context = panel.context
    click(panel.ablate_button)
    dialog = panel.dialog
    assert isinstance(dialog, EditDialog)
    dialog.kinds.setFocus()
    QTest.keyClick(dialog.kinds, Qt.Key.Key_Down)
    assert dialog.kind is EditKind.ZERO_MLP
    assert not dialog.head.isVisible()
    dialog.step.setValue(2)
    QTest.mouseClick(dialog.same, LEFT, pos=QPoint(8, dialog.same.height() // 2))
    assert not dialog.same.isChecked()
    QTest.keyClick(dialog, Qt.Key.Key_Return)
    settle(context)
    branch = context.branches.active
    assert branch is not None
    assert isinstance(branch.edits[0], ZeroMlp)
    assert len(branch.steps) == 3


def test_patch_a_head_from_another_position(panel: BranchesPanel) -> None:
    context = panel.context
    assert context.trace is not None
    click(panel.ablate_button)
    dialog = panel.dialog
    assert isinstance(dialog, EditDialog)
    dialog.kinds.setCurrentText(EditKind.PATCH)
    assert not dialog.patched_head.isVisible()
    dialog.name.setCurrentText("blocks.1.attn.z")
    assert dialog.patched_head.isVisible()
    dialog.patched_head.setValue(2)
    dialog.position.setValue(5)
    dialog.source.setValue(1)
    click(dialog.buttons.button(OK))
    settle(context)
    branch = context.branches.active
    assert branch is not None
    (patch,) = branch.edits
    assert isinstance(patch, Patch)
    assert (patch.name, patch.positions, patch.head) == ("blocks.1.attn.z", (5,), 2)
    source = context.branches.tree[0].run.trace.array(0, "blocks.1.attn.z")
    assert source is not None
    assert patch.values.tobytes() == source[0, 2, 1:2].tobytes()


def test_edit_the_text_and_see_what_is_shared(panel: BranchesPanel) -> None:
    context = panel.context
    click(panel.text_button)
    dialog = panel.dialog
    assert isinstance(dialog, TextDialog)
    assert dialog.text == context.branches.text(0)
    assert not dialog.begin.isEnabled()
    assert dialog.verdict.text() == "The text is that of the branch in hand."
    dialog.edit.setPlainText("Once upon a day")
    assert dialog.verdict.text() == (
        "3 tokens at the beginning stay as they are; 1 token is computed."
    )
    click(dialog.begin)
    settle(context)
    assert context.branches.text(1) == "Once upon a day"
    assert column(panel, 1)[1] == "prompt changed from position 3"


def test_a_text_that_does_not_fit_begins_nothing(panel: BranchesPanel) -> None:
    click(panel.text_button)
    dialog = panel.dialog
    assert isinstance(dialog, TextDialog)
    dialog.edit.setPlainText("cat " * 400)
    assert "the context holds 1 to 128" in dialog.verdict.text()
    assert not dialog.begin.isEnabled()
    dialog.edit.setPlainText("")
    assert not dialog.begin.isEnabled()
    dialog.reject()


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("theme", list(ThemeName))
def test_it_is_drawn_at_every_scale_and_in_every_palette(
    panel: BranchesPanel, theme: ThemeName, scale: float
) -> None:
    context = panel.context
    take_other(context, 2)
    context.set_theme(theme)
    context.set_scale(scale)
    panel.resize(round(520 * scale), round(420 * scale))
    panel.grab()
    for button in (panel.switch_button, panel.ablate_button, panel.redo_button):
        assert button.text()
        assert button.geometry().right() <= panel.width()
