"""The head of a stage's column: switched on or off, set, and dragged to another place."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QCheckBox, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.sampling_controls import Setting
from decoder_gui.viewdata.sampling_pipeline import StageColumn
from decoder_gui.widgets.labelled_slider import PlainSlider, ValueEdit
from model.errors import InvalidSampling

HEIGHT = 78  # pixels at scale 1
SHORT = {"Temperature": "Temp.", "Repetition": "Repet."}  # for a narrow card
NARROW = 92  # pixels at scale 1
DRAG = 6  # pixels at scale 1 that a press may wander and still be a press


class StageCard(QWidget):
    """One stage; see :class:`decoder_gui.viewdata.sampling_pipeline.StageColumn`.

    Alt with Left or Right moves it, wherever in it the focus is.

    Signals:
        toggled(str): it was switched on or off.
        changed(str, float): its setting has another value.
        refused(str): what was typed is impossible, in a sentence; empty once it is possible again.
        moved(str, int): by the keyboard, so many places on.
        dragged(str, int): it is held at an x coordinate of its parent.
        dropped(str, int): it was let go there.
        pointed(str): the keyboard has come to it or to something in it.
    """

    toggled = Signal(str)
    changed = Signal(str, float)
    refused = Signal(str)
    moved = Signal(str, int)
    dragged = Signal(str, int)
    dropped = Signal(str, int)
    pointed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._column = StageColumn("raw", "Raw", None, True, 0, "", "")
        self._setting: Setting | None = None
        self._pressed_at: int | None = None
        self._dragging = False
        self.check = QCheckBox(self)
        self.slider = PlainSlider(self)
        self.edit = ValueEdit(self)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.check.clicked.connect(lambda: self.toggled.emit(self._column.name))
        self.slider.valueChanged.connect(self._on_slider)
        self.edit.typed.connect(self._on_typed)
        for child in (self.check, self.slider, self.edit):
            child.installEventFilter(self)

    @property
    def column(self) -> StageColumn:
        """What it shows."""
        return self._column

    def set_column(self, column: StageColumn, setting: Setting | None) -> None:
        """Show a stage; ``setting`` is None for the raw distribution, which has none."""
        if setting is not self._setting and setting is not None:
            blocked = self.slider.blockSignals(True)
            self.slider.setRange(0, len(setting.stops) - 1)
            self.slider.setPageStep(max(1, len(setting.stops) // 10))
            self.slider.blockSignals(blocked)
            self.slider.setAccessibleName(setting.label)
            self.edit.setAccessibleName(f"{setting.label}, exact value")
            self.slider.setToolTip(f"{setting.explanation} Accepted: {setting.accepts}.")
        self._setting = setting
        if setting is not None and column.value is not None:
            blocked = self.slider.blockSignals(True)
            self.slider.setValue(setting.nearest(column.value))
            self.slider.blockSignals(blocked)
            text = setting.write(column.value)
            if self.edit.shown != text or self.edit.property("state") == "bad":
                self.edit.show_value(text)
            self.slider.setAccessibleDescription(text)
        if column != self._column:
            self._column = column
            for child in (self.check, self.slider, self.edit):
                child.setVisible(setting is not None)
            self.check.setAccessibleName(f"{column.title} on")
            tip = f"{column.edge} {column.tie}".strip()
            hint = " Drag, or Alt with Left or Right, to move it." if column.movable else ""
            self.setToolTip(tip + hint)
            self.setAccessibleName(f"{column.title}: {column.kept_text}")
            self.setAccessibleDescription(tip + hint)
            self.setCursor(
                Qt.CursorShape.OpenHandCursor if column.movable else Qt.CursorShape.ArrowCursor
            )
            self.update()
        if self.check.isChecked() is not column.on:
            self.check.setChecked(column.on)

    def set_style(self, style: Style) -> None:
        self._style = style
        self.slider.set_style(style)
        self.edit.set_style(style)
        self._place()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(124), self._style.px(HEIGHT))

    def shown_title(self) -> str:
        """The title as far as there is room for it."""
        room = self.width() - self._style.px(2) - self._title_left()
        metrics = QFontMetrics(self._style.font(Face.TITLE))
        if metrics.horizontalAdvance(self._column.title) > room and self._column.title in SHORT:
            return SHORT[self._column.title]
        return metrics.elidedText(self._column.title, Qt.TextElideMode.ElideRight, room)

    def shown_count(self, room: float) -> str:
        """How many are left; the number alone, or nothing, for want of room."""
        metrics = QFontMetrics(self._style.font(Face.SMALL))
        text = self._column.kept_text
        offered = (text, text.split()[0]) if text[:1].isdigit() else (text,)
        return next((each for each in offered if metrics.horizontalAdvance(each) <= room), "")

    # ---- geometry and painting

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._place()

    def _title_left(self) -> int:
        return self._style.px(27 if self._setting is not None else 10)

    def _value_width(self) -> int:
        """Of the field; a narrow card keeps room for how many are left."""
        return self._style.px(44 if self.width() < self._style.px(NARROW) else 52)

    def _place(self) -> None:
        px = self._style.px
        self.check.setGeometry(px(6), px(4), px(22), px(22))
        value = self._value_width()
        self.edit.setGeometry(self.width() - value - px(5), px(50), value, px(22))
        self.slider.setGeometry(px(8), px(28), max(px(20), self.width() - px(16)), px(20))

    def paintEvent(self, event: QPaintEvent) -> None:
        style, px = self._style, self._style.px
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        edge = "outline" if self.hasFocus() else "accent" if self._dragging else "border"
        width = 2 if self.hasFocus() or self._dragging else 1
        painter.setPen(QPen(style.colour(edge), width))
        painter.setBrush(style.colour("raised" if self._column.on else "panel"))
        body = QRectF(self.rect()).adjusted(1, 1, -1, -1)
        painter.drawRoundedRect(body, px(5), px(5))
        painter.setFont(style.font(Face.TITLE))
        painter.setPen(style.colour("text" if self._column.on else "muted"))
        left = self._title_left()
        title = body.adjusted(left, px(4), 0, 0)
        title.setHeight(px(20))
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(title, middle, self.shown_title())
        painter.setFont(style.font(Face.SMALL))
        painter.setPen(style.colour("muted"))
        foot = QRectF(px(9), px(51), body.width() - self._value_width() - px(11), px(20))
        if self._setting is None:
            foot.setWidth(body.width() - px(14))
        painter.drawText(foot, middle, self.shown_count(foot.width()))
        if self._setting is None:
            painter.drawText(
                QRectF(px(10), px(28), body.width() - px(16), px(20)), middle, "softmax"
            )
        painter.end()

    # ---- input

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton and self._column.movable:
            self._pressed_at = round(event.position().x())
            self.setFocus(Qt.FocusReason.MouseFocusReason)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pressed_at is None:
            return
        x = round(event.position().x())
        if not self._dragging and abs(x - self._pressed_at) > self._style.px(DRAG):
            self._dragging = True
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
        if self._dragging:
            self.dragged.emit(self._column.name, self.x() + x)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        dragged, self._dragging, self._pressed_at = self._dragging, False, None
        if dragged:
            self.setCursor(Qt.CursorShape.OpenHandCursor)
            self.dropped.emit(self._column.name, self.x() + round(event.position().x()))
        self.update()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.pointed.emit(self._column.name)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() is QEvent.Type.FocusIn:
            self.pointed.emit(self._column.name)
        if event.type() is QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            return self._moves(event)
        return False

    def event(self, event: QEvent) -> bool:
        # The window must not take what moves a card, nor Space, which switches it.
        if (
            event.type() is QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and (_direction(event) or event.key() == Qt.Key.Key_Space)
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._moves(event):
            return
        if event.key() == Qt.Key.Key_Space and self._setting is not None:
            self.toggled.emit(self._column.name)
            return
        super().keyPressEvent(event)

    def _moves(self, event: QKeyEvent) -> bool:
        direction = _direction(event)
        if not direction or not self._column.movable:
            return False
        self.moved.emit(self._column.name, direction)
        return True

    def _on_slider(self, stop: int) -> None:
        if self._setting is not None:
            self.changed.emit(self._column.name, self._setting.stops[stop])

    def _on_typed(self, text: str) -> None:
        if self._setting is None:
            return
        try:
            value = self._setting.read(text)
        except InvalidSampling as refusal:
            self.edit.mark_refused(True)
            self.refused.emit(f"{refusal}. It stays {self.edit.shown}.")
            return
        self.refused.emit("")
        self.edit.show_value(self._setting.write(value))
        if value != self._column.value:
            self.changed.emit(self._column.name, value)


def _direction(event: QKeyEvent) -> int:
    if not event.modifiers() & Qt.KeyboardModifier.AltModifier:
        return 0
    return {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
