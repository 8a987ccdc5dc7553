# mypy: disable-error-code="no-any-return"
"""The broken decoders: each overrides one part of a sound one, as somebody would get it wrong.

Every class is one bug. ``operation`` and ``step`` are where it is: the operation whose inputs are
right and whose result is not. ``seen_by`` are the checks that see it in a capture alone, with
nothing sound to compare with; the others need weights, or the run is consistent in itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tests.broken.decoder import HEAD, HEADS, TEMPERATURE, WIDTH, Array, GptLike, LlamaLike

PREFILL, CHUNK, DECODE = 0, 1, 2  # steps: the first chunk, the second one, the first token decoded


class Broken(GptLike):
    """What every bug says of itself."""

    operation: ClassVar[str]
    step: ClassVar[int] = PREFILL
    seen_by: ClassVar[frozenset[str]] = frozenset()


ARITHMETIC = frozenset({"arithmetic"})


class MaskAlignedToTheTopLeft(Broken):
    """The triangle begins at key 0 in every chunk, so a later chunk sees too little."""

    operation, step = "blocks.0.attn.scores", CHUNK
    seen_by = ARITHMETIC | {"finite"}  # −∞ where a query may look

    def hidden(self, first: int, count: int) -> NDArray[np.bool_]:
        return ~np.tri(count, first + count, dtype=bool)


class MaskOffByOne(Broken):
    """Every query sees the token after it, too."""

    operation = "blocks.0.attn.scores"
    seen_by = frozenset({"causal-weights"})

    def hidden(self, first: int, count: int) -> NDArray[np.bool_]:
        return np.arange(first + count) > np.arange(first, first + count)[:, None] + 1


class PositionsRestartInDecode(Broken):
    """A decoded token is position 0 again."""

    operation, step = "embed", DECODE
    seen_by = frozenset({"positions"})

    def positions(self, first: int, count: int) -> NDArray[np.int64]:
        return np.arange(count) if count == 1 else super().positions(first, count)


class CacheLengthAdvancedPerLayer(Broken):
    """Each layer counts the new positions, so the next one writes behind where it reads."""

    operation = "blocks.1.cache"
    seen_by = ARITHMETIC

    def remember(self, layer: int, k: Array, v: Array) -> tuple[Array, Array]:
        end = min(self.length + k.shape[1], self.keys.shape[2])
        self.keys[layer, :, self.length : end] = k[:, : end - self.length]
        self.values[layer, :, self.length : end] = v[:, : end - self.length]
        self.length = end
        read = self.first + k.shape[1]
        return self.keys[layer, :, :read], self.values[layer, :, :read]


class CacheNotReset(Broken):
    """The rows of the text before stay: only rows that were never written are written."""

    operation = "blocks.0.cache"
    seen_by = ARITHMETIC | {"cache-constant"}

    def reset(self) -> None:
        self.length = 0

    def remember(self, layer: int, k: Array, v: Array) -> tuple[Array, Array]:
        end = self.length + k.shape[1]
        for held, new in ((self.keys[layer], k), (self.values[layer], v)):
            rows = held[:, self.length : end]
            rows[rows == 0] = new[rows == 0]
        return self.keys[layer, :, :end], self.values[layer, :, :end]


class KeysWrittenAfterAttention(Broken):
    """A decoded token attends to the cache before its own key and value are in it."""

    operation, step = "blocks.0.cache", DECODE
    seen_by = ARITHMETIC

    def remember(self, layer: int, k: Array, v: Array) -> tuple[Array, Array]:
        end = self.length + k.shape[1]
        before = self.keys[layer, :, :end].copy(), self.values[layer, :, :end].copy()
        written = super().remember(layer, k, v)
        return before if k.shape[1] == 1 else written


class NoScale(Broken):
    """Scores are not divided by the root of the head's width."""

    operation = "blocks.0.attn.scores"
    seen_by = ARITHMETIC

    def scale(self, scores: Array) -> Array:
        return scores


class ScaledByTheWholeWidth(Broken):
    """Scores are divided by the root of the model's width, not the head's."""

    operation = "blocks.0.attn.scores"
    seen_by = ARITHMETIC

    def scale(self, scores: Array) -> Array:
        return scores / math.sqrt(WIDTH)


class SoftmaxOverTheHeads(Broken):
    """The weights of all heads for a key sum to 1, not those of all keys for a query."""

    operation = "blocks.0.attn.pattern"
    seen_by = ARITHMETIC | {"rows-sum-to-one"}

    def softmax(self, scores: Array) -> Array:
        powers = np.exp(scores)
        total = powers.sum(0, keepdims=True)
        return powers / np.where(total > 0, total, 1)


class LayerNormEpsilon(Broken):
    """1e-3 under the root, where the weights were trained with 1e-5."""

    operation = "blocks.0.ln1"
    seen_by = ARITHMETIC

    def norm(self, x: Array, scale: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * scale[0] + scale[1]


class LayerNormOverThePositions(Broken):
    """Mean and variance of each coordinate over the positions of the pass."""

    operation = "blocks.0.ln1"
    seen_by = ARITHMETIC

    def norm(self, x: Array, scale: Array) -> Array:
        centred = x - x.mean(0, keepdims=True)
        return centred / np.sqrt((centred**2).mean(0, keepdims=True) + 1e-5) * scale[0] + scale[1]


class ExactGelu(Broken):
    """The exact form, where the weights were trained with the tanh form."""

    operation = "blocks.0.mlp.post"
    seen_by = ARITHMETIC

    def bend(self, x: Array) -> Array:
        return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


class KeysAndValuesSwapped(Broken):
    """The fused projection is parted in the order q, v, k."""

    operation = "blocks.0.attn.q"

    def project(self, x: Array, block: dict[str, Array]) -> tuple[Array, Array, Array]:
        q, k, v = super().project(x, block)
        return q, v, k


class HeadsNotTransposed(Broken):
    """The heads' results are flattened without bringing positions to the front."""

    operation = "blocks.0.attn.out"

    def merge(self, z: Array) -> Array:
        return z.reshape(z.shape[1], WIDTH)


class ResidualMissing(Broken):
    """Attention's update replaces the stream."""

    operation = "blocks.0.resid_mid"
    seen_by = ARITHMETIC

    def add(self, stream: Array, update: Array) -> Array:
        return update


class FinalNormMissing(Broken):
    """The unembedding reads the stream as it is."""

    operation = "ln_final"
    seen_by = ARITHMETIC

    def finish(self, x: Array) -> Array:
        return x


class TruncationBeforeTemperature(Broken):
    """Top-p is measured on the untempered distribution, against the order that is stated."""

    operation, step = "sample", CHUNK
    seen_by = frozenset({"sampling"})

    def shares(self, logits: Array) -> Array:
        kept = self.nucleus(self.distribution(logits))
        with np.errstate(divide="ignore"):
            return self.distribution(np.log(kept) / TEMPERATURE)


class TokenProcessedTwice(Broken):
    """What is fed back is the token before the one that was chosen."""

    operation, step = "sample", CHUNK
    seen_by = frozenset({"sampling"})

    def follow(self, token: int) -> int:
        before, self.held = getattr(self, "held", 11), token
        return before


class RotaryHalvesSwapped(Broken, LlamaLike):
    """The two halves of a head are turned the other way round."""

    operation = "blocks.0.attn.rot_q"
    seen_by = ARITHMETIC | {"positions"}

    def rotate(self, x: Array, at: NDArray[np.int64]) -> Array:
        half = HEAD // 2
        turned = super().rotate(np.roll(x, half, axis=-1), at)
        return np.roll(turned, half, axis=-1)


class RotaryInPairsOfNeighbours(Broken, LlamaLike):
    """Coordinate 2i is turned with 2i + 1, where the weights pair i with i + half."""

    operation = "blocks.0.attn.rot_q"
    seen_by = ARITHMETIC | {"positions"}

    def rotate(self, x: Array, at: NDArray[np.int64]) -> Array:
        apart = np.concatenate([x[..., 0::2], x[..., 1::2]], axis=-1)
        turned = super().rotate(apart, at)
        together = np.empty_like(turned)
        together[..., 0::2], together[..., 1::2] = np.split(turned, 2, axis=-1)
        return together


class RotaryPositionsRestart(Broken, LlamaLike):
    """A decoded token is turned as if it stood at position 0."""

    operation, step = "blocks.0.attn.rot_q", DECODE
    seen_by = ARITHMETIC | {"positions"}

    def positions(self, first: int, count: int) -> NDArray[np.int64]:
        return np.arange(count) if count == 1 else super().positions(first, count)


class KeysCachedBeforeTheyAreTurned(Broken, LlamaLike):
    """Keys go into the cache without their rotation."""

    operation = "blocks.0.cache"
    seen_by = ARITHMETIC

    def attend(
        self, layer: int, q: Array, k: Array, v: Array, seen: dict[str, Array], front: str
    ) -> Array:
        return super().attend(layer, q, seen[front + "attn.k"], v, seen, front)


class CachedKeysTurnedAgain(Broken, LlamaLike):
    """Every pass turns all of the cache by one position, and not its own new keys alone."""

    operation, step = "blocks.0.cache", CHUNK
    seen_by = ARITHMETIC | {"cache-constant"}

    def remember(self, layer: int, k: Array, v: Array) -> tuple[Array, Array]:
        old = self.keys[layer, :, : self.length]
        old[:] = self.rotate(old, np.ones(self.length, dtype=np.int64))
        return super().remember(layer, k, v)


class KeyHeadsInTheWrongOrder(Broken, LlamaLike):
    """Key/value heads are repeated as 0 1 0 1, where query heads share them as 0 0 1 1."""

    operation = "blocks.0.attn.scores"
    seen_by = ARITHMETIC

    def share(self, rows: Array) -> Array:
        return np.tile(rows, (HEADS // self.groups, 1, 1))


class RmsNormThatCentres(Broken, LlamaLike):
    """The mean is taken off, as in a LayerNorm."""

    operation = "blocks.0.ln1"
    seen_by = ARITHMETIC

    def norm(self, x: Array, scale: Array) -> Array:
        return super().norm(x - x.mean(-1, keepdims=True), scale)


class GateAndUpSwapped(Broken, LlamaLike):
    """The widened vector is bent and the gate is not."""

    operation = "blocks.0.mlp.post"
    seen_by = ARITHMETIC

    def widen(self, x: Array, block: dict[str, Array], seen: dict[str, Array], front: str) -> Array:
        super().widen(x, block, seen, front)
        return seen[front + "mlp.gate"] * self.bend(seen[front + "mlp.pre"])


def every_bug() -> Sequence[type[Broken]]:
    """All of them."""
    return [kind for kind in globals().values() if _is_bug(kind)]


def _is_bug(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Broken) and kind is not Broken
