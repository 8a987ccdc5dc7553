"""A table of view data: scrolls over any number of rows, and only what is in sight is made."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.tables import Cell, Column, Table
from decoder_gui.widgets.hatching import fill_hatched
from decoder_gui.widgets.value_colours import diverging

ROW = 22.0  # pixels at scale 1
PAD = 6.0
MEASURED_ROWS = 200  # from which the widths of columns are found
BAR_OPACITY = 0.28

_Index = QModelIndex | QPersistentModelIndex


class DataTable(QTableView):
    """Shows a :class:`Table`; one row at a time can be chosen by click, arrows and Enter.

    Signals:
        row_chosen(int): a row was clicked, or Enter pressed on it.
        row_pointed(int): another row has the keyboard's mark.
    """

    row_chosen = Signal(int)
    row_pointed = Signal(int)

    def __init__(self, name: str, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._widths: tuple[int, ...] = ()
        self._wanted: int | None = None
        self._all_rows = False
        self._model = _Model(self)
        self._painter = _Cells(self, style)
        self.setModel(self._model)
        self.setItemDelegate(self._painter)
        self.setAccessibleName(name)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)  # Tab goes on to the next control
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setCornerButtonEnabled(False)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionsClickable(False)
        header.setMinimumSectionSize(1)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.clicked.connect(self._on_clicked)
        self.selectionModel().currentRowChanged.connect(self._on_current)
        self.set_style(style)

    @property
    def table(self) -> Table:
        """What is shown."""
        return self._model.table

    def set_table(self, table: Table) -> None:
        """Show another table; where the keyboard is stays as far as it can."""
        if table == self.table:
            return
        here = self.currentIndex().row()
        same_columns = table.columns == self.table.columns
        grown = len(table.rows) != len(self.table.rows)
        same_rows = table.rows is self.table.rows
        self._model.set_table(table, reset=grown or not same_columns)
        if not (same_rows and same_columns):
            self._fit()
        if grown or not same_columns:
            if 0 <= here < len(table.rows):
                self.point_at(here)
        else:
            self.viewport().update()

    def shown(self, row: int, column: int) -> str:
        """The text of a cell as it stands there."""
        index = self._model.index(row, column)
        return str(self._model.data(index, Qt.ItemDataRole.DisplayRole))

    def point_at(self, row: int) -> None:
        """Put the keyboard's mark on a row, and bring it into sight; chooses nothing."""
        if 0 <= row < len(self.table.rows):
            self.selectionModel().setCurrentIndex(
                self._model.index(row, 0),
                QItemSelectionModel.SelectionFlag.ClearAndSelect
                | QItemSelectionModel.SelectionFlag.Rows,
            )

    def bring_into_sight(self, row: int) -> None:
        """Scroll to a row and leave the keyboard's mark where it is."""
        self._wanted = row
        if 0 <= row < len(self.table.rows):
            self.scrollTo(self._model.index(row, 0))

    def show_all_rows(self) -> None:
        """Be as high as the rows there are: for a table within something that scrolls."""
        self._all_rows = True
        head = self.horizontalHeader().sizeHint().height()
        rows = len(self.table.rows) * self.verticalHeader().defaultSectionSize()
        wide = sum(self._widths) > self.viewport().width()
        bar = self.horizontalScrollBar().sizeHint().height() if wide else 0
        self.setFixedHeight(head + rows + bar)

    def set_style(self, style: Style) -> None:
        """Take on other colours or another scale."""
        self._style = style
        self._painter.set_style(style)
        self.verticalHeader().setMinimumSectionSize(style.px(ROW))
        self.verticalHeader().setDefaultSectionSize(style.px(ROW))
        self._model.heading = style.font(Face.SMALL)
        self.horizontalHeader().setFont(self._model.heading)
        self._fit()
        self.viewport().update()

    def sizeHint(self) -> QSize:
        rows = min(8, max(3, len(self.table.rows)))
        height = self.horizontalHeader().sizeHint().height() + rows * self._style.px(ROW)
        return QSize(sum(self._widths) or self._style.px(240), height)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(120), self._style.px(3 * ROW))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self.currentIndex().isValid():
                self.row_chosen.emit(self.currentIndex().row())
            return
        super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share_out()
        if self._all_rows:
            self.show_all_rows()
        if self._wanted is not None:  # asked for before there was a size to scroll in
            self.bring_into_sight(self._wanted)

    def _fit(self) -> None:
        """Columns as wide as what stands in them; one that stretches takes the rest."""
        table, style = self.table, self._style
        pad = 2 * style.px(PAD)
        head = QFontMetrics(style.font(Face.SMALL))
        rows = [table.rows[i] for i in range(min(len(table.rows), MEASURED_ROWS))]
        widths = []
        for at, column in enumerate(table.columns):
            metrics = QFontMetrics(style.font(_face(column, strong=True)))
            texts = (row[at].text for row in rows if at < len(row))
            widest = max((metrics.horizontalAdvance(text) for text in texts), default=0)
            widths.append(max(widest, head.horizontalAdvance(column.title)) + pad + 1)
        self._widths = tuple(widths)
        self._share_out()

    def _share_out(self) -> None:
        columns = self.table.columns
        if len(self._widths) != len(columns):
            return
        rest = self.viewport().width() - sum(self._widths)
        stretching = [at for at, column in enumerate(columns) if column.stretch]
        for at, width in enumerate(self._widths):
            own = width
            if at in stretching:
                own = max(self._style.px(48), width + rest // len(stretching))
            self.setColumnWidth(at, own)

    def _on_clicked(self, index: QModelIndex) -> None:
        self.row_chosen.emit(index.row())

    def _on_current(self, now: QModelIndex, _: QModelIndex) -> None:
        if now.isValid():
            self.row_pointed.emit(now.row())


def _face(column: Column, *, strong: bool = False) -> Face:
    if column.number or column.code:
        return Face.MONO_STRONG if strong else Face.MONO
    return Face.STRONG if strong else Face.BODY


class _Model(QAbstractTableModel):
    """The table as Qt asks for it; nothing is kept per cell."""

    def __init__(self, parent: QTableView) -> None:
        super().__init__(parent)
        self.table = Table()
        self.heading = QFont()

    def set_table(self, table: Table, *, reset: bool) -> None:
        if reset:
            self.beginResetModel()
            self.table = table
            self.endResetModel()
        else:
            self.table = table

    def cell(self, index: _Index) -> Cell:
        row = self.table.rows[index.row()]
        return row[index.column()] if index.column() < len(row) else Cell("")

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008  Qt's signature
        return 0 if parent.isValid() else len(self.table.rows)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.table.columns)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        cell = self.cell(index)
        if role == Qt.ItemDataRole.DisplayRole:
            return cell.text
        if role == Qt.ItemDataRole.ToolTipRole:
            return cell.tip or cell.text
        if role == Qt.ItemDataRole.AccessibleTextRole:
            title = self.table.columns[index.column()].title
            return f"{title} {cell.text}".strip()
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal or section >= len(self.table.columns):
            return None
        column = self.table.columns[section]
        if (
            role == Qt.ItemDataRole.FontRole
        ):  # the font of the header itself is not that of its text
            return self.heading
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.tip or None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignRight if column.number else Qt.AlignmentFlag.AlignLeft
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        return None


class _Cells(QStyledItemDelegate):
    """Paints a cell: its ground, its bar, its text; a row in hand exchanges text and ground."""

    def __init__(self, view: DataTable, style: Style) -> None:
        super().__init__(view)
        self._view = view
        self._style = style

    def set_style(self, style: Style) -> None:
        self._style = style

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | Any
    ) -> None:
        style, table = self._style, self._view.table
        model = self._view.model()
        assert isinstance(model, _Model)
        cell, column = model.cell(index), table.columns[index.column()]
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        selected = bool(state & QStyle.StateFlag.State_Selected)
        chosen = selected and self._view.hasFocus()
        marked = index.row() == table.marked
        painter.save()
        if chosen:
            painter.fillRect(rect, style.colour("inverse"))
        elif marked or selected:  # the view itself has painted a selection's ground under it
            painter.fillRect(rect, style.colour("empty"))  # text reads on it in every palette
        if cell.share is not None and not chosen:
            width = round(max(0.0, min(1.0, cell.share)) * rect.width())
            bar = QRect(rect.left(), rect.top() + 2, width, rect.height() - 4)
            painter.fillRect(bar, style.colour("accent", BAR_OPACITY))
        ink = style.colour("inverse_text" if chosen else cell.tone.value)
        if cell.shade is not None and not chosen:
            scale = diverging(style.palette)
            at = scale.index((cell.shade + 1) / 2)
            painter.fillRect(rect.adjusted(1, 1, -1, -1), scale.colours[at])
            ink = QColor("#000000" if scale.light[at] else "#FFFFFF")
        if cell.hatched:
            fill_hatched(painter, QRectF(rect.adjusted(1, 2, -1, -2)), style)
        strong = cell.strong or marked
        font = style.font(_face(column, strong=strong))
        painter.setFont(font)
        painter.setPen(QPen(ink))
        inside = rect.adjusted(style.px(PAD), 0, -style.px(PAD), 0)
        side = Qt.AlignmentFlag.AlignRight if column.number else Qt.AlignmentFlag.AlignLeft
        text = QFontMetrics(font).elidedText(cell.text, Qt.TextElideMode.ElideRight, inside.width())
        painter.drawText(inside, side | Qt.AlignmentFlag.AlignVCenter, text)
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | Any) -> QSize:
        return QSize(self._style.px(48), self._style.px(ROW))
