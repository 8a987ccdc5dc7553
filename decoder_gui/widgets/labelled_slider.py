"""A setting in one row: its name, a slider, and its value, which can be typed exactly."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QWheelEvent,
)
from PySide6.QtWidgets import QGridLayout, QLabel, QLineEdit, QSizePolicy, QSlider, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.theme.stylesheet import repolish
from decoder_gui.viewdata.sampling_controls import Setting
from model.errors import InvalidSampling

NAME_WIDTH = 86  # pixels at scale 1, so that the rows of a panel line up
VALUE_WIDTH = 58


class PlainSlider(QSlider):
    """A horizontal slider in the product's look; a press anywhere moves the knob there."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._style = Style()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_style(self, style: Style) -> None:
        self._style = style
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(120), self._style.px(20))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(48), self._style.px(20))

    def knob_centre(self, value: int | None = None) -> float:
        """Where the knob is for a value, in the widget's x coordinate."""
        radius = self._radius()
        span = max(1, self.maximum() - self.minimum())
        share = ((self.value() if value is None else value) - self.minimum()) / span
        return radius + share * (self.width() - 2 * radius)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        thick, radius, middle = self._style.px(4), self._radius(), self.height() / 2
        painter.setBrush(self._style.colour("border_strong"))
        groove = QRectF(0, middle - thick / 2, self.width(), thick)
        painter.drawRoundedRect(groove, thick / 2, thick / 2)
        x = self.knob_centre()
        painter.setBrush(self._style.colour("inverse"))
        painter.drawEllipse(QRectF(x - radius, middle - radius, 2 * radius, 2 * radius))
        if self.hasFocus():
            # A ring inside the knob, so that it can be seen at either end too.
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(self._style.colour("accent"), self._style.px(2)))
            inner = radius - self._style.px(3)
            painter.drawEllipse(QRectF(x - inner, middle - inner, 2 * inner, 2 * inner))
        painter.end()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self.setSliderDown(True)
            self.setValue(self._value_at(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            self.setValue(self._value_at(event.position().x()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(False)

    def wheelEvent(self, event: QWheelEvent) -> None:
        # Scrolling past a slider must not change what it sets.
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def _radius(self) -> int:
        return self._style.px(7)

    def _value_at(self, x: float) -> int:
        radius = self._radius()
        span = max(1, self.width() - 2 * radius)
        share = min(1.0, max(0.0, (x - radius) / span))
        return self.minimum() + round(share * (self.maximum() - self.minimum()))


class ValueEdit(QLineEdit):
    """A value that can be typed over. Nothing takes effect before Enter or leaving the field.

    Signals:
        typed(str): a text that differs from the one shown was entered.
    """

    typed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown = ""
        self._tried = ""
        self.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.setFrame(False)
        self.returnPressed.connect(self._enter)

    @property
    def shown(self) -> str:
        """The text of the value in force, whatever is being typed."""
        return self._shown

    def set_style(self, style: Style) -> None:
        self.setFont(style.font(Face.MONO))
        palette = style.palette
        self.setStyleSheet(
            f"QLineEdit {{ background: transparent; color: {palette.text};"
            f" border: {style.px(1)}px solid transparent; border-radius: {style.px(4)}px;"
            f" padding: 0 {style.px(2)}px;"
            f" selection-background-color: {palette.accent};"
            f" selection-color: {palette.accent_text}; }}"
            f"QLineEdit:hover {{ border-color: {palette.border_strong}; }}"
            f"QLineEdit:focus {{ border-color: {palette.accent}; background: {palette.sunken}; }}"
            f'QLineEdit[state="bad"] {{ border-color: {palette.bad}; }}'
        )

    def show_value(self, text: str) -> None:
        """Show the value in force; what is being typed is given up."""
        self._shown = text
        self._tried = ""
        if self.text() != text:
            self.setText(text)
            self.setCursorPosition(0)
        self.mark_refused(False)

    def mark_refused(self, refused: bool) -> None:
        """Outline the field, beside the sentence that says why."""
        state = "bad" if refused else ""
        if (self.property("state") or "") != state:
            self.setProperty("state", state)
            repolish(self)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if event.reason() is not Qt.FocusReason.MouseFocusReason:
            self.selectAll()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if event.reason() is not Qt.FocusReason.PopupFocusReason and self.text() != self._shown:
            self._enter()
            # What was refused does not stay on screen as if it were in force.
            if self.text() != self._shown:
                self.setText(self._shown)
                self.mark_refused(False)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text() != self._shown:
            self.show_value(self._shown)
            self.selectAll()
            return
        super().keyPressEvent(event)

    def _enter(self) -> None:
        text = self.text()
        if text not in (self._shown, self._tried):
            self._tried = text
            self.typed.emit(text)


class LabelledSlider(QWidget):
    """One numeric setting; see :class:`decoder_gui.viewdata.sampling_controls.Setting`.

    Signals:
        changed(str, float): the setting's field, and the value that the user chose or typed.
        refused(str): the user typed something impossible; the sentence names the range. An empty
            text when a possible value follows.
    """

    changed = Signal(str, float)
    refused = Signal(str)

    def __init__(self, setting: Setting, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._setting = setting
        self._value = setting.stops[0]
        self.name = QLabel(setting.label, self)
        self.slider = PlainSlider(self)
        self.edit = ValueEdit(self)
        self.message = QLabel(self)
        self.message.setProperty("kind", "error")
        self.message.setWordWrap(True)
        self.message.hide()
        self.name.setBuddy(self.slider)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.addWidget(self.name, 0, 0)
        self._grid.addWidget(self.slider, 0, 1)
        self._grid.addWidget(self.edit, 0, 2)
        self._grid.addWidget(self.message, 1, 0, 1, 3)
        self._grid.setColumnStretch(1, 1)
        self.slider.valueChanged.connect(self._on_slider)
        self.edit.typed.connect(self._on_typed)
        self.set_setting(setting)

    @property
    def value(self) -> float:
        """The value shown."""
        return self._value

    def set_setting(self, setting: Setting) -> None:
        """Change the range, e.g. for another vocabulary; the value stays."""
        self._setting = setting
        blocked = self.slider.blockSignals(True)
        self.slider.setRange(0, len(setting.stops) - 1)
        self.slider.setPageStep(max(1, len(setting.stops) // 10))
        self.slider.blockSignals(blocked)
        self.slider.setAccessibleName(setting.label)
        self.edit.setAccessibleName(f"{setting.label}, exact value")
        self.setToolTip(f"{setting.explanation} Accepted: {setting.accepts}.")
        self.set_value(self._value)

    def set_value(self, value: float) -> None:
        """Show a value without telling anyone."""
        self._value = value
        blocked = self.slider.blockSignals(True)
        self.slider.setValue(self._setting.nearest(value))
        self.slider.blockSignals(blocked)
        text = self._setting.write(value)
        self.edit.show_value(text)
        self.edit.setToolTip(f"{value!r}. Accepted: {self._setting.accepts}.")
        self.slider.setAccessibleDescription(f"{text}. {self._setting.explanation}")
        self._say("")

    def set_style(self, style: Style) -> None:
        self.name.setFont(style.font(Face.BODY))
        self.message.setFont(style.font(Face.SMALL))
        self.slider.set_style(style)
        self.edit.set_style(style)
        self._grid.setHorizontalSpacing(style.px(6))
        self._grid.setVerticalSpacing(0)
        self.name.setFixedWidth(style.px(NAME_WIDTH))
        self.edit.setFixedWidth(style.px(VALUE_WIDTH))
        self.edit.setFixedHeight(style.px(22))

    def _on_slider(self, stop: int) -> None:
        self._choose(self._setting.stops[stop])

    def _on_typed(self, text: str) -> None:
        try:
            value = self._setting.read(text)
        except InvalidSampling as refusal:
            self._say(f"{refusal}. It stays {self._setting.write(self._value)}.")
            self.edit.mark_refused(True)
            return
        self._choose(value)

    def _choose(self, value: float) -> None:
        changed = value != self._value
        self.set_value(value)
        if changed:
            self.changed.emit(self._setting.field, value)

    def _say(self, sentence: str) -> None:
        if self.message.text() != sentence:
            self.message.setText(sentence)
            self.message.setVisible(bool(sentence))
            self.edit.setAccessibleDescription(sentence)
            self.refused.emit(sentence)
