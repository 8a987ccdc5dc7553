"""The engine's thread: one queue of tagged jobs, cancelled between events, drained by a timer.

A plain thread with two queues, and no Qt in it: nothing is emitted from the thread, so nothing can
run in the wrong one. The window drains the results every 16 ms in bounded batches.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue

from model.errors import DecoderError

Job = Callable[[], Iterator[object]]

HELD_AT_MOST = 0.25  # s that the thread rests for a window that does not come back


@dataclass(frozen=True)
class Request:
    """One job: a newer request of the same tag replaces an older one that has not ended."""

    number: int
    tag: str
    job: Job


@dataclass(frozen=True)
class Started:
    """A job has begun."""

    number: int
    tag: str


@dataclass(frozen=True)
class Progressed:
    """Something that a job yielded."""

    number: int
    tag: str
    update: object


@dataclass(frozen=True)
class Ended:
    """A job is over.

    ``refusal`` is the sentence of a DecoderError, ``crash`` the text of an unforeseen exception;
    both empty when it ran to its end.
    """

    number: int
    tag: str
    cancelled: bool = False
    refusal: DecoderError | None = None
    crash: str = ""


Report = Started | Progressed | Ended


class Worker:
    """Runs jobs one after another in a thread of its own.

    A job is a function that returns an iterator; what it yields is reported, and between two of
    its items it can be cancelled. Everything a job touches belongs to this thread.
    """

    def __init__(self) -> None:
        self.reports: deque[Report] = deque()
        self._requests: SimpleQueue[Request | None] = SimpleQueue()
        self._newest: dict[str, int] = {}
        self._cancelled_up_to: dict[str, int] = {}
        self._next = 0
        self._outstanding = 0
        self._free = threading.Event()
        self._free.set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="decoder-gui engine", daemon=True)
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether every job has ended (its reports may still be waiting)."""
        with self._lock:
            return self._outstanding == 0

    def submit(self, tag: str, job: Job, *, replace: bool = True) -> int:
        """Queue a job; with ``replace`` older ones of the same tag are cancelled."""
        with self._lock:
            number = self._next
            self._next += 1
            if replace:
                self._cancelled_up_to[tag] = number - 1
            self._newest[tag] = number
            self._outstanding += 1
        self._requests.put(Request(number, tag, job))
        return number

    def cancel(self, tag: str | None = None) -> None:
        """Cancel every job queued or running, or those of one tag."""
        with self._lock:
            for name in [tag] if tag is not None else list(self._newest):
                self._cancelled_up_to[name] = self._next - 1

    def hold(self) -> None:
        """Rest after the item in hand, until :meth:`release` but never long.

        Two threads of Python share one interpreter, and every call into Qt may lose it to the
        other: a picture that takes 20 ms alone takes 200 ms beside a job. So the window goes first.
        """
        self._free.clear()

    def release(self) -> None:
        """Go on."""
        self._free.set()

    def stop(self) -> None:
        """Cancel everything and wait for the thread to end."""
        self.cancel()
        self.release()
        self._requests.put(None)
        self._thread.join()

    def _is_cancelled(self, request: Request) -> bool:
        with self._lock:
            return request.number <= self._cancelled_up_to.get(request.tag, -1)

    def _wait_while_held(self) -> None:
        if not self._free.wait(HELD_AT_MOST):
            self._free.set()

    def _loop(self) -> None:
        while (request := self._requests.get()) is not None:
            # Reported first: whoever finds the worker idle and no report waiting stops looking.
            self.reports.append(self._run(request))
            with self._lock:
                self._outstanding -= 1

    def _run(self, request: Request) -> Ended:
        number, tag = request.number, request.tag
        self._wait_while_held()
        if self._is_cancelled(request):
            return Ended(number, tag, cancelled=True)
        self.reports.append(Started(number, tag))
        items: Iterator[object] | None = None
        try:
            items = request.job()
            for update in items:
                self.reports.append(Progressed(number, tag, update))
                self._wait_while_held()
                if self._is_cancelled(request):
                    return Ended(number, tag, cancelled=True)
        except DecoderError as refusal:
            return Ended(number, tag, refusal=refusal)
        except Exception:  # the window shows it as text to copy; the session stays usable
            return Ended(number, tag, crash=traceback.format_exc())
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
        return Ended(number, tag)
