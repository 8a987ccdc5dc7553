"""The Logit lens panel: its numbers are the model's, and a cell leads to the residual it reads."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QPaintEvent, QRegion
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.laboratory.lens_table import lens_columns
from decoder_gui.panels.find.logit_lens import LogitLensPanel
from decoder_gui.theme.style import Style
from decoder_gui.viewdata.lens import LensView, share_text
from tests.gui.conftest import settle

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def panel(qtbot: QtBot, stories_context: AppContext) -> LogitLensPanel:
    return shown(qtbot, stories_context)


def shown(qtbot: QtBot, context: AppContext, width: int = 1300) -> LogitLensPanel:
    panel = LogitLensPanel(context)
    qtbot.addWidget(panel)
    panel.resize(width, 420)
    panel.show()
    qtbot.waitExposed(panel)
    settle(context)
    return panel


def view_of(panel: LogitLensPanel) -> LensView:
    assert panel.view is not None
    return panel.view


def go(context: AppContext, step: int, operation: str) -> None:
    assert context.trace is not None
    context.seek(Cursor(step, context.trace.operation_index(operation)))


def test_the_last_row_is_the_model_s_own_distribution(panel: LogitLensPanel) -> None:
    context = panel.context
    trace, view = context.trace, view_of(panel)
    assert trace is not None
    assert context.model is not None
    assert view.columns == trace.positions
    for step in trace.steps:
        logits = trace.array(step.index, "logits")
        assert logits is not None
        for position, row in enumerate(logits[0], step.last - len(logits[0])):
            shares = np.exp(row.astype(np.float64) - row.max())
            shares /= shares.sum()
            cell = view.cell(view.rows - 1, position)
            best = int(row.argmax())
            assert cell.text == context.model.tokenizer.piece(best).text
            assert math.isclose(cell.share, shares[best], abs_tol=1e-5)
            assert cell.number == share_text(cell.share)


def test_cells_in_sight_are_the_table_s(panel: LogitLensPanel) -> None:
    view, tokenizer = view_of(panel), view_of(panel).tokenizer
    seen = panel.grid.shown_cells()
    assert len(seen) >= 5 * 10
    for cell in seen:
        token = int(view.table.ids[cell.row, cell.column, 0])
        assert cell.text == tokenizer.piece(token).text
        share = float(view.table.probabilities[cell.row, cell.column, 0])
        assert cell.number == share_text(share)
        assert panel.grid.colour_of(cell.row, cell.column) is not None


def test_a_click_goes_to_the_residual_that_was_read(panel: LogitLensPanel) -> None:
    context, grid = panel.context, panel.grid
    go(context, 4, "sample")
    for row, column, step, operation in (
        (2, 14, 3, "blocks.1.resid_post"),
        (4, 15, 4, "blocks.3.resid_post"),
        (0, 12, 1, "embed"),
        (3, 11, 0, "blocks.2.resid_post"),
    ):
        go(context, 4, "sample")
        for part in (panel.grid, panel.grid.viewport()):
            part.repaint()
        grid.horizontalScrollBar().setValue(grid.horizontalScrollBar().maximum())
        QTest.mouseClick(grid.viewport(), LEFT, pos=grid.cell_rect(row, column).center())
        moment = context.moment
        assert moment is not None
        assert moment.cursor is not None
        assert moment.operation is not None
        assert (moment.cursor.step, moment.operation.name) == (step, operation)
        assert moment.position == column
        assert panel.grid.current == (row, column)


def test_arrows_move_and_enter_travels(panel: LogitLensPanel) -> None:
    context, grid = panel.context, panel.grid
    go(context, 4, "sample")
    assert grid.current == (4, 15)
    here = context.cursor
    QTest.keyClick(grid, Qt.Key.Key_Up)
    QTest.keyClick(grid, Qt.Key.Key_Left)
    assert grid.current == (3, 14)
    assert context.cursor == here
    view = view_of(panel)
    said = grid.accessibleDescription()
    assert view.cell(3, 14).text in said
    assert view.target_words(3, 14) in said
    assert panel.numbers.shown(3, 1).endswith(view.cell(3, 14).text)
    QTest.keyClick(grid, Qt.Key.Key_Return)
    moment = context.moment
    assert moment is not None
    assert moment.operation is not None
    assert moment.operation.name == "blocks.2.resid_post"
    assert moment.step is not None
    assert moment.step.index == 3
    QTest.keyClick(grid, Qt.Key.Key_Home)
    assert grid.current == (3, 0)
    QTest.keyClick(grid, Qt.Key.Key_Left)
    assert grid.current == (3, 0)


def test_rank_of_the_chosen_token_by_block(panel: LogitLensPanel) -> None:
    context = panel.context
    go(context, 2, "sample")
    trace, view = context.trace, view_of(panel)
    assert trace is not None
    column = trace.steps[2].last - 1
    chosen = trace.steps[3].token_ids[0]
    table = panel.numbers.table
    assert len(table.rows) == view.rows
    logits = trace.logits(2)
    assert logits is not None
    assert table.rows[-1][3].text == f"{1 + int((logits > logits[chosen]).sum()):,}"
    for row in range(view.rows):
        assert table.rows[row][3].text == f"{view.table.target_ranks[row, column]:,}"
    [series] = panel.plot._plot.series
    np.testing.assert_array_equal(series.y, view.table.target_ranks[:, column])
    assert f"next {view.tokenizer.piece(chosen).text}" in series.name
    assert table.rows[-1][3].text in panel.plot._plot.description


def test_only_what_exists_at_the_cursor_is_there(panel: LogitLensPanel) -> None:
    context = panel.context
    go(context, 3, "blocks.1.resid_post")
    view = view_of(panel)
    assert view.columns == 15
    assert [view.exists(row, 14) for row in range(5)] == [True, True, True, False, False]
    assert all(view.exists(row, 13) for row in range(5))
    assert panel.grid.colour_of(3, 14) is None
    assert view.cell(4, 14).text == ""
    assert panel.numbers.table.rows[4][1].hatched
    go(context, 3, "embed")
    assert [view_of(panel).exists(row, 14) for row in range(2)] == [True, False]


def test_the_newest_position_takes_the_token_that_would_come(panel: LogitLensPanel) -> None:
    context = panel.context
    context.go_last()
    assert context.moment is not None
    landing = context.moment.landing
    assert landing is not None
    view = view_of(panel)
    last = view.columns - 1
    assert view.table.target_ids[last] == landing.token_id
    assert view.target_name(last).startswith("would be ")
    context.set_sampling(temperature=0.0)
    settle(context)
    best = int(view_of(panel).table.ids[-1, last, 0])
    assert view_of(panel).table.target_ids[last] == best
    assert view_of(panel).table.target_ranks[-1, last] == 1


def test_it_grows_with_the_run_and_reads_only_what_is_new(
    panel: LogitLensPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = panel.context
    begun: list[int] = []

    def counted(*arguments: object, first: int = 0, **others: object) -> object:
        begun.append(first)
        return lens_columns(*arguments, first=first, **others)  # type: ignore[arg-type]

    monkeypatch.setattr("decoder_gui.commands.lens.lens_columns", counted)
    before = view_of(panel).columns
    context.go_last()
    context.take_landing()
    settle(context)
    context.go_last()
    settle(context)
    view = view_of(panel)
    assert view.columns == before + 1
    assert begun
    assert min(begun) == before  # the token taken is the one that the last column expected
    assert context.moment is not None
    landing = context.moment.landing
    assert landing is not None
    context.take(5 if landing.token_id != 5 else 6)
    settle(context)
    context.go_last()
    settle(context)
    assert begun[1:] == [before]  # and now it is another one
    assert context.trace is not None
    assert view.table.target_ids[before - 1] == context.trace.token_ids[before]
    context.prefill("Once upon a time")
    settle(context)
    assert view_of(panel).columns == 4
    assert begun[-1] == 0  # the same first tokens, but read anew


def test_the_same_tokens_under_a_fault_are_read_anew(panel: LogitLensPanel) -> None:
    context = panel.context
    sound = view_of(panel).table.probabilities
    context.set_fault("no-mask", True)
    settle(context)
    faulty = view_of(panel).table
    trace = context.trace
    assert trace is not None
    assert np.abs(faulty.probabilities[-1, :8] - sound[-1, :8]).max() > 0.01
    logits = trace.array(0, "logits")
    assert logits is not None
    np.testing.assert_array_equal(faulty.ids[-1, :12, 0], logits[0].argmax(axis=-1))


def test_tiny_and_what_cannot_be_read(
    qtbot: QtBot, make_context: Callable[..., AppContext]
) -> None:
    context = make_context("tiny", "The cat", tokens=2, temperature=0.0)
    panel = shown(qtbot, context)
    view = view_of(panel)
    assert view.rows == 2
    assert [view.row_label(row) for row in range(2)] == ["embedding", "output"]
    trace = context.trace
    assert trace is not None
    logits = trace.logits(0)
    assert logits is not None
    shares = np.exp(logits) / np.exp(logits).sum()
    assert math.isclose(view.cell(1, 1).share, float(shares.max()), rel_tol=1e-12)
    context.set_fault("nan-weight", True)
    settle(context)
    cell = view_of(panel).cell(1, 1)
    assert cell.text == "NaN"
    assert panel.grid.colour_of(1, 1) is None
    assert "not finite" in cell.tip


@pytest.mark.parametrize("scale", [1.5, 2.0])
def test_texts_fit_at_every_scale(qtbot: QtBot, stories_context: AppContext, scale: float) -> None:
    stories_context.set_scale(scale)
    panel = shown(qtbot, stories_context, 1800)
    rects = [panel.grid.cell_rect(row, 3) for row in range(5)]
    assert all(rect.height() >= panel.grid.fontMetrics().height() for rect in rects)
    assert panel.grid.cell_rect(0, 4).left() - rects[0].left() > rects[0].width()


def test_a_small_panel_keeps_its_room_for_the_table(qtbot: QtBot, panel: LogitLensPanel) -> None:
    assert panel.numbers.isVisible()
    assert panel.plot.isVisible()
    panel.resize(500, 180)
    assert not panel.numbers.isVisible()
    qtbot.waitUntil(lambda: len({cell.row for cell in panel.grid.shown_cells()}) == 5)
    panel.resize(400, 420)
    assert panel.numbers.isVisible()
    assert not panel.plot.isVisible()


def test_before_anything_is_computed(qtbot: QtBot, qapp: object) -> None:
    context = AppContext()
    try:
        panel = LogitLensPanel(context)
        qtbot.addWidget(panel)
        panel.show()
        assert "No model is open yet" in panel.empty.text()
        assert not panel.grid.isVisible()
    finally:
        context.close()


def test_a_branch_from_within_the_prompt_is_read_once(panel: LogitLensPanel) -> None:
    """Its first pass is another one cut short: views of it are made whenever they are asked for."""
    context = panel.context
    context.branches.edit_prompt("Once upon a time there was a big dog.")
    settle(context)  # a lens that is read again and again never comes to rest
    assert context.trace is not None
    assert len(context.trace.steps) == 2
    assert context.trace.steps[1].first > 1
    table = context.lens.table
    assert table is not None
    assert table.last == context.trace.positions
    context.lens.want()
    assert not context.lens.pending


class _Painted(QObject):
    """What of a widget is painted, as a region."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.region = QRegion()
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QPaintEvent):
            self.region += event.region()
        return False


def test_a_residual_that_is_computed_paints_its_own_cells(
    panel: LogitLensPanel, qtbot: QtBot
) -> None:
    context, grid = panel.context, panel.grid
    go(context, 1, "blocks.1.ln1")
    qtbot.wait(50)  # until all of that is painted
    before = view_of(panel)
    painted = _Painted(grid.viewport())
    go(context, 1, "blocks.2.ln1")
    QApplication.processEvents()
    view = view_of(panel)
    assert (before.reached, view.reached) == (2, 3)
    column = view.columns - 1
    assert column == view.first
    rect = grid.cell_rect(2, column)
    assert grid.viewport().rect().contains(rect)
    assert QRegion(rect).subtracted(painted.region).isEmpty()
    assert not painted.region.intersects(grid.cell_rect(2, column - 1))
    assert not painted.region.intersects(grid.cell_rect(1, column))


def test_a_step_without_a_residual_draws_nothing_anew(
    panel: LogitLensPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = panel.context
    go(context, 1, "blocks.1.ln1")
    drawn: list[int] = []
    draw = panel.grid.set_view

    def counted(view: LensView | None, at: tuple[int, int], style: Style) -> None:
        drawn.append(1)
        draw(view, at, style)

    monkeypatch.setattr(panel.grid, "set_view", counted)
    context.move(1)
    assert not drawn
    go(context, 1, "blocks.2.ln1")
    assert drawn
    assert panel.view is not None
    assert panel.view.exists(2, panel.view.columns - 1)


def test_in_a_narrow_panel_the_cell_in_hand_is_whole(panel: LogitLensPanel, qtbot: QtBot) -> None:
    context, grid = panel.context, panel.grid
    panel.resize(300, 240)
    context.set_scale(2.0)
    qtbot.wait(20)
    rect = grid.cell_rect(*grid.current)
    assert grid.current[1] == view_of(panel).columns - 1
    assert grid.viewport().rect().contains(rect)
    names = grid.viewport().width() - rect.width()
    assert rect.left() >= names // 2
    context.set_scale(1.0)
