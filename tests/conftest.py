"""Every window of the tests is rendered offscreen, with the same letters on any machine."""

from __future__ import annotations

import os
from pathlib import Path

os.environ["QT_QPA_PLATFORM"] = "offscreen"
# Read when the first font is asked for; where there is no fontconfig it changes nothing.
os.environ["FONTCONFIG_FILE"] = str(Path(__file__).parent / "snapshots" / "fonts.conf")
