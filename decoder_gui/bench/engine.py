"""How far the NumPy engine is from the bare matrix products that no NumPy engine can avoid.

A machine's speed may change by a factor of two within minutes. So each round times everything once,
one after the other, and a ratio is the median of the rounds' own ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from decoder_gui.bench.rounds import Progress, median, median_ratio, milliseconds
from model.attention import query_blocks
from model.cache import KvCache
from model.decoder import Decoder
from model.engine import TokenIds
from model.weights import Floats


@dataclass(frozen=True)
class EngineFigures:
    """Times in milliseconds, medians over rounds; ratios are medians of the rounds' ratios.

    Attributes:
        products_ms: the float32 matrix products of one decode step, and nothing else.
        decode_ms: one decode step with everything recorded, which is how the window runs it.
        decode_over_products: how many times the products that takes.
        prefill_products_ms: the products of a prefill.
        prefill_ms: a prefill that records nothing, logits of the last position.
        prefill_over_products: how many times the products that takes.
        record_over_products: the same with everything recorded.
        positions: positions in use: those of the prefill, and the decoded one is the last of them.
    """

    products_ms: float
    decode_ms: float
    decode_over_products: float
    prefill_products_ms: float
    prefill_ms: float
    prefill_over_products: float
    record_over_products: float
    positions: int


def measure_engine(
    decoder: Decoder,
    *,
    positions: int = 512,
    decode_rounds: int = 21,
    prefill_rounds: int = 5,
    progress: Progress | None = None,
) -> EngineFigures:
    """Time a decoder against its own products, on random tokens.

    Args:
        decoder: any; ``model.random_model`` makes one of GPT-2's size.
        positions: positions in use, at most the context.
        progress: told in words what is being timed.
    """
    say = progress or (lambda _: None)
    ids = np.random.default_rng(0).integers(0, decoder.shape.vocabulary, (1, positions))
    cache = decoder.new_cache(positions)

    say(f"prefill of {positions} positions, {prefill_rounds} rounds")
    prefill_products = BareProducts(decoder, positions, positions)

    def prefill() -> None:
        cache.reset()
        decoder.forward(ids, cache)

    def recorded_prefill() -> None:
        cache.reset()
        record_all(decoder, ids, cache)

    prefill_products_ms, prefill_ms, recorded_ms = _rounds(
        (prefill_products, prefill, recorded_prefill), prefill_rounds
    )

    say(f"decoding of position {positions - 1}, {decode_rounds} rounds")
    decode_products = BareProducts(decoder, 1, positions)

    def decode() -> None:
        cache.rewind(positions - 1)
        record_all(decoder, ids[:, -1:], cache)

    decode_products_ms, decode_ms = _rounds((decode_products, decode), decode_rounds)
    return EngineFigures(
        products_ms=median(decode_products_ms),
        decode_ms=median(decode_ms),
        decode_over_products=median_ratio(decode_ms, decode_products_ms),
        prefill_products_ms=median(prefill_products_ms),
        prefill_ms=median(prefill_ms),
        prefill_over_products=median_ratio(prefill_ms, prefill_products_ms),
        record_over_products=median_ratio(recorded_ms, prefill_products_ms),
        positions=positions,
    )


def record_all(decoder: Decoder, ids: TokenIds, cache: KvCache) -> list[Floats]:
    """A pass with every array held until it ends, as a trace holds them."""
    held: list[Floats] = []
    for activations in decoder.walk(ids, cache):
        held.extend(activations.arrays.values())
    return held


class BareProducts:
    """The matrix products of one pass over the decoder's own weights, with results in place.

    Args:
        queries: positions that the pass processes.
        keys: positions in the cache afterwards.
    """

    def __init__(self, decoder: Decoder, queries: int, keys: int) -> None:
        shape = decoder.shape
        generator = np.random.default_rng(1)

        def numbers(*size: int) -> Floats:
            return generator.standard_normal(size, dtype=np.float32)

        weights = decoder.weights
        narrow, wide = numbers(queries, shape.model_dim), numbers(queries, shape.mlp_dim)
        attended = numbers(queries, shape.num_heads * shape.head_dim)
        self._products: list[tuple[Floats, Floats, Floats]] = []
        results: dict[tuple[int, ...], Floats] = {}

        def product(left: Floats, right: Floats) -> None:
            size = (*left.shape[:-1], right.shape[-1])
            result = results.setdefault(size, np.empty(size, dtype=np.float32))
            self._products.append((left, right, result))

        for layer, block in enumerate(weights.blocks):
            product(narrow, block.qkv_weight)
            for left, right in _attention_products(decoder, layer, queries, keys, numbers):
                product(left, right)
            product(attended, block.out_weight)
            if block.gate_weight is not None:
                product(narrow, block.gate_weight)
            product(narrow, block.up_weight)
            product(wide, block.down_weight)
        product(narrow[-1:], weights.unembedding.T)

    @property
    def multiplications(self) -> int:
        """Multiply-adds of all products."""
        return sum(result.size * left.shape[-1] for left, _, result in self._products)

    def __call__(self) -> None:
        """Do them all once."""
        for left, right, result in self._products:
            np.matmul(left, right, out=result)


def _attention_products(
    decoder: Decoder, layer: int, queries: int, keys: int, numbers: Callable[..., Floats]
) -> Iterator[tuple[Floats, Floats]]:
    """Scores and weighted values, for the blocks of queries that the engine takes.

    Query heads that share a key/value head are computed as the engine does it: as rows of one
    product for a single query, otherwise with the shared factor broadcast over them.
    """
    shape = decoder.shape
    kv_heads, width = shape.kv_heads, shape.head_dim
    group = shape.num_heads // kv_heads
    history = numbers(kv_heads, 1, keys, width)
    for block in query_blocks(queries, keys, window=shape.window(layer)):
        seen, count = history[:, :, block.low : block.seen], block.stop - block.start
        front = (kv_heads, 1, group) if count == 1 else (kv_heads, group, count)
        yield numbers(*front, width), seen.swapaxes(-1, -2)
        yield numbers(*front, seen.shape[2]), seen


def _rounds(works: tuple[Callable[[], object], ...], rounds: int) -> list[tuple[float, ...]]:
    """Milliseconds of each work, round by round; a first round warms up and is not counted."""
    for work in works:
        work()
    timed = [[milliseconds(work) for work in works] for _ in range(rounds)]
    return list(zip(*timed, strict=True))
