"""Waiting for something without stopping the event loop; for start-up, snapshots and tests."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEventLoop, QTimer

TIMEOUT_MS = 120_000


def wait_until(done: Callable[[], bool], timeout_ms: int = TIMEOUT_MS) -> bool:
    """Let the event loop run until something holds; False if it did not in time."""
    if done():
        return True
    loop = QEventLoop()
    ticker, limit = QTimer(), QTimer()
    ticker.setInterval(5)
    ticker.timeout.connect(lambda: loop.quit() if done() else None)
    limit.setSingleShot(True)
    limit.timeout.connect(loop.quit)
    ticker.start()
    limit.start(timeout_ms)
    loop.exec()
    ticker.stop()
    limit.stop()
    return done()
