"""Opening from the command line: what nobody can be asked about, and what is only a warning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from decoder_gui import dialogs, session_dialogs
from decoder_gui.arguments import parse
from decoder_gui.cli import main
from decoder_gui.context import AppContext
from decoder_gui.dialogs import Answer
from decoder_gui.main_window import MainWindow
from decoder_gui.opening import open_and_stand
from decoder_gui.view import View
from decoder_gui.viewdata.moment import ModelInfo

TOO_LONG = "The cat sat . The"  # 5 tokens; tiny has 4 positions


@pytest.fixture
def opened(qapp: QApplication, qtbot: QtBot) -> Iterator[Callable[..., AppContext]]:
    """A function that opens a window on screen by the words of a command line."""
    made: list[tuple[MainWindow, AppContext]] = []

    def show(*argv: str) -> AppContext:
        arguments = parse(argv)
        assert arguments.run is not None
        assert arguments.window is not None
        context = AppContext()
        window = MainWindow(context.style)
        made.append((window, context))
        window.show()
        window.furnish(context)
        open_and_stand(context, window, arguments.run, arguments.window)
        return context

    yield show
    for window, context in made:
        context.close()
        window.close()
        window.deleteLater()
    QApplication.sendPostedEvents(None, 0)
    QApplication.processEvents()


def test_a_picture_of_a_prompt_that_does_not_fit_is_refused_without_a_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogs, "ask_about_overflow", lambda *_: pytest.fail("it asked"))
    target = tmp_path / "out.png"
    assert main(["tiny", "--prompt", TOO_LONG, "--snapshot", str(target)]) == 2
    assert "5 tokens do not fit in a context of 4 positions" in capsys.readouterr().err
    assert not target.exists()


def test_the_front_that_the_user_agrees_to_cut_is_cut_and_nothing_else_is_said(
    opened: Callable[..., AppContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[int], int]] = []

    def cut(_: QWidget, model: ModelInfo, token_ids: list[int], capacity: int) -> Answer:
        asked.append((token_ids, capacity))
        return Answer(lambda context: context.prefill_ids(token_ids[-capacity:]))

    monkeypatch.setattr(dialogs, "ask_about_overflow", cut)
    context = opened("tiny", "--prompt", TOO_LONG, "--at", "0:blocks.0.attn.pattern")
    assert asked == [([0, 1, 2, 3, 0], 4)]
    assert context.trace is not None
    assert context.trace.token_ids == (1, 2, 3, 0)
    assert context.cursor is not None
    assert context.trace.operations[context.cursor.operation].name == "blocks.0.attn.pattern"


def test_a_model_with_nan_among_its_weights_is_opened_and_run(
    opened: Callable[..., AppContext], ruined: Path
) -> None:
    context = opened(str(ruined), "--prompt", "Once upon a time")
    assert context.trace is not None
    assert context.trace.complete(0)
    assert context.moment is not None
    assert "NaN" in context.moment.sampling_refusal
    assert context.moment.landing is None


def test_a_picture_of_such_a_model_can_be_taken(ruined: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.png"
    assert main([str(ruined), "--snapshot", str(target)]) == 0
    assert target.exists()


@pytest.mark.parametrize(
    ("prompt", "lost"), [(TOO_LONG, "1 token"), (f"The {TOO_LONG}", "2 tokens")]
)
def test_the_question_counts_what_would_be_lost(
    opened: Callable[..., AppContext], monkeypatch: pytest.MonkeyPatch, prompt: str, lost: str
) -> None:
    said: list[str] = []

    def read(box: QMessageBox) -> int:
        said.extend([box.informativeText(), *(button.text() for button in box.buttons())])
        return 0

    monkeypatch.setattr(QMessageBox, "exec", read)
    opened("tiny", "--prompt", prompt)
    assert said[0].startswith(f"Cutting the front would lose {lost}:")
    assert f"Cut {lost} at the front" in said


def test_a_session_whose_model_is_gone_is_refused_without_a_question(
    opened: Callable[..., AppContext],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_dialogs, "ask_where_model_is", lambda *_: pytest.fail("it asked"))
    path = opened("tiny").sessions.save(tmp_path / "a")
    assert path is not None
    path.write_text(path.read_text().replace('"spec":"tiny"', '"spec":"/nowhere/m.gguf"'))
    target = tmp_path / "out.png"
    assert main([str(path), "--snapshot", str(target)]) == 2
    assert "not where it was: /nowhere/m.gguf" in capsys.readouterr().err
    assert not target.exists()


def test_the_workspace_of_a_session_is_shown_unless_another_is_asked_for(
    opened: Callable[..., AppContext], tmp_path: Path
) -> None:
    context = opened("tiny", "--view", "find")
    path = context.sessions.save(tmp_path / "a")
    assert opened(str(path)).sessions.layout()["view"] == View.FIND
    assert opened(str(path), "--view", "learn").sessions.layout()["view"] == View.LEARN
