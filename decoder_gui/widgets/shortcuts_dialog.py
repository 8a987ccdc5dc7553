"""The list of all keys, made from the one table that the window's actions are bound to."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise, product

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.shortcuts import listed
from decoder_gui.theme.style import Face, Style

MOST_COLUMNS = 3
SHARES = (1.0, 0.9, 0.8, 0.7, 0.6)  # of the scale of the window, the first at which all fits


class ShortcutsDialog(QDialog):
    """Lists the keys under their headings; closed by Esc, Enter or `?` again."""

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keys")
        self.setAccessibleName("Keys")
        self._keys: list[QLabel] = []
        self._texts: list[QLabel] = []
        self._headings: list[QLabel] = []
        self._grids: list[QGridLayout] = []
        self._body = QWidget()
        self._columns = QHBoxLayout(self._body)
        lines = listed()
        groups = list(dict.fromkeys(line.group for line in lines))
        for group in groups:
            grid = QGridLayout()
            heading = QLabel(group)
            self._headings.append(heading)
            grid.addWidget(heading, 0, 0, 1, 2)
            for row, line in enumerate((x for x in lines if x.group == group), start=1):
                keys, text = QLabel("  or  ".join(line.keys)), QLabel(line.text)
                text.setBuddy(keys)
                self._keys.append(keys)
                self._texts.append(text)
                top = Qt.AlignmentFlag.AlignTop
                grid.addWidget(keys, row, 0, top | Qt.AlignmentFlag.AlignLeft)
                grid.addWidget(text, row, 1, top)
            grid.setColumnStretch(1, 1)
            self._grids.append(grid)
        self._stacks = [QVBoxLayout() for _ in range(MOST_COLUMNS)]
        for stack in self._stacks:
            self._columns.addLayout(stack)
        # At a large scale the list may be larger than the screen.
        self._scroll = QScrollArea()
        self._scroll.setWidget(self._body)
        self._scroll.setWidgetResizable(True)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self._buttons.rejected.connect(self.reject)
        self._column = QVBoxLayout(self)
        self._column.addWidget(self._scroll)
        self._column.addWidget(self._buttons)
        self.set_style(style)

    def set_style(self, style: Style) -> None:
        """Take on other colours or another scale; smaller where the list exceeds the screen."""
        screen = self.screen().availableSize()
        most = QSize(round(0.95 * screen.width()), round(0.9 * screen.height()))
        wanted = QSize()
        for share, columns in product(SHARES, range(2, MOST_COLUMNS + 1)):
            self._dress(style.scaled(share * style.scale))
            self._arrange(columns)
            self._body.adjustSize()
            frame = QSize(style.px(56), style.px(90))
            wanted = self._body.sizeHint() + frame
            if wanted.width() <= most.width() and wanted.height() <= most.height():
                break
        self.resize(wanted.boundedTo(most))

    def _arrange(self, columns: int) -> None:
        """Put the groups into so many columns, in order, none much longer than the others."""
        for stack in self._stacks:
            while stack.count():
                stack.takeAt(0)
        rows = [grid.rowCount() for grid in self._grids]
        for grid, at in zip(self._grids, shared_out(rows, columns), strict=True):
            self._stacks[at].addLayout(grid)
        for stack in self._stacks:
            stack.addStretch(1)

    def _dress(self, style: Style) -> None:
        px = style.px
        for labels, face in (
            (self._headings, Face.TITLE),
            (self._keys, Face.MONO_STRONG),
            (self._texts, Face.BODY),
        ):
            for label in labels:
                label.setFont(style.font(face))
        for heading in self._headings:
            heading.setProperty("kind", "muted")
        for grid in self._grids:
            grid.setHorizontalSpacing(px(14))
            grid.setVerticalSpacing(px(6))
        self._columns.setSpacing(px(36))
        for stack in self._stacks:
            stack.setSpacing(px(16))
        self._column.setContentsMargins(px(20), px(16), px(20), px(16))
        self._column.setSpacing(px(12))

    def shown_rows(self) -> list[tuple[str, str]]:
        """Keys and words of every line, as shown."""
        return [(k.text(), t.text()) for k, t in zip(self._keys, self._texts, strict=True)]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.text() == "?":
            self.reject()
        else:
            super().keyPressEvent(event)


def shared_out(rows: list[int], columns: int) -> tuple[int, ...]:
    """The column of each group, in order, so that the longest column is as short as it can be."""

    def longest(cuts: tuple[int, ...]) -> int:
        edges = (0, *cuts, len(rows))
        return max(sum(rows[a:b]) for a, b in pairwise(edges))

    cuts = min(combinations_with_replacement(range(1, len(rows)), columns - 1), key=longest)
    return tuple(sum(at >= cut for cut in cuts) for at in range(len(rows)))
