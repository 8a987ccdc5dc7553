"""What stands beside the attention matrix: all heads, the readout, the causality lines."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.attention import AttentionView, Emphasis, Readout
from decoder_gui.viewdata.attention_leaks import CheckLine, Verdict
from decoder_gui.widgets.head_grid import HeadGrid
from decoder_gui.widgets.run_line import Run, RunLine
from decoder_gui.widgets.scale_legend import ScaleLegend

SAME_SCALE = "same scale"
_COLOURS = {Verdict.HOLDS: "good", Verdict.FAILS: "bad", Verdict.OPEN: "muted"}
_FACES = {
    Emphasis.PLAIN: (Face.BODY, "text", 5.0),
    Emphasis.TOKEN: (Face.STRONG, "text", 5.0),
    Emphasis.POSITION: (Face.TINY, "muted", 3.0),
    Emphasis.NUMBER: (Face.MONO_STRONG, "text", 10.0),
}


class HeadColumn(QWidget):
    """Thumbnails of all heads on top; under them whatever has to be said, at its full height.

    Signals:
        scrolled(): other thumbnails are in sight.
    """

    scrolled = Signal()

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._limit: int | None = None
        self._shown = (0, 0)  # layer and head
        self.grid = HeadGrid(style)
        self.legend = ScaleLegend(style)
        self.heads_title, self.scale_note = QLabel("All heads"), QLabel(SAME_SCALE)
        self.follow = QCheckBox("Follow the step")
        self.follow.setChecked(True)
        self.follow.setToolTip("Show the block of the operation in hand; off: keep this block")
        self.headline, self.details = RunLine(style), RunLine(style)
        self.missing = _words("missing")
        self.causal, self.behaviour = _words("causal-weights"), _words("causal-behaviour")
        self.leaks = _words("leaks")
        self.break_button = QPushButton("Break the mask…")
        self.break_button.setAccessibleDescription("Opens the list of deliberate faults")
        self.scroll_area = QScrollArea()
        self.scroll_area.setFrameShape(QScrollArea.Shape.NoFrame)
        self.scroll_area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.scroll_area.setWidget(self.grid)
        self.scroll_area.verticalScrollBar().rangeChanged.connect(self._reveal)
        self.scroll_area.verticalScrollBar().valueChanged.connect(self.scrolled)

        header = QHBoxLayout()
        header.addWidget(self.heads_title)
        header.addStretch(1)
        header.addWidget(self.scale_note)
        header.addWidget(self.legend)
        rows = self._rows = QVBoxLayout(self)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.addLayout(header)
        rows.addWidget(self.scroll_area, 1)
        for widget in (
            self.follow,
            self.headline,
            self.details,
            self.missing,
            self.causal,
            self.leaks,
            self.behaviour,
        ):
            rows.addWidget(widget)
        rows.addWidget(self.break_button, 0, Qt.AlignmentFlag.AlignLeft)
        rows.addStretch(0)

    def set_style(self, style: Style) -> None:
        self._style = style
        self._rows.setSpacing(style.px(4))
        for label, role in (
            (self.heads_title, "muted"),
            (self.scale_note, "muted"),
            (self.missing, "warning"),
            (self.leaks, "bad"),
        ):
            label.setStyleSheet(f"color: {style.colour(role).name()}")
        # Afterwards: a label's own sheet takes its font back to that of the application.
        self.heads_title.setFont(style.font(Face.TITLE))
        for label in (self.scale_note, self.missing, self.leaks):
            label.setFont(style.font(Face.SMALL))
        self.legend.set_style(style)

    def set_heads(self, view: AttentionView) -> None:
        """Show all heads; a newly chosen one is brought into sight."""
        self.grid.set_data(view, self._style)
        everything = view.layers * view.heads
        note = f"{view.ready} of {everything} ready" if view.unfinished else SAME_SCALE
        if note != self.scale_note.text():
            self.scale_note.setText(note)
        if (view.layer, view.head) != self._shown:
            self._shown = (view.layer, view.head)
            self._reveal()

    def layers_in_sight(self) -> range:
        """Layers of which a thumbnail is not scrolled away."""
        top = -self.grid.y()
        return self.grid.layers_between(top, top + self.scroll_area.viewport().height())

    def set_readout(self, readout: Readout) -> None:
        """Say what one cell holds."""
        runs = (Run(part, *_FACES[emphasis]) for part, emphasis in readout.headline)
        self.headline.set_runs(tuple(runs), self._style)
        details = (Run(readout.details, Face.SMALL, "muted"),) if readout.details else ()
        self.details.set_runs(details, self._style)

    def set_causality(
        self, causal: CheckLine, leaks: Sequence[str], behaviour: CheckLine, detail: str
    ) -> None:
        """Say what the weights and the behavioural check show; ``detail`` is a tooltip."""
        self._set_line(self.causal, causal)
        self.leaks.setText("\n".join(leaks))
        self.leaks.setVisible(bool(leaks))
        self._set_line(self.behaviour, behaviour)
        self.behaviour.setToolTip(detail)

    def set_missing(self, words: str) -> None:
        """Say that something is being recomputed, or nothing."""
        self.missing.setText(words)
        self.missing.setVisible(bool(words))

    def fit(self, height: int | None = None) -> None:
        """Give the thumbnails the room that the words leave of a height, by default this one's."""
        self._limit = height
        room = (self.height() if height is None else height) - self._height_of_words(self.width())
        self.grid.set_available(self.width(), room)
        self.scroll_area.setMaximumHeight(self.grid.height() + self._style.px(2))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.fit(self._limit)

    def _reveal(self) -> None:
        """Scroll to the thumbnail of the chosen head, with a neighbour on either side."""
        chosen = self.grid.thumbnail_rect(*self._shown)
        centre = chosen.center()
        reach = chosen.height() * 3 // 2
        self.scroll_area.ensureVisible(centre.x(), centre.y(), reach, reach)

    def _height_of_words(self, width: int) -> int:
        rows, height = self._rows, 0
        for i in range(rows.count()):
            item = rows.itemAt(i)
            if item is None or item.isEmpty() or item.widget() is self.scroll_area:
                continue
            wraps = item.hasHeightForWidth()
            height += item.heightForWidth(width) if wraps else item.sizeHint().height()
            height += rows.spacing()
        return height

    def _set_line(self, label: QLabel, line: CheckLine) -> None:
        sheet = f"color: {self._style.colour(_COLOURS[line.verdict]).name()}"
        if label.styleSheet() != sheet:
            label.setStyleSheet(sheet)
        label.setText(line.shown)


def _words(name: str) -> QLabel:
    label = QLabel()
    label.setObjectName(name)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
    return label
