"""Every window of the tests is rendered offscreen, on any machine and without a display."""

from __future__ import annotations

import os

os.environ["QT_QPA_PLATFORM"] = "offscreen"
