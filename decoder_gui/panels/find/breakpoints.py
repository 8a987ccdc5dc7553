"""The Breakpoints panel: what runs stop at, switched on and off, edited and deleted; and runs."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QPushButton,
    QSizePolicy,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.stopping.breakpoints import Breakpoint
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.stopping import ask_for_breakpoint
from decoder_gui.view import View
from decoder_gui.viewdata.numbers import plural
from decoder_gui.widgets.breakpoint_dialog import BreakpointDialog
from decoder_gui.widgets.elided import ElidedLabel
from decoder_gui.widgets.focus_return import return_focus

NONE_YET = (
    "No breakpoints. Add sets one on a condition (Ctrl+B); F9 sets one at the event in hand; B on "
    "a row of Forward pass or on a cell of Values sets one there."
)
NUMBER = Qt.ItemDataRole.UserRole
MOST_TOKENS = 100_000
LOW = 190  # pixels at scale 1: lower than that, the panel does without its second row of controls


class _List(QListWidget):
    """Space switches, Enter edits, Delete removes: the rest is a list's own."""

    def __init__(self, panel: BreakpointsPanel) -> None:
        super().__init__()
        self._panel = panel
        self.setAccessibleName("Breakpoints")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setWordWrap(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setProperty("kind", "list")

    def event(self, event: QEvent) -> bool:
        if (
            event.type() is QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self._panel.remove()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._panel.edit()
        else:
            super().keyPressEvent(event)


@register
class BreakpointsPanel(Panel):
    """All breakpoints, why the last run stopped, and running in both directions."""

    panel_id = "breakpoints"
    title = "Breakpoints"
    views = (View.FIND,)
    place = Place.RIGHT
    order = 0
    column_width = 400
    row_height = 320
    wants = Change.STOPS | Change.BUSY | Change.TRACE | Change.STYLE | Change.MODEL

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.dialog: BreakpointDialog | None = None
        self.limit_dialog: QInputDialog | None = None
        self._filling = False
        self._shown: tuple[object, ...] = ()
        self.reason = QLabel()
        self.reason.setWordWrap(True)
        self.reason.setAccessibleName("Why the last run stopped")
        self.reason.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.brief = ElidedLabel()  # the same in one line, where there is no room for more
        self.empty = QLabel(NONE_YET)
        self.empty.setWordWrap(True)
        self.empty.setProperty("kind", "muted")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.list = _List(self)
        self.list.itemChanged.connect(self._on_item)
        self.list.itemDoubleClicked.connect(lambda _: self.edit())
        self.list.currentRowChanged.connect(lambda _: self._enable())
        self.add_button = self._button("Add…", self.add, "Stop on a condition (Ctrl+B)")
        self.edit_button = self._button("Edit…", self.edit, "Change the chosen one (Enter)")
        self.remove_button = self._button("Remove", self.remove, "Delete the chosen one (Delete)")
        self.back_button = self._button(
            "◀ Run back", lambda: context.run(-1), "To the breakpoint before (Shift+F5)"
        )
        self.run_button = self._button("Run ▶", self._run_or_cancel, "")
        self._make_menu()
        self.limit = QSpinBox()
        self.limit.setRange(1, MOST_TOKENS)
        self.limit.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.limit.setPrefix("at most ")
        self.limit.setSuffix(" tokens")
        self.limit.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.limit.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.limit.setAccessibleName("Tokens that one run decodes at most")
        self.limit.setToolTip("Tokens that one run decodes at most past the end of the recording")
        self.limit.valueChanged.connect(context.stops.set_limit)
        self._rows = QVBoxLayout(self)
        self._rows.setContentsMargins(0, 0, 0, 0)
        self._running = QHBoxLayout()
        for button in (self.back_button, self.run_button, self.add_button, self.more_button):
            self._running.addWidget(button)
        self._running.addStretch(1)
        self.editing = QWidget()
        self._editing = QHBoxLayout(self.editing)
        self._editing.setContentsMargins(0, 0, 0, 0)
        for widget in (self.edit_button, self.remove_button, self.limit):
            self._editing.addWidget(widget)
        self._editing.addStretch(1)
        self._rows.addLayout(self._running)
        self._rows.addWidget(self.reason)
        self._rows.addWidget(self.brief)
        self._rows.addWidget(self.empty, 1)
        self._rows.addWidget(self.list, 1)
        self._rows.addWidget(self.editing)

    def _make_menu(self) -> None:
        """What a low panel has no room for."""
        self.more_button = self._button("⋯", self._open_menu, "Edit, remove, or set the limit")
        self.more_button.setAccessibleName("More")
        self.menu = QMenu(self)
        self.edit_action = self.menu.addAction("Edit…", self.edit)
        self.remove_action = self.menu.addAction("Remove", self.remove)
        self.limit_action = self.menu.addAction("", self.ask_for_limit)

    # ---- what it shows

    def redraw(self, changes: Change) -> None:
        stops, style = self.context.stops, self.context.style
        if changes & Change.STYLE:
            self._rows.setSpacing(style.px(8))
            for row in (self._editing, self._running):
                row.setSpacing(style.px(6))
        halt = stops.halt
        words = stops.progress or ("" if halt is None else halt.words)
        self.reason.setText(words)
        self.brief.setText(words)
        self.brief.setToolTip(words)
        self._fit()
        self.empty.setVisible(not stops.items.items)
        self.list.setVisible(bool(stops.items.items))
        hit = frozenset() if halt is None else frozenset(r.breakpoint for r in halt.reasons)
        shown = (stops.items, hit)
        if shown != self._shown:
            self._shown = shown
            self._fill(stops.items.items, hit)
        if self.limit.value() != stops.limit:
            self.limit.setValue(stops.limit)
        on, count = len(stops.items.on), len(stops.items)
        hint = "" if not count else f"{on} of {count} on"
        self.set_caption(self.title, hint)
        self._enable()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Where there is little room, the list has it: what stood below it is in a menu."""
        low = self.height() < self.context.style.px(LOW)
        self.editing.setVisible(not low)
        self.more_button.setVisible(low)
        self.reason.setVisible(bool(self.reason.text()) and not low)
        self.brief.setVisible(bool(self.reason.text()) and low)

    def shown_rows(self) -> list[tuple[str, bool]]:
        """The list as it reads: words and whether it is on."""
        rows = (self.list.item(at) for at in range(self.list.count()))
        return [(row.text(), row.checkState() is Qt.CheckState.Checked) for row in rows]

    def _fill(self, items: tuple[Breakpoint, ...], hit: frozenset[int]) -> None:
        self._filling = True
        chosen = self.list.currentRow()
        while self.list.count() > len(items):
            self.list.takeItem(self.list.count() - 1)
        while self.list.count() < len(items):
            self.list.addItem(QListWidgetItem())
        for at, breakpoint in enumerate(items):
            item = self.list.item(at)
            words = breakpoint.rule.words
            item.setText(f"▶ {words}" if breakpoint.number in hit else words)
            item.setData(NUMBER, breakpoint.number)
            item.setCheckState(Qt.CheckState.Checked if breakpoint.on else Qt.CheckState.Unchecked)
            item.setToolTip(f"{words}\n{breakpoint.rule.help}")
        if items and chosen < 0:
            chosen = 0
        self.list.setCurrentRow(min(chosen, len(items) - 1))
        self._filling = False

    def _enable(self) -> None:
        chosen, ready = self.list.currentRow() >= 0, self.context.cursor is not None
        running = self.context.stops.running
        self.edit_button.setEnabled(chosen)
        self.remove_button.setEnabled(chosen)
        self.back_button.setEnabled(ready and not running)
        self.run_button.setEnabled(ready or running)
        self.run_button.setText("Cancel" if running else "Run ▶")
        tip = "Stop running (Esc)" if running else "To the next breakpoint (F5)"
        self.run_button.setToolTip(tip)

    # ---- what can be done

    def add(self) -> None:
        """Ask for one more."""
        self.dialog = ask_for_breakpoint(self, self.context)

    def edit(self) -> None:
        """Ask for another rule in the place of the chosen one."""
        chosen = self._chosen()
        if chosen is not None:
            self.dialog = ask_for_breakpoint(self, self.context, chosen.rule, chosen.number)

    def remove(self) -> None:
        """Delete the chosen one."""
        chosen = self._chosen()
        if chosen is not None:
            self.context.stops.remove(chosen.number)

    def ask_for_limit(self) -> None:
        """Ask how many tokens one run decodes at most."""
        stops = self.context.stops
        dialog = QInputDialog(self)
        dialog.setWindowTitle("Limit of a run")
        dialog.setLabelText("Tokens that one run decodes at most")
        dialog.setInputMode(QInputDialog.InputMode.IntInput)
        dialog.setIntRange(1, MOST_TOKENS)
        dialog.setIntValue(stops.limit)
        dialog.intValueSelected.connect(stops.set_limit)
        dialog.finished.connect(dialog.deleteLater)
        return_focus(dialog)
        dialog.open()
        self.limit_dialog = dialog

    def _open_menu(self) -> None:
        chosen = self._chosen() is not None
        self.edit_action.setEnabled(chosen)
        self.remove_action.setEnabled(chosen)
        self.limit_action.setText(f"At most {plural(self.context.stops.limit, 'token')}…")
        button = self.more_button
        self.menu.popup(button.mapToGlobal(button.rect().bottomLeft()))

    def _run_or_cancel(self) -> None:
        if self.context.stops.running:
            self.context.cancel()
        else:
            self.context.run(1)

    def _chosen(self) -> Breakpoint | None:
        item = self.list.currentItem()
        return None if item is None else self.context.stops.items.find(item.data(NUMBER))

    def _on_item(self, item: QListWidgetItem) -> None:
        if not self._filling:
            on = item.checkState() is Qt.CheckState.Checked
            self.context.stops.switch(item.data(NUMBER), on)

    def _button(self, text: str, slot: Callable[[], object], tip: str) -> QPushButton:
        button = QPushButton(text)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setToolTip(tip)
        button.clicked.connect(slot)
        return button
