"""What the README says of keys, commands and pictures is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from decoder_gui.arguments import COMMANDS, parse
from decoder_gui.shortcuts import SHORTCUTS
from decoder_gui.view import View

REPOSITORY = Path(__file__).parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")

# How the README writes what Qt's portable notation writes otherwise.
WRITTEN = {
    "Right": "→",
    "Left": "←",
    "Up": "↑",
    "Down": "↓",
    "Ctrl++": "Ctrl+plus",
    "Ctrl+-": "Ctrl+minus",
}
LINES = [
    line.strip()
    for line in README.splitlines()
    if line.startswith("    decoder-gui ") and "..." not in line and "[MODEL]" not in line
]


def keys_table() -> str:
    start = README.index("### Keys")
    return README[start : README.index("\n## ", start)]


def test_every_key_of_the_window_is_in_the_table() -> None:
    table = keys_table()
    for shortcut in SHORTCUTS:
        if shortcut.id.startswith(("panel_", "view_")):
            continue
        if shortcut.id == "escape":
            continue  # what Esc does everywhere
        key = WRITTEN.get(shortcut.keys[0], shortcut.keys[0])
        assert key in table, f"{shortcut.id}: {key} is not in the README's table"
    assert f"Alt+1 to Alt+{len(View)}" in table
    for view in View:
        assert view.value in table


@pytest.mark.parametrize("line", LINES)
def test_every_command_line_can_be_parsed(line: str) -> None:
    words = shlex.split(re.split(r"\s{3,}", line)[0])[1:]
    arguments = parse(words)
    assert arguments.command in (*COMMANDS, "window")


def test_every_command_is_described() -> None:
    for command in COMMANDS:
        assert f"decoder-gui {command}" in README


def test_pictures_and_files_that_are_named_are_there() -> None:
    named = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert any(name.endswith(".png") for name in named)
    for name in named:
        assert (REPOSITORY / name).exists(), name
