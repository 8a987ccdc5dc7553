"""Cycles are collected in the GUI thread, whoever made them."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from decoder_gui.collecting import Collector


class Cycle:
    """Refers to itself and notes which thread ends it."""

    ended_in: list[int]

    def __init__(self, ended_in: list[int]) -> None:
        self.me, self.ended_in = self, ended_in

    def __del__(self) -> None:
        self.ended_in.append(threading.get_ident())


@pytest.fixture
def collector(qtbot: QtBot) -> Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()


def test_another_thread_never_collects(collector: Collector, qtbot: QtBot) -> None:
    ended_in: list[int] = []

    def work() -> None:
        # Far beyond the threshold at which Python would collect by itself.
        for _ in range(5 * gc.get_threshold()[0]):
            Cycle(ended_in)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended_in == []
    qtbot.waitUntil(lambda: len(ended_in) > 0, timeout=5000)
    assert set(ended_in) == {threading.get_ident()}


def test_it_is_given_back(qtbot: QtBot) -> None:
    collector = Collector()
    assert not gc.isenabled()
    collector.stop()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
