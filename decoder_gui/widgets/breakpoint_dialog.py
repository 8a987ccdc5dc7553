"""A form for a breakpoint: a kind, and the fields that this kind of rule asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QCompleter,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.debugger.stopping.rules import FieldForm, InvalidRule, Rule, all_rules, forms
from decoder_gui.debugger.stopping.spots import InvalidSpot, Spot
from decoder_gui.theme.style import Style
from decoder_gui.widgets.focus_return import return_focus
from model.errors import sentence

MOST = 1_000_000_000
WIDTH = 460


class BreakpointDialog(QDialog):
    """Asks for a rule; every registered kind can be chosen, and nothing else has to know of it.

    Once it is accepted, ``rule`` is what was asked for. What cannot be is said in a line, and the
    dialog stays open.

    Args:
        style: palette and scale.
        rule: to begin with; the first kind with what it suggests where None.
        operations, arrays: names to complete what is typed.
        title: of the dialog.
    """

    def __init__(
        self,
        style: Style,
        rule: Rule | None = None,
        *,
        operations: Sequence[str] = (),
        arrays: Sequence[str] = (),
        title: str = "Stop when",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.rule = rule
        self._names = {"pattern": operations, "operation": operations, "array": arrays}
        self._typed: dict[str, Any] = {}
        self._getters: dict[str, Callable[[], object]] = {}
        self.setWindowTitle(title)
        self.setMinimumWidth(style.px(WIDTH))
        self.kinds = QComboBox()
        self.kinds.setAccessibleName("What to stop at")
        for kind in all_rules():
            self.kinds.addItem(kind.title, kind)
        self.help = QLabel()
        self.help.setWordWrap(True)
        self.help.setProperty("kind", "muted")
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        self.problem.setProperty("kind", "error")
        self.problem.hide()
        self.form = QFormLayout()
        buttons = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(buttons.Ok | buttons.Cancel)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        column = QVBoxLayout(self)
        column.setSpacing(style.px(10))
        column.addWidget(self.kinds)
        column.addWidget(self.help)
        column.addLayout(self.form)
        column.addWidget(self.problem)
        column.addStretch(1)
        column.addWidget(self.buttons)
        self.kinds.currentIndexChanged.connect(self._rebuild)
        if rule is not None:
            self._typed = {form.name: getattr(rule, form.name) for form in forms(type(rule))}
            self.kinds.setCurrentIndex(all_rules().index(type(rule)))
        self._rebuild()
        return_focus(self)

    def field(self, name: str) -> QWidget:
        """The control of a field, or of a part of a place; KeyError if there is none."""
        for row in range(self.form.rowCount()):
            item = self.form.itemAt(row, QFormLayout.ItemRole.FieldRole)
            widget = None if item is None else item.widget()
            if widget is not None and widget.objectName() == name:
                return widget
        raise KeyError(name)

    def accept(self) -> None:
        """Make the rule, or say why it cannot be and stay open."""
        try:
            self.rule = self._made()
        except (InvalidRule, InvalidSpot) as problem:
            self.problem.setText(sentence(problem))
            self.problem.show()
            return
        super().accept()

    def _made(self) -> Rule:
        kind: type[Rule] = self.kinds.currentData()
        return kind(**{form.name: self._getters[form.name]() for form in forms(kind)})

    def _rebuild(self) -> None:
        for name, getter in self._getters.items():
            try:
                self._typed[name] = getter()
            except (InvalidRule, InvalidSpot):
                continue  # not a value yet: nothing to take along to another kind
        while self.form.rowCount():
            self.form.removeRow(0)
        self._getters = {}
        self.problem.hide()
        kind: type[Rule] = self.kinds.currentData()
        self.help.setText(kind.help)
        for form in forms(kind):
            typed = self._typed.get(form.name)
            start = typed if isinstance(typed, form.type) else form.default
            start = form.entry.suggestion if start is None else start
            self._getters[form.name] = self._add(form, start)
        layout = self.layout()
        if layout is not None:  # as high as the fields of this kind need; the help wraps
            layout.activate()
            width = max(self.width(), self.minimumWidth())
            self.resize(width, layout.totalHeightForWidth(width))

    def _add(self, form: FieldForm, start: Any) -> Callable[[], object]:
        label = form.entry.label
        if form.type is Spot:
            return self._add_spot(start)
        if issubclass(form.type, StrEnum):
            choice = QComboBox()
            # By index: Qt would give an enum back as a plain text.
            members = list(form.type)
            choice.addItems([str(each) for each in members])
            choice.setCurrentIndex(members.index(start))
            self._row(form.name, label, choice)
            return lambda: members[choice.currentIndex()]
        if form.type is int:
            least, most = form.entry.least, form.entry.most
            number = self._number(int(start), int(least or 0), MOST if most is None else int(most))
            if form.entry.unit:
                number.setSuffix(f" {form.entry.unit}")
            self._row(form.name, label, number)
            return number.value
        line = QLineEdit(f"{start:g}" if form.type is float else str(start))
        unit = f", {form.entry.unit}" if form.entry.unit else ""
        self._row(form.name, label + unit, line)
        if form.type is float:
            return lambda: _parsed(label, line.text())
        self._complete(form.name, line)
        return lambda: line.text().strip()

    def _add_spot(self, start: Spot) -> Callable[[], Spot]:
        array = QLineEdit(start.array)
        self._complete("array", array)
        head = self._number(-1 if start.head is None else start.head, -1)
        head.setSpecialValueText("no head axis")
        at = self._number(-1 if start.position is None else start.position, -1)
        at.setSpecialValueText("newest of each step")
        index = self._number(start.index or 0, 0)
        for name, label, widget in (
            ("array", "Array", array),
            ("head", "Head", head),
            ("position", "Position", at),
            ("index", "Index (key, dimension or token)", index),
        ):
            self._row(name, label, widget)

        def value() -> Spot:
            return Spot(
                array.text().strip(),
                None if head.value() < 0 else head.value(),
                None if at.value() < 0 else at.value(),
                index.value(),
            )

        return value

    def _row(self, name: str, label: str, widget: QWidget) -> None:
        widget.setObjectName(name)
        widget.setAccessibleName(label)
        self.form.addRow(label, widget)
        # A wrapped text above claims room that the layout would take from the fields.
        widget.ensurePolished()
        widget.setMinimumHeight(widget.sizeHint().height())

    def _complete(self, name: str, line: QLineEdit) -> None:
        known = self._names.get(name, ())
        if known:
            completer = QCompleter(list(known), line)
            completer.setFilterMode(Qt.MatchFlag.MatchContains)
            line.setCompleter(completer)

    @staticmethod
    def _number(value: int, least: int, most: int = MOST) -> QSpinBox:
        made = QSpinBox()
        made.setRange(least, most)
        made.setValue(value)
        return made


def _parsed(label: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as problem:
        raise InvalidRule(f"{label} must be a number, not {text!r}") from problem
