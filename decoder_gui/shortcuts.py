"""Every key of the window, in one table: actions are bound by id, and `?` lists what is here."""

from __future__ import annotations

from dataclasses import dataclass

from decoder_gui.view import View


@dataclass(frozen=True)
class Shortcut:
    """One command that has keys.

    Attributes:
        id: what the window binds an action to.
        keys: key sequences in Qt's portable notation; the first is the one to remember.
        text: what it does, in words.
        group: the heading under which it is listed.
    """

    id: str
    keys: tuple[str, ...]
    text: str
    group: str


TRAVEL, SHOW, BRANCHES, WINDOW = "Travel", "What is shown", "Branches", "Window"
PANELS = 9

SHORTCUTS: tuple[Shortcut, ...] = (
    Shortcut("step", ("Right", "PgDown"), "Step forward", TRAVEL),
    Shortcut("back", ("Left", "PgUp"), "Step back", TRAVEL),
    Shortcut("coarser", ("Up",), "Larger steps: operation, layer, token, phase", TRAVEL),
    Shortcut("finer", ("Down",), "Smaller steps", TRAVEL),
    Shortcut("play", ("Space",), "Play or pause", TRAVEL),
    Shortcut("first", ("Home",), "To the first event", TRAVEL),
    Shortcut("last", ("End",), "To the last event recorded", TRAVEL),
    Shortcut("go_to", ("Ctrl+G",), "Go to a step and operation", TRAVEL),
    Shortcut("breakpoint", ("F9",), "Set or remove a breakpoint here", TRAVEL),
    Shortcut("stop_operation", ("B",), "Stop at this operation in every step, or not", TRAVEL),
    Shortcut("stop_when", ("Ctrl+B",), "Set a breakpoint on a condition", TRAVEL),
    Shortcut("run", ("F5",), "Run to the next breakpoint", TRAVEL),
    Shortcut("run_back", ("Shift+F5",), "Run back to the breakpoint before", TRAVEL),
    Shortcut("first_difference", ("F8",), "To the first difference of a comparison", TRAVEL),
    Shortcut("compare_again", ("Shift+F8",), "Compare the run again", TRAVEL),
    Shortcut("trail_back", ("Alt+Left",), "Back along the way followed in Values", TRAVEL),
    Shortcut("watch", ("W",), "Watch the chosen value", SHOW),
    Shortcut("watch_row", ("Shift+W",), "Watch the row of the chosen value", SHOW),
    Shortcut("next_head", ("]",), "Next head", SHOW),
    Shortcut("previous_head", ("[",), "Previous head", SHOW),
    Shortcut("next_layer", ("}",), "Next layer", SHOW),
    Shortcut("previous_layer", ("{",), "Previous layer", SHOW),
    Shortcut("undo", ("Ctrl+Z",), "Undo: a branch begun, deleted or renamed", BRANCHES),
    Shortcut("redo", ("Ctrl+Shift+Z",), "Do again what was undone", BRANCHES),
    Shortcut("next_branch", ("Ctrl+]",), "Next branch", BRANCHES),
    Shortcut("previous_branch", ("Ctrl+[",), "Previous branch", BRANCHES),
    Shortcut("ablate", ("Ctrl+E",), "Zero or patch something in a new branch", BRANCHES),
    Shortcut("edit_text", ("Ctrl+Shift+P",), "Edit the text in a new branch", BRANCHES),
    *(
        Shortcut(f"panel_{n}", (str(n),), f"Panel {n} alone, or back", SHOW)
        for n in range(1, PANELS + 1)
    ),
    Shortcut("all_panels", ("0",), "All panels again", SHOW),
    *(
        Shortcut(f"view_{n}", (f"Alt+{n}",), f"Workspace {view}", SHOW)
        for n, view in enumerate(View, start=1)
    ),
    Shortcut("prompt", ("Ctrl+P",), "Edit the prompt", WINDOW),
    Shortcut("open", ("Ctrl+O",), "Open a model file", WINDOW),
    Shortcut("open_folder", ("Ctrl+Shift+O",), "Open a model folder", WINDOW),
    Shortcut("save_session", ("Ctrl+S",), "Save the session", WINDOW),
    Shortcut("save_session_as", ("Ctrl+Alt+S",), "Save the session to another file", WINDOW),
    Shortcut("open_session", ("Ctrl+Alt+O",), "Open a session file", WINDOW),
    Shortcut("save_capture", ("Ctrl+Shift+S",), "Save the run to a capture", WINDOW),
    Shortcut("projector", ("P",), "Projector mode, or back", WINDOW),
    Shortcut("full_screen", ("F11",), "Full screen, or back", WINDOW),
    Shortcut("zoom_in", ("Ctrl++", "Ctrl+="), "Everything larger", WINDOW),
    Shortcut("zoom_out", ("Ctrl+-",), "Everything smaller", WINDOW),
    Shortcut("zoom_reset", ("Ctrl+0",), "Original size", WINDOW),
    Shortcut("escape", ("Esc",), "Cancel, or leave the single panel", WINDOW),
    Shortcut("help", ("?", "Shift+?"), "List of keys", WINDOW),
)

# How keys are written where their portable names would puzzle.
_NAMES = {
    "Right": "→",
    "Left": "←",
    "Up": "↑",
    "Down": "↓",
    "PgDown": "Page Down",
    "PgUp": "Page Up",
}


def key_text(keys: str) -> str:
    """A key sequence as it is written for people: ``Ctrl + +``, ``Page Down``."""
    parts = keys.replace("++", "+plus").split("+")
    words = ["+" if part == "plus" else _NAMES.get(part, part) for part in parts]
    return " + ".join(words) if len(words) > 1 else words[0]


@dataclass(frozen=True)
class Listed:
    """One line of the list: several numbered panels share one."""

    keys: tuple[str, ...]
    text: str
    group: str


def listed() -> tuple[Listed, ...]:
    """The table as it is shown, with the panels' keys in one line."""
    lines = []
    for shortcut in SHORTCUTS:
        if shortcut.id == "view_1":
            names = ", ".join(View)
            lines.append(Listed((f"Alt + 1 – {len(View)}",), f"Workspace: {names}", shortcut.group))
        elif shortcut.id == "panel_1":
            lines.append(Listed((f"1 – {PANELS}",), "One panel alone, or back", shortcut.group))
        elif not shortcut.id.startswith(("panel_", "view_")):
            keys = tuple(key_text(keys) for keys in shortcut.keys if not _same_key(keys))
            lines.append(Listed(keys, shortcut.text, shortcut.group))
    return tuple(lines)


def _same_key(keys: str) -> bool:
    """Whether a sequence is only another way in which keyboards report a key that is listed."""
    bare = keys.removeprefix("Shift+")
    return keys == "Ctrl+=" or (bare != keys and len(bare) == 1 and not bare.isalnum())
