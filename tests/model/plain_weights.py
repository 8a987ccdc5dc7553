"""The weights of a NumPy decoder as nested lists for the plain loops."""

from __future__ import annotations

import numpy as np

from model.decoder import Decoder
from model.plain import PlainBlock, PlainWeights
from model.weights import BlockWeights


def plain_weights(decoder: Decoder) -> PlainWeights:
    """The same numbers, Q, K and V taken apart."""
    weights = decoder.weights
    tied = decoder.blueprint.tied
    return PlainWeights(
        shape=decoder.shape,
        embedding=weights.embedding.tolist(),
        position=weights.position.tolist(),
        blocks=tuple(_block(block) for block in weights.blocks),
        final_gain=weights.final_gain.tolist(),
        final_shift=weights.final_shift.tolist(),
        unembedding=None if tied else weights.unembedding.T.tolist(),
        epsilon=decoder.blueprint.norm_epsilon,
    )


def _block(block: BlockWeights) -> PlainBlock:
    wq, wk, wv = (part.tolist() for part in np.split(block.qkv_weight, 3, axis=1))
    bq, bk, bv = (part.tolist() for part in np.split(block.qkv_bias, 3))
    return PlainBlock(
        ln1_gain=block.ln1_gain.tolist(),
        ln1_shift=block.ln1_shift.tolist(),
        wq=wq,
        bq=bq,
        wk=wk,
        bk=bk,
        wv=wv,
        bv=bv,
        wo=block.out_weight.tolist(),
        bo=block.out_bias.tolist(),
        ln2_gain=block.ln2_gain.tolist(),
        ln2_shift=block.ln2_shift.tolist(),
        w_up=block.up_weight.tolist(),
        b_up=block.up_bias.tolist(),
        w_down=block.down_weight.tolist(),
        b_down=block.down_bias.tolist(),
    )
