"""The top of the window: which model, which prompt, how much context, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QDragEnterEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QMenu, QSizePolicy, QWidget

from decoder_gui.theme.icons import Glyph
from decoder_gui.theme.style import Face, Style
from decoder_gui.theme.stylesheet import repolish
from decoder_gui.widgets.icon_button import IconButton
from decoder_gui.widgets.notice import Notice
from decoder_gui.widgets.tips import plain_tip
from decoder_gui.widgets.view_tabs import ViewTabs

HEIGHT = 48.0  # pixels at scale 1, the line under it included
ROOM_FOR_TABS = 1300.0  # pixels at scale 1 of the window from which every workspace has a tab
WIDEST_NAME = 240.0  # pixels at scale 1 of the name of the model in hand
WIDEST_CHOICE = 560.0  # pixels at scale 1 of a line of the menu; the tooltip holds the whole


OPENING = "opening…"  # where the name of the first model will stand


@dataclass(frozen=True)
class ModelChoice:
    """A model that the menu offers."""

    spec: str  # what model_chosen carries
    name: str
    summary: str
    current: bool = False  # it is the one in hand
    missing: bool = False  # it is not there any more, so it cannot be chosen


class TopBar(QWidget):
    """Model, prompt, context and the buttons; asks, and lets the window decide.

    Signals:
        model_chosen(str): a model of the menu, by its spec.
        file_requested(): a file is to be asked for.
        folder_requested(): a folder is to be asked for.
        name_requested(): a repository of a model hub is to be asked for.
        prefill_requested(str): run this prompt.
        capacity_chosen(int): another context, already checked against the model's range.
        projector_toggled(bool): projector mode on or off.
        view_chosen(str): another workspace, by its name.
    """

    model_chosen = Signal(str)
    file_requested = Signal()
    folder_requested = Signal()
    name_requested = Signal()
    prefill_requested = Signal(str)
    capacity_chosen = Signal(int)
    projector_toggled = Signal(bool)
    view_chosen = Signal(str)

    def __init__(
        self, style: Style, views: Sequence[str] = ("Step",), parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._style = style
        self._limit = 0
        self._capacity = 0
        self._shown_model: tuple[str, str, object, object] | None = None
        self._foot: QWidget | None = None
        self._notice: Notice | None = None
        self.setProperty("kind", "bar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName("Model and prompt")

        self.model = IconButton(style, name="Model", text=OPENING, after=Glyph.DOWN)
        self.model_menu = QMenu(self)
        self.views = ViewTabs(style, views)
        self.prompt = PlainField()
        self.prompt.setPlaceholderText("Prompt")
        self.prompt.setAccessibleName("Prompt")
        self.prompt.setToolTip("The text that the model continues (Ctrl+P); Enter runs it")
        self.prompt.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.context_label = QLabel("context")
        self.context_label.setProperty("kind", "muted")
        self.context = PlainField()
        self.context.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.context_label.setBuddy(self.context)
        self.prefill = IconButton(
            style, name="Run the prompt (Enter in the prompt)", text="Prefill", kind="primary"
        )
        self.view = IconButton(style, name="View", text="View", after=Glyph.DOWN)
        self.projector = IconButton(style, name="Projector mode (P)", text="Projector")
        self.projector.setCheckable(True)
        self._view_menu: QMenu | None = None
        self._file_actions: Sequence[QAction] = ()
        self._lay_out()
        self._connect()
        self.set_style(style)
        self.set_capacity(0, 0)

    # ---- what it shows

    def set_model(
        self,
        name: str,
        details: str,
        choices: Sequence[ModelChoice],
        recent: Sequence[ModelChoice] = (),
    ) -> None:
        """Say which model is open, which ones the menu offers, and which were opened before."""
        shown = name, details, tuple(choices), tuple(recent)
        if shown == self._shown_model:
            return
        self._shown_model = shown
        words = f"Model: {', '.join(filter(None, (name, details)))}" if name else "Model: none"
        self._name_model()
        self.model.setAccessibleName(words)
        self.model.setToolTip(plain_tip(words))
        self.model_menu.clear()
        self.model_menu.setToolTipsVisible(True)
        for choice in choices:
            self._offer(choice)
        if recent:
            self.model_menu.addSeparator()
            heading = self.model_menu.addAction("Opened before")
            heading.setEnabled(False)
        for choice in recent:
            self._offer(choice)
        self.model_menu.addSeparator()
        for words, signal in (
            ("Open a file…", self.file_requested),
            ("Open a folder…", self.folder_requested),
            ("Open by name from a model hub…", self.name_requested),
        ):
            self.model_menu.addAction(words).triggered.connect(signal)
        self._offer_file_actions()

    def set_file_actions(self, actions: Sequence[QAction]) -> None:
        """What the menu of models offers besides: to open and save sessions and captures."""
        self._file_actions = tuple(actions)
        self._offer_file_actions()

    def _offer_file_actions(self) -> None:
        if self._file_actions:
            self.model_menu.addSeparator()
            self.model_menu.addActions(self._file_actions)

    def _name_model(self) -> None:
        """The name on the button, cut where it would crowd out everything else."""
        if self._shown_model is None:
            return
        metrics, middle = self.model.fontMetrics(), Qt.TextElideMode.ElideMiddle
        name, details = (
            metrics.elidedText(" ".join(words.split()), middle, self._style.px(WIDEST_NAME))
            for words in self._shown_model[:2]
        )
        self.model.set_content(name or "no model", note=details, after=Glyph.DOWN)

    def set_prompt(self, text: str) -> None:
        """Put a text into the prompt field, without running it."""
        if text != self.prompt.text():
            self.prompt.setText(text)
            self.prompt.setCursorPosition(0)

    def set_capacity(self, capacity: int, limit: int) -> None:
        """Say how many positions the cache holds, and how many the model allows."""
        if (capacity, limit) == (self._capacity, self._limit) and self.context.hasFocus():
            return  # someone is typing another one
        self._capacity, self._limit = capacity, limit
        self._show_capacity()

    def set_projector(self, on: bool) -> None:
        """Show whether projector mode is on; what an audience does not need is left out."""
        self.projector.setChecked(on)
        for widget in (self.context_label, self.context, self.view):
            widget.setVisible(not on)
        self._make_room()

    def set_view_menu(self, menu: QMenu) -> None:
        """The menu that the View button opens."""
        self._view_menu = menu

    def set_foot(self, foot: QWidget) -> None:
        """The part at the lower edge of the window that no notice covers."""
        self._foot = foot

    def show_notice(self, sentence: str, milliseconds: int = 12_000) -> None:
        """Show a sentence over the panels of the window for a while."""
        over = self.window()
        if self._notice is None or self._notice.parentWidget() is not over:
            self._notice = Notice(self._style, over)
            if self._foot is not None:
                self._notice.keep_above(self._foot)
        self._notice.show_sentence(sentence, milliseconds)

    def hide_notice(self) -> None:
        """Take the sentence away."""
        if self._notice is not None:
            self._notice.hide()

    @property
    def notice(self) -> str:
        """The sentence on show, or an empty string."""
        shown = self._notice is not None and not self._notice.isHidden()
        return self._notice.text() if shown and self._notice is not None else ""

    def focus_prompt(self) -> None:
        """Let the prompt be typed over."""
        self.prompt.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.prompt.selectAll()

    def set_style(self, style: Style) -> None:
        """Take on other colours or another scale."""
        self._style = style
        px = style.px
        self.setFixedHeight(px(HEIGHT))
        self._row.setContentsMargins(px(16), 0, px(16), 1)
        self._row.setSpacing(px(10))
        for button in (self.model, self.prefill, self.view, self.projector):
            button.set_style(style)
            button.setFixedHeight(px(31))
        for button in (self.model, self.view):
            button.set_glyph_side(8)
        self._name_model()
        self.prefill.setFixedHeight(px(29))
        self.views.set_style(style)
        self._make_room()
        self.prompt.setFont(style.font(Face.BODY))
        self.prompt.setFixedHeight(px(33))
        self.context_label.setFont(style.font(Face.SMALL))
        self.context.setFont(style.font(Face.MONO))
        self.context.setFixedSize(px(66), px(31))
        if self._notice is not None:
            self._notice.set_style(style)

    # ---- what it asks

    def _lay_out(self) -> None:
        self._row = QHBoxLayout(self)
        self._row.addWidget(self.model)
        self._row.addWidget(self.views)
        self._row.addWidget(self.prompt, 1)
        for widget in (
            self.context_label,
            self.context,
            self.prefill,
            self.view,
            self.projector,
        ):
            self._row.addWidget(widget)

    def _connect(self) -> None:
        self.model.clicked.connect(lambda: self._drop(self.model, self.model_menu))
        self.view.clicked.connect(lambda: self._drop(self.view, self._view_menu))
        self.prefill.clicked.connect(self._ask_prefill)
        self.prompt.returnPressed.connect(self._ask_prefill)
        self.context.returnPressed.connect(self._ask_capacity)
        self.context.editingFinished.connect(self._ask_capacity)
        self.context.abandoned.connect(self._show_capacity)
        self.projector.clicked.connect(self.projector_toggled)
        self.views.chosen.connect(self.view_chosen)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """Tabs where the prompt has room beside them; an audience does without."""
        compact = self.projector.isChecked() or self.width() < self._style.px(ROOM_FOR_TABS)
        if compact != self.views.compact:
            self.views.set_compact(compact)

    def _offer(self, choice: ModelChoice) -> None:
        words = f"{choice.name}: {choice.summary}"
        widest = min(self._style.px(WIDEST_CHOICE), self.window().width() // 2)
        shown = self.model_menu.fontMetrics().elidedText(
            words, Qt.TextElideMode.ElideMiddle, widest
        )
        action = self.model_menu.addAction(shown.replace("&", "&&"))
        action.setToolTip(plain_tip(words))
        action.setCheckable(True)
        action.setChecked(choice.current)
        action.setEnabled(not choice.missing)
        action.triggered.connect(lambda: self.model_chosen.emit(choice.spec))

    def _drop(self, button: IconButton, menu: QMenu | None) -> None:
        if menu is not None:
            menu.popup(button.mapToGlobal(QPoint(0, button.height())))

    def _ask_prefill(self) -> None:
        # The keys step again at once, without a click elsewhere.
        self.prompt.clearFocus()
        self.prefill_requested.emit(self.prompt.text())

    def _ask_capacity(self) -> None:
        text = self.context.text().strip()
        if text == (str(self._capacity) if self._capacity else ""):
            self._mark_context(bad=False)
            return
        if text.isascii() and text.isdigit() and 1 <= int(text) <= self._limit:
            self._mark_context(bad=False)
            self._capacity = int(text)
            self.context.clearFocus()
            self.capacity_chosen.emit(int(text))
            return
        self._mark_context(bad=True)
        self.show_notice(
            f"The context of this model is a whole number from 1 to {self._limit} positions; "
            f"“{text}” is not."
        )

    def _show_capacity(self) -> None:
        capacity, limit = self._capacity, self._limit
        self.context.setText(str(capacity) if capacity else "")
        self.context.setEnabled(limit > 0)
        words = f"Context in positions, 1 to {limit}" if limit else "Context in positions"
        self.context.setToolTip(words)
        self.context.setAccessibleName(words)
        self._mark_context(bad=False)

    def _mark_context(self, *, bad: bool) -> None:
        state = "bad" if bad else ""
        if self.context.property("state") != state:
            self.context.setProperty("state", state)
            repolish(self.context)


class PlainField(QLineEdit):
    """A line to type in that gives the keys back to the window on Esc.

    Signals:
        abandoned(): Esc was pressed.
    """

    abandoned = Signal()

    def event(self, event: QEvent) -> bool:
        if (
            event.type() is QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
        ):
            event.accept()
            return True
        return super().event(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Text may be dropped here; a file is for the window, which opens it."""
        if event.mimeData().hasUrls():
            event.ignore()
        else:
            super().dragEnterEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.abandoned.emit()
            self.clearFocus()
        else:
            super().keyPressEvent(event)
