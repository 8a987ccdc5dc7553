"""The dimensions of a decoder, derived once so that no call site works them out again."""

from __future__ import annotations

import math
from dataclasses import dataclass

from model.errors import ShapeMismatch


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder-only transformer.

    ``kv_heads``, ``head_dim`` and ``mlp_dim`` may be left at 0, which means "as in a plain GPT-2":
    as many key/value heads as query heads, ``model_dim / num_heads`` and ``4 * model_dim``.

    Attributes:
        gated: the MLP has a third matrix, whose bent result multiplies the widened vector.
        windows: for each layer, how many keys a query may see at most, its own included; 0 is all
            of them. Left empty, every layer sees all.

    Raises:
        ShapeMismatch: a size is not positive, or the width does not divide into the heads.
    """

    depth: int
    model_dim: int
    num_heads: int
    context_length: int
    vocabulary: int
    kv_heads: int = 0
    head_dim: int = 0
    mlp_dim: int = 0
    gated: bool = False
    windows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("depth", "model_dim", "num_heads", "context_length", "vocabulary"):
            if getattr(self, name) < 1:
                raise ShapeMismatch(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.head_dim and self.model_dim % self.num_heads:
            raise ShapeMismatch(
                f"a width of {self.model_dim} does not divide into {self.num_heads} heads"
            )
        kv_heads = self.kv_heads or self.num_heads
        if kv_heads < 1 or self.num_heads % kv_heads:
            raise ShapeMismatch(
                f"{self.num_heads} query heads cannot share {kv_heads} key/value heads evenly"
            )
        if self.windows and (len(self.windows) != self.depth or min(self.windows) < 0):
            raise ShapeMismatch(
                f"{self.depth} layers need as many windows of at least 0, not {self.windows}"
            )
        object.__setattr__(self, "kv_heads", kv_heads)
        object.__setattr__(self, "head_dim", self.head_dim or self.model_dim // self.num_heads)
        object.__setattr__(self, "mlp_dim", self.mlp_dim or 4 * self.model_dim)

    @property
    def scale(self) -> float:
        """The factor 1/sqrt(d_head) on every attention score."""
        return 1.0 / math.sqrt(self.head_dim)

    @property
    def mlp_matrices(self) -> int:
        """Matrices of an MLP, all of d_model x d_mlp numbers."""
        return 3 if self.gated else 2

    def window(self, layer: int) -> int:
        """How many keys a query may see at most in a layer, its own included; 0 is all of them."""
        return self.windows[layer] if self.windows else 0

    def cache_bytes(
        self, batch: int = 1, bytes_per_value: int = 2, positions: int | None = None
    ) -> int:
        """Bytes of keys and values: 2 x layers x batch x positions x kv_heads x d_head x bytes.

        ``positions`` defaults to the whole context: what must be reserved, not what is in use.
        """
        count = self.context_length if positions is None else positions
        return 2 * self.depth * batch * count * self.kv_heads * self.head_dim * bytes_per_value
