"""The Attention panel, with real clicks, keys and pixels; numbers are compared with the trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.engine_room import EngineRoom
from decoder_gui.panels import attention
from decoder_gui.panels.attention import AttentionPanel
from decoder_gui.theme.palette import PALETTES, ThemeName
from decoder_gui.theme.style import Style
from decoder_gui.theme.stylesheet import apply_style
from decoder_gui.viewdata.attention import AttentionView, build_attention
from decoder_gui.viewdata.attention_codes import STEPS
from decoder_gui.viewdata.attention_store import PatternStore
from decoder_gui.viewdata.faults import build_faults
from decoder_gui.widgets.attention_matrix import AttentionMatrix
from decoder_gui.widgets.fault_panel import FaultPanel
from decoder_gui.widgets.hatching import fill_hatched
from decoder_gui.widgets.head_column import HeadColumn
from decoder_gui.widgets.head_grid import HeadGrid
from decoder_gui.widgets.matrix_geometry import FRAME, MatrixGeometry, place
from decoder_gui.widgets.matrix_painting import NUMBER_LEAST, cell_number
from decoder_gui.widgets.run_line import Run, RunLine
from decoder_gui.widgets.viridis import is_light, viridis
from model.errors import ShapeMismatch
from model.faults import all_faults
from model.shape import ModelShape
from model.trace import Step
from tests.debugger.recorded import moment_of, random_loaded, record
from tests.gui.conftest import STORY, settle

LEFT = Qt.MouseButton.LeftButton
PLAIN = Qt.KeyboardModifier.NoModifier
COLOURS = {tuple(int(c) for c in colour) for colour in viridis(STEPS + 1)}


def shown(qtbot: QtBot, context: AppContext, width: int = 760, height: int = 520) -> AttentionPanel:
    panel = AttentionPanel(context)
    qtbot.addWidget(panel)
    panel.resize(width, height)
    panel.show()
    qtbot.waitExposed(panel)
    qtbot.waitUntil(lambda: panel.matrix.ready)
    return panel


@pytest.fixture
def panel(qtbot: QtBot, stories_context: AppContext) -> AttentionPanel:
    return shown(qtbot, stories_context)


def go(panel: AttentionPanel, step: int, operation: str) -> AttentionView:
    trace = panel.context.trace
    assert trace is not None
    panel.context.seek(Cursor(step, trace.operation_index(operation)))
    return view_of(panel)


def view_of(panel: AttentionPanel) -> AttentionView:
    assert panel.view is not None
    return panel.view


def recorded(panel: AttentionPanel, view: AttentionView, query: int) -> NDArray[np.float64]:
    """The recorded row of a query, found in the trace by position."""
    trace = panel.context.trace
    assert trace is not None
    step = next(step for step in trace.steps if step.first <= query < step.last)
    held = trace.array(step.index, f"blocks.{view.layer}.attn.pattern")
    assert held is not None
    row: NDArray[np.float64] = held[0, view.head, query - step.first].astype(np.float64)
    return row


def picture(widget: QWidget) -> QImage:
    QApplication.processEvents()
    image = QImage(widget.size(), QImage.Format.Format_RGB32)
    widget.render(image)
    return image


def pixel(image: QImage, x: float, y: float) -> tuple[int, int, int]:
    colour = image.pixelColor(round(x), round(y))
    return colour.red(), colour.green(), colour.blue()


def cell_pixel(
    matrix: AttentionMatrix, image: QImage, query: int, key: int
) -> tuple[int, int, int]:
    """A pixel near a cell's lower left corner, where neither text nor outlines reach."""
    box = matrix.cell_rect(query, key)
    return pixel(image, box.left() + 4, box.bottom() - 5)


def canvas_of(matrix: AttentionMatrix) -> QWidget:
    canvas = matrix.canvas
    assert canvas is not None
    viewport: QWidget = canvas.viewport()
    return viewport


def click(panel: AttentionPanel, query: int, key: int) -> None:
    middle = panel.matrix.cell_rect(query, key).center().toPoint()
    QTest.mouseClick(canvas_of(panel.matrix), LEFT, PLAIN, middle)


def hover(panel: AttentionPanel, query: int, key: int) -> None:
    middle = panel.matrix.cell_rect(query, key).center().toPoint()
    QTest.mouseMove(canvas_of(panel.matrix), middle)
    QApplication.processEvents()


# ---- pixels


@pytest.mark.parametrize("theme", list(ThemeName))
def test_each_cell_has_the_colour_of_its_recorded_weight(
    panel: AttentionPanel, theme: ThemeName
) -> None:
    panel.context.set_theme(theme)
    view = go(panel, 2, "blocks.1.attn.pattern")
    table = viridis(STEPS + 1)
    image = picture(panel.matrix)
    for query in range(view.positions - 1):  # the newest row has an outline
        row = recorded(panel, view, query)
        for key in range(view.positions):
            found = cell_pixel(panel.matrix, image, query, key)
            if key > query:
                assert found not in COLOURS, (query, key)
            else:
                expected = table[round(float(row[key]) * STEPS)]
                assert found == tuple(int(c) for c in expected), (query, key)


def test_a_row_that_does_not_exist_yet_is_hatched(panel: AttentionPanel) -> None:
    view = go(panel, 3, "blocks.2.attn.scores")
    newest = view.positions - 1
    image = picture(panel.matrix)
    for key in range(view.positions):
        assert cell_pixel(panel.matrix, image, newest, key) not in COLOURS
    go(panel, 3, "blocks.2.attn.pattern")
    image = picture(panel.matrix)
    for key in range(view.positions):
        assert cell_pixel(panel.matrix, image, newest, key) in COLOURS


def test_thumbnails_have_the_same_scale_as_the_matrix(panel: AttentionPanel) -> None:
    view = go(panel, 5, "sample")
    grid, table = panel.column.grid, viridis(STEPS + 1)
    image = picture(grid)
    for layer in range(view.layers):
        for head in range(view.heads):
            box = grid.thumbnail_rect(layer, head)
            cell = box.width() / view.positions
            for query, key in ((4, 1), (7, 7), (9, 0), (3, 9)):
                at = QPointF(box.left() + (key + 0.5) * cell, box.top() + (query + 0.5) * cell)
                found = pixel(image, at.x() - 0.5, at.y() - 0.5)
                code = int(view.mosaic[layer, query, head, key])
                if code:
                    assert found == tuple(int(c) for c in table[code - 1])
                else:
                    assert found not in COLOURS


def test_cells_smaller_than_pixels_are_shrunk_by_maximum(
    qtbot: QtBot, panel: AttentionPanel
) -> None:
    view = go(panel, 5, "sample")
    matrix = AttentionMatrix(Style())
    qtbot.addWidget(matrix)
    matrix.resize(400, 300)
    matrix.set_data(view, Style())
    matrix.ensure_ready()
    room = 9  # pixels for 17 positions: two cells a pixel
    matrix.resize(400, int(matrix.matrix_geometry.top) + room)
    matrix.show()
    QApplication.processEvents()
    assert 0 < matrix.matrix_geometry.side < view.positions
    drawn = matrix.canvas.drawn_codes if matrix.canvas else None
    assert drawn is not None
    factor = -(-view.positions // drawn.shape[0])
    assert factor > 1
    for row, key in np.ndindex(*drawn.shape):
        block = view.codes[row * factor : (row + 1) * factor, key * factor : (key + 1) * factor]
        assert drawn[row, key] == block.max()


def test_text_is_readable_on_every_colour_of_the_scale() -> None:
    for red, green, blue in COLOURS:
        colour = QColor(red, green, blue)
        text = QColor("#000000") if is_light(colour) else QColor("#FFFFFF")
        assert contrast(colour, text) >= 4.5


def contrast(one: QColor, other: QColor) -> float:
    def luminance(colour: QColor) -> float:
        channels = [colour.redF(), colour.greenF(), colour.blueF()]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_viridis_has_its_known_colours() -> None:
    table = viridis()
    assert [tuple(int(c) for c in table[i]) for i in (0, 255)] == [(68, 1, 84), (253, 231, 37)]
    assert np.abs(table[128].astype(int) - (33, 145, 140)).max() <= 1


def test_hatching_uses_two_colours_of_the_palette(qapp: QApplication) -> None:
    image = QImage(40, 40, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    fill_hatched(painter, QRectF(0, 0, 40, 40), Style(PALETTES[ThemeName.LIGHT]))
    painter.end()
    found = {pixel(image, x, y) for x in range(40) for y in range(40)}
    assert len(found) > 1
    assert not found & COLOURS


# ---- numbers


def test_hovering_reads_out_the_recorded_weight(panel: AttentionPanel) -> None:
    view = go(panel, 4, "blocks.3.attn.pattern")
    for query, key in ((5, 2), (view.positions - 1, 0), (3, 3)):
        hover(panel, query, key)
        row = recorded(panel, view, query)
        said = panel.column.headline.text()
        assert said == view.readout(query, key).headline_text
        assert f" {query} attends to " in said
        assert f" {key} " in said
        assert float(said.rsplit(" ", 1)[1]) == pytest.approx(row[key], abs=5.1e-4, rel=0.5)
        assert f"row sum {row.sum():.6f}" in panel.column.details.text()
        seen = row[row > 0]
        assert f"entropy {-(seen * np.log(seen)).sum():.2f} nats" in panel.column.details.text()
    hover(panel, 2, 6)
    assert "does not see the later" in panel.column.headline.text()


def test_numbers_in_cells_are_the_weights_rounded() -> None:
    shown = {0.347: ".35", 0.2: ".20", 1.0: "1", 0.996: "1", 0.05: ".05", 0.0: "0", 1e-5: "<.01"}
    assert {weight: cell_number(weight) for weight in shown} == shown
    assert cell_number(0.617913, 3) == ".618"
    assert NUMBER_LEAST == 0.2


def test_leaving_the_matrix_goes_back_to_the_cell_in_hand(panel: AttentionPanel) -> None:
    view = go(panel, 4, "blocks.3.attn.pattern")
    assert view.selected is not None
    in_hand = panel.column.headline.text()
    hover(panel, 3, 1)
    assert panel.column.headline.text() != in_hand
    panel.matrix.hovered.emit(None)
    assert panel.column.headline.text() == in_hand


def test_a_shortened_label_has_its_whole_text_in_a_tooltip(panel: AttentionPanel) -> None:
    view = go(panel, 5, "sample")
    geometry = panel.matrix.matrix_geometry
    box = panel.matrix.cell_rect(8, 8)
    beside = QPointF(geometry.left - 10, box.center().y())
    above = QPointF(box.center().x() + 5, geometry.top - 8)
    for point in (beside, above):
        assert panel.matrix.label_at(point) == f"position 8: {view.labels[8].text}"
    assert panel.matrix.label_at(box.center()) == ""


# ---- choosing


def test_a_click_selects_query_and_key_and_a_second_one_lets_go(panel: AttentionPanel) -> None:
    go(panel, 5, "blocks.0.attn.pattern")
    click(panel, 6, 2)
    selection = panel.context.selection
    assert (selection.query, selection.key) == (6, 2)
    assert view_of(panel).selected == (6, 2)
    assert " 6 attends to " in panel.column.headline.text()
    click(panel, 6, 2)
    assert panel.context.selection.query is None


def test_arrow_keys_move_the_cell_and_escape_lets_go(panel: AttentionPanel) -> None:
    go(panel, 5, "blocks.0.attn.pattern")
    click(panel, 6, 2)
    for key in (Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_Left):
        QTest.keyClick(panel.matrix, key)
    selection = panel.context.selection
    assert (selection.query, selection.key) == (4, 1)
    QTest.keyClick(panel.matrix, Qt.Key.Key_Escape)
    assert panel.context.selection.query is None


def test_arrow_keys_stay_within_the_matrix(panel: AttentionPanel) -> None:
    go(panel, 0, "sample")
    click(panel, 0, 0)
    QTest.keyClick(panel.matrix, Qt.Key.Key_Right)
    QTest.keyClick(panel.matrix, Qt.Key.Key_Up)
    QTest.keyClick(panel.matrix, Qt.Key.Key_Left)
    QTest.keyClick(panel.matrix, Qt.Key.Key_Left)
    assert view_of(panel).selected == (0, 0)


def test_the_block_follows_the_step_until_a_head_of_another_is_chosen(
    panel: AttentionPanel,
) -> None:
    grid = panel.column.grid
    go(panel, 3, "blocks.1.ln1")
    assert view_of(panel).title == "Attention · block 1 · head 0"
    QTest.mouseClick(grid, LEFT, PLAIN, grid.thumbnail_rect(1, 3).center())
    assert (view_of(panel).layer, view_of(panel).head) == (1, 3)
    assert panel.column.follow.isChecked()
    go(panel, 3, "blocks.2.ln1")
    assert (view_of(panel).layer, view_of(panel).head) == (2, 3)
    QTest.mouseClick(grid, LEFT, PLAIN, grid.thumbnail_rect(0, 2).center())
    assert (view_of(panel).layer, view_of(panel).head) == (0, 2)
    assert not panel.column.follow.isChecked()
    go(panel, 3, "blocks.3.ln1")
    assert view_of(panel).layer == 0
    panel.column.follow.click()
    assert view_of(panel).layer == 3
    panel.column.follow.click()
    go(panel, 3, "blocks.0.ln1")
    assert view_of(panel).layer == 3


def test_arrow_keys_in_the_thumbnails_choose_a_head(panel: AttentionPanel) -> None:
    go(panel, 3, "blocks.1.ln1")
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Left):
        QTest.keyClick(panel.column.grid, key)
    assert (view_of(panel).layer, view_of(panel).head) == (2, 1)
    QTest.keyClick(panel.column.grid, Qt.Key.Key_Up)
    QTest.keyClick(panel.column.grid, Qt.Key.Key_Up)
    QTest.keyClick(panel.column.grid, Qt.Key.Key_Up)
    assert view_of(panel).layer == 0


def test_the_chosen_head_of_a_deep_model_is_in_sight(qtbot: QtBot) -> None:
    loaded = random_loaded(ModelShape(20, 24, 3, context_length=16, vocabulary=40))
    _, run = record(loaded, (1, 2, 3))
    column = HeadColumn(Style())
    column.set_style(Style())
    column.resize(300, 420)
    qtbot.addWidget(column)
    column.show()
    store, numbers = PatternStore(), None
    for layer in (19, 0, 11):
        moment = moment_of(loaded, run, 0, f"blocks.{layer}.attn.pattern")
        column.set_heads(build_attention(moment, store))
        column.fit()
        QApplication.processEvents()
        inside = column.grid.visibleRegion().boundingRect()
        assert inside.height() < column.grid.height()
        assert inside.contains(column.grid.thumbnail_rect(layer, 0))
        # The heads' numbers stay at the top, and the thumbnails begin below them.
        bar = column.scroll_area.verticalScrollBar()
        assert (bar.value() > 0) == (layer > 0)
        last = column.grid.thumbnail_rect(0, 2)  # within the dotted line of the focus
        row = QRect(1, 1, last.right(), last.top() - 4)
        tops = picture(column.scroll_area.viewport()).copy(row)
        assert numbers is None or tops == numbers
        numbers = tops


def test_the_gap_between_thumbnails_is_no_head(panel: AttentionPanel) -> None:
    grid = panel.column.grid
    box = grid.thumbnail_rect(0, 0)
    assert grid.head_at(box.center()) == (0, 0)
    assert grid.head_at(QPoint(box.right() + 2, box.center().y())) is None
    assert grid.head_at(QPoint(0, 0)) is None


# ---- zoom


def wheel(panel: AttentionPanel, query: int, key: int, notches: int) -> None:
    at = panel.matrix.cell_rect(query, key).center()
    event = QWheelEvent(
        at,
        panel.matrix.mapToGlobal(at),
        QPoint(),
        QPoint(0, 120 * notches),
        Qt.MouseButton.NoButton,
        PLAIN,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(canvas_of(panel.matrix), event)


def test_the_wheel_zooms_where_the_mouse_is_and_a_double_click_shows_all(
    panel: AttentionPanel,
) -> None:
    view = go(panel, 5, "sample")
    before = panel.matrix.cell_rect(9, 4)
    wheel(panel, 9, 4, 3)
    after = panel.matrix.cell_rect(9, 4)
    assert after.width() > before.width()
    assert after.contains(before.center())
    table = viridis(STEPS + 1)
    row = recorded(panel, view, 9)
    expected = tuple(int(c) for c in table[round(float(row[4]) * STEPS)])
    assert cell_pixel(panel.matrix, picture(panel.matrix), 9, 4) == expected
    go(panel, 5, "blocks.0.attn.pattern")
    assert panel.matrix.matrix_geometry.zoomed  # stepping keeps the zoom
    QTest.mouseDClick(canvas_of(panel.matrix), LEFT, PLAIN, after.center().toPoint())
    assert not panel.matrix.matrix_geometry.zoomed


def test_dragging_pans_and_is_no_click(panel: AttentionPanel) -> None:
    go(panel, 5, "sample")
    wheel(panel, 9, 4, 4)
    before = panel.matrix.matrix_geometry
    start = before.square.center().toPoint()
    canvas = canvas_of(panel.matrix)
    QTest.mousePress(canvas, LEFT, PLAIN, start)
    QTest.mouseMove(canvas, start + QPoint(20, 20))
    QTest.mouseMove(canvas, start + QPoint(40, 40))
    QTest.mouseRelease(canvas, LEFT, PLAIN, start + QPoint(40, 40))
    after = panel.matrix.matrix_geometry
    assert after.x0 < before.x0
    assert after.y0 < before.y0
    assert panel.context.selection.query is None


def test_keys_zoom_too(panel: AttentionPanel) -> None:
    go(panel, 5, "sample")
    QTest.keyClick(panel.matrix, Qt.Key.Key_Plus)
    assert panel.matrix.matrix_geometry.zoomed
    QTest.keyClick(panel.matrix, Qt.Key.Key_0)
    assert not panel.matrix.matrix_geometry.zoomed


# ---- causality and faults


@pytest.mark.checked
def test_a_sound_run_says_so_twice(panel: AttentionPanel) -> None:
    assert panel.column.causal.text() == "✓ no weight above the diagonal"
    assert panel.column.behaviour.text() == "✓ replacing a later token moves no earlier logit"
    assert panel.banner.isHidden()
    assert panel.column.leaks.isHidden()


@pytest.mark.checked
def test_breaking_the_mask_shows_and_names_every_leak(panel: AttentionPanel) -> None:
    go(panel, 0, "sample")
    QTest.mouseClick(panel.column.break_button, LEFT)
    dialog = panel.fault_panel
    assert dialog is not None
    assert dialog.isVisible()
    assert not dialog.isModal()
    QTest.mouseClick(
        dialog.box("no-mask"), LEFT, PLAIN, QPoint(8, dialog.box("no-mask").height() // 2)
    )
    settle(panel.context)
    assert panel.context.faults == {"no-mask"}
    go(panel, 0, "blocks.2.attn.pattern")
    view = view_of(panel)
    assert view.leak_count > 0
    assert "Fault on: no-mask" in panel.banner.text()
    assert panel.banner.isVisible()
    assert panel.column.causal.text().startswith("✗ ")
    assert panel.column.behaviour.text().startswith("✗ ")
    assert view.leaks[0].sentence in panel.column.leaks.text()
    assert dialog.shown_check("causal-weights")[0] == "✗ causal-weights"
    assert dialog.shown_check("rows-sum-to-one")[0] == "✓ rows-sum-to-one"
    # The leaking cell is coloured by its weight and outlined in the colour of what is bad.
    query, key = (int(at) for at in view.leak_cells[0])
    image = picture(panel.matrix)
    code = round(float(recorded(panel, view, query)[key]) * STEPS)
    expected = tuple(int(c) for c in viridis(STEPS + 1)[code])
    assert cell_pixel(panel.matrix, image, query, key) == expected
    box, bad = panel.matrix.cell_rect(query, key), QColor(panel.context.style.palette.bad)
    edge = pixel(image, box.left() + 0.5, box.center().y())
    assert edge == (bad.red(), bad.green(), bad.blue())
    hover(panel, query, key)
    assert "attends to the later" in panel.column.headline.text()

    QTest.mouseClick(dialog.off, LEFT)
    settle(panel.context)
    assert not panel.context.faults
    assert not dialog.box("no-mask").isChecked()
    assert panel.banner.isHidden()
    assert panel.column.causal.text() == "✓ no weight above the diagonal"
    assert all(
        dialog.shown_check(row.name)[0].startswith("✓")
        for row in build_faults((), panel.context.checks, False).checks
    )


def test_a_fault_that_is_refused_says_why_and_is_not_ticked(
    panel: AttentionPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = panel.context
    monkeypatch.setattr(context, "set_fault", lambda name, on: context.notice.emit("Not here."))
    panel.open_faults()
    dialog = panel.fault_panel
    assert dialog is not None
    context.notice.emit("Of something else.")
    assert dialog.refusal.isHidden()
    dialog.box("no-mask").click()
    assert dialog.refusal.text() == "Not here."
    assert not dialog.box("no-mask").isChecked()


def test_a_fault_that_the_sampling_order_cannot_have_is_said_in_words(
    panel: AttentionPanel,
) -> None:
    panel.context.set_fault("truncate-before-temperature", True)
    settle(panel.context)
    panel.context.go_last()
    panel.context.set_sampling(order="llama.cpp")
    moment = panel.context.moment
    assert moment is not None
    assert "llama.cpp" in moment.sampling_refusal
    assert moment.landing is None


def test_the_fault_panel_lists_every_fault_with_words(qtbot: QtBot) -> None:
    dialog = FaultPanel(Style())
    qtbot.addWidget(dialog)
    dialog.set_data(build_faults((), (), False), Style())
    for fault in all_faults():
        box = dialog.box(fault.name)
        assert fault.title in box.text()
        assert fault.explanation in box.accessibleDescription()
        assert all(name in box.accessibleDescription() for name in fault.caught_by)
    toggled: list[tuple[str, bool]] = []
    dialog.fault_toggled.connect(lambda name, on: toggled.append((name, on)))
    dialog.box("no-scale").click()
    assert toggled == [("no-scale", True)]
    dialog.set_refusal("It cannot be.")
    assert not dialog.box("no-scale").isChecked()
    assert not dialog.off.isEnabled()


def test_what_a_fault_has_to_say_does_not_move_the_boxes(qtbot: QtBot, qapp: QApplication) -> None:
    apply_style(qapp, Style())  # whatever the test before this left behind
    dialog = FaultPanel(Style())
    qtbot.addWidget(dialog)
    dialog.set_data(build_faults((), (), False), Style())
    dialog.show()
    qtbot.waitExposed(dialog)
    box = dialog.box("no-scale")
    before = box.mapTo(dialog, QPoint(0, 0))
    dialog.set_data(build_faults(("no-scale",), (), True), Style())
    dialog.set_refusal("It cannot be.")
    QApplication.processEvents()
    assert dialog.banner.isVisible()
    assert dialog.refusal.isVisible()
    assert box.mapTo(dialog, QPoint(0, 0)) == before


def test_nan_is_marked_and_not_coloured(panel: AttentionPanel) -> None:
    panel.context.set_fault("nan-weight", True)
    settle(panel.context)
    panel.context.go_last()
    view = view_of(panel)
    assert view.broken.any()
    layer = int(np.argwhere(view.broken)[0][0])
    grid = panel.column.grid
    QTest.mouseClick(grid, LEFT, PLAIN, grid.thumbnail_rect(layer, 0).center())
    image = picture(panel.matrix)
    view = view_of(panel)
    for query, key in np.argwhere(~np.isfinite(view.weights)):
        assert cell_pixel(panel.matrix, image, int(query), int(key)) not in COLOURS
    hover(panel, 0, 0)
    assert "NaN" in panel.column.headline.text()
    assert "not finite" in panel.column.causal.text()


# ---- looks and life


def test_nothing_computed_is_said_in_words(qtbot: QtBot) -> None:
    context = AppContext()
    panel = AttentionPanel(context)
    qtbot.addWidget(panel)
    panel.resize(600, 400)
    panel.show()
    assert panel.empty.isVisible()
    assert "No model is open yet" in panel.empty.text()
    assert panel.view is None
    context.close()


def test_the_caption_names_block_and_head(qtbot: QtBot, stories_context: AppContext) -> None:
    captions: list[tuple[str, str]] = []
    panel = AttentionPanel(stories_context)
    qtbot.addWidget(panel)
    panel.caption_changed.connect(lambda title, hint: captions.append((title, hint)))
    panel.show()
    go(panel, 2, "blocks.2.attn.z")
    assert captions[-1] == ("Attention · block 2 · head 0", "row = query, column = key")


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("size", [(760, 520), (380, 760), (1300, 800)])
def test_every_size_and_scale_leaves_room_for_cells(
    qtbot: QtBot, tiny_context: AppContext, scale: float, size: tuple[int, int]
) -> None:
    panel = shown(qtbot, tiny_context, *size)
    tiny_context.set_scale(scale)
    apply_style(QApplication.instance(), tiny_context.style)  # type: ignore[arg-type]
    panel.resize(*size)
    QApplication.processEvents()
    geometry = panel.matrix.matrix_geometry
    assert geometry.side > 0
    assert panel.matrix.rect().contains(geometry.square.toRect())
    assert panel.column.grid.thumbnail_rect(0, 0).width() >= 24 * scale


def test_a_hidden_panel_does_no_work(
    panel: AttentionPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(panel, 1, "sample")
    panel.hide()
    calls: list[object] = []
    monkeypatch.setattr(
        "decoder_gui.panels.attention.build_attention", lambda *a, **k: calls.append(a)
    )
    panel.context.go_first()
    panel.context.go_last()
    assert not calls


def test_stepping_back_gives_the_same_picture(panel: AttentionPanel) -> None:
    go(panel, 3, "blocks.1.attn.scores")
    pictures = []
    for _ in range(18):
        pictures.append(picture(panel.matrix))
        panel.context.move(1)
    for expected in reversed(pictures):
        panel.context.move(-1)
        assert picture(panel.matrix) == expected


def test_what_was_not_kept_is_recomputed_by_itself(
    qtbot: QtBot, stories_context: AppContext
) -> None:
    moment = stories_context.moment
    assert moment is not None
    expected = build_attention(moment)
    evict(stories_context)
    stories_context.select(head=0)
    panel = shown(qtbot, stories_context)
    qtbot.waitUntil(lambda: not view_of(panel).not_kept)
    settle(stories_context)
    assert view_of(panel).layer == expected.layer
    np.testing.assert_array_equal(view_of(panel).weights, expected.weights)
    assert panel.column.missing.isHidden()


def test_that_something_is_not_kept_is_said(
    qtbot: QtBot, stories_context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    evict(stories_context)
    asked: list[str] = []
    monkeypatch.setattr(
        stories_context, "submit", lambda tag, text, job, listener: asked.append(text)
    )
    panel = shown(qtbot, stories_context)
    steps = len(view_of(panel).not_kept)
    assert steps > 1
    assert panel.column.missing.text() == f"block 3: {steps} steps not kept, recomputing"
    assert asked == [f"Attention of block 3: {steps} steps not kept, recomputing"]
    assert "not kept" in panel.column.headline.text()


def test_thumbnails_appear_as_they_are_ready(
    qtbot: QtBot, stories_context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "AT_ONCE", 0)
    monkeypatch.setattr(attention, "SLICE_WEIGHTS", 1)
    monkeypatch.setattr(attention, "SLICE", 1e-9)
    notes: list[str] = []
    set_heads = HeadColumn.set_heads

    def noted(column: HeadColumn, view: AttentionView) -> None:
        set_heads(column, view)
        notes.append(column.scale_note.text())

    monkeypatch.setattr(HeadColumn, "set_heads", noted)
    panel = shown(qtbot, stories_context)
    qtbot.waitUntil(lambda: not view_of(panel).unfinished)
    assert stories_context.moment is not None
    expected = build_attention(stories_context.moment)
    np.testing.assert_array_equal(view_of(panel).mosaic, expected.mosaic)
    assert panel.column.causal.text() == "✓ no weight above the diagonal"
    heads = expected.layers * expected.heads
    assert f"{heads - expected.heads} of {heads} ready" in notes
    assert notes[-1] == "same scale"


def test_no_thumbnail_is_made_while_the_panel_is_hidden(
    qtbot: QtBot, stories_context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "AT_ONCE", 0)
    monkeypatch.setattr(attention, "SLICE_WEIGHTS", 1)
    monkeypatch.setattr(attention, "SLICE", 1e-9)
    panel = shown(qtbot, stories_context)
    stories_context.prefill(STORY)
    qtbot.waitUntil(lambda: stories_context.idle)
    panel.hide()
    QApplication.processEvents()
    made: list[object] = []
    monkeypatch.setattr(panel._store, "take_in", lambda *_: made.append(_))
    settle(stories_context)
    stories_context.go_first()
    stories_context.go_last()
    qtbot.wait(20)
    assert not made
    monkeypatch.undo()
    panel.show()
    qtbot.waitUntil(lambda: not view_of(panel).unfinished)


def test_only_what_is_in_sight_is_worked_out_again(
    qtbot: QtBot, stories_context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = stories_context.moment
    assert moment is not None
    expected = build_attention(moment)
    evict(stories_context)
    in_sight = [range(1, 2)]
    monkeypatch.setattr(HeadColumn, "layers_in_sight", lambda _: in_sight[0])
    panel = shown(qtbot, stories_context)
    qtbot.waitUntil(lambda: view_of(panel).unfinished == {0, 2})
    settle(stories_context)
    assert view_of(panel).unfinished == {0, 2}  # block 3 is the one in hand
    assert panel.column.scale_note.text() == "8 of 16 ready"
    np.testing.assert_array_equal(view_of(panel).mosaic[[1, 3]], expected.mosaic[[1, 3]])
    assert not view_of(panel).mosaic[[0, 2]].any()
    in_sight[0] = range(4)
    panel.column.scrolled.emit()
    qtbot.waitUntil(lambda: not view_of(panel).unfinished)
    np.testing.assert_array_equal(view_of(panel).mosaic, expected.mosaic)


def test_a_pattern_that_cannot_be_had_again_is_asked_for_once(
    qtbot: QtBot, stories_context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def refuse(self: EngineRoom, step: Step, layer: int, resid_pre: object, name: str) -> None:
        asked.append(layer)
        raise ShapeMismatch("the cache no longer holds those positions")

    monkeypatch.setattr(EngineRoom, "recompute", refuse)
    evict(stories_context)
    panel = shown(qtbot, stories_context)
    qtbot.waitUntil(lambda: set(asked) == {0, 1, 2, 3})
    settle(stories_context)
    assert len(asked) == 4
    assert panel.column.missing.text().endswith("steps not kept")


def test_a_thumbnail_smaller_than_its_cells_keeps_a_single_hot_one(qtbot: QtBot) -> None:
    loaded = random_loaded(ModelShape(2, 24, 3, context_length=64, vocabulary=40))
    run = record(loaded, tuple(range(39)) + tuple(range(21)))[1]
    view = build_attention(moment_of(loaded, run, 0, "sample"))
    assert view.factor == 1
    mosaic = np.where(view.mosaic > 0, 1, 0).astype(np.uint8)
    for row, key in ((41, 17), (42, 17), (41, 18), (59, 0)):
        hot = mosaic.copy()
        hot[1, row, 2, key] = STEPS + 1
        grid = HeadGrid(Style())
        qtbot.addWidget(grid)
        grid.set_available(120, 90)
        grid.set_data(replace(view, mosaic=hot), Style())
        box = grid.thumbnail_rect(1, 2)
        assert box.width() < view.positions
        image = QImage(grid.size(), QImage.Format.Format_RGB32)
        grid.render(image)
        yellow = viridis(STEPS + 1)[-1]
        found = [
            (x, y)
            for x in range(box.left() + 1, box.right())
            for y in range(box.top() + 1, box.bottom())
            if pixel(image, x, y) == tuple(int(c) for c in yellow)
        ]
        assert found
        for x, y in found:
            assert abs((x - box.left()) / box.width() - (key + 0.5) / view.positions) < 0.08
            assert abs((y - box.top()) / box.height() - (row + 0.5) / view.positions) < 0.08


def test_a_row_of_less_than_a_pixel_is_still_framed() -> None:
    geometry = MatrixGeometry(50, 40, 380, 1000, 0.0, 0.0, 1000.0)
    for cell in ((0, 0), (999, 999), (500, 1)):
        box = geometry.rect(*cell)
        assert box.width() >= 1
        assert box.height() >= 1
        assert geometry.square.contains(box)
    row = geometry.rect(999, 0, 1, 1000)
    assert (row.left(), row.right(), row.bottom()) == (50, 430, 420)


def test_the_frame_of_the_last_row_has_room_under_small_cells() -> None:
    size = QSizeF(500, 400)
    geometry = place(size, 1000, label_width=50, key_widths=[20.0], line_height=16, most=88)
    assert geometry.cell < 1
    assert geometry.rect(999, 0, 1, 1000).bottom() + FRAME <= size.height()


def evict(context: AppContext) -> None:
    """Leave out what a run past its budget leaves out."""
    trace = context.trace
    assert trace is not None
    for events in trace._events:
        for i, event in enumerate(events):
            kept = {
                name: array
                for name, array in event.arrays.items()
                if trace.operations[i].layer is None or name.endswith("resid_pre")
            }
            events[i] = type(event)(
                event.step, event.operation, kept, len(kept) < len(event.arrays)
            )


def test_a_line_that_does_not_fit_is_shortened_and_whole_in_its_tooltip(qtbot: QtBot) -> None:
    line = RunLine(Style())
    qtbot.addWidget(line)
    line.resize(120, 20)
    line.show()
    line.set_runs((Run("incomprehensibilities"), Run("attends to"), Run("a")), Style())
    picture(line)
    assert line.toolTip() == "incomprehensibilities attends to a"
    line.resize(600, 20)
    picture(line)
    assert line.toolTip() == ""
