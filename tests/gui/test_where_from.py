"""From a number to what made it, by click and by key, and back along the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.session import Session
from decoder_gui.main_window import MainWindow
from decoder_gui.panels.values import ValuesPanel
from decoder_gui.viewdata.operands import Cell
from decoder_gui.viewdata.provenance import place_of, recorded_value
from decoder_gui.viewdata.values import ValuesView
from decoder_gui.widgets.link_flow import LinkFlow, Span
from tests.gui.conftest import settle

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def panel(qtbot: QtBot, stories_context: AppContext) -> ValuesPanel:
    return shown(qtbot, stories_context)


def shown(qtbot: QtBot, context: AppContext) -> ValuesPanel:
    panel = ValuesPanel(context)
    qtbot.addWidget(panel)
    panel.resize(780, 320)
    panel.show()
    qtbot.waitExposed(panel)
    return panel


def go(panel: ValuesPanel, step: int, operation: str, **selection: object) -> None:
    trace = panel.context.trace
    assert trace is not None
    panel.context.travel(Cursor(step, trace.operation_index(operation)), **selection)


def view_of(panel: ValuesPanel) -> ValuesView:
    assert panel.view is not None
    return panel.view


def cell_of(panel: ValuesPanel) -> Cell:
    cell = view_of(panel).cell
    assert cell is not None
    return cell


def click(flow: LinkFlow, text: str) -> Span:
    """Click the first link whose text begins so."""
    span = next(link for link in flow.links() if link.text.startswith(text))
    assert span.link is not None
    QTest.mouseClick(flow, LEFT, pos=flow.link_rect(span.link).center())
    return span


def operation_of(panel: ValuesPanel) -> str:
    moment = panel.context.moment
    assert moment is not None
    assert moment.operation is not None
    return moment.operation.name


def assert_stands_on(panel: ValuesPanel, cell: Cell, number: str) -> None:
    """The panel shows that cell, chosen, at the operation that computed it, with that number."""
    context = panel.context
    moment, trace = context.moment, context.trace
    assert moment is not None
    assert trace is not None
    assert cell_of(panel) == cell
    assert context.cursor == place_of(trace, cell)
    view = view_of(panel)
    assert view.text(view.row, view.column) == number
    assert float(number) == pytest.approx(recorded_value(moment, cell), abs=5.01e-4)


def test_a_probability_is_followed_to_a_weight_and_back(panel: ValuesPanel) -> None:
    go(panel, 4, "sample", array="final")
    start = cell_of(panel)
    assert start.array == "final"
    flow, trail = panel.arithmetic.operands, panel.arithmetic.trail
    assert not trail.shown_text()
    way = [start]
    for operand, operation in (
        ("tempered", "sample"),
        ("logits", "logits"),
        ("ln_final", "ln_final"),
        ("resid_post", "blocks.3.resid_post"),
        ("mlp.out", "blocks.3.mlp.out"),
        ("mlp.post", "blocks.3.mlp.post"),
        ("mlp.pre", "blocks.3.mlp.pre"),
        ("ln2", "blocks.3.ln2"),
        ("resid_mid", "blocks.3.resid_mid"),
        ("resid_pre", "blocks.2.resid_post"),  # a copy: the block before made it
    ):
        followed = click(flow, operand)
        assert operation_of(panel) == operation
        assert_stands_on(panel, cell_of(panel), followed.text.rpartition(" ")[2])
        way.append(cell_of(panel))
        assert trail.shown_text().count("←") == len(way) - 1
        assert panel.arithmetic.note.text() == view_of(panel).verdict
        assert (
            "within rounding" in panel.arithmetic.note.text() or "equal" in view_of(panel).verdict
        )
    assert trail.shown_text().startswith("final ")
    assert "%" in trail.shown_text().split("←")[0]
    for cell in reversed(way[:-1]):
        QTest.keyClick(panel, Qt.Key.Key_Backspace)
        assert cell_of(panel) == cell
    assert not trail.shown_text()


def test_a_stop_of_the_way_can_be_chosen(panel: ValuesPanel) -> None:
    go(panel, 3, "logits")
    first = cell_of(panel)
    click(panel.arithmetic.operands, "ln_final")
    click(panel.arithmetic.operands, "resid_post")
    click(panel.arithmetic.trail, "logit ")
    assert cell_of(panel) == first
    assert operation_of(panel) == "logits"
    assert not panel.arithmetic.trail.shown_text()


def test_operands_are_followed_by_keys_alone(qtbot: QtBot, panel: ValuesPanel) -> None:
    go(panel, 4, "blocks.1.attn.scores", query=15, key=13, head=2)
    flow = panel.arithmetic.operands
    flow.setFocus()
    qtbot.waitUntil(flow.hasFocus)
    assert flow.current is not None
    assert flow.current.text.startswith("q[")
    QTest.keyClick(flow, Qt.Key.Key_Right)
    chosen = flow.current
    assert chosen.text.startswith("k[position 13]")
    assert chosen.text in flow.accessibleDescription()
    assert "step 2" in chosen.tip  # where position 13 was decoded
    QTest.keyClick(flow, Qt.Key.Key_Return)
    cursor = panel.context.cursor
    assert cursor is not None
    assert cursor.step == 2
    assert operation_of(panel) == "blocks.1.attn.q"
    assert cell_of(panel).array == "blocks.1.attn.k"
    assert cell_of(panel).position == 13
    assert cell_of(panel).head == 2
    assert_stands_on(panel, cell_of(panel), chosen.text.rpartition(" ")[2])
    QTest.keyClick(flow, Qt.Key.Key_End)
    QTest.keyClick(panel, Qt.Key.Key_Backspace)
    assert operation_of(panel) == "blocks.1.attn.scores"
    assert (cell_of(panel).position, cell_of(panel).column) == (15, 13)


def test_the_link_that_has_the_keyboard_is_in_sight(qtbot: QtBot, panel: ValuesPanel) -> None:
    panel.resize(780, 120)
    go(panel, 4, "blocks.1.mlp.out")
    flow, view = panel.arithmetic.operands, panel.arithmetic
    flow.setFocus()
    qtbot.waitUntil(flow.hasFocus)
    for key in (Qt.Key.Key_End, Qt.Key.Key_Home, Qt.Key.Key_Left):
        QTest.keyClick(flow, key)
        assert flow.current is not None
        assert flow.current.link is not None
        rect = flow.link_rect(flow.current.link).translated(flow.mapTo(view.viewport(), QPoint()))
        assert view.viewport().rect().contains(rect.center())
    assert view.verticalScrollBar().value() > 0
    go(panel, 4, "blocks.1.mlp.pre")
    assert view.verticalScrollBar().value() == 0
    assert flow.current == flow.links()[0]


def test_operands_get_the_room_of_a_panel_that_grows(qtbot: QtBot, panel: ValuesPanel) -> None:
    panel.resize(780, 120)
    go(panel, 4, "blocks.1.mlp.post")
    go(panel, 4, "blocks.1.mlp.out")
    view = panel.arithmetic
    qtbot.waitUntil(lambda: view.verticalScrollBar().maximum() > 0)
    panel.resize(780, 600)
    qtbot.waitUntil(lambda: view.verticalScrollBar().maximum() == 0)
    assert view.height() >= view.sizeHint().height()


def test_more_terms_are_listed_when_asked_for(panel: ValuesPanel) -> None:
    go(panel, 4, "blocks.1.mlp.out")
    flow = panel.arithmetic.operands
    assert flow.shown_text().count(" × ") == 6
    click(flow, "… and 378 more, summing to ")
    assert flow.shown_text().count(" × ") == 66
    click(flow, "… and 318 more, summing to ")
    assert flow.shown_text().count(" × ") == 126
    worked = view_of(panel).derivation
    assert worked is not None
    listed = [
        float(part.split(" = ")[1].split()[0]) for part in flow.shown_text().split("mlp.post[")[1:]
    ]
    rest = float(flow.shown_text().rpartition(" ")[2])
    bias = worked.operands[0].value
    assert sum(listed) + rest + bias == pytest.approx(worked.result, abs=126 * 5e-4)
    go(panel, 4, "blocks.1.mlp.pre")
    go(panel, 4, "blocks.1.mlp.out")
    assert flow.shown_text().count(" × ") == 6


def test_the_token_leads_to_the_choice_before(panel: ValuesPanel) -> None:
    go(panel, 3, "embed", array="embed")
    token = click(panel.arithmetic.operands, "token ")
    cursor = panel.context.cursor
    assert cursor is not None
    assert cursor.step == 2
    assert operation_of(panel) == "sample"
    assert cell_of(panel).array == "final"
    assert f"token {cell_of(panel).column}" == token.text


def test_a_fault_is_an_alarm_exactly_where_it_is(qtbot: QtBot, stories_context: AppContext) -> None:
    stories_context.set_fault("no-scale", True)
    settle(stories_context)
    panel = shown(qtbot, stories_context)
    go(panel, 2, "blocks.0.attn.scores")
    problem = panel.arithmetic.problem
    assert problem.isVisibleTo(panel)
    assert problem.text().startswith("Recomputed ")
    assert "more than rounding" in problem.text()
    assert problem.text().endswith("Switched on: no-scale.")
    assert "✓" not in panel.arithmetic.operands.shown_text()
    for operation in ("blocks.0.attn.q", "blocks.0.attn.pattern", "blocks.0.attn.z", "logits"):
        go(panel, 2, operation)
        assert not problem.isVisibleTo(panel)
        assert "✓" in panel.arithmetic.operands.shown_text()


def test_an_edited_activation_is_an_alarm_that_names_the_edit(
    qtbot: QtBot, stories_context: AppContext
) -> None:
    stories_context.branches.zero_head(1, 2, 0)
    settle(stories_context)
    panel = shown(qtbot, stories_context)
    problem = panel.arithmetic.problem
    go(panel, 2, "blocks.1.attn.z", head=2)
    assert view_of(panel).value(view_of(panel).row, 0) == 0.0
    assert "more than rounding" in problem.text()
    assert problem.text().count("zeroed head 1.2") == 1
    for operation, head in (("blocks.1.attn.z", 1), ("blocks.1.attn.out", 2), ("logits", 2)):
        go(panel, 2, operation, head=head)
        assert not problem.isVisibleTo(panel)


def test_what_was_not_kept_is_recomputed_on_the_way(
    qtbot: QtBot, make_context: Callable[..., AppContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = Session.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "budget", 0)
    context = make_context("stories", "Once upon a time", tokens=3)
    panel = shown(qtbot, context)
    flow = panel.arithmetic.operands
    go(panel, 1, "logits")
    for operand in ("ln_final", "resid_post", "mlp.out", "mlp.post", "mlp.pre", "ln2"):
        qtbot.waitUntil(lambda: any(flow.links()), timeout=10_000)
        qtbot.waitUntil(lambda: context.idle, timeout=10_000)
        followed = click(flow, operand)
        qtbot.waitUntil(lambda: view_of(panel).derivation is not None, timeout=10_000)
        assert_stands_on(panel, cell_of(panel), followed.text.rpartition(" ")[2])
        worked = view_of(panel).derivation
        assert worked is not None
        assert worked.agrees
    assert panel.arithmetic.trail.shown_text().count("←") == 6


def test_a_capture_leads_to_what_was_read(
    qtbot: QtBot, stories_context: AppContext, tmp_path: Path
) -> None:
    context = stories_context
    saved = tmp_path / "run.safetensors"
    context.captures.save(saved)
    settle(context)
    context.open_model(str(saved))
    settle(context)
    panel = shown(qtbot, context)
    go(panel, 2, "blocks.2.mlp.out")
    assert "capture holds no weights" in panel.arithmetic.lines.text()
    assert "✓" not in panel.arithmetic.operands.shown_text()
    click(panel.arithmetic.operands, "mlp.post")
    assert operation_of(panel) == "blocks.2.mlp.post"
    assert "✓ within rounding" in panel.arithmetic.operands.shown_text()
    click(panel.arithmetic.operands, "mlp.pre")
    assert operation_of(panel) == "blocks.2.mlp.pre"
    go(panel, 2, "blocks.2.attn.out")
    click(panel.arithmetic.operands, "z")
    assert_stands_on(panel, cell_of(panel), view_of(panel).text(view_of(panel).row, 0))
    assert cell_of(panel).head == 0


def test_two_panels_show_the_same_number(qtbot: QtBot, panel: ValuesPanel) -> None:
    other = shown(qtbot, panel.context)
    go(panel, 3, "blocks.0.attn.z")
    click(panel.arithmetic.operands, "v[")
    assert cell_of(other) == cell_of(panel)
    assert other.arithmetic.trail.shown_text() == panel.arithmetic.trail.shown_text()


def test_a_way_is_forgotten_with_the_run(panel: ValuesPanel) -> None:
    go(panel, 3, "logits")
    click(panel.arithmetic.operands, "ln_final")
    assert len(panel.context.trail.stops) == 2
    panel.context.prefill("Once upon a time")
    settle(panel.context)
    assert not panel.context.trail.leads_to(cell_of(panel))
    here = panel.context.cursor
    QTest.keyClick(panel, Qt.Key.Key_Backspace)  # there is nowhere to go back to
    assert panel.context.cursor == here


def test_a_way_is_forgotten_in_another_branch(panel: ValuesPanel) -> None:
    context = panel.context
    go(panel, 3, "logits")
    click(panel.arithmetic.operands, "ln_final")
    context.branches.zero_mlp(1, 0)
    settle(context)
    assert not context.trail.stops
    go(panel, 3, "logits")
    click(panel.arithmetic.operands, "ln_final")
    assert len(context.trail.stops) == 2


def test_alt_left_goes_back_in_the_window(qtbot: QtBot, stories_context: AppContext) -> None:
    window = MainWindow(stories_context.style)
    qtbot.addWidget(window)
    window.resize(1440, 900)
    window.show()
    window.furnish(stories_context)
    window.activateWindow()
    assert QTest.qWaitForWindowActive(window)
    panel = window.findChild(ValuesPanel)
    assert panel is not None
    go(panel, 3, "logits")
    click(panel.arithmetic.operands, "ln_final")
    assert operation_of(panel) == "ln_final"
    window.setFocus()
    qtbot.keyClick(window, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier)
    assert operation_of(panel) == "logits"
    window.close()
