"""The workspace Learn through its widgets: evidence, choices, free runs, head-only training."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QSize, Qt
from pytestqt.qtbot import QtBot

from decoder_gui.context import AppContext
from decoder_gui.main_window import MainWindow
from decoder_gui.panels.learn.evidence import EvidencePanel
from decoder_gui.panels.learn.head_training import HeadTrainingPanel
from decoder_gui.panels.learn.tokens import TokensPanel
from decoder_gui.view import View
from decoder_gui.waiting import wait_until
from model import tiny
from tests.gui.conftest import settle

Key = Qt.Key


@pytest.fixture
def window(qtbot: QtBot, stories_context: AppContext) -> Iterator[MainWindow]:
    yield from shown(qtbot, stories_context)


@pytest.fixture
def tiny_window(qtbot: QtBot, tiny_context: AppContext) -> Iterator[MainWindow]:
    yield from shown(qtbot, tiny_context)


def shown(qtbot: QtBot, context: AppContext) -> Iterator[MainWindow]:
    made = MainWindow(context.style)
    made.resize(QSize(1440, 900))
    made.show()
    workspace = made.furnish(context)
    qtbot.waitExposed(made)
    workspace.show_view(View.LEARN)
    assert wait_until(lambda: context.idle and not context.learning.pending)
    yield made
    made.close()
    made.deleteLater()


def panel(window: MainWindow, kind: type) -> object:
    assert window.workspace is not None
    found = [each for each in window.workspace.panels.values() if isinstance(each, kind)]
    assert len(found) == 1
    return found[0]


def test_totals_and_bars_are_the_numbers_of_the_run(window: MainWindow) -> None:
    assert window.workspace is not None
    context = window.workspace.context
    evidence = panel(window, EvidencePanel)
    assert isinstance(evidence, EvidencePanel)
    assert context.run_state is not None
    numbers = [n for n in context.run_state.log_probabilities if n is not None]
    figures = {figure.label: figure.value for figure in evidence.figures.figures}
    assert figures["Log-likelihood"] == f"{sum(numbers):.3f} nats"
    bars = evidence.plot.plot.series[0]
    assert list(bars.y) == [-number for number in numbers]


def test_the_table_says_what_the_model_would_have_said_and_travels(
    qtbot: QtBot, window: MainWindow
) -> None:
    assert window.workspace is not None
    context = window.workspace.context
    tokens = panel(window, TokensPanel)
    assert isinstance(tokens, TokensPanel)
    assert context.run_state is not None
    assert context.trace is not None
    table = tokens.table
    rows = len(table.table.rows)
    assert rows == len(context.trace.token_ids) - 1
    for row in range(rows):
        number = context.run_state.log_probabilities[row + 1]
        assert number is not None
        assert table.shown(row, 2) == f"{number:.2f}"
    table.setFocus()
    table.point_at(rows - 1)
    qtbot.keyClick(table, Key.Key_Return)
    assert context.moment is not None
    assert context.moment.position == rows
    table.point_at(3)
    qtbot.keyClick(table, Key.Key_Return)
    assert context.moment.position == 4
    assert context.cursor is not None
    assert context.cursor.step == 0


def test_the_most_surprising_come_first_on_request(qtbot: QtBot, window: MainWindow) -> None:
    tokens = panel(window, TokensPanel)
    assert isinstance(tokens, TokensPanel)
    qtbot.mouseClick(tokens.sorting, Qt.MouseButton.LeftButton)
    numbers = [float(tokens.table.shown(row, 2)) for row in range(len(tokens.table.table.rows))]
    assert numbers == sorted(numbers)


def test_a_free_run_is_compared_with_the_text(qtbot: QtBot, window: MainWindow) -> None:
    assert window.workspace is not None
    context = window.workspace.context
    tokens = panel(window, TokensPanel)
    assert isinstance(tokens, TokensPanel)
    context.go_to_position(3)
    qtbot.mouseClick(tokens.free, Qt.MouseButton.LeftButton)
    settle(context)
    free = context.learning.free
    assert free is not None
    assert free.given == 3
    trace, model = context.trace, context.model
    assert trace is not None
    assert model is not None
    assert len(free.chosen) == len(trace.token_ids) - 3
    assert tokens.table.shown(0, 7) == "given"
    for at, chosen in enumerate(free.chosen):
        assert tokens.table.shown(2 + at, 7) == model.tokenizer.pieces([chosen])[0].text
    assert "position" in tokens.words.text()


def test_one_step_on_tiny_shows_the_golden_losses(qtbot: QtBot, tiny_window: MainWindow) -> None:
    assert tiny_window.workspace is not None
    context = tiny_window.workspace.context
    training = panel(tiny_window, HeadTrainingPanel)
    assert isinstance(training, HeadTrainingPanel)
    context.go_to_position(1)
    training.target.setText("sat")
    qtbot.keyClick(training.target, Key.Key_Return)
    qtbot.mouseClick(training.step, Qt.MouseButton.LeftButton)
    figures = {figure.label: figure.value for figure in training.figures.figures}
    assert figures["Loss before"] == "0.728599 nats"
    assert figures["Loss now"] == "0.654798 nats"
    traces, _ = tiny.prefill(tiny.tokenize("The cat"))
    update = tiny.head_only_training_step(traces[-1]["final"], tiny.TOKEN_IDS["sat"], 0.1)
    for row in range(2):
        for token in range(4):
            assert training.matrix.shown(4 + row, 1 + token) == f"{update.head[row][token]:.6f}"
    qtbot.mouseClick(training.again, Qt.MouseButton.LeftButton)
    figures = {figure.label: figure.value for figure in training.figures.figures}
    assert figures["Loss now"] == "0.728599 nats"


def test_a_learning_rate_out_of_range_is_refused_at_the_field(
    qtbot: QtBot, tiny_window: MainWindow
) -> None:
    assert tiny_window.workspace is not None
    context = tiny_window.workspace.context
    training = panel(tiny_window, HeadTrainingPanel)
    assert isinstance(training, HeadTrainingPanel)
    said: list[str] = []
    context.notice.connect(said.append)
    for text in ("-1", "nan", "much"):
        training.rate.setText(text)
        training.rate.editingFinished.emit()
        assert training.rate.property("state") == "bad"
        assert text in said[-1]
    assert context.learning.learning_rate == 0.1
    training.rate.setText("0.5")
    training.rate.editingFinished.emit()
    assert context.learning.learning_rate == 0.5
    assert not training.rate.property("state")
    context.learning.set_learning_rate(0.25)
    assert training.rate.text() == "0.25"


def test_a_target_of_several_tokens_is_refused_in_words(qtbot: QtBot, window: MainWindow) -> None:
    assert window.workspace is not None
    context = window.workspace.context
    training = panel(window, HeadTrainingPanel)
    assert isinstance(training, HeadTrainingPanel)
    said: list[str] = []
    context.notice.connect(said.append)
    training.target.setText(" cat sat on")
    qtbot.keyClick(training.target, Key.Key_Return)
    assert "tokens; the target is one" in said[-1]


def test_training_leaves_the_model_and_the_run_as_they_are(
    qtbot: QtBot, window: MainWindow
) -> None:
    assert window.workspace is not None
    context = window.workspace.context
    training = panel(window, HeadTrainingPanel)
    assert isinstance(training, HeadTrainingPanel)
    assert context.trace is not None
    before = context.trace.logits(0)
    qtbot.mouseClick(training.ten, Qt.MouseButton.LeftButton)
    lesson = context.learning.lesson
    assert lesson is not None
    assert lesson.training.steps == 10
    assert lesson.training.losses[-1] < lesson.training.losses[0]
    assert context.trace.logits(0) is before or (context.trace.logits(0) == before).all()  # type: ignore[union-attr]
    context.move(1)
    settle(context)
    assert context.learning.lesson is not None  # the text only went on
    context.prefill("Once upon a time there was a big dog named Max.")
    settle(context)
    assert wait_until(lambda: context.learning.lesson is not lesson)


def test_another_text_takes_the_place_of_the_old_one_while_it_is_on_show(
    window: MainWindow,
) -> None:
    assert window.workspace is not None
    context = window.workspace.context
    assert wait_until(lambda: bool(context.learning.evidence.surprises))
    context.set_fault("no-mask", True)  # runs the prompt again, without the tokens after it
    settle(context)
    assert context.trace is not None
    known = context.learning.evidence.surprises
    assert [each.position for each in known] == list(range(1, len(context.trace.token_ids)))
    context.prefill("Once upon")
    settle(context)
    assert len(context.trace.token_ids) == 2
    assert [each.position for each in context.learning.evidence.surprises] == [1]


def test_a_free_run_without_numbers_says_so(qtbot: QtBot, window: MainWindow) -> None:
    assert window.workspace is not None
    context = window.workspace.context
    context.set_fault("nan-weight", True)
    settle(context)
    tokens, evidence = panel(window, TokensPanel), panel(window, EvidencePanel)
    assert isinstance(tokens, TokensPanel)
    assert isinstance(evidence, EvidencePanel)
    assert "not finite" in evidence.empty.text()
    assert "one token" not in tokens.words.text()
    qtbot.mouseClick(tokens.free, Qt.MouseButton.LeftButton)
    settle(context)
    assert "NaN" in tokens.words.text()
    training = panel(window, HeadTrainingPanel)
    assert isinstance(training, HeadTrainingPanel)
    assert "not all finite" in training.words.text()
    assert not training.step.isEnabled()


def test_nothing_is_worked_out_while_the_workspace_is_hidden(
    make_context: Callable[..., AppContext], qtbot: QtBot
) -> None:
    context = make_context("tiny", "The cat")
    made = MainWindow(context.style)
    made.show()
    made.furnish(context)
    settle(context)
    assert not context.learning.evidence.surprises
    made.close()
    made.deleteLater()
