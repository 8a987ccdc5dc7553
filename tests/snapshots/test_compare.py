"""The comparison of pictures notices what a reader would, and nothing that only smoothing does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication, QWidget

from decoder_gui.panel_dock import PanelDock
from decoder_gui.panels.attention import AttentionPanel
from decoder_gui.theme.fonts import load_fonts
from decoder_gui.theme.palette import PALETTES, ThemeName
from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata import attention, kv_cache
from tests.snapshots.compare import (
    CHANGED,
    LEVELS,
    MEAN,
    TILE,
    UPDATE,
    check_picture,
    difference,
    picture,
    pixels,
)
from tests.snapshots.conftest import Shot
from tests.snapshots.test_panels import shot

NUMBERS = ("0.347", "0.348"), ("12", "13"), ("1.62", "1.82"), ("26.0", "28.0"), ("0.311", "0.317")


@pytest.fixture(autouse=True)
def never_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UPDATE, raising=False)


def written(text: str, style: Style, face: Face, role: str) -> QImage:
    image = QImage(60, 24, QImage.Format.Format_RGB888)
    image.fill(style.colour("panel"))
    painter = QPainter(image)
    painter.setFont(style.font(face))
    painter.setPen(style.colour(role))
    painter.drawText(6, 17, text)
    painter.end()
    return image


@pytest.mark.parametrize("face", [Face.MONO_TINY, Face.MONO_SMALL, Face.SMALL, Face.TINY])
@pytest.mark.parametrize("role", ["text", "muted"])
@pytest.mark.parametrize("theme", list(ThemeName))
def test_one_digit_is_noticed(qapp: QApplication, theme: ThemeName, role: str, face: Face) -> None:
    load_fonts()
    style = Style(PALETTES[theme])
    for one, other in NUMBERS:
        apart = difference(
            pixels(written(one, style, face, role)), pixels(written(other, style, face, role))
        )
        assert apart.changed > CHANGED, (one, other, apart)


def test_the_same_picture_is_the_same(photograph: Callable[[Shot], QImage]) -> None:
    once = pixels(photograph(shot("kv-cache")))
    again = pixels(photograph(shot("kv-cache")))
    assert difference(once, again).mean == 0.0
    assert difference(once, again).changed == 0


def test_a_number_that_changed_is_noticed(
    photograph: Callable[[Shot], QImage], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pixels(photograph(shot("kv-cache")))
    monkeypatch.setattr(kv_cache, "format_bytes", lambda count: f"{count + 1} B")
    assert not difference(before, pixels(photograph(shot("kv-cache")))).accepted


def test_a_cell_of_another_colour_is_noticed(
    shown: Callable[[Shot], QWidget], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = shot("attention")
    ground = here.style.colour("window")
    before = pixels(picture(shown(here), ground))
    compose = attention._compose

    def recoloured(*arguments: Any) -> Any:
        matrix = compose(*arguments)
        other = matrix.codes.copy()
        other[5, 2] = 1 if other[5, 2] > 128 else 255
        return replace(matrix, codes=other)

    monkeypatch.setattr(attention, "_compose", recoloured)
    dock = shown(here)
    assert isinstance(dock, PanelDock)
    assert isinstance(dock.panel, AttentionPanel)
    assert not difference(before, pixels(picture(dock, ground))).accepted


def test_smoothing_is_forgiven_and_a_shift_is_not(photograph: Callable[[Shot], QImage]) -> None:
    levels = pixels(photograph(shot("kv-cache"))).astype(np.int16)
    edges = np.abs(np.diff(levels, axis=1, prepend=levels[:, :1])) > 8
    noise = np.random.default_rng(3).integers(-24, 25, levels.shape)
    smoothed = np.clip(np.where(edges, levels + noise, levels), 0, 255).astype(np.uint8)
    plain = levels.astype(np.uint8)
    assert difference(plain, smoothed).mean > 0.0
    assert difference(plain, smoothed).accepted
    assert not difference(plain, np.roll(plain, 1, axis=1)).accepted
    assert not difference(plain, np.roll(plain, 1, axis=0)).accepted


def test_a_small_change_everywhere_is_noticed() -> None:
    plain = np.full((40, 50, 3), 100, np.uint8)
    assert difference(plain, plain + np.uint8(3)).mean == 3.0 > MEAN
    assert not difference(plain, plain + np.uint8(3)).accepted


def test_a_change_is_found_wherever_it_is() -> None:
    plain = np.zeros((33, 47, 3), np.uint8)
    for top, left in ((0, 0), (31, 44), (15, 15), (16, 31)):
        changed = plain.copy()
        changed[top : top + 2, left : left + 3] = LEVELS + 1
        found = difference(plain, changed)
        assert found.changed == 6
        x, y = found.at
        assert x <= left
        assert left + 3 <= x + TILE
        assert y <= top
        assert top + 2 <= y + TILE


# ---------------------------------------------------------------- the committed pictures


def plain_image(colour: str, width: int = 40) -> QImage:
    image = QImage(width, 30, QImage.Format.Format_RGB888)
    image.fill(QColor(colour))
    return image


def test_a_picture_that_differs_is_kept_with_the_difference(tmp_path: Path) -> None:
    plain_image("black").save(str(tmp_path / "a.png"))
    check_picture(plain_image("black"), "a", tmp_path, tmp_path)
    with pytest.raises(AssertionError, match=UPDATE) as failure:
        check_picture(plain_image("white"), "a", tmp_path, tmp_path)
    for ending in ("actual", "difference"):
        saved = tmp_path / f"a-{ending}.png"
        assert not QImage(str(saved)).isNull()
        assert str(saved) in str(failure.value)


def test_a_missing_picture_and_another_size_are_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="there is no picture"):
        check_picture(plain_image("black"), "b", tmp_path, tmp_path)
    plain_image("black", 41).save(str(tmp_path / "b.png"))
    with pytest.raises(AssertionError, match="40 x 30 and was 41 x 30"):
        check_picture(plain_image("black"), "b", tmp_path, tmp_path)


def test_pictures_are_rewritten_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UPDATE, "1")
    check_picture(plain_image("white"), "c", tmp_path, tmp_path)
    monkeypatch.setenv(UPDATE, "0")
    check_picture(plain_image("white"), "c", tmp_path, tmp_path)


def test_names_of_pictures_say_what_they_are() -> None:
    here = shot("values", theme=ThemeName.LIGHT, fault="no-mask")
    assert here.name == "values-random-no-mask-light"
    assert replace(here, projector=True, fault="").name == "values-random-projector"
