"""The Values panel: the output of the operation in hand, and how the chosen number came about."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.stopping import CellActions
from decoder_gui.view import View
from decoder_gui.viewdata.arithmetic import short_name
from decoder_gui.viewdata.numbers import format_value
from decoder_gui.viewdata.operands import Cell
from decoder_gui.viewdata.unfolding import FIRST_TERMS, MORE_TERMS, Entry, read_by, unfold
from decoder_gui.viewdata.values import Statistics, ValuesView, build_values, limit_of
from decoder_gui.widgets.arithmetic_view import ArithmeticView
from decoder_gui.widgets.link_flow import Piece, Span
from decoder_gui.widgets.value_controls import ChoiceBar, NumberStepper, ScaleLegend
from decoder_gui.widgets.value_grid import ValueGrid

ROW, MATRIX = "row", "matrix"
MODES = ((ROW, "Row"), (MATRIX, "Matrix"))
CONTROLS = 150  # width of the column of controls


@register
class ValuesPanel(Panel):
    """One row of the current array, or all of it; a cell that is chosen is worked out again.

    Its operands are links to what computed them; Alt+Left or Backspace leads back.
    """

    panel_id = "values"
    title = "Values"
    views = (View.STEP, View.FIND)
    place = Place.BELOW
    at_cursor = True
    wants = (
        Change.TRACE
        | Change.CURSOR
        | Change.SELECTION
        | Change.SAMPLING
        | Change.STYLE
        | Change.MODEL
    )

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self.view: ValuesView | None = None
        self._mode = ROW
        self._outputs: dict[str, str] = {}  # short name of an operation -> of the output shown
        self._axis = ""  # on which the chosen column lies
        self._asked: set[tuple[int, int]] = set()  # replays asked for at this cursor
        self._asked_at: object = None
        self._whole: tuple[object, Statistics] | None = None
        self._listed: dict[int, int] = {}  # how many terms of each sum of the cell in hand
        self._listed_of: tuple[object, Cell | None] = (None, None)
        self._sources: list[Cell | int] = []  # of each link: where it leads, or the sum to list

        self.grid = ValueGrid()
        self.arithmetic = ArithmeticView()
        self.mode = ChoiceBar("Shown")
        self.output = ChoiceBar("Output")
        self.head = NumberStepper("head")
        self.position = NumberStepper("position")
        self.legend = ScaleLegend()
        self._controls = QWidget()
        column = QVBoxLayout(self._controls)
        column.setContentsMargins(0, 0, 0, 0)
        for control in (self.mode, self.output, self.head, self.position, self.legend):
            column.addWidget(control)
        column.addStretch(1)
        self._layout = QGridLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.addWidget(self.grid, 0, 0)
        self._layout.addWidget(self.arithmetic, 1, 0)
        self._layout.addWidget(self._controls, 0, 1, 3, 1)
        self._layout.setRowStretch(0, 1)
        self._layout.setColumnStretch(0, 1)
        self.arithmetic.operands.followed.connect(self._follow)
        self.arithmetic.trail.followed.connect(context.trail.return_to)
        self.cells = CellActions(self.grid, lambda: self.view, context)
        self.grid.chosen.connect(self._choose)
        self.mode.chosen.connect(self._set_mode)
        self.output.chosen.connect(self._set_output)
        self.head.moved.connect(self._set_head)
        self.position.moved.connect(self._set_position)

    def redraw(self, changes: Change) -> None:
        style, moment = self.context.style, self.context.moment
        if changes & Change.STYLE:
            self._layout.setHorizontalSpacing(style.px(14))
            self._layout.setVerticalSpacing(style.px(4))
            self._controls.setFixedWidth(style.px(CONTROLS))
            layout = self._controls.layout()
            assert layout is not None
            layout.setSpacing(style.px(3))
        operation = None if moment is None else moment.operation
        if moment is None or operation is None:
            self.view = None
            self.set_caption(self.title)
            self._show_nothing(self.empty_words)
            return
        wanted = self._outputs.get(operation.short_name, "")
        view = self.view = build_values(moment, wanted, self._axis)
        assert view is not None
        view = self._with_replay(view)
        if view.array is None:
            self.set_caption(view.title)
            self._show_nothing(view.message)
            self._show_outputs(view)
            return
        self._show(view)

    def _show(self, view: ValuesView) -> None:
        style, whole = self.context.style, self._mode == MATRIX
        assert view.statistics is not None
        statistics = self._whole_statistics(view) if whole else view.statistics
        limit = limit_of(statistics)
        self._controls.show()
        self.grid.show()
        self.grid.set_view(view, style, whole=whole, limit=limit)
        self.grid.setMaximumHeight(self.grid.height_wanted())
        problems = [text for text in (statistics.problem, view.disagreement) if text]
        self._show_arithmetic(view, " ".join(problems))
        self.set_caption(view.whole_title if whole else view.title, statistics.text)
        self.mode.set_options(MODES, self._mode, style)
        self._show_outputs(view)
        head, position = view.place(view.row)
        self.head.setVisible(view.heads > 1)
        self.head.set_value(head or 0, 0, max(view.heads - 1, 0), style)
        self.position.setVisible(view.positions > 1)
        self.position.set_value(position, view.first, view.first + view.positions - 1, style)
        low, high = ("0", "1") if view.sequential else (format_value(-limit), format_value(limit))
        self.legend.set_scale(sequential_scale=view.sequential, low=low, high=high, style=style)

    def _show_nothing(self, words: str) -> None:
        self.grid.set_view(None, self.context.style)
        self.grid.hide()
        self._controls.hide()
        self.arithmetic.set_lines((words,), "", self.context.style)

    def _show_arithmetic(self, view: ValuesView, problem: str) -> None:
        """The lines, the way here, and what the number in hand is made of, as links."""
        moment, worked = self.context.moment, view.derivation
        assert moment is not None
        if self._listed_of != (self.context.cursor, view.cell):
            self._listed_of, self._listed = (self.context.cursor, view.cell), {}
        self._sources = []
        pieces: list[Piece] = []
        note = ""
        if worked is not None:
            shown = unfold(moment, worked, lambda index: self._listed.get(index, FIRST_TERMS))
            if worked.agrees:  # a disagreement stands above already
                pieces.append((Span(f"✓ {worked.short_verdict}", None, view.verdict, "good"),))
                note = view.verdict
            pieces.extend(self._piece(entry) for entry in shown.entries)
            pieces.extend(
                (Span(more.words, self._link(more.sum_index), f"List {MORE_TERMS} more"),)
                for more in shown.more
            )
        elif view.cell is not None and view.missing is None:
            pieces.extend(self._piece(entry) for entry in read_by(moment, view.cell))
        self.arithmetic.set_lines(
            view.arithmetic,
            problem,
            self.context.style,
            trail=self._trail_pieces(view),
            operands=tuple(pieces),
            note=note,
        )

    def _piece(self, entry: Entry) -> Piece:
        return tuple(
            Span(part.text, None if part.source is None else self._link(part.source), part.tip)
            for part in entry
        )

    def _link(self, source: Cell | int) -> int:
        self._sources.append(source)
        return len(self._sources) - 1

    def _trail_pieces(self, view: ValuesView) -> tuple[Piece, ...]:
        trail = self.context.trail
        if not trail.leads_to(view.cell):
            return ()
        *before, last = trail.stops
        ways: list[Piece] = [
            (Span(stop.words, at, "Go back here"), Span(" ←")) for at, stop in enumerate(before)
        ]
        return (*ways, (Span(last.words, None, "", "text"),))

    def _follow(self, link: int) -> None:
        """Travel to what an operand is, or list more of a sum."""
        source, view = self._sources[link], self.view
        if isinstance(source, Cell):
            if view is not None and view.cell is not None:
                self.context.trail.follow(view.cell, source)
        else:
            self._listed[source] = self._listed.get(source, FIRST_TERMS) + MORE_TERMS
            self.redraw(Change.SELECTION)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Backspace:
            self.context.trail.back()
            return
        super().keyPressEvent(event)

    def _show_outputs(self, view: ValuesView) -> None:
        self.output.setVisible(len(view.outputs) > 1)
        if len(view.outputs) > 1:
            self.output.set_options(view.outputs, view.output, self.context.style)

    def _whole_statistics(self, view: ValuesView) -> Statistics:
        """Of the whole array, worked out once for each array."""
        if self._whole is None or self._whole[0] is not view.array:
            self._whole = (view.array, view.whole_statistics())
        return self._whole[1]

    def _with_replay(self, view: ValuesView) -> ValuesView:
        """Ask for a block that was left out, once for each place the cursor stands at.

        Only a few recomputed blocks are held: asking again and again would never end where the
        arithmetic reads more of them than that.
        """
        if self._asked_at != self.context.cursor:
            self._asked_at, self._asked = self.context.cursor, set()
        if view.missing is None:
            return view
        if view.missing in self._asked:
            if view.array is None or self.context.busy is not None:
                return view
            return replace(view, without="An operand of an earlier step was not kept.")
        self._asked.add(view.missing)
        self.context.replay(*view.missing)
        return view

    def _choose(self, row: int, column: int) -> None:
        view = self.view
        if view is None or view.array is None:
            return
        self._axis = view.axis
        changes: dict[str, object] = {"cell": (row, column), "array": view.output}
        head, position = view.place(row)
        if head is not None:
            changes["head"] = head
        if row != view.row and view.positions > 1:
            changes["query"] = position
        if view.axis == "key":
            changes["key"] = column
        self.context.select(**changes)

    def _set_mode(self, mode: str) -> None:
        self._mode = mode
        self.redraw(Change.SELECTION)

    def _set_output(self, name: str) -> None:
        moment = self.context.moment
        if moment is not None and moment.operation is not None:
            self._outputs[moment.operation.short_name] = short_name(name)
            if self.context.selection.array:
                self.context.select(array="")
            else:
                self.redraw(Change.SELECTION)

    def _set_head(self, head: int) -> None:
        self.context.select(head=head)

    def _set_position(self, position: int) -> None:
        self.context.select(query=position)
