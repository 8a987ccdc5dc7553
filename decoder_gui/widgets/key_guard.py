"""Lets the control that has the focus use its own keys before the window's shortcuts take them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QPushButton,
    QWidget,
)
from shiboken6 import isValid

_ENTER = frozenset({Qt.Key.Key_Return, Qt.Key.Key_Enter})
_ACTIVATE = _ENTER | {Qt.Key.Key_Space}
_ACROSS = frozenset({Qt.Key.Key_Left, Qt.Key.Key_Right})
_ALONG = frozenset({Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Home, Qt.Key.Key_End})

# Page Up and Page Down are in none of them: a presenter's clicker always steps.
OWN_KEYS: tuple[tuple[type[QWidget], frozenset[Qt.Key]], ...] = (
    (QAbstractButton, _ACTIVATE),
    (QAbstractSlider, _ACROSS | _ALONG),
    (QAbstractSpinBox, _ACROSS | _ALONG),
    (QLineEdit, frozenset({Qt.Key.Key_Up, Qt.Key.Key_Down})),  # Qt sees to its other keys
    (QComboBox, _ALONG | {Qt.Key.Key_Space}),
    (QAbstractItemView, _ACROSS | _ALONG | _ACTIVATE),
)


class KeyGuard(QObject):
    """Watches the one widget that has the focus.

    Without it the window's Space would play instead of pressing the focused button, and its arrow
    keys would step instead of moving the focused slider. Enter presses a button as Space does.
    """

    def __init__(self, application: QApplication, parent: QObject | None = None) -> None:
        super().__init__(parent or application)
        self._watched: QWidget | None = None
        application.focusChanged.connect(self._on_focus)
        self._on_focus(None, application.focusWidget())

    def _on_focus(self, old: QWidget | None, new: QWidget | None) -> None:
        # A widget may lose the focus by being deleted, and only tell so afterwards.
        if self._watched is not None and isValid(self._watched):
            self._watched.removeEventFilter(self)
            self._watched.destroyed.disconnect(self._forget)
        self._watched = new
        if new is not None:
            new.installEventFilter(self)
            new.destroyed.connect(self._forget)

    def _forget(self) -> None:
        self._watched = None

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if not isinstance(event, QKeyEvent) or event.modifiers() & ~(
            Qt.KeyboardModifier.KeypadModifier
        ):
            return False
        if isinstance(watched, QWidget) and watched.window().windowType() is Qt.WindowType.Popup:
            return False  # a list that dropped down chooses by Enter, and no shortcut reaches it
        if event.type() is QEvent.Type.ShortcutOverride and event.key() in own_keys(watched):
            event.accept()
            return True
        if (
            event.type() is QEvent.Type.KeyPress
            and event.key() in _ENTER
            and isinstance(watched, QPushButton)
        ):
            watched.click()
            return True
        return False


def own_keys(widget: QObject) -> frozenset[Qt.Key]:
    """The keys that a widget of this kind needs for itself."""
    for kind, keys in OWN_KEYS:
        if isinstance(widget, kind):
            return keys
    return frozenset()
