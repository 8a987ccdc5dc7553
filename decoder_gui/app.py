"""From options to a running window and back to an exit status, in an orderly way."""

from __future__ import annotations

import faulthandler
import sys
import traceback
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import (
    QMessageLogContext,
    QSettings,
    QSize,
    QtMsgType,
    QTimer,
    qInstallMessageHandler,
)
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from decoder_gui.arguments import RunOptions, WindowOptions
from decoder_gui.cli import DEFAULT_PROMPTS, DONE, WRONG_INPUT, sampling_of
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.main_window import MainWindow
from decoder_gui.theme.palette import ThemeName
from decoder_gui.theme.stylesheet import apply_style
from decoder_gui.waiting import wait_until
from model.errors import DecoderError
from model.faults import find_fault
from model.sampling import SamplingConfig


class Refused(Exception):
    """The options cannot be carried out; one sentence."""


def run_window(run: RunOptions, window: WindowOptions, snapshot: Path | None) -> int:
    """Open the window on a model and a prompt, or render it to a file.

    Returns:
        The exit status: 0, or 2 if the input was wrong (one line on standard error).
    """
    faulthandler.enable()
    # A worker in pure Python would otherwise hold the interpreter for 5 ms at a time.
    sys.setswitchinterval(0.001)
    # Everything that can be refused is refused before a window exists.
    sampling = sampling_of(run)
    if run.fault is not None:
        find_fault(run.fault)

    qInstallMessageHandler(_pass_on)
    application = QApplication.instance() or QApplication(["decoder-gui"])
    assert isinstance(application, QApplication)
    application.setApplicationName("decoder-gui")
    application.setOrganizationName("decoder-gui")
    settings = None if snapshot is not None else QSettings()
    context = AppContext()
    main_window = None
    try:
        _dress(context, window, settings)
        apply_style(application, context.style)
        main_window = MainWindow(context, settings)
        with _Unforeseen(context):
            if snapshot is not None:
                _start(context, run, sampling)
                return _take_snapshot(main_window, run, window, snapshot)
            if window.size is not None:
                main_window.resize(QSize(*window.size))
            main_window.show_arranged()
            if window.size is not None:
                main_window.resize(QSize(*window.size))
            if window.projector:
                main_window.set_projector(True)
            # The first paint comes first; the model is opened behind it.
            QTimer.singleShot(0, lambda: _open_and_stand(context, run, sampling, window))
            return application.exec()
    except (Refused, DecoderError) as problem:
        print(f"decoder-gui: {problem}", file=sys.stderr)
        return WRONG_INPUT
    finally:
        context.close()
        if main_window is not None:
            main_window.close()
            main_window.deleteLater()
        QApplication.sendPostedEvents(None, 0)
        application.processEvents()


def _dress(context: AppContext, window: WindowOptions, settings: QSettings | None) -> None:
    theme, scale = window.theme, 1.0
    if settings is not None:
        theme = theme or str(settings.value("looks/theme", "") or "")
        try:
            scale = float(str(settings.value("looks/scale", 1.0)))
        except ValueError:
            scale = 1.0
    if theme in {name.value for name in ThemeName}:
        context.set_theme(ThemeName(theme))
    context.set_scale(scale)


def _start(context: AppContext, run: RunOptions, sampling: SamplingConfig) -> None:
    """Open the model and run the prompt; raises if either is refused."""
    refusals: list[str] = []
    context.notice.connect(refusals.append)
    context.sampling = sampling
    context.faults = frozenset() if run.fault is None else frozenset({run.fault})
    context.open_model(run.model, capacity=run.context)
    _settle(context, refusals)
    model = context.model
    if model is None:
        raise Refused("the model could not be opened in time")
    prompt = run.prompt
    if prompt is None:
        prompt = DEFAULT_PROMPTS.get(model.name, DEFAULT_PROMPTS["stories"])
    context.prompt = prompt
    if run.prompt_ids is not None:
        context.prompt = model.tokenizer.decode(list(run.prompt_ids))
        context.prefill_ids(list(run.prompt_ids), tokens=run.tokens or 0)
    else:
        context.prefill(prompt, tokens=run.tokens or 0)
    _settle(context, refusals)
    context.notice.disconnect(refusals.append)


def _settle(context: AppContext, refusals: list[str]) -> None:
    if not wait_until(lambda: context.idle):
        raise Refused("the model did not answer within two minutes")
    if refusals:
        raise Refused(refusals[0])


def _open_and_stand(
    context: AppContext, run: RunOptions, sampling: SamplingConfig, window: WindowOptions
) -> None:
    """The same in a window that is on screen: refusals are shown there."""
    try:
        _start(context, run, sampling)
        _stand(context, window)
    except Refused as problem:
        context.notice.emit(str(problem))


def _stand(context: AppContext, window: WindowOptions) -> None:
    """Go where ``--at`` says."""
    if window.at is None or context.trace is None:
        return
    step, name = window.at
    trace = context.trace
    if step >= len(trace.steps):
        raise Refused(f"--at {step}: the run has steps 0 to {len(trace.steps) - 1}")
    operation = len(trace.operations) - 1
    if name is not None:
        names = [each.name for each in trace.operations]
        if name not in names:
            raise Refused(
                f"--at: there is no operation {name!r}; operations are named like "
                f"{names[0]!r} or {names[len(names) // 2]!r}"
            )
        operation = names.index(name)
    context.seek(Cursor(step, operation))


def _take_snapshot(
    main_window: MainWindow, run: RunOptions, window: WindowOptions, path: Path
) -> int:
    context = main_window.context
    main_window.resize(QSize(*(window.size or (1440, 900))))
    main_window.show_arranged()
    if window.projector:
        main_window.set_projector(True)
    _stand(context, window)
    # Layout, lazily made plots and deferred repaints need a few turns of the loop.
    wait_until(lambda: context.idle and not context.checks_pending)
    wait_until(_Turns(12), 2_000)
    image = QImage(main_window.size(), QImage.Format.Format_ARGB32)
    image.fill(context.style.colour("window"))
    main_window.render(image)
    if not image.save(str(path), "PNG"):
        raise Refused(f"{path} cannot be written")
    print(path.resolve())
    return DONE


def _pass_on(kind: QtMsgType, where: QMessageLogContext, message: str) -> None:
    """Qt's messages to standard error, but for one that offscreen rendering always prints."""
    if "propagateSizeHints" not in message:
        print(message, file=sys.stderr)


class _Turns:
    """True after it has been asked a number of times."""

    def __init__(self, turns: int) -> None:
        self._left = turns

    def __call__(self) -> bool:
        self._left -= 1
        return self._left <= 0


class _Unforeseen:
    """Shows exceptions from slots as a dialog instead of losing them on a terminal."""

    def __init__(self, context: AppContext) -> None:
        self._context = context
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
        self._context.crashed.emit(text)
