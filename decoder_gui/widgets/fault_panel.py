"""A window to break the model on purpose and watch the checks find it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.theme.style import Face, Style
from decoder_gui.viewdata.attention_leaks import Verdict
from decoder_gui.viewdata.faults import CheckRow, FaultRow, FaultsView

INTRODUCTION = (
    "Each fault breaks one thing. Switching one on or off runs the same tokens again and checks "
    "them anew. Files are never changed."
)
_COLOURS = {Verdict.HOLDS: "good", Verdict.FAILS: "bad", Verdict.OPEN: "muted"}


class FaultPanel(QDialog):
    """Every deliberate fault as a check box, and the verdict of every check below.

    It is not modal: the window behind stays in use.

    Signals:
        fault_toggled(str, bool): a fault's name, and whether it is to be on.
        all_off(): every fault is to be switched off.
    """

    fault_toggled = Signal(str, bool)
    all_off = Signal()

    def __init__(self, style: Style, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Break the mask, and other faults")
        self.setModal(False)
        self._style: Style | None = None
        self._boxes: dict[str, QCheckBox] = {}
        self._explanations: list[QLabel] = []
        self._rows: dict[str, tuple[QLabel, QLabel]] = {}
        self._view: FaultsView | None = None

        self.introduction = _wrapped(INTRODUCTION)
        self.banner = _wrapped("")
        self.refusal = _wrapped("")
        self.refusal.setProperty("kind", "error")
        self.summary = _wrapped("")
        self._fault_area = QWidget()
        self._faults = QVBoxLayout(self._fault_area)
        self._faults.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._check_area = QWidget()
        self._checks = QGridLayout(self._check_area)
        self._checks.setColumnStretch(1, 1)
        self._checks.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.fault_scroll = _scrolled(self._fault_area)
        self.check_scroll = _scrolled(self._check_area)
        self.off = QPushButton("Switch all off")
        self.off.clicked.connect(self.all_off)
        self.shut = QPushButton("Close")
        self.shut.clicked.connect(self.close)
        buttons = QHBoxLayout()
        buttons.addWidget(self.off)
        buttons.addStretch(1)
        buttons.addWidget(self.shut)
        whole = QVBoxLayout(self)
        whole.addWidget(self.introduction)
        whole.addWidget(self.fault_scroll, 4)
        # Under the list: what appears after a click must not move the boxes that are clicked.
        whole.addWidget(self.banner)
        whole.addWidget(self.refusal)
        whole.addWidget(self.summary)
        whole.addWidget(self.check_scroll, 3)
        whole.addLayout(buttons)
        self._restyle(style)

    def set_data(self, view: FaultsView, style: Style) -> None:
        """Show which faults are on and what the checks say."""
        if style != self._style:
            self._restyle(style)
        if view == self._view:
            return
        self._view = view
        for fault in view.faults:
            if fault.name not in self._boxes:
                self._add_fault(fault, style)
            box = self._boxes[fault.name]
            box.blockSignals(True)
            box.setChecked(fault.on)
            box.blockSignals(False)
        for row, check in enumerate(view.checks):
            if check.name not in self._rows:
                self._add_check(row, check)
            self._show_check(check, style)
        self.banner.setText(view.banner)
        self.banner.setVisible(bool(view.banner))
        self.summary.setText(f"Checks: {view.verdict}")
        self.off.setEnabled(bool(view.banner))

    def set_refusal(self, text: str) -> None:
        """Say why a fault could not be switched on; empty takes it away."""
        self.refusal.setText(text)
        self.refusal.setVisible(bool(text))
        if text and self._view is not None:
            for fault in self._view.faults:  # boxes say what is, not what was asked for
                self._boxes[fault.name].setChecked(fault.on)

    def box(self, name: str) -> QCheckBox:
        """The check box of a fault."""
        return self._boxes[name]

    def shown_check(self, name: str) -> tuple[str, str]:
        """What is shown of a check: mark and name, and the sentence."""
        verdict, detail = self._rows[name]
        return verdict.text(), detail.text()

    def sizeHint(self) -> QSize:
        style = self._style or Style()
        return QSize(style.px(560), style.px(680))

    def _add_fault(self, fault: FaultRow, style: Style) -> None:
        box = QCheckBox(f"{fault.title}  ({fault.name})")
        box.setAccessibleName(f"Fault {fault.name}")
        box.setAccessibleDescription(f"{fault.explanation} {fault.caught_by}")
        box.setObjectName(fault.name)
        box.clicked.connect(self._on_clicked)
        words = _wrapped(f"{fault.explanation} {fault.caught_by}.")
        words.setProperty("kind", "muted")
        words.setContentsMargins(style.px(24), 0, 0, style.px(8))
        self._boxes[fault.name] = box
        self._explanations.append(words)
        self._faults.addWidget(box)
        self._faults.addWidget(words)

    def _on_clicked(self, checked: bool) -> None:
        box = self.sender()
        if isinstance(box, QCheckBox):
            self.set_refusal("")
            self.fault_toggled.emit(box.objectName(), checked)

    def _add_check(self, row: int, check: CheckRow) -> None:
        verdict, detail = QLabel(), _wrapped("")
        verdict.setAlignment(Qt.AlignmentFlag.AlignTop)
        detail.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._rows[check.name] = (verdict, detail)
        self._checks.addWidget(verdict, row, 0)
        self._checks.addWidget(detail, row, 1)

    def _show_check(self, check: CheckRow, style: Style) -> None:
        verdict, detail = self._rows[check.name]
        verdict.setText(check.shown)
        verdict.setFont(style.font(Face.STRONG))
        verdict.setStyleSheet(f"color: {style.colour(_COLOURS[check.verdict]).name()}")
        verdict.setToolTip(check.asserts)
        detail.setText(check.detail)

    def _restyle(self, style: Style) -> None:
        self._style = style
        self._view = None
        self.banner.setStyleSheet(
            f"background: {style.palette.bad}; color: {style.palette.panel}; font-weight: 600; "
            f"border-radius: {style.px(4)}px; padding: {style.px(6)}px {style.px(10)}px;"
        )
        self.banner.hide()
        self.refusal.hide()
        self.summary.setFont(style.font(Face.STRONG))
        for label in self._explanations:
            label.setContentsMargins(style.px(24), 0, 0, style.px(8))
        self._faults.setSpacing(style.px(2))
        self._faults.setContentsMargins(0, 0, 0, 0)
        self._checks.setContentsMargins(0, 0, 0, 0)
        self._checks.setHorizontalSpacing(style.px(14))
        self._checks.setVerticalSpacing(style.px(6))
        self.setMinimumWidth(style.px(420))


def _scrolled(content: QWidget) -> QScrollArea:
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QScrollArea.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(content)
    return area


def _wrapped(text: str) -> QLabel:
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
    return label
