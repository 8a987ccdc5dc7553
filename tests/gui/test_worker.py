"""The worker: order, replacement by tag, cancelling between events, and errors as reports."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from functools import partial

import pytest

from decoder_gui.waiting import wait_until
from decoder_gui.worker import Ended, Progressed, Report, Started, Worker
from model.errors import EmptyPrompt


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.stop()


def finish(worker: Worker) -> list[Report]:
    assert wait_until(lambda: worker.idle)
    reports = list(worker.reports)
    worker.reports.clear()
    return reports


def test_jobs_run_in_order_in_one_thread(worker: Worker) -> None:
    def job(name: str) -> Iterator[object]:
        yield name, threading.current_thread().name

    for name in "abc":
        worker.submit("run", partial(job, name), replace=False)
    updates = [report.update for report in finish(worker) if isinstance(report, Progressed)]
    assert [update[0] for update in updates] == ["a", "b", "c"]  # type: ignore[index]
    assert {update[1] for update in updates} == {"decoder-gui engine"}  # type: ignore[index]


def test_a_worker_is_idle_only_once_its_last_report_waits(worker: Worker) -> None:
    idle: list[bool] = []

    class Watched(deque[Report]):
        def append(self, report: Report) -> None:
            idle.append(worker.idle)
            super().append(report)

    worker.reports = Watched()
    worker.submit("run", lambda: iter(("something",)))
    assert wait_until(lambda: worker.idle)
    assert len(worker.reports) == 3
    assert idle == [False] * 3


def test_a_newer_request_of_a_tag_replaces_the_older(worker: Worker) -> None:
    gate = threading.Event()

    def blocked() -> Iterator[object]:
        gate.wait(10)
        yield "blocked"

    def job(name: str) -> Iterator[object]:
        yield name

    worker.submit("other", blocked)
    old = worker.submit("look", lambda: job("old"))
    new = worker.submit("look", lambda: job("new"))
    gate.set()
    reports = finish(worker)
    assert Ended(old, "look", cancelled=True) in reports
    assert Ended(new, "look") in reports
    updates = [report.update for report in reports if isinstance(report, Progressed)]
    assert updates == ["blocked", "new"]


def test_cancel_stops_between_two_events_and_closes_the_job(worker: Worker) -> None:
    reached, closed = threading.Event(), threading.Event()

    def endless() -> Iterator[object]:
        try:
            while True:
                reached.set()
                yield None
        finally:
            closed.set()

    worker.submit("run", endless)
    assert reached.wait(10)
    worker.cancel()
    ended = [report for report in finish(worker) if isinstance(report, Ended)]
    assert [report.cancelled for report in ended] == [True]
    assert closed.is_set()


def test_a_refusal_and_a_crash_are_told_apart(worker: Worker) -> None:
    def refuses() -> Iterator[object]:
        yield 1
        raise EmptyPrompt

    def crashes() -> Iterator[object]:
        yield 1 / 0

    worker.submit("a", refuses)
    worker.submit("b", crashes)
    reports = finish(worker)
    refusal, crash = (report for report in reports if isinstance(report, Ended))
    assert isinstance(refusal.refusal, EmptyPrompt)
    assert not refusal.crash
    assert crash.refusal is None
    assert "ZeroDivisionError" in crash.crash
    assert sum(isinstance(report, Started) for report in reports) == 2


def test_it_goes_on_after_a_crash(worker: Worker) -> None:
    def broken() -> Iterator[object]:
        raise RuntimeError("not even an iterator")

    worker.submit("a", broken)
    number = worker.submit("b", lambda: iter(["fine"]))
    reports = finish(worker)
    assert Ended(number, "b") in reports
    assert any(isinstance(report, Ended) and "not even" in report.crash for report in reports)


def test_a_held_worker_rests_and_goes_on_when_released(worker: Worker) -> None:
    reached = threading.Event()

    def job() -> Iterator[object]:
        reached.set()
        yield 1

    worker.hold()
    worker.submit("run", job)
    assert not reached.wait(0.05)  # the job does not even begin
    worker.release()
    assert reached.wait(5)
    finish(worker)


def test_a_worker_that_nobody_releases_goes_on_by_itself(worker: Worker) -> None:
    worker.hold()
    worker.submit("run", lambda: iter([1, 2, 3]))
    reports = finish(worker)
    assert [each.update for each in reports if isinstance(each, Progressed)] == [1, 2, 3]


def test_a_held_worker_can_be_stopped() -> None:
    worker = Worker()
    worker.hold()
    worker.submit("run", lambda: iter([1]))
    worker.stop()
    assert worker.idle
