"""The cumulative curve of a distribution, and the number held on it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QHelpEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.sampling_lab import HeldDraw
from decoder_gui.widgets import bar_marks
from decoder_gui.widgets.tips import show_tip

TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


class CumulativeCurve(QWidget):
    """Each token owns a stretch of [0, 1), as a step; the held number is a line across."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._view = HeldDraw()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName("Cumulative probability by rank, with the held number")

    @property
    def view(self) -> HeldDraw:
        """What is drawn."""
        return self._view

    def set_view(self, view: HeldDraw) -> None:
        if view != self._view:
            self._view = view
            self.setAccessibleDescription(view.words)
            self.update()

    def set_style(self, style: Style) -> None:
        self._style = style
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(300), self._style.px(170))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(180), self._style.px(90))

    def plot_rect(self) -> QRectF:
        """Where the curve is; the axis words stand left of it and below."""
        px = self._style.px
        return QRectF(px(36), px(8), self.width() - px(44), self.height() - px(28))

    def y_of(self, mass: float) -> float:
        """The y coordinate of a cumulative mass."""
        plot = self.plot_rect()
        return plot.bottom() - mass * plot.height()

    def step_rect(self, index: int) -> QRectF:
        """The stretch of a token as it is drawn."""
        plot, step = self.plot_rect(), self._view.steps[index]
        width = plot.width() / max(1, len(self._view.steps))
        top, bottom = self.y_of(step.high), self.y_of(step.low)
        return QRectF(plot.left() + index * width, top, max(1.0, width), max(1.0, bottom - top))

    def paintEvent(self, event: QPaintEvent) -> None:
        style = self._style
        painter = QPainter(self)
        painter.fillRect(self.rect(), style.colour("panel"))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._view.steps:
            self._paint_axes(painter)
            self._paint_steps(painter)
            self._paint_number(painter)
            self._paint_landing(painter)
        painter.end()

    def _paint_axes(self, painter: QPainter) -> None:
        style, plot = self._style, self.plot_rect()
        painter.setFont(style.font(Face.MONO_TINY))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for tick in TICKS:
            y = self.y_of(tick)
            painter.setPen(QPen(style.colour("border"), 1))
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            painter.setPen(style.colour("muted"))
            label = QRectF(0, y - style.px(7), plot.left() - style.px(5), style.px(14))
            painter.drawText(label, right, f"{tick:.2f}")
        painter.setFont(style.font(Face.TINY))
        foot = QRectF(plot.left(), plot.bottom() + style.px(3), plot.width(), style.px(16))
        last = self._view.steps[-1].rank
        painter.drawText(foot, Qt.AlignmentFlag.AlignLeft, "rank 1")
        painter.drawText(foot, Qt.AlignmentFlag.AlignRight, f"{last:,}")
        if last > len(self._view.steps):
            words = "later ranks ever further apart"
            painter.drawText(foot, Qt.AlignmentFlag.AlignHCenter, words)

    def _paint_steps(self, painter: QPainter) -> None:
        style = self._style
        landing = self._view.landing
        metrics = QFontMetrics(style.font(Face.MONO_TINY))
        taken = self.y_of(0.0) + metrics.height()
        for index, step in enumerate(self._view.steps):
            rect = self.step_rect(index)
            here = index == landing
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(style.colour("decode" if here else "accent", 1.0 if here else 0.75))
            painter.drawRect(rect)
            # A name beside each step that has room for it above the one before.
            middle = rect.center().y()
            if not here and index < 12 and taken - middle >= metrics.height():
                painter.setFont(style.font(Face.MONO_TINY))
                painter.setPen(style.colour("muted"))
                self._paint_name(painter, rect, step.text)
                taken = middle

    def _paint_landing(self, painter: QPainter) -> None:
        """The token in hand, over the line that lies on it."""
        painter.setFont(self._style.font(Face.MONO_STRONG))
        painter.setPen(self._style.colour("text"))
        index = self._view.landing
        self._paint_name(painter, self.step_rect(index), self._view.steps[index].text, ground=True)

    def _paint_name(
        self, painter: QPainter, rect: QRectF, text: str, *, ground: bool = False
    ) -> None:
        plot, gap = self.plot_rect(), self._style.px(4)
        metrics = QFontMetrics(painter.font())
        wide = min(metrics.horizontalAdvance(text), plot.width() / 2)
        left = rect.right() + gap
        if left + wide > plot.right():
            left = rect.left() - gap - wide
        if left < plot.left():  # it fills the whole width
            left = rect.center().x() - wide / 2
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(wide) + 1)
        middle = Qt.AlignmentFlag.AlignVCenter
        height = metrics.height()
        place = QRectF(left, rect.center().y() - height / 2, wide + 2, height)
        if ground:
            painter.fillRect(place.adjusted(-gap / 2, 0, gap / 2, 0), self._style.colour("panel"))
        painter.drawText(place, middle, shown)

    def _paint_number(self, painter: QPainter) -> None:
        if self._view.uniform is None:
            return
        style, plot = self._style, self.plot_rect()
        y = self.y_of(self._view.uniform)
        painter.setPen(QPen(style.colour("text"), style.px(1.5), Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
        bar_marks.landing(painter, style, QPointF(plot.left() - style.px(3), y))

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            plot = self.plot_rect()
            share = (event.pos().x() - plot.left()) / max(1.0, plot.width())
            index = int(share * len(self._view.steps))
            if self._view.steps and 0 <= index < len(self._view.steps) and share >= 0:
                step = self._view.steps[index]
                words = (
                    f"{step.text}, token {step.token_id}, rank {step.rank}: "
                    f"[{step.low:.6f}, {step.high:.6f})"
                )
                show_tip(event.globalPos(), words, self)
            return True
        return super().event(event)
