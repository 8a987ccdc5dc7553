"""What is drawn over and beside the attention matrix: gaps, numbers, outlines, marks, labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QPolygonF

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.attention import AttentionView
from decoder_gui.viewdata.attention_codes import STEPS
from decoder_gui.widgets.matrix_geometry import KEY_ANGLE, MatrixGeometry
from decoder_gui.widgets.viridis import is_light, viridis
from model.trace import Phase

GAP_FROM = 6.0  # pixels of a cell (scale 1) from which cells are set apart
NUMBER_FROM = 22.0
ALL_NUMBERS_FROM = 44.0
NUMBER_LEAST = 0.2
LABEL_MOST = 96.0  # pixels (scale 1) of a token label
CELL_MOST = 88.0


@dataclass(frozen=True)
class Pointers:
    """What is pointed at: the cell under the mouse, and the cell in hand while it is shown."""

    hovered: tuple[int, int] | None = None
    chosen: tuple[int, int] | None = None


class Labels:
    """The token labels of a view, elided and measured once."""

    def __init__(self, view: AttentionView, style: Style) -> None:
        self.font = style.font(Face.SMALL)
        metrics = QFontMetricsF(self.font)
        self.line_height = metrics.height()
        self.ascent = metrics.ascent()
        most = style.px(LABEL_MOST)
        self.texts = [
            metrics.elidedText(label.text, Qt.TextElideMode.ElideRight, most)
            for label in view.labels
        ]
        self.widths = [metrics.horizontalAdvance(text) for text in self.texts]
        self.gap = style.px(7)
        self.colours = {phase: style.colour(phase.value) for phase in Phase}
        self.phases = [label.phase for label in view.labels]
        self.strong = style.colour("text")

    @property
    def widest(self) -> float:
        return max(self.widths, default=0.0)

    def spaced(self, visible: range, always: set[int], distance: float) -> list[int]:
        """The labels to draw so that none touches another; some of them whatever happens."""
        every = max(1, math.ceil(distance))
        kept = [
            position
            for position in visible
            if position % every == 0
            and all(abs(position - other) >= distance for other in always if other in visible)
        ]
        return sorted({*kept, *(position for position in always if position in visible)})


def paint_queries(
    painter: QPainter, geometry: MatrixGeometry, labels: Labels, pointed: set[int]
) -> None:
    """Query labels, right-aligned at the left of their rows."""
    if not geometry.side:
        return
    painter.setFont(labels.font)
    distance = labels.line_height * 0.95 / geometry.cell
    for query in labels.spaced(geometry.visible_queries(), pointed, distance):
        middle = geometry.top + (query + 0.5 - geometry.y0) * geometry.cell
        if not geometry.top <= middle <= geometry.top + geometry.side:
            continue
        right = geometry.left - labels.gap
        box = QRectF(0, middle - labels.line_height / 2, right, labels.line_height)
        painter.setPen(labels.strong if query in pointed else labels.colours[labels.phases[query]])
        painter.drawText(
            box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, labels.texts[query]
        )


def paint_keys(
    painter: QPainter, geometry: MatrixGeometry, labels: Labels, pointed: set[int]
) -> None:
    """Key labels, rising from the middle of the top of their columns."""
    if not geometry.side:
        return
    painter.setFont(labels.font)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    # Slanted lines may come closer than level ones: their ascenders rarely meet.
    distance = labels.line_height * 0.7 / math.sin(math.radians(KEY_ANGLE)) / geometry.cell
    for key in labels.spaced(geometry.visible_keys(), pointed, distance):
        middle = geometry.left + (key + 0.5 - geometry.x0) * geometry.cell
        if not geometry.left <= middle <= geometry.left + geometry.side:
            continue
        painter.setPen(labels.strong if key in pointed else labels.colours[labels.phases[key]])
        painter.save()
        painter.translate(middle, geometry.top - labels.gap * 0.6)
        painter.rotate(-KEY_ANGLE)
        painter.drawText(QPointF(0.0, labels.ascent * 0.35), labels.texts[key])
        painter.restore()


class OverlayPainter:
    """Draws what lies over the cells. Pens and readable text colours are made once per style."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._gap = QPen(style.colour("panel"), style.px(1))
        self._border = QPen(style.colour("muted"), style.px(1), Qt.PenStyle.CustomDashLine)
        self._border.setDashPattern([3, 3])
        self._outline = QPen(style.colour("outline"), style.px(2))
        self._pointed = QPen(style.colour("outline"), style.px(1))
        self._bad = QPen(style.colour("bad"), style.px(2))
        self._warning = QPen(style.colour("warning"), style.px(2))
        for pen in (self._outline, self._pointed, self._bad):
            pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        self._fonts = {
            face: style.font(face) for face in (Face.MONO_TINY, Face.MONO_SMALL, Face.MONO)
        }
        table = viridis(STEPS + 1)
        light = [is_light(QColor(*(int(c) for c in colour))) for colour in table]
        self._on_code = [QColor("#000000" if at else "#FFFFFF") for at in light]

    def paint(
        self,
        painter: QPainter,
        view: AttentionView,
        geometry: MatrixGeometry,
        pointers: Pointers,
    ) -> None:
        if not geometry.side:
            return
        painter.save()
        painter.setClipRect(geometry.square)
        self._gaps(painter, geometry)
        self._numbers(painter, view, geometry)
        self._broken(painter, view, geometry)
        self._leaks(painter, view, geometry)
        self._phase_border(painter, view, geometry)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if pointers.hovered is not None:
            painter.setPen(self._pointed)
            painter.drawRect(self._inside(geometry.rect(*pointers.hovered), 1))
        if pointers.chosen is not None:
            painter.setPen(self._outline)
            painter.drawRect(self._inside(geometry.rect(*pointers.chosen), 2))
        row = outlined_row(view)
        if row is not None:
            painter.setPen(self._outline)
            whole = geometry.rect(row, 0, 1, view.positions).intersected(geometry.square)
            small = geometry.cell < self._style.px(GAP_FROM)
            painter.setClipping(False)
            # A row of a few pixels is framed from outside, so that it stays visible.
            painter.drawRect(self._inside(whole, -2 if small else 2))
        painter.restore()

    def _inside(self, box: QRectF, width: float) -> QRectF:
        """A box whose outline of a width stays within its pixels, or without where negative."""
        half = math.copysign(self._style.px(abs(width)) / 2, width)
        return box.adjusted(half, half, -half, -half)

    def _gaps(self, painter: QPainter, geometry: MatrixGeometry) -> None:
        if geometry.cell < self._style.px(GAP_FROM):
            return
        right, bottom = geometry.square.right(), geometry.square.bottom()
        shift = self._style.px(1) / 2
        lines = []
        for key in geometry.visible_keys():
            x = geometry.x(key + 1) - shift
            lines.append(QLineF(x, geometry.top, x, bottom))
        for query in geometry.visible_queries():
            y = geometry.y(query + 1) - shift
            lines.append(QLineF(geometry.left, y, right, y))
        painter.setPen(self._gap)
        painter.drawLines(lines)

    def _numbers(self, painter: QPainter, view: AttentionView, geometry: MatrixGeometry) -> None:
        cell = geometry.cell
        if cell < self._style.px(NUMBER_FROM):
            return
        spacious = cell >= self._style.px(ALL_NUMBERS_FROM)
        face = Face.MONO_TINY if cell < self._style.px(27) else Face.MONO_SMALL
        painter.setFont(self._fonts[Face.MONO if spacious else face])
        queries, keys = geometry.visible_queries(), geometry.visible_keys()
        part = view.codes[queries.start : queries.stop, keys.start : keys.stop]
        # Codes are exact to 1/508: enough to choose cells, and the number comes from the weights.
        least = 1 if spacious else math.floor(NUMBER_LEAST * STEPS)
        for at, across in zip(*np.nonzero(part >= least), strict=True):
            query, key = queries.start + int(at), keys.start + int(across)
            weight = float(view.weights[query, key])
            if not spacious and weight < NUMBER_LEAST:
                continue
            painter.setPen(self._on_code[int(part[at, across]) - 1])
            text = cell_number(weight, 3 if spacious else 2)
            painter.drawText(geometry.rect(query, key), Qt.AlignmentFlag.AlignCenter, text)

    def _leaks(self, painter: QPainter, view: AttentionView, geometry: MatrixGeometry) -> None:
        if not len(view.leak_cells):
            return
        painter.setPen(self._bad)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if geometry.cell < self._style.px(GAP_FROM):
            painter.drawLines(_edges(view, geometry))
            return
        queries, keys = geometry.visible_queries(), geometry.visible_keys()
        at, of = view.leak_cells[:, 0], view.leak_cells[:, 1]
        inside = (at >= queries.start) & (at < queries.stop) & (of >= keys.start) & (of < keys.stop)
        boxes = [geometry.rect(query, key) for query, key in view.leak_cells[inside].tolist()]
        corner = min(geometry.cell / 2, self._style.px(8))
        painter.drawRects([self._inside(box, 2) for box in boxes])
        painter.setBrush(self._bad.color())
        painter.setPen(Qt.PenStyle.NoPen)
        for box in boxes:
            tip = box.topRight()
            painter.drawPolygon(
                QPolygonF([tip, tip - QPointF(corner, 0), tip + QPointF(0, corner)])
            )

    def _broken(self, painter: QPainter, view: AttentionView, geometry: MatrixGeometry) -> None:
        """A cross through each weight that is NaN or infinite; the cell itself has no colour."""
        if not view.broken[view.layer, view.head] and view.layer not in view.unfinished:
            return
        queries, keys = geometry.visible_queries(), geometry.visible_keys()
        part = view.weights[queries.start : queries.stop, keys.start : keys.stop]
        found = np.argwhere(~np.isfinite(part))
        if not found.size:
            return
        painter.setPen(self._warning)
        lines = []
        for at, across in found:
            box = geometry.rect(queries.start + int(at), keys.start + int(across))
            inner = box.adjusted(*(geometry.cell * 0.3 * sign for sign in (1, 1, -1, -1)))
            lines.append(QLineF(inner.topLeft(), inner.bottomRight()))
            lines.append(QLineF(inner.topRight(), inner.bottomLeft()))
        painter.drawLines(lines)

    def _phase_border(
        self, painter: QPainter, view: AttentionView, geometry: MatrixGeometry
    ) -> None:
        if view.first_decode:
            y = geometry.y(view.first_decode) - self._style.px(1) / 2
            painter.setPen(self._border)
            painter.drawLine(QLineF(geometry.left, y, geometry.square.right(), y))


def outlined_row(view: AttentionView) -> int | None:
    """The row in hand: the newest one of a decode step, the selected one of the prefill."""
    if not view.positions:
        return None
    if view.first_decode is not None:
        return view.positions - 1
    return None if view.selected is None else view.selected[0]


def cell_number(weight: float, digits: int = 2) -> str:
    """A weight as in a cell: ``.35``, ``.05``, ``1``."""
    text = f"{weight:.{digits}f}"
    if text == f"{1:.{digits}f}":
        return "1"
    if float(text) == 0:
        return "0" if weight == 0 else "<." + "0" * (digits - 1) + "1"
    return text.removeprefix("0")


def _edges(view: AttentionView, geometry: MatrixGeometry) -> list[QLineF]:
    """The outline of the region that leaks, where cells are too small to outline each."""
    leaking = np.zeros((view.positions + 2, view.positions + 2), np.bool_)
    leaking[view.leak_cells[:, 0] + 1, view.leak_cells[:, 1] + 1] = True
    lines = []
    for query, key in np.argwhere(leaking[1:, 1:-1] != leaking[:-1, 1:-1]):
        y = geometry.y(int(query))
        lines.append(QLineF(geometry.x(int(key)), y, geometry.x(int(key) + 1), y))
    for query, key in np.argwhere(leaking[1:-1, 1:] != leaking[1:-1, :-1]):
        x = geometry.x(int(key))
        lines.append(QLineF(x, geometry.y(int(query)), x, geometry.y(int(query) + 1)))
    return lines
