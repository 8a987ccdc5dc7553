"""One sentence that goes away by itself, over the lower part of a window."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QLabel, QWidget

from decoder_gui.theme.style import Face, Style

FOOT = 104  # pixels at scale 1 left free at the lower edge of a window without a foot
ABOVE = 8  # over the foot of one that has it


class Notice(QLabel):
    """Laid over the panels of the window ``over``, never over tokens or controls.

    A click sends it away.
    """

    def __init__(self, style: Style, over: QWidget) -> None:
        super().__init__(over)
        self._style = style
        self._over = over
        self._foot: QWidget | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.hide)
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("kind", "notice")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip("Click to close")
        over.installEventFilter(self)
        self.hide()

    def show_sentence(self, sentence: str, milliseconds: int) -> None:
        """Show a sentence in place of the one before; 0 milliseconds keep it until clicked."""
        self.setText(sentence)
        self.setAccessibleName(sentence)
        self._settle()
        self.show()
        self.raise_()
        self._timer.stop()
        if milliseconds > 0:
            self._timer.start(milliseconds)

    def keep_above(self, foot: QWidget) -> None:
        """Leave a part of the window free at its lower edge, however high it becomes."""
        self._foot = foot
        foot.installEventFilter(self)

    def set_style(self, style: Style) -> None:
        self._style = style
        self._settle()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._timer.stop()
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Move) and self.isVisible():
            self._settle()
        return False

    def _settle(self) -> None:
        over, px = self._over, self._style.px
        self.setFont(self._style.font(Face.BODY))
        self.setMargin(px(8))
        widest = min(px(560), over.width() - 2 * px(16))
        metrics = self.fontMetrics()
        width = min(widest, metrics.horizontalAdvance(self.text()) + 4 * px(8))
        self.setFixedWidth(width)
        self.setFixedHeight(max(self.heightForWidth(width), metrics.height() + 2 * px(8)))
        lower = over.height() - px(FOOT)
        if self._foot is not None:
            lower = self._foot.mapTo(over, QPoint(0, 0)).y() - px(ABOVE)
        self.move((over.width() - width) // 2, lower - self.height())
