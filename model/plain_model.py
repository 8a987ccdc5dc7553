"""An engine's weights as nested lists for the plain loops, as far as these know its parts."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from model import plain
from model.engine import Array
from model.errors import ShapeMismatch
from model.shape import ModelShape

NORMS: dict[str, plain.Norm] = {"LayerNorm": plain.layer_norm, "RMSNorm": plain.rms_norm}
BENDS = {"GELU": plain.gelu, "ReLU": plain.relu}


@runtime_checkable
class Readable(Protocol):
    """What is asked of an engine; both are such, and a recording is not."""

    @property
    def shape(self) -> ModelShape: ...
    @property
    def norm(self) -> str: ...
    @property
    def norm_epsilon(self) -> float: ...
    @property
    def activation(self) -> str: ...
    def parameter(self, name: str) -> Array | None: ...


def plain_weights(engine: object) -> plain.PlainWeights:
    """The same numbers in float64, Q, K and V taken apart.

    Raises:
        ShapeMismatch: the plain loops lack one of its parts; the sentence names it.
    """
    if not isinstance(engine, Readable):
        raise ShapeMismatch("the plain loops need weights, and there are none at hand")
    shape = engine.shape
    position = engine.parameter("pos_embed.W_pos")
    missing = _missing(engine, position)
    if missing:
        raise ShapeMismatch(f"the plain loops have no {missing}, which this model needs")
    return plain.PlainWeights(
        shape=shape,
        embedding=_lists(engine.parameter("embed.W_E")),
        position=_lists(position),
        blocks=tuple(_block(engine, f"blocks.{layer}.") for layer in range(shape.depth)),
        final_gain=_lists(engine.parameter("ln_final.w")),
        final_shift=_optional(engine.parameter("ln_final.b")),
        unembedding=_lists(engine.parameter("unembed.W_U")),
        epsilon=engine.norm_epsilon,
        norm=NORMS[engine.norm],
        bend=BENDS[engine.activation],
    )


def _missing(engine: Readable, position: Array | None) -> str:
    """The first part that the plain loops do not know, in words, or nothing."""
    blueprint: Any = getattr(engine, "blueprint", None)
    lacking = (
        ("rotary positions", position is None),
        (engine.norm, engine.norm not in NORMS),
        (engine.activation, engine.activation not in BENDS),
        ("gate in the MLP", engine.shape.gated),
        ("sliding window", any(engine.shape.windows)),
        ("norm of queries and keys", getattr(blueprint, "qk_norm", False)),
        ("MLP beside attention", getattr(blueprint, "parallel", False)),
    )
    return next((words for words, needed in lacking if needed), "")


def _block(engine: Readable, prefix: str) -> plain.PlainBlock:
    def held(name: str) -> Any:
        return _lists(engine.parameter(prefix + name))

    def bias(name: str) -> Any:
        array = engine.parameter(prefix + name)
        return None if array is None else array.reshape(-1).tolist()

    def heads(name: str) -> Any:  # (head, d_model, d_head) -> (d_model, head * d_head)
        array = _there(engine.parameter(prefix + name))
        return array.swapaxes(0, 1).reshape(array.shape[1], -1).tolist()

    out = _there(engine.parameter(prefix + "attn.W_O"))  # (head, d_head, d_model)
    return plain.PlainBlock(
        ln1_gain=held("ln1.w"),
        ln1_shift=bias("ln1.b"),
        wq=heads("attn.W_Q"),
        bq=bias("attn.b_Q"),
        wk=heads("attn.W_K"),
        bk=bias("attn.b_K"),
        wv=heads("attn.W_V"),
        bv=bias("attn.b_V"),
        wo=out.reshape(-1, out.shape[-1]).tolist(),
        bo=bias("attn.b_O"),
        ln2_gain=held("ln2.w"),
        ln2_shift=bias("ln2.b"),
        w_up=held("mlp.W_in"),
        b_up=bias("mlp.b_in"),
        w_down=held("mlp.W_out"),
        b_down=bias("mlp.b_out"),
    )


def _there(array: Array | None) -> Array:
    if array is None:
        raise ShapeMismatch("the plain loops miss a matrix of this model")
    return array


def _lists(array: Array | None) -> Any:
    return _there(array).tolist()


def _optional(array: Array | None) -> Any:
    return None if array is None else array.tolist()
