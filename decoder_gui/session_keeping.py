"""Sessions and the window: where they are saved, what is offered again, where a model has gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QByteArray, QObject, QStandardPaths
from PySide6.QtWidgets import QWidget

from decoder_gui import session_dialogs
from decoder_gui.autosave import FOLDER, Autosave, LeftBehind
from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.saving.session_file import SUFFIX, SavedSession, SessionFileError, write
from decoder_gui.desks import Desks
from decoder_gui.view import View
from decoder_gui.widgets.offer_bar import OfferBar

RESCUED = f"rescued{SUFFIX}"
_VIEW, _ARRANGEMENT = "view", "arrangement/"


def data_folder() -> Path | None:
    """Where this program keeps its files on this computer, or None."""
    folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.AppDataLocation)
    return Path(folder) if folder else None


class SessionKeeping(QObject):
    """Lets the session groups know of the window, and the window of sessions.

    Args:
        context: whose sessions they are.
        desks: whose arrangement is saved and brought back.
        show_view: goes to a workspace.
        parent: the widget over which questions are asked.

    Attributes:
        offered: the session of a window that is gone, which the bar offers to open.
    """

    def __init__(
        self,
        context: AppContext,
        desks: Desks,
        show_view: Callable[[View], None],
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._desks = desks
        self._show_view = show_view
        self._widget = parent
        self._autosave: Autosave | None = None
        self.offered: LeftBehind | None = None
        self._accepted: LeftBehind | None = None  # being opened again
        self.offer_bar = OfferBar(context.style)
        self.offer_bar.accepted.connect(self._accept)
        self.offer_bar.declined.connect(self._decline)
        sessions = context.sessions
        sessions.layout = self._layout
        sessions.lay_out = self._lay_out
        sessions.moved = self._ask_where
        sessions.restored = self._on_restored
        context.changed.connect(self._on_changed)

    def keep_in(self, folder: Path) -> None:
        """Write unsaved work down in a folder from now on, and offer what was left there."""
        self._autosave = Autosave(self._context.sessions, folder / FOLDER, self)
        self._offer_next()

    def end(self) -> None:
        """The window closes in an orderly way."""
        if self._autosave is not None:
            self._autosave.end()

    # ---- what is asked of the user

    def save(self) -> None:
        """Save where the session was saved before, or ask where."""
        if self._context.sessions.path is None:
            self.save_as()
        else:
            self._context.sessions.save()

    def save_as(self) -> None:
        """Ask where to save."""
        model = self._context.model
        path = session_dialogs.ask_where_to_save(self._widget, "" if model is None else model.name)
        if path is not None:
            self._context.sessions.save(path)

    def open(self) -> None:
        """Ask for a session file, and open it."""
        path = session_dialogs.ask_for_session(self._widget)
        if path is not None:
            self._context.sessions.open(path)

    def rescue(self) -> Path | None:
        """After an unforeseen exception: write the session down; returns where, or None."""
        folder, session = data_folder(), self._context.sessions.snapshot()
        if folder is None or session is None:
            return None
        try:
            write(session, folder / RESCUED, private=True)
        except SessionFileError:
            return None
        return folder / RESCUED

    def _ask_where(self, session: SavedSession, path: Path) -> str:
        return session_dialogs.ask_where_model_is(self._widget, session.model.name, path)

    # ---- what a killed window left

    def _offer_next(self) -> None:
        left = () if self._autosave is None else self._autosave.left_behind()
        self.offered = left[0] if left else None
        if self.offered is None:
            self.offer_bar.hide()
            return
        words = f"A session was not closed: {self.offered.words}."
        if len(left) > 1:
            words = f"{len(left)} sessions were not closed. The latest: {self.offered.words}."
        self.offer_bar.offer(words, "Open it again", "Discard")

    def _accept(self) -> None:
        offered = self.offered
        if offered is None or self._autosave is None:
            return
        if not offered.path.exists():
            self._context.notice.emit("Another window has opened or discarded that session.")
            self._offer_next()
            return
        if self._context.sessions.restore(offered.session, None):
            self._accepted = offered

    def _on_restored(self) -> None:
        """The session is there: once this window's own file holds it, the old one may go."""
        accepted, self._accepted = self._accepted, None
        if accepted is not None and self._autosave is not None:
            self._autosave.write()
            self._autosave.discard(accepted.path)
            self._offer_next()

    def _decline(self) -> None:
        if self.offered is not None and self._autosave is not None:
            self._autosave.discard(self.offered.path)
            self._offer_next()

    # ---- the window's own part

    def _layout(self) -> dict[str, str]:
        states = {
            _ARRANGEMENT + view.name.lower(): bytes(state.toBase64().data()).decode("ascii")
            for view, state in self._desks.remembered().items()
        }
        return {_VIEW: self._desks.view.value, **states}

    def _lay_out(self, layout: dict[str, str]) -> None:
        states = {}
        for view in View:
            text = layout.get(_ARRANGEMENT + view.name.lower())
            if text is not None:
                states[view] = QByteArray.fromBase64(text.encode("ascii", "replace"))
        if not self._context.style.projector:
            self._desks.recall(states)
        if layout.get(_VIEW) in {view.value for view in View}:
            self._show_view(View(layout[_VIEW]))

    def _on_changed(self, change: Change) -> None:
        if change & Change.STYLE:
            self.offer_bar.set_style(self._context.style)
