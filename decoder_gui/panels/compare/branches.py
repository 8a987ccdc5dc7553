"""The Branches panel: all branches with what each changes, and everything that is done to them."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.branching import ask_for_edit, ask_for_text
from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.comparing.against import OtherBranch
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.view import View
from decoder_gui.viewdata.branches import BranchesView, build_branches
from decoder_gui.widgets.data_table import DataTable
from decoder_gui.widgets.edit_dialog import EditDialog
from decoder_gui.widgets.focus_return import return_focus
from decoder_gui.widgets.text_dialog import TextDialog

ROOMY = 250  # pixels at scale 1, below which the rows of the table are worth more than the details


class _Table(DataTable):
    """Delete removes and F2 renames: the rest is a table's own."""

    def __init__(self, panel: BranchesPanel) -> None:
        super().__init__("Branches", panel.context.style)
        self._keys: dict[int, Callable[[], None]] = {
            Qt.Key.Key_Delete: panel.delete,
            Qt.Key.Key_Backspace: panel.delete,
            Qt.Key.Key_F2: panel.rename,
        }

    def event(self, event: QEvent) -> bool:
        if (
            event.type() is QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() in self._keys
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        action = self._keys.get(event.key())
        if action is None:
            super().keyPressEvent(event)
        else:
            action()


@register
class BranchesPanel(Panel):
    """What each branch shares, changes, says and takes; the one in hand is marked."""

    panel_id = "branches"
    title = "Branches"
    views = (View.COMPARE,)
    place = Place.RIGHT
    order = 1
    row_height = 300
    wants = Change.BRANCHES | Change.TRACE | Change.STYLE | Change.MODEL | Change.BUSY

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.view = BranchesView()
        self.dialog: EditDialog | TextDialog | QInputDialog | None = None
        self.empty = QLabel()
        self.empty.setWordWrap(True)
        self.empty.setProperty("kind", "muted")
        self.empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.table = _Table(self)
        self.details = QLabel()
        self.details.setWordWrap(True)
        self.details.setAccessibleName("The chosen branch")
        self.details.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.switch_button = self._button("Switch", self.switch, "Enter the chosen one (Enter)")
        self.rename_button = self._button("Rename…", self.rename, "Name the chosen one (F2)")
        self.compare_button = self._button(
            "Compare", self.compare, "The branch in hand against the chosen one, in Compare"
        )
        self.delete_button = self._button("Delete", self.delete, "Free the chosen one (Delete)")
        self.ablate_button = self._button(
            "Ablate…", self.ablate, "Zero a head or an MLP, or patch an activation, in a new branch"
        )
        self.text_button = self._button(
            "Edit text…", self.edit_text, "Another text in a new branch, from where it differs"
        )
        self.undo_button = self._button("Undo", context.branches.undo, "")
        self.redo_button = self._button("Redo", context.branches.redo, "")
        self.table.row_chosen.connect(lambda _: self.switch())
        self.table.row_pointed.connect(lambda _: self._point())
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._rows = QHBoxLayout(), QHBoxLayout()
        for row, buttons in zip(
            self._rows,
            (
                (self.switch_button, self.compare_button, self.rename_button, self.delete_button),
                (self.ablate_button, self.text_button, self.undo_button, self.redo_button),
            ),
            strict=True,
        ):
            for button in buttons:
                row.addWidget(button)
            row.addStretch(1)
        self._column.addWidget(self.empty, 1)
        self._column.addWidget(self.table, 1)
        self._column.addWidget(self.details)
        for row in self._rows:
            self._column.addLayout(row)

    # ---- what it shows

    def redraw(self, changes: Change) -> None:
        context, style = self.context, self.context.style
        if changes & Change.STYLE:
            self._column.setSpacing(style.px(8))
            for row in self._rows:
                row.setSpacing(style.px(6))
            self.table.set_style(style)
        branches, model = context.branches, context.model
        before = self.view.ids
        if not context.running or changes & (Change.BRANCHES | Change.MODEL):
            tokenizer = None if model is None else model.tokenizer
            self.view = build_branches(branches.tree, tokenizer, branches.kept)
        self.table.set_table(self.view.table)
        if self.view.ids != before and self.view.table.marked is not None:
            self.table.point_at(self.view.table.marked)
        self.empty.setText(self.empty_words)
        self.empty.setVisible(not self.view.ids)
        self.table.setVisible(bool(self.view.ids))
        self.set_caption(self.title, self.view.hint)
        self._point()

    def _point(self) -> None:
        """What can be done with the row under the keyboard's mark."""
        branches, chosen = self.context.branches, self.chosen
        here = self.table.currentIndex().row()
        self.details.setText(self.view.details[here] if chosen is not None else "")
        self.details.setToolTip("" if chosen is None else branches.text(chosen))
        roomy = self.height() >= self.context.style.px(ROOMY)
        self.details.setVisible(chosen is not None and roomy)
        other = chosen is not None and chosen != branches.tree.active
        self.switch_button.setEnabled(other)
        self.compare_button.setEnabled(other and not branches.tree[chosen or 0].planned)
        self.rename_button.setEnabled(chosen is not None)
        self.delete_button.setEnabled(chosen is not None and len(self.view.ids) > 1)
        ready = self.context.cursor is not None
        recorded = self.context.model is not None and self.context.model.recorded is not None
        for button in (self.ablate_button, self.text_button):
            button.setEnabled(ready and not recorded)
        for button, words, keys in (
            (self.undo_button, branches.undo_words, "Ctrl+Z"),
            (self.redo_button, branches.redo_words, "Ctrl+Shift+Z"),
        ):
            button.setEnabled(bool(words))
            button.setToolTip(f"{words} ({keys})" if words else f"Nothing ({keys})")

    @property
    def chosen(self) -> int | None:
        """The number of the branch under the keyboard's mark."""
        row = self.table.currentIndex().row()
        return self.view.ids[row] if 0 <= row < len(self.view.ids) else None

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._point()
        self.table.bring_into_sight(self.table.currentIndex().row())

    # ---- what can be done

    def switch(self) -> None:
        """Enter the chosen branch."""
        if self.chosen is not None:
            self.context.branches.switch(self.chosen)

    def compare(self) -> None:
        """Compare the branch in hand with the chosen one."""
        if self.chosen is not None:
            self.context.comparison.compare(OtherBranch(self.chosen))

    def delete(self) -> None:
        """Free the chosen branch."""
        if self.chosen is not None:
            self.context.branches.delete(self.chosen)

    def rename(self) -> None:
        """Ask for another name of the chosen branch."""
        chosen = self.chosen
        if chosen is None:
            return
        dialog = QInputDialog(self)
        dialog.setWindowTitle("Name of the branch")
        dialog.setLabelText("Name")
        dialog.setTextValue(self.context.branches.tree[chosen].name)
        dialog.textValueSelected.connect(lambda name: self.context.branches.rename(chosen, name))
        dialog.finished.connect(dialog.deleteLater)
        return_focus(dialog)
        dialog.open()
        self.dialog = dialog

    def ablate(self) -> None:
        """Ask what to change in a new branch."""
        self.dialog = ask_for_edit(self, self.context)

    def edit_text(self) -> None:
        """Ask for another text for a new branch."""
        self.dialog = ask_for_text(self, self.context)

    def _button(self, text: str, slot: Callable[[], object], tip: str) -> QPushButton:
        button = QPushButton(text)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setToolTip(tip)
        button.clicked.connect(slot)
        return button
