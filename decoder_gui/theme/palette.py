"""The three colour schemes, by role. Panels name a role and never a colour."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ThemeName(StrEnum):
    DARK = "dark"
    LIGHT = "light"
    CONTRAST = "contrast"


@dataclass(frozen=True)
class Palette:
    """Colours as ``#RRGGBB``, each for one meaning."""

    name: ThemeName
    window: str  # behind the panels
    panel: str
    raised: str  # buttons, token cells
    sunken: str  # code, input fields
    border: str
    border_strong: str
    text: str
    muted: str  # secondary text; still >= 4.5:1 on panel
    faint: str  # things to come
    inverse: str  # background of the row in hand
    inverse_text: str
    accent: str  # primary button, probability bars
    accent_text: str
    prefill: str
    decode: str
    prefill_text: str  # readable on prefill-coloured blocks
    decode_text: str
    good: str
    bad: str
    warning: str
    breakpoint: str
    empty: str  # unused cache positions, empty gauge
    hatch: str  # lines over what does not exist or was cut
    outline: str  # around the item in hand


DARK = Palette(
    name=ThemeName.DARK,
    window="#0F1217",
    panel="#171B22",
    raised="#1D222B",
    sunken="#11151B",
    border="#2A313C",
    border_strong="#3A4251",
    text="#F0F3F8",
    muted="#9AA3B2",
    faint="#828B9A",
    inverse="#F0F3F8",
    inverse_text="#0F1217",
    accent="#56B4E9",
    accent_text="#08131B",
    prefill="#56B4E9",
    decode="#E69F00",
    prefill_text="#08131B",
    decode_text="#1A1200",
    good="#2FBF8F",
    bad="#FF6B5E",
    warning="#F0C419",
    breakpoint="#FF6B4A",
    empty="#262D38",
    hatch="#2A313C",
    outline="#FFFFFF",
)

LIGHT = Palette(
    name=ThemeName.LIGHT,
    window="#F4F5F7",
    panel="#FFFFFF",
    raised="#FFFFFF",
    sunken="#F1F2F5",
    border="#DDE1E7",
    border_strong="#B8C0CC",
    text="#14181F",
    muted="#596273",
    faint="#656E7C",
    inverse="#14181F",
    inverse_text="#FFFFFF",
    accent="#006EAD",
    accent_text="#FFFFFF",
    prefill="#006EAD",
    decode="#A85500",
    prefill_text="#FFFFFF",
    decode_text="#FFFFFF",
    good="#00794F",
    bad="#C02717",
    warning="#8A6500",
    breakpoint="#C8331B",
    empty="#E1E5EB",
    hatch="#CDD3DC",
    outline="#14181F",
)

CONTRAST = Palette(
    name=ThemeName.CONTRAST,
    window="#000000",
    panel="#000000",
    raised="#000000",
    sunken="#000000",
    border="#FFFFFF",
    border_strong="#FFFFFF",
    text="#FFFFFF",
    muted="#E6E6E6",
    faint="#C8C8C8",
    inverse="#FFFF00",
    inverse_text="#000000",
    accent="#00E5FF",
    accent_text="#000000",
    prefill="#00E5FF",
    decode="#FFB000",
    prefill_text="#000000",
    decode_text="#000000",
    good="#00FF7F",
    bad="#FF8A80",
    warning="#FFFF00",
    breakpoint="#FF8A80",
    empty="#3A3A3A",
    hatch="#8C8C8C",
    outline="#FFFFFF",
)

PALETTES = {palette.name: palette for palette in (DARK, LIGHT, CONTRAST)}


def luminance(colour: str) -> float:
    """Relative luminance of ``#RRGGBB`` in [0, 1], as WCAG 2.2 defines it."""
    weights = (0.2126, 0.7152, 0.0722)
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return sum(weight * channel for weight, channel in zip(weights, linear, strict=True))


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, from 1 (none) to 21 (black on white)."""
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def blend(front: str, back: str, opacity: float) -> str:
    """``front`` laid over ``back`` with an opacity from 0 to 1, as ``#RRGGBB``."""
    pairs = ((int(front[at : at + 2], 16), int(back[at : at + 2], 16)) for at in (1, 3, 5))
    mixed = (round(opacity * a + (1 - opacity) * b) for a, b in pairs)
    return "#" + "".join(f"{channel:02X}" for channel in mixed)
