"""Tooltips: texts as they are, whatever a token looks like."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QToolTip, QWidget
from pytestqt.qtbot import QtBot

from decoder_gui.widgets.tips import plain_tip, show_tip


@pytest.mark.parametrize("text", ["“<s>” at position 0", "“<br>” & “</s>”", "<b>two</b>\nlines"])
def test_what_looks_like_markup_is_shown_as_it_is(text: str) -> None:
    document = QTextDocument()
    document.setHtml(plain_tip(text))
    assert document.toPlainText() == text


def test_other_texts_are_left_alone(qtbot: QtBot) -> None:
    assert plain_tip("a < b, <|im_start|>") == "a < b, <|im_start|>"
    widget = QWidget()
    qtbot.addWidget(widget)
    show_tip(QPoint(0, 0), "plain", widget)
    assert QToolTip.text() == "plain"
