"""The Attention panel: one head as a matrix, all heads as thumbnails, and what leaks."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.context import AppContext, Change
from decoder_gui.panels.base import Panel, Place, register
from decoder_gui.theme.style import MONO_FAMILY, Face, Style
from decoder_gui.viewdata.attention import (
    AttentionView,
    CheckLine,
    Emphasis,
    Readout,
    Verdict,
    build_attention,
    layer_in_hand,
)
from decoder_gui.viewdata.attention_store import PatternStore
from decoder_gui.viewdata.faults import behaviour_line, build_faults, fault_banner
from decoder_gui.viewdata.numbers import format_count, plural
from decoder_gui.widgets.attention_matrix import AttentionMatrix
from decoder_gui.widgets.fault_panel import FaultPanel
from decoder_gui.widgets.head_grid import HeadGrid, ScaleLegend

HINT = "row = query, column = key"
EMPTY = "Nothing has been computed yet. Enter a prompt and choose Prefill."
NARROW = 520.0  # pixels at scale 1 below which the thumbnails go under the matrix
COLUMN_LEAST = 240.0
_COLOURS = {Verdict.HOLDS: "good", Verdict.FAILS: "bad", Verdict.OPEN: "muted"}
_VIEW_CHANGES = Change.TRACE | Change.CURSOR | Change.SELECTION | Change.STYLE | Change.MODEL


@register
class AttentionPanel(Panel):
    """Who attends to whom, in the block of the operation in hand or in one that is kept."""

    panel_id = "attention"
    title = "Attention"
    place = Place.CENTRE
    wants = _VIEW_CHANGES | Change.CHECKS

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(context, parent)
        style = context.style
        self._store = PatternStore()
        self._view: AttentionView | None = None
        self._drawn_for: tuple[object, ...] = ()
        self._locked = False
        self._seen_layer = context.selection.layer
        self._awaited: tuple[str, bool] | None = None
        self._fault_panel: FaultPanel | None = None

        self.banner = _line("fault-banner")
        self.empty = _line("empty")
        self.empty.setText(EMPTY)
        self.matrix = AttentionMatrix(style)
        self.grid = HeadGrid(style)
        self.legend = ScaleLegend(style)
        self.heads_title, self.scale_note = QLabel("All heads"), QLabel("same scale")
        self.follow = QCheckBox("Follow the step")
        self.follow.setChecked(True)
        self.follow.setToolTip("Show the block of the operation in hand; off: keep this block")
        self.headline, self.details = _line("headline"), _line("details")
        self.missing = _line("missing")
        self.causal, self.behaviour = _line("causal-weights"), _line("causal-behaviour")
        self.leaks = _line("leaks")
        self.break_button = QPushButton("Break the mask…")
        self.break_button.setAccessibleDescription("Opens the list of deliberate faults")
        self._place_widgets()

        self.matrix.hovered.connect(self._on_hovered)
        self.matrix.cell_chosen.connect(self._on_cell)
        self.matrix.cell_released.connect(self._on_released)
        self.grid.head_chosen.connect(self._on_head)
        self.follow.clicked.connect(self._on_follow)
        self.break_button.clicked.connect(self.open_faults)
        context.notice.connect(self._on_notice)

    @property
    def view(self) -> AttentionView | None:
        """What is shown."""
        return self._view

    @property
    def fault_panel(self) -> FaultPanel | None:
        """The list of faults, once it has been opened."""
        return self._fault_panel

    # ---- drawing

    def redraw(self, changes: Change) -> None:
        if changes & Change.STYLE:
            self._restyle()
        if changes & Change.MODEL:
            self._locked = False
            self._seen_layer = self.context.selection.layer
        if changes & Change.SELECTION and self.context.selection.layer != self._seen_layer:
            self._seen_layer = self.context.selection.layer
            self._locked = True
        if changes & _VIEW_CHANGES:
            self._redraw_view(changes)
        self._show_checks()

    def _redraw_view(self, changes: Change) -> None:
        moment = self.context.moment
        if moment is None or moment.cursor is None:
            self._view, self._drawn_for = None, ()
            self._show_parts(False)
            self.set_caption(self.title)
            return
        # While the worker decodes on, the trace grows behind a cursor that has not moved.
        drawn_for = (moment.trace, moment.cursor, moment.step)
        held = self._view is not None and not self._view.not_kept
        if changes == Change.TRACE and held and drawn_for == self._drawn_for:
            return
        self._drawn_for = drawn_for
        layer = self.context.selection.layer if self._locked else None
        view = self._view = build_attention(moment, self._store, layer=layer)
        style, selection = self.context.style, self.context.selection
        chosen = None if selection.query is None and selection.key is None else view.selected
        self._show_parts(True)
        self.matrix.set_data(view, style, chosen)
        self.grid.set_data(view, style)
        self._fit_column()
        self._show_readout(self.matrix.hovered_cell or view.selected)
        self.follow.setChecked(not self._locked)
        self.set_caption(view.title, f"block kept · {HINT}" if self._locked else HINT)
        steps = len(view.not_kept)
        self.missing.setVisible(bool(steps))
        if steps:
            self.missing.setText(
                f"block {view.layer}: {plural(steps, 'step')} not kept: recomputing"
            )
            self.context.replay(view.not_kept[0], view.layer)

    def _show_readout(self, cell: tuple[int, int] | None) -> None:
        if self._view is None or cell is None:
            return
        readout = self._view.readout(*cell)
        self.headline.setText(_rich(readout, self.context.style))
        self.headline.setAccessibleName(readout.text)
        self.details.setText(readout.details)

    def _show_checks(self) -> None:
        context = self.context
        self.banner.setText(fault_banner(context.faults))
        self.banner.setVisible(bool(context.faults))
        if self._view is not None:
            self._show_line(self.causal, self._view.causal)
            more = self._view.leak_count - len(self._view.leaks)
            lines = [leak.sentence for leak in self._view.leaks]
            if more > 0 and lines:
                lines.append(f"and {format_count(more)} more")
            self.leaks.setText("\n".join(lines))
            self.leaks.setVisible(bool(lines))
            line, detail = behaviour_line(context.checks, context.checks_pending)
            self._show_line(self.behaviour, line)
            self.behaviour.setToolTip(detail)
        if self._fault_panel is not None and self._fault_panel.isVisible():
            self._show_faults()

    def _show_line(self, label: QLabel, line: CheckLine) -> None:
        colour = self.context.style.colour(_COLOURS[line.verdict])
        palette = label.palette()
        if palette.color(label.foregroundRole()) != colour:
            label.setStyleSheet(f"color: {colour.name()}")
        if label.text() != line.shown:
            label.setText(line.shown)

    # ---- what the user does

    def _on_hovered(self, cell: tuple[int, int] | None) -> None:
        if self._view is not None:
            self._show_readout(cell or self._view.selected)

    def _on_cell(self, query: int, key: int) -> None:
        selection = self.context.selection
        if (selection.query, selection.key) == (query, key):
            self._on_released()
        else:
            self.context.select(query=query, key=key)

    def _on_released(self) -> None:
        self.context.select(query=None, key=None)

    def _on_head(self, layer: int, head: int) -> None:
        moment = self.context.moment
        if moment is None:
            return
        if not self._locked and layer == layer_in_hand(moment):
            self.context.select(head=head)
            return
        self._locked = True
        self._seen_layer = layer
        self.context.select(layer=layer, head=head)
        self.redraw(Change.SELECTION)

    def _on_follow(self, follow: bool) -> None:
        self._locked = not follow
        if self._view is not None and not follow:
            self._seen_layer = self._view.layer
            self.context.select(layer=self._view.layer)
        self.redraw(Change.CURSOR)

    # ---- deliberate faults

    def open_faults(self) -> None:
        """Open the list of deliberate faults; it stays open beside the window."""
        if self._fault_panel is None:
            panel = self._fault_panel = FaultPanel(self.context.style, self)
            panel.fault_toggled.connect(self._on_fault)
            panel.all_off.connect(self.context.clear_faults)
        self._show_faults()
        self._fault_panel.show()
        self._fault_panel.activateWindow()

    def _show_faults(self) -> None:
        context, panel = self.context, self._fault_panel
        if panel is not None:
            view = build_faults(context.faults, context.checks, context.checks_pending)
            panel.set_data(view, context.style)

    def _on_fault(self, name: str, on: bool) -> None:
        self._awaited = (name, on)
        self.context.set_fault(name, on)

    def _on_notice(self, text: str) -> None:
        """A notice after a box was clicked is the refusal of that fault, unless it is on."""
        if self._awaited is None or self._fault_panel is None:
            return
        name, on = self._awaited
        self._awaited = None
        if (name in self.context.faults) is not on:
            self._fault_panel.set_refusal(text)

    # ---- arrangement

    def _place_widgets(self) -> None:
        header = QHBoxLayout()
        header.addWidget(self.heads_title)
        header.addStretch(1)
        header.addWidget(self.scale_note)
        header.addWidget(self.legend)
        self._header = header
        self.scroll_area = QScrollArea()
        self.scroll_area.setFrameShape(QScrollArea.Shape.NoFrame)
        self.scroll_area.setWidget(self.grid)
        self.scroll_area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._column = QWidget()
        column = self._column_rows = QVBoxLayout(self._column)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(header)
        column.addWidget(self.scroll_area, 1)
        column.addWidget(self.follow)
        for label in (
            self.headline,
            self.details,
            self.missing,
            self.causal,
            self.leaks,
            self.behaviour,
        ):
            column.addWidget(label)
        column.addWidget(self.break_button, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(0)
        self._body = QWidget()
        self._body_rows = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._body)
        self._body_rows.setContentsMargins(0, 0, 0, 0)
        self._body_rows.addWidget(self.matrix, 1)
        self._body_rows.addWidget(self._column)
        whole = self._whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(self.banner)
        whole.addWidget(self.empty)
        whole.addWidget(self._body, 1)

    def _show_parts(self, computed: bool) -> None:
        self.empty.setVisible(not computed)
        self._body.setVisible(computed)

    def _restyle(self) -> None:
        style = self.context.style
        self._whole.setSpacing(style.px(8))
        self._body_rows.setSpacing(style.px(8))
        self._column_rows.setSpacing(style.px(4))
        self.heads_title.setFont(style.font(Face.TITLE))
        for label in (self.scale_note, self.details, self.missing):
            label.setFont(style.font(Face.SMALL))
        for label in (self.heads_title, self.scale_note, self.details, self.empty):
            label.setStyleSheet(f"color: {style.palette.muted}")
        self.missing.setStyleSheet(f"color: {style.palette.warning}")
        self.leaks.setStyleSheet(f"color: {style.palette.bad}")
        self.leaks.setFont(style.font(Face.SMALL))
        self.banner.setStyleSheet(
            f"background: {style.palette.bad}; color: {style.palette.panel}; font-weight: 600; "
            f"border-radius: {style.px(4)}px; padding: {style.px(6)}px {style.px(10)}px;"
        )
        self.legend.set_style(style)
        self._fit_column()

    def _fit_column(self) -> None:
        style = self.context.style
        narrow = self.width() < style.px(NARROW)
        ways = QBoxLayout.Direction
        self._body_rows.setDirection(ways.TopToBottom if narrow else ways.LeftToRight)
        if narrow:
            width = self.width()
            self._column.setMinimumWidth(0)
            self._column.setMaximumWidth(16_777_215)
        else:
            width = max(style.px(COLUMN_LEAST), round(self.width() * 0.36))
            self._column.setFixedWidth(width)
        self.grid.set_available_width(width)
        self.scroll_area.setMaximumHeight(self.grid.height() + style.px(2))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_column()


def _line(name: str) -> QLabel:
    label = QLabel()
    label.setObjectName(name)
    label.setWordWrap(True)
    label.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
    return label


def _rich(readout: Readout, style: Style) -> str:
    marks = {
        Emphasis.PLAIN: "{}",
        Emphasis.TOKEN: '<span style="font-weight:600">{}</span>',
        Emphasis.POSITION: f'<span style="color:{style.palette.muted}; '
        f'font-size:{style.px(10)}px">{{}}</span>',
        Emphasis.NUMBER: f"<span style=\"font-family:'{MONO_FAMILY}'\">{{}}</span>",
    }
    return " ".join(marks[emphasis].format(escape(part)) for part, emphasis in readout.headline)
