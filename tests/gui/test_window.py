"""The whole window, driven as a person drives it: keys, clicks, drags, and what then shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QSettings, QSize, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QMenu, QPlainTextEdit, QPushButton
from pytestqt.qtbot import QtBot

from decoder_gui.cli import main
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Granularity, first
from decoder_gui.debugger.saving.session_reading import read
from decoder_gui.main_window import MainWindow
from decoder_gui.panels.attention import AttentionPanel
from decoder_gui.panels.forward_pass import ForwardPassPanel
from decoder_gui.panels.next_token import NextTokenPanel
from decoder_gui.shortcuts import SHORTCUTS
from decoder_gui.theme.palette import DARK, ThemeName
from decoder_gui.theme.style import Face, Style
from decoder_gui.view import View
from decoder_gui.waiting import wait_until
from model.sampling import ORDERS
from tests.gui.conftest import STORY, settle

Key = Qt.Key


@pytest.fixture
def open_window(
    qtbot: QtBot, make_context: Callable[..., AppContext]
) -> Iterator[Callable[..., MainWindow]]:
    """A function that shows the whole window around a model and a prompt."""
    windows: list[MainWindow] = []

    def show(model: str, prompt: str, tokens: int = 0, **sampling: object) -> MainWindow:
        context = make_context(model, prompt, tokens, **sampling)
        window = MainWindow(context.style)
        windows.append(window)
        window.resize(QSize(1440, 900))
        window.show()
        window.furnish(context)
        qtbot.waitExposed(window)
        return window

    yield show
    for window in windows:
        window.close()
        window.deleteLater()
    QApplication.sendPostedEvents(None, 0)
    QApplication.processEvents()


@pytest.fixture
def window(open_window: Callable[..., MainWindow]) -> MainWindow:
    """The bundled model with a few decoded tokens."""
    return open_window("stories", STORY, tokens=6)


def context_of(window: MainWindow) -> AppContext:
    assert window.workspace is not None
    return window.workspace.context


def press(
    qtbot: QtBot,
    window: MainWindow,
    key: Qt.Key,
    modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier,
) -> None:
    window.setFocus()
    qtbot.keyClick(window, key, modifier)


def picture(window: MainWindow) -> QImage:
    """The window as an image, once nothing is left to lay out or paint."""
    turns = iter(range(8))
    wait_until(lambda: next(turns, None) is None)
    image = QImage(window.size(), QImage.Format.Format_RGB32)
    window.render(image)
    return image


def test_arrow_keys_step_and_a_clicker_does_the_same(qtbot: QtBot, window: MainWindow) -> None:
    context = context_of(window)
    assert context.trace is not None
    press(qtbot, window, Key.Key_Home)
    assert context.cursor == first(context.trace)
    for forward, back in ((Key.Key_Right, Key.Key_Left), (Key.Key_PageDown, Key.Key_PageUp)):
        start = context.cursor
        press(qtbot, window, forward)
        assert context.cursor != start
        press(qtbot, window, back)
        assert context.cursor == start
    press(qtbot, window, Key.Key_End)
    assert context.at_end


def test_up_and_down_change_the_granularity(qtbot: QtBot, window: MainWindow) -> None:
    context = context_of(window)
    seen = [context.granularity]
    for _ in range(4):
        press(qtbot, window, Key.Key_Up)
        seen.append(context.granularity)
    assert seen == [*Granularity, Granularity.PHASE]
    press(qtbot, window, Key.Key_Down)
    assert context.granularity is Granularity.TOKEN


def test_thirty_steps_and_thirty_back_give_the_same_picture(
    qtbot: QtBot, window: MainWindow
) -> None:
    press(qtbot, window, Key.Key_Home)
    for _ in range(12):
        press(qtbot, window, Key.Key_Right)
    before = picture(window)
    for _ in range(30):
        press(qtbot, window, Key.Key_Right)
    assert picture(window) != before
    for _ in range(30):
        press(qtbot, window, Key.Key_Left)
    assert picture(window) == before


def test_every_shortcut_of_the_table_is_bound(window: MainWindow) -> None:
    assert window.workspace is not None
    bound = {sequence.toString() for action in window.actions() for sequence in action.shortcuts()}
    panels = len(window.workspace.arrangement.docks)
    for shortcut in SHORTCUTS:
        if shortcut.id.startswith("panel_") and int(shortcut.id[6:]) > panels:
            continue
        assert set(shortcut.keys) <= bound, shortcut.id


def test_the_question_mark_lists_the_keys(qtbot: QtBot, window: MainWindow) -> None:
    press(qtbot, window, Key.Key_Question, Qt.KeyboardModifier.ShiftModifier)
    assert window.workspace is not None
    dialog = window.workspace.shortcuts_dialog
    assert dialog is not None
    assert dialog.isVisible()
    assert any("Step forward" in text for _, text in dialog.shown_rows())
    dialog.close()


def test_projector_mode_shows_one_panel_and_number_keys_switch(
    qtbot: QtBot, window: MainWindow
) -> None:
    assert window.workspace is not None
    context, docks = context_of(window), window.workspace.arrangement.docks
    press(qtbot, window, Key.Key_P)
    assert context.style.palette.name is ThemeName.LIGHT
    assert context.style.scale >= 1.5
    assert [name for name, dock in docks.items() if dock.isVisible()] == ["attention"]
    for number, name in enumerate(docks, start=1):
        if name != "attention":
            press(qtbot, window, Key(Key.Key_0 + number))
            assert [name for name, dock in docks.items() if dock.isVisible()] == [name]
    press(qtbot, window, Key.Key_P)
    assert context.style.palette is DARK
    assert context.style.scale == 1.0
    assert all(dock.isVisible() for dock in docks.values())


def test_texts_have_their_own_fonts_from_the_start_and_after_projector_mode(
    qtbot: QtBot, window: MainWindow
) -> None:
    assert window.workspace is not None
    panels, style = window.workspace.panels, context_of(window).style
    forward, attention = panels["forward-pass"], panels["attention"]
    assert isinstance(forward, ForwardPassPanel)
    assert isinstance(attention, AttentionPanel)
    source, column = forward.source, attention.column
    expected = {
        source.heading: Face.TITLE,
        source.file: Face.SMALL,
        source.formula: Face.MONO,
        column.heads_title: Face.TITLE,
        column.scale_note: Face.SMALL,
    }
    for _ in range(2):
        for label, face in expected.items():
            assert label.font().key() == style.font(face).key(), label.text()
        press(qtbot, window, Key.Key_P)  # the forward pass is hidden while all fonts change
        press(qtbot, window, Key.Key_P)


def test_showing_all_panels_enlarged_does_not_spoil_the_arrangement(
    qtbot: QtBot, window: MainWindow
) -> None:
    assert window.workspace is not None
    picture(window)
    docks = window.workspace.arrangement.docks
    before = {name: dock.size() for name, dock in docks.items()}
    for key in (Key.Key_P, Key.Key_0, Key.Key_5, Key.Key_P):
        press(qtbot, window, key)
        picture(window)
    assert {name: dock.size() for name, dock in docks.items()} == before


def test_the_theme_in_use_is_ticked_in_the_view_menu(qtbot: QtBot, window: MainWindow) -> None:
    assert window.workspace is not None
    themes = next(menu for menu in window.workspace.findChildren(QMenu) if menu.title() == "Theme")

    def ticked() -> list[str]:
        return [action.text() for action in themes.actions() if action.isChecked()]

    assert ticked() == ["Dark"]
    for action in (*themes.actions(), themes.actions()[-1]):
        action.trigger()
        assert ticked() == [action.text()]
    press(qtbot, window, Key.Key_P)
    assert ticked() == ["Light"]


def test_the_unfolded_rule_of_an_order_has_its_font_and_all_its_lines(
    qtbot: QtBot, window: MainWindow
) -> None:
    assert window.workspace is not None
    panel, context = window.workspace.panels["next-token"], context_of(window)
    assert isinstance(panel, NextTokenPanel)
    rule = panel.controls.rule
    context.set_theme(ThemeName.LIGHT)  # while the rule is folded away
    panel.controls.more.click()
    for scale in (1.0, 1.2):
        context.set_scale(scale)
        for order in ORDERS:
            context.set_sampling(order=order)
            settle(context)
            picture(window)
            assert rule.font().key() == context.style.font(Face.SMALL).key()
            assert rule.height() >= rule.heightForWidth(rule.width()), (scale, order)


def test_everything_scales_with_the_keys(qtbot: QtBot, window: MainWindow) -> None:
    context = context_of(window)
    press(qtbot, window, Key.Key_Plus, Qt.KeyboardModifier.ControlModifier)
    assert context.style.scale == pytest.approx(1.1)
    press(qtbot, window, Key.Key_Minus, Qt.KeyboardModifier.ControlModifier)
    press(qtbot, window, Key.Key_Minus, Qt.KeyboardModifier.ControlModifier)
    assert context.style.scale == pytest.approx(1 / 1.1)
    press(qtbot, window, Key.Key_0, Qt.KeyboardModifier.ControlModifier)
    assert context.style.scale == 1.0


def test_a_prompt_is_typed_and_run(qtbot: QtBot, window: MainWindow) -> None:
    context, bar = context_of(window), window.top_bar
    press(qtbot, window, Key.Key_P, Qt.KeyboardModifier.ControlModifier)
    assert bar.prompt.hasFocus()
    qtbot.keyClicks(bar.prompt, "One day a dog")
    qtbot.keyClick(bar.prompt, Key.Key_Return)
    settle(context)
    assert context.moment is not None
    assert "".join(piece.text for piece in context.moment.pieces) == "One␣day␣a␣dog"
    assert context.trace is not None
    assert len(context.trace.steps) == 1


@pytest.mark.checked
def test_a_fault_is_announced_over_everything(window: MainWindow) -> None:
    assert window.workspace is not None
    context, banner = context_of(window), window.workspace.fault_banner
    assert not banner.isVisible()
    context.set_fault("mask-off-by-one", True)
    settle(context)
    assert banner.isVisible()
    assert "mask-off-by-one" in banner.text()
    assert "causal-weights" in banner.text()
    context.clear_faults()
    settle(context)
    assert not banner.isVisible()


def test_breakpoints_by_key(qtbot: QtBot, window: MainWindow) -> None:
    context = context_of(window)
    press(qtbot, window, Key.Key_Left)
    press(qtbot, window, Key.Key_F9)
    mark = context.cursor
    press(qtbot, window, Key.Key_Home)
    press(qtbot, window, Key.Key_F5)
    settle(context)
    assert context.cursor == mark


def test_keys_work_in_a_field_as_they_do_anywhere(qtbot: QtBot, window: MainWindow) -> None:
    context, prompt = context_of(window), window.top_bar.prompt
    here = context.cursor
    prompt.setFocus()
    prompt.setText("")
    qtbot.keyClicks(prompt, "p?[1 2]")
    qtbot.keyClick(prompt, Key.Key_Left)
    qtbot.keyClick(prompt, Key.Key_Home)
    assert prompt.text() == "p?[1 2]"
    assert context.cursor == here
    assert not context.style.projector


def test_a_hidden_panel_is_not_drawn_until_it_is_shown(window: MainWindow) -> None:
    assert window.workspace is not None
    context = context_of(window)
    panel = window.workspace.panels["kv-cache"]
    dock = window.workspace.arrangement.docks["kv-cache"]
    drawn: list[object] = []
    original = panel.redraw
    panel.redraw = lambda changes: (drawn.append(changes), original(changes))  # type: ignore[method-assign,func-returns-value,assignment]
    dock.hide()
    for _ in range(5):
        context.move(-1)
    assert drawn == []
    dock.show()
    assert len(drawn) == 1


def test_tab_reaches_every_kind_of_control(qtbot: QtBot, window: MainWindow) -> None:
    window.activateWindow()
    window.top_bar.prompt.setFocus()
    reached = set()
    for _ in range(80):
        widget = QApplication.focusWidget()
        assert widget is not None
        name = widget.accessibleName() or getattr(widget, "text", lambda: "")()
        assert name, f"{widget} can be reached by Tab and has no accessible name"
        reached.add(name)
        qtbot.keyClick(widget, Key.Key_Tab)
    assert len(reached) > 20


def test_the_arrangement_and_looks_are_remembered(
    qtbot: QtBot, make_context: Callable[..., AppContext], tmp_path: Path
) -> None:
    settings = QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)

    def show() -> MainWindow:
        context = make_context("tiny", "The cat")
        made = MainWindow(context.style, settings)
        made.resize(QSize(1440, 900))
        made.show()
        made.furnish(context)
        qtbot.waitExposed(made)
        return made

    one = show()
    assert one.workspace is not None
    one.workspace.arrangement.docks["values"].hide()
    one.workspace.context.set_theme(ThemeName.CONTRAST)
    one.close()
    one.deleteLater()
    two = show()
    assert two.workspace is not None
    docks = two.workspace.arrangement.docks
    assert not docks["values"].isVisible()
    assert settings.value("looks/theme") == "contrast"
    two.workspace.arrangement.reset()
    assert all(dock.isVisible() for dock in docks.values())
    two.close()
    two.deleteLater()
    QApplication.processEvents()


def test_panels_keep_their_sizes_from_one_start_to_the_next(
    qtbot: QtBot, make_context: Callable[..., AppContext], tmp_path: Path
) -> None:
    settings = QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)
    sizes = []
    for _ in range(3):
        window = MainWindow(Style(), settings)
        window.resize(QSize(1440, 876))
        window.show()
        qtbot.waitExposed(window)
        context = make_context("tiny", "The cat")
        window.furnish(context)
        picture(window)
        assert window.workspace is not None
        docks = window.workspace.arrangement.docks
        sizes.append({name: dock.size() for name, dock in docks.items()})
        window.close()
        window.deleteLater()
    assert sizes[1:] == sizes[:-1]


def test_a_workspace_left_in_projector_mode_has_its_proportions_again(
    qtbot: QtBot, window: MainWindow
) -> None:
    workspace = window.workspace
    assert workspace is not None

    def sizes() -> dict[str, tuple[int, int]]:
        picture(window)
        docks = workspace.desks.current.docks
        return {name: (dock.width(), dock.height()) for name, dock in docks.items()}

    before = sizes()
    workspace.set_projector(True)
    workspace.arrangement.restore()
    workspace.show_view(View.LEARN)
    workspace.arrangement.restore()
    workspace.set_projector(False)
    workspace.show_view(View.STEP)
    assert sizes() == before


def test_closing_while_the_worker_runs_is_quiet(open_window: Callable[..., MainWindow]) -> None:
    window = open_window("stories", STORY)
    context_of(window).prefill(STORY, tokens=100)
    window.close()


def test_an_unforeseen_exception_is_text_to_copy_and_the_session_is_saved(
    qtbot: QtBot, window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "decoder_gui.session_keeping.QStandardPaths.writableLocation", lambda place: str(tmp_path)
    )
    context = context_of(window)
    assert window.workspace is not None
    assert context.trace is not None
    context.crashed.emit("Traceback: something")
    dialog = window.workspace.crash_dialog
    assert dialog is not None
    assert dialog.isVisible()
    (body,) = dialog.findChildren(QPlainTextEdit)
    assert body.toPlainText() == "Traceback: something"
    saved = read(tmp_path / "rescued.session.json")
    ids = [token for step in saved.branches[0].steps for token in step.token_ids]
    assert ids == list(context.trace.token_ids)
    dialog.close()
    here = context.cursor
    press(qtbot, window, Key.Key_Left)
    assert context.cursor != here


def test_a_button_under_the_mouse_steps(qtbot: QtBot, window: MainWindow) -> None:
    context = context_of(window)
    here = context.cursor
    back = next(b for b in window.findChildren(QPushButton) if b.accessibleName() == "Back (Left)")
    qtbot.mouseClick(back, Qt.MouseButton.LeftButton, pos=QPoint(8, 8))
    assert context.cursor != here


@pytest.mark.parametrize("extra", [(), ("--projector",), ("--theme", "contrast")])
def test_main_renders_a_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: tuple[str, ...]
) -> None:
    target = tmp_path / "out.png"
    argv = ["stories", "--prompt", STORY, "--tokens", "4", "--seed", "41", "--at", "2"]
    assert main([*argv, *extra, "--size", "1280x800", "--snapshot", str(target)]) == 0
    image = QImage(str(target))
    assert (image.width(), image.height()) == (1280, 800)
    colours = {image.pixel(x, y) for x in range(0, 1280, 7) for y in range(0, 800, 7)}
    assert len(colours) > 50
    assert str(target) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["tiny", "--prompt", "The dog"], "dog"),
        (["tiny", "--tokens", "2", "--at", "7"], "steps 0 to 1"),
        (["tiny", "--at", "0:blocks.9.attn.pattern"], "blocks.9"),
        (["tiny", "--context", "9"], "9"),
        (["no-such-model"], "no-such-model"),
    ],
)
def test_a_snapshot_of_bad_input_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    target = tmp_path / "out.png"
    assert main([*argv, "--snapshot", str(target)]) == 2
    assert words in capsys.readouterr().err
    assert not target.exists()


def test_another_model_is_run_at_once_with_a_prompt_that_it_can_read(
    window: MainWindow,
) -> None:
    assert window.workspace is not None
    context = context_of(window)
    window.top_bar.model_chosen.emit("tiny")
    settle(context)
    assert context.model is not None
    assert context.model.name == "tiny"
    assert context.prompt == "The cat" == window.top_bar.prompt.text()
    assert context.trace is not None
    assert context.trace.token_ids == (0, 1)
    window.top_bar.model_chosen.emit("no-such-model")
    settle(context)
    assert context.trace.token_ids == (0, 1)
    window.top_bar.model_chosen.emit("stories")
    settle(context)
    assert context.model.name == "stories"
    assert context.trace.token_ids == context.prompt_ids


def test_a_refused_prompt_can_be_mended_where_it_stands(qtbot: QtBot, window: MainWindow) -> None:
    context, bar = context_of(window), window.top_bar
    window.top_bar.model_chosen.emit("tiny")
    settle(context)
    press(qtbot, window, Key.Key_P, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClicks(bar.prompt, "The dog")
    qtbot.keyClick(bar.prompt, Key.Key_Return)
    assert "dog" in bar.notice
    assert bar.prompt.hasFocus()
    qtbot.keyClicks(bar.prompt, "The cat sat")
    qtbot.keyClick(bar.prompt, Key.Key_Return)
    settle(context)
    assert bar.notice == ""
    assert context.prompt_ids == (0, 1, 2)
