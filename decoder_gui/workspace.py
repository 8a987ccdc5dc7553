"""What fills the window: strip, docks and foot around one context, and what the keys do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QLabel,
    QVBoxLayout,
    QWidget,
)

from decoder_gui import dialogs
from decoder_gui.arguments import sample_prompt
from decoder_gui.arrangement import Arrangement
from decoder_gui.branching import ask_for_edit, ask_for_text
from decoder_gui.change import Change
from decoder_gui.commands.sessions import is_session
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Granularity
from decoder_gui.debugger.library import named_models
from decoder_gui.desks import FIXED, Desks, leave_drops
from decoder_gui.main_window import MainWindow
from decoder_gui.panels.base import Panel, Place, panels_of
from decoder_gui.panels.values import ValuesPanel
from decoder_gui.recent import RecentModels
from decoder_gui.session_keeping import SessionKeeping
from decoder_gui.shortcuts import PANELS, SHORTCUTS
from decoder_gui.stopping import ask_for_breakpoint
from decoder_gui.theme.stylesheet import apply_style
from decoder_gui.view import View
from decoder_gui.view_menu import ViewMenu
from decoder_gui.widgets.focus_return import return_focus
from decoder_gui.widgets.key_guard import KeyGuard
from decoder_gui.widgets.shortcuts_dialog import ShortcutsDialog
from decoder_gui.widgets.top_bar import OPENING, ModelChoice

# For how long what a model needs is on show: while it is being opened, and afterwards.
OPENING_MS, OPENED_MS = 600_000, 4_000

# In the menu of models, where a mouse finds them.
FILE_ACTIONS = ("open_session", "save_session", "save_session_as", "save_capture")


class Workspace(QWidget):
    """Everything between the top bar and the lower edge, wired to the context.

    Args:
        context: the state; :meth:`close_down` closes it.
        window: whose top bar and keys belong to it.
        recent: the models that were opened before.
    """

    def __init__(
        self, context: AppContext, window: MainWindow, recent: RecentModels | None = None
    ) -> None:
        super().__init__(window)
        self.context = context
        self.recent = RecentModels() if recent is None else recent
        self._window = window
        self.top_bar = window.top_bar
        self.shortcuts_dialog: ShortcutsDialog | None = None
        self.crash_dialog: QDialog | None = None
        self._refused = False  # whether the first model could not be opened
        self._to_run = ""  # what is being opened, to be run as soon as it is there
        self._details = ""

        # Before the panels hear of a style: a new sheet takes hidden texts' own fonts off them.
        context.changed.connect(self._dress_application)
        self._fixed = [kind(context) for kind in panels_of() if kind.place in FIXED]
        for panel in self._fixed:
            leave_drops(panel)
        self.fault_banner = QLabel()
        self.fault_banner.setObjectName("fault-banner")
        self.fault_banner.setProperty("kind", "alarm")
        self.fault_banner.setWordWrap(True)
        self.fault_banner.hide()

        self._rows = QVBoxLayout(self)
        self._rows.setSpacing(0)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self.desks = Desks(context, self)
        self.keeping = SessionKeeping(context, self.desks, self.show_view, self)
        self._rows.addWidget(self.keeping.offer_bar)
        self._rows.addWidget(self.fault_banner)
        for panel in self._fixed:
            if panel.place is Place.STRIP:
                self._rows.addWidget(panel)
        self._rows.addWidget(self.desks, 1)
        for panel in self._fixed:
            if panel.place is Place.FOOT:
                self._rows.addWidget(panel)
                self.top_bar.set_foot(panel)

        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self._keys = KeyGuard(application, self)
        self._actions = self._make_actions()
        self._view_menu = ViewMenu(context, self.desks, self._actions, self)
        self.top_bar.set_view_menu(self._view_menu)
        self.top_bar.set_file_actions([self._actions[name] for name in FILE_ACTIONS])
        self._connect()
        self._dress_application(Change.STYLE)
        self._on_changed(Change.ALL)

    @property
    def arrangement(self) -> Arrangement:
        """The docks of the workspace in hand."""
        return self.desks.current

    @property
    def panels(self) -> dict[str, Panel]:
        """Every panel on show or hidden in the workspace in hand, by id."""
        return {**{panel.panel_id: panel for panel in self._fixed}, **self.desks.panels}

    def show_view(self, view: View) -> None:
        """Go to another workspace of panels."""
        self.desks.show_view(view)
        self.top_bar.views.set_current(self.desks.view.value)

    def set_projector(self, on: bool) -> None:
        """Projector mode: light, larger, one panel at a time."""
        before = self.context.style.projector
        if on and not before:
            self.desks.enlarge()
        self.context.set_projector(on)
        if before and not on:
            self.desks.reduce()

    def open_model(self, spec: str) -> None:
        """Open another model and run it, so that no panel stands empty; or a session file."""
        if is_session(spec):
            self.context.sessions.open(Path(spec))
            return
        self._to_run = spec
        self.context.open_model(spec)

    def close_down(self) -> None:
        """Before the window goes: back to the plain arrangement, and stop the worker."""
        self.keeping.end()
        self.set_projector(False)
        self.context.close()

    def _connect(self) -> None:
        context, bar = self.context, self.top_bar
        context.changed.connect(self._on_changed)
        context.notice.connect(self._on_refusal)
        context.remarked.connect(self._on_notice)
        context.crashed.connect(self._on_crash)
        context.overflowed.connect(self._on_overflow)
        bar.model_chosen.connect(self.open_model)
        bar.file_requested.connect(lambda: self._open(dialogs.ask_for_file(self)))
        bar.folder_requested.connect(lambda: self._open(dialogs.ask_for_folder(self)))
        bar.name_requested.connect(lambda: self._open(dialogs.ask_for_name(self)))
        # What was opened before may be gone by now, or back.
        bar.model_menu.aboutToShow.connect(self._update_top_bar)
        bar.prefill_requested.connect(self._prefill)
        bar.capacity_chosen.connect(context.set_capacity)
        bar.projector_toggled.connect(self.set_projector)
        bar.view_chosen.connect(lambda name: self.show_view(View(name)))

    # ---- actions

    def _make_actions(self) -> dict[str, QAction]:
        """One action per shortcut of the table, bound by id to what it does."""
        context = self.context
        slots: dict[str, Callable[..., object]] = {
            "step": lambda: context.move(1),
            "back": lambda: context.move(-1),
            "coarser": lambda: self._change_granularity(1),
            "finer": lambda: self._change_granularity(-1),
            "play": context.toggle_play,
            "first": context.go_first,
            "last": context.go_last,
            "go_to": self._go_to,
            "breakpoint": context.toggle_breakpoint,
            "stop_operation": context.stops.toggle_operation,
            "stop_when": lambda: ask_for_breakpoint(self, context),
            "watch": lambda: self._watch(row=False),
            "watch_row": lambda: self._watch(row=True),
            "run": context.run,
            "run_back": lambda: context.run(-1),
            "first_difference": context.comparison.go_to_first,
            "compare_again": context.comparison.again,
            "trail_back": context.trail.back,
            "undo": context.branches.undo,
            "redo": context.branches.redo,
            "next_branch": lambda: context.branches.switch_by(1),
            "previous_branch": lambda: context.branches.switch_by(-1),
            "ablate": lambda: ask_for_edit(self, context),
            "edit_text": lambda: ask_for_text(self, context),
            "full_screen": self._toggle_full_screen,
            "zoom_in": lambda: context.set_scale(context.style.scale * 1.1),
            "zoom_out": lambda: context.set_scale(context.style.scale / 1.1),
            "zoom_reset": lambda: context.set_scale(1.0),
            "help": self._show_shortcuts,
            "projector": lambda: self.set_projector(not context.style.projector),
            "prompt": self.top_bar.focus_prompt,
            "open": self.top_bar.file_requested.emit,
            "save_session": self.keeping.save,
            "save_session_as": self.keeping.save_as,
            "open_session": self.keeping.open,
            "save_capture": self._save_capture,
            "open_folder": self.top_bar.folder_requested.emit,
            "escape": self._escape,
            "next_head": lambda: self._change_head(1),
            "previous_head": lambda: self._change_head(-1),
            "next_layer": lambda: self._change_layer(1),
            "previous_layer": lambda: self._change_layer(-1),
            "all_panels": self._restore_panels,
            **{f"panel_{n}": partial(self._toggle_panel, n) for n in range(1, PANELS + 1)},
            **{f"view_{n}": partial(self.show_view, view) for n, view in enumerate(View, start=1)},
        }
        actions = {}
        for shortcut in SHORTCUTS:
            if shortcut.id not in slots:
                continue
            action = QAction(shortcut.text, self._window)
            action.setShortcuts([QKeySequence(keys) for keys in shortcut.keys])
            action.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
            action.triggered.connect(partial(_call, slots[shortcut.id]))
            self._window.addAction(action)
            actions[shortcut.id] = action
        return actions

    def _restore_panels(self) -> None:
        self.arrangement.restore()

    def _toggle_panel(self, number: int) -> None:
        """One panel of the workspace in hand alone, or back."""
        names = list(self.arrangement.docks)
        if number <= len(names):
            self.arrangement.toggle_maximised(names[number - 1])

    def _watch(self, *, row: bool) -> None:
        """Pin what is chosen in Values, if that is on show."""
        panel = self.panels.get("values")
        if isinstance(panel, ValuesPanel) and panel.isVisible() and panel.view is not None:
            panel.cells.watch(panel.view.row, -1 if row else panel.view.column)

    def _change_granularity(self, by: int) -> None:
        order = list(Granularity)
        at = order.index(self.context.granularity) + by
        self.context.set_granularity(order[min(len(order) - 1, max(0, at))])

    def _change_head(self, by: int) -> None:
        if self.context.model is not None:
            heads = self.context.model.shape.num_heads
            self.context.select(head=(self.context.selection.head + by) % heads)

    def _change_layer(self, by: int) -> None:
        if self.context.model is not None:
            depth = self.context.model.shape.depth
            self.context.select(layer=(self.context.selection.layer + by) % depth)

    def _toggle_full_screen(self) -> None:
        self._window.setWindowState(self._window.windowState() ^ Qt.WindowState.WindowFullScreen)

    def _escape(self) -> None:
        if self.context.busy is not None or self.context.playing:
            self.context.cancel()
        elif self.arrangement.maximised is not None and not self.context.style.projector:
            self.arrangement.restore()
        elif self.context.style.projector:
            self.set_projector(False)
        elif self._window.isFullScreen():
            self._toggle_full_screen()

    def _open(self, spec: str) -> None:
        if spec:
            self.open_model(spec)

    def _save_capture(self) -> None:
        model = self.context.model
        path = dialogs.ask_where_to_save(self, "" if model is None else model.name)
        if path is not None:
            self.context.captures.save(path)

    def _go_to(self) -> None:
        moment = self.context.moment
        if moment is not None and moment.cursor is not None:
            cursor = dialogs.ask_for_cursor(self, moment)
            if cursor is not None:
                self.context.seek(cursor)

    def _show_shortcuts(self) -> None:
        if self.shortcuts_dialog is None:
            self.shortcuts_dialog = ShortcutsDialog(self.context.style, self)
            return_focus(self.shortcuts_dialog)
        self.shortcuts_dialog.set_style(self.context.style)
        self.shortcuts_dialog.show()
        self.shortcuts_dialog.raise_()

    # ---- what the context says

    def _on_changed(self, change: Change) -> None:
        if change & Change.STYLE:
            self._restyle()
        if change & Change.MODEL:
            self._update_top_bar()
            if self._to_run and self.context.spec == self._to_run:
                self._to_run = ""
                self.context.prefill_suitable(sample_prompt(self.context.spec))
        if change & Change.TRACE and not self.top_bar.prompt.hasFocus():
            self.top_bar.set_prompt(self.context.prompt)
        if change & Change.CHECKS:
            self._update_banner()
        if change & Change.BUSY:
            self._update_details()

    def _dress_application(self, change: Change) -> None:
        application = QApplication.instance()
        if change & Change.STYLE and isinstance(application, QApplication):
            apply_style(application, self.context.style)

    def _restyle(self) -> None:
        style = self.context.style
        self._view_menu.tick_theme()
        self.top_bar.set_style(style)
        self.top_bar.set_projector(style.projector)
        self.desks.set_style(style)
        if self.shortcuts_dialog is not None and self.shortcuts_dialog.isVisible():
            self.shortcuts_dialog.set_style(style)

    def _update_top_bar(self) -> None:
        context = self.context
        model = context.model
        self.recent.add(context.spec)
        choices = tuple(
            ModelChoice(named.name, named.name, named.summary, named.name == context.spec)
            for named in named_models()
        )
        recent = tuple(
            ModelChoice(one.spec, one.name, one.summary, one.opens(context.spec), one.missing)
            for one in self.recent.models()
        )
        if model is None:
            # Nothing said so far means that the first one is on its way.
            self.top_bar.set_model("" if self._refused else OPENING, "", choices, recent)
            return
        shape = model.shape
        layers = f"{shape.depth} layer{'s' if shape.depth != 1 else ''}"
        heads = f"{shape.num_heads} head{'s' if shape.num_heads != 1 else ''}"
        self.top_bar.set_model(model.name, f"{model.family} · {layers} · {heads}", choices, recent)
        self.top_bar.set_capacity(context.capacity, shape.context_length)
        if not self.top_bar.prompt.hasFocus():
            self.top_bar.set_prompt(context.prompt)
        self._window.setWindowTitle(f"{model.name} — decoder-gui")

    def _update_details(self) -> None:
        """What a model needs, for as long as it is being opened and a moment longer."""
        busy = self.context.busy
        details = "" if busy is None else busy.details
        if details and details != self._details:
            self.top_bar.show_notice(details, OPENING_MS)
        elif not details and self._details and self.top_bar.notice == self._details:
            self.top_bar.show_notice(self._details, OPENED_MS)
        self._details = details

    def _update_banner(self) -> None:
        faults = sorted(self.context.faults)
        self.fault_banner.setVisible(bool(faults))
        if faults:
            failing = [check.name for check in self.context.checks if not check.holds]
            caught = f" Failing: {', '.join(failing)}." if failing else ""
            self.fault_banner.setText(
                f"Deliberate fault on: {', '.join(faults)}. The numbers are wrong on purpose."
                + caught
            )

    def _prefill(self, text: str) -> None:
        self.top_bar.hide_notice()
        if not self.context.prefill(text):
            self.top_bar.focus_prompt()  # to be mended where it stands

    def _on_refusal(self, sentence: str) -> None:
        self._to_run = ""
        if self.context.model is None:
            self._refused = True
            self._update_top_bar()
        self._on_notice(sentence)

    def _on_notice(self, sentence: str) -> None:
        self.top_bar.show_notice(sentence)

    def _on_crash(self, text: str) -> None:
        self.crash_dialog = dialogs.show_crash(self, text, self.keeping.rescue())

    def _on_overflow(self, token_ids: object, capacity: object) -> None:
        model = self.context.model
        if model is None or not isinstance(token_ids, list) or not isinstance(capacity, int):
            return
        answer = dialogs.ask_about_overflow(self, model, token_ids, capacity)
        if answer is not None:
            answer.apply(self.context)


def _call(slot: Callable[[], object], checked: bool = False) -> None:
    """Swallows the flag that ``triggered`` carries and most slots have no use for."""
    slot()
