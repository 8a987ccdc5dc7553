"""The top bar, the docks' titles, and the keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction, QImage, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QMainWindow,
    QMenu,
    QPushButton,
    QSlider,
    QVBoxLayout,
    QWidget,
)
from pytestqt.qtbot import QtBot

from decoder_gui.shortcuts import PANELS, SHORTCUTS, key_text, listed
from decoder_gui.theme.icons import Glyph, draw_glyph, glyph_path
from decoder_gui.theme.palette import LIGHT
from decoder_gui.theme.style import Style
from decoder_gui.theme.stylesheet import apply_style
from decoder_gui.view import View
from decoder_gui.widgets.dock_title import DockTitle
from decoder_gui.widgets.icon_button import IconButton
from decoder_gui.widgets.key_guard import KeyGuard
from decoder_gui.widgets.shortcuts_dialog import ShortcutsDialog, shared_out
from decoder_gui.widgets.top_bar import ModelChoice, TopBar

CHOICES = (
    ModelChoice("tiny", "tiny", "four words"),
    ModelChoice("stories", "stories", "trained", current=True),
)


@pytest.fixture
def bar(qapp: QApplication, qtbot: QtBot) -> Iterator[TopBar]:
    apply_style(qapp, Style())
    window = QWidget()
    qtbot.addWidget(window)
    bar = TopBar(Style())
    rows = QVBoxLayout(window)
    rows.setContentsMargins(0, 0, 0, 0)
    rows.addWidget(bar)
    rows.addStretch(1)
    bar.set_model("stories", "GPT-2 · 4 layers · 4 heads", CHOICES)
    bar.set_capacity(64, 128)
    window.resize(1440, 200)
    window.show()
    QTest.qWaitForWindowExposed(window)
    yield bar
    window.hide()


def test_sessions_and_captures_are_in_the_menu_of_models(bar: TopBar) -> None:
    called: list[str] = []
    action = QAction("Save the session", bar)
    action.setShortcut(QKeySequence("Ctrl+S"))
    action.triggered.connect(lambda: called.append("saved"))
    bar.set_file_actions([action])
    bar.set_model("other", "", CHOICES)  # the menu is made anew
    assert [each for each in bar.model_menu.actions() if each is action] == [action]
    bar.model_menu.actions()[-1].trigger()
    assert called == ["saved"]


def test_a_long_name_leaves_room_for_everything_else(bar: TopBar) -> None:
    name = "<b>mine</b>\n" * 60
    bar.set_model(name, "capture · 3 layers · 4 heads", CHOICES)
    assert "…" in bar.model.shown_text()
    assert bar.window().minimumSizeHint().width() < 1280
    assert "&lt;b&gt;mine&lt;/b&gt;" in bar.model.toolTip()


def test_the_model_is_named_and_others_are_offered(bar: TopBar, qtbot: QtBot) -> None:
    assert bar.model.shown_text() == "stories GPT-2 · 4 layers · 4 heads"
    assert bar.model.accessibleName() == "Model: stories, GPT-2 · 4 layers · 4 heads"
    actions = bar.model_menu.actions()
    assert [action.isChecked() for action in actions[:2]] == [False, True]
    with qtbot.waitSignal(bar.model_chosen) as chosen:
        actions[0].trigger()
    assert chosen.args == ["tiny"]
    for action, words, signal in (
        (actions[-3], "Open a file…", bar.file_requested),
        (actions[-2], "Open a folder…", bar.folder_requested),
        (actions[-1], "Open by name from a model hub…", bar.name_requested),
    ):
        assert action.text() == words
        with qtbot.waitSignal(signal):
            action.trigger()


def test_models_that_were_opened_before_are_offered_and_missing_ones_marked(
    bar: TopBar, qtbot: QtBot
) -> None:
    long = "/models/" + "deeper/" * 40 + "a & b.gguf"
    recent = (
        ModelChoice(long, "a & b.gguf", f"in {long}", current=True),
        ModelChoice("/gone/model", "model", "not there any more, was in /gone", missing=True),
    )
    bar.set_model("a & b", "llama", CHOICES, recent)
    actions = {action.text().split(":")[0]: action for action in bar.model_menu.actions()}
    assert not actions["Opened before"].isEnabled()
    found, gone = actions["a && b.gguf"], actions["model"]
    assert found.isChecked()
    assert found.isEnabled()
    assert "…" in found.text()
    assert found.toolTip() == f"a & b.gguf: in {long}"
    assert not gone.isEnabled()
    assert "not there any more" in gone.text()
    with qtbot.waitSignal(bar.model_chosen) as chosen:
        found.trigger()
    assert chosen.args == [long]


def test_enter_runs_the_prompt_and_gives_the_keys_back(bar: TopBar, qtbot: QtBot) -> None:
    bar.focus_prompt()
    assert bar.prompt.hasFocus()
    QTest.keyClicks(bar.prompt, "Once upon a time")
    with qtbot.waitSignal(bar.prefill_requested) as asked:
        QTest.keyClick(bar.prompt, Qt.Key.Key_Return)
    assert asked.args == ["Once upon a time"]
    assert not bar.prompt.hasFocus()
    with qtbot.waitSignal(bar.prefill_requested) as asked:
        QTest.mouseClick(bar.prefill, Qt.MouseButton.LeftButton)
    assert asked.args == ["Once upon a time"]


def test_escape_leaves_the_prompt(bar: TopBar) -> None:
    bar.focus_prompt()
    QTest.keyClick(bar.prompt, Qt.Key.Key_Escape)
    assert not bar.prompt.hasFocus()


def test_a_prompt_keeps_its_line_breaks(bar: TopBar, qtbot: QtBot) -> None:
    bar.set_prompt("one\ntwo\tthree")
    with qtbot.waitSignal(bar.prefill_requested) as asked:
        bar.prefill.click()
    assert asked.args == ["one\ntwo\tthree"]


def test_a_context_within_the_range_is_asked_for_once(bar: TopBar) -> None:
    asked: list[int] = []
    bar.capacity_chosen.connect(asked.append)
    bar.context.setFocus()
    bar.context.setText("96")
    QTest.keyClick(bar.context, Qt.Key.Key_Return)
    assert asked == [96]
    assert bar.context.property("state") == ""


@pytest.mark.parametrize("text", ["0", "129", "-1", "1e2", "", "many", "²", "64.0", "NaN"])
def test_a_context_outside_the_range_is_refused_with_the_range(bar: TopBar, text: str) -> None:
    asked: list[int] = []
    bar.capacity_chosen.connect(asked.append)
    bar.context.setFocus()
    bar.context.setText(text)
    QTest.keyClick(bar.context, Qt.Key.Key_Return)
    assert asked == []
    assert bar.context.property("state") == "bad"
    assert bar.notice == (
        f"The context of this model is a whole number from 1 to 128 positions; “{text}” is not."
    )
    bar.set_capacity(64, 128)  # nothing new: what is being typed stays
    assert bar.context.text() == text
    QTest.keyClick(bar.context, Qt.Key.Key_Escape)
    assert bar.context.text() == "64"
    assert bar.context.property("state") == ""
    assert asked == []


def test_projector_mode_leaves_out_what_an_audience_does_not_need(
    bar: TopBar, qtbot: QtBot
) -> None:
    with qtbot.waitSignal(bar.projector_toggled) as toggled:
        bar.projector.click()
    assert toggled.args == [True]
    bar.set_projector(True)
    assert not bar.context.isVisible()
    assert not bar.view.isVisible()
    assert bar.prompt.isVisible()
    bar.set_projector(False)
    assert bar.context.isVisible()
    assert not bar.projector.isChecked()


@pytest.mark.qt_log_ignore("This plugin does not support")  # windows without a screen
def test_the_view_menu_opens(bar: TopBar) -> None:
    menu = QMenu(bar)
    menu.addAction("Theme")
    bar.set_view_menu(menu)
    bar.view.click()
    assert menu.isVisible()
    menu.close()


def test_a_notice_goes_away_by_itself_or_by_a_click(bar: TopBar, qtbot: QtBot) -> None:
    bar.show_notice("The cache is full.", 30)
    assert bar.notice == "The cache is full."
    qtbot.waitUntil(lambda: bar.notice == "")
    bar.show_notice("The prompt is empty: at least one token is needed. " * 4, 0)
    notice = bar._notice
    assert notice is not None
    assert notice.width() <= 560
    assert notice.height() >= notice.heightForWidth(notice.width())
    assert notice.geometry().right() < bar.width()
    QTest.mouseClick(notice, Qt.MouseButton.LeftButton)
    assert bar.notice == ""


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_everything_grows_and_nothing_overlaps(bar: TopBar, scale: float) -> None:
    style = Style(LIGHT, scale)
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    apply_style(application, style)
    bar.set_style(style)
    bar.window().resize(1920, 300)
    QTest.qWait(1)
    assert bar.height() == style.px(48)
    shown = [bar.model, bar.prompt, bar.context_label, bar.context, bar.prefill, bar.view]
    for one, other in zip(shown, [*shown[1:], bar.projector], strict=True):
        assert one.geometry().right() < other.geometry().left()
    for button in (bar.model, bar.prefill, bar.view, bar.projector):
        assert button.width() >= button.sizeHint().width()


# ---- titles of docks


@pytest.fixture
def title(qapp: QApplication, qtbot: QtBot) -> DockTitle:
    apply_style(qapp, Style())
    title = DockTitle(Style())
    qtbot.addWidget(title)
    title.resize(400, title.sizeHint().height())
    title.move(200, 200)  # away from the pointer, which shows the buttons as well
    title.show()
    return title


def test_a_title_says_what_the_panel_shows(title: DockTitle) -> None:
    title.set_caption("Softmax · head 1", "13 values · sum 1.000")
    assert title.shown_text() == ("Softmax · head 1", "13 values · sum 1.000")
    assert title.accessibleName() == "Softmax · head 1"
    assert title.toolTip() == ""


def test_a_narrow_title_elides_the_hint_first_and_tells_the_whole(title: DockTitle) -> None:
    title.set_caption("Softmax · head 1", "13 values · min 0.007 · max 0.347 · sum 1.000")
    title.resize(260, title.height())
    shown, hint = title.shown_text()
    assert shown == "Softmax · head 1"
    assert hint.endswith("…")
    assert "sum 1.000" in title.toolTip()
    title.resize(90, title.height())
    shown, hint = title.shown_text()
    assert shown.endswith("…")
    assert hint == ""


def test_buttons_and_double_click_ask(title: DockTitle, qtbot: QtBot) -> None:
    title.set_caption("Values")
    signals = (title.maximise_requested, title.float_requested, title.hide_requested)
    for button, signal in zip(title.buttons, signals, strict=True):
        assert "“Values”" in button.accessibleName()
        with qtbot.waitSignal(signal):
            button.click()
    with qtbot.waitSignal(title.maximise_requested):
        QTest.mouseDClick(title, Qt.MouseButton.LeftButton, pos=QPoint(40, 12))


def test_the_buttons_show_while_the_keyboard_is_on_one(title: DockTitle, qtbot: QtBot) -> None:
    title.set_caption("Values", "hint")
    painted = QImage(title.size(), QImage.Format.Format_RGB32)

    def pixels() -> list[int]:
        title.render(painted, QPoint())
        box = title.hide_button.geometry()
        return [
            painted.pixel(x, y)
            for x in range(box.left(), box.right())
            for y in range(box.top(), box.bottom())
        ]

    title.activateWindow()
    QTest.qWaitForWindowActive(title)
    title.maximise.clearFocus()
    hidden = pixels()
    assert title.shown_text() == ("Values", "hint")
    title.maximise.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.waitUntil(title.maximise.hasFocus)
    assert pixels() != hidden  # all three, not only the one with the focus
    title.maximise.clearFocus()
    assert pixels() == hidden


# ---- signs and keys


@pytest.mark.parametrize("glyph", list(Glyph))
def test_every_sign_is_drawn_within_its_square(qapp: QApplication, glyph: Glyph) -> None:
    box = glyph_path(glyph).boundingRect()
    assert box.left() >= 0
    assert box.top() >= 0
    assert box.right() <= 1
    assert box.bottom() <= 1
    button = IconButton(Style(), name=glyph.value, before=glyph)
    painted = QImage(button.sizeHint(), QImage.Format.Format_RGB32)
    button.resize(button.sizeHint())
    painted.fill(0)
    button.render(painted, QPoint())
    colours = {painted.pixel(x, y) for x in range(8, 20) for y in range(4, painted.height() - 4)}
    assert len(colours) > 2
    assert callable(draw_glyph)


def test_the_table_has_every_key_that_was_promised() -> None:
    keys = {keys: shortcut.id for shortcut in SHORTCUTS for keys in shortcut.keys}
    assert len(keys) == sum(len(shortcut.keys) for shortcut in SHORTCUTS), "a key has two meanings"
    promised = {
        "Right": "step",
        "Left": "back",
        "PgDown": "step",
        "PgUp": "back",
        "Up": "coarser",
        "Down": "finer",
        "Space": "play",
        "Home": "first",
        "End": "last",
        "Ctrl+G": "go_to",
        "F9": "breakpoint",
        "F5": "run",
        "F11": "full_screen",
        "Ctrl++": "zoom_in",
        "Ctrl+-": "zoom_out",
        "Ctrl+0": "zoom_reset",
        "?": "help",
        "P": "projector",
        "Ctrl+P": "prompt",
        "Ctrl+O": "open",
        "Esc": "escape",
        "[": "previous_head",
        "]": "next_head",
        "{": "previous_layer",
        "}": "next_layer",
    } | {str(n): f"panel_{n}" for n in range(1, PANELS + 1)}
    assert {key: keys.get(key) for key in promised} == promised
    for key in keys:
        assert not QKeySequence(key).isEmpty()


def test_keys_are_written_for_people() -> None:
    assert key_text("Ctrl++") == "Ctrl + +"
    assert key_text("Ctrl+-") == "Ctrl + -"
    assert key_text("PgDown") == "Page Down"
    assert key_text("?") == "?"


def test_the_list_shows_the_whole_table(qapp: QApplication, qtbot: QtBot) -> None:
    dialog = ShortcutsDialog(Style())
    qtbot.addWidget(dialog)
    rows = dialog.shown_rows()
    assert len(rows) == len(listed())
    assert ("→  or  Page Down", "Step forward") in rows
    assert (f"1 – {PANELS}", "One panel alone, or back") in rows
    assert any(keys == f"Alt + 1 – {len(View)}" for keys, _ in rows)
    texts = {text for _, text in rows}
    for shortcut in SHORTCUTS:
        assert shortcut.id.startswith(("panel_", "view_")) or shortcut.text in texts
    dialog.show()
    QTest.keyClicks(dialog, "?")
    assert not dialog.isVisible()
    dialog.set_style(Style(LIGHT, 2.0))
    assert dialog.height() <= dialog.screen().availableSize().height()


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        ([17, 10, 7, 15], 2, (0, 0, 1, 1)),
        ([17, 10, 7, 15], 3, (0, 1, 1, 2)),
        ([1, 1, 9], 2, (0, 0, 1)),
    ],
)
def test_groups_of_keys_are_shared_out_evenly(
    rows: list[int], columns: int, expected: tuple[int, ...]
) -> None:
    assert shared_out(rows, columns) == expected


def test_the_focused_control_has_its_own_keys_before_the_window(
    qapp: QApplication, qtbot: QtBot
) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    centre = QWidget()
    window.setCentralWidget(centre)
    button, slider, field = QPushButton("b"), QSlider(Qt.Orientation.Horizontal), QLineEdit()
    rows = QVBoxLayout(centre)
    for widget in (button, slider, field):
        rows.addWidget(widget)
    fired: list[str] = []
    for key in ("Space", "Right", "PgDown"):
        action = QAction(window)
        action.setShortcut(QKeySequence(key))
        action.triggered.connect(lambda _=False, key=key: fired.append(key))
        window.addAction(action)
    pressed: list[bool] = []
    button.clicked.connect(lambda: pressed.append(True))
    guard = KeyGuard(qapp, window)
    window.show()
    window.activateWindow()
    QTest.qWaitForWindowActive(window)

    button.setFocus()
    for pressing in (Qt.Key.Key_Space, Qt.Key.Key_Return):
        QTest.keyClick(window.windowHandle(), pressing)
    assert pressed == [True, True]
    assert fired == []
    slider.setFocus()
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_Right)
    assert slider.value() == 1
    assert fired == []
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_PageDown)
    assert fired == ["PgDown"]  # a presenter's clicker steps, wherever the focus is
    centre.setFocus()
    slider.clearFocus()
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_Right)
    QTest.keyClick(window.windowHandle(), Qt.Key.Key_Space)
    assert fired == ["PgDown", "Right", "Space"]
    assert guard.parent() is window
