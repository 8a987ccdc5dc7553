"""One line of text in several fonts and colours, whose size never depends on what it says.

A label would ask for a new layout of its surroundings at every step.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from decoder_gui.theme.style import Face, Style


@dataclass(frozen=True)
class Run:
    """A part of the line: its text, face and palette role; ``gap`` pixels (scale 1) before it."""

    text: str
    face: Face = Face.BODY
    role: str = "text"
    gap: float = 4.0


class RunLine(QWidget):
    """Runs side by side; the longest one is shortened where they do not fit, whole in a tooltip."""

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._runs: tuple[Run, ...] = ()
        self._metrics: dict[Face, QFontMetricsF] = {}
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def set_runs(self, runs: tuple[Run, ...], style: Style) -> None:
        if style != self._style:
            self._style = style
            self._metrics.clear()
            self.updateGeometry()
        if runs != self._runs:
            self._runs = runs
            self.setAccessibleName(self.text())
        self.update()

    def text(self) -> str:
        """What the line says, as plain text."""
        return " ".join(run.text for run in self._runs)

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(120), self._style.px(18))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self._style.px(18))

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._runs:
            return
        shown, shortened = self._fitted()
        self.setToolTip(self.text() if shortened else "")
        painter = QPainter(self)
        x = 0.0
        for i, (run, text) in enumerate(zip(self._runs, shown, strict=True)):
            metrics = self._measure(run.face)
            x += self._style.px(run.gap) if i else 0
            painter.setFont(self._style.font(run.face))
            painter.setPen(self._style.colour(run.role))
            body = self._measure(Face.BODY)
            baseline = (self.height() + body.capHeight()) / 2
            painter.drawText(QPointF(x, baseline), text)
            x += metrics.horizontalAdvance(text)
        painter.end()

    def _measure(self, face: Face) -> QFontMetricsF:
        if face not in self._metrics:
            self._metrics[face] = QFontMetricsF(self._style.font(face))
        return self._metrics[face]

    def _fitted(self) -> tuple[list[str], bool]:
        texts = [run.text for run in self._runs]
        widths = [self._measure(run.face).horizontalAdvance(run.text) for run in self._runs]
        gaps = sum(self._style.px(run.gap) for run in self._runs[1:])
        excess = sum(widths) + gaps - self.width()
        shortened = excess > 0
        while excess > 0:
            longest = max(range(len(texts)), key=lambda i: widths[i])
            metrics = self._measure(self._runs[longest].face)
            others = sorted(widths)[-2] if len(widths) > 1 else 0.0
            # Down to the next longest first, so that no run vanishes for the sake of another.
            room = max(widths[longest] - excess, min(others, widths[longest] - 1))
            text = metrics.elidedText(self._runs[longest].text, Qt.TextElideMode.ElideRight, room)
            if text == texts[longest]:
                break
            excess -= widths[longest] - metrics.horizontalAdvance(text)
            texts[longest], widths[longest] = text, metrics.horizontalAdvance(text)
        return texts, shortened
