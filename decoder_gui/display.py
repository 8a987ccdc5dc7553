"""Whether there is a screen to open a window on, found out before Qt can abort over it.

Standard library only: ``.ci/setup`` asks this module, too, before anything is installed.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import threading
from pathlib import Path

# Shared libraries that Qt needs and a bare Debian or Ubuntu lacks, and the package of each. Newer
# releases that renamed a package (libglib2.0-0t64) still install it under the name given here.
_QT_LIBRARIES = {
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libfontconfig.so.1": "libfontconfig1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
}
_X11_LIBRARIES = {
    "libxcb.so.1": "libxcb1",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
_WAYLAND_LIBRARIES = {
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
}
_PATIENCE_S = 5.0  # for a display that is reached over a network, or that hangs


def missing_packages() -> list[str]:
    """Debian packages that importing Qt or a window on X11 lacks (empty elsewhere than Linux)."""
    return _missing(_QT_LIBRARIES | _X11_LIBRARIES)


def why_not_imported(problem: ImportError) -> str | None:
    """What to install after an import failed, in one sentence.

    Returns:
        None for a failure that installing something does not mend.
    """
    if isinstance(problem, ModuleNotFoundError):
        package = (problem.name or "").split(".")[0]
        if package in ("", "decoder_gui", "model"):
            return None
        return f"the Python package {package} is not installed; install decoder-gui again"
    said = str(problem)
    if ".so" not in said:
        return None
    # The loader names one library and stops; whoever installs wants all names at once.
    missing = set(_missing(_QT_LIBRARIES))
    missing.update(package for library, package in _QT_LIBRARIES.items() if library in said)
    if missing:
        return f"Qt needs system libraries; install the packages {' '.join(sorted(missing))}"
    return f"a shared library cannot be loaded: {said}"


def choose_display() -> str | None:
    """Find a display that answers, and keep Qt from trying one that does not.

    Returns:
        Why no window can be opened, in a few words, or None if one can.
    """
    if not sys.platform.startswith("linux"):
        return None
    asked_for = os.environ.get("QT_QPA_PLATFORM", "").split(":")[0].split(";")
    if not {"", "xcb", "wayland"}.intersection(asked_for):
        return None  # offscreen, a frame buffer, VNC: whoever names one knows that it is there
    reasons: list[str] = []
    for name, kind, why_not in (
        (os.environ.get("WAYLAND_DISPLAY"), "wayland", _why_no_wayland),
        (os.environ.get("DISPLAY"), "xcb", _why_no_x11),
    ):
        if name and {"", kind}.intersection(asked_for):
            reason = why_not(name)
            if reason is None:
                if reasons:
                    os.environ["QT_QPA_PLATFORM"] = kind
                return None
            reasons.append(reason)
    return "; ".join(reasons) or "there is no display (DISPLAY and WAYLAND_DISPLAY are not set)"


def _why_no_x11(display: str) -> str | None:
    missing = _missing(_X11_LIBRARIES)
    if missing:
        return f"a window on X11 needs the packages {' '.join(missing)}"
    return None if _x11_answers(display) else f"the display {display} does not answer"


def _x11_answers(display: str) -> bool:
    """Whether an X server shakes hands; the library that Qt uses tries socket and authority."""
    answers: list[bool] = []

    def connect() -> None:
        xcb = ctypes.CDLL("libxcb.so.1")
        xcb.xcb_connect.restype = ctypes.c_void_p
        connection = ctypes.c_void_p(xcb.xcb_connect(display.encode(), None))
        answers.append(xcb.xcb_connection_has_error(connection) == 0)
        # A server without other clients (a fresh Xvfb) resets itself when its last one leaves, and
        # Qt, which connects next, would be thrown out: a connection that works stays open.
        if not answers[0]:
            xcb.xcb_disconnect(connection)

    # The library knows no time limit; a thread left behind in it does no harm.
    thread = threading.Thread(target=connect, name="decoder-gui display", daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    return answers == [True]


def _why_no_wayland(display: str) -> str | None:
    missing = _missing(_WAYLAND_LIBRARIES)
    if missing:
        return f"a window on Wayland needs the packages {' '.join(missing)}"
    # An absolute name replaces the folder.
    address = Path(os.environ.get("XDG_RUNTIME_DIR", "/")) / display
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PATIENCE_S)
        try:
            probe.connect(str(address))
        except OSError:
            return f"the Wayland display {display} does not answer"
    return None


def _missing(libraries: dict[str, str]) -> list[str]:
    """The packages of those libraries that cannot be loaded."""
    if not sys.platform.startswith("linux"):
        return []
    missing = set()
    for library, package in libraries.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            missing.add(package)
    return sorted(missing)
