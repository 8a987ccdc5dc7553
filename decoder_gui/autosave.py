"""What is unsaved survives a kill: the session is written down again and again while it changes.

One file for each running window, with a lock beside it that dies with the process. A file whose
lock is free was left behind by a window that did not close; the next start offers it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time

from PySide6.QtCore import QLockFile, QObject, QTimer

from decoder_gui.commands.sessions import Sessions, describe
from decoder_gui.debugger.saving.session_file import SUFFIX, SavedSession, SessionFileError, write
from decoder_gui.debugger.saving.session_reading import read

DELAY = 400  # ms from a change to its being written
WRITTEN_BY_NOW = 3600  # s after which nobody is still writing a file
FOLDER = "unsaved"
_LOCK = ".lock"


@dataclass(frozen=True)
class LeftBehind:
    """A session whose window did not close."""

    path: Path
    session: SavedSession

    @property
    def words(self) -> str:
        return describe(self.session)


class Autosave(QObject):
    """Writes the session in hand to a file of this process's own.

    Args:
        sessions: whose state it is.
        folder: where all windows keep these files.
    """

    def __init__(self, sessions: Sessions, folder: Path, parent: QObject) -> None:
        super().__init__(parent)
        self._sessions = sessions
        self._folder = folder
        self.path = folder / f"{os.getpid()}{SUFFIX}"
        self._lock: QLockFile | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(DELAY)
        self._timer.timeout.connect(self.write)
        sessions.changed = self._on_changed

    def left_behind(self) -> tuple[LeftBehind, ...]:
        """Sessions of windows that are gone, the latest first; damaged files are removed."""
        found = []
        for half in self._folder.glob(".*.part"):  # of a window that was killed while it wrote
            with suppress(OSError):
                if time() - half.stat().st_mtime > WRITTEN_BY_NOW:
                    half.unlink()
        for path in self._folder.glob(f"*{SUFFIX}"):
            if path == self.path or not _free(path):
                continue
            try:
                found.append(LeftBehind(path, read(path)))
            except SessionFileError:
                self.discard(path)
        return tuple(sorted(found, key=lambda each: each.session.saved_at, reverse=True))

    def discard(self, path: Path) -> None:
        """Remove a file that was left behind, and its lock."""
        for gone in (path, Path(f"{path}{_LOCK}")):
            with suppress(OSError):
                gone.unlink()

    def write(self) -> None:
        """Write now; where that is impossible the window goes on without."""
        session = self._sessions.snapshot()
        if session is None:
            return
        try:
            if self._lock is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._lock = QLockFile(f"{self.path}{_LOCK}")
                self._lock.setStaleLockTime(0)
                if not self._lock.tryLock(0):
                    self._lock = None
                    return
            write(session, self.path, private=True)
        except (OSError, SessionFileError):
            self._timer.stop()

    def end(self) -> None:
        """The window closes in an orderly way: nothing is left behind."""
        self._timer.stop()
        self._sessions.changed = None
        with suppress(OSError):
            self.path.unlink()
        if self._lock is not None:
            self._lock.unlock()
            self._lock = None

    def _on_changed(self) -> None:
        # Not put off by further changes: while somebody plays, there is no pause to wait for.
        if not self._timer.isActive():
            self._timer.start()


def _free(path: Path) -> bool:
    """Whether the window that wrote a file is gone."""
    lock = QLockFile(f"{path}{_LOCK}")
    lock.setStaleLockTime(0)
    if not lock.tryLock(0):
        return False
    lock.unlock()
    return True
