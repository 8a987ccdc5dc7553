"""Labels and numbers in rows: the numbers right-aligned in the monospaced face, notes muted."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.kv_cache import Figure
from decoder_gui.widgets.tips import show_tip

_ROW, _NOTE = 18, 15  # heights in pixels at scale 1


class FigureTable(QWidget):
    """Rows of (label, note, value).

    A note stands beside its label where the whole of it fits, or below it if the figure says so;
    the tooltip always has it.
    """

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._figures: tuple[Figure, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # it paints its ground
        self.setAccessibleName(name)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The rows shown."""
        return self._figures

    def set_figures(self, figures: tuple[Figure, ...]) -> None:
        if figures == self._figures:
            return
        if len(figures) != len(self._figures):
            self.updateGeometry()
        self._figures = figures
        self.setAccessibleDescription(". ".join(f"{f.label} {f.value}: {f.note}" for f in figures))
        self.update()

    def set_style(self, style: Style) -> None:
        self._style = style
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(240), self._top(len(self._figures)))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(140), self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        style = self._style
        body, mono, small = (style.font(f) for f in (Face.BODY, Face.MONO, Face.SMALL))
        of_body, of_mono, of_small = QFontMetrics(body), QFontMetrics(mono), QFontMetrics(small)
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._style.colour("panel"))
        elide, middle = Qt.TextElideMode.ElideRight, Qt.AlignmentFlag.AlignVCenter
        height, gap, width = style.px(_ROW), style.px(8), self.width()
        for index, figure in enumerate(self._figures):
            top = self._top(index)
            room = width - of_mono.horizontalAdvance(figure.value) - gap
            label = min(of_body.horizontalAdvance(figure.label) + 1, room)
            painter.setFont(mono)
            painter.setPen(style.colour("text"))
            right = Qt.AlignmentFlag.AlignRight | middle
            painter.drawText(QRect(0, top, width, height), right, figure.value)
            painter.setFont(body)
            shown = of_body.elidedText(figure.label, elide, label)
            painter.drawText(QRect(0, top, label, height), middle, shown)
            painter.setFont(small)
            painter.setPen(style.colour("muted"))
            if figure.below:
                note = QRect(0, top + style.px(_ROW - 1), width, style.px(_NOTE))
                painter.drawText(note, middle, of_small.elidedText(figure.note, elide, width))
            elif of_small.horizontalAdvance(figure.note) <= (rest := room - label - gap):
                note = QRect(label + gap, top, rest, height)
                painter.drawText(note, right, figure.note)
        painter.end()

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            for index, figure in enumerate(self._figures):
                if self._top(index) <= event.pos().y() < self._top(index + 1):
                    text = f"{figure.label}: {figure.value}\n{figure.note}"
                    show_tip(event.globalPos(), text, self)
            return True
        return super().event(event)

    def _top(self, index: int) -> int:
        """Where a row begins; that of one past the last is the height of all."""
        notes = sum(figure.below for figure in self._figures[:index])
        return index * self._style.px(_ROW) + notes * self._style.px(_NOTE)
