"""The table that laboratories share: what it shows, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from decoder_gui.theme.style import Face, Style
from decoder_gui.theme.stylesheet import apply_style
from decoder_gui.viewdata.tables import Cell, Column, Row, Table
from decoder_gui.widgets.data_table import MEASURED_ROWS, DataTable

COLUMNS = (Column("token", code=True), Column("p", number=True), Column("why", stretch=True))


class Lazy(Sequence[Row]):
    """Rows that are made when they are asked for, and counted."""

    def __init__(self, count: int) -> None:
        self._length = count
        self.asked: set[int] = set()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, at: int) -> Row:  # type: ignore[override]
        self.asked.add(at)
        return (Cell(f"t{at}"), Cell(f"{1 / (at + 1):.3f}"), Cell("cut", hatched=True))

    def __iter__(self) -> Iterator[Row]:
        raise AssertionError("nobody needs all of them")


@pytest.fixture
def table(qapp: QApplication, qtbot: QtBot) -> DataTable:
    apply_style(qapp, Style())
    made = DataTable("Candidates", Style())
    qtbot.addWidget(made)
    made.resize(420, 300)
    made.set_table(Table(COLUMNS, tuple(Lazy(30)[at] for at in range(30))))
    made.show()
    return made


def test_texts_and_titles_are_those_of_the_table(table: DataTable) -> None:
    assert table.shown(0, 1) == "1.000"
    assert table.shown(29, 0) == "t29"
    model = table.model()
    titles = [model.headerData(at, Qt.Orientation.Horizontal) for at in range(3)]
    assert titles == ["token", "p", "why"]


def test_a_row_that_was_clicked_stays_readable_without_the_focus(
    qtbot: QtBot, table: DataTable
) -> None:
    style = Style()
    table.point_at(2)
    table.clearFocus()
    qtbot.waitUntil(lambda: not table.hasFocus())
    index = table.model().index(2, 0)
    place = table.visualRect(index)
    image = QImage(table.viewport().size(), QImage.Format.Format_RGB32)
    table.viewport().render(image)
    ground = image.pixelColor(place.right() - 2, place.center().y())
    assert ground.name() == style.colour("empty").name()  # its text is in the text's colour


def test_titles_grow_with_the_scale(table: DataTable) -> None:
    table.set_style(Style(scale=2.0))
    heading = table.model().headerData(0, Qt.Orientation.Horizontal, Qt.ItemDataRole.FontRole)
    assert heading.pixelSize() == Style(scale=2.0).font(Face.SMALL).pixelSize()


def test_a_click_and_enter_choose_a_row(qtbot: QtBot, table: DataTable) -> None:
    chosen: list[int] = []
    table.row_chosen.connect(chosen.append)
    middle = table.visualRect(table.model().index(3, 0)).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(middle))
    assert chosen == [3]
    table.setFocus()
    qtbot.keyClick(table, Qt.Key.Key_Down)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    assert chosen == [3, 4]


def test_the_keyboard_stays_where_it_is_when_the_table_changes(table: DataTable) -> None:
    table.point_at(5)
    table.set_table(Table(COLUMNS, tuple(Lazy(20)[at] for at in range(20))))
    assert table.currentIndex().row() == 5
    table.set_table(Table(COLUMNS, ()))
    assert table.currentIndex().row() == -1


def test_only_what_is_in_sight_is_made(qtbot: QtBot, table: DataTable) -> None:
    rows = Lazy(150_000)
    table.set_table(Table(COLUMNS, rows))
    image = QImage(table.size(), QImage.Format.Format_ARGB32)
    table.render(image)
    assert max(rows.asked) < MEASURED_ROWS
    table.bring_into_sight(149_999)
    table.render(image)
    assert 149_999 in rows.asked
    assert len(rows.asked) < 2 * MEASURED_ROWS


def test_the_stretching_column_takes_the_rest(table: DataTable) -> None:
    assert sum(table.columnWidth(at) for at in range(3)) == table.viewport().width()
    table.resize(700, 300)
    assert sum(table.columnWidth(at) for at in range(3)) == table.viewport().width()
