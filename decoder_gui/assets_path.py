"""Where the bundled files lie: in the installed package, or beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
# A wheel carries the files inside the package; an editable install and the checkout keep them
# at the top level, one folder up.
_ROOTS = (_PACKAGE / "assets", _PACKAGE.parent / "assets")


def asset(name: str) -> Path:
    """The path of a bundled file or folder, e.g. ``asset("fonts/Inter-Regular.otf")``.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    for root in _ROOTS:
        path = root / name
        if path.exists():
            return path
    raise FileNotFoundError(f"the bundled file {name} is missing; install decoder-gui again")
