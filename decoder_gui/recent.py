"""The models that were opened last, remembered between runs of the window."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QSettings

from decoder_gui.debugger.hub import PREFIX
from decoder_gui.debugger.library import named_models

KEY = "models/recent"
MOST = 8


@dataclass(frozen=True)
class RecentModel:
    """A model that was opened before.

    Attributes:
        spec: what opens it again.
        missing: it is not where it was.
    """

    spec: str
    missing: bool = False

    @property
    def name(self) -> str:
        """What to call it: the name of its file or folder, or of its repository."""
        return self.spec if self.spec.startswith(PREFIX) else Path(self.spec).name

    def opens(self, spec: str) -> bool:
        """Whether it is what a spec opens."""
        return spec == self.spec or (bool(spec) and _absolute(spec) == self.spec)

    @property
    def summary(self) -> str:
        """Where it is."""
        if self.spec.startswith(PREFIX):
            return "from a model hub"
        parent = str(Path(self.spec).parent)
        return f"not there any more, was in {parent}" if self.missing else f"in {parent}"


class RecentModels:
    """A list of at most eight specs, the latest first; with no settings it lasts as long as this.

    Args:
        settings: where the list is kept, or None.
    """

    def __init__(self, settings: QSettings | None = None) -> None:
        self._settings = settings
        self._specs = self._remembered()

    def add(self, spec: str) -> None:
        """A model was opened; those that are opened by name are in the menu anyway."""
        if not spec or spec in {named.name for named in named_models()}:
            return
        spec = _absolute(spec)
        specs = [spec, *(other for other in self._specs if other != spec)][:MOST]
        if specs != self._specs:
            self._specs = specs
            if self._settings is not None:
                self._settings.setValue(KEY, specs)

    def models(self) -> tuple[RecentModel, ...]:
        """What can be opened again, the latest first."""
        return tuple(RecentModel(spec, _missing(spec)) for spec in self._specs)

    def _remembered(self) -> list[str]:
        value = None if self._settings is None else self._settings.value(KEY)
        # A list of one comes back as the text alone.
        found = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        return [spec for spec in found if isinstance(spec, str) and spec][:MOST]


def _absolute(spec: str) -> str:
    """A path as it is called from every working directory; another name as it is."""
    if spec.startswith(PREFIX):
        return spec
    return str(Path(spec).expanduser().absolute())


def _missing(spec: str) -> bool:
    if spec.startswith(PREFIX):
        return False
    try:
        return not Path(spec).exists()
    except OSError:
        return True
