"""What is unsaved survives a kill at any moment, and is offered at the next start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QLockFile, QSize, Qt
from pytestqt.qtbot import QtBot

from decoder_gui.autosave import FOLDER, Autosave
from decoder_gui.context import AppContext
from decoder_gui.debugger.saving.session_reading import read
from decoder_gui.main_window import MainWindow
from decoder_gui.view import View
from decoder_gui.waiting import wait_until
from tests.gui.conftest import settle

Make = Callable[..., AppContext]
LEFT = Qt.MouseButton.LeftButton

# A window's part of the work, without a window: runs, saves itself, and says where it has come to.
CHILD = """
import sys
from pathlib import Path
from PySide6.QtWidgets import QApplication
from decoder_gui.autosave import Autosave
from decoder_gui.context import AppContext
from decoder_gui.waiting import wait_until

application = QApplication([])
context = AppContext()
keeping = Autosave(context.sessions, Path(sys.argv[1]), context)
context.open_model("stories")
wait_until(lambda: context.idle)
context.prefill("Once upon a time", tokens=3)
wait_until(lambda: context.idle and keeping.path.exists())
print("kept", flush=True)
while True:
    context.move(1)
    wait_until(lambda: context.idle)
    print(len(context.trace.token_ids), flush=True)
    if len(context.trace.token_ids) > 100:
        context.prefill("Once upon a time there was", tokens=3)
        wait_until(lambda: context.idle)
"""


@pytest.mark.parametrize("steps", [0, 17])
def test_a_kill_leaves_a_whole_file_that_the_next_start_finds(
    make_context: Make, tmp_path: Path, steps: int
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        text=True,
    )
    assert child.stdout is not None
    while child.stdout.readline() != "kept\n":
        assert child.poll() is None
    for _ in range(steps):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    context = make_context("tiny", "The cat")
    keeping = Autosave(context.sessions, tmp_path, context)
    (left,) = keeping.left_behind()
    assert left.session.model.name == "stories"
    assert left.session.tokens >= 4
    assert context.sessions.restore(left.session, None)
    settle(context)
    assert context.trace is not None
    assert len(context.trace.token_ids) == left.session.tokens
    keeping.end()


def test_a_running_window_is_not_offered_and_closing_leaves_nothing(
    make_context: Make, tmp_path: Path
) -> None:
    context = make_context("tiny", "The cat")
    keeping = Autosave(context.sessions, tmp_path, context)
    context.move(-1)
    assert wait_until(keeping.path.exists)
    other = tmp_path / "4000000.session.json"
    other.write_text(keeping.path.read_text())
    lock = QLockFile(f"{other}.lock")
    assert lock.tryLock(0)
    assert keeping.left_behind() == ()
    lock.unlock()
    assert [each.path for each in keeping.left_behind()] == [other]
    keeping.end()
    assert not keeping.path.exists()
    context.move(-1)
    assert not keeping.path.exists()


def test_a_damaged_file_is_not_offered(make_context: Make, tmp_path: Path) -> None:
    context = make_context("tiny", "The cat")
    keeping = Autosave(context.sessions, tmp_path, context)
    (tmp_path / "1.session.json").write_text("{")
    assert keeping.left_behind() == ()
    assert not (tmp_path / "1.session.json").exists()
    keeping.end()


def test_half_written_files_of_killed_windows_are_cleared_away(
    make_context: Make, tmp_path: Path
) -> None:
    old, fresh = tmp_path / ".a.part", tmp_path / ".b.part"
    for path in (old, fresh):
        path.write_text("{")
    os.utime(old, (0, 0))
    context = make_context("tiny", "The cat")
    keeping = Autosave(context.sessions, tmp_path, context)
    assert keeping.left_behind() == ()
    assert [path.name for path in tmp_path.glob(".*.part")] == [fresh.name]
    keeping.end()


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(
    make_context: Make, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file")
    context = make_context("tiny", "The cat")
    keeping = Autosave(context.sessions, tmp_path / "taken", context)
    keeping.write()
    context.move(-1)
    assert context.cursor is not None
    keeping.end()


def test_the_window_offers_opens_and_discards(
    qtbot: QtBot, make_context: Make, tmp_path: Path
) -> None:
    one = make_context("stories", "Once upon a time", tokens=4)
    for name in ("1", "2", "3"):
        path = one.sessions.save(tmp_path / FOLDER / name)
        assert path is not None
    two = make_context("tiny", "The cat")
    window = MainWindow(two.style)
    window.resize(QSize(1440, 900))
    window.show()
    workspace = window.furnish(two)
    qtbot.waitExposed(window)
    keeping = workspace.keeping
    keeping.keep_in(tmp_path)
    assert keeping.offer_bar.isVisible()
    assert "3 sessions were not closed. The latest: stories" in keeping.offer_bar.words.text()
    said: list[str] = []
    two.notice.connect(said.append)
    offered = keeping.offered
    assert offered is not None
    offered.path.unlink()  # by another window, to which it was offered as well
    qtbot.mouseClick(keeping.offer_bar.accept, LEFT)
    assert said == ["Another window has opened or discarded that session."]
    assert two.model is not None
    assert two.model.name == "tiny"
    assert "2 sessions" in keeping.offer_bar.words.text()
    qtbot.mouseClick(keeping.offer_bar.accept, LEFT)
    settle(two)
    assert two.model is not None
    assert two.model.name == "stories"
    assert two.trace is not None
    assert one.trace is not None
    assert two.trace.token_ids == one.trace.token_ids
    assert keeping.offer_bar.isVisible()  # there is another one
    qtbot.mouseClick(keeping.offer_bar.decline, LEFT)
    assert not keeping.offer_bar.isVisible()
    own = [each.name for each in (tmp_path / FOLDER).glob("*.session.json")]
    assert own in ([], [f"{os.getpid()}.session.json"])
    window.close()
    window.deleteLater()
    assert list((tmp_path / FOLDER).glob("*.session.json")) == []


def test_the_workspace_and_its_panels_are_saved_and_come_back(
    qtbot: QtBot, make_context: Make, tmp_path: Path
) -> None:
    def show(context: AppContext) -> MainWindow:
        window = MainWindow(context.style)
        window.resize(QSize(1440, 900))
        window.show()
        window.furnish(context)
        qtbot.waitExposed(window)
        return window

    first = show(make_context("stories", "Once upon a time", tokens=2))
    assert first.workspace is not None
    first.workspace.show_view(View.LEARN)
    first.workspace.arrangement.docks["head-training"].hide()
    path = first.workspace.context.sessions.save(tmp_path / "a")
    assert path is not None
    assert read(path).layout["view"] == "Learn"
    second = show(make_context("tiny", "The cat"))
    assert second.workspace is not None
    second.workspace.open_model(str(path))
    settle(second.workspace.context)
    assert second.workspace.desks.view is View.LEARN
    assert not second.workspace.arrangement.docks["head-training"].isVisible()
    assert second.workspace.arrangement.docks["evidence"].isVisible()
    for window in (first, second):
        window.close()
        window.deleteLater()
