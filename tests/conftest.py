"""Every window of the tests is rendered offscreen, with the same letters on any machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from decoder_gui.assets_path import asset

os.environ["QT_QPA_PLATFORM"] = "offscreen"
# Read when the first font is asked for; where there is no fontconfig it changes nothing.
os.environ["FONTCONFIG_FILE"] = str(Path(__file__).parent / "snapshots" / "fonts.conf")


@pytest.fixture
def ruined(tmp_path: Path) -> Path:
    """The bundled model with one weight that is not a number."""
    folder = tmp_path / "ruined"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(asset("stories") / name, folder)
    tensors = load_file(asset("stories") / "model.safetensors")
    weight = tensors["transformer.h.1.mlp.c_fc.weight"].copy()
    weight[0, 0] = np.nan
    save_file({**tensors, "transformer.h.1.mlp.c_fc.weight": weight}, folder / "model.safetensors")
    return folder
