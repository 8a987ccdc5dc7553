"""The few questions that the window asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QIcon
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QInputDialog,
    QLabel,
    QMessageBox,
    QPlainTextEdit,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.hub import PREFIX
from decoder_gui.debugger.saving.session_file import SUFFIX
from decoder_gui.viewdata.moment import ModelInfo, Moment
from decoder_gui.widgets.focus_return import return_focus
from model.tokenizers import cut_front

FILES = f"Models, captures and sessions (*.gguf *.safetensors *{SUFFIX});;All files (*)"
CAPTURES = "Captures (*.safetensors)"


@dataclass(frozen=True)
class Answer:
    """What the user chose to do, as something to do to the context."""

    apply: Callable[[AppContext], None]


def ask_for_file(parent: QWidget) -> str:
    """A file with a model or a capture, or an empty string."""
    found, _ = QFileDialog.getOpenFileName(
        parent, "Open a model, a capture or a session", "", FILES
    )
    return found


def ask_where_to_save(parent: QWidget, name: str) -> Path | None:
    """Where a capture goes, or None; a file that is there is asked about."""
    return where_to_save(parent, "Save the run to a capture", name, ".safetensors", CAPTURES)


def where_to_save(parent: QWidget, title: str, name: str, suffix: str, kinds: str) -> Path | None:
    """Where a file goes; one that is there under that name with its ending is asked about."""
    dialog = QFileDialog(parent, title, "", kinds)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(suffix)
    dialog.selectFile(_file_name(name) + suffix)
    chosen = dialog.exec() == QDialog.DialogCode.Accepted
    files = dialog.selectedFiles()
    dialog.deleteLater()
    return Path(files[0]) if chosen and files else None


def _file_name(name: str) -> str:
    """A name for a file after a model."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name) or "run"


def ask_for_folder(parent: QWidget) -> str:
    """A folder with a checkpoint, or an empty string."""
    return QFileDialog.getExistingDirectory(
        parent, "Open a model folder (config.json and model.safetensors)"
    )


def ask_for_name(parent: QWidget) -> str:
    """A repository of a model hub as a spec, or an empty string."""
    text, given = QInputDialog.getText(
        parent,
        "Open by name from a model hub",
        "Repository, such as openai-community/gpt2, with an optional @revision.\n"
        "It is downloaded once, and opened from the cache without a network afterwards.",
    )
    name = text.strip().removeprefix(PREFIX)
    return f"{PREFIX}{name}" if given and name else ""


def ask_for_cursor(parent: QWidget, moment: Moment) -> Cursor | None:
    """Where to go: a step and an operation that are recorded."""
    trace = moment.trace
    dialog = QDialog(parent)
    dialog.setWindowTitle("Go to")
    form = QFormLayout(dialog)
    step = QSpinBox(dialog)
    step.setRange(0, len(trace.steps) - 1)
    operation = QComboBox(dialog)
    for each in trace.operations:
        where = "" if each.layer is None else f"Block {each.layer} · "
        operation.addItem(where + each.label)
    if moment.cursor is not None:
        step.setValue(moment.cursor.step)
        operation.setCurrentIndex(moment.cursor.operation)
    form.addRow(f"Step (0 to {len(trace.steps) - 1}; 0 is the prefill)", step)
    form.addRow("Operation", operation)
    form.addRow(_buttons(dialog))
    return_focus(dialog)
    if dialog.exec() != QDialog.DialogCode.Accepted:
        return None
    return Cursor(step.value(), operation.currentIndex())


def ask_about_overflow(
    parent: QWidget, model: ModelInfo, token_ids: list[int], capacity: int
) -> Answer | None:
    """A prompt does not fit: cutting its front is an explicit choice that shows what is lost."""
    lost, kept = cut_front(model.tokenizer, token_ids, capacity)
    tokens = "1 token" if len(lost) == 1 else f"{len(lost)} tokens"
    limit = model.shape.context_length
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Warning)
    box.setWindowTitle("The prompt does not fit")
    box.setText(f"The prompt has {len(token_ids)} tokens and the context has {capacity} positions.")
    box.setInformativeText(
        f"Cutting the front would lose {tokens}:\n\n" + _shortened(model.tokenizer.decode(lost))
    )
    cut = box.addButton(f"Cut {tokens} at the front", QMessageBox.ButtonRole.AcceptRole)
    larger = None
    if len(token_ids) <= limit:
        larger = box.addButton(f"Use a context of {limit}", QMessageBox.ButtonRole.AcceptRole)
    keep = box.addButton("Keep as it was", QMessageBox.ButtonRole.RejectRole)
    box.setDefaultButton(keep)
    return_focus(box)
    box.exec()
    if box.clickedButton() is cut:
        return Answer(lambda context: context.prefill_ids(kept))
    if larger is not None and box.clickedButton() is larger:
        return Answer(lambda context: context.prefill_in(token_ids, limit))
    return None


def show_crash(parent: QWidget, text: str, saved: Path | None) -> QDialog:
    """An unforeseen exception, as text to copy; the session stays as it is and was saved."""
    dialog = QDialog(parent)
    dialog.setWindowTitle("Something went wrong")
    layout = QVBoxLayout(dialog)
    lead = QLabel(
        "This should not have happened. The session on screen stays usable; the text below says "
        "what failed."
        + (
            ""
            if saved is None
            else f" The session was also written to {saved}, which opens as it was."
        )
    )
    lead.setWordWrap(True)
    layout.addWidget(lead)
    body = QPlainTextEdit(text)
    body.setReadOnly(True)
    body.setMinimumSize(640, 280)
    layout.addWidget(body)
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
    copy = buttons.addButton("Copy the text", QDialogButtonBox.ButtonRole.ActionRole)
    copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(text))
    buttons.rejected.connect(dialog.reject)
    layout.addWidget(buttons)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return_focus(dialog)
    dialog.open()
    return dialog


def _buttons(dialog: QDialog) -> QDialogButtonBox:
    kinds = QDialogButtonBox.StandardButton
    buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel, dialog)
    for button in buttons.buttons():
        button.setIcon(QIcon())  # no other button of the window has one of the base style's
    buttons.accepted.connect(dialog.accept)
    buttons.rejected.connect(dialog.reject)
    return buttons


def _shortened(text: str, most: int = 600) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {text[-most // 2 :]}"
