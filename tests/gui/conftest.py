"""Fixtures of the window's tests: contexts with a worker, and nothing left running afterwards."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtWidgets import QApplication

from decoder_gui.context import AppContext
from decoder_gui.theme.stylesheet import apply_style
from decoder_gui.waiting import wait_until

STORY = "Once upon a time there was a little cat named Tom."


@pytest.fixture(autouse=True)
def no_thread_is_left(qapp: QApplication) -> Iterator[None]:
    """Every test ends with the threads that it began with."""
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert not left, f"threads left running: {left}"


@pytest.fixture(autouse=True)
def checks_where_asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks after a run take most of the time of a test and matter to few: see the marker."""
    if request.node.get_closest_marker("checked") is None:
        monkeypatch.setattr("decoder_gui.context.CHECKS_UP_TO", 0)


@pytest.fixture
def make_context(qapp: QApplication) -> Iterator[Callable[..., AppContext]]:
    """A function that opens a model and runs a prompt, and waits for both (and for checks)."""
    made: list[AppContext] = []

    def make(model: str, prompt: str, tokens: int = 0, **sampling: object) -> AppContext:
        context = AppContext()
        made.append(context)
        apply_style(qapp, context.style)
        if sampling:
            context.set_sampling(**sampling)
        context.open_model(model)
        assert wait_until(lambda: context.idle)
        context.prefill(prompt, tokens=tokens)
        settle(context)
        return context

    # As in the product: a cycle with Qt objects in it must not be collected by the worker.
    gc.disable()
    gc.freeze()  # what was there before need not be looked through afterwards
    yield make
    for context in made:
        context.close()
    made.clear()
    gc.collect()
    gc.unfreeze()
    gc.enable()


@pytest.fixture
def stories_context(make_context: Callable[..., AppContext]) -> AppContext:
    """The bundled model after a prefill and five decoded tokens."""
    return make_context("stories", STORY, tokens=6)


@pytest.fixture
def tiny_context(make_context: Callable[..., AppContext]) -> AppContext:
    """The tiny decoder after the prefill of "The cat" and one decoded token, greedily."""
    return make_context("tiny", "The cat", tokens=2, temperature=0.0)


def settle(context: AppContext) -> None:
    """Wait until the worker is idle and everything that it said has arrived."""
    assert wait_until(lambda: context.idle and not context.checks_pending)
