"""The menu of the View button: looks, the panels of the workspace in hand, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from decoder_gui.context import AppContext
from decoder_gui.desks import Desks
from decoder_gui.theme.palette import ThemeName

_THEME_WORDS = {
    ThemeName.DARK: "Dark",
    ThemeName.LIGHT: "Light",
    ThemeName.CONTRAST: "High contrast",
}
_FILES = ("save_capture",)
_LOOKS = ("zoom_in", "zoom_out", "zoom_reset", "full_screen", "help")


class ViewMenu(QMenu):
    """Filled anew for each workspace."""

    def __init__(
        self, context: AppContext, desks: Desks, actions: Mapping[str, QAction], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._desks = desks
        self._shared = actions
        self._themes = QMenu("Theme", self)
        self._theme_actions: dict[ThemeName, QAction] = {}
        for theme in ThemeName:
            action = self._themes.addAction(_THEME_WORDS[theme])
            action.setCheckable(True)
            action.triggered.connect(partial(self._choose_theme, theme))
            self._theme_actions[theme] = action
        self._reset = QAction("Reset the arrangement", parent)  # clear() deletes the menu's own
        self._reset.triggered.connect(self._reset_arrangement)
        desks.shown.connect(self.refill)
        self.refill()
        self.tick_theme()

    def refill(self) -> None:
        """List the panels of the workspace in hand."""
        self.clear()
        self.addMenu(self._themes)
        self.addSeparator()
        for dock in self._desks.current.docks.values():
            self.addAction(dock.toggleViewAction())
        self.addAction(self._reset)
        self.addSeparator()
        for name in (*_FILES, *_LOOKS):
            if name in self._shared:
                self.addAction(self._shared[name])

    def tick_theme(self) -> None:
        """Tick the theme that is on."""
        for theme, action in self._theme_actions.items():
            action.setChecked(theme is self._context.style.palette.name)

    def _reset_arrangement(self) -> None:
        self._desks.current.reset()

    def _choose_theme(self, name: ThemeName, _: bool = False) -> None:
        self._context.set_theme(name)
        self.tick_theme()  # the click took the tick off a theme that was there already
