"""What a run costs: weight reads, cache bytes, and the work that the cache saves.

A FLOP is one multiplication or one addition. Only matrix products and attention are counted; norms,
softmax and activations are less than a hundredth of the work at any size in use. Standard library
only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from model.errors import ShapeMismatch
from model.shape import ModelShape


@dataclass
class DecodeStats:
    """Counters of a run, prefill apart from decode.

    The first is bound by arithmetic and the second by reading weights: one figure for both would
    describe neither.
    """

    prefill_tokens: int = 0
    decode_tokens: int = 0
    cache_positions: int = 0
    weight_reads: int = 0

    def record_prefill(self, tokens: int) -> None:
        """Count one parallel pass over ``tokens`` positions: one read of all weights."""
        self.prefill_tokens += tokens
        self.cache_positions += tokens
        self.weight_reads += 1

    def record_decode(self, batch: int = 1) -> None:
        """Count one decode step: one read of all weights for one token of each batch row."""
        self.decode_tokens += batch
        self.cache_positions += batch
        self.weight_reads += 1

    @property
    def tokens_per_weight_read(self) -> float:
        """Tokens processed for each read of the weights; 0 before the first."""
        tokens = self.prefill_tokens + self.decode_tokens
        return tokens / self.weight_reads if self.weight_reads else 0.0


@dataclass(frozen=True)
class Work:
    """FLOPs of some passes with the cache, and of the same passes with everything recomputed."""

    cached: int
    recomputed: int

    @property
    def saved(self) -> float:
        """The fraction of the recomputed work that the cache spares, in [0, 1)."""
        return 1.0 - self.cached / self.recomputed if self.recomputed else 0.0

    @property
    def ratio(self) -> float:
        """How many times the work would be without the cache, at least 1."""
        return self.recomputed / self.cached if self.cached else 1.0


def flops_cached(shape: ModelShape, first: int, count: int) -> int:
    """FLOPs of one pass over positions first .. first + count - 1, the earlier ones cached.

    Each query attends to itself and to what came before it; logits are those of the last position.
    """
    if first < 0 or count < 0:
        raise ShapeMismatch(f"a pass cannot start at position {first} and have {count} positions")
    if not count:
        return 0
    query_width = shape.num_heads * shape.head_dim
    key_width = shape.kv_heads * shape.head_dim
    mlp = shape.mlp_matrices * shape.mlp_dim
    weights = shape.model_dim * (2 * query_width + 2 * key_width + mlp)
    attended = sum(_attended(shape.window(layer), first, count) for layer in range(shape.depth))
    # Scores and mixing are one multiplication and one addition a key and coordinate each.
    blocks = 2 * shape.depth * weights * count + 4 * query_width * attended
    return blocks + 2 * shape.model_dim * shape.vocabulary


def _attended(window: int, first: int, count: int) -> int:
    """Keys seen in a layer of that window (0: all keys), summed over the queries of a pass."""
    last = first + count
    whole = last * (last + 1) // 2 - first * (first + 1) // 2
    if not window:
        return whole
    # A query at a position of at least the window sees that many fewer than all.
    hidden = max(0, last - window), max(0, first - window)
    return whole - hidden[0] * (hidden[0] + 1) // 2 + hidden[1] * (hidden[1] + 1) // 2


def flops_recomputed(shape: ModelShape, total: int) -> int:
    """FLOPs of one pass over ``total`` positions with no cache at all.

    A decoder that also computes the masked half of its scores does more than this.
    """
    return flops_cached(shape, 0, total)


def work_so_far(shape: ModelShape, passes: Iterable[tuple[int, int]]) -> Work:
    """The sums over passes (first position, positions), e.g. a prefill and its decode steps."""
    cached = recomputed = 0
    for first, count in passes:
        cached += flops_cached(shape, first, count)
        recomputed += flops_recomputed(shape, first + count) if count else 0
    return Work(cached, recomputed)


def arithmetic_intensity(parameters: int, batch: int, bytes_per_parameter: float = 2) -> float:
    """FLOPs for each byte of weights read in decode: 2 x batch / bytes per parameter.

    Every parameter is read once and used for one multiplication and one addition a batch row, so
    the number of parameters cancels; it is an argument because the sentence needs it.

    Raises:
        ShapeMismatch: an argument that is not positive.
    """
    if parameters <= 0 or batch <= 0 or bytes_per_parameter <= 0:
        raise ShapeMismatch(
            f"parameters, batch and bytes per parameter must be positive, not {parameters}, "
            f"{batch} and {bytes_per_parameter}"
        )
    return 2 * parameters * batch / (parameters * bytes_per_parameter)


def bytes_moved(shape: ModelShape, first: int, count: int, bytes_per_value: float = 4) -> float:
    """Bytes of weights and cached rows that one pass has to read, each once.

    The weights of the blocks and the unembedding are read once for all positions of the pass, and
    the keys and values of every position so far; the few rows of the embedding are left out.
    """
    query_width = shape.num_heads * shape.head_dim
    key_width = shape.kv_heads * shape.head_dim
    mlp = shape.mlp_matrices * shape.mlp_dim
    blocks = shape.depth * shape.model_dim * (2 * query_width + 2 * key_width + mlp)
    weights = blocks + shape.model_dim * shape.vocabulary
    rows = 2 * shape.depth * key_width * (first + count)
    return (weights + rows) * bytes_per_value


def attention_flops(shape: ModelShape, first: int, count: int) -> int:
    """The part of :func:`flops_cached` that grows with the keys: scores and mixing."""
    attended = sum(_attended(shape.window(layer), first, count) for layer in range(shape.depth))
    return 4 * shape.num_heads * shape.head_dim * attended
