"""What is asked about sessions: where they go, which to open, where a model is now."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from decoder_gui.debugger.saving.session_file import SUFFIX
from decoder_gui.dialogs import ask_for_file, ask_for_folder, where_to_save

SESSIONS = f"Sessions (*{SUFFIX})"


def ask_where_to_save(parent: QWidget, name: str) -> Path | None:
    """Where a session goes, or None."""
    return where_to_save(parent, "Save the session", name, SUFFIX, SESSIONS)


def ask_for_session(parent: QWidget) -> Path | None:
    """A session file, or None."""
    path, _ = QFileDialog.getOpenFileName(parent, "Open a session", "", SESSIONS)
    return Path(path) if path else None


def ask_where_model_is(parent: QWidget, name: str, path: Path) -> str:
    """Where a model that has moved is now, or an empty string."""
    box = QMessageBox(parent)
    box.setWindowTitle("Where is the model?")
    box.setText(f"The session is of {name}, which is not at {path} any more.")
    box.setInformativeText("Choose where it is now, or leave the session closed.")
    file = box.addButton("Choose a file…", QMessageBox.ButtonRole.AcceptRole)
    folder = box.addButton("Choose a folder…", QMessageBox.ButtonRole.AcceptRole)
    box.addButton("Leave it closed", QMessageBox.ButtonRole.RejectRole)
    box.exec()
    if box.clickedButton() is file:
        return ask_for_file(parent)
    return ask_for_folder(parent) if box.clickedButton() is folder else ""
