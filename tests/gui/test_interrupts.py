"""Ctrl+C and the end of a session close a window at rest, in order."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from decoder_gui.interrupts import Interrupts

TOO_LONG_MS = 10_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_idle_event_loop(qapp: QApplication, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    # Sent from another thread: nothing in this one runs Python until the loop is left.
    sender = threading.Timer(0.1, os.kill, (os.getpid(), number))
    guard = QTimer(singleShot=True, interval=TOO_LONG_MS)
    guard.timeout.connect(qapp.quit)
    with Interrupts(qapp):
        assert signal.getsignal(number) != before
        sender.start()
        guard.start()
        status = qapp.exec()
    sender.join()
    assert guard.isActive()
    guard.stop()
    assert status == 128 + number
    assert signal.getsignal(number) == before
    assert signal.set_wakeup_fd(-1) == -1
