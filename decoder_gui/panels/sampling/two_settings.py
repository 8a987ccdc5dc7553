"""Two settings of the sampler on the same logits, under the same luck."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.theme.style import Face
from decoder_gui.view import View
from decoder_gui.viewdata.numbers import plural
from decoder_gui.viewdata.sampling_controls import stage_settings
from decoder_gui.viewdata.sampling_lab import TwoSettings, build_two_settings
from decoder_gui.viewdata.sampling_pipeline import TITLES
from decoder_gui.widgets.figure_table import FigureTable
from decoder_gui.widgets.labelled_slider import ValueEdit
from decoder_gui.widgets.scrolled_column import ScrolledColumn
from decoder_gui.widgets.side_by_side import SideBySide
from model.errors import InvalidSampling, sentence
from model.sampling import STAGE_WORDS, STAGES, find_order, order_names

A, B = 0, 1
BESIDE = 520  # pixels at scale 1


@register
class TwoSettingsPanel(Panel):
    """A, which the session uses, beside B: what each keeps, how far apart they are."""

    panel_id = "sampling-two"
    title = "Settings A and B"
    views = (View.SAMPLING,)
    place = Place.LEFT
    order = 0
    column_width = 268
    row_height = 400
    wants = (
        Change.TRACE
        | Change.CURSOR
        | Change.SAMPLING
        | Change.CHECKS
        | Change.MODEL
        | Change.STYLE
        | Change.LAB
    )

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        self._view = TwoSettings()
        self._facts: tuple[object, ...] | None = None
        self.edits: dict[tuple[str, int], ValueEdit] = {}
        self.orders = (QComboBox(), QComboBox())
        self._names: list[QLabel] = []
        self.figures = FigureTable("A against B")
        self.words = QLabel()
        self.words.setWordWrap(True)
        self.refusal = QLabel()
        self.refusal.setWordWrap(True)
        self.refusal.setProperty("kind", "error")
        self.refusal.hide()
        self.swap = QPushButton("Swap")
        self.to_second = QPushButton("A → B")
        self.to_first = QPushButton("B → A")
        self.swap.setToolTip("A becomes what B is, and B what A was.")
        self.to_second.setToolTip("Copies A to B.")
        self.to_first.setToolTip("Copies B to A, which the session uses.")
        self._sides = SideBySide(BESIDE)
        self._scrolled = ScrolledColumn(spacing=6)
        self._lay_out()
        lab = context.sampler_lab
        self.swap.clicked.connect(lab.swap)
        self.to_second.clicked.connect(lab.copy_to_other)
        self.to_first.clicked.connect(lab.copy_from_other)

    def _lay_out(self) -> None:
        grid = self._grid = QGridLayout()
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setVerticalSpacing(0)
        for side, letter in enumerate("AB"):
            head = QLabel(letter)
            head.setToolTip("What the session uses" if side == A else "To compare with")
            head.setAlignment(Qt.AlignmentFlag.AlignRight)
            self._names.append(head)
            grid.addWidget(head, 0, 1 + side)
        for line, stage in enumerate(STAGES, start=1):
            name = QLabel(TITLES.get(stage, STAGE_WORDS[stage].capitalize()))
            self._names.append(name)
            grid.addWidget(name, line, 0)
            for side in (A, B):
                edit = self.edits[stage, side] = ValueEdit()
                edit.setAccessibleName(f"{STAGE_WORDS[stage]} of {'AB'[side]}")
                edit.typed.connect(partial(self._on_typed, stage, side))
                grid.addWidget(edit, line, 1 + side)
        for side in (A, B):
            name = QLabel(f"Order {'AB'[side]}")
            self._names.append(name)
            combo = self.orders[side]
            grid.addWidget(name, len(STAGES) + 1 + side, 0)
            combo.setAccessibleName(f"Order of {'AB'[side]}")
            for order in order_names():
                combo.addItem(order, order)
            combo.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            combo.activated.connect(partial(self._on_order, side))
            grid.addWidget(combo, len(STAGES) + 1 + side, 1, 1, 2)
        grid.setColumnStretch(1, 1)
        grid.setColumnStretch(2, 1)
        buttons = QHBoxLayout()
        for button in (self.swap, self.to_second, self.to_first):
            buttons.addWidget(button)
        buttons.addStretch(1)
        inside = self._scrolled.column
        self._sides.first.addLayout(grid)
        self._sides.first.addWidget(self.refusal)
        self._sides.first.addWidget(self.words)
        self._sides.second.addWidget(self.figures)
        self._sides.end()
        inside.addWidget(self._sides)
        inside.addStretch(1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self._scrolled, 1)
        outer.addLayout(buttons)

    @property
    def view(self) -> TwoSettings:
        """What is shown."""
        return self._view

    def redraw(self, changes: Change) -> None:
        if changes & Change.STYLE:
            self._restyle()
        moment, lab = self.context.moment, self.context.sampler_lab
        facts = (*lab.facts(), lab.other)
        if facts == self._facts and not changes & Change.STYLE:
            return
        self._facts = facts
        view = self._view = build_two_settings(moment, lab.other)
        for row in view.settings:
            if row.field == "order":
                self._show_order(A, self.context.sampling.order)
                self._show_order(B, lab.other.order)
                continue
            for side, text in ((A, row.first), (B, row.second)):
                edit = self.edits[row.field, side]
                if edit.shown != text or edit.property("state") == "bad":
                    edit.show_value(text)
                edit.setToolTip("differs" if row.differs else "")
        self.words.setText(self._words(view))
        self.figures.set_figures(view.figures)
        figures = bool(view.figures)
        if self.figures.isHidden() is figures:
            self.figures.setVisible(figures)
        differing = [row.label.lower() for row in view.settings if row.differs]
        hint = f"A in use · {plural(len(differing), 'difference')}"
        self.set_caption(self.title, hint if view.settings else "")

    def _words(self, view: TwoSettings) -> str:
        if view.refusal:
            return self.empty_words if self.context.moment is None else view.refusal
        landing = (
            f"The held draw lands on {view.first_lands} in both."
            if view.same_landing
            else f"The held draw lands on {view.first_lands} in A, {view.second_lands} in B."
        )
        return f"{landing}\nOnly A keeps: {view.only_first}\nOnly B keeps: {view.only_second}"

    def _show_order(self, side: int, order: str) -> None:
        combo, named = self.orders[side], len(order_names())
        if combo.currentData() != order:
            if combo.count() > named:
                combo.removeItem(named)
            if order not in order_names():
                combo.addItem("one's own", order)
            combo.setCurrentIndex(combo.findData(order))
            combo.setToolTip(find_order(order).rule)

    def _restyle(self) -> None:
        style = self.context.style
        self.figures.set_style(style)
        self.words.setFont(style.font(Face.SMALL))
        self.refusal.setFont(style.font(Face.SMALL))
        for label in self._names:
            label.setFont(style.font(Face.BODY))
        for edit in self.edits.values():
            edit.set_style(style)
            edit.setFixedHeight(style.px(22))
            edit.setMinimumWidth(style.px(46))
        for combo in self.orders:
            combo.setFont(style.font(Face.SMALL))
        self._sides.set_style(style)
        self._scrolled.set_style(style)
        self._grid.setHorizontalSpacing(style.px(8))

    def _on_typed(self, stage: str, side: int, text: str) -> None:
        model = self.context.model
        setting = stage_settings(2 if model is None else model.shape.vocabulary)[stage]
        edit = self.edits[stage, side]
        try:
            value = setting.read(text)
        except InvalidSampling as refusal:
            edit.mark_refused(True)
            self._say(f"{refusal}. It stays {edit.shown}.")
            return
        self._say("")
        if side == A:
            self.context.sampler_lab.set_stage(stage, value)
        else:
            whole = {stage: int(value) if stage == "top_k" else value}
            self.context.sampler_lab.set_other(**whole)
        edit.show_value(setting.write(value))

    def _on_order(self, side: int, index: int) -> None:
        order = str(self.orders[side].itemData(index))
        try:
            if side == A:
                self.context.sampler_lab.set_order(order)
            else:
                self.context.sampler_lab.set_other(order=order)
        except InvalidSampling as refusal:
            self._say(sentence(refusal))

    def _say(self, words: str) -> None:
        self.refusal.setText(words)
        self.refusal.setVisible(bool(words))
