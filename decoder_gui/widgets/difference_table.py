"""Operations by layers, each cell a difference: coloured by decades, marked where it is past."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QFocusEvent, QFont, QFontMetrics, QKeyEvent, QPainter, QPen
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
from decoder_gui.viewdata.comparison import LayerCell, LayerTable

ROW = 22.0  # pixels at scale 1
PAD = 7.0
WIDEST = "≠ 1.24e-12"
MOST_COLOUR = 0.62  # opacity of the largest difference

_Index = QModelIndex | QPersistentModelIndex


class DifferenceTable(QTableView):
    """Shows a :class:`LayerTable`; arrows move from cell to cell, Enter or a click chooses one.

    Signals:
        cell_chosen(int, int): row and column of the table.
    """

    cell_chosen = Signal(int, int)

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._model = _Model(self)
        self._cells = _Cells(self, style)
        self.setModel(self._model)
        self.setItemDelegate(self._cells)
        self.setAccessibleName("Largest difference of each operation in each layer")
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)  # Tab goes on to the next control
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setCornerButtonEnabled(False)
        for header in (self.horizontalHeader(), self.verticalHeader()):
            header.setHighlightSections(False)
            header.setSectionsClickable(False)
            header.setMinimumSectionSize(1)
            header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.clicked.connect(self._on_clicked)
        self.set_style(style)

    @property
    def table(self) -> LayerTable:
        """What is shown."""
        return self._model.table

    def set_table(self, table: LayerTable) -> None:
        """Show another table; the first time, the mark goes to the origin of the difference."""
        if table == self.table:
            return
        self.clearSpans()
        self._model.set_table(table)
        for at, row in enumerate(table.rows):
            if len(row.cells) == 1 and table.layers > 1:
                self.setSpan(at, 0, 1, table.layers)
        self._fit()
        self.point_at(*(table.place_of_origin() or (0, 0)))

    def point_at(self, row: int, column: int) -> None:
        """Put the keyboard's mark on a cell and bring it into sight; chooses nothing."""
        index = self._model.index(row, column)
        if index.isValid():
            flag = QItemSelectionModel.SelectionFlag.ClearAndSelect
            self.selectionModel().setCurrentIndex(index, flag)

    def shown(self, row: int, column: int) -> str:
        """The text of a cell as it stands there."""
        return str(self._model.data(self._model.index(row, column)))

    def set_style(self, style: Style) -> None:
        """Take on other colours or another scale."""
        self._style = style
        self._cells.set_style(style)
        self._model.fonts = style.font(Face.SMALL), style.font(Face.BODY)
        self._fit()
        self.viewport().update()

    def sizeHint(self) -> QSize:
        rows, columns = max(4, len(self.table.rows)), max(1, min(6, self.table.layers))
        px = self._style.px
        return QSize(px(150) + columns * self._column_width(), (rows + 1) * px(ROW))

    def minimumSizeHint(self) -> QSize:
        return QSize(self._style.px(180), self._style.px(5 * ROW))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._on_clicked(self.currentIndex())
            return
        super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() is QEvent.Type.FontChange:
            self._fit()

    def _column_width(self) -> int:
        metrics = QFontMetrics(self._style.font(Face.MONO_STRONG))
        return metrics.horizontalAdvance(WIDEST) + 2 * self._style.px(PAD)

    def _fit(self) -> None:
        px, down = self._style.px, self.verticalHeader()
        down.setMinimumSectionSize(px(ROW))
        down.setDefaultSectionSize(px(ROW))
        names = QFontMetrics(self._style.font(Face.BODY))
        labels = [row.label for row in self.table.rows]
        widest = max((names.horizontalAdvance(label) for label in labels), default=px(60))
        down.setFixedWidth(widest + 2 * px(PAD))
        for column in range(self._model.columnCount()):
            self.setColumnWidth(column, self._column_width())
        self.updateGeometries()

    def _on_clicked(self, index: QModelIndex) -> None:
        if index.isValid():
            row = self.table.rows[index.row()]
            self.cell_chosen.emit(index.row(), min(index.column(), len(row.cells) - 1))


class _Model(QAbstractTableModel):
    """The table as Qt asks for it."""

    def __init__(self, parent: QTableView) -> None:
        super().__init__(parent)
        self.table = LayerTable()
        self.fonts: tuple[QFont, ...] = ()  # of the names of layers and of operations

    def set_table(self, table: LayerTable) -> None:
        self.beginResetModel()
        self.table = table
        self.endResetModel()

    def cell(self, index: _Index | Any) -> LayerCell | None:
        cells = self.table.rows[index.row()].cells
        return cells[index.column()] if index.column() < len(cells) else None

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008  Qt's signature
        return 0 if parent.isValid() else len(self.table.rows)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else self.table.layers

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        cell = self.cell(index)
        if cell is None:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return cell.text
        if role in (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.AccessibleTextRole):
            label = self.table.rows[index.row()].label
            return f"{label}: {cell.spoken}"
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        across = orientation is Qt.Orientation.Horizontal
        if role == Qt.ItemDataRole.DisplayRole:
            return f"layer {section}" if across else self.table.rows[section].label
        if role == Qt.ItemDataRole.ToolTipRole and not across:
            return self.table.rows[section].name
        if role == Qt.ItemDataRole.FontRole and self.fonts:
            return self.fonts[0 if across else 1]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignRight if across else Qt.AlignmentFlag.AlignLeft
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        return None


class _Cells(QStyledItemDelegate):
    """Paints a cell: its ground by the size of the difference, its text, a frame at the origin."""

    def __init__(self, view: DifferenceTable, style: Style) -> None:
        super().__init__(view)
        self._view = view
        self._style = style

    def set_style(self, style: Style) -> None:
        self._style = style

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | Any
    ) -> None:
        style, model = self._style, self._view.model()
        assert isinstance(model, _Model)
        cell = model.cell(index)
        if cell is None:
            return
        rect: QRect = option.rect
        width = self._view.columnWidth(0)
        if rect.width() > width:  # one outside the blocks, over all columns: as wide as the others
            rect = QRect(rect.left(), rect.top(), width, rect.height())
        state: QStyle.StateFlag = option.state
        chosen = bool(state & QStyle.StateFlag.State_Selected) and self._view.hasFocus()
        inside = rect.adjusted(1, 1, -1, -1)
        painter.save()
        painter.fillRect(option.rect, style.colour("panel"))  # over Qt's own mark of a selection
        if cell.heat:
            role = "bad" if cell.past else "accent"
            painter.fillRect(inside, style.colour(role, MOST_COLOUR * cell.heat))
        if chosen:
            painter.fillRect(inside, style.colour("inverse"))
        if cell.origin:
            pen = QPen(style.colour("inverse_text" if chosen else "outline"), style.px(2))
            painter.setPen(pen)
            painter.drawRect(inside.adjusted(1, 1, -1, -1))
        painter.setFont(style.font(Face.MONO_STRONG if cell.past else Face.MONO))
        muted = cell.result is None or cell.result.worst is None
        role = "inverse_text" if chosen else "muted" if muted and not cell.origin else "text"
        painter.setPen(style.colour(role))
        text = rect.adjusted(style.px(PAD), 0, -style.px(PAD), 0)
        painter.drawText(
            text, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, cell.text
        )
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | Any) -> QSize:
        return QSize(self._style.px(48), self._style.px(ROW))
