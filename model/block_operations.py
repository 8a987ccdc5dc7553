"""The operations of one block of a :class:`model.decoder.Decoder`, made from its blueprint."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from model import attention, layers
from model.blueprint import Activation, Blueprint, Norm
from model.cache import KvCache
from model.operations import Kind, Operation

STREAM = ("batch", "pos", "d_model")
HEADS = ("batch", "head", "pos", "d_head")
SQUARE = ("batch", "head", "pos", "key")
WIDE = ("batch", "pos", "d_mlp")

Code = Callable[..., object]

NORM_LINES: dict[Norm, tuple[Code, str]] = {
    Norm.LAYER_NORM: (layers.layer_norm, "centred /= np.sqrt("),
    Norm.RMS_NORM: (layers.rms_norm, "hidden / np.sqrt("),
}
"""The function of a norm and a text of the line that computes it."""

BENDS: dict[Activation, tuple[str, Code, str]] = {
    Activation.GELU_TANH: (
        "{0}/2 · (1 + tanh(√(2/π) · ({0} + 0.044715 {0}³)))",
        layers.gelu_tanh,
        "np.tanh(inner",
    ),
    Activation.GELU_EXACT: ("{0}/2 · (1 + erf({0}/√2))", layers.gelu_exact, "inner = erf("),
    Activation.SILU: ("{0} / (1 + exp(−{0}))", layers.silu, "np.exp(inner"),
}
"""Formula, function and line of each activation."""


def norm_line(blueprint: Blueprint) -> tuple[Code, str]:
    """The function that norms, and a text of its line that does."""
    return NORM_LINES[blueprint.norm]


def norm_formula(result: str, read: str, blueprint: Blueprint) -> str:
    """A norm in one line."""
    epsilon = f"{blueprint.norm_epsilon:g}"
    if blueprint.norm is Norm.RMS_NORM:
        return f"{result} = {read} / √(mean {read}² + {epsilon}) · g"
    return f"{result} = ({read} − mean {read}) / √(var {read} + {epsilon}) · g + b"


class _Maker:
    """Makes the operations of one layer: names get the layer's prefix."""

    def __init__(self, layer: int) -> None:
        self._layer = layer

    def __call__(
        self,
        name: str,
        label: str,
        kind: Kind,
        *,
        inputs: tuple[str, ...],
        axes: tuple[str, ...],
        formula: str,
        sentence: str,
        function: Code,
        mark: str,
        outputs: tuple[str, ...] | None = None,
        window: int = 0,
    ) -> Operation:
        prefix = f"blocks.{self._layer}."
        named = (name,) if outputs is None else outputs
        return Operation(
            name=prefix + name,
            label=label,
            kind=kind,
            layer=self._layer,
            outputs=tuple(o if o.startswith("blocks.") else prefix + o for o in named),
            inputs=tuple(prefix + i for i in inputs),
            axes=axes,
            formula=formula,
            sentence=sentence,
            function=function,
            mark=mark,
            window=window,
        )


def block_operations(
    blueprint: Blueprint, layer: int, block: Code, widen: Code
) -> Iterator[Operation]:
    """The operations of one block, in order.

    ``block`` and ``widen`` are the functions of the decoder that string a block and an MLP
    together.
    """
    make = _Maker(layer)
    yield from _projections(blueprint, make)
    yield from _attention(blueprint, layer, make, block)
    yield from _mlp(blueprint, make, block, widen)
    last = layer == blueprint.shape.depth - 1
    parallel = blueprint.parallel
    yield make(
        "resid_post",
        "Residual add",
        Kind.RESIDUAL,
        inputs=("resid_pre", "attn.out", "mlp.out") if parallel else ("resid_mid", "mlp.out"),
        axes=STREAM,
        formula="y = x + o + f" if parallel else "y = r + f",
        sentence="Both updates, attention's and the MLP's, are added to the residual stream, and "
        "block {layer} is done."
        if parallel
        else "The MLP's update is added to the residual stream, and block {layer} is done.",
        function=block,
        mark="output = residual + mlp_update",
        outputs=("resid_post",) if last else ("resid_post", f"blocks.{layer + 1}.resid_pre"),
    )


def _projections(blueprint: Blueprint, make: _Maker) -> Iterator[Operation]:
    """The first norm, and queries, keys and values as attention takes them."""
    shape = blueprint.shape
    function, mark = norm_line(blueprint)
    yield make(
        "ln1",
        blueprint.norm,
        Kind.NORM,
        inputs=("resid_pre",),
        axes=STREAM,
        formula=norm_formula("n", "x", blueprint),
        sentence="Each position's {width} numbers are "
        + (
            "divided by their root mean square, then scaled by a learned vector, "
            if blueprint.norm is Norm.RMS_NORM
            else "brought to mean 0 and variance 1, then scaled and shifted by learned vectors, "
        )
        + "so that attention reads one size however large the stream.",
        function=function,
        mark=mark,
    )
    shared = shape.kv_heads < shape.num_heads
    yield make(
        "attn.q",
        "Q, K, V",
        Kind.QKV,
        inputs=("ln1",),
        axes=HEADS,
        formula=f"[q k v] = n·W_QKV{' + b' if blueprint.qkv_bias else ''}",
        sentence=(
            f"One product gives each position {{heads}} queries, and {shape.kv_heads} keys and "
            f"values, each shared by {shape.num_heads // shape.kv_heads} of the heads; no position "
            "looks at another one yet."
            if shared
            else "One product gives each of the {heads} heads a query, a key and a value for each "
            "position; no position looks at another one yet."
        ),
        function=attention.project_qkv,
        mark="projected = linear(",
        outputs=("attn.q", "attn.k", "attn.v"),
    )
    read = ("attn.q", "attn.k")
    if blueprint.qk_norm:
        yield make(
            "attn.q_norm",
            "Q, K norm",
            Kind.NORM,
            inputs=read,
            axes=HEADS,
            formula=f"q′ = q / √(mean q² + {blueprint.norm_epsilon:g}) · g   k′ likewise",
            sentence=f"The {shape.head_dim} numbers of each query and each key are divided by "
            "their root mean square and scaled by a learned vector, so that no score can grow "
            "without bound.",
            function=layers.rms_norm,
            mark=NORM_LINES[Norm.RMS_NORM][1],
            outputs=("attn.q_norm", "attn.k_norm"),
        )
        read = ("attn.q_norm", "attn.k_norm")
    if blueprint.rotary is not None:
        rotary = blueprint.rotary
        scaled = f", stretched by {rotary.scaling.name}" if rotary.scaling else ""
        yield make(
            "attn.rot_q",
            "Rotary",
            Kind.ROTARY,
            inputs=read,
            axes=HEADS,
            formula="[a b] → [a·cos t − b·sin t, b·cos t + a·sin t]   "
            f"t = position · {rotary.theta:g}^(−2i/{rotary.dims}){scaled}",
            sentence=f"Coordinates i and i + {rotary.dims // 2} of each query and key are turned "
            "by an angle that grows with the position, so that a score depends on how far apart "
            "the two are.",
            function=layers.rotate,
            mark="np.subtract(turned[0], second * sine",
            outputs=("attn.rot_q", "attn.rot_k"),
        )


def _attention(blueprint: Blueprint, layer: int, make: _Maker, block: Code) -> Iterator[Operation]:
    """The cache, and what happens between positions."""
    shape = blueprint.shape
    window = shape.window(layer)
    turned = blueprint.rotary is not None
    query, key = ("attn.rot_q", "attn.rot_k") if turned else ("attn.q", "attn.k")
    if blueprint.qk_norm and not turned:
        query, key = "attn.q_norm", "attn.k_norm"
    yield make(
        "cache",
        "Append K, V to cache",
        Kind.CACHE,
        inputs=(key, "attn.v"),
        axes=(),
        formula="K ← [K; k]   V ← [V; v]",
        sentence="The {queries} new keys and values of block {layer} go into the cache, which "
        "then holds {keys}; later steps read them instead of computing them again.",
        function=KvCache.append,
        mark="self._keys[layer, :, :, start : start + width] = keys",
        outputs=(),
    )
    yield make(
        "attn.scores",
        "Scores q·k/√d",
        Kind.SCORES,
        inputs=(query, key),
        axes=SQUARE,
        formula=f"s = q·k / √{shape.head_dim}",
        sentence="Each head compares each query with its own key and those before it, "
        + (f"{window} at most, " if window else "{keys} at most, ")
        + f"by a dot product of {shape.head_dim} numbers; a later key "
        + ("or an older one " if window else "")
        + "is masked and scores −∞.",
        function=attention.attention_scores,
        mark="np.matmul(rows, shared",
        window=window,
    )
    yield make(
        "attn.pattern",
        "Softmax",
        Kind.PATTERN,
        inputs=("attn.scores",),
        axes=SQUARE,
        formula="a = exp(s − max s) / Σ exp(s − max s)",
        sentence="Each head turns a query's scores, {keys} at most, into weights that sum to 1; a "
        "score of −∞ becomes a weight of exactly 0, so a later position cannot leak.",
        function=attention.softmax,
        mark="weights /= total",
        window=window,
    )
    yield make(
        "attn.z",
        "Weighted values",
        Kind.MIX,
        inputs=("attn.pattern", "attn.v"),
        axes=HEADS,
        formula="z = Σ a·v",
        sentence="Each query gets the sum of the values that it may see, each times its weight: "
        "this is the only place where positions exchange anything.",
        function=attention.mix_values,
        mark="np.matmul(rows, shared",
    )
    yield make(
        "attn.out",
        "Output projection",
        Kind.LINEAR,
        inputs=("attn.z",),
        axes=STREAM,
        formula=f"o = [z of all heads]·W_O{' + b' if blueprint.out_bias else ''}",
        sentence="The results of the {heads} heads, side by side, are turned into one update of "
        "the residual stream.",
        function=block,
        mark="attention_update = linear(",
    )
    if not blueprint.parallel:
        yield make(
            "resid_mid",
            "Residual add",
            Kind.RESIDUAL,
            inputs=("resid_pre", "attn.out"),
            axes=STREAM,
            formula="r = x + o",
            sentence="Attention's update is added to the residual stream; what was there stays in "
            "the sum.",
            function=block,
            mark="residual = hidden + attention_update",
        )


def _mlp(blueprint: Blueprint, make: _Maker, block: Code, widen: Code) -> Iterator[Operation]:
    """The second norm and the MLP."""
    shape = blueprint.shape
    function, mark = norm_line(blueprint)
    read, symbol = ("resid_pre", "x") if blueprint.parallel else ("resid_mid", "r")
    bias = " + b" if blueprint.mlp_bias else ""
    yield make(
        "ln2",
        blueprint.norm,
        Kind.NORM,
        inputs=(read,),
        axes=STREAM,
        formula=norm_formula("m", symbol, blueprint),
        sentence="What attention read is brought to one size by other vectors for the MLP, which "
        "works beside attention and not after it."
        if blueprint.parallel
        else "The stream is brought to one size again before the MLP reads it.",
        function=function,
        mark=mark,
    )
    if shape.gated:
        yield make(
            "mlp.gate",
            "MLP gate",
            Kind.LINEAR,
            inputs=("ln2",),
            axes=WIDE,
            formula=f"e = m·W_gate{bias}",
            sentence=f"A second matrix, {{width}} by {shape.mlp_dim}, says for each of the "
            f"{shape.mlp_dim} numbers how much of it is let through.",
            function=widen,
            mark="closed = linear(",
        )
    yield make(
        "mlp.pre",
        "MLP up",
        Kind.LINEAR,
        inputs=("ln2",),
        axes=WIDE,
        formula=f"h = m·W_up{bias}",
        sentence=f"Each position is widened from {{width}} numbers to {shape.mlp_dim}, by itself.",
        function=widen,
        mark="expanded = linear(",
    )
    yield _bend(blueprint, make)
    yield make(
        "mlp.out",
        "MLP down",
        Kind.LINEAR,
        inputs=("mlp.post",),
        axes=STREAM,
        formula=f"f = g·W_down{bias}",
        sentence=f"The {shape.mlp_dim} numbers of each position become an update of the residual "
        "stream.",
        function=block,
        mark="mlp_update = linear(",
    )


def _bend(blueprint: Blueprint, make: _Maker) -> Operation:
    formula, function, mark = BENDS[blueprint.activation]
    if blueprint.shape.gated:
        return make(
            "mlp.post",
            f"{blueprint.activation} gate × up",
            Kind.ACTIVATION,
            inputs=("mlp.gate", "mlp.pre"),
            axes=WIDE,
            formula=f"g = {formula.format('e')} · h",
            sentence="The gate is bent: large numbers pass, clearly negative ones become almost 0; "
            "then each widened number is multiplied by its gate.",
            function=layers.gate,
            mark="np.multiply(opened, expanded",
        )
    return make(
        "mlp.post",
        blueprint.activation,
        Kind.ACTIVATION,
        inputs=("mlp.pre",),
        axes=WIDE,
        formula=f"g = {formula.format('h')}",
        sentence="Large numbers pass, clearly negative ones become almost 0; without such a bend "
        "the two matrices around it would be one.",
        function=function,
        mark=mark,
    )
