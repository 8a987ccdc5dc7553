"""The workspace Compare through its widgets: choices, sentences, the table, the difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.comparing.against import (
    FullPass,
    OtherBranch,
    OtherModel,
    OtherOrder,
    PlainLoops,
)
from decoder_gui.debugger.comparing.comparison_words import headline, scientific
from decoder_gui.debugger.comparing.findings import Comparison
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.saving.capture_writing import write_run
from decoder_gui.main_window import MainWindow
from decoder_gui.panels.compare.comparison import OTHER_FILE, ComparisonPanel
from decoder_gui.panels.compare.difference import DifferencePanel
from decoder_gui.theme.palette import ThemeName
from decoder_gui.view import View
from decoder_gui.viewdata.comparison import heat_of
from decoder_gui.waiting import wait_until
from tests.gui.conftest import settle

Key = Qt.Key


@pytest.fixture
def window(qtbot: QtBot, stories_context: AppContext) -> Iterator[MainWindow]:
    yield from shown(qtbot, stories_context)


def shown(qtbot: QtBot, context: AppContext) -> Iterator[MainWindow]:
    made = MainWindow(context.style)
    made.resize(QSize(1440, 900))
    made.show()
    workspace = made.furnish(context)
    qtbot.waitExposed(made)
    workspace.show_view(View.COMPARE)
    yield made
    made.close()
    made.deleteLater()


def context_of(window: MainWindow) -> AppContext:
    assert window.workspace is not None
    return window.workspace.context


def comparison_panel(window: MainWindow) -> ComparisonPanel:
    assert window.workspace is not None
    return cast(ComparisonPanel, window.workspace.panels["comparison"])


def difference_panel(window: MainWindow) -> DifferencePanel:
    assert window.workspace is not None
    return cast(DifferencePanel, window.workspace.panels["difference"])


def choose(window: MainWindow, words: str) -> None:
    """Choose in the list by the keyboard and wait for the result."""
    panel = comparison_panel(window)
    at = next(i for i in range(panel.choice.count()) if words in panel.choice.itemText(i))
    panel.choice.setCurrentIndex(at)
    panel.choice.activated.emit(at)
    assert wait_until(lambda: context_of(window).idle)


def found_in(window: MainWindow) -> Comparison:
    found = context_of(window).comparison.found
    assert found is not None
    return found


def with_fault(window: MainWindow, fault: str) -> None:
    context_of(window).set_fault(fault, True)
    settle(context_of(window))


def test_before_anything_is_chosen_it_says_what_to_do(window: MainWindow) -> None:
    panel = comparison_panel(window)
    assert panel.sentence.text().startswith("Choose what to compare the run in hand with.")
    assert not panel.table.isVisible()
    assert not panel.again_button.isEnabled()
    assert "Compare the run" in difference_panel(window).words.text()
    context_of(window).comparison.go_to_first()  # the key does nothing but say so


@pytest.mark.parametrize(
    ("words", "against"),
    [
        ("Full pass", FullPass()),
        ("Plain loops", PlainLoops()),
        ("Sampling order llama.cpp", OtherOrder("llama.cpp")),
    ],
)
def test_a_sound_run_agrees(window: MainWindow, words: str, against: object) -> None:
    choose(window, words)
    comparison = context_of(window).comparison
    assert comparison.against == against
    found = found_in(window)
    assert found.agrees
    panel = comparison_panel(window)
    assert panel.sentence.text() == f"✓ {headline(found)}"
    assert panel.first_button.isHidden()
    assert panel.origin_button.isHidden()


def test_the_table_has_the_largest_differences(window: MainWindow) -> None:
    with_fault(window, "no-scale")
    choose(window, "Full pass")
    found, table = found_in(window), comparison_panel(window).table
    model = table.model()
    assert model.columnCount() == 4
    assert [model.headerData(i, Qt.Orientation.Horizontal) for i in range(4)] == [
        f"layer {i}" for i in range(4)
    ]
    seen = 0
    for result in found.results:
        operation = result.operation
        name = operation.short_name
        row = next(i for i, row in enumerate(table.table.rows) if row.name == name)
        text = table.shown(row, operation.layer or 0)
        if result.worst is None:
            assert text == "—"
            continue
        number = scientific(result.worst.difference)
        assert text == (f"≠ {number}" if result.past else number)
        tip = model.data(model.index(row, operation.layer or 0), Qt.ItemDataRole.ToolTipRole)
        assert f"largest difference {number}" in tip
        seen += 1
    assert seen > 50
    assert comparison_panel(window).sentence.text().startswith("≠ First difference at step 0")


def test_the_first_difference_is_one_click_away(qtbot: QtBot, window: MainWindow) -> None:
    with_fault(window, "stale-cache")
    choose(window, "Full pass")
    context, panel, found = context_of(window), comparison_panel(window), found_in(window)
    assert "It comes from block 0, Append K, V to cache" in panel.sentence.text()
    qtbot.mouseClick(panel.first_button, Qt.MouseButton.LeftButton)
    assert found.first is not None
    assert context.cursor == Cursor(1, found.first.operation)
    selection = context.selection
    assert context.moment is not None
    in_hand = context.moment.position, selection.key
    assert in_hand == (found.first.position, found.first.column)
    assert (selection.head, selection.layer) == (found.first.head, 0)
    qtbot.mouseClick(panel.origin_button, Qt.MouseButton.LeftButton)
    assert context.moment is not None
    assert context.moment.operation is not None
    assert context.moment.operation.name == "blocks.0.cache"
    assert "records no array" in difference_panel(window).words.text()
    context.go_last()
    qtbot.keyClick(window, Key.Key_F8)
    assert context.cursor == Cursor(1, found.first.operation)


def test_cells_are_travelled_to_by_keyboard(qtbot: QtBot, window: MainWindow) -> None:
    with_fault(window, "no-scale")
    choose(window, "Full pass")
    context, table = context_of(window), comparison_panel(window).table
    index = table.currentIndex()
    assert table.table.rows[index.row()].cells[index.column()].origin
    table.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.keyClick(table, Key.Key_Down)
    qtbot.keyClick(table, Key.Key_Right)
    qtbot.keyClick(table, Key.Key_Return)
    assert context.moment is not None
    assert context.moment.operation is not None
    assert context.moment.operation.name == "blocks.1.attn.pattern"
    worst = next(
        r.worst for r in found_in(window).results if r.operation.name == "blocks.1.attn.pattern"
    )
    assert worst is not None
    assert context.cursor is not None
    assert context.cursor.step == worst.step
    assert context.moment is not None
    assert context.moment.position == worst.position


def test_the_difference_is_left_minus_right(window: MainWindow) -> None:
    with_fault(window, "no-scale")
    choose(window, "Full pass")
    context, panel, found = context_of(window), difference_panel(window), found_in(window)
    for name, step in (("blocks.2.mlp.pre", 0), ("blocks.1.attn.scores", 3), ("logits", 2)):
        assert context.trace is not None
        context.seek(Cursor(step, context.trace.producer(name)))
        assert wait_until(lambda: context.idle)
        view = panel.view
        assert view is not None
        assert view.output == name
        ours = found.left.recording.array(step, name)
        theirs = found.right.recording.array(0, name)
        assert ours is not None
        assert theirs is not None
        here = context.trace.steps[step]
        rows = ours[0].astype(np.float64)
        first = here.last - rows.shape[-2]
        columns = min(rows.shape[-1], theirs.shape[-1])
        other = theirs[0][..., first : here.last, :columns].astype(np.float64)
        with np.errstate(invalid="ignore"):
            wanted = np.where(rows == other, 0.0, rows - other)
        shown_array = view.array
        assert shown_array is not None
        assert np.array_equal(shown_array, wanted)
        cells = panel.grid.shown_cells()
        assert cells
        for cell in cells[:40]:
            assert cell.text == view.text(cell.row, cell.column)
        head, position = view.place(view.row)
        at = (position - first, view.column)
        whole = at if head is None else (head, *at)
        words = panel.cell.text()
        assert f"{float(rows[whole]):.9g}" in words
        assert f"{float(other[whole]):.9g}" in words


def test_choosing_a_cell_of_the_difference_selects_it(qtbot: QtBot, window: MainWindow) -> None:
    choose(window, "Full pass")
    context, panel = context_of(window), difference_panel(window)
    assert context.trace is not None
    context.seek(Cursor(0, context.trace.producer("blocks.1.attn.pattern")))
    assert wait_until(lambda: context.idle)
    panel.grid.setFocus(Qt.FocusReason.TabFocusReason)
    context.select(head=1, query=5, key=2, cell=(0, 2))
    qtbot.keyClick(panel.grid, Key.Key_Right)
    assert (context.selection.head, context.selection.query) == (1, 5)
    assert context.selection.key == 3
    assert panel.cell.text().startswith("Head 1, query 5 “␣was”, key 3")


def test_a_branch_is_compared_up_to_its_own_token(window: MainWindow) -> None:
    context = context_of(window)
    context.seek(Cursor(2, 0))
    context.go_to_position(13)
    assert context.moment is not None
    landing = context.moment.landing
    other = next(
        c.token_id
        for c in context.moment.candidates
        if landing is not None and c.token_id != landing.token_id
    )
    context.take(other)
    settle(context)
    assert len(context.branches.tree) == 2
    choose(window, "Branch main")
    comparison, found = context.comparison, found_in(window)
    assert isinstance(comparison.against, OtherBranch)
    assert found.mismatch is not None
    assert found.mismatch.position == 14
    assert found.first is None
    panel = comparison_panel(window)
    assert "The tokens part at position 14" in panel.sentence.text()
    assert "The 14 positions before it agree" in panel.sentence.text()
    table = panel.table
    assert {cell.text for row in table.table.rows for cell in row.cells} == {"0", "—"}
    assert panel.beyond.isVisible()
    panel.beyond.click()
    embed = found.results[0]
    assert embed.beyond is not None
    assert table.shown(0, 0) == f"{scientific(embed.beyond.difference)} *"
    context.go_first()
    table.cell_chosen.emit(0, 0)
    assert context.cursor == Cursor(embed.beyond.step, 0)
    assert context.moment is not None
    assert context.moment.position == embed.beyond.position == 14
    assert context.selection.query is None  # the newest of its step: stepping on goes on with it


def test_a_model_a_capture_and_what_cannot_be_compared(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, panel = context_of(window), comparison_panel(window)
    path = tmp_path / "run.safetensors"
    assert context.run_state is not None
    for _ in write_run(path, context.room.session, context.run_state, context.sampling):
        pass
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    choose(window, OTHER_FILE)
    assert context.comparison.against == OtherModel(str(path))
    assert found_in(window).agrees
    assert panel.choice.currentText() == "run.safetensors"
    context.comparison.compare(OtherModel("tiny"))
    assert wait_until(lambda: context.idle)
    assert "they have 4 and 1 layers" in panel.sentence.text()
    context.comparison.compare(OtherModel("nowhere"))
    assert wait_until(lambda: context.idle)
    assert "no model called 'nowhere'" in panel.sentence.text()
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("", ""))
    choose(window, OTHER_FILE)
    assert context.comparison.against == OtherModel("nowhere")  # nothing was chosen


def test_tolerance_and_staleness(qtbot: QtBot, window: MainWindow) -> None:
    choose(window, "Full pass")
    context, panel = context_of(window), comparison_panel(window)
    assert panel.tolerance.placeholderText() == "1e-4"
    panel.tolerance.setText("1e-9")
    panel.tolerance.editingFinished.emit()
    assert wait_until(lambda: context.idle)
    assert found_in(window).tolerance == 1e-9
    assert not found_in(window).agrees
    panel.tolerance.setText("much")
    panel.tolerance.editingFinished.emit()
    assert panel.tolerance.text() == "1e-9"
    panel.tolerance.setText("")
    panel.tolerance.editingFinished.emit()
    assert wait_until(lambda: context.idle)
    assert found_in(window).agrees
    context.go_last()
    context.take_landing()
    settle(context)
    assert context.comparison.stale
    assert "The run has changed" in panel.remarks.text()
    qtbot.mouseClick(panel.again_button, Qt.MouseButton.LeftButton)
    assert wait_until(lambda: context.idle)
    assert not context.comparison.stale
    assert found_in(window).positions == 18
    context.prefill("Once upon a time")
    settle(context)
    assert context.comparison.found is None


def test_it_can_be_stopped_and_a_step_interrupts_it(window: MainWindow) -> None:
    context, panel = context_of(window), comparison_panel(window)
    context.comparison.compare(PlainLoops())
    assert panel.stop_button.isVisible()
    context.comparison.stop()
    assert wait_until(lambda: context.idle)
    assert context.comparison.stage is None
    assert context.comparison.found is None
    assert "given up" in panel.sentence.text()
    context.comparison.compare(PlainLoops())
    context.go_last()
    context.take_landing()
    settle(context)
    assert context.comparison.found is None
    assert context.trace is not None
    assert len(context.trace.steps) == 7


def test_another_model_begins_without_a_comparison(window: MainWindow) -> None:
    choose(window, "Full pass")
    context = context_of(window)
    context.open_model("tiny")
    assert wait_until(lambda: context.idle)
    context.prefill("The cat")
    settle(context)
    assert context.comparison.found is None
    assert context.comparison.against is None
    choose(window, "Plain loops")
    assert found_in(window).tolerance == 1e-12
    assert found_in(window).agrees


def test_it_looks_right_in_every_theme_and_size(window: MainWindow) -> None:
    with_fault(window, "no-mask")
    choose(window, "Full pass")
    context, panel = context_of(window), comparison_panel(window)
    pictures = set()
    for theme in ThemeName:
        for scale in (1.0, 2.0):
            context.set_theme(theme)
            context.set_scale(scale)
            image = QImage(panel.size(), QImage.Format.Format_ARGB32)
            panel.render(image, QPoint())
            pictures.add(bytes(image.constBits()[: 4 * 400 * 100]))
            header = panel.table.verticalHeader()
            assert header.defaultSectionSize() == context.style.px(22)
    assert len(pictures) == 6


def test_heat_is_half_at_the_tolerance() -> None:
    assert heat_of(1e-4, 1e-4) == 0.5
    assert heat_of(0.0, 1e-4) == 0.0
    assert heat_of(float("nan"), 1e-4) == heat_of(float("inf"), 1e-4) == 1.0
    assert heat_of(1e-12, 1e-4) == 0.0
    assert 0.5 < heat_of(1e-3, 1e-4) < heat_of(1.0, 1e-4) <= 1.0
    assert heat_of(1e-9, 0.0) == 1.0


def test_a_run_that_is_a_capture_is_compared_with_a_model(
    window: MainWindow, tmp_path: Path, make_context: Callable[..., AppContext]
) -> None:
    context = context_of(window)
    path = tmp_path / "run.safetensors"
    assert context.run_state is not None
    for _ in write_run(path, context.room.session, context.run_state, context.sampling):
        pass
    context.open_model(str(path))
    assert wait_until(lambda: context.idle)
    labels = [offer.label for offer in context.comparison.offers]
    assert not any("Full pass" in label for label in labels)
    context.comparison.compare(OtherModel("stories"))
    assert wait_until(lambda: context.idle)
    assert found_in(window).agrees
    assert found_in(window).positions == 17
