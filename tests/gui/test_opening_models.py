"""Opening models in the window: dialogs, drops, the menu, progress, refusals, and what stays."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from huggingface_hub import close_session
from PySide6.QtCore import QMimeData, QPointF, QSettings, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QFileDialog, QInputDialog, QWidget
from pytestqt.qtbot import QtBot
from safetensors.numpy import load_file, save_file

from decoder_gui import opening
from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger import library
from decoder_gui.engine_link import Busy
from decoder_gui.main_window import MainWindow
from decoder_gui.panels.token_strip import TokenStripPanel
from decoder_gui.recent import MOST, RecentModels
from decoder_gui.viewdata.token_strip import CHIPS
from decoder_gui.waiting import wait_until
from decoder_gui.workspace import Workspace
from model.checkpoints import LoadedModel
from tests.debugger.hub_server import Hub, running_hub, use_hub
from tests.gui.conftest import settle

GOLDEN = Path(__file__).parent.parent / "model" / "golden"


@pytest.fixture
def settings(tmp_path: Path) -> QSettings:
    return QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of one's own, to move and to spoil."""
    return Path(shutil.copytree(GOLDEN / "tied", tmp_path / "mine"))


@pytest.fixture
def workspace(tiny_context: AppContext, settings: QSettings, qtbot: QtBot) -> Iterator[Workspace]:
    window = MainWindow(tiny_context.style, settings)
    window.show()
    workspace = window.furnish(tiny_context)
    qtbot.waitExposed(window)
    yield workspace
    window.close()
    window.deleteLater()
    QApplication.sendPostedEvents(None, 0)
    QApplication.processEvents()


def answering(answer: tuple[str, bool], *_: object) -> tuple[str, bool]:
    return answer


def name_in_hand(context: AppContext) -> str:
    assert context.model is not None
    return context.model.name


def drop(widget: QWidget, *places: Path) -> bool:
    """Drag files over a widget and let go; whether it or one around it accepted them."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(place)) for place in places])
    middle = widget.rect().center()
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    entering = QDragEnterEvent(middle, Qt.DropAction.CopyAction, data, buttons, keys)
    QApplication.sendEvent(widget, entering)
    dropping = QDropEvent(QPointF(middle), Qt.DropAction.CopyAction, data, buttons, keys)
    QApplication.sendEvent(widget, dropping)
    return entering.isAccepted()


@pytest.mark.parametrize("inside", ["", "model.safetensors", "config.json"])
def test_a_folder_or_a_file_in_it_can_be_dropped(
    workspace: Workspace, folder: Path, inside: str
) -> None:
    window = workspace.window()
    assert isinstance(window, MainWindow)
    assert drop(window, folder / inside)
    settle(workspace.context)
    assert name_in_hand(workspace.context) == "mine"


def test_nothing_inside_the_window_takes_a_dropped_file_for_itself(
    workspace: Workspace, folder: Path
) -> None:
    for view in workspace.findChildren(QAbstractScrollArea):
        assert not view.acceptDrops()
        assert not view.viewport().acceptDrops()
    prompt = workspace.top_bar.prompt
    before = prompt.text()
    assert drop(prompt, folder)
    settle(workspace.context)
    assert name_in_hand(workspace.context) == "mine"
    assert prompt.text() == before


def test_the_menu_opens_files_and_folders_and_names(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = workspace.context
    opened: list[str] = []
    monkeypatch.setattr(context, "open_model", opened.append)
    answers = QFileDialog
    monkeypatch.setattr(answers, "getOpenFileName", lambda *_: (str(folder / "a.gguf"), ""))
    monkeypatch.setattr(answers, "getExistingDirectory", lambda *_: str(folder))
    for answer in ((" owner/name ", True), ("hf:owner/name@v1", True), ("x", False), ("", True)):
        monkeypatch.setattr(QInputDialog, "getText", partial(answering, answer))
        workspace.top_bar.name_requested.emit()
    workspace.top_bar.file_requested.emit()
    workspace.top_bar.folder_requested.emit()
    names = ["hf:owner/name", "hf:owner/name@v1"]
    assert opened == [*names, str(folder / "a.gguf"), str(folder)]
    monkeypatch.setattr(answers, "getExistingDirectory", lambda *_: "")
    workspace.top_bar.folder_requested.emit()
    assert len(opened) == 4


def test_a_model_that_was_opened_is_offered_again_until_it_is_gone(
    workspace: Workspace, settings: QSettings, folder: Path
) -> None:
    context, menu = workspace.context, workspace.top_bar.model_menu
    context.open_model(str(folder))
    settle(context)
    context.open_model("tiny")
    settle(context)

    def offered() -> list[tuple[str, bool]]:
        menu.aboutToShow.emit()
        return [(a.toolTip(), a.isEnabled()) for a in menu.actions() if "mine" in a.text()]

    assert offered() == [(f"mine: in {folder.parent}", True)]
    next(action for action in menu.actions() if "mine" in action.text()).trigger()
    settle(context)
    assert name_in_hand(context) == "mine"
    shutil.rmtree(folder)
    assert offered() == [(f"mine: not there any more, was in {folder.parent}", False)]
    assert [one.spec for one in RecentModels(settings).models()] == [str(folder)]


def test_recent_models_are_eight_at_most_the_latest_first(
    settings: QSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recent = RecentModels(settings)
    recent.add("stories")
    recent.add("")
    assert recent.models() == ()
    monkeypatch.chdir(tmp_path)
    for number in range(10):
        recent.add(f"model-{number}")
    recent.add("hf:a/b")
    recent.add("model-5")
    specs = [one.spec for one in recent.models()]
    assert len(specs) == MOST
    assert specs[:3] == [str(tmp_path / "model-5"), "hf:a/b", str(tmp_path / "model-9")]
    assert [one.missing for one in recent.models()][:3] == [True, False, True]
    settings.sync()
    again = QSettings(settings.fileName(), QSettings.Format.IniFormat)
    assert RecentModels(again).models() == recent.models()
    assert recent.models()[0].opens("model-5")
    settings.setValue("models/recent", 7)
    assert RecentModels(settings).models() == ()
    settings.setValue("models/recent", "/only/one")
    assert [one.spec for one in RecentModels(settings).models()] == ["/only/one"]


def test_what_it_needs_and_how_far_it_is_are_shown_while_it_is_read(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = workspace.context
    seen: list[Busy] = []
    monkeypatch.setattr("decoder_gui.engine_link.BUSY_AFTER", -1.0)
    context.changed.connect(lambda _: seen.append(context.busy) if context.busy else None)
    slow_steps(monkeypatch)
    context.open_model(str(folder))
    assert wait_until(lambda: any(busy.details for busy in seen))
    assert workspace.top_bar.notice.startswith("mine: ")
    assert "parameters" in workspace.top_bar.notice
    assert "of cache for" in workspace.top_bar.notice
    assert name_in_hand(context) == "tiny"
    monkeypatch.setattr("decoder_gui.workspace.OPENED_MS", 50)
    settle(context)
    assert name_in_hand(context) == "mine"
    assert wait_until(lambda: workspace.top_bar.notice == "")
    fractions = [busy.fraction for busy in seen if busy.fraction is not None]
    assert fractions == sorted(fractions)
    assert any("Reading blocks.1." in busy.text for busy in seen)


def slow_steps(monkeypatch: pytest.MonkeyPatch, gate: Callable[[], bool] | None = None) -> None:
    """Let the opening of a model wait a little at every step, or until a gate opens."""
    steps = library.model_steps

    def slowly(spec: str) -> library.Steps:
        inner = steps(spec)
        try:
            while True:
                step = next(inner)
                yield step
                pause(gate)
        except StopIteration as end:
            loaded: LoadedModel = end.value
            return loaded

    monkeypatch.setattr(library, "model_steps", slowly)


def pause(gate: Callable[[], bool] | None) -> None:
    sleep(0.01)
    while gate is not None and not gate():
        sleep(0.01)


def test_opening_can_be_cancelled_and_the_model_in_hand_stays(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = workspace.context
    trace = context.trace
    notices: list[str] = []
    context.notice.connect(notices.append)
    monkeypatch.setattr("decoder_gui.engine_link.BUSY_AFTER", -1.0)
    opened = [False]
    slow_steps(monkeypatch, lambda: opened[0])
    context.open_model(str(folder))
    assert wait_until(lambda: context.busy is not None and "Reading" in context.busy.text)
    context.cancel()
    opened[0] = True
    settle(context)
    assert notices == ["Cancelled. The model in hand stays."]
    assert name_in_hand(context) == "tiny"
    assert context.trace is trace
    assert context.busy is None
    context.move(-1)
    assert context.cursor is not None


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with running_hub() as running:
        use_hub(monkeypatch, running.url, tmp_path / "cache")
        running.add("someone/tied", GOLDEN / "tied")
        yield running
        close_session()


def test_a_download_is_shown_and_can_be_cancelled_and_begun_again(
    hub: Hub, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = workspace.context
    monkeypatch.setattr("decoder_gui.engine_link.BUSY_AFTER", -1.0)
    hub.gate.clear()
    context.open_model("hf:someone/tied")
    assert wait_until(lambda: context.busy is not None and "Downloading" in context.busy.text)
    assert " of " in context.busy.text if context.busy else False
    assert "someone/tied: " in workspace.top_bar.notice
    assert "to download" in workspace.top_bar.notice
    context.cancel()
    hub.gate.set()
    settle(context)
    assert name_in_hand(context) == "tiny"
    assert workspace.top_bar.notice == "Cancelled. The model in hand stays."
    assert workspace.recent.models() == ()
    context.open_model("hf:someone/tied")
    settle(context)
    assert name_in_hand(context) == "someone/tied"
    assert [one.spec for one in workspace.recent.models()] == ["hf:someone/tied"]
    context.open_model("hf:someone/else")
    settle(context)
    assert "no such repository" in workspace.top_bar.notice
    assert name_in_hand(context) == "someone/tied"


def test_only_a_model_that_does_not_move_is_given_up(
    tiny_context: AppContext, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decoder_gui.engine_link.BUSY_AFTER", -1.0)
    monkeypatch.setattr(opening, "wait_until", lambda done: wait_until(done, 400))
    gate = [True]
    slow_steps(monkeypatch, lambda: gate[0])
    tiny_context.open_model(str(folder))
    opening._settle(tiny_context, [])
    assert name_in_hand(tiny_context) == "mine"
    gate[0] = False
    tiny_context.open_model(str(GOLDEN / "bare"))
    with pytest.raises(opening.Refused, match="not moved"):
        opening._settle(tiny_context, [])
    gate[0] = True
    settle(tiny_context)


def test_a_model_that_will_not_fit_is_refused_with_numbers_and_the_one_in_hand_stays(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = workspace.context
    monkeypatch.setattr(library, "available_memory", lambda: 200 * 2**20)
    context.open_model(str(folder))
    settle(context)
    notice = workspace.top_bar.notice
    assert notice.startswith("There is not enough memory for mine: it needs 256.")
    assert "200.0 MiB are available" in notice
    assert name_in_hand(context) == "tiny"
    assert [one.spec for one in workspace.recent.models()] == []


def test_a_broken_model_leaves_the_one_in_hand(workspace: Workspace, folder: Path) -> None:
    context = workspace.context
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    context.open_model(str(folder))
    settle(context)
    assert str(weights) in workspace.top_bar.notice
    assert name_in_hand(context) == "tiny"
    context.take_landing()
    settle(context)
    assert context.trace is not None
    assert len(context.trace.steps) == 3


def test_a_larger_context_than_the_memory_holds_is_refused(
    make_context: Callable[..., AppContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context("stories", "Once", tokens=0)
    context.set_capacity(32)
    settle(context)
    notices: list[str] = []
    context.notice.connect(notices.append)
    monkeypatch.setattr("decoder_gui.debugger.engine_room.available_memory", lambda: 1000)
    context.set_capacity(64)
    settle(context)
    assert "A context of 64 positions needs" in notices[-1]
    assert "1000 B of memory are available" in notices[-1]
    assert context.capacity == 32


def test_a_context_nobody_asked_for_is_sensible_and_said(
    make_context: Callable[..., AppContext], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.checkpoints.estimate.CACHE_MOST", 1000)
    context = make_context("tiny", "The cat", tokens=1)
    remarks: list[str] = []
    context.remarked.connect(remarks.append)
    context.open_model(str(folder))
    settle(context)
    assert context.model is not None
    limit = context.model.shape.context_length
    assert context.capacity < limit
    assert remarks[0].startswith(f"The context is {context.capacity} of the {limit} positions")
    context.open_model(str(folder), capacity=limit)
    settle(context)
    assert context.capacity == limit
    assert len(remarks) == 1


def test_checks_of_a_large_model_wait_until_they_are_asked_for(
    make_context: Callable[..., AppContext], monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    monkeypatch.setattr("decoder_gui.context.CHECKS_UP_TO", 0)
    context = make_context("tiny", "The cat", tokens=1)
    assert context.checks == ()
    assert not context.checks_pending
    panel = TokenStripPanel(context)
    qtbot.addWidget(panel)
    panel.resize(1400, 120)
    panel.show()
    qtbot.waitExposed(panel)
    waiting = [words for words, _ in panel.chips.shown() if "not checked" in words]
    assert len(waiting) == len(CHIPS)
    panel.chips.chip_clicked.emit(next(iter(CHIPS)))
    settle(context)
    assert context.checks
    assert all(result.holds for result in context.checks)
    panel.redraw(Change.ALL)
    assert not [words for words, _ in panel.chips.shown() if "not checked" in words]


def test_warnings_are_remarks_and_no_refusals(
    make_context: Callable[..., AppContext], folder: Path
) -> None:
    tensors = dict(load_file(folder / "model.safetensors"))
    tensors["transformer.ln_f.weight"][0] = np.nan
    save_file(tensors, folder / "model.safetensors")
    context = make_context("tiny", "The cat", tokens=1)
    heard: list[tuple[str, str]] = []
    context.notice.connect(lambda text: heard.append(("notice", text)))
    context.remarked.connect(lambda text: heard.append(("remark", text)))
    context.open_model(str(folder))
    settle(context)
    assert [kind for kind, _ in heard] == ["remark"]
    assert "1 value that is NaN or infinite" in heard[0][1]
