"""The operations of a :class:`model.decoder.Decoder`, made from its blueprint, in order.

The residual stream between two blocks is one array with two names: ``blocks.N.resid_post`` and
``blocks.N+1.resid_pre``. The residual add at the end of block N records it under both, the same
object, so that a panel that looks at block N+1 finds its input and nothing is held twice.
"""

from __future__ import annotations

from functools import lru_cache

from model import sampling
from model.block_operations import STREAM, Code, block_operations, norm_formula, norm_line
from model.blueprint import Blueprint
from model.operations import Kind, Operation


@lru_cache(maxsize=16)
def decoder_operations(
    blueprint: Blueprint, run: Code, block: Code, widen: Code
) -> tuple[Operation, ...]:
    """All operations of one step; the last one is ``sample``.

    ``run``, ``block`` and ``widen`` are the functions of the decoder that string a pass, a block
    and an MLP together.
    """
    function, mark = norm_line(blueprint)
    return (
        _embedding(blueprint, run),
        *(
            operation
            for layer in range(blueprint.shape.depth)
            for operation in block_operations(blueprint, layer, block, widen)
        ),
        Operation(
            name="ln_final",
            label=f"Final {blueprint.norm}",
            kind=Kind.NORM,
            layer=None,
            outputs=("ln_final",),
            inputs=(f"blocks.{blueprint.shape.depth - 1}.resid_post",),
            axes=STREAM,
            formula=norm_formula("y", "x", blueprint),
            sentence="The residual stream is brought to one size for the last time, for the "
            "unembedding to read.",
            function=function,
            mark=mark,
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


def _embedding(blueprint: Blueprint, run: Code) -> Operation:
    if blueprint.rotary is not None:
        return Operation(
            name="embed",
            label="Embedding",
            kind=Kind.EMBED,
            layer=None,
            outputs=("embed", "blocks.0.resid_pre"),
            inputs=(),
            axes=STREAM,
            formula="x = E[token]",
            sentence="Each token becomes its row of the embedding table, {width} numbers; where it "
            "stands comes in later, when queries and keys are turned.",
            function=run,
            mark="embedded = weights.embedding[token_ids]",
        )
    return Operation(
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
    )
