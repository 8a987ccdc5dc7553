"""Back, step, run, play, and what one step is; and what the worker is doing meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QActionGroup, QBrush, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QLabel,
    QLayout,
    QMenu,
    QSizePolicy,
    QWidget,
)

from decoder_gui.debugger.cursor import Granularity
from decoder_gui.theme.icons import Glyph
from decoder_gui.theme.style import Face, Style
from decoder_gui.widgets.icon_button import IconButton

RATES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # steps per second
STOPS_LISTED = 12  # in a tooltip
LEAST_BUSY = 110.0  # pixels at scale 1 of the line that says what is being done


@dataclass(frozen=True)
class TransportView:
    """What the transport shows.

    Attributes:
        ready: whether there is anything to travel in.
        at_first: the cursor stands on the first event.
        at_last: the cursor stands on the last event recorded.
        exhausted: stepping on is impossible there because the cache is full.
        stops: the breakpoints that are on, each in words.
        busy: what the worker is doing, in words; empty when it rests.
        fraction: how much of that is done, None where it is not known.
    """

    ready: bool = False
    at_first: bool = True
    at_last: bool = True
    exhausted: bool = False
    granularity: Granularity = Granularity.OPERATION
    playing: bool = False
    rate: float = 2.0
    stops: tuple[str, ...] = ()
    busy: str = ""
    fraction: float | None = None


def format_rate(rate: float) -> str:
    """A speed as the buttons write it: ``2 / s``."""
    return f"{rate:g} / s"


class Transport(QWidget):
    """The row of buttons over the timeline.

    Signals:
        first_requested, back_requested, step_requested, run_requested, last_requested,
        play_toggled, cancel_requested: the buttons.
        granularity_chosen(Granularity): what one step is from now on.
        rate_chosen(float): steps per second.
    """

    first_requested = Signal()
    back_requested = Signal()
    step_requested = Signal()
    run_requested = Signal()
    last_requested = Signal()
    play_toggled = Signal()
    cancel_requested = Signal()
    granularity_chosen = Signal(object)
    rate_chosen = Signal(float)

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._view = TransportView()
        self.setAccessibleName("Transport")
        self.first = IconButton(style, name="To the first event (Home)", before=Glyph.FIRST)
        self.back = IconButton(style, name="Back (Left)", text="Back", before=Glyph.BACK)
        self.step = IconButton(
            style, name="Step (Right)", text="Step", after=Glyph.STEP, kind="inverse"
        )
        self.run = IconButton(
            style, name="Run to the next breakpoint (F5)", text="Run to", after=Glyph.DOT
        )
        self.last = IconButton(style, name="To the last event recorded (End)", before=Glyph.LAST)
        self.granularities = {g: self._segment(g) for g in Granularity}
        group = QButtonGroup(self)
        for button in self.granularities.values():
            group.addButton(button)
        self.play = IconButton(
            style, name="Play (Space)", text="Play", before=Glyph.STEP, kind="segment"
        )
        self.play.setProperty("end", "first")
        self.rate = IconButton(
            style, name="Steps per second", text="", after=Glyph.DOWN, kind="segment"
        )
        self.rate.setProperty("end", "last")
        self._rate_menu = self._build_rate_menu()
        self.busy_line = BusyLine(style)
        self.cancel = IconButton(style, name="Cancel (Esc)", text="Cancel")
        for button, signal in (
            (self.first, self.first_requested),
            (self.back, self.back_requested),
            (self.step, self.step_requested),
            (self.run, self.run_requested),
            (self.last, self.last_requested),
            (self.play, self.play_toggled),
            (self.cancel, self.cancel_requested),
        ):
            button.clicked.connect(signal)
        self.rate.clicked.connect(self._open_rate_menu)
        self._lay_out()
        self._restyle(style)
        self._refresh()

    @property
    def buttons(self) -> tuple[IconButton, ...]:
        """Every button, from left to right."""
        return (
            self.first,
            self.back,
            self.step,
            self.run,
            self.last,
            *self.granularities.values(),
            self.play,
            self.rate,
            self.cancel,
        )

    def set_view(self, view: TransportView, style: Style) -> None:
        """Show a state of affairs."""
        if style != self._style:
            self._restyle(style)
        elif view == self._view:
            return
        self._view = view
        self._refresh()

    def _segment(self, granularity: Granularity) -> IconButton:
        places = list(Granularity)
        words = granularity.value.capitalize()
        button = IconButton(
            self._style, name=f"One step is one {granularity.value}", text=words, kind="segment"
        )
        button.setCheckable(True)
        end = {places[0]: "first", places[-1]: "last"}.get(granularity, "")
        button.setProperty("end", end)
        button.clicked.connect(lambda: self.granularity_chosen.emit(granularity))
        return button

    def _build_rate_menu(self) -> QMenu:
        menu = QMenu(self)
        group = QActionGroup(menu)
        for rate in RATES:
            action = menu.addAction(format_rate(rate))
            action.setCheckable(True)
            action.setData(rate)
            action.triggered.connect(lambda _=False, rate=rate: self.rate_chosen.emit(rate))
            group.addAction(action)
        return menu

    def rate_menu(self) -> QMenu:
        """The menu of speeds."""
        return self._rate_menu

    def _open_rate_menu(self) -> None:
        below = self.rate.mapToGlobal(self.rate.rect().topLeft())
        below.setY(below.y() - self._rate_menu.sizeHint().height())
        self._rate_menu.popup(below)

    def _lay_out(self) -> None:
        self._busy_side, self._balance = QWidget(), QWidget()
        side = QHBoxLayout(self._busy_side)
        side.setContentsMargins(0, 0, 0, 0)
        side.addWidget(self.busy_line, 1)
        side.addWidget(self.cancel)
        centre = QHBoxLayout()
        self._centre = centre
        for button in (self.first, self.back, self.step, self.run, self.last):
            centre.addWidget(button)
        self._segments, self._player = QHBoxLayout(), QHBoxLayout()
        for layout in (self._segments, self._player):
            layout.setSpacing(0)
        for button in self.granularities.values():
            self._segments.addWidget(button)
        self._player.addWidget(self.play)
        self._player.addWidget(self.rate)
        centre.addLayout(self._segments)
        centre.addLayout(self._player)
        # The two sides stretch alike, which keeps the buttons in the middle of the window.
        row = QHBoxLayout(self)
        row.addWidget(self._balance, 1)
        row.addLayout(centre)
        row.addWidget(self._busy_side, 1)
        for widget in (self._balance, self._busy_side):
            widget.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        # The row may be narrower than all of its buttons: see _fit.
        row.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self._row = row

    def _restyle(self, style: Style) -> None:
        self._style = style
        px = style.px
        for button in self.buttons:
            button.set_style(style)
        self.busy_line.set_style(style)
        self.rate.set_glyph_side(8)
        for button in (self.first, self.last):
            button.set_glyph_side(12)
        self._row.setContentsMargins(px(16), px(8), px(16), 0)
        self._row.setSpacing(px(16))
        self._centre.setSpacing(px(6))
        self._segments.setContentsMargins(px(22), 0, px(22), 0)
        # Nothing moves when Play becomes Pause or the speed changes.
        _reserve(self.play, [("Play", Glyph.STEP), ("Pause", Glyph.PAUSE)])
        widest = max((format_rate(rate) for rate in RATES), key=len)
        self.rate.set_content("", note=widest, after=Glyph.DOWN)
        self.rate.setFixedWidth(self.rate.sizeHint().width())

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(320), self._row.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fit()

    def _fit(self) -> None:
        """Leave out what has a key of its own, the least needed first, until the rest fits."""
        chosen = self.granularities[self._view.granularity]
        others = [button for button in self.granularities.values() if button is not chosen]
        for button in self.buttons:
            if button is not self.cancel:
                button.show()
        room = self.width() - self._row.contentsMargins().left() * 2
        # What is being done, and the button that stops it, come before all of them.
        aside = 0
        if self._view.busy:
            aside = self.cancel.sizeHint().width() + self._style.px(LEAST_BUSY)
            room -= aside + self._row.spacing()
        self._busy_side.setMinimumWidth(aside)
        for group in ([self.first, self.last], [self.rate], others, [chosen], [self.run]):
            for layout in (self._segments, self._player, self._centre):
                layout.invalidate()  # none of them looks again by itself before the next event
            if self._centre.sizeHint().width() <= room:
                break
            for button in group:
                button.hide()

    def _refresh(self) -> None:
        view = self._view
        self.first.setEnabled(view.ready and not view.at_first)
        self.back.setEnabled(view.ready and not view.at_first)
        self.step.setEnabled(view.ready and not (view.at_last and view.exhausted))
        self.run.setEnabled(view.ready)
        self._show_stops(view.stops)
        self.last.setEnabled(view.ready and not view.at_last)
        self.play.setEnabled(view.ready)
        self.granularities[view.granularity].setChecked(True)
        words, glyph = ("Pause", Glyph.PAUSE) if view.playing else ("Play", Glyph.STEP)
        self.play.set_content(words, before=glyph)
        self.play.setAccessibleName(f"{words} (Space)")
        self.play.setToolTip(f"{words} (Space)")
        self.rate.set_content("", note=format_rate(view.rate), after=Glyph.DOWN)
        for action in self._rate_menu.actions():
            action.setChecked(action.data() == view.rate)
        self.rate.setAccessibleName(f"Steps per second: {view.rate:g}")
        self._busy_side.setAccessibleName(view.busy)
        for widget in (self.busy_line, self.cancel):
            widget.setVisible(bool(view.busy))
        self.busy_line.set_progress(view.busy, view.fraction)
        self._fit()

    def _show_stops(self, stops: tuple[str, ...]) -> None:
        """How many breakpoints are on: the timeline marks only those at one event."""
        self.run.set_content("Run to", note=str(len(stops) or ""), after=Glyph.DOT)
        tip = "Run to the next breakpoint (F5)"
        if not stops:
            name = tip
        else:
            name = f"{tip}: {len(stops)} on"
            more = len(stops) - STOPS_LISTED
            rest = [f"and {more} more"] if more > 0 else []
            tip = "\n".join([name, *stops[:STOPS_LISTED], *rest])
        self.run.setAccessibleName(name)
        self.run.setToolTip(tip)


def _reserve(button: IconButton, contents: list[tuple[str, Glyph]]) -> None:
    widths = []
    for text, glyph in contents:
        button.set_content(text, before=glyph)
        widths.append(button.sizeHint().width())
    button.setFixedWidth(max(widths))


class BusyLine(QWidget):
    """A thin line under the words that say what is being computed."""

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._fraction: float | None = None
        self._words = self._share = ""
        self.label = QLabel(self)
        self.label.setProperty("kind", "muted")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.set_style(style)

    def set_style(self, style: Style) -> None:
        self._style = style
        self.label.setFont(style.font(Face.SMALL))
        self.updateGeometry()

    def set_progress(self, text: str, fraction: float | None) -> None:
        """Show what is being done, and how far it is where that is known."""
        self._fraction = fraction
        self._share = share = "" if fraction is None else f" · {round(100 * fraction)}%"
        self.setToolTip(text + share)
        self.setAccessibleName(text + share)
        self._words = text + share
        self._fit()
        self.update()

    def shown_text(self) -> str:
        return self._words

    def sizeHint(self) -> QSize:
        return QSize(self._style.px(160), self.label.fontMetrics().height() + self._style.px(6))

    def _fit(self) -> None:
        metrics = self.label.fontMetrics()
        # Whatever has to be left out, the share stays.
        room = max(0, self.width() - metrics.horizontalAdvance(self._share))
        text = self._words.removesuffix(self._share)
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
        self.label.setText(shown + self._share)
        self.label.setGeometry(0, 0, self.width(), metrics.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fit()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, style = QPainter(self), self._style
        thick = style.px(3)
        top = min(self.height() - thick, self.label.height() + style.px(2))
        painter.fillRect(0, top, self.width(), thick, style.colour("empty"))
        if self._fraction is None:
            # Not known how far: the whole line, hatched, so that it is not taken for a share.
            pattern = QBrush(style.colour("accent"), Qt.BrushStyle.BDiagPattern)
            painter.fillRect(0, top, self.width(), thick, pattern)
        else:
            painter.fillRect(
                0, top, round(self.width() * self._fraction), thick, style.colour("accent")
            )
