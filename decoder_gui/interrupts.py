"""Ctrl+C in the terminal, and a session that ends, close the window as its own button does.

Python runs a signal's handler between two of its instructions, and a window at rest runs none. So
the signal also writes to a socket, and Qt watches its other end.
"""

from __future__ import annotations

import contextlib
import signal
import socket
from types import FrameType, TracebackType

from PySide6.QtCore import QCoreApplication, QObject, QSocketNotifier

_FROM_SIGNAL = 128  # a shell's status of a process that a signal ended is 128 and its number
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Interrupts(QObject):
    """Inside a ``with``, the usual signals end the event loop with a shell's exit status."""

    def __init__(self, application: QCoreApplication) -> None:
        super().__init__()
        self._application = application
        self._read, self._write = socket.socketpair()
        for end in (self._read, self._write):
            end.setblocking(False)
        self._notifier = QSocketNotifier(self._read.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._drain)
        self._before: dict[signal.Signals, object] = {}
        self._wakeup = -1

    def __enter__(self) -> None:
        self._wakeup = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        for name in _NAMES:
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._quit)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._wakeup)
        self._notifier.setEnabled(False)
        self._read.close()
        self._write.close()

    def _quit(self, number: int, frame: FrameType | None) -> None:
        self._application.exit(_FROM_SIGNAL + number)

    def _drain(self) -> None:
        """Being called is the purpose: Python looks for signals before it comes here."""
        with contextlib.suppress(BlockingIOError):
            self._read.recv(64)
