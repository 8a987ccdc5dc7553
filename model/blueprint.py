"""What a decoder is made of, beside its sizes: the facts that choose its arithmetic.

A model family is a map from its own names to these and to :mod:`model.weights`; no shared code asks
for the family. Each enum holds only what the engine can compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from model.errors import ShapeMismatch
from model.rotary import Rotary
from model.shape import ModelShape


class Norm(StrEnum):
    """How the residual stream is normalised before it is read."""

    LAYER_NORM = "LayerNorm"
    RMS_NORM = "RMSNorm"


class Activation(StrEnum):
    """The bend between the matrices of an MLP; ``GELU`` is its tanh form."""

    GELU_TANH = "GELU"
    GELU_EXACT = "exact GELU"
    SILU = "SiLU"


@dataclass(frozen=True)
class Blueprint:
    """A pre-norm decoder: sizes, and what each part computes. The default is GPT-2's.

    Attributes:
        shape: the sizes, with those of the MLP's gate and of the layers' windows.
        norm: the kind of all norms but q/k norm; a LayerNorm has a shift, an RMSNorm has none.
        norm_epsilon: added to the variance, or to the mean square, under the root.
        activation: the bend; in a gated MLP, that of the gate.
        rotary: how queries and keys are turned; None is a learned table of positions.
        tied: the unembedding is the embedding table itself, not a matrix of its own.
        qkv_bias, out_bias, mlp_bias: which matrices have a bias.
        qk_norm: queries and keys are each brought to one size by an RMSNorm over a head.
        parallel: the MLP reads what attention read, not the stream with attention's update.

    Raises:
        ShapeMismatch: more coordinates to turn than a head has, or an epsilon below 0.
    """

    shape: ModelShape
    norm: Norm = Norm.LAYER_NORM
    norm_epsilon: float = 1e-5
    activation: Activation = Activation.GELU_TANH
    rotary: Rotary | None = None
    tied: bool = True
    qkv_bias: bool = True
    out_bias: bool = True
    mlp_bias: bool = True
    qk_norm: bool = False
    parallel: bool = False

    def __post_init__(self) -> None:
        if self.rotary is not None and self.rotary.dims > self.shape.head_dim:
            raise ShapeMismatch(
                f"{self.rotary.dims} coordinates of a head of {self.shape.head_dim} cannot be "
                "turned"
            )
        if not self.norm_epsilon >= 0:
            raise ShapeMismatch(f"the norm's epsilon must be at least 0, not {self.norm_epsilon}")
