"""How an amount of memory is written, in refusals and in panels alike."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def format_bytes(count: int) -> str:
    """Bytes in binary units: ``512 B``, ``26.0 KiB``, ``1.5 MiB``."""
    if abs(count) < 1024:
        return f"{count} B"
    size = float(count)
    for unit in _UNITS:
        size /= 1024
        if abs(size) < 1023.95 or unit == _UNITS[-1]:
            break
    return f"{size:,.1f} {unit}"
