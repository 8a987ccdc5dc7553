"""Garbage is collected in the GUI thread only.

Python collects wherever a threshold is crossed, and that may be the engine's thread. A cycle that
holds Qt objects would then be destroyed there, timers and all, which ends the process.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

INTERVAL = 500  # ms between two looks


class Collector(QObject):
    """Takes automatic collection over from Python until :meth:`stop`.

    What exists when it starts is set aside, and again whenever :meth:`set_aside` is called: it is
    not garbage, and looking at it again and again is what makes a collection slow.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        gc.disable()
        self.set_aside()
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL)
        self._timer.timeout.connect(self.look)
        self._timer.start()

    def set_aside(self) -> None:
        """Never look at what exists now: 60,000 objects once NumPy and the panels are there."""
        gc.freeze()

    def look(self) -> None:
        """Collect the generations that are due by Python's own thresholds."""
        counts, thresholds = gc.get_count(), gc.get_threshold()
        for generation in (2, 1, 0):
            if counts[generation] > thresholds[generation] > 0:
                gc.collect(generation)
                return

    def stop(self) -> None:
        """Give it back to Python."""
        self._timer.stop()
        gc.unfreeze()
        gc.enable()
