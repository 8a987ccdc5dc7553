"""Every panel against its committed picture, in every palette and on a projector.

To look at a change that is meant: run these tests once with DECODER_GUI_UPDATE_SNAPSHOTS=1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from decoder_gui.theme.palette import ThemeName
from tests.snapshots.compare import PICTURES, check_picture
from tests.snapshots.conftest import Shot

LIGHT, CONTRAST = ThemeName.LIGHT, ThemeName.CONTRAST
SIZES = {
    "forward-pass": (300, 560),
    "attention": (640, 460),
    "values": (640, 270),
    "next-token": (380, 560),
    "kv-cache": (380, 310),
    "token_strip": (1180, 0),
    "timeline": (1180, 0),
}
LOOKED_AT = {"next-token": "sample", "kv-cache": "blocks.1.cache"}


def shot(panel: str, model: str = "random", **others: object) -> Shot:
    at = LOOKED_AT.get(panel, "blocks.1.attn.pattern") if model == "random" else "sample"
    return Shot(panel, model, SIZES[panel], **{"at": at, **others})  # type: ignore[arg-type]


SHOTS = (
    *(shot(panel) for panel in SIZES),
    *(shot(panel, theme=LIGHT) for panel in SIZES),
    *(shot(panel, theme=CONTRAST) for panel in ("attention", "next-token", "values", "kv-cache")),
    *(
        shot(panel, theme=LIGHT, projector=True)
        for panel in ("attention", "next-token", "token_strip")
    ),
    shot("attention", theme=LIGHT, fault="no-mask"),
    shot("values", fault="nan-weight", at="logits"),
    shot("next-token", fault="nan-weight"),
    shot("attention", "tiny", at="blocks.0.attn.pattern"),
    shot("values", "tiny", at="blocks.0.attn.scores"),
    shot("kv-cache", "tiny"),
)


@pytest.mark.skipif(sys.platform != "linux", reason="letters are smoothed in another way there")
@pytest.mark.parametrize("shot", SHOTS, ids=lambda shot: shot.name)
def test_a_panel_looks_as_it_did(
    shot: Shot, photograph: Callable[[Shot], QImage], tmp_path: Path
) -> None:
    check_picture(photograph(shot), shot.name, tmp_path)


def test_every_picture_is_looked_at_and_small() -> None:
    committed = {path.stem: path.stat().st_size for path in PICTURES.glob("*.png")}
    assert set(committed) == {shot.name for shot in SHOTS}
    assert sum(committed.values()) < 600_000
