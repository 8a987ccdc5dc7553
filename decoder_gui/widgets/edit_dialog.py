"""A form for an edit of the engine: zero a head, zero an MLP, or patch an activation."""

from __future__ import annotations

from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.theme.style import Style
from decoder_gui.viewdata.edit_form import HELP, EditChoices, EditKind, EditWish
from decoder_gui.widgets.focus_return import return_focus

WIDTH = 440  # pixels at scale 1


class EditDialog(QDialog):
    """Asks what a new branch should change. Once it is accepted, ``wish`` is what was asked for."""

    def __init__(self, style: Style, choices: EditChoices, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.wish: EditWish | None = None
        self._choices = choices
        self.setWindowTitle("New branch by ablation")
        self.setMinimumWidth(style.px(WIDTH))
        self.kinds = QComboBox()
        self.kinds.setAccessibleName("What to change")
        self.kinds.addItems(list(EditKind))
        self.help = QLabel()
        self.help.setWordWrap(True)
        self.help.setProperty("kind", "muted")
        self.layer = self._number("Layer", choices.layers, choices.layer)
        self.head = self._number("Head", choices.heads, choices.head)
        self.step = self._number("From step", choices.steps, choices.step)
        self.name = QComboBox()
        self.name.setAccessibleName("Activation")
        self.name.addItems(choices.names)
        self.name.setCurrentText(choices.name)
        self.patched_head = self._number("Only head", choices.heads, -1, least=-1)
        self.patched_head.setSpecialValueText("all")
        self.position = self._number("At position", choices.positions, choices.position)
        self.source = self._number("From position", choices.sources, 0)
        self.branch = QComboBox()
        self.branch.setAccessibleName("Of branch")
        for number, name in choices.branches:
            self.branch.addItem(name, number)
        self.same = QCheckBox("Run the same later tokens again")
        self.same.setChecked(True)
        self.same.setToolTip("Off: only the first changed step is run, and the sampler goes on")
        standard = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(standard.Ok | standard.Cancel)
        self.buttons.button(standard.Ok).setText("Begin branch")
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self._form = form = QFormLayout()
        form.setSpacing(style.px(8))
        form.addRow("Change", self.kinds)
        for title, field in (
            ("Layer", self.layer),
            ("Head", self.head),
            ("From step", self.step),
            ("Activation", self.name),
            ("Head", self.patched_head),
            ("At position", self.position),
            ("From position", self.source),
            ("Of branch", self.branch),
        ):
            form.addRow(title, field)
        column = QVBoxLayout(self)
        column.setSpacing(style.px(10))
        column.addLayout(form)
        column.addWidget(self.help)
        column.addWidget(self.same)
        column.addWidget(self.buttons)
        self.kinds.currentTextChanged.connect(self._show_fields)
        self.name.currentTextChanged.connect(self._show_fields)
        self._show_fields()
        return_focus(self)

    @property
    def kind(self) -> EditKind:
        """What is chosen at present."""
        return EditKind(self.kinds.currentText())

    def accept(self) -> None:
        """Keep what was asked for and close."""
        head = self.head.value()
        patch = self.kind is EditKind.PATCH
        if patch:
            head = self.patched_head.value() if self._has_heads else -1
        self.wish = EditWish(
            kind=self.kind,
            layer=self.layer.value(),
            head=None if patch and head < 0 else head,
            step=self.step.value(),
            name=self.name.currentText(),
            position=self.position.value(),
            source=self.source.value(),
            branch=int(self.branch.currentData()),
            same_tokens=self.same.isChecked(),
        )
        super().accept()

    @property
    def _has_heads(self) -> bool:
        name = self.name.currentText()
        return ".attn." in name and not name.endswith(".attn.out")

    def _show_fields(self) -> None:
        kind = self.kind
        patch = kind is EditKind.PATCH
        self.help.setText(HELP[kind])
        for field, wanted in (
            (self.layer, not patch),
            (self.head, kind is EditKind.ZERO_HEAD),
            (self.step, not patch),
            (self.name, patch),
            (self.patched_head, patch and self._has_heads),
            (self.position, patch),
            (self.source, patch),
            (self.branch, patch and self.branch.count() > 1),
        ):
            self._form.setRowVisible(field, wanted)
        self.adjustSize()

    def _number(self, name: str, count: int, value: int, *, least: int = 0) -> QSpinBox:
        box = QSpinBox()
        box.setRange(least, max(0, count - 1))
        box.setValue(value)
        box.setAccessibleName(name)
        return box
