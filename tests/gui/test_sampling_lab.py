"""The sampling laboratory: its numbers read back, by mouse and by keyboard."""

from __future__ import annotations

import csv
import json
import math
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from decoder_gui.arguments import parse
from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.laboratory.sampling_code import GENERATORS
from decoder_gui.panels.base import Panel, panels_of
from decoder_gui.panels.next_token import NextTokenPanel
from decoder_gui.panels.sampling.continuations import ContinuationsPanel
from decoder_gui.panels.sampling.draws import DrawsPanel
from decoder_gui.panels.sampling.held_draw import HeldDrawPanel
from decoder_gui.panels.sampling.pipeline import PipelinePanel
from decoder_gui.panels.sampling.settings_code import JSON, SettingsCodePanel
from decoder_gui.panels.sampling.two_settings import A, B, TwoSettingsPanel
from decoder_gui.theme.palette import ThemeName
from decoder_gui.view import View
from decoder_gui.waiting import wait_until
from model.sampling import STAGES, Distribution, SamplingConfig, distribution, draw
from model.sampling_comparison import compare
from model.sampling_statistics import draw_statistics, standard_error
from tests.gui.conftest import settle


@pytest.fixture
def show(qapp: QApplication) -> Iterator[Callable[..., Panel]]:
    """A function that makes a panel of the laboratory and shows it."""
    shown: list[Panel] = []

    def make(kind: type[Panel], context: AppContext, width: int = 760, height: int = 520) -> Panel:
        panel = kind(context)
        panel.resize(width, height)
        panel.show()
        qapp.processEvents()
        shown.append(panel)
        return panel

    yield make
    for panel in shown:
        panel.close()
        panel.deleteLater()
    shown.clear()
    qapp.processEvents()


def expected(context: AppContext, config: SamplingConfig | None = None) -> Distribution:
    """The distribution at the cursor, from the trace's logits alone."""
    assert context.trace is not None
    assert context.cursor is not None
    step = context.trace.steps[context.cursor.step]
    logits = context.trace.logits(step.index)
    assert logits is not None
    settings = context.sampling if config is None else config
    return distribution(logits, settings, context.trace.token_ids[: step.last])


def test_the_workspace_has_all_its_panels() -> None:
    names = [kind.panel_id for kind in panels_of(View.SAMPLING)]
    assert {name for name in names if name.startswith("sampling-")} == {
        "sampling-two",
        "sampling-code",
        "sampling-pipeline",
        "sampling-continuations",
        "sampling-draw",
        "sampling-draws",
    }


# --- the pipeline -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.6, "top_k": 12, "top_p": 0.9, "min_p": 0.02},
        {"temperature": 1.7, "repetition_penalty": 1.4, "order": "hugging-face", "top_p": 0.8},
        {"temperature": 0.7, "top_p": 0.95, "order": "llama.cpp", "repetition_penalty": 0.8},
        {
            "temperature": 1.4,
            "top_k": 6,
            "repetition_penalty": 1.3,
            "order": "top_k,repetition_penalty,temperature,top_p,min_p",
        },
        {"temperature": 0.0, "repetition_penalty": 1.2},
    ],
)
def test_every_number_of_the_pipeline_is_that_of_the_trace(
    stories_context: AppContext, show: Callable[..., Panel], settings: dict[str, float | str]
) -> None:
    context = stories_context
    context.set_sampling(**settings)
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    found = expected(context)
    view = panel.view
    stages = len(found.stages)
    assert [column.kept for column in view.columns[:stages]] == [
        stage.kept_count for stage in found.stages
    ]
    for row in view.rows:
        for cell, stage in zip(row.cells, found.stages, strict=False):
            assert cell.inside == stage.holds(row.token_id)
            held = float(stage.probabilities[row.token_id])
            assert cell.probability == pytest.approx(held, abs=1e-15)
        fallen = [stage for cell, stage in zip(row.cells, found.stages, strict=False) if cell.fell]
        assert [stage.cut_name for stage in fallen] == [
            name for name in [found.cut_name(row.token_id)] if name is not None
        ]
        assert row.rank == int(found.ranking.places[row.token_id]) + 1
    listed = {row.token_id for row in view.rows}
    rest = 1.0 - math.fsum(float(found.raw[token]) for token in listed)
    assert f"{found.ranking.vocabulary - len(listed):,} tokens not listed" in view.outside
    assert rest < 0.5
    for name, card in panel.pipeline.cards.items():
        if not card.isHidden() and name != "raw":
            assert card.check.isChecked() == card.column.on


def test_orders_say_what_they_would_keep_and_are_chosen(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=1.8, top_k=30, top_p=0.7)
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    assert list(panel.orders) == ["reference", "hugging-face", "llama.cpp"]
    for name, button in panel.orders.items():
        kept = expected(context, SamplingConfig(1.8, 0.7, 30, order=name)).kept_count
        assert button.text().split() == [name, f"{kept:,}"]
        assert button.isChecked() == (name == "reference")
    mine = set(expected(context).kept.tolist())
    for choice in panel.view.orders[1:]:
        its = set(expected(context, SamplingConfig(1.8, 0.7, 30, order=choice.name)).kept.tolist())
        assert ("also keeps" in choice.change) == bool(its - mine)
        assert ("drops" in choice.change) == bool(mine - its)
        assert (choice.change == "keeps the same") == (its == mine)
        assert f"{choice.name} {choice.change}" in panel.rule.text()
    panel.orders["llama.cpp"].click()
    assert context.sampling.order == "llama.cpp"
    assert panel.orders["llama.cpp"].isChecked()
    assert panel.pipeline.order()[-1] == "temperature"


def test_stages_are_switched_off_and_on_with_the_value_they_had(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(top_p=0.77)
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    card = panel.pipeline.cards["top_p"]
    assert card.check.isChecked()
    assert card.edit.shown == "0.77"
    card.check.click()
    assert context.sampling.top_p == 1.0
    assert not card.check.isChecked()
    assert card.edit.shown == "off"
    card.check.click()
    assert context.sampling.top_p == 0.77
    for stage in STAGES:
        before = getattr(context.sampling, stage)
        panel.pipeline.cards[stage].check.click()
        assert getattr(context.sampling, stage) != before


def test_values_are_typed_and_refused_by_name(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    card = panel.pipeline.cards["repetition_penalty"]
    card.edit.setText("1.35")
    QTest.keyClick(card.edit, Qt.Key.Key_Return)
    assert context.sampling.repetition_penalty == 1.35
    card.edit.setText("-1")
    QTest.keyClick(card.edit, Qt.Key.Key_Return)
    assert context.sampling.repetition_penalty == 1.35
    assert "Repetition penalty is any positive number" in panel.found.text()
    card.edit.setText("off")
    QTest.keyClick(card.edit, Qt.Key.Key_Return)
    assert context.sampling.repetition_penalty == 1.0
    assert "any positive number" not in panel.found.text()


def test_stages_move_by_keyboard_and_the_focus_goes_along(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    card = panel.pipeline.cards["top_p"]
    card.setFocus()
    QTest.keyClick(card, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier)
    assert context.sampling.order == "repetition_penalty,temperature,top_p,top_k,min_p"
    assert panel.pipeline.order() == [
        "raw",
        "repetition_penalty",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
    ]
    assert "one's own" in panel.orders[context.sampling.order].text()
    QTest.keyClick(card.slider, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert context.sampling.order == "repetition_penalty,temperature,top_k,top_p,min_p"
    for _ in range(9):  # to the end and no further
        QTest.keyClick(card, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert context.sampling.order.endswith("min_p,top_p")


def test_stages_are_dragged_to_another_place(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    pipeline = panel.pipeline
    card = pipeline.cards["temperature"]
    start = QPoint(card.width() - 6, 6)
    end = QPoint(pipeline.edges()[-1] - card.x() - 4, 6)
    QTest.mousePress(card, Qt.MouseButton.LeftButton, pos=start)
    for step in (0.3, 0.7, 1.0):
        QTest.mouseMove(card, start + (end - start) * step)
    QTest.mouseRelease(card, Qt.MouseButton.LeftButton, pos=end)
    assert context.sampling.order == "repetition_penalty,top_k,top_p,min_p,temperature"
    assert pipeline.order()[-1] == "temperature"


def test_a_search_finds_any_token_and_its_rank(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(top_p=0.9)
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    found = expected(context)
    token = int(found.ranking.order[-3])  # one that no list of candidates shows
    assert token not in {row.token_id for row in panel.view.rows}
    panel.search.setText(str(token))
    first = panel.view.rows[0]
    assert (first.token_id, first.found) == (token, True)
    assert f"rank {found.ranking.vocabulary - 2:,} of {found.ranking.vocabulary:,}" in (
        panel.found.text()
    )
    assert "falls at top-p" in panel.row.text()
    assert "not listed hold" in panel.found.text()  # the mass outside is always stated
    assert context.model is not None
    panel.search.setText("dog")
    assert any("dog" in row.text for row in panel.view.rows if row.found)
    panel.search.setText("qqqqq")
    assert "No token" in panel.found.text()
    panel.search.clear()
    assert not any(row.found for row in panel.view.rows)


def test_the_table_is_travelled_by_keyboard_and_says_why(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(top_k=3)
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    table = panel.pipeline.table
    table.setFocus()
    for _ in range(3):
        QTest.keyClick(table, Qt.Key.Key_Down)
    assert table.current == 3
    assert "falls at top-k: number 4 of those left, and k is 3." in panel.row.text()
    assert table.rows[3].spoken in table.accessibleDescription()
    QTest.keyClick(table, Qt.Key.Key_End)
    assert table.current == len(table.rows) - 1
    QTest.keyClick(table, Qt.Key.Key_Home)
    assert "stays to the end" in panel.row.text()
    assert table.bar_length(panel.view.full) == pytest.approx(table.bar_length(1e9))


def test_edges_and_ties_are_said_in_words(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(top_k=4, order="hugging-face", temperature=2.0)
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    found = expected(context)
    assert context.model is not None
    piece = context.model.tokenizer.piece
    last, out = (piece(int(found.ranking.order[at])).text for at in (3, 4))
    words = panel.stages.text()
    assert f"Top-k: at most 4. Last to stay {last} (rank 4), first to go {out} (rank 5)." in words
    assert "all that tie with the k-th stay" in words
    context.set_sampling(order="reference", top_p=0.5, top_k=0)
    running = np.cumsum(expected(context).stages[2].ranked)
    at = expected(context).kept_count - 1
    assert f"(mass {running[at]:.3f})" in panel.stages.text()
    assert "the lower id stays" in panel.stages.text()


def test_the_whole_vocabulary_is_exported(
    stories_context: AppContext, show: Callable[..., Panel], tmp_path: Path
) -> None:
    context = stories_context
    context.set_sampling(temperature=0.7, top_p=0.9, repetition_penalty=1.2)
    path = tmp_path / "out.csv"
    context.sampler_lab.export(path)
    settle(context)
    found = expected(context)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == found.ranking.vocabulary
    assert context.model is not None
    for row in rows:
        token = int(row["token_id"])
        assert float(row["raw"]) == found.raw[token]
        assert float(row["min_p"]) == found.final[token]
        assert row["cut_by"] == (found.cut_name(token) or "")
        assert row["text"] == context.model.tokenizer.decode([token])
    assert [int(row["token_id"]) for row in rows] == found.ranking.order.tolist()
    assert any('"' in row["text"] or "," in row["text"] for row in rows)  # quoted, and read back
    notices: list[str] = []
    context.notice.connect(notices.append)
    context.sampler_lab.export(tmp_path / "no" / "such.csv")
    assert "cannot be written" in notices[0]


# --- the held draw ------------------------------------------------------------------------------


def test_the_number_is_a_line_on_the_curve_and_lands_on_a_token(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=1.5)
    panel = show(HeldDrawPanel, context, 340, 300)
    assert isinstance(panel, HeldDrawPanel)
    found, moment = expected(context), context.moment
    assert moment is not None
    assert moment.step is not None
    view = panel.view
    uniform = moment.step.uniform
    own = view.steps[view.landing]
    assert own.token_id == draw(found, uniform)
    assert own.low <= uniform < own.high
    assert f"u = {uniform:.6f} lies in" in panel.words.text()
    rect = panel.curve.step_rect(view.landing)
    line = panel.curve.y_of(uniform)
    assert rect.top() - 1 <= line <= rect.bottom() + 1
    running = found.cumulative / found.cumulative[-1]
    for step in view.steps:
        assert step.high == pytest.approx(float(running[step.rank - 1]))


def test_a_slider_moves_the_token_under_the_same_luck_and_resample_says_so(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.seek(Cursor(0, len(context.trace.operations) - 1))  # type: ignore[union-attr]
    context.set_sampling(temperature=3.0)
    panel = show(HeldDrawPanel, context, 340, 300)
    assert isinstance(panel, HeldDrawPanel)
    warm = panel.view.steps[panel.view.landing]
    held = panel.view.uniform
    context.set_sampling(temperature=0.01)
    cold = panel.view.steps[panel.view.landing]
    assert panel.view.uniform == held
    if warm.token_id != cold.token_id:
        assert panel.note.text() == f"The same number landed on {warm.text} before this change."
    assert cold.rank == 1
    panel.resample.click()
    settle(context)
    assert panel.view.uniform != held
    assert panel.note.text().startswith(f"Another number was drawn: {held:.6f} before,")
    context.set_sampling(temperature=0.0)
    assert panel.view.uniform is None
    assert not panel.resample.isEnabled()
    assert "no number is drawn" in panel.words.text()


# --- many draws ---------------------------------------------------------------------------------


def test_draws_stand_beside_what_was_expected(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=1.5, top_k=6)
    panel = show(DrawsPanel, context, 360, 400)
    assert isinstance(panel, DrawsPanel)
    assert "No draws yet" in panel.words.text()
    moment = context.moment
    assert moment is not None
    assert moment.step is not None
    uniform, state = moment.step.uniform, moment.step.checkpoint.generator_state
    panel.few.click()
    held = context.sampler_lab.draws
    assert held is not None
    counts = held.found.counts
    found = expected(context)
    assert counts.sum() == 1000
    assert set(np.flatnonzero(counts)) <= set(found.kept.tolist())
    for at, token in enumerate(found.kept.tolist()):
        p = float(found.final[token])
        assert panel.table.shown(at, 1) == f"{1000 * p:.1f}"
        assert panel.table.shown(at, 2) == f"{standard_error(p, 1000):.1f}"
        assert panel.table.shown(at, 3) == f"{counts[token]:,}"
        off = (counts[token] - 1000 * p) / standard_error(p, 1000)
        assert panel.table.shown(at, 4) == f"{off:+.1f} σ"
    summary = {figure.label: figure.value for figure in panel.figures.figures}
    by_hand = draw_statistics(found, counts)
    assert summary["Draws"] == "1,000"
    assert summary["Chi-square"] == f"{by_hand.chi_square:.2f}"
    assert summary["Entropy observed"] == f"{by_hand.entropy:.3f} nats"
    assert summary["Entropy exact"] == f"{found.entropy:.3f} nats"
    # The session's own generator is untouched, and another setting takes the draws away.
    again = context.moment
    assert again is not None
    assert again.step is not None
    assert (again.step.uniform, again.step.checkpoint.generator_state) == (uniform, state)
    context.set_sampling(temperature=1.4)
    assert context.sampler_lab.draws is None
    assert "No draws yet" in panel.words.text()


# --- two settings -------------------------------------------------------------------------------


def test_two_settings_are_compared_on_the_same_logits(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=1.5, repetition_penalty=1.2)
    lab = context.sampler_lab
    lab.set_other(temperature=0.7, top_k=5, top_p=1.0, min_p=0.0)
    panel = show(TwoSettingsPanel, context, 280, 600)
    assert isinstance(panel, TwoSettingsPanel)
    found = compare(expected(context), expected(context, lab.other))
    shown = {figure.label: figure for figure in panel.figures.figures}
    assert shown["Kept by A"].value == f"{expected(context).kept_count:,}"
    assert shown["Kept by B"].value == "5"
    assert shown["Jaccard index"].value == f"{found.jaccard:.3f}"
    assert shown["KL(A, B)"].value == "infinite"
    assert shown["KL(A, B)"].note == "A can draw what B never does"
    assert shown["KL(B, A)"].value == f"{found.backward:.3f} nats"
    assert panel.edits["temperature", A].shown == "1.50"
    assert panel.edits["temperature", B].shown == "0.70"
    assert panel.orders[B].currentText() == "llama.cpp"


def test_two_settings_are_swapped_copied_and_typed(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=1.5, seed=7)
    lab = context.sampler_lab
    panel = show(TwoSettingsPanel, context, 280, 600)
    assert isinstance(panel, TwoSettingsPanel)
    first, second = context.sampling, lab.other
    panel.swap.click()
    assert context.sampling == SamplingConfig(
        second.temperature, second.top_p, second.top_k, 7, second.order, second.min_p
    )
    assert lab.other.temperature == 1.5
    panel.swap.click()
    assert context.sampling == first
    panel.to_second.click()
    assert lab.other.temperature == 1.5
    assert "0 differences" in _caption(panel)
    edit = panel.edits["top_k", B]
    edit.setText("9")
    QTest.keyClick(edit, Qt.Key.Key_Return)
    assert lab.other.top_k == 9
    assert context.sampling.top_k == 0
    edit.setText("nine")
    QTest.keyClick(edit, Qt.Key.Key_Return)
    assert lab.other.top_k == 9
    assert "Top-k is off or a whole number" in panel.refusal.text()
    panel.to_first.click()
    assert context.sampling.top_k == 9
    mine = panel.edits["min_p", A]
    mine.setText("0.1")
    QTest.keyClick(mine, Qt.Key.Key_Return)
    assert context.sampling.min_p == 0.1


def _caption(panel: Panel) -> str:
    said: list[str] = []
    panel.caption_changed.connect(lambda title, hint: said.append(hint))
    panel.redraw(Change.ALL)
    return said[-1]


# --- continuations ------------------------------------------------------------------------------


def test_continuations_grow_and_one_is_adopted(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=1.0)
    panel = show(ContinuationsPanel, context, 760, 260)
    assert isinstance(panel, ContinuationsPanel)
    panel.count.setValue(5)
    panel.length.setValue(3)
    assert context.trace is not None
    before = context.trace.token_ids
    panel.go.click()
    settle(context)
    held = context.sampler_lab.continuations
    assert held is not None
    assert held.timing is not None
    assert not held.running
    assert len(held.rows) == 5
    assert context.model is not None
    for at, row in enumerate(held.rows):
        text = context.model.tokenizer.decode(list(row.token_ids))
        assert panel.table.shown(at, 1) == text.replace("\n", "⏎")
        assert panel.table.shown(at, 2) == f"{'∎ ' if row.ended else ''}{len(row.token_ids)}"
        assert panel.table.shown(at, 3) == f"{row.total:.2f}"
        assert panel.table.shown(at, 4) == f"{row.per_token:.3f}"
    assert panel.timing.text().startswith("5 tokens per weight read · 2 passes, the fastest ")
    assert context.trace.token_ids == before
    panel.table.point_at(3)
    QTest.keyClick(panel.table, Qt.Key.Key_Return)
    wanted = (*before, *held.rows[3].token_ids)
    assert wait_until(lambda: context.trace is not None and context.trace.token_ids == wanted)
    settle(context)
    scores = context.run_state.log_probabilities  # type: ignore[union-attr]
    assert scores[-3:] == pytest.approx(held.rows[3].log_probabilities, abs=1e-4)


def test_one_adopted_where_steps_follow_leaves_them_in_their_branch(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    assert context.trace is not None
    whole = context.trace.token_ids
    context.seek(Cursor(1, len(context.trace.operations) - 1))
    context.set_sampling(temperature=2.0)
    start = context.trace.steps[1].last
    lab = context.sampler_lab
    lab.set_continuations(3, 4)
    lab.go_on()
    settle(context)
    assert lab.continuations is not None
    chosen = lab.continuations.rows[2].token_ids
    lab.adopt(2)
    settle(context)
    assert context.trace.token_ids == (*whole[:start], *chosen)
    texts = [context.branches.text(branch.id) for branch in context.branches.tree.branches]
    assert context.model is not None
    assert context.model.tokenizer.decode(list(whole)) in texts
    assert context.cursor is not None
    assert context.cursor.step == len(context.trace.steps) - 1


def test_growing_is_stopped_and_what_is_there_stays(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=1.0)
    panel = show(ContinuationsPanel, context, 760, 260)
    assert isinstance(panel, ContinuationsPanel)
    panel.count.setValue(200)
    panel.length.setValue(100)
    panel.go.click()
    lab = context.sampler_lab
    assert wait_until(lambda: lab.continuations is not None and bool(lab.continuations.rows))
    assert panel.stop.isEnabled()
    panel.stop.click()
    settle(context)
    held = lab.continuations
    assert held is not None
    assert not held.running
    assert len({len(row.token_ids) for row in held.rows}) == 1
    if held.timing is None:
        assert panel.words.text() == f"Cancelled after {len(held.rows[0].token_ids)} tokens."
    assert panel.go.isEnabled()


def test_an_order_of_ones_own_and_a_penalty_show_in_the_next_token_panel(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    panel = show(NextTokenPanel, context, 320, 600)
    assert isinstance(panel, NextTokenPanel)
    order = "top_k,top_p,min_p,repetition_penalty,temperature"
    context.set_sampling(order=order, repetition_penalty=1.25)
    controls = panel.controls
    assert controls.order.currentText() == order
    assert "Order of one's own · min-p off · repetition penalty 1.25" in controls.more.text()
    assert controls.rule.text().startswith("Top-k, top-p, min-p, repetition penalty, then")
    found = expected(context)
    for row in panel.view.rows:
        assert row.final == found.final[row.token_id]
        assert row.tempered == found.tempered[row.token_id]
    context.set_sampling(order="hugging-face", repetition_penalty=1.0)
    assert controls.order.count() == 3
    assert controls.order.currentText() == "hugging-face"
    assert "penalty" not in controls.more.text()


def test_another_round_draws_others_and_settings_are_refused_in_words(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=1.5)
    lab = context.sampler_lab
    lab.set_continuations(4, 6)
    lab.go_on()
    settle(context)
    first = lab.continuations
    lab.go_on()
    settle(context)
    second = lab.continuations
    assert first is not None
    assert second is not None
    assert first.rows != second.rows
    lab.set_continuations(0, 6)
    lab.go_on()
    assert lab.refusal == "Continuations must be 1 to 256, not 0."


def test_a_model_of_one_sequence_continues_row_by_row(
    tiny_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = tiny_context
    context.go_first()
    context.seek(Cursor(0, len(context.trace.operations) - 1))  # type: ignore[union-attr]
    context.set_sampling(temperature=1.0)
    panel = show(ContinuationsPanel, context, 760, 260)
    assert isinstance(panel, ContinuationsPanel)
    panel.go.click()
    settle(context)
    assert "this model runs one sequence at a time" in panel.timing.text()
    assert panel.words.text() == "The context has room for 2 more."


# --- code and JSON ------------------------------------------------------------------------------


def test_settings_are_copied_as_code_and_pasted_from_json(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=0.6, top_p=0.9, repetition_penalty=1.1)
    panel = show(SettingsCodePanel, context, 280, 300)
    assert isinstance(panel, SettingsCodePanel)
    clipboard = QGuiApplication.clipboard()
    for name, make in GENERATORS.items():
        panel.programs[name].click()
        panel.copy.click()
        assert clipboard.text() == panel.text.toPlainText() == make(context.sampling).text
    run = parse(shlex.split(clipboard.text())[1:]).run  # the last is our own command line
    assert run is not None
    assert run.sampling() == context.sampling
    panel.programs[JSON].click()
    panel.copy.click()
    saved = clipboard.text()
    assert json.loads(saved)["repetition_penalty"] == 1.1
    config = context.sampling
    context.set_sampling(temperature=1.0, top_p=1.0, repetition_penalty=1.0)
    panel.paste.click()
    assert context.sampling == config
    clipboard.setText('{"temperature": 1, "typical": 2}')
    panel.paste.click()
    assert context.sampling == config
    assert "'typical' is no setting" in panel.words.text()
    clipboard.setText('{"do_sample": true, "temperature": 0.5, "eos_token_id": 3}')
    panel.paste.click()
    assert context.sampling.order == "hugging-face"
    assert context.sampling.top_k == 50
    assert "Left aside: eos_token_id." in panel.words.text()


# --- all of them --------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", list(ThemeName))
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_every_panel_says_so_while_there_is_nothing_and_redraws_in_any_looks(
    qapp: QApplication, show: Callable[..., Panel], theme: ThemeName, scale: float
) -> None:
    context = AppContext()
    try:
        panels = [show(kind, context) for kind in panels_of(View.SAMPLING) if _ours(kind)]
        context.set_theme(theme)
        context.set_scale(scale)
        qapp.processEvents()
        for panel in panels:
            if isinstance(panel, SettingsCodePanel):
                continue  # there are settings before there is a model
            words = [label for label in _texts(panel) if label]
            assert any("No model is open yet" in each for each in words), panel.panel_id
    finally:
        context.close()


def test_logits_that_are_no_numbers_are_refused_in_every_panel(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_fault("nan-weight", True)
    settle(context)
    context.go_last()
    for kind in (PipelinePanel, HeldDrawPanel, DrawsPanel, TwoSettingsPanel):
        panel = show(kind, context)
        assert any("NaN" in each for each in _texts(panel)), kind
    context.sampler_lab.draw()
    context.sampler_lab.go_on()
    assert context.sampler_lab.refusal == "There is no distribution to continue from."
    growing = show(ContinuationsPanel, context)
    assert isinstance(growing, ContinuationsPanel)
    assert "NaN" in growing.words.text()
    assert not growing.go.isEnabled()
    code = show(SettingsCodePanel, context)
    assert not any("continue" in each for each in _texts(code))  # not this panel's business


def test_the_fault_of_the_sampler_shows_in_the_columns(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=0.5, top_p=0.8)
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    context.set_fault("truncate-before-temperature", True)
    settle(context)
    assert panel.pipeline.order()[-1] == "temperature"
    assert "truncate-before-temperature is on" in panel.rule.text()


def _ours(kind: type[Panel]) -> bool:
    return kind.panel_id.startswith("sampling-")


def _texts(panel: Panel) -> list[str]:
    from PySide6.QtWidgets import QLabel

    return [label.text() for label in panel.findChildren(QLabel) if label.isVisibleTo(panel)]


def test_a_low_panel_keeps_candidates_and_says_a_stage_where_the_keyboard_is(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=0.8, top_k=5)
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    panel.resize(900, 700)
    assert wait_until(panel.stages.isVisible)
    assert "at most 5" in panel.stages.text()
    panel.resize(900, 260)
    assert wait_until(lambda: not panel.stages.isVisible())
    assert panel.pipeline.table.viewport().height() >= panel.pipeline.table.row_rect(0).height()
    panel.pipeline.cards["top_k"].pointed.emit("top_k")
    assert "at most 5" in panel.row.text()
    assert "Ties at the edge" in panel.row.text()


def test_temperature_alone_is_a_stage_that_is_on(
    stories_context: AppContext, show: Callable[..., Panel]
) -> None:
    context = stories_context
    context.set_sampling(temperature=0.8, top_k=0, top_p=1.0, min_p=0.0)
    panel = show(PipelinePanel, context)
    assert isinstance(panel, PipelinePanel)
    assert "No stage is on" not in panel.stages.text()
    context.set_sampling(temperature=1.0)
    assert "No stage is on" in panel.stages.text()
