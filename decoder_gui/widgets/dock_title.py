"""The title bar of a panel: what it shows, a hint, and three small buttons."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import (
    QEnterEvent,
    QFontMetrics,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from decoder_gui.theme.icons import Glyph
from decoder_gui.theme.style import Face, Style
from decoder_gui.widgets.icon_button import IconButton

HEIGHT = 34.0  # pixels at scale 1


class DockTitle(QWidget):
    """Title on the left, hint on the right; the buttons take the hint's end when pointed at.

    The buttons are reached by Tab as well; while one has the focus all three are shown.

    Signals:
        maximise_requested(), float_requested(), hide_requested().
    """

    maximise_requested = Signal()
    float_requested = Signal()
    hide_requested = Signal()

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._title = ""
        self._hint = ""
        self.maximise = IconButton(
            style, name="Show this panel alone, or back", before=Glyph.MAXIMISE, kind="quiet"
        )
        self.float = IconButton(
            style, name="Float, or dock again", before=Glyph.FLOAT, kind="quiet"
        )
        self.hide_button = IconButton(style, name="Hide", before=Glyph.HIDE, kind="quiet")
        self._row = QHBoxLayout(self)
        self._row.addStretch(1)
        for button, signal in (
            (self.maximise, self.maximise_requested),
            (self.float, self.float_requested),
            (self.hide_button, self.hide_requested),
        ):
            button.clicked.connect(signal)
            button.installEventFilter(self)
            self._row.addWidget(button)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_style(style)

    @property
    def buttons(self) -> tuple[IconButton, IconButton, IconButton]:
        return self.maximise, self.float, self.hide_button

    def set_caption(self, title: str, hint: str = "") -> None:
        """Say what the panel shows."""
        if (title, hint) == (self._title, self._hint):
            return
        if title != self._title:
            for button, words in zip(
                self.buttons,
                ("Show {} alone, or back", "Float {}, or dock it again", "Hide {}"),
                strict=True,
            ):
                button.setAccessibleName(words.format(f"“{title}”"))
        self._title, self._hint = title, hint
        self.setAccessibleName(title)
        self.setAccessibleDescription(hint)
        self._tell_whole()
        self.update()

    def set_style(self, style: Style) -> None:
        """Take on other colours or another scale."""
        self._style = style
        px = style.px
        self._row.setContentsMargins(px(12), px(4), px(8), 0)
        self._row.setSpacing(px(2))
        for button in self.buttons:
            button.set_style(style)
            button.set_glyph_side(10)
        self._show_buttons()
        self.updateGeometry()
        self.update()

    def shown_text(self) -> tuple[str, str]:
        """Title and hint as they fit, elided where they do not."""
        _, _, room = self._edges()
        title_font, hint_font = self._fonts()
        title_wants = title_font.horizontalAdvance(self._title)
        hint_wants = hint_font.horizontalAdvance(self._hint)
        gap = self._style.px(12)
        # The hint gives way first, down to nothing; then the title is elided.
        hint_room = room - title_wants - gap
        elide = Qt.TextElideMode.ElideRight
        if hint_wants <= hint_room:
            return self._title, self._hint
        if hint_room >= self._style.px(36):
            return self._title, hint_font.elidedText(self._hint, elide, hint_room)
        return title_font.elidedText(self._title, elide, room), ""

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(160), self._style.px(HEIGHT))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(60), self._style.px(HEIGHT))

    def _fonts(self) -> tuple[QFontMetrics, QFontMetrics]:
        return (
            QFontMetrics(self._style.font(Face.TITLE)),
            QFontMetrics(self._style.font(Face.SMALL)),
        )

    def _buttons_shown(self) -> bool:
        return self.underMouse() or any(button.hasFocus() for button in self.buttons)

    def _edges(self) -> tuple[int, int, int]:
        left, right = self._style.px(12), self.width() - self._style.px(12)
        if self._buttons_shown():
            right = self.maximise.x() - self._style.px(6)
        return left, right, right - left

    def _show_buttons(self) -> None:
        shown = self._buttons_shown()
        for button in self.buttons:
            button.set_ghost(not shown)
        self._tell_whole()
        self.update()

    def _tell_whole(self) -> None:
        whole = (self._title, self._hint)
        cut = self.shown_text() != whole
        self.setToolTip(" · ".join(part for part in whole if part) if cut else "")

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, style = QPainter(self), self._style
        left, right, _ = self._edges()
        title, hint = self.shown_text()
        box = self.rect().adjusted(left, style.px(4), right - self.width(), 0)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(style.font(Face.TITLE))
        painter.setPen(style.colour("muted"))
        painter.drawText(box, middle | Qt.AlignmentFlag.AlignLeft, title)
        painter.setFont(style.font(Face.SMALL))
        painter.drawText(box, middle | Qt.AlignmentFlag.AlignRight, hint)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self._show_buttons()
        return False

    def enterEvent(self, event: QEnterEvent) -> None:
        self._show_buttons()

    def leaveEvent(self, event: QEvent) -> None:
        self._show_buttons()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._tell_whole()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        # Qt would float the dock; a panel on the whole window is what a double click is for.
        event.accept()
        self.maximise_requested.emit()
