"""What a table on screen shows: columns, cells and their meaning, without any drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """How a cell's text stands out; never the only carrier of a meaning."""

    PLAIN = "text"
    MUTED = "muted"
    FAINT = "faint"
    GOOD = "good"
    BAD = "bad"
    WARNING = "warning"
    ACCENT = "accent"


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        number: right-aligned, in the monospaced face.
        code: left-aligned, in the monospaced face (tokens).
        stretch: takes the room that is left over.
    """

    title: str
    number: bool = False
    code: bool = False
    stretch: bool = False
    tip: str = ""


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        tip: all of it in words, where the text is short.
        share: of 0 to 1, drawn as a bar behind the text; None for no bar.
        shade: of -1 to 1, the ground's colour on a scale about 0; None for no ground of its own.
        hatched: drawn hatched: it was cut, or does not exist.
        strong: in the bold face.
    """

    text: str
    tip: str = ""
    tone: Tone = Tone.PLAIN
    share: float | None = None
    shade: float | None = None
    hatched: bool = False
    strong: bool = False


Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Columns and rows. ``rows`` may be a lazy sequence: only what is in sight is asked for.

    ``marked`` is the row in hand, outlined besides being selectable; None for none.
    """

    columns: tuple[Column, ...] = ()
    rows: Sequence[Row] = ()
    marked: int | None = None
