"""Between the window and the engine's thread: submits jobs and brings back what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

from PySide6.QtCore import QObject, QTimer

from decoder_gui.debugger.engine_room import EngineRoom
from decoder_gui.debugger.library import Preparing
from decoder_gui.worker import Progressed, Report, Started, Worker

DRAIN_INTERVAL = 16  # ms between two looks at the worker's reports
DRAIN_BUDGET = 0.008  # s spent on reports before the event loop gets its turn
BUSY_AFTER = 0.15  # s that a job may take before a progress line appears


@dataclass(frozen=True)
class Busy:
    """What the worker is doing, for a progress line."""

    text: str
    fraction: float | None = None  # None where the end is not known
    details: str = ""  # one sentence more, such as what a model needs


class EngineLink(QObject):
    """Owns the worker and drains its reports from a timer that only runs while there is work.

    Args:
        on_report: called in the GUI thread for every report, in order.
        on_batch: called after each batch of them.
    """

    def __init__(
        self,
        on_report: Callable[[Report], None],
        on_batch: Callable[[], None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self.room = EngineRoom()
        self._worker = Worker()
        self._on_report = on_report
        self._on_batch = on_batch
        self._texts: dict[str, str] = {}
        self._running: tuple[str, float] | None = None
        self._preparing: Preparing | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(DRAIN_INTERVAL)
        self._timer.timeout.connect(self._drain)
        # A timer of 0 ms is due only when everything that was posted is done, painting included.
        self._painted = QTimer(self)
        self._painted.setSingleShot(True)
        self._painted.timeout.connect(self._worker.release)

    @property
    def idle(self) -> bool:
        """Whether the worker has nothing to do and nothing more to tell."""
        return self._worker.idle and not self._worker.reports

    @property
    def preparing(self) -> bool:
        """Whether the job in hand has not got beyond opening a model."""
        return self._preparing is not None

    def busy(self, fraction: float | None) -> Busy | None:
        """What the worker has been doing for a while, or None.

        ``fraction`` is how far a run is; a model that is being opened has its own.
        """
        if self._running is None or self._worker.idle:
            return None
        tag, began = self._running
        text = self._texts.get(tag, "")
        if not text or perf_counter() - began <= BUSY_AFTER:
            return None
        ahead = self._preparing
        if ahead is not None:
            return Busy(ahead.text, ahead.fraction, ahead.details)
        return Busy(text, fraction)

    def submit(
        self, tag: str, text: str, job: Callable[[], Iterator[object]], *, replace: bool
    ) -> int:
        """Queue a job; ``text`` says what it does, ``replace`` drops older ones of its tag.

        Returns the number that its reports carry.
        """
        self._texts[tag] = text
        number = self._worker.submit(tag, job, replace=replace)
        self._timer.start()
        return number

    def cancel(self, tag: str | None = None) -> None:
        """Stop everything, or the jobs of a tag, at the next event."""
        self._worker.cancel(tag)

    def close(self) -> None:
        """Stop the timer and the thread; nothing is reported afterwards."""
        self._timer.stop()
        self._painted.stop()
        self._worker.stop()

    def _drain(self) -> None:
        self._worker.hold()
        self._painted.start(0)
        began = perf_counter()
        reports = self._worker.reports
        while reports and perf_counter() - began < DRAIN_BUDGET:
            report = reports.popleft()
            if isinstance(report, Started):
                self._running = (report.tag, perf_counter())
            update = report.update if isinstance(report, Progressed) else None
            if isinstance(update, Preparing):
                self._preparing = update
            self._on_report(report)
            if not isinstance(update, Preparing):
                self._preparing = None
        if not reports and self._worker.idle:
            self._timer.stop()
        self._on_batch()
