"""The operations of a :class:`model.decoder.Decoder`, made from its blueprint, in order.

The residual stream between two blocks is one array with two names: ``blocks.N.resid_post`` and
``blocks.N+1.resid_pre``. The residual add at the end of block N records it under both, the same
object, so that a panel that looks at block N+1 finds its input and nothing is held twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from model import attention, layers, sampling
from model.blueprint import Blueprint
from model.cache import KvCache
from model.operations import Kind, Operation

STREAM = ("batch", "pos", "d_model")
HEADS = ("batch", "head", "pos", "d_head")
SQUARE = ("batch", "head", "pos", "key")
WIDE = ("batch", "pos", "d_mlp")

Code = Callable[..., object]


@lru_cache(maxsize=16)
def decoder_operations(blueprint: Blueprint, run: Code, block: Code) -> tuple[Operation, ...]:
    """All operations of one step; the last one is ``sample``.

    ``run`` and ``block`` are the functions of the decoder that string a pass and a block together.
    """
    return (
        Operation(
            name="embed",
            label="Embedding + position",
            kind=Kind.EMBED,
            layer=None,
            outputs=("embed", "pos_embed", "blocks.0.resid_pre"),
            inputs=(),
            axes=STREAM,
            formula="x = E[token] + P[position]",
            sentence="Each token's row of the embedding table, {width} numbers, is added to its "
            "position's row, so that the same token at two places gives two different vectors.",
            function=run,
            mark="hidden = embedded + positioned",
        ),
        *(
            operation
            for layer in range(blueprint.shape.depth)
            for operation in _block_operations(blueprint, layer, block)
        ),
        Operation(
            name="ln_final",
            label=f"Final {blueprint.norm}",
            kind=Kind.NORM,
            layer=None,
            outputs=("ln_final",),
            inputs=(f"blocks.{blueprint.shape.depth - 1}.resid_post",),
            axes=STREAM,
            formula=_norm_formula("y", "x", blueprint),
            sentence="The residual stream is brought to one size for the last time, for the "
            "unembedding to read.",
            function=layers.layer_norm,
            mark="centred /= np.sqrt(",
        ),
        Operation(
            name="logits",
            label="Logits",
            kind=Kind.LOGITS,
            layer=None,
            outputs=("logits",),
            inputs=("ln_final",),
            axes=("batch", "pos", "vocab"),
            formula="l = y·W_U",
            sentence="One dot product per token of the vocabulary, "
            f"{blueprint.shape.vocabulary:,} of them, gives each token's score as the next one; "
            "only the last position's choose anything."
            + (" W_U is the embedding, transposed." if blueprint.tied else ""),
            function=run,
            mark="logits = linear(",
        ),
        Operation(
            name="sample",
            label="Sample",
            kind=Kind.SAMPLE,
            layer=None,
            outputs=(),
            inputs=("logits",),
            axes=(),
            formula="p = softmax(l / temperature), cut, then drawn from",
            sentence="The scores become probabilities, unlikely tokens are cut, and one token is "
            "chosen; it is not in the cache until the next step processes it.",
            function=sampling.draw,
            mark="np.searchsorted(source.cumulative",
        ),
    )


def _norm_formula(result: str, read: str, blueprint: Blueprint) -> str:
    epsilon = f"{blueprint.norm_epsilon:g}"
    return f"{result} = ({read} − mean {read}) / √(var {read} + {epsilon}) · g + b"


def _block_operations(blueprint: Blueprint, layer: int, block: Code) -> Iterator[Operation]:
    """The operations of one block; ``block`` is the function that strings them together."""
    shape = blueprint.shape

    def operation(
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
    ) -> Operation:
        prefix = f"blocks.{layer}."
        named = (name,) if outputs is None else outputs
        return Operation(
            name=prefix + name,
            label=label,
            kind=kind,
            layer=layer,
            outputs=tuple(o if o.startswith("blocks.") else prefix + o for o in named),
            inputs=tuple(prefix + i for i in inputs),
            axes=axes,
            formula=formula,
            sentence=sentence,
            function=function,
            mark=mark,
        )

    yield operation(
        "ln1",
        blueprint.norm,
        Kind.NORM,
        inputs=("resid_pre",),
        axes=STREAM,
        formula=_norm_formula("n", "x", blueprint),
        sentence="Each position's {width} numbers are brought to mean 0 and variance 1, then "
        "scaled and shifted by learned vectors, so that attention reads one size however large "
        "the stream.",
        function=layers.layer_norm,
        mark="centred /= np.sqrt(",
    )
    yield operation(
        "attn.q",
        "Q, K, V",
        Kind.QKV,
        inputs=("ln1",),
        axes=HEADS,
        formula="[q k v] = n·W_QKV + b",
        sentence="One product gives each of the {heads} heads a query, a key and a value for each "
        "position; no position looks at another one yet.",
        function=attention.project_qkv,
        mark="projected = linear(",
        outputs=("attn.q", "attn.k", "attn.v"),
    )
    yield operation(
        "cache",
        "Append K, V to cache",
        Kind.CACHE,
        inputs=("attn.k", "attn.v"),
        axes=(),
        formula="K ← [K; k]   V ← [V; v]",
        sentence="The {queries} new keys and values of block {layer} go into the cache, which "
        "then holds {keys}; later steps read them instead of computing them again.",
        function=KvCache.append,
        mark="self._keys[layer, :, :, start : start + width] = keys",
        outputs=(),
    )
    yield operation(
        "attn.scores",
        "Scores q·k/√d",
        Kind.SCORES,
        inputs=("attn.q", "attn.k"),
        axes=SQUARE,
        formula=f"s = q·k / √{shape.head_dim}",
        sentence=f"Each head compares each query with its own key and those before it, {{keys}} "
        f"at most, by a dot product of {shape.head_dim} numbers; a later key is masked and scores "
        "−∞.",
        function=attention.attention_scores,
        mark="np.matmul(query * scale, keys",
    )
    yield operation(
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
    )
    yield operation(
        "attn.z",
        "Weighted values",
        Kind.MIX,
        inputs=("attn.pattern", "attn.v"),
        axes=HEADS,
        formula="z = Σ a·v",
        sentence="Each query gets the sum of the values that it may see, each times its weight: "
        "this is the only place where positions exchange anything.",
        function=attention.mix_values,
        mark="np.matmul(pattern, values",
    )
    yield operation(
        "attn.out",
        "Output projection",
        Kind.LINEAR,
        inputs=("attn.z",),
        axes=STREAM,
        formula="o = [z of all heads]·W_O + b",
        sentence="The results of the {heads} heads, side by side, are turned into one update of "
        "the residual stream.",
        function=block,
        mark="attention_update = linear(",
    )
    yield operation(
        "resid_mid",
        "Residual add",
        Kind.RESIDUAL,
        inputs=("resid_pre", "attn.out"),
        axes=STREAM,
        formula="r = x + o",
        sentence="Attention's update is added to the residual stream; what was there stays in the "
        "sum.",
        function=block,
        mark="residual = hidden + attention_update",
    )
    yield operation(
        "ln2",
        blueprint.norm,
        Kind.NORM,
        inputs=("resid_mid",),
        axes=STREAM,
        formula=_norm_formula("m", "r", blueprint),
        sentence="The stream is brought to one size again before the MLP reads it.",
        function=layers.layer_norm,
        mark="centred /= np.sqrt(",
    )
    yield operation(
        "mlp.pre",
        "MLP up",
        Kind.LINEAR,
        inputs=("ln2",),
        axes=WIDE,
        formula="h = m·W_up + b",
        sentence=f"Each position is widened from {{width}} numbers to {shape.mlp_dim}, by itself.",
        function=block,
        mark="expanded = linear(",
    )
    yield operation(
        "mlp.post",
        blueprint.activation,
        Kind.ACTIVATION,
        inputs=("mlp.pre",),
        axes=WIDE,
        formula="g = h/2 · (1 + tanh(√(2/π) · (h + 0.044715 h³)))",
        sentence="Large numbers pass, clearly negative ones become almost 0; without such a bend "
        "the two matrices around it would be one.",
        function=layers.gelu_tanh,
        mark="np.tanh(inner",
    )
    yield operation(
        "mlp.out",
        "MLP down",
        Kind.LINEAR,
        inputs=("mlp.post",),
        axes=STREAM,
        formula="f = g·W_down + b",
        sentence=f"The {shape.mlp_dim} numbers of each position become an update of the residual "
        "stream.",
        function=block,
        mark="mlp_update = linear(",
    )
    last = layer == shape.depth - 1
    yield operation(
        "resid_post",
        "Residual add",
        Kind.RESIDUAL,
        inputs=("resid_mid", "mlp.out"),
        axes=STREAM,
        formula="y = r + f",
        sentence="The MLP's update is added to the residual stream, and block {layer} is done.",
        function=block,
        mark="output = residual + mlp_update",
        outputs=("resid_post",) if last else ("resid_post", f"blocks.{layer + 1}.resid_pre"),
    )
