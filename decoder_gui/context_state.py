"""The window's state as plain attributes, and the one signal that says what changed."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from decoder_gui.change import Change
from decoder_gui.debugger.cursor import Cursor, Granularity, last
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import DEFAULT_SEED
from decoder_gui.engine_link import Busy
from decoder_gui.theme.style import Style
from decoder_gui.viewdata.moment import ModelInfo, Moment, Selection, build_moment
from model.checks import CheckResult
from model.errors import CacheExhausted
from model.sampling import SamplingConfig
from model.trace import Trace


class ContextState(QObject):
    """What is so: model, run, cursor, selection, settings, looks; no commands.

    Signals:
        changed(Change): what is different now.
        notice(str): one sentence for the status line: why something was not done.
        remarked(str): one sentence about the model that was opened; nothing was refused.
        crashed(str): the text of an unforeseen exception in the worker.
        overflowed(list, int): the token ids of a prompt that does not fit, and the capacity.
    """

    changed = Signal(object)
    notice = Signal(str)
    remarked = Signal(str)
    crashed = Signal(str)
    overflowed = Signal(object, object)

    def __init__(self, style: Style | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.model: ModelInfo | None = None
        self.spec = ""  # what to open to have the model in hand again
        self.run_state: Run | None = None
        self.cursor: Cursor | None = None
        self.granularity = Granularity.OPERATION
        self.selection = Selection()
        self.sampling = SamplingConfig(seed=DEFAULT_SEED)
        self.capacity = 0
        self.style = Style() if style is None else style
        self.faults: frozenset[str] = frozenset()
        self.checks: tuple[CheckResult, ...] = ()
        self.busy: Busy | None = None
        self.prompt = ""
        self.prompt_ids: tuple[int, ...] = ()
        self.displayed = 40  # candidates listed; never changes what is drawn
        self._moment: Moment | None = None

    @property
    def trace(self) -> Trace | None:
        return None if self.run_state is None else self.run_state.trace

    @property
    def moment(self) -> Moment | None:
        """The present state for view data; None before a model is open."""
        if self._moment is None and self.model is not None and self.run_state is not None:
            self._moment = build_moment(
                self.model,
                self.run_state,
                self.cursor,
                self.selection,
                self.sampling,
                self.capacity,
                displayed=self.displayed,
            )
        return self._moment

    @property
    def at_end(self) -> bool:
        """Whether the cursor stands on the last event recorded."""
        return self.trace is None or self.cursor == last(self.trace)

    @property
    def exhausted(self) -> str:
        """In words that the cache is full, or an empty string."""
        if self.trace is None or not self.trace.steps or self.trace.positions < self.capacity:
            return ""
        return str(CacheExhausted(self.trace.positions, self.capacity))

    def _seed(self) -> int:
        return DEFAULT_SEED if self.sampling.seed is None else self.sampling.seed

    def _tell(self, change: Change) -> None:
        """Say what is different; the moment is made anew when somebody asks for it."""
        self._moment = None
        self.changed.emit(change)

    def _clamped(self, cursor: Cursor | None) -> Cursor | None:
        """The same event, or the last one there is."""
        trace = self.trace
        if trace is None or cursor is None:
            return None
        if cursor.step < len(trace.steps) and cursor.operation < trace.events_in(cursor.step):
            return cursor
        return last(trace)
