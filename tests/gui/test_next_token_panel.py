"""The Next token panel under a real mouse and keyboard; what it shows is read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger import library
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.library import Steps
from decoder_gui.panels.next_token import NextTokenPanel
from decoder_gui.theme.palette import PALETTES, ThemeName
from decoder_gui.theme.style import Style
from decoder_gui.viewdata.numbers import format_percent
from decoder_gui.widgets.labelled_slider import LabelledSlider, PlainSlider
from decoder_gui.widgets.probability_bars import ProbabilityBars
from model.sampling import distribution
from tests.debugger.recorded import random_loaded
from tests.gui.conftest import settle

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


@dataclass
class Shown:
    """A panel on a model of 40 tokens, wide enough a vocabulary for cuts and scrolling."""

    context: AppContext
    panel: NextTokenPanel
    bot: QtBot
    captions: list[tuple[str, str]]

    @property
    def bars(self) -> ProbabilityBars:
        return self.panel.bars

    def slider(self, field: str) -> LabelledSlider:
        return self.panel.controls.sliders[field]

    def type_into(self, field: str, text: str, *, end: Qt.Key = Qt.Key.Key_Return) -> None:
        edit = self.slider(field).edit
        edit.setFocus()
        edit.selectAll()
        QTest.keyClicks(edit, text)
        QTest.keyClick(edit, end)

    def drag(self, slider: PlainSlider, share: float) -> None:
        """Press on the knob and let go at a share of the way."""
        start = QPoint(round(slider.knob_centre()), slider.height() // 2)
        stop = QPoint(round(share * (slider.width() - 1)), slider.height() // 2)
        QTest.mousePress(slider, LEFT, NONE, start)
        QTest.mouseMove(slider, (start + stop) / 2)
        QTest.mouseMove(slider, stop)
        QTest.mouseRelease(slider, LEFT, NONE, stop)

    def click_row(self, index: int) -> None:
        QTest.mouseClick(self.bars.viewport(), LEFT, NONE, self.bars.row_rect(index).center())

    def assert_rows_are_the_distributions(self) -> None:
        moment = self.context.moment
        assert moment is not None
        assert moment.step is not None
        logits = moment.trace.logits(moment.step.index)
        assert logits is not None
        expected = distribution(logits, self.context.sampling)
        assert self.bars.rows
        for row in self.bars.rows:
            assert row.raw == expected.raw[row.token_id]
            assert row.tempered == expected.tempered[row.token_id]
            assert row.final == expected.final[row.token_id]
            assert row.final_text == (row.cut or format_percent(row.final))


def _random(spec: str) -> Steps:
    yield from ()
    return random_loaded()


@pytest.fixture
def shown(
    make_context: Callable[..., AppContext], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> Shown:
    monkeypatch.setattr(library, "model_steps", _random)
    context = make_context("random", "1 2 3", tokens=4)
    return show(context, qtbot)


def show(context: AppContext, qtbot: QtBot) -> Shown:
    panel = NextTokenPanel(context)
    qtbot.addWidget(panel)
    captions: list[tuple[str, str]] = []
    panel.caption_changed.connect(lambda title, hint: captions.append((title, hint)))
    panel.resize(330, 520)
    panel.show()
    qtbot.waitExposed(panel)
    return Shown(context, panel, qtbot, captions)


def generator_state(context: AppContext) -> object:
    assert context.trace is not None
    return [(step.uniform, step.checkpoint.generator_state) for step in context.trace.steps]


# --- sliders ------------------------------------------------------------------------------------


def test_dragging_a_slider_redraws_the_distribution_and_draws_nothing(shown: Shown) -> None:
    before = generator_state(shown.context)
    text = shown.panel.controls.draw.text()
    rows = shown.bars.rows
    shown.drag(shown.slider("temperature").slider, 0.9)
    assert 1.6 < shown.context.sampling.temperature < 2.0
    shown.assert_rows_are_the_distributions()
    assert shown.bars.rows != rows
    shown.drag(shown.slider("top_p").slider, 0.4)
    assert 0.3 < shown.context.sampling.top_p < 0.5
    shown.drag(shown.slider("top_k").slider, 0.6)
    assert 1 < shown.context.sampling.top_k < 40
    shown.assert_rows_are_the_distributions()
    assert {row.cut for row in shown.bars.rows} > {""}
    assert generator_state(shown.context) == before
    assert shown.panel.controls.draw.text() == text


def test_keys_move_a_slider_by_one_stop(shown: Shown) -> None:
    slider = shown.slider("temperature").slider
    slider.setFocus()
    QTest.keyClick(slider, Qt.Key.Key_Left)
    assert shown.context.sampling.temperature == 0.99
    assert shown.slider("temperature").edit.text() == "0.99"
    QTest.keyClick(slider, Qt.Key.Key_Home)
    assert shown.context.sampling.temperature == 0.0
    assert shown.slider("temperature").edit.text() == "greedy"
    shown.assert_rows_are_the_distributions()
    top_k = shown.slider("top_k").slider
    for expected in (1, 2, 3):
        QTest.keyClick(top_k, Qt.Key.Key_Right)
        assert shown.context.sampling.top_k == expected


def test_a_slider_that_is_scrolled_past_keeps_its_value(shown: Shown) -> None:
    slider = shown.slider("top_p").slider
    shown.bars.setFocus()
    wheel(slider)
    assert shown.context.sampling.top_p == 1.0
    slider.setFocus()
    wheel(slider)
    assert shown.context.sampling.top_p < 1.0


def wheel(slider: PlainSlider) -> None:
    """One notch down over the middle of a slider."""
    middle = QPointF(slider.rect().center())
    event = QWheelEvent(
        middle,
        slider.mapToGlobal(middle),
        QPoint(),
        QPoint(0, -120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(slider, event)


def test_the_same_distribution_from_the_command_of_another_panel(shown: Shown) -> None:
    shown.context.set_sampling(temperature=0.5, top_k=7)
    assert shown.slider("temperature").value == 0.5
    assert shown.slider("temperature").slider.value() == 50
    assert shown.slider("top_k").edit.text() == "7"
    shown.assert_rows_are_the_distributions()


# --- typed values -------------------------------------------------------------------------------


def test_a_typed_value_is_taken_exactly_even_beyond_the_slider(shown: Shown) -> None:
    shown.type_into("temperature", "7.25")
    assert shown.context.sampling.temperature == 7.25
    slider = shown.slider("temperature").slider
    assert slider.value() == slider.maximum()
    shown.type_into("top_p", "0.905")
    assert shown.context.sampling.top_p == 0.905
    assert shown.slider("top_p").edit.text() == "0.905"
    shown.type_into("top_k", "5000")
    assert shown.context.sampling.top_k == 5000
    shown.type_into("top_k", "off", end=Qt.Key.Key_Tab)
    assert shown.context.sampling.top_k == 0
    shown.assert_rows_are_the_distributions()


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("temperature", "-1", "any positive number. It stays 1.00"),
        ("temperature", "nan", "any positive number"),
        ("temperature", "0,8", "decimal sign"),
        ("top_p", "0", "above 0 and up to 1"),
        ("top_k", "-3", "whole number from 1"),
    ],
)
def test_an_impossible_value_is_refused_at_the_control(
    shown: Shown, field: str, text: str, words: str
) -> None:
    before, rows = shown.context.sampling, shown.bars.rows
    shown.type_into(field, text)
    row = shown.slider(field)
    assert row.message.isVisible()
    assert words in row.message.text()
    assert row.edit.property("state") == "bad"
    assert row.edit.text() == text  # to be corrected
    assert shown.context.sampling == before
    assert shown.bars.rows == rows
    shown.type_into(field, "1")
    assert not row.message.isVisible()
    assert row.edit.property("state") != "bad"


def test_what_was_refused_does_not_stay_in_the_field_when_it_is_left(shown: Shown) -> None:
    shown.type_into("top_p", "2", end=Qt.Key.Key_Tab)
    assert shown.slider("top_p").edit.text() == "off"
    assert shown.slider("top_p").message.isVisible()
    assert shown.context.sampling.top_p == 1.0


def test_escape_gives_up_what_was_typed(shown: Shown) -> None:
    shown.type_into("temperature", "0.3", end=Qt.Key.Key_Escape)
    assert shown.slider("temperature").edit.text() == "1.00"
    assert shown.context.sampling.temperature == 1.0


def test_a_seed_applies_at_the_next_prefill_and_says_so(shown: Shown) -> None:
    controls = shown.panel.controls
    assert controls.seed.text() == "41"
    controls.seed.setFocus()
    controls.seed.selectAll()
    QTest.keyClicks(controls.seed, "7")
    QTest.keyClick(controls.seed, Qt.Key.Key_Return)
    assert shown.context.sampling.seed == 7
    assert "7 applies at the next Prefill" in controls.seed_note.text()
    shown.context.prefill()
    settle(shown.context)
    assert not controls.seed_note.isVisible()
    controls.seed.selectAll()
    QTest.keyClicks(controls.seed, "x")
    QTest.keyClick(controls.seed, Qt.Key.Key_Return)
    assert "whole number" in controls.seed_note.text()
    assert shown.context.sampling.seed == 7


def test_min_p_and_the_order_are_one_click_away_and_named_while_folded(shown: Shown) -> None:
    controls = shown.panel.controls
    assert not controls.sliders["min_p"].isVisible()
    assert "reference" in controls.more.text()
    assert "min-p off" in controls.more.text()
    QTest.mouseClick(controls.more, LEFT)
    assert controls.sliders["min_p"].isVisible()
    controls.order.setFocus()
    QTest.keyClick(controls.order, Qt.Key.Key_Down)
    assert shown.context.sampling.order == "hugging-face"
    shown.type_into("min_p", "0.1")
    assert shown.context.sampling.min_p == 0.1
    assert "hugging-face" in controls.more.text()
    assert "min-p 0.10" in controls.more.text()
    shown.assert_rows_are_the_distributions()


# --- taking -------------------------------------------------------------------------------------


def test_clicking_a_bar_takes_that_token(shown: Shown) -> None:
    assert shown.context.trace is not None
    positions = shown.context.trace.positions
    token = shown.bars.rows[2].token_id
    shown.click_row(2)
    settle(shown.context)
    assert shown.context.trace.token_ids[positions:] == (token,)


def test_keys_choose_a_row_and_enter_takes_it(shown: Shown) -> None:
    assert shown.context.trace is not None
    positions = shown.context.trace.positions
    shown.bars.setFocus()
    for _ in range(3):
        QTest.keyClick(shown.bars, Qt.Key.Key_Down)
    QTest.keyClick(shown.bars, Qt.Key.Key_Up)
    row = shown.bars.rows[shown.bars.current]
    assert shown.bars.current == 2
    assert shown.bars.accessibleDescription() == row.spoken
    QTest.keyClick(shown.bars, Qt.Key.Key_Return)
    settle(shown.context)
    assert shown.context.trace.token_ids[positions:] == (row.token_id,)


def test_every_row_can_be_reached_by_key(shown: Shown) -> None:
    assert len(shown.bars.rows) >= 20
    shown.bars.setFocus()
    QTest.keyClick(shown.bars, Qt.Key.Key_End)
    last = len(shown.bars.rows) - 1
    assert shown.bars.current == last
    visible = shown.bars.viewport().rect()
    assert visible.contains(shown.bars.row_rect(last).center())
    QTest.keyClick(shown.bars, Qt.Key.Key_Home)
    assert visible.contains(shown.bars.row_rect(0).center())


def test_the_button_takes_the_token_on_which_the_held_draw_lands(shown: Shown) -> None:
    moment = shown.context.moment
    assert moment is not None
    assert moment.landing is not None
    (row,) = [row for row in shown.bars.rows if row.landing]
    assert row.token_id == moment.landing.token_id
    assert shown.panel.take.text() == f"Take {row.text}"
    positions = moment.trace.positions
    QTest.mouseClick(shown.panel.take, LEFT)
    settle(shown.context)
    assert shown.context.trace is not None
    assert shown.context.trace.token_ids[positions:] == (row.token_id,)


def test_taking_at_an_older_step_forks_there(shown: Shown) -> None:
    assert shown.context.trace is not None
    last = len(shown.context.trace.operations) - 1
    shown.context.seek(Cursor(1, last))
    assert shown.panel.take.text().startswith("Go to "), "the draw lands on what was taken"
    assert "begins a branch" in shown.panel.branch.text()
    (taken,) = [row for row in shown.bars.rows if row.taken]
    assert taken.token_id == shown.context.trace.steps[2].token_ids[0]
    other = next(i for i, row in enumerate(shown.bars.rows) if not row.taken)
    token = shown.bars.rows[other].token_id
    shown.click_row(other)
    settle(shown.context)
    assert len(shown.context.trace.steps) == 3
    assert shown.context.trace.steps[2].token_ids == (token,)
    assert [branch.steps[2].token_ids for branch in shown.context.branches.tree] == [
        (taken.token_id,),
        (token,),
    ]


def test_resample_holds_another_number_and_takes_nothing(shown: Shown) -> None:
    assert shown.context.trace is not None
    positions, text = shown.context.trace.positions, shown.panel.controls.draw.text()
    QTest.mouseClick(shown.panel.resample, LEFT)
    settle(shown.context)
    assert shown.context.trace.positions == positions
    step = shown.context.trace.steps[-1]
    assert shown.panel.controls.draw.text() == f"draw {step.uniform:.3f} held" != text


def test_greedy_leaves_nothing_to_resample(shown: Shown) -> None:
    shown.type_into("temperature", "0")
    assert not shown.panel.resample.isEnabled()
    assert shown.panel.take.isEnabled()
    assert shown.panel.controls.draw.text() == "greedy, nothing drawn"
    assert [row.cut for row in shown.bars.rows[1:]] == ["greedy"] * (len(shown.bars.rows) - 1)


# --- comparison draws ---------------------------------------------------------------------------


def test_a_thousand_draws_are_compared_and_forgotten_at_the_next_change(shown: Shown) -> None:
    before = generator_state(shown.context)
    QTest.mouseClick(shown.panel.many, LEFT)
    rows = shown.bars.rows
    shares = [row.observed for row in rows if row.observed is not None]
    assert len(shares) == len(rows)
    # 1,000 draws: five standard errors either way, in every row.
    for row in rows:
        assert row.observed is not None
        error = np.sqrt(max(row.final * (1 - row.final), 1e-4) / 1000)
        assert abs(row.observed - row.final) < 5 * error
    assert "1,000 draws" in shown.panel.summary.text()
    assert "observed" in shown.panel.legend.words
    assert generator_state(shown.context) == before
    QTest.mouseClick(shown.panel.many, LEFT)
    assert [row.observed for row in shown.bars.rows] != shares
    shown.drag(shown.slider("temperature").slider, 0.3)
    assert all(row.observed is None for row in shown.bars.rows)
    assert "draws" not in shown.panel.summary.text()


# --- states -------------------------------------------------------------------------------------


def test_the_hint_says_when_the_outcome_is_computed_later(shown: Shown) -> None:
    assert shown.captions[-1] == ("Next token", "raw → final")
    shown.context.seek(Cursor(3, 0))
    assert shown.captions[-1] == ("Next token", "computed later in this step")
    shown.assert_rows_are_the_distributions()


def test_stepping_within_a_step_rebuilds_nothing(shown: Shown) -> None:
    shown.context.seek(Cursor(3, 4))
    view = shown.panel.view
    shown.context.move(-1)
    assert shown.panel.view is view
    shown.context.seek(Cursor(2, 4))
    assert shown.panel.view is not view


def test_logits_that_are_no_numbers_hide_the_bars(shown: Shown) -> None:
    shown.context.set_fault("nan-weight", True)
    settle(shown.context)
    assert not shown.bars.isVisible()
    assert shown.panel.refusal.isVisible()
    assert "is NaN" in shown.panel.refusal.text()
    assert not shown.panel.take.isEnabled()
    assert not shown.panel.many.isEnabled()
    shown.context.set_fault("nan-weight", False)
    settle(shown.context)
    assert shown.bars.isVisible()
    assert not shown.panel.refusal.isVisible()


def test_a_full_cache_takes_no_more(tiny_context: AppContext, qtbot: QtBot) -> None:
    found = show(tiny_context, qtbot)
    for _ in range(3):
        if found.panel.take.isEnabled():
            QTest.mouseClick(found.panel.take, LEFT)
            settle(tiny_context)
    assert tiny_context.exhausted
    assert not found.panel.take.isEnabled()
    assert "full" in found.panel.take.toolTip()


def test_before_a_model_is_open_the_panel_is_quiet(qtbot: QtBot) -> None:
    context = AppContext()
    found = show(context, qtbot)
    assert not found.bars.isVisible()
    assert "Prefill" in found.panel.refusal.text()
    assert not found.panel.take.isEnabled()
    context.close()


def test_every_control_has_a_name_and_can_be_reached_by_tab(shown: Shown) -> None:
    controls = shown.panel.controls
    reachable = [controls.seed, controls.more, shown.bars, *shown.panel.findChildren(PlainSlider)]
    reachable += [slider.edit for slider in controls.sliders.values()]
    for widget in reachable:
        assert widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        assert widget.accessibleName()
    names = [slider.slider.accessibleName() for slider in controls.sliders.values()]
    assert names == ["Temperature", "Top-k", "Top-p", "Min-p"]


@pytest.mark.parametrize("theme", list(ThemeName))
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_nothing_is_cut_off_at_any_scale(shown: Shown, theme: ThemeName, scale: float) -> None:
    shown.context.style = replace(Style(PALETTES[theme]), scale=scale)
    shown.panel.resize(round(330 * scale), round(452 * scale))
    shown.context.changed.emit(Change.STYLE)
    shown.bot.wait(1)
    whole = shown.panel.rect()
    for button in (shown.panel.take, shown.panel.resample, shown.panel.many):
        assert whole.contains(button.geometry())
        assert button.width() >= button.minimumSizeHint().width()
    assert shown.panel.take.shown_text == shown.panel.take.text()
    for index in range(4):
        assert shown.bars.viewport().rect().contains(shown.bars.row_rect(index))
    image = shown.panel.grab().toImage()
    accent = shown.context.style.colour("accent").rgb()
    assert any(
        image.pixel(x, y) == accent
        for x in range(0, image.width(), 3)
        for y in range(0, image.height(), 3)
    )
