"""Cards of the stages side by side over the candidates; a card is dragged to another place."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from decoder_gui.theme.style import Style
from decoder_gui.viewdata.sampling_controls import Setting
from decoder_gui.viewdata.sampling_pipeline import Pipeline
from decoder_gui.widgets.stage_card import HEIGHT, StageCard
from decoder_gui.widgets.stage_table import StageTable

NAMES = 116  # pixels at scale 1 for rank and token
LEAST_COLUMN = 72


class StagePipeline(QWidget):
    """The whole pipeline; see :class:`Pipeline`.

    Signals:
        toggled(str), changed(str, float), refused(str): as of :class:`StageCard`.
        moved(str, int): a stage by so many places, by the keyboard.
        placed(str, int): a stage to a place among those that can be moved, from 0.
        pointed(str): the keyboard has come to the card of a stage.
    """

    toggled = Signal(str)
    changed = Signal(str, float)
    refused = Signal(str)
    moved = Signal(str, int)
    placed = Signal(str, int)
    pointed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = Style()
        self._view = Pipeline()
        self._settings: dict[str, Setting] = {}
        self._tabbed: list[str] = []
        self._target: int | None = None  # where a dragged card would go, as a column
        self.table = StageTable(self)
        self.cards: dict[str, StageCard] = {}

    @property
    def view(self) -> Pipeline:
        """What is shown."""
        return self._view

    def set_view(self, view: Pipeline, settings: dict[str, Setting]) -> None:
        self._view, self._settings = view, settings
        for column in view.columns:
            if column.name not in self.cards:
                self._add_card(column.name)
            self.cards[column.name].set_column(column, settings.get(column.name))
        self._place()

    def set_style(self, style: Style) -> None:
        self._style = style
        self.table.set_style(style)
        for card in self.cards.values():
            card.set_style(style)
        self.updateGeometry()
        self._place()

    def order(self) -> list[str]:
        """The names of the columns, left to right as they stand on screen."""
        shown = [name for name, card in self.cards.items() if not card.isHidden()]
        return sorted(shown, key=lambda name: self.cards[name].x())

    def edges(self) -> tuple[int, ...]:
        """Left edges of the columns, and the right edge of the last."""
        count = max(1, len(self._view.columns))
        left = min(self._style.px(NAMES), self.width() // 6)
        bar = self.table.verticalScrollBar().sizeHint().width()
        width = max(self._style.px(LEAST_COLUMN), (self.width() - left - bar) // count)
        return tuple(left + at * width for at in range(count + 1))

    def sizeHint(self) -> QSize:
        return QSize(
            self._style.px(NAMES + 6 * 124), self._style.px(HEIGHT) + self.table.sizeHint().height()
        )

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(NAMES + 6 * LEAST_COLUMN) // 2, self._style.px(HEIGHT + 3 * 22))

    def _add_card(self, name: str) -> None:
        card = self.cards[name] = StageCard(self)
        card.set_style(self._style)
        card.toggled.connect(self.toggled)
        card.changed.connect(self.changed)
        card.refused.connect(self.refused)
        card.pointed.connect(self.pointed)
        card.moved.connect(self._on_moved)
        card.dragged.connect(self._on_dragged)
        card.dropped.connect(self._on_dropped)

    def _place(self) -> None:
        edges, gap = self.edges(), self._style.px(4)
        height = self._style.px(HEIGHT)
        names = [column.name for column in self._view.columns]
        for at, name in enumerate(names):
            self.cards[name].setGeometry(edges[at], 0, edges[at + 1] - edges[at] - gap, height)
        if names != self._tabbed:
            self._tabbed = names
            self._order_tabs(names)
        for name, card in self.cards.items():
            if card.isHidden() is (name in names):
                card.setVisible(name in names)
        top = height + self._style.px(6)
        self.table.setGeometry(QRect(0, top, self.width(), max(0, self.height() - top)))
        self.table.set_view(self._view, edges)

    def _order_tabs(self, names: list[str]) -> None:
        """Tab goes through the cards as they stand, and from the last one to the table."""
        last: QWidget | None = None
        for name in names:
            card = self.cards[name]
            if last is not None:
                QWidget.setTabOrder(last, card)
            for child in (card.check, card.slider, card.edit):
                QWidget.setTabOrder(last or card, child)
                last = child
        if last is not None:
            QWidget.setTabOrder(last, self.table)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._target is None:
            return
        painter = QPainter(self)
        x = self.edges()[self._target] - self._style.px(3)
        ground = self._style.colour("accent")
        painter.fillRect(x, 0, self._style.px(3), self._style.px(HEIGHT), ground)
        painter.end()

    # ---- moving a card

    def _on_moved(self, name: str, by: int) -> None:
        self.moved.emit(name, by)
        self.cards[name].setFocus()

    def _column_at(self, x: int) -> int:
        """The border between columns nearest to an x; the raw distribution stays in front."""
        edges = self.edges()
        nearest = min(range(len(edges)), key=lambda at: abs(edges[at] - x))
        return max(1, nearest)

    def _on_dragged(self, name: str, x: int) -> None:
        self._target = self._column_at(x)
        self.update()

    def _on_dropped(self, name: str, x: int) -> None:
        border, self._target = self._column_at(x), None
        self.update()
        names = [column.name for column in self._view.columns if column.name != "raw"]
        at = border - 1
        if at > names.index(name):
            at -= 1  # it leaves a place on the left
        self.placed.emit(name, at)
