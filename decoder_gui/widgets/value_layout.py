"""Where the cells of a row, or of a matrix, lie: arithmetic of rectangles, without a widget.

A row is wrapped into lines of cells; a matrix has a column of row names and a line of column names
that stay where they are. All lengths are pixels; content coordinates begin at the first cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from PySide6.QtCore import QRect, QSize

from model.engine import Array


@dataclass(frozen=True)
class RowLayout:
    """One row wrapped into lines of ``across`` cells, each ``pitch`` wide and ``line`` high.

    ``order`` lists the columns in the order in which they stand, (columns,); None is their own.
    """

    row: int
    columns: int
    pitch: int
    line: int
    across: int
    order: Array | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _places(self) -> Array | None:
        if self.order is None:
            return None
        # Put in place one by one: sorting a vocabulary again would take 20 times as long.
        places = np.empty_like(self.order)
        places[self.order] = np.arange(self.order.size)
        return places

    def place(self, column: int) -> int:
        """Where a column stands, from 0."""
        return column if self._places is None else int(self._places[column])

    def column(self, place: int) -> int:
        """The column that stands at a place."""
        return place if self.order is None else int(self.order[place])

    @property
    def lines(self) -> int:
        return -(-self.columns // self.across)

    @property
    def size(self) -> QSize:
        """Of all lines."""
        return QSize(min(self.columns, self.across) * self.pitch, self.lines * self.line)

    def rect(self, row: int, column: int) -> QRect:
        """Where a cell lies, with its number and name."""
        line, at = divmod(self.place(column), self.across)
        return QRect(at * self.pitch, line * self.line, self.pitch, self.line)

    def cell_at(self, x: int, y: int) -> tuple[int, int] | None:
        """The cell at a point, or None."""
        at, line = x // self.pitch, y // self.line
        place = line * self.across + at
        inside = 0 <= at < self.across and line >= 0 and place < self.columns
        return (self.row, self.column(place)) if inside else None

    def visible(self, area: QRect) -> tuple[Sequence[int], Sequence[int]]:
        """Rows and columns of which something lies in an area, columns as they stand."""
        first = max(0, area.top() // self.line) * self.across
        last = (area.bottom() // self.line + 1) * self.across
        places = range(min(first, self.columns), min(last, self.columns))
        return (self.row,), [self.column(place) for place in places]

    def moved(self, row: int, column: int, down: int, right: int, rows: int) -> tuple[int, int]:
        """The cell next to one in a direction; with a single line, up and down change the row."""
        if down and self.lines == 1:
            return min(max(row + down, 0), rows - 1), column
        place = self.place(column) + right + down * self.across
        return row, self.column(min(max(place, 0), self.columns - 1))


@dataclass(frozen=True)
class MatrixLayout:
    """All rows under one another, cells ``width`` by ``height``."""

    rows: int
    columns: int
    width: int
    height: int

    @property
    def size(self) -> QSize:
        return QSize(self.columns * self.width, self.rows * self.height)

    def column(self, place: int) -> int:
        """The column that stands at a place: its own."""
        return place

    def rect(self, row: int, column: int) -> QRect:
        return QRect(column * self.width, row * self.height, self.width, self.height)

    def cell_at(self, x: int, y: int) -> tuple[int, int] | None:
        row, column = y // self.height, x // self.width
        inside = 0 <= row < self.rows and 0 <= column < self.columns
        return (row, column) if inside else None

    def visible(self, area: QRect) -> tuple[Sequence[int], Sequence[int]]:
        return (
            range(
                max(0, area.top() // self.height), min(area.bottom() // self.height + 1, self.rows)
            ),
            range(
                max(0, area.left() // self.width), min(area.right() // self.width + 1, self.columns)
            ),
        )

    def moved(self, row: int, column: int, down: int, right: int, rows: int) -> tuple[int, int]:
        return min(max(row + down, 0), rows - 1), min(max(column + right, 0), self.columns - 1)
