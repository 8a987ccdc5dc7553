"""How numbers are written on screen: one place, so that no two panels write one differently.

A minus is the hyphen-minus, which can be pasted into any program as a number. NaN and infinity are
words. A number that is not 0 is never written as 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from model import byte_counts

format_bytes = byte_counts.format_bytes  # sizes in refusals read like those in panels


def format_value(value: float, digits: int = 3) -> str:
    """A number in fixed notation: ``0.347``, ``-12.500``, ``1234.5``, ``3e-07``, ``NaN``, ``-inf``.

    ``digits`` decimals, one decimal from 1,000 on, powers of ten from 100,000 on and where the
    decimals would show nothing but zeros.
    """
    value = float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    size = abs(value)
    if size == 0:
        return f"{0.0:.{digits}f}"
    if size < 0.5 * 10.0**-digits:
        return f"{value:.0e}" if digits <= 3 else f"{value:.2e}"
    if size >= 99_999.95:
        return f"{value:.2e}"
    return f"{value:.1f}" if size >= 1000 and digits <= 3 else f"{value:.{digits}f}"


def format_exact(value: float, digits: int = 9) -> str:
    """A number to as many significant digits as a tooltip or a copied value should have."""
    value = float(value)
    return f"{value:.{digits}g}" if math.isfinite(value) else format_value(value)


def format_percent(fraction: float, digits: int = 1) -> str:
    """A fraction of 1 in per cent: ``41.2%``; ``<0.1%`` and ``>99.9%`` where rounding would lie."""
    if not math.isfinite(fraction):
        return format_value(fraction)
    percent = 100.0 * float(fraction)
    least = 10.0**-digits
    if 0 < percent < least / 2:
        return f"<{least:.{digits}f}%"
    if 100.0 - least / 2 <= percent < 100.0:
        return f">{100.0 - least:.{digits}f}%"
    return f"{percent:.{digits}f}%"


def format_count(count: int) -> str:
    """A whole number with thousands separated: ``50,257``."""
    return f"{count:,}"


def format_log_probability(value: float) -> str:
    """A log-probability in nats to two decimals, ``-0.26``; the one number that may read ``-0.00``.

    Nearly certain tokens are common in a row of them, and powers of ten would drown the others.
    """
    return f"{value:.2f}" if math.isfinite(value) else format_value(value)


def format_shape(shape: Iterable[int]) -> str:
    """Array dimensions: ``[13, 64]``."""
    return "[" + ", ".join(str(size) for size in shape) + "]"


def format_positions(first: int, last: int) -> str:
    """Positions from ``first`` up to but not including ``last``: ``12`` or ``0–7``."""
    return str(first) if last - first == 1 else f"{first}–{last - 1}"


def format_range(low: float, high: float) -> str:
    """Smallest and largest of some values: ``min 0.007 · max 0.347``."""
    return f"min {format_value(low)} · max {format_value(high)}"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """A count with its noun: ``1 value``, ``13 values``; ``nouns`` where an s is not enough."""
    return f"{format_count(count)} {noun if count == 1 else nouns or noun + 's'}"
