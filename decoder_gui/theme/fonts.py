"""The bundled typefaces, registered with Qt so that the window looks the same everywhere."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QFontDatabase

from decoder_gui.assets_path import asset
from decoder_gui.theme.style import MONO_FAMILY, UI_FAMILY

FILES = (
    "Inter-Regular.otf",
    "Inter-SemiBold.otf",
    "JetBrainsMono-Regular.ttf",
    "JetBrainsMono-Bold.ttf",
)
_REGISTERED = "bundledFontsRegistered"


class FontsMissing(RuntimeError):
    """A bundled typeface could not be registered; without it texts would be cut or misaligned."""


def load_fonts() -> frozenset[str]:
    """Register the bundled fonts, once for each application; returns the families they hold.

    Raises:
        RuntimeError: there is no QGuiApplication yet.
        FileNotFoundError: a file is not part of the installation.
        FontsMissing: Qt cannot read a file, or its family is not the expected one.
    """
    application = QCoreApplication.instance()
    if application is None:
        raise RuntimeError("the fonts can be registered only once there is an application")
    wanted = frozenset({UI_FAMILY, MONO_FAMILY})
    # Remembered by the application, which is what Qt ties registered fonts to.
    if application.property(_REGISTERED):
        return wanted
    found: set[str] = set()
    for name in FILES:
        font = QFontDatabase.addApplicationFont(str(asset(f"fonts/{name}")))
        if font < 0:
            raise FontsMissing(f"the bundled font {name} cannot be read")
        found.update(QFontDatabase.applicationFontFamilies(font))
    if not wanted <= found:
        raise FontsMissing(f"the bundled fonts hold {sorted(found)}, not {sorted(wanted)}")
    application.setProperty(_REGISTERED, True)
    return wanted
