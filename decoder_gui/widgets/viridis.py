"""The viridis colour map as a lookup table, and text that is readable on each of its colours.

Viridis is by Stéfan van der Walt and Nathaniel Smith, in the public domain. It grows evenly in
lightness, so that it still reads in grey and for every kind of colour vision.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QColor

# Every fifth of its 256 colours; the others lie between them to within one step of a channel.
_EVERY_FIFTH = (
    "44015446085c471063481769481d6f482475472a7a46307e453781433d844142873f48893d4e8a"
    "3a538b38598c355e8d33638d31688e2e6d8e2c718e2a768e297b8e27808e25848e23898e218e8d"
    "20928c1f978b1e9c891fa18821a58524aa8328ae802eb37c35b7793dbc7446c06f50c46a5ac864"
    "65cb5e70cf577cd25089d54895d840a2da37b0dd2fbddf26cae11fd8e219e5e419f1e51dfde725"
)


@cache
def viridis(steps: int = 256) -> NDArray[np.uint8]:
    """Red, green and blue for evenly spaced values from 0 to 1; (steps, 3), read-only."""
    anchors = np.frombuffer(bytes.fromhex(_EVERY_FIFTH), np.uint8).reshape(-1, 3)
    at = np.linspace(0.0, len(anchors) - 1.0, steps)
    channels = [np.interp(at, np.arange(len(anchors)), anchors[:, i]) for i in range(3)]
    table = np.rint(np.stack(channels, axis=1)).astype(np.uint8)
    table.flags.writeable = False
    return table


def is_light(colour: QColor) -> bool:
    """Whether black text has more contrast on a colour than white text (WCAG's luminance)."""
    channels = (colour.redF(), colour.greenF(), colour.blueF())
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Contrast is (lighter + .05) / (darker + .05); both texts tie where the square is 1.05 * .05.
    return (luminance + 0.05) ** 2 > 1.05 * 0.05
