"""When the checks run: a moment after the last step, so that quick stepping is not held up."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

DELAY = 150  # ms without another step
SHOWN_AFTER = 500  # ms that verdicts are gathered before panels are redrawn for them


class CheckSchedule(QObject):
    """Knows whether verdicts on the tokens in hand are still to come.

    Signals:
        due(): run the checks now.
        verdicts(): show those that have arrived.
    """

    due = Signal()
    verdicts = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._jobs = 0
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(DELAY)
        self._timer.timeout.connect(self.due)
        self._gathering = QTimer(self)
        self._gathering.setSingleShot(True)
        self._gathering.setInterval(SHOWN_AFTER)
        self._gathering.timeout.connect(self.verdicts)

    @property
    def pending(self) -> bool:
        return self._timer.isActive() or self._jobs > 0

    def soon(self) -> None:
        """Run them once nothing has happened for a moment."""
        self._timer.start()

    def stop(self) -> None:
        """Forget what was to be run; a job that has begun is cancelled by whoever began it."""
        self._timer.stop()
        self._gathering.stop()

    def arrived(self) -> None:
        """A verdict is there; to redraw for each would hold up the window while checks run."""
        if not self._gathering.isActive():
            self._gathering.start()

    def begun(self) -> None:
        self._jobs += 1

    def ended(self) -> None:
        """A job has ended, and whoever hears of it shows its verdicts."""
        self._jobs -= 1
        if not self._jobs:
            self._gathering.stop()
