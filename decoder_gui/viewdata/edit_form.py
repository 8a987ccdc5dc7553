"""What a form for an edit of the engine offers, and what it brings back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EditKind(StrEnum):
    """What can be done; the value is what the form says."""

    ZERO_HEAD = "Zero a head"
    ZERO_MLP = "Zero an MLP"
    PATCH = "Patch an activation"


HELP = {
    EditKind.ZERO_HEAD: "What the head found (attn.z) becomes 0 from the step on.",
    EditKind.ZERO_MLP: "What the MLP adds to the residual stream becomes 0 from the step on.",
    EditKind.PATCH: "At one position the activation becomes what was recorded at another position, "
    "or in another branch; everything after it is computed from that.",
}


@dataclass(frozen=True)
class EditChoices:
    """What there is to choose from, and what is suggested.

    Attributes:
        layers, heads: of the model.
        steps, positions: of the branch in hand.
        sources: positions of the longest branch.
        names: canonical names of the arrays that can be patched.
        branches: number and name of each branch; the one in hand first.
        layer, head, step, position, name: suggested.
    """

    layers: int
    heads: int
    steps: int
    positions: int
    sources: int
    names: tuple[str, ...]
    branches: tuple[tuple[int, str], ...]
    layer: int = 0
    head: int = 0
    step: int = 0
    position: int = 0
    name: str = ""


@dataclass(frozen=True)
class EditWish:
    """What was asked for; only the fields of its kind mean anything.

    ``head`` is None in a patch of all heads.
    """

    kind: EditKind
    layer: int
    head: int | None
    step: int
    name: str
    position: int
    source: int
    branch: int
    same_tokens: bool
