"""The settings as code for other programs, and settings from JSON."""

from __future__ import annotations

from functools import partial

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.laboratory.sampling_code import GENERATORS, Code, own_code
from decoder_gui.debugger.laboratory.sampling_paste import as_json
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.theme.stylesheet import repolish
from decoder_gui.view import View

JSON = "JSON"


@register
class SettingsCodePanel(Panel):
    """One program at a time; remarks say what it cannot have the same way."""

    panel_id = "sampling-code"
    title = "Settings as code"
    views = (View.SAMPLING,)
    place = Place.LEFT
    order = 1
    row_height = 250
    wants = Change.SAMPLING | Change.MODEL | Change.STYLE | Change.LAB

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.program = next(iter(GENERATORS))
        self.programs: dict[str, QPushButton] = {}
        group = QButtonGroup(self)
        names = [*GENERATORS, JSON]
        tabs = QVBoxLayout()
        tabs.setSpacing(0)
        for line in (names[:2], names[2:]):
            row = QHBoxLayout()
            row.setSpacing(0)
            for at, name in enumerate(line):
                button = QPushButton(name)
                button.setCheckable(True)
                button.setProperty("kind", "segment")
                end = "first" if not at else "last" if at == len(line) - 1 else ""
                button.setProperty("end", end)
                button.clicked.connect(partial(self._on_program, name))
                group.addButton(button)
                row.addWidget(button, 1)
                self.programs[name] = button
            tabs.addLayout(row)
        self.programs[self.program].setChecked(True)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setAccessibleName("Settings as code")
        self.copy = QPushButton("Copy")
        self.paste = QPushButton("Paste JSON")
        self.paste.setToolTip(
            "Takes on settings from the clipboard: a JSON object such as the one under JSON, or a "
            "generation_config.json of transformers."
        )
        self.words = QLabel()
        self.words.setWordWrap(True)
        self.words.setProperty("kind", "muted")
        buttons = QHBoxLayout()
        buttons.addWidget(self.copy)
        buttons.addWidget(self.paste)
        buttons.addStretch(1)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addLayout(tabs)
        self._column.addWidget(self.text, 1)
        self._column.addWidget(self.words)
        self._column.addLayout(buttons)
        self.copy.clicked.connect(self._on_copy)
        self.paste.clicked.connect(self._on_paste)

    def redraw(self, changes: Change) -> None:
        if changes & Change.STYLE:
            self.words.setFont(self.context.style.font(Face.SMALL))
            self.text.setMinimumHeight(self.context.style.px(40))
            for button in self.programs.values():  # no name is cut off, whatever its neighbours
                button.setMinimumWidth(button.sizeHint().width())
            self._column.setSpacing(self.context.style.px(6))
        code = self._code()
        if self.text.toPlainText() != code.text:
            self.text.setPlainText(code.text)
        self.set_caption(self.title, "" if not code.remarks else "not all the same")
        self._say()

    def _code(self) -> Code:
        config = self.context.sampling
        if self.program == JSON:
            return Code(JSON, as_json(config))
        if self.program == "decoder-gui":
            return own_code(config, self.context.spec or "stories")
        return GENERATORS[self.program](config)

    def _say(self) -> None:
        lab = self.context.sampler_lab
        words = lab.unread or " ".join(lab.remarks)
        kind = "error" if lab.unread else "muted"
        if self.words.property("kind") != kind:
            self.words.setProperty("kind", kind)
            repolish(self.words)
        self.words.setText(words)
        self.words.setVisible(bool(words))

    def _on_program(self, name: str) -> None:
        self.program = name
        self.redraw(Change.SAMPLING)

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())
        self.context.notice.emit(f"The settings for {self.program} are on the clipboard.")

    def _on_paste(self) -> None:
        if self.context.sampler_lab.paste(QGuiApplication.clipboard().text()):
            self.context.notice.emit("The settings were taken on.")
