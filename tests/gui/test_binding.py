"""The Qt binding itself: PySide6 6.12.0 under Python 3.11 drops a reference to None per call.

Some 16,000 void calls later such a process aborts, in the middle of a session.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import PySide6
from PySide6.QtCore import qVersion

REPOSITORY = Path(__file__).resolve().parents[2]
REFUSED = {"6.11.0", "6.11.1", "6.12.0"}

# The results are dropped unseen, as in real code: a comparison would hold one more reference while
# the count passes zero, and the interpreter would not notice.
VOID_CALLS = """
import sys
from PySide6.QtGui import QColor, QImage, QPainter, QPen
from PySide6.QtWidgets import QApplication, QLabel

application = QApplication([])
label = QLabel()
image = QImage(8, 8, QImage.Format.Format_ARGB32)
painter = QPainter(image)
pen = QPen(QColor("red"))
calls = 0
before = sys.getrefcount(None)
while calls < int(sys.argv[1]):
    painter.setPen(pen)
    label.update()
    label.setText("a" if calls % 2 else "b")
    calls += 3
lost = before - sys.getrefcount(None)
painter.end()
print(calls, lost)
"""


def test_many_void_calls_cost_no_reference_to_none() -> None:
    run = subprocess.run(
        [sys.executable, "-c", VOID_CALLS, "20000"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    calls, lost = map(int, run.stdout.split())
    assert calls >= 20_000
    assert lost < 100  # the faulty binding loses one a call


def test_the_installed_version_is_none_of_those_refused() -> None:
    assert PySide6.__version__ == qVersion() == version("PySide6-Essentials")
    assert PySide6.__version__ not in REFUSED


def test_the_project_refuses_those_versions() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (qt,) = [each for each in project["dependencies"] if each.startswith("PySide6-Essentials")]
    assert set(qt.removeprefix("PySide6-Essentials").split(",")) == {
        ">=6.8",
        *(f"!={each}" for each in REFUSED),
    }
