"""Whether there is a screen to open a window on, found out before Qt can abort over it."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from pathlib import Path

# Shared libraries that Qt needs and a bare Debian or Ubuntu lacks, and the package of each.
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
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}


def missing_qt_packages() -> list[str]:
    """Debian packages without which Qt cannot even be imported (empty elsewhere than Linux)."""
    return _missing(_QT_LIBRARIES)


def why_no_display() -> str | None:
    """Why no window can be opened, in a few words, or None if one can."""
    if not sys.platform.startswith("linux") or os.environ.get("QT_QPA_PLATFORM"):
        return None
    if os.environ.get("WAYLAND_DISPLAY"):
        return None
    name = os.environ.get("DISPLAY", "")
    if not name:
        return "there is no display (DISPLAY and WAYLAND_DISPLAY are not set)"
    if not _answers(name):
        return f"the display {name} does not answer"
    missing = _missing(_X11_LIBRARIES)
    if missing:
        return f"a window on X11 needs the packages {' '.join(missing)}"
    return None


def _answers(display: str) -> bool:
    """Whether something listens where an X display name points."""
    host, _, rest = display.rpartition(":")
    number = rest.split(".")[0]
    if not number.isdigit():
        return False
    try:
        if host in ("", "unix"):
            local = f"/tmp/.X11-unix/X{number}"
            # Linux X servers may listen on the abstract name alone.
            for address in ("\0" + local, local):
                if address.startswith("/") and not Path(address).exists():
                    continue
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.settimeout(2)
                    if probe.connect_ex(address) == 0:
                        return True
            host = "localhost"
        with socket.create_connection((host, 6000 + int(number)), timeout=2):
            return True
    except OSError:
        return False


def _missing(libraries: dict[str, str]) -> list[str]:
    if not sys.platform.startswith("linux"):
        return []
    missing = []
    for library, package in libraries.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            missing.append(package)
    return sorted(set(missing))
