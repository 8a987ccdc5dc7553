"""The Difference panel: the array in hand, cell by cell, minus that of the run compared with."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.view import View
from decoder_gui.viewdata.comparison import build_differences, shown_array
from decoder_gui.viewdata.numbers import format_exact, format_value
from decoder_gui.viewdata.values import Statistics, ValuesView, limit_of
from decoder_gui.widgets.value_controls import NumberStepper, ScaleLegend
from decoder_gui.widgets.value_grid import ValueGrid
from model.operations import Kind

NOTHING = "Compare the run with another to see where this array differs, cell by cell."
NOT_BOTH = "This array is not recorded in both runs at this step."
NO_ARRAY = "{} records no array: its result shows in the operations that read it."
CHOOSES = (
    "{} records no array; the sentence of the comparison says where two runs choose otherwise."
)
WORKING = "Subtracting…"


@register
class DifferencePanel(Panel):
    """A heatmap of the difference of the operation in hand; follows the cursor."""

    panel_id = "difference"
    title = "Difference"
    views = (View.COMPARE,)
    place = Place.RIGHT
    order = 0
    column_width = 560
    row_height = 360
    wants = (
        Change.COMPARISON | Change.CURSOR | Change.SELECTION | Change.TRACE | Change.STYLE
    ) | Change.MODEL

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.view: ValuesView | None = None
        self._known: tuple[object, Statistics | None] = (None, None)  # cells, and of all of them
        self.words = QLabel()
        self.words.setWordWrap(True)
        self.words.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.words.setProperty("kind", "muted")
        self.cell = QLabel()
        self.cell.setWordWrap(True)
        self.cell.setTextFormat(Qt.TextFormat.PlainText)  # a token may look like markup
        self.cell.setAccessibleName("The cell in hand, in both runs")
        self.cell.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.grid = ValueGrid()
        self.grid.setAccessibleName("Difference of the array in hand")
        self.grid.chosen.connect(self._choose)
        self.head = NumberStepper("head")
        self.head.moved.connect(lambda head: context.select(head=head))
        self.legend = ScaleLegend()
        self._foot = QHBoxLayout()
        self._foot.addWidget(self.head)
        self._foot.addStretch(1)
        self._foot.addWidget(self.legend)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.addWidget(self.words, 1)
        self._column.addWidget(self.cell)
        self._column.addWidget(self.grid, 1)
        self._column.addLayout(self._foot)

    def redraw(self, changes: Change) -> None:
        style = self.context.style
        if changes & Change.STYLE:
            self._column.setSpacing(style.px(6))
            self.legend.setFixedWidth(style.px(150))
            self.head.setFixedWidth(style.px(150))
        view, words = self._view()
        self.view = view
        self.words.setText(words)
        self.words.setVisible(view is None)
        for widget in (self.cell, self.grid, self.legend):
            widget.setVisible(view is not None)
        self.head.setVisible(view is not None and view.heads > 1)
        if view is None:
            self.set_caption(self.title)
            self.grid.set_view(None, style)
            return
        assert view.statistics is not None
        limit = limit_of(view.statistics)
        self.set_caption(view.title, view.hint)
        self.grid.set_view(view, style, whole=True, limit=limit)
        self.cell.setText(self._both(view))
        head, _ = view.place(view.row)
        self.head.set_value(head or 0, 0, max(view.heads - 1, 0), style)
        low, high = format_value(-limit), format_value(limit)
        self.legend.set_scale(sequential_scale=False, low=low, high=high, style=style)

    def _view(self) -> tuple[ValuesView | None, str]:
        """What to show, or why there is nothing."""
        context = self.context
        moment, comparison = context.moment, context.comparison
        found = comparison.found
        if moment is None or moment.step is None or moment.operation is None:
            return None, self.empty_words
        if found is None:
            return None, NOTHING
        name = shown_array(found, moment)
        if not name:
            words = CHOOSES if moment.operation.kind is Kind.SAMPLE else NO_ARRAY
            return None, words.format(moment.operation.label)
        here = moment.step
        position = moment.selection.query
        if position is None or not here.first <= position < here.last:
            position = here.last - 1
        if comparison.stale_at(here.index):
            return None, "This step is not the one that was compared."
        cells = comparison.want_cells(name, here.index, position)
        if cells is None:
            return None, WORKING if comparison.subtracting else NOT_BOTH
        of_before = self._known[1] if self._known[0] is cells else None
        view = build_differences(found, moment, cells, of_before)
        self._known = (cells, view.statistics)
        return view, ""

    def _both(self, view: ValuesView) -> str:
        """The cell in hand in words, with both numbers and their difference."""
        head, position = view.place(view.row)
        pair = self.context.comparison.pair(view.output, position, head, view.column)
        where = self._where(view, head, position)
        if pair is None:
            return where
        left, right = pair
        apart = view.value(view.row, view.column)
        return (
            f"{where}: {format_exact(left)} against {format_exact(right)}, "
            f"difference {format_exact(apart)}"
        )

    def _where(self, view: ValuesView, head: int | None, position: int) -> str:
        """``Head 1, query 12 “␣It”, key 11 “.”``."""
        names = {"key": ("query", "key"), "vocab": ("position", "token")}
        row, column = names.get(view.axis, ("position", "coordinate"))
        parts = [] if head is None else [f"head {head}"]
        parts.append(f"{row} {position} “{view.pieces[position].text}”")
        label = view.labels[view.column]
        named = "" if label == str(view.column) else f" “{label}”"
        parts.append(f"{column} {view.column}{named}")
        words = ", ".join(parts)
        return words[:1].upper() + words[1:]

    def _choose(self, row: int, column: int) -> None:
        view = self.view
        if view is None:
            return
        head, position = view.place(row)
        changes: dict[str, object] = {"query": position, "array": view.output}
        if head is not None:
            changes["head"] = head
        if view.axis == "key":
            changes["key"] = column
        changes["cell"] = (self._row_of(view, head, position), column)
        self.context.select(**changes)

    def _row_of(self, view: ValuesView, head: int | None, position: int) -> int:
        """The row of the same cell in Values, whose matrix has all positions of the step."""
        moment = self.context.moment
        step = None if moment is None else moment.step
        if moment is None or step is None:
            return 0
        array = moment.array(step.index, view.output)
        rows = len(step.token_ids) if array is None else array.shape[-2]
        return (head or 0) * rows + position - (step.last - rows)
