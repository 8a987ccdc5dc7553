"""A palette, a scale and the bundled fonts: all that a widget needs to know about its looks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from PySide6.QtGui import QColor, QFont

from decoder_gui.theme.palette import DARK, PALETTES, Palette, ThemeName

UI_FAMILY = "Inter"
MONO_FAMILY = "JetBrains Mono"


class Face(Enum):
    """The text roles of the product, as (family, pixels at scale 1, weight)."""

    BODY = (UI_FAMILY, 13, QFont.Weight.Normal)
    STRONG = (UI_FAMILY, 13, QFont.Weight.DemiBold)
    SMALL = (UI_FAMILY, 12, QFont.Weight.Normal)
    TINY = (UI_FAMILY, 10, QFont.Weight.Normal)
    TITLE = (UI_FAMILY, 12, QFont.Weight.DemiBold)
    MONO = (MONO_FAMILY, 12, QFont.Weight.Normal)
    MONO_STRONG = (MONO_FAMILY, 12, QFont.Weight.Bold)
    MONO_SMALL = (MONO_FAMILY, 11, QFont.Weight.Normal)
    MONO_TINY = (MONO_FAMILY, 9, QFont.Weight.Normal)
    TOKEN = (MONO_FAMILY, 14, QFont.Weight.Normal)


@dataclass(frozen=True)
class Style:
    """What a widget draws with. Lengths in the code are pixels at scale 1, passed through px."""

    palette: Palette = DARK
    scale: float = 1.0
    projector: bool = False

    def px(self, length: float) -> int:
        """A length of the design in device-independent pixels, at least 1 for anything visible."""
        return max(1, round(length * self.scale)) if length > 0 else 0

    def font(self, face: Face) -> QFont:
        """The bundled font of a role, sized in pixels so that every display agrees."""
        made = self._fonts.get(face)
        if made is None:
            made = self._fonts[face] = self._make_font(face)
        return QFont(made)

    @cached_property
    def _fonts(self) -> dict[Face, QFont]:
        """Fonts made so far: painting asks for the same few hundreds of times a step."""
        return {}

    def _make_font(self, face: Face) -> QFont:
        family, pixels, weight = face.value
        # Each family helps out with the signs that the other lacks: ␣ and ⏎ are only in Inter.
        font = QFont([family, UI_FAMILY, MONO_FAMILY])
        font.setPixelSize(self.px(pixels))
        font.setWeight(weight)
        if family == MONO_FAMILY:
            # Code and numbers are shown as they are written: no ligature for /= or ->.
            font.setFeature(QFont.Tag("calt"), 0)
        return font

    def colour(self, role: str, alpha: float = 1.0) -> QColor:
        """The colour of a palette role, e.g. ``colour("muted")``."""
        made = self._colours.get((role, alpha))
        if made is None:
            made = QColor(getattr(self.palette, role))
            made.setAlphaF(alpha)
            self._colours[role, alpha] = made
        return QColor(made)

    @cached_property
    def _colours(self) -> dict[tuple[str, float], QColor]:
        """Colours made so far, as :attr:`_fonts`."""
        return {}

    def scaled(self, scale: float) -> Style:
        """The same looks at another scale, within what stays usable."""
        return replace(self, scale=min(4.0, max(0.6, scale)))

    def themed(self, name: ThemeName) -> Style:
        """The same scale in other colours."""
        return replace(self, palette=PALETTES[name])

    def projected(self) -> Style:
        """For a projector: light, and at least 1.5 times as large."""
        return Style(PALETTES[ThemeName.LIGHT], max(1.5, self.scale * 1.5), projector=True)
