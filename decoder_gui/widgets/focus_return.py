"""Keys go back to the window when a dialog closes, with or without a window manager."""

from __future__ import annotations

from PySide6.QtWidgets import QDialog, QWidget


def return_focus(dialog: QDialog) -> None:
    """Make the window behind a dialog the active one again once the dialog is over.

    A window manager does this by itself; on a bare X server the keyboard would be left nowhere.
    """
    behind = dialog.parentWidget()
    if behind is not None:
        window: QWidget = behind.window()
        dialog.finished.connect(window.activateWindow)
