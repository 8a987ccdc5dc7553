"""Where the cells of the attention matrix are: one place for painting, clicking and zooming."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import QPointF, QRectF, QSizeF

KEY_ANGLE = 50.0  # degrees that key labels rise by
WHOLE_PIXELS_FROM = 10.0  # smaller cells are fractions of pixels, or most would be wasted
FRAME = 3.0  # pixels
LEAST_VISIBLE = 4.0  # cells along a side at the strongest zoom


@dataclass(frozen=True)
class MatrixGeometry:
    """A square of cells, or the part of it that is zoomed into.

    Attributes:
        left, top, side: the square in pixels.
        positions: number of rows and of columns.
        x0, y0: first visible key and query, fractional while panning.
        span: visible cells along a side; ``positions`` when not zoomed.
    """

    left: float
    top: float
    side: float
    positions: int
    x0: float
    y0: float
    span: float

    @property
    def cell(self) -> float:
        """Pixels of a cell."""
        return self.side / self.span if self.span else 0.0

    @property
    def square(self) -> QRectF:
        return QRectF(self.left, self.top, self.side, self.side)

    @property
    def zoomed(self) -> bool:
        return self.span < self.positions

    def x(self, key: float) -> float:
        """Left edge of a column in whole pixels."""
        return self.left + round((key - self.x0) * self.cell)

    def y(self, query: float) -> float:
        """Top edge of a row in whole pixels."""
        return self.top + round((query - self.y0) * self.cell)

    def rect(self, query: int, key: int, queries: int = 1, keys: int = 1) -> QRectF:
        """A cell, or a block of cells; a whole pixel of the square where cells are smaller."""
        left, top = self.x(key), self.y(query)
        right, bottom = self.x(key + keys), self.y(query + queries)
        if self.cell < 1.0:
            left = min(left, self.left + self.side - 1)
            top = min(top, self.top + self.side - 1)
            right, bottom = max(right, left + 1), max(bottom, top + 1)
        return QRectF(QPointF(left, top), QPointF(right, bottom))

    def at(self, point: QPointF) -> tuple[int, int] | None:
        """(query, key) under a point, or None beside the square."""
        if not self.side or not self.square.contains(point):
            return None
        key = int(self.x0 + (point.x() - self.left) / self.cell)
        query = int(self.y0 + (point.y() - self.top) / self.cell)
        return min(query, self.positions - 1), min(key, self.positions - 1)

    def labelled_at(self, point: QPointF) -> int | None:
        """The position whose query label (left) or key label (above) is under a point."""
        if not self.side:
            return None
        if point.x() < self.left:
            found = self.at(QPointF(self.left, point.y()))
            return None if found is None else found[0]
        if point.y() < self.top:
            lean = (self.top - point.y()) / math.tan(math.radians(KEY_ANGLE))
            found = self.at(QPointF(point.x() - lean, self.top))
            return None if found is None else found[1]
        return None

    def visible_keys(self) -> range:
        return range(int(self.x0), min(self.positions, math.ceil(self.x0 + self.span)))

    def visible_queries(self) -> range:
        return range(int(self.y0), min(self.positions, math.ceil(self.y0 + self.span)))

    def zoomed_by(self, factor: float, around: QPointF) -> MatrixGeometry:
        """Enlarged by a factor; what is under the point stays there as far as there are cells."""
        span = min(float(self.positions), max(LEAST_VISIBLE, self.span / factor))
        across = (around.x() - self.left) / self.side
        down = (around.y() - self.top) / self.side
        x0 = self.x0 + across * (self.span - span)
        y0 = self.y0 + down * (self.span - span)
        return replace(self, span=span).moved_to(x0, y0)

    def moved_to(self, x0: float, y0: float) -> MatrixGeometry:
        """Panned, within the cells that there are."""
        most = max(0.0, self.positions - self.span)
        return replace(self, x0=min(max(0.0, x0), most), y0=min(max(0.0, y0), most))

    def showing(self, query: int, key: int) -> MatrixGeometry:
        """Panned as little as makes a cell visible."""
        x0 = min(max(self.x0, key + 1 - self.span), float(key))
        y0 = min(max(self.y0, query + 1 - self.span), float(query))
        return self.moved_to(x0, y0)


def place(
    area: QSizeF,
    positions: int,
    *,
    label_width: float,
    key_widths: Sequence[float],
    line_height: float,
    most: float,
) -> MatrixGeometry:
    """The largest square beside its labels, of whole-pixel cells where they are not small.

    ``label_width`` is that of the widest query label with its gap, ``key_widths`` those of the key
    labels, which rise by KEY_ANGLE; ``most`` the largest cell worth having.
    """
    sine, cosine = math.sin(math.radians(KEY_ANGLE)), math.cos(math.radians(KEY_ANGLE))
    widest = max(key_widths, default=0.0)
    label_width = math.ceil(label_width)
    top = math.ceil(widest * sine + line_height * cosine)
    room = min(area.width() - label_width, area.height() - top)
    if positions == 0 or room < 1:
        return MatrixGeometry(label_width, top, 0.0, 0, 0.0, 0.0, 0.0)
    # Labels of the last keys lean out over the right edge.
    cell = min(most, room / positions)
    reach = max(
        (width * cosine - (positions - key - 0.5) * cell for key, width in enumerate(key_widths)),
        default=0.0,
    )
    reach += line_height * sine / 2
    room_across = area.width() - label_width - max(0.0, reach)
    room = min(room_across, area.height() - top)
    cell = min(most, room / positions)
    whole = cell >= WHOLE_PIXELS_FROM
    side = float(positions * math.floor(cell))
    if not whole:  # the row in hand is framed from outside, the last one under the square
        side = max(1.0, min(math.floor(positions * cell), math.floor(room - FRAME)))
    # In the middle of what is wider than needed, whole pixels for sharp cells.
    left = label_width + max(0, math.floor(room_across - side) // 2)
    return MatrixGeometry(left, top, side, positions, 0.0, 0.0, float(positions))
