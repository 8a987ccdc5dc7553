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
    held: list[bool] = []  # it may hold for a moment only: asking once more would miss it

    def look() -> None:
        if not held and done():
            held.append(True)
            loop.quit()

    ticker.timeout.connect(look)
    limit.setSingleShot(True)
    limit.timeout.connect(loop.quit)
    ticker.start()
    limit.start(timeout_ms)
    loop.exec()
    ticker.stop()
    limit.stop()
    return bool(held)
