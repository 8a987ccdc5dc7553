"""The look of the whole application as one Qt style sheet, for any palette and scale.

Widgets say what they are with the dynamic property ``kind``, and nothing else:

===========  ====================================================================
``primary``  the one button that carries the action of its group (accent colour)
``inverse``  the button in hand of a group, e.g. Step (text and ground exchanged)
``segment``  one of several joined buttons; ``end`` = "first", "last" or "only" rounds corners
``quiet``    a button without a frame until it is pointed at
``chip``     a rounded status word; ``state`` = "good", "bad" or "waiting" colours it
``panel``    the rounded ground of a panel
``bar``      a strip with a line under it; ``foot`` one with a line over it
``muted``    secondary text (labels)
``error``    text that says what was refused (labels)
``alarm``    a line that must not be missed: a deliberate fault is on (labels)
``list``     a list of things that can be ticked, with room between them
``notice``   a sentence laid over the window for a while (labels)
===========  ====================================================================
"""

from __future__ import annotations

from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QWidget

from decoder_gui.assets_path import asset
from decoder_gui.theme.fonts import load_fonts
from decoder_gui.theme.palette import Palette, blend, contrast
from decoder_gui.theme.style import MONO_FAMILY, UI_FAMILY, Face, Style


def apply_style(application: QApplication, style: Style) -> None:
    """Give the application the colours, font and style sheet of ``style``."""
    load_fonts()
    if application.property("decoderBaseStyle") is None:
        # Fusion draws the same on every platform; what the sheet leaves out looks alike too.
        application.setStyle("Fusion")
        application.setProperty("decoderBaseStyle", True)
    sheet = stylesheet(style)
    if sheet == application.styleSheet():
        return  # to set it again would style every widget anew, which holds up the window
    application.setPalette(qt_palette(style))
    application.setFont(style.font(Face.BODY))
    application.setStyleSheet(sheet)


def qt_palette(style: Style) -> QPalette:
    """The palette for whatever Qt draws by itself."""
    role, colour = QPalette.ColorRole, style.colour
    palette = QPalette()
    for target, name in (
        (role.Window, "window"),
        (role.WindowText, "text"),
        (role.Base, "panel"),
        (role.AlternateBase, "sunken"),
        (role.Text, "text"),
        (role.Button, "raised"),
        (role.ButtonText, "text"),
        (role.BrightText, "bad"),
        (role.ToolTipBase, "raised"),
        (role.ToolTipText, "text"),
        (role.PlaceholderText, "faint"),
        (role.Highlight, "inverse"),
        (role.HighlightedText, "inverse_text"),
        (role.Link, "accent"),
        (role.Light, "border_strong"),
        (role.Midlight, "border"),
        (role.Mid, "border"),
        (role.Dark, "border"),
        (role.Shadow, "window"),
        (role.Accent, "accent"),
    ):
        palette.setColor(target, colour(name))
    for target in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, target, colour("faint"))
    return palette


def stylesheet(style: Style) -> str:
    """The style sheet of the whole application."""
    parts = (_frames, _buttons, _chips, _fields, _choices, _sliders, _menus, _views)
    return "\n".join(part(style) for part in parts)


def repolish(widget: QWidget) -> None:
    """Make a changed ``kind`` or ``state`` property of a widget take effect."""
    style = widget.style()
    style.unpolish(widget)
    style.polish(widget)


def _hover(style: Style) -> str:
    return blend(style.palette.text, style.palette.raised, 0.09)


def _readable_on(ground: str, palette: Palette) -> str:
    """The palette's text or its inverse, whichever stands out more."""
    inks = (palette.text, palette.inverse_text)
    return max(inks, key=lambda ink: contrast(ink, ground))


def _icon(name: str, style: Style) -> str:
    return f'url("{asset(f"icons/{name}-{style.palette.name}.svg").as_posix()}")'


def _frames(style: Style) -> str:
    p, px = style.palette, style.px
    return f"""
QMainWindow, QDialog, QMessageBox {{ background: {p.window}; color: {p.text}; }}
QMainWindow::separator {{ background: {p.window}; width: {px(10)}px; height: {px(10)}px; }}
QMainWindow::separator:hover {{ background: {p.border}; }}
QSplitter::handle {{ background: transparent; }}
QSplitter::handle:hover {{ background: {p.border}; }}
QSplitter::handle:horizontal {{ width: {px(10)}px; }}
QSplitter::handle:vertical {{ height: {px(10)}px; }}
QDockWidget {{ color: {p.text}; border: none; }}
QDockWidget > QWidget {{ border: none; }}
QWidget[kind="panel"] {{
    background: {p.panel}; border: 1px solid {p.border}; border-radius: {px(8)}px; }}
QWidget[kind="bar"] {{ background: {p.window}; border: none; border-bottom: 1px solid {p.border}; }}
QWidget[kind="foot"] {{ background: {p.window}; border: none; border-top: 1px solid {p.border}; }}
QLabel {{ background: transparent; color: {p.text}; }}
QLabel[kind="muted"] {{ color: {p.muted}; }}
QLabel[kind="error"] {{ color: {p.bad}; }}
QLabel[kind="alarm"] {{
    background: {p.bad}; color: {_readable_on(p.bad, p)}; font-weight: 600;
    padding: {px(6)}px {px(16)}px; }}
QLabel[kind="notice"] {{
    background: {p.raised}; border: 1px solid {p.border_strong}; border-radius: {px(6)}px; }}
QLabel:disabled {{ color: {p.faint}; }}
QToolTip {{
    background: {p.raised}; color: {p.text}; border: 1px solid {p.border_strong};
    padding: {px(4)}px {px(6)}px; font: {px(12)}px "{UI_FAMILY}", "{MONO_FAMILY}"; }}
QStatusBar {{ background: {p.window}; color: {p.muted}; }}
QStatusBar::item {{ border: none; }}
QDialogButtonBox {{ dialogbuttonbox-buttons-have-icons: 0; }}
QGroupBox {{
    border: 1px solid {p.border}; border-radius: {px(6)}px; margin-top: {px(10)}px;
    padding-top: {px(6)}px; }}
QGroupBox::title {{ subcontrol-origin: margin; left: {px(10)}px; color: {p.muted}; }}
QRubberBand {{ border: 2px solid {p.accent}; }}
"""


def _buttons(style: Style) -> str:
    p, px = style.palette, style.px
    radius, pad, wide = px(6), px(4), px(12)
    # The ring is one pixel wider than the border, so the padding gives that pixel back.
    ring = f"border: 2px solid {p.outline}; padding: {pad - 1}px {wide - 1}px;"
    return f"""
QPushButton, QToolButton {{
    background: {p.raised}; color: {p.text}; border: 1px solid {p.border_strong};
    border-radius: {radius}px; padding: {pad}px {wide}px; }}
QPushButton:hover, QToolButton:hover {{ background: {_hover(style)}; }}
QPushButton:pressed, QToolButton:pressed {{ background: {p.border_strong}; color: {p.text}; }}
QPushButton:checked, QToolButton:checked, QPushButton[kind="inverse"] {{
    background: {p.inverse}; color: {p.inverse_text}; border-color: {p.inverse};
    font-weight: 600; }}
QPushButton[kind="primary"] {{
    background: {p.accent}; color: {p.accent_text}; border-color: {p.accent}; font-weight: 600; }}
QPushButton[kind="primary"]:hover {{ background: {blend(p.accent, p.text, 0.85)}; }}
QPushButton[kind="inverse"]:hover {{ background: {blend(p.inverse, p.panel, 0.85)}; }}
QPushButton:focus, QToolButton:focus {{ {ring} }}
QPushButton[kind="primary"]:focus, QPushButton[kind="inverse"]:focus, QPushButton:checked:focus {{
    border-color: {p.warning}; }}
QPushButton:disabled, QToolButton:disabled, QPushButton[kind="primary"]:disabled,
QPushButton[kind="inverse"]:disabled {{
    background: {p.window}; color: {p.faint}; border: 1px dashed {p.border}; font-weight: 400; }}
QPushButton[kind="segment"] {{ border-radius: 0; margin-left: -1px; }}
QPushButton[kind="segment"][end="first"], QPushButton[kind="segment"][end="only"] {{
    margin-left: 0; border-top-left-radius: {radius}px; border-bottom-left-radius: {radius}px; }}
QPushButton[kind="segment"][end="last"], QPushButton[kind="segment"][end="only"] {{
    border-top-right-radius: {radius}px; border-bottom-right-radius: {radius}px; }}
QPushButton[kind="quiet"], QToolButton[kind="quiet"] {{
    background: transparent; border: 1px solid transparent; border-radius: {px(4)}px;
    padding: {px(2)}px; color: {p.muted}; }}
QPushButton[kind="quiet"]:hover, QToolButton[kind="quiet"]:hover {{
    background: {_hover(style)}; color: {p.text}; }}
QPushButton[kind="quiet"]:focus, QToolButton[kind="quiet"]:focus {{
    border: 1px solid {p.outline}; color: {p.text}; }}
QPushButton::menu-indicator, QToolButton::menu-indicator {{ image: none; width: 0; }}
"""


def _chips(style: Style) -> str:
    p, px = style.palette, style.px
    return f"""
QPushButton[kind="chip"] {{
    background: {p.window}; color: {p.muted}; border: 1px solid {p.border_strong};
    border-radius: {int(12 * style.scale)}px; padding: {px(4)}px {px(10)}px; font-weight: 400; }}
QPushButton[kind="chip"]:hover {{ background: {p.raised}; }}
QPushButton[kind="chip"][state="good"] {{ color: {p.good}; border-color: {p.good}; }}
QPushButton[kind="chip"][state="bad"] {{
    color: {p.bad}; border: 2px solid {p.bad}; font-weight: 600;
    padding: {px(4) - 1}px {px(10) - 1}px; }}
QPushButton[kind="chip"]:focus {{
    border: 2px solid {p.outline}; padding: {px(4) - 1}px {px(10) - 1}px; }}
"""


def _fields(style: Style) -> str:
    p, px = style.palette, style.px
    pad, wide = px(6), px(12)
    return f"""
QLineEdit, QAbstractSpinBox, QPlainTextEdit, QTextEdit {{
    background: {p.panel}; color: {p.text}; border: 1px solid {p.border_strong};
    border-radius: {px(6)}px; padding: {pad}px {wide}px;
    selection-background-color: {p.inverse}; selection-color: {p.inverse_text}; }}
QPlainTextEdit, QTextEdit {{
    background: {p.sunken}; font: {px(12)}px "{MONO_FAMILY}", "{UI_FAMILY}"; }}
QLineEdit:focus, QAbstractSpinBox:focus, QPlainTextEdit:focus, QTextEdit:focus {{
    border: 2px solid {p.accent}; padding: {pad - 1}px {wide - 1}px; }}
QLineEdit[state="bad"], QAbstractSpinBox[state="bad"] {{ border: 2px solid {p.bad};
    padding: {pad - 1}px {wide - 1}px; }}
QLineEdit:disabled, QAbstractSpinBox:disabled {{
    color: {p.faint}; background: {p.window}; border: 1px dashed {p.border}; }}
QAbstractSpinBox {{ padding: {px(3)}px {px(6)}px; font-family: "{MONO_FAMILY}", "{UI_FAMILY}"; }}
QAbstractSpinBox:focus {{ padding: {px(3) - 1}px {px(6) - 1}px; }}
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {{
    subcontrol-origin: padding; width: {px(16)}px; border: none; background: transparent; }}
QAbstractSpinBox::up-button {{ subcontrol-position: top right; }}
QAbstractSpinBox::down-button {{ subcontrol-position: bottom right; }}
QAbstractSpinBox::up-button:hover, QAbstractSpinBox::down-button:hover {{
    background: {_hover(style)}; }}
QAbstractSpinBox::up-arrow {{
    image: {_icon("chevron-up", style)}; width: {px(9)}px; height: {px(9)}px; }}
QAbstractSpinBox::down-arrow {{
    image: {_icon("chevron", style)}; width: {px(9)}px; height: {px(9)}px; }}
QComboBox {{
    background: {p.raised}; color: {p.text}; border: 1px solid {p.border_strong};
    border-radius: {px(6)}px; padding: {px(4)}px {px(8)}px; }}
QComboBox:hover {{ background: {_hover(style)}; }}
QComboBox:focus {{ border: 2px solid {p.accent}; padding: {px(4) - 1}px {px(8) - 1}px; }}
QComboBox:disabled {{ color: {p.faint}; border: 1px dashed {p.border}; }}
QComboBox::drop-down {{ border: none; width: {px(20)}px; }}
QComboBox::down-arrow {{
    image: {_icon("chevron", style)}; width: {px(11)}px; height: {px(11)}px; }}
QComboBox QAbstractItemView {{
    background: {p.raised}; color: {p.text}; border: 1px solid {p.border_strong};
    selection-background-color: {p.inverse}; selection-color: {p.inverse_text}; outline: none; }}
QComboBox {{ combobox-popup: 0; }}
QComboBox QAbstractItemView::item {{ min-height: {px(24)}px; padding: 0 {px(6)}px; }}
QComboBox QAbstractItemView::item:selected {{ background: {p.inverse}; color: {p.inverse_text}; }}
"""


def _choices(style: Style) -> str:
    p, px = style.palette, style.px
    size = px(13)
    return f"""
QCheckBox, QRadioButton {{
    background: transparent; color: {p.text}; spacing: {px(8)}px; padding: {px(2)}px;
    border: 1px solid transparent; border-radius: {px(4)}px; }}
QCheckBox:focus, QRadioButton:focus {{ border: 1px solid {p.outline}; }}
QCheckBox:disabled, QRadioButton:disabled {{ color: {p.faint}; }}
QCheckBox::indicator, QRadioButton::indicator, QListView::indicator {{
    width: {size}px; height: {size}px; border: 1px solid {p.muted}; background: {p.panel};
    border-radius: {px(3)}px; }}
QRadioButton::indicator {{ border-radius: {(size + 2) // 2}px; }}
QCheckBox::indicator:hover, QRadioButton::indicator:hover {{ border-color: {p.text}; }}
QCheckBox::indicator:checked, QListView::indicator:checked {{
    background: {p.accent}; border-color: {p.accent}; image: {_icon("tick", style)}; }}
QRadioButton::indicator:checked {{ background: {p.accent}; border: {px(3)}px solid {p.panel}; }}
QCheckBox::indicator:disabled, QRadioButton::indicator:disabled {{ border-color: {p.border}; }}
QProgressBar {{
    background: {p.empty}; border: none; border-radius: {px(2)}px; max-height: {px(4)}px;
    color: transparent; }}
QProgressBar::chunk {{ background: {p.accent}; border-radius: {px(2)}px; }}
"""


def _sliders(style: Style) -> str:
    p, px = style.palette, style.px
    # 16 px across and 4 px thick at scale 1. A handle must have an even size to be centred.
    handle, groove = 2 * px(8), px(4)
    out = (handle - groove) // 2
    return f"""
QSlider {{ background: transparent; min-height: {handle + 4}px; }}
QSlider::groove:horizontal {{
    background: {p.border_strong}; height: {groove}px; border-radius: {groove // 2}px;
    margin: 0; }}
QSlider::handle:horizontal {{
    background: {p.inverse}; width: {handle}px; height: {handle}px; border-radius: {handle // 2}px;
    margin: -{out}px 0; border: none; }}
QSlider::handle:horizontal:hover {{ background: {p.accent}; }}
QSlider:focus {{ outline: none; }}
QSlider::handle:horizontal:focus {{
    width: {handle - 4}px; height: {handle - 4}px; border: 2px solid {p.accent};
    border-radius: {handle // 2}px; }}
QSlider::handle:horizontal:disabled {{ background: {p.faint}; }}
QScrollBar:vertical {{ background: transparent; width: {px(8)}px; margin: 0; border: none; }}
QScrollBar:horizontal {{ background: transparent; height: {px(8)}px; margin: 0; border: none; }}
QScrollBar::handle {{ background: {p.border_strong}; border-radius: {px(8) // 2 - 1}px; }}
QScrollBar::handle:vertical {{ min-height: {px(24)}px; margin: 0 1px; }}
QScrollBar::handle:horizontal {{ min-width: {px(24)}px; margin: 1px 0; }}
QScrollBar::handle:hover {{ background: {p.muted}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; border: none; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
QAbstractScrollArea::corner {{ background: transparent; border: none; }}
"""


def _menus(style: Style) -> str:
    p, px = style.palette, style.px
    return f"""
QMenu, QMenuBar {{
    background: {p.raised}; color: {p.text}; font: {px(13)}px "{UI_FAMILY}", "{MONO_FAMILY}"; }}
QMenu {{ border: 1px solid {p.border_strong}; padding: {px(4)}px; }}
QMenu::item {{ padding: {px(5)}px {px(24)}px {px(5)}px {px(24)}px; border-radius: {px(4)}px; }}
QMenu::item:selected, QMenuBar::item:selected {{
    background: {p.inverse}; color: {p.inverse_text}; }}
QMenu::item:disabled {{ color: {p.faint}; background: transparent; }}
QMenu::separator {{ height: 1px; background: {p.border}; margin: {px(4)}px {px(6)}px; }}
QMenu::indicator {{
    width: {px(11)}px; height: {px(11)}px; left: {px(6)}px; border-radius: {px(3)}px; }}
QMenu::indicator:checked {{ background: {p.accent}; image: {_icon("tick", style)}; }}
QMenu::indicator:unchecked {{ background: transparent; }}
"""


def _views(style: Style) -> str:
    p, px = style.palette, style.px
    return f"""
QAbstractScrollArea {{ background: transparent; border: none; }}
QScrollArea > QWidget > QWidget {{ background: transparent; }}
QAbstractItemView {{
    background: transparent; color: {p.text}; border: none; outline: none;
    alternate-background-color: {p.sunken};
    selection-background-color: {p.inverse}; selection-color: {p.inverse_text}; }}
QListView[kind="list"] {{ border: 1px solid transparent; border-radius: {px(4)}px; }}
QListView[kind="list"]:focus {{ border: 1px solid {p.outline}; }}
QListView[kind="list"]::item {{ padding: {px(4)}px {px(2)}px; }}
QHeaderView, QTableCornerButton::section {{ background: transparent; border: none; }}
QHeaderView::section {{
    background: transparent; color: {p.muted}; border: none;
    border-bottom: 1px solid {p.border}; padding: {px(3)}px {px(6)}px; }}
QTabBar::tab {{
    background: {p.window}; color: {p.muted}; border: 1px solid {p.border};
    padding: {px(4)}px {px(10)}px; border-radius: {px(4)}px; margin: {px(2)}px; }}
QTabBar::tab:selected {{ background: {p.inverse}; color: {p.inverse_text}; }}
QTabBar::tab:focus {{ border-color: {p.outline}; }}
QTabWidget::pane {{ border: none; }}
"""
