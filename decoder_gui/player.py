"""Plays a run: a tick at a rate, on and off."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal


class Player(QObject):
    """Ticks ``rate`` times per second while it is on.

    Signals:
        tick(): time for another step.
    """

    tick = Signal()

    def __init__(self, parent: QObject, rate: float = 2.0) -> None:
        super().__init__(parent)
        self._rate = rate
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.tick)

    @property
    def on(self) -> bool:
        return self._timer.isActive()

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self._rate

    def set_rate(self, rate: float) -> None:
        self._rate = rate
        self._timer.setInterval(round(1000 / rate))

    def toggle(self) -> None:
        if self.on:
            self.stop()
        else:
            self._timer.start(round(1000 / self._rate))

    def stop(self) -> None:
        self._timer.stop()
