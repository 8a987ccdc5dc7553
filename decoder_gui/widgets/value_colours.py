"""Colours of numbers, each scale with one fixed meaning.

Weights and probabilities use the attention panel's viridis from 0 to 1. Everything else uses a
scale that is symmetric about 0: pink below, the colour of emptiness at 0, green above, which also
the common kinds of colour blindness tell apart; the sign is in the number besides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from PySide6.QtGui import QColor, QImage

from decoder_gui.theme.palette import Palette, ThemeName
from decoder_gui.widgets.viridis import is_light, viridis

STEPS = 256
_ENDS = {
    ThemeName.DARK: ("#E07BB2", "#8CC653"),
    ThemeName.LIGHT: ("#C8328A", "#4F9222"),
    ThemeName.CONTRAST: ("#FF86C6", "#A8F060"),
}


@dataclass(frozen=True, eq=False)
class ValueColours:
    """A scale's colours and whether each is light, so that text on it must be dark."""

    colours: tuple[QColor, ...]
    light: tuple[bool, ...]

    def index(self, fraction: float) -> int:
        """The entry for a fraction of the scale, from 0 to 1."""
        return min(max(int(fraction * STEPS), 0), STEPS - 1)


@lru_cache(maxsize=8)
def sequential() -> ValueColours:
    """From 0 to 1."""
    return _scale([QColor(int(r), int(g), int(b)) for r, g, b in viridis(STEPS)])


@lru_cache(maxsize=8)
def diverging(palette: Palette) -> ValueColours:
    """From the lower limit over 0 in the middle to the upper limit."""
    below, above = (QColor(end) for end in _ENDS[palette.name])
    middle = QColor(palette.empty)
    blended = []
    for at in np.linspace(-1.0, 1.0, STEPS):
        end, share = (above, at) if at >= 0 else (below, -at)
        blended.append(
            QColor.fromRgbF(
                middle.redF() + (end.redF() - middle.redF()) * share,
                middle.greenF() + (end.greenF() - middle.greenF()) * share,
                middle.blueF() + (end.blueF() - middle.blueF()) * share,
            )
        )
    return _scale(blended)


@lru_cache(maxsize=8)
def band(scale: ValueColours) -> QImage:
    """A scale as an image of one line, to be stretched."""
    image = QImage(STEPS, 1, QImage.Format.Format_RGB32)
    for x, colour in enumerate(scale.colours):
        image.setPixelColor(x, 0, colour)
    return image


def _scale(colours: list[QColor]) -> ValueColours:
    return ValueColours(tuple(colours), tuple(is_light(colour) for colour in colours))
