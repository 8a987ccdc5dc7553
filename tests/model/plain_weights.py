"""The weights of a NumPy decoder as nested lists for the plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from model.decoder import Decoder
from model.plain import PlainBlock, PlainWeights
from model.weights import BlockWeights, Floats


def plain_weights(decoder: Decoder) -> PlainWeights:
    """The same numbers, Q, K and V taken apart."""
    weights = decoder.weights
    tied = decoder.blueprint.tied
    return PlainWeights(
        shape=decoder.shape,
        embedding=weights.embedding.tolist(),
        position=_numbers(weights.position),
        blocks=tuple(_block(block) for block in weights.blocks),
        final_gain=weights.final_gain.tolist(),
        final_shift=_numbers(weights.final_shift),
        unembedding=None if tied else weights.unembedding.T.tolist(),
        epsilon=decoder.blueprint.norm_epsilon,
    )


def _numbers(array: Floats | None) -> Any:
    """Nested lists; the plain loops know only decoders that have all of these."""
    assert array is not None
    return array.tolist()


def _block(block: BlockWeights) -> PlainBlock:
    wq, wk, wv = (part.tolist() for part in np.split(block.qkv_weight, 3, axis=1))
    bq, bk, bv = (part.tolist() for part in np.split(np.array(_numbers(block.qkv_bias)), 3))
    return PlainBlock(
        ln1_gain=_numbers(block.ln1_gain),
        ln1_shift=_numbers(block.ln1_shift),
        wq=wq,
        bq=bq,
        wk=wk,
        bk=bk,
        wv=wv,
        bv=bv,
        wo=_numbers(block.out_weight),
        bo=_numbers(block.out_bias),
        ln2_gain=_numbers(block.ln2_gain),
        ln2_shift=_numbers(block.ln2_shift),
        w_up=_numbers(block.up_weight),
        b_up=_numbers(block.up_bias),
        w_down=_numbers(block.down_weight),
        b_down=_numbers(block.down_bias),
    )
