"""From options to a running window and back to an exit status, in an orderly way."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QMessageLogContext,
    QSettings,
    QSize,
    QTimer,
    QtMsgType,
    qInstallMessageHandler,
)
from PySide6.QtWidgets import QApplication

from decoder_gui.arguments import RunOptions, WindowOptions
from decoder_gui.interrupts import Interrupts
from decoder_gui.main_window import MainWindow
from decoder_gui.theme.palette import PALETTES, ThemeName
from decoder_gui.theme.style import Style
from decoder_gui.theme.stylesheet import apply_style

if TYPE_CHECKING:
    from decoder_gui.collecting import Collector
    from decoder_gui.context import AppContext

DONE = 0
UNPAINTED_MS = 2000  # after which a window that nobody sees opens its model all the same


def run_window(run: RunOptions, window: WindowOptions, snapshot: Path | None) -> int:
    """Open the window on a model and a prompt, or render it to a file.

    Returns:
        The exit status: 0, or a shell's status of a signal that closed the window.

    Raises:
        DecoderError: a snapshot whose options cannot be carried out. In a window on screen the
            same refusal is shown there.
    """
    # A worker in pure Python would otherwise hold the interpreter for 5 ms at a time.
    sys.setswitchinterval(0.001)
    qInstallMessageHandler(_pass_on)
    application = QApplication.instance() or QApplication(["decoder-gui"])
    assert isinstance(application, QApplication)
    application.setApplicationName("decoder-gui")
    application.setOrganizationName("decoder-gui")
    settings = None if snapshot is not None else QSettings()
    style = _looks(window, settings)
    apply_style(application, style)
    main_window = MainWindow(style, settings)
    if window.size is not None:
        main_window.resize(QSize(*window.size))
    else:
        main_window.recall_geometry()
    life = _Life(main_window, style, keep=snapshot is None)
    try:
        main_window.show()
        with _Unforeseen(life):
            if snapshot is not None:
                from decoder_gui.opening import take_snapshot

                take_snapshot(life.begin(), main_window, run, window, snapshot)
                return DONE
            # The frame is painted first; everything heavy comes behind it. A window that is not
            # painted, because it was opened minimised, does not wait for it.
            main_window.painted.connect(lambda: life.open(run, window))
            QTimer.singleShot(UNPAINTED_MS, main_window, lambda: life.open(run, window))
            with Interrupts(application):
                return application.exec()
    finally:
        life.end()
        main_window.close()
        main_window.deleteLater()
        QApplication.sendPostedEvents(None, 0)
        application.processEvents()


class _Life:
    """The context from its birth behind the first paint to its end."""

    def __init__(self, main_window: MainWindow, style: Style, *, keep: bool) -> None:
        self._window = main_window
        self._style = style
        self._keep = keep  # whether unsaved work is written down
        self.context: AppContext | None = None
        self._collector: Collector | None = None

    def begin(self) -> AppContext:
        from decoder_gui.collecting import Collector
        from decoder_gui.context import AppContext

        self._collector = Collector(self._window)
        self.context = AppContext(self._style)
        workspace = self._window.furnish(self.context)
        if self._keep:
            from decoder_gui.session_keeping import data_folder

            folder = data_folder()
            if folder is not None:
                workspace.keeping.keep_in(folder)
        self._collector.set_aside()
        return self.context

    def open(self, run: RunOptions, window: WindowOptions) -> None:
        if self.context is not None:
            return
        from decoder_gui.opening import open_and_stand

        open_and_stand(self.begin(), self._window, run, window)

    def end(self) -> None:
        if self.context is not None:
            self.context.close()
        if self._collector is not None:
            self._collector.stop()


def _looks(window: WindowOptions, settings: QSettings | None) -> Style:
    """The theme and scale asked for, or those of last time."""
    theme, scale = window.theme or "", 1.0
    if settings is not None:
        theme = theme or str(settings.value("looks/theme", "") or "")
        try:
            scale = min(4.0, max(0.6, float(str(settings.value("looks/scale", 1.0)))))
        except ValueError:
            scale = 1.0
    known = {name.value for name in ThemeName}
    return Style(PALETTES[ThemeName(theme) if theme in known else ThemeName.DARK], scale)


def _pass_on(kind: QtMsgType, where: QMessageLogContext, message: str) -> None:
    """Qt's messages to standard error, but for what offscreen rendering always says."""
    if "This plugin does not support" not in message:
        print(message, file=sys.stderr)


class _Unforeseen:
    """Shows exceptions from slots as a dialog instead of losing them on a terminal."""

    def __init__(self, life: _Life) -> None:
        self._life = life
        self._before = sys.excepthook

    def __enter__(self) -> None:
        sys.excepthook = self._show

    def __exit__(self, *_: object) -> None:
        sys.excepthook = self._before

    def _show(
        self, kind: type[BaseException], problem: BaseException, where: TracebackType | None
    ) -> None:
        text = "".join(traceback.format_exception(kind, problem, where))
        print(text, file=sys.stderr)
        if self._life.context is not None:
            self._life.context.crashed.emit(text)
