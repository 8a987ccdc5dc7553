"""Captures in the window: saved whole, opened without the model, and refused what needs weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor, last
from decoder_gui.main_window import MainWindow
from decoder_gui.view import View
from decoder_gui.viewdata.values import build_values
from model.capture import capture_forward
from model.operations import Kind
from tests.captures.test_capture import decoded_steps
from tests.gui.conftest import settle


def saved(context: AppContext, path: Path) -> list[str]:
    """Save the run, and bring back what was said."""
    said: list[str] = []
    context.notice.connect(said.append)
    assert context.captures.save(path)
    settle(context)
    context.notice.disconnect(said.append)
    return said


def opened(context: AppContext, path: Path) -> AppContext:
    context.open_model(str(path))
    settle(context)
    return context


@pytest.mark.checked
def test_a_run_is_saved_and_opened_with_the_same_numbers(
    stories_context: AppContext, make_context: Callable[..., AppContext], tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    said = saved(stories_context, path)
    assert any(str(path) in sentence for sentence in said)
    ours, text = stories_context.trace, stories_context.prompt
    assert ours is not None
    context = opened(make_context("tiny", "The cat"), path)
    theirs = context.trace
    assert theirs is not None
    assert context.model is not None
    assert context.model.family == "capture, GPT-2"
    assert context.prompt == text
    assert context.sampling == stories_context.sampling
    assert context.cursor == last(theirs)
    assert theirs.token_ids == ours.token_ids
    assert [step.uniform for step in theirs.steps] == [step.uniform for step in ours.steps]
    for step, name, array in ours.held():
        held = theirs.array(step, name)
        assert held is not None
        assert held.tobytes() == array.tobytes()
    verdicts = {result.name: result for result in context.checks}
    assert all(result.holds for result in verdicts.values())
    assert {name for name, each in verdicts.items() if not each.examined} == {
        "causal-behaviour",
        "cache-equals-full",
    }


def test_nothing_more_is_computed_and_the_reason_is_said(
    stories_context: AppContext, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    saved(stories_context, path)
    context = opened(stories_context, path)
    trace = context.trace
    assert trace is not None
    before = trace.token_ids
    said: list[str] = []
    context.notice.connect(said.append)

    def take_earlier() -> None:
        context.go_first()
        context.take(7)

    for act in (
        lambda: context.move(1),
        lambda: context.take(7),
        take_earlier,
        context.resample,
        lambda: context.set_fault("no-mask", True),
        lambda: context.prefill("another prompt"),
    ):
        said.clear()
        act()
        settle(context)
        assert any("a capture holds no weights" in sentence.lower() for sentence in said)
        assert context.trace is not None
        assert context.trace.token_ids == before
        assert not context.faults
    context.go_first()
    context.move(1)
    context.open_model("tiny")
    settle(context)
    assert not context.recorded


def test_arithmetic_is_shown_where_its_operands_are_recorded(
    stories_context: AppContext, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    saved(stories_context, path)
    context = opened(stories_context, path)
    trace = context.trace
    assert trace is not None
    worked, without = set(), {}
    for index, operation in enumerate(trace.operations):
        context.seek(Cursor(0, index))
        moment = context.moment
        assert moment is not None
        view = build_values(moment)
        assert view is not None
        if view.derivation is not None:
            assert view.derivation.agrees, operation.name
            worked.add(operation.kind)
        else:
            without[operation.kind] = view.without
    assert worked >= {Kind.SCORES, Kind.PATTERN, Kind.MIX, Kind.RESIDUAL, Kind.ACTIVATION}
    assert set(without) == {Kind.NORM, Kind.QKV, Kind.LINEAR, Kind.LOGITS}
    assert all(words.startswith("A capture holds no weights") for words in without.values())


@pytest.mark.parametrize("kept", ["attn.pattern", "logits", "resid_post"])
def test_every_panel_and_view_stands_with_little_recorded(
    make_context: Callable[..., AppContext], tmp_path: Path, kept: str
) -> None:
    path = tmp_path / "run.safetensors"
    step = decoded_steps("stories", (5, 6, 7), ())[0]
    capture_forward(
        path, step.token_ids, {n: a for n, a in step.arrays.items() if n.endswith(kept)}
    )
    context = make_context("tiny", "The cat")
    window = MainWindow(context.style)
    window.resize(1440, 900)
    window.show()
    workspace = window.furnish(context)
    opened(context, path)
    for view in View:
        workspace.show_view(view)
        context.go_first()
        settle(context)
        context.move(1)
        settle(context)
        window.grab()
    trace = context.trace
    assert trace is not None
    assert {name.endswith(kept) or ".resid_" in name for _, name, _ in trace.held()} == {True}
    window.close()
    window.deleteLater()
    QApplication.sendPostedEvents(None, 0)
    QApplication.processEvents()
