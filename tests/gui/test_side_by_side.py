"""Two groups of widgets that stand side by side where there is room."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from decoder_gui.theme.style import Style
from decoder_gui.widgets.side_by_side import SideBySide


def test_room_for_both_puts_them_side_by_side_at_any_scale(qtbot: QtBot) -> None:
    both = SideBySide(400)
    qtbot.addWidget(both)
    left, right = QLabel("numbers"), QLabel("answers")
    both.first.addWidget(left)
    both.second.addWidget(right)
    both.end()
    both.set_style(Style())
    both.resize(500, 200)
    both.show()
    qtbot.waitUntil(lambda: right.x() > left.x())
    assert both.beside
    both.resize(300, 200)
    qtbot.waitUntil(lambda: right.y() > left.y())
    assert not both.beside
    both.resize(500, 200)
    both.set_style(Style(scale=2.0))
    assert not both.beside
