"""All settings of the sampler: sliders, seed, and folded away min-p and the order of the cuts."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from decoder_gui.theme.style import Face, Style
from decoder_gui.theme.stylesheet import repolish
from decoder_gui.viewdata.sampling_controls import read_seed, sampling_settings
from decoder_gui.widgets.elided import ElidedLabel
from decoder_gui.widgets.labelled_slider import NAME_WIDTH, LabelledSlider, ValueEdit
from model.errors import InvalidSampling
from model.sampling import ORDERS, SamplingConfig, find_order, order_names

_WHOLE_NUMBERS = ("top_k",)


class SamplingControls(QWidget):
    """Shows a SamplingConfig and says what the user changes in it.

    Signals:
        changed(str, object): field of SamplingConfig and its new value.
    """

    changed = Signal(str, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        # Not fixed in height: that is the hint's, in which the rule has too few lines.
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self._config = SamplingConfig()
        self._vocabulary = 0
        self.sliders = {
            setting.field: LabelledSlider(setting) for setting in sampling_settings(1000)
        }
        for slider in self.sliders.values():
            slider.changed.connect(self._on_slider)
        self.seed = ValueEdit()
        self.seed.setAccessibleName("Seed")
        self.seed.typed.connect(self._on_seed)
        self.draw = ElidedLabel()
        self.draw.setProperty("kind", "muted")
        self._seed_name = QLabel("Seed")
        self._seed_name.setBuddy(self.seed)
        self.seed_note = QLabel()
        self.seed_note.setWordWrap(True)
        self.more = QPushButton()
        self.more.setProperty("kind", "quiet")
        self.more.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.more.setStyleSheet("text-align: left;")
        self.more.clicked.connect(self._on_more)
        self.order = QComboBox()
        self.order.setAccessibleName("Order of the sampler's stages")
        for name in order_names():
            self.order.addItem(name)
            self.order.setItemData(
                self.order.count() - 1, ORDERS[name].rule, Qt.ItemDataRole.ToolTipRole
            )
        # An order of one's own is long: the list is as wide as the names, and the tip says it all.
        self.order.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.order.activated.connect(self._on_order)
        self._order_name = QLabel("Order")
        self._order_name.setBuddy(self.order)
        self.rule = QLabel()
        self.rule.setProperty("kind", "muted")
        self.rule.setWordWrap(True)
        self._refused_seed = False
        self._build()
        self.set_config(self._config, 1000)

    @property
    def details_shown(self) -> bool:
        """Whether min-p and the order are unfolded."""
        return not self.details.isHidden()

    def set_config(self, config: SamplingConfig, vocabulary: int) -> None:
        """Show settings, for a vocabulary of that size; nobody is told."""
        if vocabulary != self._vocabulary:
            self._vocabulary = vocabulary
            for setting in sampling_settings(vocabulary):
                self.sliders[setting.field].set_setting(setting)
        for name, slider in self.sliders.items():
            if getattr(config, name) != slider.value:
                slider.set_value(getattr(config, name))
        self._config = config
        seed = "" if config.seed is None else str(config.seed)
        if self.seed.shown != seed:
            self._refused_seed = False
            self.seed.show_value(seed)
        self.seed.setToolTip(
            f"Seed {seed}: a whole number. A new seed applies at the next Prefill."
        )
        if self.order.currentText() != config.order:
            self._list_order(config.order)
            self.order.setCurrentText(config.order)
        self.rule.setText(find_order(config.order).rule.capitalize() + ".")
        self._name_details()

    def set_draw(self, words: str, exact: str) -> None:
        """The number held for the step in hand; ``exact`` is the whole sentence."""
        if self.draw.text() != words:
            self.draw.setText(words)
        self.draw.setToolTip(exact)

    def set_seed_note(self, note: str) -> None:
        """What a newly typed seed waits for."""
        if not self._refused_seed:
            self._write_seed_note(note, "muted")

    def set_style(self, style: Style) -> None:
        px = style.px
        for slider in self.sliders.values():
            slider.set_style(style)
        for label in (self._seed_name, self._order_name, self.draw):
            label.setFont(style.font(Face.BODY))
        for label in (self._seed_name, self._order_name):
            label.setFixedWidth(px(NAME_WIDTH))
        for small in (self.seed_note, self.rule):
            small.setFont(style.font(Face.SMALL))
        self.order.setFont(style.font(Face.BODY))
        self.more.setFont(style.font(Face.SMALL))
        self.seed.set_style(style)
        self.seed.setFixedHeight(px(22))
        self.seed.setFixedWidth(px(76))
        self._column.setSpacing(px(1))
        self._details_column.setSpacing(px(2))
        self._seed_row.setHorizontalSpacing(px(6))

    def _build(self) -> None:
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        for name in ("temperature", "top_k", "top_p"):
            self._column.addWidget(self.sliders[name])
        self._seed_row = QGridLayout()
        self._seed_row.setContentsMargins(0, 0, 0, 0)
        self._seed_row.setVerticalSpacing(0)
        self._seed_row.addWidget(self._seed_name, 0, 0)
        self._seed_row.addWidget(self.draw, 0, 1)
        self._seed_row.addWidget(self.seed, 0, 2)
        self._seed_row.addWidget(self.seed_note, 1, 0, 1, 3)
        self._seed_row.setColumnStretch(1, 1)
        self.seed_note.hide()
        self._column.addLayout(self._seed_row)
        self._column.addWidget(self.more)
        self.details = QWidget()
        self._details_column = QVBoxLayout(self.details)
        self._details_column.setContentsMargins(0, 0, 0, 0)
        self._details_column.addWidget(self.sliders["min_p"])
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._order_name)
        row.addWidget(self.order, 1)
        self._details_column.addLayout(row)
        self._details_column.addWidget(self.rule)
        self._column.addWidget(self.details)
        self.details.hide()

    def _on_slider(self, field: str, value: float) -> None:
        self.changed.emit(field, int(value) if field in _WHOLE_NUMBERS else value)

    def _on_seed(self, text: str) -> None:
        try:
            seed = read_seed(text)
        except InvalidSampling as refusal:
            self._refused_seed = True
            self._write_seed_note(f"{refusal}. It stays {self.seed.shown}.", "error")
            self.seed.mark_refused(True)
            return
        self._refused_seed = False
        self.seed.show_value(str(seed))
        self._write_seed_note("", "muted")
        if seed != self._config.seed:
            self.changed.emit("seed", seed)

    def _write_seed_note(self, note: str, kind: str) -> None:
        if self.seed_note.property("kind") != kind:
            self.seed_note.setProperty("kind", kind)
            repolish(self.seed_note)
        if self.seed_note.text() != note:
            self.seed_note.setText(note)
            self.seed_note.setVisible(bool(note))
            self.seed.setAccessibleDescription(note)

    def _on_order(self, index: int) -> None:
        name = self.order.itemText(index)
        if name != self._config.order:
            self.changed.emit("order", name)

    def _list_order(self, name: str) -> None:
        """Offer an order of one's own beside those with a name, for as long as it is in force."""
        named = len(order_names())
        if self.order.count() > named:
            self.order.removeItem(named)
        if name not in order_names():
            self.order.addItem(name)

    def _on_more(self) -> None:
        self.details.setVisible(self.details.isHidden())
        self._name_details()

    def _name_details(self) -> None:
        """The line says what is set even while it is folded, so that nothing acts unseen."""
        min_p = self.sliders["min_p"].edit.shown
        mark = "▾" if self.details_shown else "▸"
        order = self._config.order if self._config.order in ORDERS else "of one's own"
        penalty = self._config.repetition_penalty
        more = "" if penalty == 1.0 else f" · repetition penalty {penalty:g}"
        self.more.setText(f"{mark} Order {order} · min-p {min_p}{more}")
        self.more.setAccessibleName(
            f"{'Hide' if self.details_shown else 'Show'} min-p and the order of the stages"
        )
