"""The four arrow keys, for widgets in which they move something while the keyboard is there."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent

ARROWS = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
}
"""Rows down and columns to the right."""

_PLAIN = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)


def is_arrow(event: QEvent) -> bool:
    """Whether an event is an arrow key without Ctrl, Alt or Shift."""
    return isinstance(event, QKeyEvent) and event.key() in ARROWS and event.modifiers() in _PLAIN
