"""The product's own window, run to its end in this process while something watches it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QSettings, QTemporaryDir, QTimer
from PySide6.QtWidgets import QApplication, QMainWindow

from decoder_gui import cli
from decoder_gui.main_window import MainWindow

SIZE = (1440, 900)
STORY = "Once upon a time there was a little cat named Tom."
_LOOK_AGAIN = 2  # ms
_IN_VAIN = 60_000  # ms until the window is given up


class FirstPaint(QObject):
    """Notes when the first main window has painted itself and everything in it.

    Attributes:
        at: nanoseconds of ``time.monotonic_ns``, 0 before; on Linux all processes share that clock.
    """

    def __init__(self, application: QApplication, then: Callable[[], None] | None = None) -> None:
        super().__init__(application)
        self.at = 0
        self._then = then
        application.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint and isinstance(watched, QMainWindow):
            QCoreApplication.instance().removeEventFilter(self)  # type: ignore[union-attr]
            # Parents paint before children, all in one go; the event loop comes back afterwards.
            QTimer.singleShot(0, self._painted)
        return False

    def _painted(self) -> None:
        self.at = time.monotonic_ns()
        if self._then is not None:
            self._then()


class Paints(QObject):
    """Waits until a window is up to date with everything that was asked of it."""

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window)
        self._updates = 0
        # Only the window's own events: each that came through here would cost a few microseconds.
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is QEvent.Type.UpdateRequest:
            self._updates += 1
        return False

    def settle(self) -> None:
        """Let the event loop run until a whole turn of it has brought nothing on the screen.

        A turn delivers all posted events, those that arrange widgets included; whatever is to be
        painted arrives last, at the window, as one request to update its surface.
        """
        before = -1
        while before != self._updates:
            before = self._updates
            QCoreApplication.processEvents()


def run_product(when_ready: Callable[[MainWindow, FirstPaint], None]) -> int:
    """Open the window as the command line does, and close it once ``when_ready`` has returned.

    Args:
        when_ready: called in the event loop when the prompt has run and every panel is painted.

    Returns:
        The exit status of the command line.
    """
    folder = QTemporaryDir()  # Python's own would take as long to import as the window's frame
    # Neither the looks of last time nor a trace of this run in the user's own settings and data.
    os.environ["XDG_DATA_HOME"] = folder.path()  # where Qt heeds it; unsaved work goes there
    QSettings.setDefaultFormat(QSettings.Format.IniFormat)
    QSettings.setPath(QSettings.Format.IniFormat, QSettings.Scope.UserScope, folder.path())
    application = QApplication(["decoder-gui"])
    limit = QTimer(application)
    limit.setSingleShot(True)
    limit.timeout.connect(lambda: application.exit(1))

    def look() -> None:
        window = _furnished()
        if window is None:
            QTimer.singleShot(_LOOK_AGAIN, look)
            return
        limit.stop()
        try:
            Paints(window).settle()
            when_ready(window, first)
        except BaseException as problem:  # the window would show it and wait for an answer
            problems.append(problem)
        window.close()

    problems: list[BaseException] = []
    first = FirstPaint(application, look)
    limit.start(_IN_VAIN)
    size = f"{SIZE[0]}x{SIZE[1]}"
    status = cli.main(["stories", "--prompt", STORY, "--size", size, "--theme", "dark"])
    if problems:
        raise problems[0]
    return status


def _furnished() -> MainWindow | None:
    """The main window once its prompt has run to the end."""
    for window in QApplication.topLevelWidgets():
        if isinstance(window, MainWindow) and window.workspace is not None:
            context = window.workspace.context
            trace = context.trace
            if trace is not None and trace.complete(0) and context.idle:
                return window
    return None
