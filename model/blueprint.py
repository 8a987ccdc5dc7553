"""What a decoder is made of, beside its sizes: the facts that choose its arithmetic.

A model family is a map from its own names to these and to :mod:`model.weights`; no shared code asks
for the family. Each enum holds only what the engine can compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from model.errors import ShapeMismatch
from model.shape import ModelShape


class Norm(StrEnum):
    """How the residual stream is normalised before it is read."""

    LAYER_NORM = "LayerNorm"


class Activation(StrEnum):
    """The bend between the two matrices of an MLP."""

    GELU_TANH = "GELU"


class Positions(StrEnum):
    """How the order of the tokens enters the model."""

    LEARNED = "learned"


@dataclass(frozen=True)
class Blueprint:
    """A pre-norm decoder with biases: sizes, and what each part computes.

    Attributes:
        shape: the sizes.
        norm_epsilon: added to the variance under the root.
        tied: the unembedding is the embedding table itself, not a matrix of its own.

    Raises:
        ShapeMismatch: fewer key/value heads than query heads, which no part here computes yet, or
            an epsilon below 0.
    """

    shape: ModelShape
    norm: Norm = Norm.LAYER_NORM
    norm_epsilon: float = 1e-5
    activation: Activation = Activation.GELU_TANH
    positions: Positions = Positions.LEARNED
    tied: bool = True

    def __post_init__(self) -> None:
        if self.shape.kv_heads != self.shape.num_heads:
            raise ShapeMismatch(
                f"{self.shape.num_heads} query heads that share {self.shape.kv_heads} key/value "
                "heads cannot be computed yet"
            )
        if not self.norm_epsilon >= 0:
            raise ShapeMismatch(f"the norm's epsilon must be at least 0, not {self.norm_epsilon}")
