"""The tabs of the workspaces, or one button with a menu of them where there is no room."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QMenu, QWidget

from decoder_gui.theme.icons import Glyph
from decoder_gui.theme.style import Style
from decoder_gui.widgets.icon_button import IconButton

HEIGHT = 31.0  # pixels at scale 1


class ViewTabs(QWidget):
    """Chooses one of a few names.

    Signals:
        chosen(str): another name.
    """

    chosen = Signal(str)

    def __init__(self, style: Style, names: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._current = names[0]
        self.setAccessibleName("Workspace")
        self.menu = QMenu(self)
        actions = QActionGroup(self)
        group = QButtonGroup(self)
        self.tabs: dict[str, IconButton] = {}
        self._row = QHBoxLayout(self)
        self._row.setSpacing(0)
        self._row.setContentsMargins(0, 0, 0, 0)
        for number, name in enumerate(names, start=1):
            words = f"Workspace: {name} (Alt+{number})"
            tab = IconButton(style, name=words, text=name, kind="segment")
            tab.setCheckable(True)
            tab.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            ends = {1: "first", len(names): "last"}
            tab.setProperty("end", ends.get(number, "middle"))
            tab.clicked.connect(lambda _=False, chosen=name: self.chosen.emit(chosen))
            group.addButton(tab)
            self._row.addWidget(tab)
            self.tabs[name] = tab
            action = self.menu.addAction(name)
            action.setCheckable(True)
            action.triggered.connect(lambda _=False, chosen=name: self.chosen.emit(chosen))
            actions.addAction(action)
        self.button = IconButton(style, name="Workspace", text=self._current, after=Glyph.DOWN)
        self.button.clicked.connect(self._drop)
        self.button.hide()
        self._row.addWidget(self.button)
        self.set_style(style)
        self.set_current(self._current)

    def set_current(self, name: str) -> None:
        """Show which name is chosen."""
        self._current = name
        self.tabs[name].setChecked(True)
        self.button.set_content(name, after=Glyph.DOWN)
        self.button.setAccessibleName(f"Workspace: {name}")
        for action in self.menu.actions():
            action.setChecked(action.text() == name)

    def set_compact(self, compact: bool) -> None:
        """One button instead of all tabs."""
        for tab in self.tabs.values():
            tab.setVisible(not compact)
        self.button.setVisible(compact)

    @property
    def compact(self) -> bool:
        return not self.button.isHidden()

    @property
    def whole_width(self) -> int:
        """What all tabs take, in pixels, on show or not."""
        return sum(tab.sizeHint().width() for tab in self.tabs.values())

    def set_style(self, style: Style) -> None:
        """Take on other colours or another scale."""
        for button in (*self.tabs.values(), self.button):
            button.set_style(style)
            button.setFixedHeight(style.px(HEIGHT))
        self.button.set_glyph_side(8)

    def _drop(self) -> None:
        self.menu.popup(self.button.mapToGlobal(QPoint(0, self.button.height())))
