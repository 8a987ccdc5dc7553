"""What every panel is: a place in the window, and one method that redraws it from a moment."""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from pkgutil import iter_modules

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

import decoder_gui.panels
from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.view import View


class Place(Enum):
    """Where a panel stands in the default arrangement of a view."""

    STRIP = "strip"  # across the top, under the prompt
    LEFT = "left"
    CENTRE = "centre"
    BELOW = "below"  # under the centre
    RIGHT = "right"
    FOOT = "foot"  # across the bottom


NO_MODEL = "No model is open yet. Choose one at the top left."
NO_WEIGHTS = "A recording holds no weights: nothing can be computed or measured with it."
NO_RUN = "Nothing has been computed yet. Enter a prompt and choose Prefill."


class Panel(QWidget):
    """Base of all panels.

    A panel that is hidden marks itself stale and redraws when it is shown; one that joins late is
    told everything at once. Subclasses set the class attributes and implement :meth:`redraw`.

    Attributes:
        panel_id: stable name, also the dock's object name.
        title: what the dock's title bar says.
        views: the workspaces that have one of it; made when the view is first shown.
        place: where it stands by default; ``order`` sorts panels of the same place.
        column_width, row_height: how much room it would like, in pixels at scale 1; 0 leaves it to
            the place.
        wants: the changes that make a redraw necessary.
        at_cursor: whether it shows nothing of later steps than the one in hand: it need not be
            redrawn while the run grows there.

    Signals:
        caption_changed(str, str): title and hint for the dock's title bar.
    """

    panel_id: str = ""
    title: str = ""
    views: tuple[View, ...] = (View.STEP,)
    place: Place = Place.RIGHT
    order: int = 0
    column_width: int = 0
    row_height: int = 0
    wants: Change = Change.ALL
    at_cursor: bool = False

    caption_changed = Signal(str, str)

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.context = context
        self._stale = Change.ALL
        self.setObjectName(f"panel-{self.panel_id}")
        self.setAccessibleName(self.title)
        context.changed.connect(self._on_changed)

    @property
    def empty_words(self) -> str:
        """What a panel says while it has nothing to show."""
        return NO_MODEL if self.context.model is None else NO_RUN

    def redraw(self, changes: Change) -> None:
        """Bring the panel up to date with ``self.context``; called only while it is visible."""
        raise NotImplementedError

    def set_caption(self, title: str, hint: str = "") -> None:
        """Say what the panel is showing in the dock's title bar."""
        self.caption_changed.emit(title, hint)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._flush()

    def _on_changed(self, change: Change) -> None:
        if self.at_cursor and change & Change.GROWTH:
            change &= ~Change.TRACE
        if change & self.wants:
            self._stale |= change & self.wants
            if self.isVisible():
                self._flush()

    def _flush(self) -> None:
        if self._stale:
            stale, self._stale = self._stale, Change(0)
            self.redraw(stale)


_REGISTRY: dict[str, type[Panel]] = {}


def register(panel: type[Panel]) -> type[Panel]:
    """Class decorator: make a panel known to the window. One new file is all that it takes."""
    if panel.panel_id in _REGISTRY:
        raise ValueError(f"two panels are called {panel.panel_id!r}")
    _REGISTRY[panel.panel_id] = panel
    return panel


def panels_of(view: View = View.STEP) -> list[type[Panel]]:
    """The registered panels of a view, in order of place and order.

    The modules of this folder are imported at once; those in the folder of another view, such as
    ``find``, when that view is first shown, so that no start waits for them.
    """
    _import_all(decoder_gui.panels.__name__)
    if view is not View.STEP:
        _import_all(f"{decoder_gui.panels.__name__}.{view.name.lower()}")
    places = list(Place)
    return sorted(
        (panel for panel in _REGISTRY.values() if view in panel.views),
        key=lambda panel: (places.index(panel.place), panel.order),
    )


def _import_all(package: str) -> None:
    for module in iter_modules(import_module(package).__path__):
        if not module.ispkg:
            import_module(f"{package}.{module.name}")
