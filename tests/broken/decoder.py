# mypy: disable-error-code="no-any-return"
"""Somebody else's decoders: plain NumPy, random weights, nothing of this program but the writer.

One is like GPT-2, one like Llama (rotary positions, shared key/value heads, RMSNorm, a gated MLP).
Both are sound. Every part is a method of its own, so that a broken decoder overrides one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.capture import CaptureWriter

Array = NDArray[Any]

DEPTH, WIDTH, HEADS, VOCABULARY, CONTEXT = 2, 16, 4, 23, 24
HEAD = WIDTH // HEADS
TEMPERATURE, TOP_P = 1.5, 0.8
SAMPLING = {"temperature": TEMPERATURE, "top_p": TOP_P, "order": "hugging-face"}


class GptLike:
    """Learned positions, LayerNorm, GELU in its tanh form, as many key as query heads."""

    groups = HEADS
    wide = 4 * WIDTH
    told: dict[str, Any] = {  # noqa: RUF012  never written
        "norm": "LayerNorm",
        "norm_epsilon": 1e-5,
        "activation": "GELU",
    }

    def __init__(self) -> None:
        self.rng = np.random.default_rng(8)
        self.table = self.weight(VOCABULARY, WIDTH) * 4
        self.places = self.weight(CONTEXT, WIDTH) * 2
        shared = (HEADS + 2 * self.groups) * HEAD
        self.blocks = [
            {
                "ln1": self.gain(),
                "qkv": self.weight(WIDTH, shared) * 2,
                "out": self.weight(WIDTH, WIDTH),
                "ln2": self.gain(),
                "gate": self.weight(WIDTH, self.wide),
                "up": self.weight(WIDTH, self.wide),
                "down": self.weight(self.wide, WIDTH),
            }
            for _ in range(DEPTH)
        ]
        self.last = self.gain()
        self.clear()

    def weight(self, *size: int) -> Array:
        return self.rng.normal(0, 0.25, size)

    def gain(self) -> Array:
        """Gain and shift of a norm, one below the other."""
        rows = self.weight(2, WIDTH)
        rows[0] += 1
        return rows

    # ---- the cache

    def clear(self) -> None:
        self.keys = np.zeros((DEPTH, self.groups, CONTEXT, HEAD))
        self.values = np.zeros((DEPTH, self.groups, CONTEXT, HEAD))
        self.length = 0

    def reset(self) -> None:
        """Before another text."""
        self.clear()

    def remember(self, layer: int, k: Array, v: Array) -> tuple[Array, Array]:
        """Write the new rows; returns all rows of the layer."""
        end = self.length + k.shape[1]
        self.keys[layer, :, self.length : end] = k
        self.values[layer, :, self.length : end] = v
        return self.keys[layer, :, :end], self.values[layer, :, :end]

    # ---- the parts

    def positions(self, first: int, count: int) -> NDArray[np.int64]:
        return np.arange(first, first + count)

    def enter(self, ids: Sequence[int], at: NDArray[np.int64], seen: dict[str, Array]) -> Array:
        seen["embed"], seen["pos_embed"] = self.table[list(ids)], self.places[at]
        return seen["embed"] + seen["pos_embed"]

    def norm(self, x: Array, scale: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale[0] + scale[1]

    def project(self, x: Array, block: dict[str, Array]) -> tuple[Array, Array, Array]:
        rows = (x @ block["qkv"]).reshape(len(x), -1, HEAD).swapaxes(0, 1)
        end = HEADS + self.groups
        return rows[:HEADS], rows[HEADS:end], rows[end:]

    def turn(
        self, q: Array, k: Array, at: NDArray[np.int64], seen: dict[str, Array], front: str
    ) -> tuple[Array, Array]:
        return q, k

    def share(self, rows: Array) -> Array:
        return np.repeat(rows, HEADS // self.groups, axis=0)

    def hidden(self, first: int, count: int) -> NDArray[np.bool_]:
        """Which keys a query may not see, (query, key)."""
        return np.arange(first + count) > np.arange(first, first + count)[:, None]

    def scale(self, scores: Array) -> Array:
        return scores / np.sqrt(HEAD)

    def softmax(self, scores: Array) -> Array:
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def merge(self, z: Array) -> Array:
        return z.swapaxes(0, 1).reshape(z.shape[1], WIDTH)

    def bend(self, x: Array) -> Array:
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    def widen(self, x: Array, block: dict[str, Array], seen: dict[str, Array], front: str) -> Array:
        seen[front + "mlp.pre"] = x @ block["up"]
        return self.bend(seen[front + "mlp.pre"])

    def add(self, stream: Array, update: Array) -> Array:
        return stream + update

    def finish(self, x: Array) -> Array:
        return self.norm(x, self.last)

    # ---- a pass

    def attend(
        self, layer: int, q: Array, k: Array, v: Array, seen: dict[str, Array], front: str
    ) -> Array:
        keys, values = self.remember(layer, k, v)
        scores = self.scale(q @ self.share(keys).swapaxes(-1, -2))
        scores[:, self.hidden(self.first, q.shape[1])] = -np.inf
        seen[front + "attn.scores"] = scores
        seen[front + "attn.pattern"] = weights = self.softmax(scores)
        seen[front + "attn.z"] = weights @ self.share(values)
        return seen[front + "attn.z"]

    def forward(self, ids: Sequence[int]) -> dict[str, Array]:
        """One pass over tokens that follow those so far; every array of it."""
        seen: dict[str, Array] = {}
        self.first = self.length
        at = self.positions(self.first, len(ids))
        x = self.enter(ids, at, seen)
        for layer, block in enumerate(self.blocks):
            front = f"blocks.{layer}."
            seen[front + "resid_pre"] = x
            seen[front + "ln1"] = self.norm(x, block["ln1"])
            q, k, v = self.project(seen[front + "ln1"], block)
            seen |= {front + "attn.q": q, front + "attn.k": k, front + "attn.v": v}
            q, k = self.turn(q, k, at, seen, front)
            z = self.attend(layer, q, k, v, seen, front)
            seen[front + "attn.out"] = self.merge(z) @ block["out"]
            seen[front + "resid_mid"] = middle = self.add(x, seen[front + "attn.out"])
            seen[front + "ln2"] = self.norm(middle, block["ln2"])
            seen[front + "mlp.post"] = self.widen(seen[front + "ln2"], block, seen, front)
            seen[front + "mlp.out"] = seen[front + "mlp.post"] @ block["down"]
            seen[front + "resid_post"] = x = middle + seen[front + "mlp.out"]
        self.length = self.first + len(ids)
        seen["ln_final"] = self.finish(x)
        seen["logits"] = seen["ln_final"] @ self.table.T
        return seen

    # ---- the sampler

    def shares(self, logits: Array) -> Array:
        """Probabilities to draw from: the temperature first, then top-p on what it gave."""
        return self.nucleus(self.distribution(logits / TEMPERATURE))

    def distribution(self, logits: Array) -> Array:
        powers = np.exp(logits - logits.max())
        shares: Array = powers / powers.sum()
        return shares

    def nucleus(self, shares: Array) -> Array:
        """The likeliest tokens up to a mass of top_p, made to sum to 1 again."""
        order = np.argsort(-shares, kind="stable")
        before = np.cumsum(shares[order]) - shares[order]
        kept = np.zeros_like(shares)
        kept[order] = np.where(before < TOP_P, shares[order], 0)
        return kept / kept.sum()

    def choose(self, logits: Array, draw: float) -> int:
        """The token on which a draw falls, the likeliest first."""
        shares = self.shares(logits)
        order = np.argsort(-shares, kind="stable")
        return int(order[np.searchsorted(np.cumsum(shares[order]), draw, side="right")])

    # ---- a run

    def record(self, path: Path, chunks: Sequence[Sequence[int]], draws: Sequence[float]) -> None:
        """A prompt in chunks, then a token for each draw; the run is written to a capture."""
        self.forward([5, 4, 3, 2, 1, 0, 6, 7, 8, 9, 10])  # another text before
        self.reset()
        with CaptureWriter(
            path, model=type(self).__name__, num_heads=HEADS, sampling=SAMPLING, **self.told
        ) as writer:
            for chunk in chunks[:-1]:
                writer.step(chunk, self.forward(chunk))
            tokens = list(chunks[-1])
            for draw in draws:
                seen = self.forward(tokens)
                writer.step(tokens, seen, draw=draw)
                tokens = [self.follow(self.choose(seen["logits"][-1], draw))]

    def follow(self, token: int) -> int:
        """The token that is processed next: the one that was chosen."""
        return token


class LlamaLike(GptLike):
    """Rotary positions, two query heads to a key/value head, RMSNorm, a gated MLP with SiLU."""

    groups = HEADS // 2
    told: dict[str, Any] = {  # noqa: RUF012  never written
        "norm": "RMSNorm",
        "norm_epsilon": 1e-5,
        "activation": "SiLU",
        "rotary": {"dims": HEAD, "theta": 100.0},
    }

    def enter(self, ids: Sequence[int], at: NDArray[np.int64], seen: dict[str, Array]) -> Array:
        seen["embed"] = self.table[list(ids)]
        return seen["embed"]

    def norm(self, x: Array, scale: Array) -> Array:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale[0]

    def rotate(self, x: Array, at: NDArray[np.int64]) -> Array:
        """Coordinate i turned with i + HEAD / 2."""
        half = HEAD // 2
        powers = np.arange(0, HEAD, 2, dtype=np.float32) / np.float32(HEAD)
        frequencies = np.float32(1) / np.power(100.0, powers.astype(float)).astype(np.float32)
        angles = at[:, None] * frequencies.astype(float)
        a, b = x[..., :half], x[..., half:]
        turned = [a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)]
        return np.concatenate(turned, axis=-1)

    def turn(
        self, q: Array, k: Array, at: NDArray[np.int64], seen: dict[str, Array], front: str
    ) -> tuple[Array, Array]:
        q, k = self.rotate(q, at), self.rotate(k, at)
        seen |= {front + "attn.rot_q": q, front + "attn.rot_k": k}
        return q, k

    def bend(self, x: Array) -> Array:
        return x / (1 + np.exp(-x))

    def widen(self, x: Array, block: dict[str, Array], seen: dict[str, Array], front: str) -> Array:
        seen[front + "mlp.gate"] = x @ block["gate"]
        seen[front + "mlp.pre"] = x @ block["up"]
        return self.bend(seen[front + "mlp.gate"]) * seen[front + "mlp.pre"]
