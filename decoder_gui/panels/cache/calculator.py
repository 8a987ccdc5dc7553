"""The calculator of cache sizes: a model's numbers, or those of a well-known one."""

from __future__ import annotations

from PySide6.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QGridLayout,
    QLabel,
    QSizePolicy,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.view import View
from decoder_gui.viewdata.cache_plan import build_cache_plan
from decoder_gui.widgets.data_table import DataTable
from decoder_gui.widgets.figure_table import FigureTable
from decoder_gui.widgets.scrolled_column import ScrolledColumn
from decoder_gui.widgets.side_by_side import SideBySide
from model.cache_plan import KNOWN, CachePlan, ValueSize
from model.errors import DecoderError, sentence

THIS = "the model in hand"
MEMORY = 24.0  # GiB to begin with
GIB = 2**30
BESIDE = 560  # pixels at scale 1 from which the answers stand beside the numbers
NARROW = 72  # pixels: by itself a field asks for the room of the longest number that it may hold
MOST = 10_000_000
# What stands before each field, the field of the plan, and the most that it may be.
FIELDS = (
    ("Layers", "layers", 1000),
    ("Heads", "heads", 1000),
    ("Key-value heads", "kv_heads", 1000),
    ("Head size", "head_dim", 4096),
    ("Context", "context", MOST),
    ("Batch", "batch", 100_000),
)


@register
class CalculatorPanel(Panel):
    """Numbers in, bytes out."""

    panel_id = "calculator"
    title = "Calculator"
    views = (View.CACHE,)
    place = Place.LEFT
    column_width = 330
    wants = Change.MODEL | Change.STYLE | Change.LAB | Change.TRACE

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._showing = False
        self.preset, self.kind = QComboBox(), QComboBox()
        self.preset.setAccessibleName("Whose numbers")
        self.preset.addItems([THIS, *KNOWN])
        for combo in (self.preset, self.kind):
            combo.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.fields: dict[str, QSpinBox] = {}
        form = QGridLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.addWidget(self.preset, 0, 0, 1, 2)
        self.source = QLabel()
        self.source.setProperty("kind", "muted")
        self.source.setWordWrap(True)
        form.addWidget(self.source, 1, 0, 1, 2)
        for row, (words, name, most) in enumerate(FIELDS, start=2):
            field = QSpinBox()
            field.setRange(1, most)
            field.setGroupSeparatorShown(True)
            field.setAccessibleName(words)
            field.setKeyboardTracking(False)
            field.setMinimumWidth(NARROW)
            label = QLabel(words)
            label.setBuddy(field)
            form.addWidget(label, row, 0)
            form.addWidget(field, row, 1)
            self.fields[name] = field
            field.valueChanged.connect(lambda value, name=name: self._on_number(name, value))
        self.kind.setAccessibleName("Type of the cached numbers")
        self.kind.addItems([size.words for size in ValueSize])
        self.memory = _amount("Memory in GiB", MEMORY)
        self.weights = _amount("Taken by the weights, in GiB", 0.0)
        for row, (words, widget) in enumerate(
            (
                ("Cached numbers", self.kind),
                ("Memory, GiB", self.memory),
                ("Weights take, GiB", self.weights),
            ),
            start=2 + len(FIELDS),
        ):
            form.addWidget(QLabel(words), row, 0)
            form.addWidget(widget, row, 1)
        self.figures = FigureTable("Answers")
        self.table = DataTable("Ways of sharing keys and values", context.style)
        self._scrolled = ScrolledColumn(spacing=8)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self._scrolled)
        self._sides = SideBySide(BESIDE, spacing=8)
        self._sides.first.addLayout(form)
        for each in (self.figures, self.table):
            self._sides.second.addWidget(each)
        self._sides.end()
        self._scrolled.column.addWidget(self._sides)
        self._scrolled.column.addStretch(1)
        self.preset.activated.connect(lambda _: self._on_preset())
        self.kind.activated.connect(lambda _: self._on_size())
        self.memory.valueChanged.connect(lambda _: self.redraw(Change.LAB))
        self.weights.valueChanged.connect(lambda _: self.redraw(Change.LAB))

    def redraw(self, changes: Change) -> None:
        context = self.context
        if changes & Change.STYLE:
            for widget in (self.figures, self.table, self._sides, self._scrolled):
                widget.set_style(context.style)
            self.source.setFont(context.style.font(Face.SMALL))
            for number in (*self.fields.values(), self.memory, self.weights):
                number.setFont(context.style.font(Face.MONO))
        lab = context.cache_lab
        if changes & Change.MODEL and lab.plan is None:
            self._name(THIS)
        plan = lab.planned
        self._show(plan)
        view = build_cache_plan(plan, self.memory.value() * GIB, besides=self.weights.value() * GIB)
        self.set_caption(self.title, view.hint)
        self.figures.set_figures(view.figures)
        self.table.set_table(view.table)
        self.table.show_all_rows()

    def _show(self, plan: CachePlan) -> None:
        self._showing = True
        for name, field in self.fields.items():
            field.setValue(int(getattr(plan, name)))
        sizes = [size.bytes for size in ValueSize]
        if plan.bytes_per_value in sizes:
            self.kind.setCurrentIndex(sizes.index(plan.bytes_per_value))
        self._showing = False

    def _name(self, preset: str) -> None:
        self.preset.setCurrentText(preset)
        known, model = KNOWN.get(preset), self.context.model
        if known is not None:
            note = f"; {known.note}" if known.note else ""
            self.source.setText(f"config.json of {known.source}, at its whole context{note}.")
        elif model is not None:
            self.source.setText(f"{model.name}, with the context chosen above.")
            self.weights.setValue(model.parameters * model.bytes_per_value / GIB)
        else:
            self.source.setText("")

    def _on_preset(self) -> None:
        known = KNOWN.get(self.preset.currentText())
        lab = self.context.cache_lab
        self._name(self.preset.currentText())
        if known is None:
            lab.plan = None
            lab.tell(Change.LAB)
            return
        size = list(ValueSize)[self.kind.currentIndex()]
        # The weights in the same precision, float16 at least: packed ones have their own sizes.
        taken = known.parameters * max(2.0, size.bytes) / GIB
        self.weights.setValue(taken)
        lab.set_plan(known.plan(batch=lab.planned.batch, bytes_per_value=size.bytes))

    def _on_size(self) -> None:
        self._change(bytes_per_value=list(ValueSize)[self.kind.currentIndex()].bytes)

    def _on_number(self, name: str, value: int) -> None:
        if not self._showing:
            self._change(**{name: value})

    def _change(self, **changes: int | float) -> None:
        try:
            self.context.cache_lab.change_plan(**changes)
        except DecoderError as refusal:
            self.context.notice.emit(sentence(refusal))
            self._show(self.context.cache_lab.planned)


def _amount(name: str, value: float) -> QDoubleSpinBox:
    field = QDoubleSpinBox()
    field.setRange(0.0, 100_000.0)
    field.setDecimals(2)
    field.setValue(value)
    field.setAccessibleName(name)
    field.setKeyboardTracking(False)
    field.setMinimumWidth(NARROW)
    return field
