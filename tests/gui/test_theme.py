"""Fonts, colours and the style sheet."""

from __future__ import annotations

import re

import pytest
from PySide6.QtGui import QFontInfo, QRawFont
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from decoder_gui.assets_path import asset
from decoder_gui.theme.fonts import FILES, load_fonts
from decoder_gui.theme.palette import DARK, PALETTES, Palette, ThemeName, blend, contrast
from decoder_gui.theme.style import MONO_FAMILY, UI_FAMILY, Face, Style
from decoder_gui.theme.stylesheet import apply_style, stylesheet

GROUNDS = ("window", "panel", "raised", "sunken")
TEXTS = ("text", "muted", "faint", "prefill", "decode", "good", "bad", "warning", "breakpoint")
PAIRS = (
    ("accent_text", "accent"),
    ("prefill_text", "prefill"),
    ("decode_text", "decode"),
    ("inverse_text", "inverse"),
)
PALETTE_PARAMETERS = [pytest.param(palette, id=name) for name, palette in PALETTES.items()]


@pytest.mark.parametrize("palette", PALETTE_PARAMETERS)
def test_every_text_is_readable_on_its_ground(palette: Palette) -> None:
    least = 7.0 if palette.name is ThemeName.CONTRAST else 4.5
    pairs = [(text, ground) for text in TEXTS for ground in GROUNDS] + list(PAIRS)
    ratios = {
        pair: contrast(getattr(palette, pair[0]), getattr(palette, pair[1])) for pair in pairs
    }
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < least} == {}


@pytest.mark.parametrize("palette", PALETTE_PARAMETERS)
def test_what_is_to_come_is_fainter_than_what_is_done(palette: Palette) -> None:
    ratios = [contrast(getattr(palette, role), palette.panel) for role in TEXTS[:3]]
    assert ratios == sorted(ratios, reverse=True)


def test_contrast_agrees_with_the_published_examples() -> None:
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.005)
    assert contrast("#336699", "#336699") == 1.0


def test_blend() -> None:
    assert blend("#FFFFFF", "#000000", 0.5) == "#808080"
    assert blend("#123456", "#FEDCBA", 1.0) == "#123456"
    assert blend("#123456", "#FEDCBA", 0.0) == "#FEDCBA"


def test_the_bundled_fonts_are_the_ones_used(qapp: QApplication) -> None:
    assert load_fonts() == load_fonts() == {UI_FAMILY, MONO_FAMILY}
    for face in Face:
        font = Style().font(face)
        info = QFontInfo(font)
        assert (info.family(), info.pixelSize()) == (face.value[0], face.value[1])
        assert info.weight() == face.value[2].value


def test_the_fonts_hold_every_sign_that_the_window_writes(qapp: QApplication) -> None:
    load_fonts()
    fonts = [QRawFont.fromFont(Style().font(face)) for face in (Face.MONO, Face.BODY)]
    missing = [
        sign
        for sign in "…·×√−→✓✗⏎⇥␣–Σ≥Δ▾"
        if not any(font.glyphIndexesForString(sign)[0] for font in fonts)
    ]
    assert missing == []
    assert fonts[0].glyphIndexesForString("\u1d40")[0] == 0  # the test can tell: ᵀ is in neither


def test_a_missing_file_is_named() -> None:
    assert all(asset(f"fonts/{name}").stat().st_size > 100_000 for name in FILES)
    with pytest.raises(FileNotFoundError, match=r"fonts/None\.ttf"):
        asset("fonts/None.ttf")


@pytest.mark.parametrize("palette", PALETTE_PARAMETERS)
@pytest.mark.parametrize("name", ["chevron", "chevron-up", "tick"])
def test_the_icons_have_the_colours_of_their_palette(palette: Palette, name: str) -> None:
    drawing = asset(f"icons/{name}-{palette.name}.svg").read_text(encoding="utf-8")
    role = "accent_text" if name == "tick" else "muted"
    assert f'stroke="{getattr(palette, role)}"' in drawing


@pytest.mark.parametrize("palette", PALETTE_PARAMETERS)
@pytest.mark.parametrize("scale", [0.75, 1.0, 1.5, 2.0])
def test_the_sheet_is_accepted_by_qt_and_uses_only_the_palette(
    palette: Palette, scale: float, qtbot: QtBot
) -> None:
    style = Style(palette, scale)
    sheet = stylesheet(style)
    assert sheet.count("{") == sheet.count("}")
    roles = {getattr(palette, role) for role in Palette.__dataclass_fields__ if role != "name"}
    used = set(re.findall(r"#[0-9A-F]{6}", sheet))
    mixed = {
        blend(palette.text, palette.raised, 0.09),
        blend(palette.accent, palette.text, 0.85),
        blend(palette.inverse, palette.panel, 0.85),
    }
    assert used <= roles | mixed
    button = QPushButton("Step")
    qtbot.addWidget(button)
    button.setStyleSheet(sheet)  # a sheet that Qt cannot parse is a warning, which fails the test
    assert button.sizeHint().height() >= 13 + 2 * style.px(4)


def test_applying_a_style_changes_what_widgets_look_like(qapp: QApplication, qtbot: QtBot) -> None:
    before = (qapp.styleSheet(), qapp.font(), qapp.palette())
    try:
        apply_style(qapp, Style(DARK, 1.0))
        button = QPushButton("Prefill")
        button.setProperty("kind", "primary")
        qtbot.addWidget(button)
        button.ensurePolished()
        small = button.sizeHint()
        ground = button.grab().toImage().pixelColor(6, small.height() // 2)
        assert ground.name().upper() == DARK.accent
        apply_style(qapp, Style(PALETTES[ThemeName.LIGHT], 2.0))
        assert button.sizeHint().height() >= 1.8 * small.height()
        button.resize(button.sizeHint())
        ground = button.grab().toImage().pixelColor(8, button.height() // 2)
        assert ground.name().upper() == PALETTES[ThemeName.LIGHT].accent
    finally:
        qapp.setStyleSheet(before[0])
        qapp.setFont(before[1])
        qapp.setPalette(before[2])
