"""A button with drawn signs before and after its text, and a smaller text behind it."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QStyle, QStyleOptionButton, QWidget

from decoder_gui.theme.icons import Glyph, draw_glyph
from decoder_gui.theme.style import Face, Style
from decoder_gui.theme.stylesheet import repolish


class IconButton(QPushButton):
    """A push button whose content is painted here and whose frame comes from the style sheet.

    Every one has words for a screen reader and a tooltip, also where only a sign is drawn.
    """

    def __init__(
        self,
        style: Style,
        *,
        name: str,
        text: str = "",
        before: Glyph | None = None,
        after: Glyph | None = None,
        kind: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._style = style
        self._words = text
        self._note = ""
        self._before = before
        self._after = after
        self._glyph_side = 11.0
        self._ghost = False
        self.setAccessibleName(name)
        self.setToolTip(name)
        # Clicks leave the keyboard where it was; Tab reaches the button all the same.
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        if kind:
            self.set_kind(kind)

    def set_style(self, style: Style) -> None:
        self._style = style
        self.updateGeometry()
        self.update()

    def set_kind(self, kind: str) -> None:
        """Change what the style sheet takes the button for."""
        if self.property("kind") != kind:
            self.setProperty("kind", kind)
            repolish(self)
            self.update()

    def set_glyph_side(self, side: float) -> None:
        """Size of the signs in pixels at scale 1."""
        self._glyph_side = side
        self.updateGeometry()

    def set_ghost(self, ghost: bool) -> None:
        """Paint nothing but keep the place, so that Tab and a pointer still find the button."""
        if ghost != self._ghost:
            self._ghost = ghost
            self.update()

    def set_content(
        self,
        text: str,
        *,
        note: str = "",
        before: Glyph | None = None,
        after: Glyph | None = None,
    ) -> None:
        """Change what the button shows; ``note`` is smaller and muted."""
        if (text, note, before, after) != (self._words, self._note, self._before, self._after):
            self._words, self._note = text, note
            self._before, self._after = before, after
            self.updateGeometry()
            self.update()

    def shown_text(self) -> str:
        """The words on the button, with the note."""
        return f"{self._words} {self._note}".strip()

    def sizeHint(self) -> QSize:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        option.text = "x"
        self.ensurePolished()
        width = sum(self._widths()) + self._gap() * max(0, len(self._parts()) - 1)
        height = QFontMetricsF(self._font(bold=False)).height()
        content = QSize(ceil(width), ceil(height))
        return self.style().sizeFromContents(
            QStyle.ContentsType.CT_PushButton, option, content, self
        )

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._ghost:
            return
        painter = QPainter(self)
        option = QStyleOptionButton()
        self.initStyleOption(option)
        option.text = ""
        self.style().drawControl(QStyle.ControlElement.CE_PushButton, option, painter, self)
        parts, widths, gap = self._parts(), self._widths(), self._gap()
        x = (self.width() - sum(widths) - gap * max(0, len(parts) - 1)) / 2
        colour, note_colour = self._colours()
        for part, width in zip(parts, widths, strict=True):
            box = QRectF(x, 0, width, self.height())
            if isinstance(part, Glyph):
                top = (self.height() - width) / 2
                draw_glyph(painter, part, QRectF(x, top, width, width), colour)
            else:
                is_note = part is self._note
                painter.setFont(self._font(bold=self._bold(), note=is_note))
                painter.setPen(note_colour if is_note else colour)
                painter.drawText(box, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextDontClip, part)
            x += width + gap

    def _parts(self) -> list[Glyph | str]:
        parts = (self._before, self._words, self._note, self._after)
        return [part for part in parts if part]

    def _widths(self) -> list[float]:
        # Room for bold is kept always, so that nothing moves when the button is chosen.
        return [
            float(self._style.px(self._glyph_side))
            if isinstance(part, Glyph)
            else QFontMetricsF(
                self._font(bold=part is not self._note, note=part is self._note)
            ).horizontalAdvance(part)
            for part in self._parts()
        ]

    def _gap(self) -> float:
        return float(self._style.px(5))

    def _bold(self) -> bool:
        return self.isChecked() or self.property("kind") in ("primary", "inverse")

    def _font(self, *, bold: bool, note: bool = False) -> QFont:
        if note:
            return self._style.font(Face.SMALL)
        return self._style.font(Face.STRONG if bold else Face.BODY)

    def _colours(self) -> tuple[QColor, QColor]:
        colour = self._style.colour
        kind = self.property("kind")
        if not self.isEnabled():
            return colour("faint"), colour("faint")
        if kind == "primary":
            return colour("accent_text"), colour("accent_text")
        if kind == "inverse" or self.isChecked():
            return colour("inverse_text"), colour("inverse_text")
        if kind == "quiet" and not (self.underMouse() or self.hasFocus()):
            return colour("muted"), colour("muted")
        return colour("text"), colour("muted")
