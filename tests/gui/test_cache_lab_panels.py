"""The cache laboratory through its widgets: measured, calculated and compared numbers read back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QImage
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.laboratory.policies import Policy
from decoder_gui.main_window import MainWindow
from decoder_gui.panels.base import Panel
from decoder_gui.panels.cache.cached_row import CachedRowPanel
from decoder_gui.panels.cache.calculator import CalculatorPanel
from decoder_gui.panels.cache.cost import CostPanel
from decoder_gui.panels.cache.full import FullCachePanel
from decoder_gui.panels.cache.phases import PhasesPanel
from decoder_gui.view import View
from decoder_gui.viewdata.numbers import format_bytes
from model.cache_plan import KNOWN, ValueSize
from model.costs import flops_cached, flops_recomputed
from tests.gui.conftest import settle

Kind = TypeVar("Kind", bound=Panel)
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def window(qtbot: QtBot, stories_context: AppContext) -> Iterator[MainWindow]:
    made = MainWindow(stories_context.style)
    made.resize(QSize(1440, 900))
    made.show()
    workspace = made.furnish(stories_context)
    qtbot.waitExposed(made)
    workspace.show_view(View.CACHE)
    yield made
    made.close()
    made.deleteLater()


def context_of(window: MainWindow) -> AppContext:
    assert window.workspace is not None
    return window.workspace.context


def panel(window: MainWindow, kind: type[Kind]) -> Kind:
    assert window.workspace is not None
    found = [each for each in window.workspace.panels.values() if isinstance(each, kind)]
    assert len(found) == 1
    return found[0]


def test_the_curve_is_measured_on_request_and_its_counts_are_exact(
    qtbot: QtBot, window: MainWindow
) -> None:
    context, cost = context_of(window), panel(window, CostPanel)
    assert not cost.table.table.rows
    qtbot.mouseClick(cost.measure, LEFT)
    settle(context)
    points = context.cache_lab.points
    assert [point.length for point in points] == [1, 2, 4, 8, 16, 32, 64, 127]
    assert context.model is not None
    shape = context.model.shape
    for row, point in enumerate(points):
        assert cost.table.shown(row, 0) == str(point.length)
        tips = [cell.tip for cell in cost.table.table.rows[row]]
        assert tips[4] == f"{flops_cached(shape, point.length, 1):,} FLOPs"
        assert tips[5] == f"{flops_recomputed(shape, point.length + 1):,} FLOPs"
    cost.counts.click()
    assert list(cost.plot.plot.series[0].y) == [float(p.flops_with) for p in points]
    assert cost.plot.plot.x.logarithmic
    cost.logarithmic.click()
    assert not cost.plot.plot.x.logarithmic
    assert any("n^" in figure.value for figure in cost.figures.figures)


def test_a_step_interrupts_a_measurement_and_the_session_goes_on(
    qtbot: QtBot, window: MainWindow
) -> None:
    context, cost = context_of(window), panel(window, CostPanel)
    assert context.trace is not None
    positions = context.trace.positions
    qtbot.mouseClick(cost.measure, LEFT)
    context.go_last()
    context.move(1)
    settle(context)
    assert context.trace.positions == positions + 1
    assert not context.cache_lab.running
    assert cost.measure.isEnabled()


def test_the_calculator_begins_with_the_model_in_hand(window: MainWindow) -> None:
    context, calculator = context_of(window), panel(window, CalculatorPanel)
    assert context.model is not None
    shape = context.model.shape
    assert calculator.fields["layers"].value() == shape.depth
    assert calculator.fields["head_dim"].value() == shape.head_dim
    assert calculator.fields["context"].value() == context.capacity
    values = {figure.label: figure.value for figure in calculator.figures.figures}
    assert calculator.kind.currentText() == ValueSize.FLOAT32.words
    per_token = 2 * shape.depth * shape.kv_heads * shape.head_dim * 4
    assert values["Per token"] == format_bytes(per_token)
    taken = context.model.parameters * context.model.bytes_per_value / 2**30
    assert calculator.weights.value() == pytest.approx(taken, abs=0.005)


def test_a_known_model_fills_the_calculator_and_names_its_source(window: MainWindow) -> None:
    calculator = panel(window, CalculatorPanel)
    known = KNOWN["Llama 2 7B"]
    half = calculator.kind.findText(ValueSize.FLOAT16.words)
    calculator.kind.setCurrentIndex(half)
    calculator.kind.activated.emit(half)
    calculator.preset.setCurrentText(known.name)
    calculator.preset.activated.emit(calculator.preset.currentIndex())
    values = {figure.label: figure.value for figure in calculator.figures.figures}
    assert values["Per token"] == format_bytes(524_288)
    assert values["Per sequence"] == format_bytes(2 * 2**30)
    assert known.source in calculator.source.text()
    # 24 GiB less two bytes for each of the weights.
    assert values["Sequences that fit"] == str(int((24 * 2**30 - 2 * 6.7e9) // 2**31))
    assert [calculator.table.shown(row, 1) for row in range(3)] == ["32", "8", "1"]
    calculator.fields["context"].setValue(1024)
    values = {figure.label: figure.value for figure in calculator.figures.figures}
    assert values["Per sequence"] == format_bytes(2**29)


def test_three_ways_of_sharing_stand_beside_each_other(window: MainWindow) -> None:
    calculator = panel(window, CalculatorPanel)
    rows = range(len(calculator.table.table.rows))
    assert [calculator.table.shown(row, 1) for row in rows] == ["4", "2", "1"]
    names = [calculator.table.shown(row, 0) for row in rows]
    assert names == ["multi-head", "grouped-query", "multi-query"]
    calculator.weights.setValue(25.0)
    notes = {figure.label: figure.note for figure in calculator.figures.figures}
    assert "weights alone" in notes["Sequences that fit"]


def test_heads_that_cannot_be_shared_are_refused_and_the_field_goes_back(
    window: MainWindow,
) -> None:
    context, calculator = context_of(window), panel(window, CalculatorPanel)
    said: list[str] = []
    context.notice.connect(said.append)
    calculator.fields["kv_heads"].setValue(3)
    assert "4 heads cannot share 3" in said[-1]
    assert calculator.fields["kv_heads"].value() == 4


def test_phases_are_timed_apart_and_stand_under_the_roof(qtbot: QtBot, window: MainWindow) -> None:
    context, phases = context_of(window), panel(window, PhasesPanel)
    qtbot.mouseClick(phases.time, LEFT)
    settle(context)
    prefill, decode = context.cache_lab.phases
    rows = {phases.table.shown(row, 0): row for row in range(len(phases.table.table.rows))}
    assert phases.table.shown(rows["tokens"], 1) == str(prefill.tokens) == "12"
    assert phases.table.shown(rows["tokens"], 2) == str(decode.tokens) == "5"
    assert phases.table.shown(rows["FLOPs per byte"], 2) == f"{decode.intensity:.2f}"
    qtbot.mouseClick(phases.machine, LEFT)
    settle(context)
    machine = context.cache_lab.machine
    assert machine is not None
    series = {each.name: each for each in phases.plot.plot.series}
    assert series["decode"].x[0] == decode.intensity
    assert series["decode"].y[0] == decode.rate / 1e9
    assert max(series["roof"].y) == machine.peak / 1e9
    rows = {phases.table.shown(row, 0): row for row in range(len(phases.table.table.rows))}
    bound = "reading" if decode.intensity < machine.ridge else "arithmetic"
    assert phases.table.shown(rows["bound by"], 2) == bound


def test_a_row_of_the_map_is_read_and_proved_unchanged(qtbot: QtBot, window: MainWindow) -> None:
    context, row = context_of(window), panel(window, CachedRowPanel)
    row.map.setFocus()
    row.map.activated.emit(1, 13)
    settle(context)
    found = context.cache_lab.row
    assert found is not None
    assert (found.changed, found.step) == (0, 2)
    assert "bit-identical" in row.verdict.text()
    assert f"{found.keys[0, 0]:.2f}" == row.table.shown(0, 2)
    assert f"{found.values[2, 5]:.2f}" == row.table.shown(5, 7)
    qtbot.mouseClick(row.rewind, LEFT)
    assert context.cursor is not None
    assert context.cursor.step == 1
    settle(context)
    assert context.trace is not None
    length = context.trace.positions
    assert f"Rewind: length {length} → 13, 0 bytes cleared" in row.lengths.text()
    assert "bit-identical" in row.lengths.text()
    qtbot.mouseClick(row.travel, LEFT)
    assert context.cursor.step == 2
    qtbot.mouseClick(row.clear, LEFT)
    settle(context)
    assert context.model is not None
    shape = context.model.shape
    numbers = 2 * shape.depth * shape.kv_heads * shape.head_dim * length
    assert f"Reset: length {length} → 0, 0 bytes cleared" in row.lengths.text()
    assert f"all {numbers:,} numbers" in row.lengths.text()
    assert context.trace.positions == length  # the session's own stays


def test_policies_are_compared_position_by_position(qtbot: QtBot, window: MainWindow) -> None:
    context, full = context_of(window), panel(window, FullCachePanel)
    assert context.trace is not None
    total = len(context.trace.token_ids)
    full.capacity.setValue(10)
    full.keep.setValue(2)
    qtbot.mouseClick(full.compare, LEFT)
    settle(context)
    found = context.cache_lab.divergences
    assert [len(found[policy]) for policy in Policy] == [10, total, total]
    series = {each.name: each for each in full.plot.plot.series}
    for policy in Policy:
        assert list(series[policy.value].y) == [item.divergence for item in found[policy]]
    slid = [item for item in found[Policy.SLIDE] if item.kept <= item.position]
    mean = sum(item.divergence for item in slid) / len(slid)
    assert full.table.shown(1, 2) == f"{mean:.4f}"
    assert "Stop after position 9" in full.table.shown(0, 0)
    full.capacity.setValue(total + 3)
    assert not full.compare.isEnabled()
    assert "fit" in full.words.text()


def test_every_panel_shows_something_in_projector_mode(window: MainWindow) -> None:
    workspace = window.workspace
    assert workspace is not None
    workspace.set_projector(True)
    assert workspace.arrangement.maximised == "cost-curve"
    for number, name in enumerate(workspace.arrangement.docks, start=1):
        action = workspace.arrangement
        if action.maximised != name:
            action.toggle_maximised(name)
        shown = [d for d in action.docks.values() if d.isVisible()]
        assert [dock.panel.panel_id for dock in shown] == [name]
        image = QImage(window.size(), QImage.Format.Format_ARGB32)
        window.render(image)
        assert number <= 9
    workspace.set_projector(False)
    assert all(dock.isVisible() for dock in workspace.arrangement.docks.values())


def test_a_measurement_is_stopped_by_its_own_button(qtbot: QtBot, window: MainWindow) -> None:
    context, full = context_of(window), panel(window, FullCachePanel)
    full.capacity.setValue(6)
    qtbot.mouseClick(full.compare, LEFT)
    assert full.compare.text() == "Stop"
    qtbot.mouseClick(full.compare, LEFT)
    settle(context)
    assert full.compare.text() == "Compare"
    assert not context.cache_lab.running
    assert context.trace is not None
    found = context.cache_lab.divergences
    assert len(found.get(Policy.KEEP_FIRST, ())) < len(context.trace.token_ids)


def test_nothing_measured_shows_words_and_no_axes(window: MainWindow) -> None:
    cost, full = panel(window, CostPanel), panel(window, FullCachePanel)
    assert not cost.plot.isVisible()
    assert cost.words.isVisible()
    assert not full.plot.isVisible()
    assert full.words.isVisible()


def test_logits_that_are_no_numbers_are_named_in_the_panel(
    qtbot: QtBot, window: MainWindow
) -> None:
    context, full = context_of(window), panel(window, FullCachePanel)
    context.set_fault("nan-weight", True)
    settle(context)
    full.capacity.setValue(6)
    qtbot.mouseClick(full.compare, LEFT)
    settle(context)
    assert "NaN" in full.words.text()
    assert not full.plot.isVisible()
