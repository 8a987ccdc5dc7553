"""Rounded words that say whether the run is sound."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.theme.stylesheet import repolish
from decoder_gui.viewdata.token_strip import StatusChip


class StatusChips(QWidget):
    """A row of chips; buttons are made once and used again.

    Signals:
        chip_clicked(name): a chip was pressed.
    """

    chip_clicked = Signal(str)

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._chips: tuple[StatusChip, ...] = ()
        self._buttons: list[QPushButton] = []
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self.setAccessibleName("Checks")

    def set_chips(self, chips: Sequence[StatusChip], style: Style) -> None:
        """Show these chips."""
        if tuple(chips) == self._chips and style == self._style:
            return
        self._chips, self._style = tuple(chips), style
        self._row.setSpacing(style.px(8))
        while len(self._buttons) < len(chips):
            self._buttons.append(self._make(len(self._buttons)))
        for index, button in enumerate(self._buttons):
            button.setVisible(index < len(chips))
            if index < len(chips):
                self._dress(button, chips[index])

    def shown(self) -> list[tuple[str, str]]:
        """Text and state of each chip, as shown."""
        return [
            (button.text(), str(button.property("state")))
            for button in self._buttons
            if not button.isHidden()
        ]

    def button(self, name: str) -> QPushButton:
        """The button of a chip; KeyError if there is none of that name."""
        for chip, button in zip(self._chips, self._buttons, strict=False):
            if chip.name == name:
                return button
        raise KeyError(name)

    def _make(self, index: int) -> QPushButton:
        button = QPushButton(self)
        button.setProperty("kind", "chip")
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(lambda: self.chip_clicked.emit(self._chips[index].name))
        self._row.addWidget(button)
        return button

    def _dress(self, button: QPushButton, chip: StatusChip) -> None:
        button.setText(chip.text)
        button.setToolTip(chip.detail)
        button.setAccessibleName(chip.text)
        button.setAccessibleDescription(chip.detail)
        button.setFont(self._style.font(Face.BODY))
        if button.property("state") != chip.state.value:
            button.setProperty("state", chip.state.value)
            repolish(button)
