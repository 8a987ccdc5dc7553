"""Tooltips that show a text as it is, also one that looks like markup: ``<s>`` is a token."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import QPoint
from PySide6.QtGui import Qt
from PySide6.QtWidgets import QToolTip, QWidget


def plain_tip(text: str) -> str:
    """A text for a tooltip, in which nothing is taken for markup."""
    if not Qt.mightBeRichText(text):
        return text
    return f"<p style='white-space: pre-wrap'>{escape(text)}</p>"


def show_tip(place: QPoint, text: str, widget: QWidget) -> None:
    """Show a text beside the pointer, in global coordinates; an empty one hides what is shown."""
    QToolTip.showText(place, plain_tip(text), widget)
