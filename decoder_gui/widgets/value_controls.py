"""Small controls beside the values: one of several words, and a number that goes up and down."""

from __future__ import annotations

from PySide6.QtCore import QRect, QRectF, Qt, Signal
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.theme.stylesheet import repolish
from decoder_gui.widgets.marks import Mark, draw_mark
from decoder_gui.widgets.value_colours import band, diverging, sequential

HEIGHT, SIDE, ARROW, BAND = 21, 6, 9, 6


class ChoiceBar(QWidget):
    """Joined buttons, one of which is chosen.

    Buttons are kept and renamed when the choices change: making one costs a millisecond.

    Signals:
        chosen(str): the key of the button pressed.
    """

    chosen = Signal(str)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style: Style | None = None
        self._keys: tuple[str, ...] = ()
        self._buttons: list[QPushButton] = []
        self._name = name
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(0)
        self.setAccessibleName(name)

    def set_options(self, options: tuple[tuple[str, str], ...], current: str, style: Style) -> None:
        """Show (key, word) pairs, at least one."""
        while len(self._buttons) < len(options):
            self._buttons.append(self._make())
            self._style = None
        if style != self._style:
            self._style = style
            self._dress(style)
        self._keys = tuple(key for key, _ in options)
        for i, button in enumerate(self._buttons):
            button.setVisible(i < len(options))
            if i < len(options):
                key, word = options[i]
                button.setText(word)
                button.setAccessibleName(f"{self._name}: {word}")
                button.setChecked(key == current)
                end = "only" if len(options) == 1 else {0: "first", len(options) - 1: "last"}.get(i)
                if button.property("end") != (end or ""):
                    button.setProperty("end", end or "")
                    repolish(button)

    def button(self, key: str) -> QPushButton:
        """The button of a key; KeyError if there is none."""
        if key not in self._keys:
            raise KeyError(key)
        return self._buttons[self._keys.index(key)]

    def _make(self) -> QPushButton:
        button = QPushButton(self)
        button.setProperty("kind", "segment")
        button.setCheckable(True)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(self._on_clicked)
        self._row.addWidget(button)
        return button

    def _on_clicked(self) -> None:
        button = self.sender()
        if isinstance(button, QPushButton):
            button.setChecked(True)  # a second press does not un-choose
            self.chosen.emit(self._keys[self._buttons.index(button)])

    def _dress(self, style: Style) -> None:
        px = style.px
        for button in self._buttons:
            button.setFixedHeight(px(HEIGHT))
            button.setStyleSheet(
                f"QPushButton {{ padding: 0 {px(SIDE)}px; font-size: {px(11)}px; }}"
            )


class MarkButton(QPushButton):
    """A button with a drawn mark and no words."""

    def __init__(self, mark: Mark, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._mark = mark
        self._style = Style()
        self.setProperty("kind", "quiet")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(name)
        self.setToolTip(name)

    def set_style(self, style: Style) -> None:
        self._style = style
        self.setFixedSize(style.px(HEIGHT), style.px(HEIGHT))

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        side = self._style.px(ARROW)
        box = QRectF((self.width() - side) / 2, (self.height() - side) / 2, side, side)
        colour = self._style.colour("text" if self.isEnabled() else "faint")
        draw_mark(QPainter(self), self._mark, box, colour, 1.4 * self._style.scale)


class NumberStepper(QWidget):
    """``‹ head 1 ›``: a number between two ends, moved one at a time.

    Signals:
        moved(int): the new number.
    """

    moved = Signal(int)

    def __init__(self, noun: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._noun = noun
        self._value = 0
        self._ends = (0, 0)
        self.less = MarkButton(Mark.CHEVRON_LEFT, f"Previous {noun}")
        self.more = MarkButton(Mark.CHEVRON_RIGHT, f"Next {noun}")
        self.label = QLabel()
        self.label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.less)
        row.addWidget(self.label, 1)
        row.addWidget(self.more)
        self.less.clicked.connect(self._on_less)
        self.more.clicked.connect(self._on_more)
        self._style: Style | None = None

    def set_value(self, value: int, first: int, last: int, style: Style) -> None:
        """Show a number that lies between two ends, both included."""
        if style == self._style and (value, (first, last)) == (self._value, self._ends):
            return
        if style != self._style:
            self._style = style
            self.label.setFont(style.font(Face.SMALL))
            self.less.set_style(style)
            self.more.set_style(style)
        self._value, self._ends = value, (first, last)
        self.label.setText(f"{self._noun} {value}")
        self.setAccessibleName(f"{self._noun} {value} of {first} to {last}")
        self.less.setEnabled(value > first)
        self.more.setEnabled(value < last)

    def _on_less(self) -> None:
        self.moved.emit(max(self._ends[0], self._value - 1))

    def _on_more(self) -> None:
        self.moved.emit(min(self._ends[1], self._value + 1))


class ScaleLegend(QWidget):
    """The colours of a scale with what its two ends stand for."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._sequential = True
        self._ends = ("", "")

    def set_scale(self, *, sequential_scale: bool, low: str, high: str, style: Style) -> None:
        """Show the ends of a scale as texts."""
        asked = (style, sequential_scale, (low, high))
        if asked == (self._style, self._sequential, self._ends):
            return
        self._style, self._sequential, self._ends = asked
        self.setFixedHeight(style.px(BAND + 15))
        self.setAccessibleName(f"Colours from {low} to {high}")
        self.setToolTip(f"Colours from {low} to {high}")
        self.update()

    def ends(self) -> tuple[str, str]:
        """What the two ends stand for."""
        return self._ends

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        px = self._style.px
        scale = sequential() if self._sequential else diverging(self._style.palette)
        painter.drawImage(QRect(0, 0, self.width(), px(BAND)), band(scale))
        font = self._style.font(Face.MONO_SMALL)
        painter.setFont(font)
        painter.setPen(self._style.colour("muted"))
        below = self.rect().adjusted(0, px(BAND), 0, 0)
        painter.drawText(below, Qt.AlignmentFlag.AlignLeft, self._ends[0])
        painter.drawText(below, Qt.AlignmentFlag.AlignRight, self._ends[1])
        wide = QFontMetrics(font).horizontalAdvance("".join(self._ends))
        if not self._sequential and wide < self.width() - px(24):
            painter.drawText(below, Qt.AlignmentFlag.AlignHCenter, "0")
