"""The list of all keys, made from the one table that the window's actions are bound to."""

from __future__ import annotations

from PySide6.QtCore import Qt
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
        # The longest group has a column of its own, the others share one.
        self._stack = QVBoxLayout()
        self._columns.addLayout(self._grids[0])
        self._columns.addLayout(self._stack)
        self._grids[0].setRowStretch(self._grids[0].rowCount(), 1)
        for grid in self._grids[1:]:
            self._stack.addLayout(grid)
        self._stack.addStretch(1)
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
        """Take on other colours or another scale."""
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
        self._stack.setSpacing(px(16))
        self._column.setContentsMargins(px(20), px(16), px(20), px(16))
        self._column.setSpacing(px(12))
        self._body.adjustSize()
        wanted = self._body.sizeHint()
        screen = self.screen().availableSize()
        self.resize(
            min(wanted.width() + px(56), round(0.95 * screen.width())),
            min(wanted.height() + px(90), round(0.9 * screen.height())),
        )

    def shown_rows(self) -> list[tuple[str, str]]:
        """Keys and words of every line, as shown."""
        return [(k.text(), t.text()) for k, t in zip(self._keys, self._texts, strict=True)]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.text() == "?":
            self.reject()
        else:
            super().keyPressEvent(event)
