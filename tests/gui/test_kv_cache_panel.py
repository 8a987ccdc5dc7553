"""The KV cache panel: what it shows against the cache, at every cursor; mouse and keyboard."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger import library
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.library import Steps
from decoder_gui.panels.kv_cache import KvCachePanel
from decoder_gui.theme.style import Style
from decoder_gui.viewdata.kv_cache import Slab
from decoder_gui.viewdata.numbers import format_bytes
from decoder_gui.widgets.slab_map import SlabMap
from tests.debugger.recorded import random_loaded
from tests.gui.conftest import settle

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


def _random(spec: str) -> Steps:
    yield from ()
    return random_loaded()


@pytest.fixture
def context(make_context: Callable[..., AppContext], monkeypatch: pytest.MonkeyPatch) -> AppContext:
    monkeypatch.setattr(library, "model_steps", _random)
    return make_context("random", "1 2 3", tokens=4)


@pytest.fixture
def panel(context: AppContext, qtbot: QtBot) -> KvCachePanel:
    return show(context, qtbot)


def show(context: AppContext, qtbot: QtBot) -> KvCachePanel:
    panel = KvCachePanel(context)
    qtbot.addWidget(panel)
    panel.resize(330, 420)
    panel.show()
    qtbot.waitExposed(panel)
    return panel


def value(panel: KvCachePanel, label: str) -> str:
    return next(figure.value for figure in panel.table.figures if figure.label == label)


def operation(context: AppContext, name: str) -> int:
    assert context.trace is not None
    return context.trace.operation_index(name)


def centre(shown: SlabMap, layer: int, position: int) -> QPoint:
    return shown.cell_rect(layer, position).center().toPoint()


def test_gauge_and_table_show_the_cache_at_the_cursor(
    context: AppContext, panel: KvCachePanel
) -> None:
    assert context.trace is not None
    for step, length in enumerate((3, 4, 5, 6)):
        context.seek(Cursor(step, len(context.trace.operations) - 1))
        assert panel.gauge.parts == (3, length - 3, 16 - length)
        assert panel.gauge.legend == ("prefill 3", f"decode {length - 3}", f"empty {16 - length}")
        assert value(panel, "In use") == format_bytes(length * 384)
        assert value(panel, "Reserved") == format_bytes(16 * 384)
        assert panel.map.slab.written == (length, length)
    context.seek(Cursor(0, 0))
    assert panel.gauge.parts == (0, 0, 16)
    assert value(panel, "In use") == "0 B"


def test_the_caption_counts_positions(context: AppContext, qtbot: QtBot) -> None:
    panel = KvCachePanel(context)
    qtbot.addWidget(panel)
    with qtbot.waitSignal(panel.caption_changed) as caught:
        panel.show()
    assert caught.args == ["KV cache", "6 of 16 positions"]


def test_the_row_being_written_is_marked_in_the_layers_that_have_come_so_far(
    context: AppContext, panel: KvCachePanel
) -> None:
    context.seek(Cursor(3, operation(context, "blocks.0.cache")))
    assert panel.map.slab == Slab(16, 3, (6, 5), 5)
    assert panel.readout.text() == "This step writes position 5: 1 of 2 layers done."
    outline = context.style.colour("outline").rgb()
    empty = context.style.colour("empty").rgb()
    image = render(panel.map)
    assert image.pixel(centre(panel.map, 0, 5)) == outline
    assert image.pixel(centre(panel.map, 1, 5)) == empty
    assert image.pixel(centre(panel.map, 0, 1)) == context.style.colour("prefill").rgb()
    assert image.pixel(centre(panel.map, 0, 4)) == context.style.colour("decode").rgb()
    assert image.pixel(centre(panel.map, 1, 12)) == empty


def render(widget: QWidget) -> QImage:
    image = QImage(widget.size(), QImage.Format.Format_RGB32)
    widget.render(image)
    return image


def test_the_pointer_reads_a_row_out(
    context: AppContext, panel: KvCachePanel, qtbot: QtBot
) -> None:
    assert context.moment is not None
    token = context.moment.pieces[4].text
    QTest.mouseMove(panel.map, centre(panel.map, 1, 4))
    words = f"layer 1, position 4 “{token}”, written in step 2 (decode), 192 bytes"
    assert panel.readout.text() == words
    assert panel.map.accessibleDescription() == words
    QTest.mouseMove(panel.map, centre(panel.map, 0, 11))
    assert panel.readout.text() == "layer 0, position 11: empty"


def test_the_arrow_keys_reach_every_row_and_enter_travels_there(
    context: AppContext, panel: KvCachePanel, qtbot: QtBot
) -> None:
    panel.map.setFocus()
    QTest.keyClick(panel.map, Qt.Key.Key_Left)
    assert panel.map.cell == (0, 5)
    QTest.keyClick(panel.map, Qt.Key.Key_Down)
    QTest.keyClick(panel.map, Qt.Key.Key_Left)
    assert panel.map.cell == (1, 4)
    assert panel.readout.text().startswith("layer 1, position 4")
    for _ in range(20):
        QTest.keyClick(panel.map, Qt.Key.Key_Right)
    assert panel.map.cell == (1, 15)
    for _ in range(11):
        QTest.keyClick(panel.map, Qt.Key.Key_Left)
    QTest.keyClick(panel.map, Qt.Key.Key_Return)
    assert context.cursor == Cursor(2, operation(context, "blocks.1.cache"))


def test_a_click_travels_to_the_operation_that_wrote_the_row(
    context: AppContext, panel: KvCachePanel, qtbot: QtBot
) -> None:
    QTest.mouseClick(panel.map, LEFT, NONE, centre(panel.map, 0, 3))
    assert context.cursor == Cursor(1, operation(context, "blocks.0.cache"))
    QTest.mouseClick(panel.map, LEFT, NONE, centre(panel.map, 0, 14))  # nothing was written there
    assert context.cursor == Cursor(1, operation(context, "blocks.0.cache"))


def test_a_full_cache_says_so_and_a_larger_one_can_be_chosen(
    context: AppContext, panel: KvCachePanel, qtbot: QtBot
) -> None:
    assert not panel.full.isVisible()
    assert not panel.again.isVisible()
    context.set_capacity(6)
    settle(context)
    assert panel.full.text() == "The cache is full: 6 of 6 positions. Generation stops here."
    assert panel.full.isVisible()
    assert panel.larger.text() == "Context of 12"
    QTest.mouseClick(panel.larger, LEFT)
    settle(context)
    assert context.capacity == 12
    assert context.trace is not None
    assert context.trace.positions == 6  # nothing was lost
    assert not panel.full.isVisible()
    assert panel.gauge.parts == (3, 3, 6)


def test_starting_over_runs_the_prompt_again(
    context: AppContext, panel: KvCachePanel, qtbot: QtBot
) -> None:
    context.set_capacity(6)
    settle(context)
    QTest.mouseClick(panel.again, LEFT)
    settle(context)
    assert context.trace is not None
    assert context.trace.token_ids == (1, 2, 3)
    assert panel.gauge.parts == (3, 0, 3)


def test_a_model_of_four_positions_and_one_layer(tiny_context: AppContext, qtbot: QtBot) -> None:
    panel = show(tiny_context, qtbot)
    assert panel.map.slab.layers == 1
    assert panel.gauge.parts == (2, 1, 1)
    assert value(panel, "In use") == "96 B"
    assert value(panel, "Per token") == "32 B"
    assert panel.map.cell_rect(0, 3).right() <= panel.map.width()
    tiny_context.move(1)
    settle(tiny_context)
    while not tiny_context.exhausted:
        tiny_context.move(1)
        settle(tiny_context)
    tiny_context.go_last()
    assert "4 of 4 positions" in panel.full.text()
    assert not panel.larger.isVisible()
    assert panel.again.isVisible()


def test_a_map_of_many_positions_and_layers_says_how_many_share_a_column(qtbot: QtBot) -> None:
    shown = SlabMap()
    qtbot.addWidget(shown)
    shown.set_style(Style())
    shown.set_slab(Slab(4096, 1000, (1001,) * 20 + (1000,) * 28, 1000))
    shown.resize(300, shown.sizeHint().height())
    shown.show()
    assert shown.positions_per_column == 14
    assert shown.height() >= 48 * 3
    image = render(shown)
    style = Style()
    assert image.pixel(centre(shown, 3, 500)) == style.colour("prefill").rgb()
    assert image.pixel(centre(shown, 40, 3000)) == style.colour("empty").rgb()
    # One position in 4,096 is still a whole pixel column.
    y = centre(shown, 0, 0).y()
    row = {image.pixel(x, y) for x in range(70, 77)}
    assert len(row) >= 3
    with qtbot.waitSignal(shown.pointed) as caught:
        QTest.mouseMove(shown, centre(shown, 47, 2048))
    assert caught.args[0] == 47
    assert abs(caught.args[1] - 2048) <= shown.positions_per_column


def test_before_a_model_is_open_the_panel_is_empty(qtbot: QtBot) -> None:
    context = AppContext()
    panel = show(context, qtbot)
    assert panel.table.figures == ()
    assert not panel.full.isVisible()
    context.close()
