"""Breakpoints as a person sets and uses them: list, dialog, tree, cells, keys, and running."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QLineEdit, QSpinBox, QWidget
from pytestqt.qtbot import QtBot

from decoder_gui.commands import stops as stops_module
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor, first, last
from decoder_gui.debugger.session import Session
from decoder_gui.debugger.stopping import run_to
from decoder_gui.debugger.stopping.rules import Side, all_rules
from decoder_gui.debugger.stopping.rules.attention import AboveDiagonal, RowSum
from decoder_gui.debugger.stopping.rules.cache import CacheShare
from decoder_gui.debugger.stopping.rules.places import AtEvent, OnOperation, OnPosition, OnStep
from decoder_gui.debugger.stopping.rules.sampling import Entropy
from decoder_gui.debugger.stopping.rules.values import CellBeyond, CellCrosses, NotFinite
from decoder_gui.debugger.stopping.spots import Spot
from decoder_gui.main_window import MainWindow
from decoder_gui.panels.find.breakpoints import BreakpointsPanel
from decoder_gui.panels.forward_pass import ForwardPassPanel
from decoder_gui.panels.values import ValuesPanel
from decoder_gui.theme.style import Style
from decoder_gui.view import View
from decoder_gui.waiting import wait_until
from decoder_gui.widgets.breakpoint_dialog import BreakpointDialog
from decoder_gui.widgets.key_guard import KeyGuard
from tests.debugger.recorded import held
from tests.gui.conftest import STORY, settle

Key = Qt.Key


@pytest.fixture
def panel(stories_context: AppContext, qtbot: QtBot) -> BreakpointsPanel:
    made = BreakpointsPanel(stories_context)
    qtbot.addWidget(made)
    made.resize(360, 500)
    made.show()
    qtbot.waitExposed(made)
    return made


def notices(context: AppContext) -> list[str]:
    heard: list[str] = []
    context.notice.connect(heard.append)
    return heard


# ---- the list


def test_an_empty_panel_says_how_to_set_one(panel: BreakpointsPanel) -> None:
    assert panel.empty.isVisible()
    assert "Ctrl+B" in panel.empty.text()
    assert not panel.edit_button.isEnabled()
    assert not panel.remove_button.isEnabled()


def test_what_is_set_is_listed_and_switched_by_space(panel: BreakpointsPanel) -> None:
    stops = panel.context.stops
    stops.add(NotFinite())
    stops.add(CacheShare(75.0))
    assert panel.shown_rows() == [
        ("NaN or infinity appears", True),
        ("The cache is fuller than 75%", True),
    ]
    panel.list.setFocus()
    QTest.keyClick(panel.list, Key.Key_Down)
    QTest.keyClick(panel.list, Key.Key_Space)
    assert [item.on for item in stops.items] == [True, False]
    assert panel.shown_rows()[1] == ("The cache is fuller than 75%", False)
    QTest.keyClick(panel.list, Key.Key_Space)
    assert [item.on for item in stops.items] == [True, True]


def test_a_click_on_the_box_switches_it(panel: BreakpointsPanel) -> None:
    panel.context.stops.add(NotFinite())
    rect = panel.list.visualItemRect(panel.list.item(0))
    QTest.mouseClick(
        panel.list.viewport(),
        Qt.MouseButton.LeftButton,
        pos=QPoint(rect.left() + 10, rect.center().y()),
    )
    assert [item.on for item in panel.context.stops.items] == [False]


def test_delete_removes_the_chosen_one(panel: BreakpointsPanel) -> None:
    stops = panel.context.stops
    for rule in (NotFinite(), RowSum(), CacheShare(75.0)):
        stops.add(rule)
    panel.list.setFocus()
    QTest.keyClick(panel.list, Key.Key_Down)
    QTest.keyClick(panel.list, Key.Key_Delete)
    assert [item.rule for item in stops.items] == [NotFinite(), CacheShare(75.0)]
    panel.remove_button.click()
    assert [item.rule for item in stops.items] == [NotFinite()]


def test_enter_edits_in_place(panel: BreakpointsPanel) -> None:
    stops = panel.context.stops
    stops.add(Entropy(Side.ABOVE, 2.0))
    panel.list.setFocus()
    QTest.keyClick(panel.list, Key.Key_Return)
    dialog = panel.dialog
    assert dialog is not None
    assert dialog.kinds.currentText() == Entropy.title
    value = dialog.field("value")
    assert isinstance(value, QLineEdit)
    assert value.text() == "2"
    value.setText("1.5")
    dialog.accept()
    (item,) = stops.items
    assert (item.number, item.rule) == (1, Entropy(Side.ABOVE, 1.5))
    assert panel.shown_rows() == [("Entropy above 1.5 nats", True)]


def test_the_one_that_stopped_is_marked_and_the_reason_stands_above(
    panel: BreakpointsPanel,
) -> None:
    context = panel.context
    context.stops.add(OnOperation("blocks.1.attn.pattern"))
    context.stops.add(NotFinite())
    context.go_first()
    panel.run_button.click()
    settle(context)
    assert context.trace is not None
    assert context.cursor == Cursor(0, context.trace.operation_index("blocks.1.attn.pattern"))
    assert panel.reason.text() == (
        "Stopped at step 0, blocks.1.attn.pattern: breakpoint on blocks.1.attn.pattern in every "
        "step."
    )
    assert [row[0].startswith("▶") for row in panel.shown_rows()] == [True, False]
    panel.run_button.click()
    settle(context)
    panel.back_button.click()
    settle(context)
    assert context.cursor.step == 0


def test_a_low_panel_keeps_the_list_and_the_reason_in_one_line(panel: BreakpointsPanel) -> None:
    context = panel.context
    context.stops.add(OnStep(2))
    context.go_first()
    context.run()
    settle(context)
    assert panel.reason.isVisible()
    assert panel.editing.isVisible()
    panel.resize(360, 150)
    QApplication.processEvents()
    assert not panel.reason.isVisible()
    assert not panel.editing.isVisible()
    assert panel.brief.isVisible()
    assert panel.brief.text() == panel.brief.toolTip() == panel.reason.text()
    assert panel.list.height() > 50
    assert panel.run_button.height() >= panel.run_button.sizeHint().height()


def test_a_low_panel_has_the_rest_in_a_menu(panel: BreakpointsPanel) -> None:
    stops = panel.context.stops
    assert panel.more_button.isHidden()
    panel.resize(420, 150)
    assert panel.more_button.isVisible()
    QTest.keyClick(panel.more_button, Key.Key_Space)
    assert panel.menu.isVisible()
    assert not panel.remove_action.isEnabled()
    assert panel.limit_action.text() == "At most 256 tokens…"
    panel.menu.close()
    stops.add(OnStep(1))
    QTest.keyClick(panel.more_button, Key.Key_Space)
    panel.limit_action.trigger()
    assert panel.limit_dialog is not None
    panel.limit_dialog.setIntValue(7)
    panel.limit_dialog.accept()
    assert stops.limit == 7
    assert panel.limit.value() == 7
    panel.remove_action.trigger()
    assert not stops.items.items
    panel.menu.close()


def test_enter_chooses_in_the_list_of_kinds_and_the_fields_have_their_height(
    qapp: QApplication, qtbot: QtBot
) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    guard = KeyGuard(qapp, parent)
    dialog = BreakpointDialog(Style())
    qtbot.addWidget(dialog)
    dialog.show()
    dialog.kinds.setFocus()
    dialog.kinds.showPopup()
    before, view = dialog.kinds.currentIndex(), dialog.kinds.view()
    qtbot.keyClick(view, Qt.Key.Key_Down)
    qtbot.keyClick(view, Qt.Key.Key_Return)
    assert dialog.kinds.currentIndex() == before + 1
    assert not view.isVisible()
    for index in range(dialog.kinds.count()):
        dialog.kinds.setCurrentIndex(index)
        QApplication.processEvents()
        for field in dialog.findChildren(QLineEdit):
            if field.isVisible() and field.objectName():
                assert field.height() >= field.sizeHint().height(), dialog.kinds.currentText()
    guard.deleteLater()


def test_the_limit_is_set_in_the_panel(panel: BreakpointsPanel) -> None:
    panel.limit.setValue(3)
    assert panel.context.stops.limit == 3
    context = panel.context
    context.go_last()
    assert context.trace is not None
    steps = len(context.trace.steps)
    context.run()
    settle(context)
    assert len(context.trace.steps) == steps + 3
    assert context.cursor == last(context.trace)
    assert panel.reason.text() == "No breakpoint was reached in 3 tokens, the limit of a run."


# ---- the dialog


def dialog_for(qtbot: QtBot, **given: object) -> BreakpointDialog:
    dialog = BreakpointDialog(Style(), **given)  # type: ignore[arg-type]
    qtbot.addWidget(dialog)
    return dialog


@pytest.mark.parametrize("kind", all_rules(), ids=lambda kind: kind.kind)
def test_every_kind_can_be_made_as_it_is_suggested(qtbot: QtBot, kind: type[NotFinite]) -> None:
    dialog = dialog_for(qtbot)
    dialog.kinds.setCurrentIndex(all_rules().index(kind))
    assert dialog.help.text() == kind.help
    dialog.accept()
    assert type(dialog.rule) is kind
    assert dialog.result() == dialog.DialogCode.Accepted


def test_what_cannot_be_is_said_and_the_dialog_stays(qtbot: QtBot) -> None:
    dialog = dialog_for(qtbot, rule=Entropy(Side.BELOW, 1.0))
    dialog.open()
    side, value = dialog.field("side"), dialog.field("value")
    assert isinstance(side, QComboBox)
    assert isinstance(value, QLineEdit)
    assert side.currentText() == "below"
    for text, words in (("much", "must be a number, not 'much'"), ("-1", "at least 0"), ("", "")):
        value.setText(text)
        dialog.accept()
        assert dialog.isVisible()
        assert words in dialog.problem.text()
        assert dialog.problem.text().endswith(".")
    value.setText("0.25")
    dialog.accept()
    assert not dialog.isVisible()
    assert dialog.rule == Entropy(Side.BELOW, 0.25)


def test_a_place_is_taken_along_to_another_kind(qtbot: QtBot) -> None:
    spot = Spot("blocks.1.attn.pattern", head=2, index=5)
    dialog = dialog_for(qtbot, rule=CellCrosses(spot, 0.5))
    position = dialog.field("position")
    assert isinstance(position, QSpinBox)
    assert position.text() == "newest of each step"
    position.setValue(7)
    dialog.accept()
    assert "computed once" in dialog.problem.text()
    dialog.kinds.setCurrentIndex(all_rules().index(CellBeyond))
    dialog.accept()
    assert dialog.rule == CellBeyond(
        Spot("blocks.1.attn.pattern", head=2, position=7, index=5), Side.ABOVE, 0.5
    )


# ---- tree and cells


def test_the_tree_sets_and_shows_stops(stories_context: AppContext, qtbot: QtBot) -> None:
    context = stories_context
    panel = ForwardPassPanel(context)
    qtbot.addWidget(panel)
    panel.resize(300, 700)
    panel.show()
    qtbot.waitExposed(panel)
    assert context.trace is not None
    assert context.cursor is not None
    softmax = context.trace.operation_index("blocks.3.attn.pattern")
    context.seek(Cursor(2, softmax))
    tree = panel.tree
    tree.setFocus()
    QTest.keyClick(tree, Key.Key_B)
    assert [item.rule for item in context.stops.items] == [OnOperation("blocks.3.attn.pattern")]
    (marked,) = [row for row in tree.shown_rows() if row.stop]
    assert (marked.label, marked.stop) == ("Softmax", "in every step")
    assert "runs stop here in every step" in marked.words
    QTest.keyClick(tree, Key.Key_B)
    assert not context.stops.items.items
    QTest.keyClick(tree, Key.Key_B, Qt.KeyboardModifier.ShiftModifier)
    assert [item.rule for item in context.stops.items] == [AtEvent(2, "blocks.3.attn.pattern")]
    assert [row.stop for row in tree.shown_rows() if row.stop] == ["in this step"]
    context.seek(Cursor(3, softmax))
    assert not [row for row in tree.shown_rows() if row.stop]
    context.seek(Cursor(2, 0))  # another block is open: the closed one carries the mark
    assert [row.label for row in tree.shown_rows() if row.stop] == ["Block 3"]


def test_the_tree_s_menu_does_the_same(stories_context: AppContext, qtbot: QtBot) -> None:
    context = stories_context
    panel = ForwardPassPanel(context)
    qtbot.addWidget(panel)
    panel.resize(300, 700)
    panel.show()
    qtbot.waitExposed(panel)
    rows = panel.tree.shown_rows()
    block = next(i for i, row in enumerate(rows) if row.opened is not None)
    assert panel.tree.build_menu(block) is None
    menu = panel.tree.build_menu(0)
    assert menu is not None
    texts = [action.text().split("\t")[0] for action in menu.actions()]
    assert texts == [
        "Stop at this operation in every step",
        "Stop at this operation in this step",
    ]
    menu.actions()[0].trigger()
    menu.deleteLater()
    assert [item.rule for item in context.stops.items] == [OnOperation("embed")]
    menu = panel.tree.build_menu(0)
    assert menu is not None
    assert menu.actions()[0].isChecked()
    menu.deleteLater()


def test_a_dot_is_drawn_where_runs_stop(stories_context: AppContext, qtbot: QtBot) -> None:
    context = stories_context
    panel = ForwardPassPanel(context)
    qtbot.addWidget(panel)
    panel.resize(300, 700)
    panel.show()
    qtbot.waitExposed(panel)
    context.go_first()
    tree = panel.tree
    plain = tree.viewport().grab().toImage()
    context.stops.add(OnOperation("embed"))
    dotted = tree.viewport().grab().toImage()
    spot = tree.row_rect(0)
    where = [
        (x, y)
        for x in range(spot.left(), spot.left() + 8)
        for y in range(spot.top(), spot.bottom())
        if plain.pixel(x, y) != dotted.pixel(x, y)
    ]
    assert where
    x, y = where[len(where) // 2]
    assert dotted.pixelColor(x, y).red() > 200


def test_a_cell_of_values_asks_for_a_value(stories_context: AppContext, qtbot: QtBot) -> None:
    context = stories_context
    assert context.trace is not None
    panel = ValuesPanel(context)
    qtbot.addWidget(panel)
    panel.resize(900, 300)
    panel.show()
    qtbot.waitExposed(panel)
    context.seek(Cursor(3, context.trace.operation_index("blocks.1.attn.pattern")))
    context.select(head=2, query=None, key=4)
    context.select(cell=(panel.view.row, 4))  # type: ignore[union-attr]
    panel.grid.setFocus()
    QTest.keyClick(panel.grid, Key.Key_B)
    dialog = panel.cells.dialog
    assert dialog is not None
    assert isinstance(dialog.rule, CellCrosses)
    spot = Spot("blocks.1.attn.pattern", head=2, index=4)
    assert dialog.rule.spot == spot
    value = float(held(context.trace, 3, spot.array)[0, 2, -1, 4])
    assert dialog.rule.value == pytest.approx(value, rel=1e-3)
    field = dialog.field("value")
    assert isinstance(field, QLineEdit)
    others = [float(held(context.trace, s, spot.array)[0, 2, -1, 4]) for s in range(6)]
    level = float(np.median(others))
    field.setText(f"{level:.6f}")
    dialog.accept()
    (item,) = context.stops.items
    assert item.rule == CellCrosses(spot, round(level, 6))
    context.go_first()
    context.run()
    settle(context)
    assert context.cursor is not None
    step = context.cursor.step
    assert (others[step] < level) != (others[step - 1] < level)


def test_an_old_position_is_computed_once_and_asked_for_above_or_below(
    stories_context: AppContext, qtbot: QtBot
) -> None:
    context = stories_context
    assert context.trace is not None
    panel = ValuesPanel(context)
    qtbot.addWidget(panel)
    panel.show()
    qtbot.waitExposed(panel)
    context.seek(Cursor(0, context.trace.operation_index("blocks.0.mlp.post")))
    context.select(query=2)
    panel.cells.stop(2, 7)
    dialog = panel.cells.dialog
    assert dialog is not None
    assert isinstance(dialog.rule, CellBeyond)
    assert dialog.rule.spot == Spot("blocks.0.mlp.post", position=2, index=7)
    dialog.reject()
    assert not context.stops.items.items


# ---- running


def test_a_nan_stops_at_the_operation_that_makes_it(stories_context: AppContext) -> None:
    context = stories_context
    heard = notices(context)
    context.set_fault("nan-weight", True)
    settle(context)
    context.stops.add(NotFinite())
    context.go_first()
    context.run()
    settle(context)
    assert context.cursor is not None
    assert context.trace is not None
    assert context.trace.operations[context.cursor.operation].name == "blocks.1.mlp.pre"
    assert heard[-1].startswith("Stopped at step 0, blocks.1.mlp.pre: NaN in blocks.1.mlp.pre at ")


def test_without_a_mask_a_weight_lies_above_the_diagonal(stories_context: AppContext) -> None:
    context = stories_context
    context.set_fault("no-mask", True)
    settle(context)
    context.stops.add(AboveDiagonal())
    context.go_first()
    context.run()
    settle(context)
    halt = context.stops.halt
    assert halt is not None
    assert context.trace is not None
    assert halt.cursor == Cursor(0, context.trace.operation_index("blocks.0.attn.pattern"))
    assert "attends to the later key" in halt.words


def test_running_past_the_end_decodes_on_to_a_stop(stories_context: AppContext) -> None:
    context = stories_context
    assert context.trace is not None
    recorded = len(context.trace.steps)
    context.stops.add(OnStep(recorded + 3))
    context.go_first()
    context.run()
    settle(context)
    assert context.cursor == Cursor(recorded + 3, 0)
    assert len(context.trace.steps) == recorded + 4
    assert context.stops.halt is not None
    assert context.stops.halt.decoded == 4
    assert not context.stops.running
    context.run(-1)
    settle(context)
    assert context.cursor == first(context.trace)
    context.run()
    settle(context)
    assert context.cursor == Cursor(recorded + 3, 0)


def test_tokens_decoded_by_running_are_those_of_stepping(
    make_context: Callable[..., AppContext],
) -> None:
    running, stepping = (make_context("stories", STORY) for _ in range(2))
    running.stops.add(OnStep(4))
    running.go_last()
    running.run()
    settle(running)
    for _ in range(4):
        stepping.go_last()
        stepping.take_landing()
        settle(stepping)
    assert running.trace is not None
    assert stepping.trace is not None
    assert running.trace.token_ids == stepping.trace.token_ids


def test_a_run_to_a_full_cache_says_so(make_context: Callable[..., AppContext]) -> None:
    context = make_context("tiny", "The cat", temperature=0.0)
    context.stops.add(NotFinite())
    context.run()
    settle(context)
    assert context.exhausted
    assert context.at_end
    assert context.stops.halt is not None
    assert "the key-value cache is full" in context.stops.halt.words
    assert context.stops.halt.decoded == 2


def test_a_run_can_be_cancelled_and_keeps_complete_steps(stories_context: AppContext) -> None:
    context = stories_context
    assert context.trace is not None
    here, recorded = context.cursor, len(context.trace.steps)
    context.stops.add(CacheShare(100.0))  # never
    context.stops.set_limit(1000)
    context.run()
    assert context.stops.running
    assert wait_until(lambda: context.trace is not None and len(context.trace.steps) > recorded + 2)
    context.cancel()
    settle(context)
    assert not context.stops.running
    assert context.trace.complete(len(context.trace.steps) - 1)
    assert context.trace.positions < context.capacity
    assert context.cursor == here
    assert context.stops.halt is not None
    assert context.stops.halt.words == stops_module.LEFT
    context.move(1)
    settle(context)  # the session goes on from there
    assert context.trace.complete(len(context.trace.steps) - 1)


@pytest.mark.parametrize("direction", [1, -1])
def test_a_long_search_goes_on_in_the_worker_and_ends_at_the_same_place(
    stories_context: AppContext, monkeypatch: pytest.MonkeyPatch, direction: int
) -> None:
    context = stories_context
    assert context.trace is not None
    context.stops.add(OnPosition(14))
    (context.go_first if direction > 0 else context.go_last)()
    context.run(direction)
    settle(context)
    found = context.cursor
    monkeypatch.setattr(stops_module, "SLICE", 0.0)
    (context.go_first if direction > 0 else context.go_last)()
    context.run(direction)
    assert context.stops.running
    assert context.cursor != found
    settle(context)
    assert context.cursor == found
    assert context.stops.halt is not None
    assert context.stops.halt.reasons


def test_what_was_not_kept_is_recomputed_by_the_worker(
    make_context: Callable[..., AppContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_context("stories", STORY, tokens=3)
    kept = Session.__init__.__kwdefaults__ or {}
    monkeypatch.setattr(Session.__init__, "__kwdefaults__", {**kept, "budget": 0})
    lean = make_context("stories", STORY, tokens=3)
    assert lean.trace is not None
    assert lean.trace.array(1, "blocks.2.mlp.post") is None
    spot = Spot("blocks.2.mlp.post", index=5)
    for context in (whole, lean):
        assert context.trace is not None
        assert whole.trace is not None
        values = [float(held(whole.trace, s, spot.array)[0, -1, 5]) for s in range(3)]
        context.stops.add(CellBeyond(spot, Side.ABOVE, sorted(values)[1]))
        context.go_last()
        context.run(-1)
        settle(context)
    assert whole.stops.halt is not None
    assert whole.stops.halt.reasons
    assert lean.stops.halt == whole.stops.halt
    assert lean.cursor == whole.cursor


def test_a_run_on_its_way_says_how_far_it_is(
    stories_context: AppContext, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = stories_context
    panel = BreakpointsPanel(context)
    qtbot.addWidget(panel)
    panel.show()
    qtbot.waitExposed(panel)
    monkeypatch.setattr(stops_module, "SLICE", 0.0)
    monkeypatch.setattr(run_to, "PACE", 0.0)
    said: list[str] = []
    context.changed.connect(lambda _: said.append(panel.reason.text()))
    context.go_first()
    context.stops.add(OnStep(9))
    context.run()
    assert panel.reason.text() == "Running."
    assert panel.run_button.text() == "Cancel"
    assert not panel.back_button.isEnabled()
    settle(context)
    assert "Running: step 3." in said
    assert "Running: 2 tokens decoded." in said
    assert panel.reason.text().startswith("Stopped at step 9, embed: ")
    assert panel.run_button.text() == "Run ▶"


def test_a_step_interrupts_a_search_in_the_worker(
    stories_context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = stories_context
    monkeypatch.setattr(stops_module, "SLICE", 0.0)
    context.stops.add(NotFinite())
    context.run(-1)
    context.prefill("A dog.")
    settle(context)
    assert not context.stops.running
    assert context.trace is not None
    assert len(context.trace.steps) == 1


def test_why_a_run_stopped_is_forgotten_with_its_step(panel: BreakpointsPanel) -> None:
    context = panel.context
    context.stops.add(OnStep(4))
    context.go_first()
    context.run()
    settle(context)
    assert panel.reason.isVisible()
    context.go_last()
    context.take_landing()
    settle(context)
    assert panel.reason.text().startswith("Stopped at step 4, embed: ")  # it is there still
    context.prefill("A dog.")
    settle(context)
    assert context.stops.halt is None
    assert not panel.reason.isVisible()


def test_breakpoints_outlive_prompts_and_events_do_not_outlive_the_model(
    stories_context: AppContext,
) -> None:
    context = stories_context
    context.stops.add(NotFinite())
    context.toggle_breakpoint()
    context.prefill("A dog.")
    settle(context)
    assert len(context.stops.items) == 2
    context.open_model("tiny")
    settle(context)
    assert [item.rule for item in context.stops.items] == [NotFinite()]


def test_what_is_saved_is_read_again(stories_context: AppContext) -> None:
    stops = stories_context.stops
    stops.add(NotFinite())
    stops.add(CellCrosses(Spot("logits", index=3), 1.5))
    stops.switch(1, False)
    stops.set_limit(9)
    saved = stops.save()
    stops.clear()
    stops.set_limit(256)
    assert stops.load(saved) == ()
    assert [(item.rule, item.on) for item in stops.items] == [
        (NotFinite(), False),
        (CellCrosses(Spot("logits", index=3), 1.5), True),
    ]
    assert stops.limit == 9
    assert stops.load({"breakpoints": [{"kind": "?"}], "limit": "many"})[0].startswith("Breakpoint")
    assert stops.load(None)


# ---- the whole window


@pytest.fixture
def window(qtbot: QtBot, make_context: Callable[..., AppContext]) -> Iterator[MainWindow]:
    context = make_context("stories", STORY, tokens=6)
    made = MainWindow(context.style)
    made.resize(QSize(1440, 900))
    made.show()
    made.furnish(context)
    qtbot.waitExposed(made)
    yield made
    made.close()
    made.deleteLater()
    QApplication.sendPostedEvents(None, 0)
    QApplication.processEvents()


def test_a_condition_is_set_and_reached_by_keys_alone(qtbot: QtBot, window: MainWindow) -> None:
    assert window.workspace is not None
    context = window.workspace.context
    window.workspace.show_view(View.FIND)
    window.activateWindow()
    qtbot.keyClick(window, Key.Key_Home)
    qtbot.keyClick(window, Key.Key_B, Qt.KeyboardModifier.ControlModifier)
    (dialog,) = window.findChildren(BreakpointDialog)
    assert dialog.kinds.currentText() == OnOperation.title
    field = dialog.field("pattern")
    assert isinstance(field, QLineEdit)
    assert field.text() == "embed"
    field.clear()
    qtbot.keyClicks(field, "blocks.2.*pattern")
    qtbot.keyClick(field, Key.Key_Return)
    assert [item.rule for item in context.stops.items] == [OnOperation("blocks.2.*pattern")]
    qtbot.keyClick(window, Key.Key_F5)
    settle(context)
    assert context.trace is not None
    at = context.trace.operation_index("blocks.2.attn.pattern")
    assert context.cursor == Cursor(0, at)
    qtbot.keyClick(window, Key.Key_F5)
    settle(context)
    assert context.cursor == Cursor(1, at)
    qtbot.keyClick(window, Key.Key_F5, Qt.KeyboardModifier.ShiftModifier)
    settle(context)
    assert context.cursor == Cursor(0, at)
    panel = window.workspace.panels["breakpoints"]
    assert isinstance(panel, BreakpointsPanel)
    assert panel.reason.text().startswith("Stopped at step 0, blocks.2.attn.pattern: ")
    assert window.workspace.top_bar.notice == panel.reason.text()


def test_b_stops_at_the_operation_in_hand(qtbot: QtBot, window: MainWindow) -> None:
    assert window.workspace is not None
    context = window.workspace.context
    window.activateWindow()
    qtbot.keyClick(window, Key.Key_Home)
    qtbot.keyClick(window, Key.Key_B)
    assert [item.rule for item in context.stops.items] == [OnOperation("embed")]
    qtbot.keyClick(window, Key.Key_F5)
    settle(context)
    assert context.cursor == Cursor(1, 0)
    qtbot.keyClick(window, Key.Key_B)
    assert not context.stops.items.items


def test_escape_leaves_a_run(qtbot: QtBot, window: MainWindow) -> None:
    assert window.workspace is not None
    context = window.workspace.context
    context.stops.add(CacheShare(100.0))
    context.stops.set_limit(1000)
    window.activateWindow()
    qtbot.keyClick(window, Key.Key_F5)
    assert wait_until(lambda: context.busy is not None)
    assert context.busy is not None
    assert context.busy.text == "Running to a breakpoint"
    qtbot.keyClick(window, Key.Key_Escape)
    settle(context)
    assert context.trace is not None
    assert context.trace.positions < context.capacity
