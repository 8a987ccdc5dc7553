"""How a pass is wired together; anything but :data:`SOUND` is a deliberate fault.

Both engines take one of these, so that a fault is a value that is switched on and not a copy of
the arithmetic with a mistake in it. Standard library only: the tiny decoder uses it too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wiring:
    """Wiring of a forward pass.

    Attributes:
        lookahead: how many later keys a query may see within one pass (0: causal; None: all).
        restart_positions: a decoded token is given position 0 again instead of the cache length.
        stale_cache: a decoded token's K and V overwrite the newest cached row instead of going
            into their own, which keeps whatever it held before.
        scaled: attention scores are multiplied by 1/sqrt(d_head).
    """

    lookahead: int | None = 0
    restart_positions: bool = False
    stale_cache: bool = False
    scaled: bool = True


SOUND = Wiring()
