"""The token strip in use: clicks, keys, and every number read back from what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.panels.token_strip import TokenStripPanel
from decoder_gui.theme.palette import CONTRAST, DARK, LIGHT, Palette
from decoder_gui.theme.style import Style
from decoder_gui.viewdata.token_strip import TokenCell, TokenStripView
from decoder_gui.widgets.token_strip import TokenStrip
from model.trace import Phase
from tests.gui.conftest import settle


@pytest.fixture
def panel(stories_context: AppContext, qtbot: QtBot) -> Iterator[TokenStripPanel]:
    panel = TokenStripPanel(stories_context)
    qtbot.addWidget(panel)
    panel.resize(1440, 70)
    panel.show()
    QTest.qWaitForWindowExposed(panel)
    yield panel
    panel.hide()


def click(panel: TokenStripPanel, position: int) -> None:
    where = panel.strip.cell_box(position).center().toPoint()
    QTest.mouseClick(panel.strip, Qt.MouseButton.LeftButton, pos=where)


def test_tokens_and_numbers_are_those_of_the_run(panel: TokenStripPanel) -> None:
    context = panel.context
    context.go_last()
    trace, run, model = context.trace, context.run_state, context.model
    assert trace is not None
    assert run is not None
    assert model is not None
    assert trace.positions > 12
    for position, token in enumerate(trace.token_ids):
        assert panel.strip.shown_text(position) == model.tokenizer.piece(token).text
        exact = run.log_probabilities[position]
        shown = panel.strip.shown_number(position)
        if exact is None:
            assert shown == ""
        else:
            assert float(shown) == pytest.approx(exact, abs=0.005)


def test_a_click_on_a_decoded_token_goes_to_its_step(panel: TokenStripPanel) -> None:
    context = panel.context
    trace = context.trace
    assert trace is not None
    context.seek(Cursor(1, 7))
    click(panel, trace.steps[3].first)
    assert context.cursor == Cursor(3, 7)
    assert context.selection.query is None


def test_a_click_on_a_prompt_token_selects_its_query(panel: TokenStripPanel) -> None:
    context = panel.context
    context.seek(Cursor(0, 9))
    click(panel, 2)
    assert context.cursor == Cursor(0, 9)
    assert context.selection.query == 2
    assert panel.strip.accessibleDescription().startswith("“␣a” at position 2, prefill, step 0")


def test_arrows_go_from_token_to_token_while_it_has_the_focus(panel: TokenStripPanel) -> None:
    context, trace = panel.context, panel.context.trace
    assert trace is not None
    last_prompt = trace.steps[0].last - 1
    context.seek(Cursor(0, 3))
    QTest.keyClick(panel.strip, Qt.Key.Key_Right)
    assert context.cursor == Cursor(1, 3)
    QTest.keyClick(panel.strip, Qt.Key.Key_Left)
    assert context.cursor == Cursor(0, 3)
    assert context.selection.query == last_prompt
    QTest.keyClick(panel.strip, Qt.Key.Key_Home)
    assert context.selection.query == 0
    QTest.keyClick(panel.strip, Qt.Key.Key_Left)
    assert context.selection.query == 0
    QTest.keyClick(panel.strip, Qt.Key.Key_End)
    assert context.cursor is not None
    assert context.cursor.step == len(trace.steps) - 1


@pytest.mark.checked
def test_chips_follow_the_checks_and_tell_clicks(panel: TokenStripPanel, qtbot: QtBot) -> None:
    context = panel.context
    context.seek(Cursor(0, 0))
    assert panel.chips.shown() == [
        ("Prefill", "plain"),
        ("✓ causal", "good"),
        ("✓ cache = full pass", "good"),
    ]
    sentences: list[str] = []
    context.notice.connect(sentences.append)
    with qtbot.waitSignal(panel.chip_clicked) as heard:
        panel.chips.button("causal").click()
    assert heard.args == ["causal"]
    assert "causal-weights" in sentences[0]
    context.checks = ()
    context.changed.emit(Change.CHECKS)
    assert ("causal: not checked", "waiting") in panel.chips.shown()
    panel.chips.button("causal").click()  # makes the check
    settle(context)
    assert ("✓ causal", "good") in panel.chips.shown()
    context.set_fault("no-mask", True)
    settle(context)
    shown = dict(panel.chips.shown())
    assert shown["Fault on: no-mask"] == "bad"
    assert shown["✗ causal"] == "bad"
    assert "causal-weights" in panel.chips.button("causal").toolTip()
    context.clear_faults()
    settle(context)
    assert [state for _, state in panel.chips.shown()] == ["plain", "good", "good"]


def many(count: int, here: int) -> TokenStripView:
    cells = tuple(
        TokenCell(n, n, Phase.DECODE, n, f"␣word{n}", False, -n / 100, f"{-n / 100:.2f}", False)
        for n in range(count)
    )
    return TokenStripView(cells, here + 1, here, (here, here + 1), here + 1, count)


@pytest.fixture
def strip(qapp: QApplication, qtbot: QtBot) -> TokenStrip:
    strip = TokenStrip(Style())
    qtbot.addWidget(strip)
    strip.resize(600, strip.sizeHint().height())
    return strip


def test_thousands_of_tokens_follow_the_cursor_and_the_wheel(strip: TokenStrip) -> None:
    view = many(5000, 4000)
    strip.set_view(view, Style())
    box = strip.cell_box(4000)
    assert 0 <= box.left() < box.right() <= 600
    assert strip.position_at(box.center().x()) == 4000
    strip._scroll_to(0)
    assert strip.cell_box(0).left() >= 0
    strip.set_view(replace(view, in_hand=0), Style())
    assert strip.position_at(strip.cell_box(1).center().x()) == 1
    painted = QImage(strip.size(), QImage.Format.Format_RGB32)
    strip.render(painted)  # only a few of the five thousand are painted


def test_the_token_to_come_is_named_but_cannot_be_chosen(strip: TokenStrip, qtbot: QtBot) -> None:
    strip.set_view(many(3, 1), Style())
    where = strip.cell_box(3).center()
    assert strip.tooltip_at(where) == "Position 3: not chosen yet"
    with qtbot.assertNotEmitted(strip.token_chosen):
        QTest.mouseClick(strip, Qt.MouseButton.LeftButton, pos=where.toPoint())
    assert strip.tooltip_at(QPointF(strip.cell_box(2).center())).endswith("later than the cursor")


def test_long_tokens_are_elided_and_told_whole(strip: TokenStrip) -> None:
    view = many(1, 0)
    text = "x" * 60
    strip.set_view(replace(view, cells=(replace(view.cells[0], text=text),)), Style())
    assert strip.shown_text(0) == "x" * 23 + "…"
    assert text in strip.tooltip_at(strip.cell_box(0).center())


@pytest.mark.parametrize("palette", [DARK, LIGHT, CONTRAST], ids=lambda palette: palette.name)
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_token_in_hand_is_outlined_and_phases_are_underlined(
    strip: TokenStrip, palette: Palette, scale: float
) -> None:
    style = Style(palette, scale)
    strip.resize(1200, style.px(70))
    strip.set_view(many(6, 3), style)
    painted = QImage(strip.size(), QImage.Format.Format_RGB32)
    painted.fill(style.colour("window"))
    strip.render(painted, QPoint())
    box = strip.cell_box(3)
    outline = painted.pixelColor(round(box.center().x()), round(box.top() - style.px(1)))
    assert outline.name().upper() == palette.outline
    box = strip.cell_box(1)
    underline = painted.pixelColor(round(box.center().x()), round(box.bottom() - style.px(1.5)))
    assert underline.name().upper() == palette.decode


def test_an_empty_strip_says_what_to_do(strip: TokenStrip) -> None:
    strip.set_view(replace(many(0, 0), in_hand=None, pending=None), Style())
    assert strip.position_at(10.0) is None
    QTest.keyClick(strip, Qt.Key.Key_Right)
    assert strip.accessibleDescription() == "No token has been processed yet"
