"""The Values panel, with real clicks and keys; every number in sight is read back."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.session import Session
from decoder_gui.panels.values import ValuesPanel
from decoder_gui.viewdata.values import ValuesView
from tests.gui.conftest import settle

LEFT = Qt.MouseButton.LeftButton
PLAIN = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def panel(qtbot: QtBot, stories_context: AppContext) -> ValuesPanel:
    return shown(qtbot, stories_context)


def shown(qtbot: QtBot, context: AppContext, width: int = 780, height: int = 240) -> ValuesPanel:
    panel = ValuesPanel(context)
    qtbot.addWidget(panel)
    panel.resize(width, height)
    panel.show()
    qtbot.waitExposed(panel)
    return panel


def go(panel: ValuesPanel, step: int, operation: str) -> ValuesView:
    trace = panel.context.trace
    assert trace is not None
    panel.context.seek(Cursor(step, trace.operation_index(operation)))
    return view_of(panel)


def view_of(panel: ValuesPanel) -> ValuesView:
    assert panel.view is not None
    return panel.view


def assert_cells_equal_the_trace(panel: ValuesPanel, step: int, name: str) -> None:
    """Every cell in sight states the recorded number."""
    trace = panel.context.trace
    assert trace is not None
    held = trace.array(step, name)
    assert held is not None
    matrix = held[0].reshape(-1, held.shape[-1])
    cells = panel.grid.shown_cells()
    assert cells
    for cell in cells:
        value = float(matrix[cell.row, cell.column])
        if cell.text == "masked":
            assert value in (-math.inf, 0.0)
            assert panel.grid.colour_of(cell.row, cell.column) is None
        else:
            assert math.isclose(float(cell.text), value, rel_tol=0.05, abs_tol=5.01e-4)


def test_every_operation_s_numbers_are_the_recorded_ones(panel: ValuesPanel) -> None:
    trace = panel.context.trace
    assert trace is not None
    for step in (0, 4):
        for operation in trace.operations:
            view = go(panel, step, operation.name)
            assert view.array is not None
            if operation.outputs:
                assert_cells_equal_the_trace(panel, step, view.output)
            assert view.derivation is not None, (operation.name, view.without)
            assert view.derivation.agrees
            assert panel.arithmetic.lines.text() == "\n".join(view.derivation.lines)
            assert not panel.arithmetic.problem.isVisible()


def test_the_matrix_shows_all_rows(panel: ValuesPanel) -> None:
    go(panel, 0, "blocks.1.attn.pattern")
    QTest.mouseClick(panel.mode.button("matrix"), LEFT)
    QApplication.processEvents()  # the grid takes the room that it now asks for
    cells = panel.grid.shown_cells()
    assert len({cell.row for cell in cells}) > 3
    assert_cells_equal_the_trace(panel, 0, "blocks.1.attn.pattern")
    QTest.mouseClick(panel.mode.button("row"), LEFT)
    assert len({cell.row for cell in panel.grid.shown_cells()}) == 1


def test_a_click_on_a_weight_chooses_the_key_for_all_panels(panel: ValuesPanel) -> None:
    view = go(panel, 4, "blocks.2.attn.pattern")
    panel.grid.clearFocus()
    rect = panel.grid.cell_rect(view.row, 3)
    QTest.mouseClick(panel.grid.viewport(), LEFT, PLAIN, rect.center())
    selection = panel.context.selection
    assert selection.key == 3
    assert selection.cell == (view.row, 3)
    assert panel.arithmetic.lines.text().startswith("weight[3] = exp(")
    trace = panel.context.trace
    assert trace is not None
    weights = trace.array(4, "blocks.2.attn.pattern")
    assert weights is not None
    assert f"= {weights[0, 0, 0, 3]:.3f}" in panel.arithmetic.lines.text()
    assert not panel.grid.hasFocus()


def test_a_click_in_the_matrix_chooses_head_and_query(panel: ValuesPanel) -> None:
    view = go(panel, 0, "blocks.0.attn.scores")
    panel.resize(900, 600)
    QTest.mouseClick(panel.mode.button("matrix"), LEFT)
    row = view.row_of(1, 4)
    panel.context.select(head=1)
    QApplication.processEvents()
    panel.grid.verticalScrollBar().setValue(0)
    rect = panel.grid.cell_rect(row, 2)
    QTest.mouseClick(panel.grid.viewport(), LEFT, PLAIN, rect.center())
    selection = panel.context.selection
    assert (selection.head, selection.query, selection.key) == (1, 4, 2)
    assert view_of(panel).row == row


def test_arrow_keys_choose_cells_while_the_keyboard_is_there(panel: ValuesPanel) -> None:
    go(panel, 4, "ln_final")
    grid = panel.grid
    grid.setFocus()
    QTest.keyClick(grid, Qt.Key.Key_Home)
    assert view_of(panel).column == 0
    QTest.keyClick(grid, Qt.Key.Key_Right)
    QTest.keyClick(grid, Qt.Key.Key_Right)
    assert view_of(panel).column == 2
    assert "[2]" in grid.accessibleDescription()
    QTest.keyClick(grid, Qt.Key.Key_Down)
    assert view_of(panel).column > 2
    QTest.keyClick(grid, Qt.Key.Key_End)
    last = view_of(panel).columns - 1
    assert view_of(panel).column == last
    assert any(cell.column == last for cell in grid.shown_cells())
    # The column says nothing about another axis: the best token is chosen there.
    logits = go(panel, 4, "logits")
    assert logits.value(logits.row, logits.column) == np.max(logits.row_values(logits.row))


def test_outputs_head_and_position(panel: ValuesPanel) -> None:
    go(panel, 0, "blocks.0.attn.q")
    QTest.mouseClick(panel.output.button("blocks.0.attn.v"), LEFT)
    assert view_of(panel).output == "blocks.0.attn.v"
    assert go(panel, 0, "blocks.1.attn.q").output == "blocks.1.attn.v"
    QTest.mouseClick(panel.head.more, LEFT)
    assert panel.context.selection.head == 1
    QTest.mouseClick(panel.position.less, LEFT)
    view = view_of(panel)
    assert panel.context.selection.query == view.first + view.positions - 2
    assert_cells_equal_the_trace(panel, 0, "blocks.1.attn.v")
    assert "head 1" in view.title
    go(panel, 4, "ln_final")
    assert not panel.head.isVisible()
    assert not panel.position.isVisible()


def test_tiny_golden_numbers_and_spelled_out_arithmetic(
    qtbot: QtBot, tiny_context: AppContext
) -> None:
    panel = shown(qtbot, tiny_context)
    captions: list[tuple[str, str]] = []
    panel.caption_changed.connect(lambda title, hint: captions.append((title, hint)))
    go(panel, 0, "blocks.0.attn.pattern")
    assert [cell.text for cell in panel.grid.shown_cells()] == ["0.382087", "0.617913"]
    assert [cell.label for cell in panel.grid.shown_cells()] == ["The", "cat"]
    assert captions[-1] == (
        "Softmax · head 0 · query 1 “cat”",
        "2 values · min 0.382 · max 0.618 · sum 1.000",
    )
    assert panel.legend.ends() == ("0", "1")
    go(panel, 0, "logits")
    texts = [cell.text for cell in panel.grid.shown_cells()]
    assert texts == ["1.233117", "0.692403", "0.261792", "-0.962760"], "most likely first"
    assert [cell.label for cell in panel.grid.shown_cells()] == ["sat", ".", "cat", "The"]
    assert "1.233117" in panel.arithmetic.lines.text()
    assert panel.arithmetic.lines.text().count("×") == 2
    go(panel, 0, "sample")
    QTest.mouseClick(panel.output.button("raw"), LEFT)
    texts = [cell.text for cell in panel.grid.shown_cells()]
    assert texts == ["0.482585", "0.281025", "0.182698", "0.053693"]


def test_a_fault_is_named_where_the_number_is_not_what_it_should_be(
    qtbot: QtBot, stories_context: AppContext
) -> None:
    panel = shown(qtbot, stories_context)
    stories_context.set_fault("no-scale", True)
    settle(stories_context)
    go(panel, 0, "blocks.0.attn.scores")
    assert panel.arithmetic.problem.isVisible()
    assert "no-scale" in panel.arithmetic.problem.text()
    stories_context.clear_faults()
    settle(stories_context)
    go(panel, 0, "blocks.0.attn.scores")
    assert not panel.arithmetic.problem.isVisible()
    stories_context.set_fault("nan-weight", True)
    settle(stories_context)
    go(panel, 0, "blocks.1.mlp.pre")
    assert "NaN" in panel.arithmetic.problem.text()
    row = view_of(panel).row
    assert panel.grid.colour_of(row, 0) is None


def test_a_block_that_was_not_kept_is_recomputed(
    qtbot: QtBot, make_context: Callable[..., AppContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_context("stories", "Once upon a time", tokens=3)
    defaults = Session.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "budget", 0)
    context = make_context("stories", "Once upon a time", tokens=3)
    panel = shown(qtbot, context)
    for operation in ("blocks.1.attn.scores", "blocks.2.attn.z", "blocks.3.mlp.out"):
        view = go(panel, 2, operation)
        assert view.missing is not None
        assert "ecomputing" in panel.arithmetic.lines.text()
        # Scores and values read keys of earlier steps, which are recomputed one by one.
        qtbot.waitUntil(lambda: view_of(panel).derivation is not None, timeout=10_000)
        assert whole.trace is not None
        kept = whole.trace.array(2, operation)
        assert kept is not None
        np.testing.assert_array_equal(view_of(panel).array, kept[0])
        assert panel.grid.shown_cells()
        worked = view_of(panel).derivation
        assert worked is not None, view_of(panel).without
        assert worked.agrees


def test_the_arithmetic_can_be_copied(panel: ValuesPanel) -> None:
    go(panel, 4, "blocks.2.attn.pattern")
    panel.arithmetic.lines.copy_action.trigger()
    assert QGuiApplication.clipboard().text() == panel.arithmetic.lines.text()


def test_a_large_matrix_paints_only_what_is_in_sight(panel: ValuesPanel) -> None:
    go(panel, 0, "logits")
    QTest.mouseClick(panel.mode.button("matrix"), LEFT)
    view = view_of(panel)
    assert len(panel.grid.shown_cells()) < view.rows * view.columns / 10
    bar = panel.grid.horizontalScrollBar()
    bar.setValue(bar.maximum())
    assert any(cell.column == view.columns - 1 for cell in panel.grid.shown_cells())
    assert_cells_equal_the_trace(panel, 0, "logits")


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_numbers_fit_their_cells(qtbot: QtBot, stories_context: AppContext, scale: float) -> None:
    stories_context.set_scale(scale)
    panel = shown(qtbot, stories_context, 1200, 400)
    for operation in ("blocks.0.attn.scores", "blocks.3.mlp.pre", "sample"):
        view = go(panel, 4, operation)
        metrics = panel.grid.number_metrics()
        for cell in panel.grid.shown_cells():
            room = panel.grid.cell_rect(cell.row, cell.column).width()
            assert metrics.horizontalAdvance(cell.text) < room, cell
        assert view.array is not None


def test_before_anything_is_computed(qtbot: QtBot, qapp: object) -> None:
    context = AppContext()
    try:
        panel = shown(qtbot, context)
        assert "No model is open yet" in panel.arithmetic.lines.text()
        assert not panel.grid.isVisible()
    finally:
        context.close()
