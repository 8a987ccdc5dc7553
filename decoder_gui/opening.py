"""Opening a model on a prompt and standing at an event, in a window or for a picture of one."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize
from PySide6.QtGui import QImage

from decoder_gui.arguments import RunOptions, WindowOptions
from decoder_gui.commands.sessions import is_session
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.main_window import MainWindow
from decoder_gui.waiting import wait_until
from model.errors import ContextOverflow, DecoderError, NoWeights, sentence
from model.faults import find_fault
from model.tokenizers import encode_prompt, prompt_text

SETTLING_TURNS = 12  # of the event loop: layout, lazily made plots, deferred repaints


class Refused(DecoderError):
    """The options of the command line cannot be carried out."""


def open_and_stand(
    context: AppContext, main_window: MainWindow, run: RunOptions, window: WindowOptions
) -> None:
    """Carry the options out in a window on screen; a refusal is shown in it."""
    _choose_view(main_window, window)
    try:
        _start(context, run)
        if window.view is not None and is_session(run.model):
            _choose_view(main_window, window)  # and not that of the session
        _stand(context, window)
    except DecoderError as problem:
        context.notice.emit(sentence(problem))


def take_snapshot(
    context: AppContext,
    main_window: MainWindow,
    run: RunOptions,
    window: WindowOptions,
    path: Path,
) -> None:
    """Carry the options out and render the window to a PNG file.

    Raises:
        DecoderError: they cannot be carried out, or the file cannot be written.
    """
    size = QSize(*(window.size or (1440, 900)))
    main_window.resize(size)
    context.sessions.moved = lambda session, path: ""  # nobody is there to be asked
    _start(context, run, may_ask=False)
    _choose_view(main_window, window)
    if main_window.workspace is not None:
        main_window.workspace.desks.share_out()
    _stand(context, window)
    wait_until(lambda: context.idle and not context.checks_pending)
    main_window.resize(size)
    main_window.top_bar.hide_notice()  # nothing was refused, and it would cover the strip
    turns = iter(range(SETTLING_TURNS))
    wait_until(lambda: next(turns, None) is None)
    image = QImage(main_window.size(), QImage.Format.Format_ARGB32)
    image.fill(context.style.colour("window"))
    main_window.render(image)
    if not image.save(str(path)):
        raise Refused(f"{path} cannot be written")


def _choose_view(main_window: MainWindow, window: WindowOptions) -> None:
    """The workspace and the mode to begin with."""
    if main_window.workspace is not None:
        if window.view is not None:
            main_window.workspace.show_view(window.view)
        if window.projector:
            main_window.workspace.set_projector(True)


def _start(context: AppContext, run: RunOptions, *, may_ask: bool = True) -> None:
    """Open the model and run the prompt; raises if either is refused.

    A prompt that does not fit is refused, too, where nobody is there to be asked what to do.
    """
    refusals: list[str] = []

    def asked(*_: object) -> None:
        refusals.clear()  # the window has asked about the prompt and carried out the answer

    context.notice.connect(refusals.append)
    context.overflowed.connect(asked)
    try:
        context.sampling = run.sampling()
        if run.fault is not None:
            context.faults = frozenset({find_fault(run.fault).name})
        if is_session(run.model):
            context.sessions.open(Path(run.model))
            _settle(context, refusals)
            return
        context.open_model(run.model, capacity=run.context)
        _settle(context, refusals)
        model = context.model
        if model is None:
            raise Refused("the model could not be opened")
        if context.recorded:
            if run.fault is not None or run.prompt is not None or run.prompt_ids is not None:
                raise NoWeights("another prompt or a fault would need them")
            if run.tokens is not None:
                raise NoWeights("further tokens would need them")
            return
        if run.prompt_ids is not None:
            ids = list(run.prompt_ids)
            context.prompt = prompt_text(model.tokenizer, ids)
        else:
            context.prompt = run.prompt_for(model.name)
            ids = encode_prompt(model.tokenizer, context.prompt)
        if len(ids) > context.capacity and not may_ask:
            raise ContextOverflow(len(ids), context.capacity)
        context.prefill_ids(ids, tokens=run.tokens or 0)
        _settle(context, refusals)
    finally:
        context.notice.disconnect(refusals.append)
        context.overflowed.disconnect(asked)


def _settle(context: AppContext, refusals: list[str]) -> None:
    before = None
    # A download may take hours; only one that does not move any more is given up.
    while not wait_until(lambda: context.idle):
        if context.busy is None or context.busy == before:
            raise Refused("the model has not moved for two minutes")
        before = context.busy
    if refusals:
        raise Refused(refusals[0])


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
