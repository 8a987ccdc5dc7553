"""A complete decoder small enough to check by hand: four words, width 2, one block, one head.

Read it from top to bottom; nothing but the standard library does the arithmetic, in float64. The
coefficients are made up and were never trained, so the sentence that comes out proves nothing about
language. What is real is every operation, their order, and the key-value cache.

Run ``python -m model.tiny`` to see the worked example.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict

from model.errors import ContextOverflow, EmptyPrompt, ShapeMismatch, UnknownToken
from model.wiring import SOUND, Wiring

Vector = list[float]
Row = tuple[float, ...]
Matrix = tuple[Row, ...]

# ---------------------------------------------------------------- vocabulary and coefficients

VOCAB = ("The", "cat", "sat", ".")
TOKEN_IDS = {word: token_id for token_id, word in enumerate(VOCAB)}
WIDTH = 2  # numbers per position in the residual stream, and d_head of the only head
FFN_WIDTH = 3
EPSILON = 1e-6  # keeps RMSNorm from dividing by zero


@dataclass(frozen=True)
class Coefficients:
    """All 58 weights. Vectors are rows: a matrix has one row per input, one column per output."""

    embeddings: Matrix = ((1.0, 0.0), (0.0, 1.0), (1.0, 0.2), (-1.0, 0.0))  # one row per word
    positions: Matrix = ((0.0, 0.0), (0.1, -0.1), (0.2, -0.2), (0.3, -0.3))  # one row per position
    w_q: Matrix = ((0.5, 0.0), (0.0, 0.5))
    w_k: Matrix = ((1.0, 0.2), (-0.3, 1.0))
    w_v: Matrix = ((1.0, 0.0), (0.0, 0.5))
    w_o: Matrix = ((0.5, 0.1), (0.2, 0.5))
    w_up: Matrix = ((1.0, -1.0, 0.5), (0.5, 1.0, -0.5))
    w_down: Matrix = ((0.2, 0.0), (0.0, 0.2), (0.1, -0.1))
    w_lm: Matrix = ((-0.5, 0.2, 0.0, 1.0), (-0.5, 0.1, 1.0, 0.0))
    attention_scale: Row = (1.0, 1.0)
    ffn_scale: Row = (1.0, 1.0)
    final_scale: Row = (1.0, 1.0)


COEFFICIENTS = Coefficients()
CONTEXT = len(COEFFICIENTS.positions)  # four position vectors, so four positions and no more


# ---------------------------------------------------------------- text


def tokenize(text: str) -> list[int]:
    """Ids of the words of a text, which spaces separate: ``"The cat ."`` is three tokens.

    Raises:
        UnknownToken: a word that is not one of the four.
    """
    pieces = text.split()
    for piece in pieces:
        if piece not in TOKEN_IDS:
            raise UnknownToken(
                f"{piece!r} is not in the vocabulary, which is {', '.join(VOCAB)} "
                "(separate words and the full stop by spaces)"
            )
    return [TOKEN_IDS[piece] for piece in pieces]


def decode(ids: Sequence[int]) -> str:
    """The words of some ids with a space between each two, also before the full stop."""
    return " ".join(VOCAB[_known(token_id)] for token_id in ids)


def _known(token_id: int) -> int:
    if not 0 <= token_id < len(VOCAB):
        words = ", ".join(f"{word}={i}" for i, word in enumerate(VOCAB))
        raise UnknownToken(f"token id {token_id} is not in the vocabulary, which is {words}")
    return token_id


# ---------------------------------------------------------------- the arithmetic of vectors


def project(vector: Sequence[float], matrix: Sequence[Sequence[float]]) -> Vector:
    """vector @ matrix: each output is the sum of inputs times one column."""
    if len(vector) != len(matrix):
        raise ShapeMismatch(f"{len(vector)} inputs do not fit a matrix of {len(matrix)} rows")
    columns = range(len(matrix[0]))
    return [sum(value * row[j] for value, row in zip(vector, matrix, strict=True)) for j in columns]


def add(left: Sequence[float], right: Sequence[float]) -> Vector:
    """The sum, number by number: what a residual connection does."""
    return [a + b for a, b in zip(left, right, strict=True)]


def rms_norm(vector: Sequence[float], scale: Sequence[float]) -> Vector:
    """The vector divided by the root of its mean square, then scaled; no mean is subtracted."""
    root = math.sqrt(sum(value * value for value in vector) / len(vector) + EPSILON)
    return [gain * value / root for gain, value in zip(scale, vector, strict=True)]


def softmax(scores: Sequence[float]) -> Vector:
    """Positive weights that sum to 1; the largest score is subtracted: exp cannot overflow."""
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


# ---------------------------------------------------------------- one position, step by step


class PositionTrace(TypedDict):
    """Every intermediate result at one position, in the order in which it is computed."""

    embedding: Vector  # row of the token
    position_vector: Vector  # row of the position
    x: Vector  # their sum: the residual stream at the block's input
    normalized: Vector
    query: Vector
    key: Vector
    value: Vector
    scores: Vector  # one per key that this query may see
    attention_weights: Vector
    mixed: Vector
    attention_update: Vector
    attention_residual: Vector
    ffn_normalized: Vector
    ffn_expanded: Vector
    ffn_activated: Vector
    ffn_update: Vector
    block_output: Vector
    final: Vector
    logits: Vector
    probabilities: Vector
    selected_id: int  # greedy choice: the highest logit, the lowest id among equals


class Embedded(NamedTuple):
    """The input of the block at one position: the sum and its two terms."""

    embedding: Vector
    position_vector: Vector
    x: Vector


def embed(token_id: int, position: int, weights: Coefficients = COEFFICIENTS) -> Embedded:
    """Look up the token's row and the position's row, and add them.

    Raises:
        UnknownToken: no such id. ContextOverflow: no such position.
    """
    if position >= len(weights.positions):
        raise ContextOverflow(position + 1, len(weights.positions))
    embedding = list(weights.embeddings[_known(token_id)])
    position_vector = list(weights.positions[position])
    x = add(embedding, position_vector)
    return Embedded(embedding, position_vector, x)


class Projected(NamedTuple):
    """What attention needs of one position."""

    normalized: Vector
    query: Vector
    key: Vector
    value: Vector


def project_qkv(x: Vector, weights: Coefficients = COEFFICIENTS) -> Projected:
    """Normalise a position and make its query, key and value; no other position is looked at."""
    normalized = rms_norm(x, weights.attention_scale)
    query, key, value = (project(normalized, w) for w in (weights.w_q, weights.w_k, weights.w_v))
    return Projected(normalized, query, key, value)


def attention(
    query: Vector, keys: Sequence[Vector], values: Sequence[Vector], *, scaled: bool = True
) -> tuple[Vector, Vector, Vector]:
    """Scores, weights and mixed value of one query over the keys that it may see.

    Causality is in the caller's hands: a key that must not be seen is not among ``keys``.
    """
    scale = 1.0 / math.sqrt(len(query)) if scaled else 1.0
    scores = [scale * sum(q * k for q, k in zip(query, key, strict=True)) for key in keys]
    attention_weights = softmax(scores)
    mixed = project(attention_weights, values)
    return scores, attention_weights, mixed


def finish_position(
    embedded: Embedded,
    projected: Projected,
    attended: tuple[Vector, Vector, Vector],
    weights: Coefficients = COEFFICIENTS,
) -> PositionTrace:
    """Everything after attention, up to the greedy choice of the next token."""
    scores, attention_weights, mixed = attended
    attention_update = project(mixed, weights.w_o)
    attention_residual = add(embedded.x, attention_update)

    ffn_normalized = rms_norm(attention_residual, weights.ffn_scale)
    ffn_expanded = project(ffn_normalized, weights.w_up)
    ffn_activated = [max(value, 0.0) for value in ffn_expanded]  # this order lets NaN through
    ffn_update = project(ffn_activated, weights.w_down)
    block_output = add(attention_residual, ffn_update)

    final = rms_norm(block_output, weights.final_scale)
    logits = project(final, weights.w_lm)
    probabilities = softmax(logits)
    selected_id = max(range(len(logits)), key=logits.__getitem__)
    return PositionTrace(
        embedding=embedded.embedding,
        position_vector=embedded.position_vector,
        x=embedded.x,
        normalized=projected.normalized,
        query=projected.query,
        key=projected.key,
        value=projected.value,
        scores=scores,
        attention_weights=attention_weights,
        mixed=mixed,
        attention_update=attention_update,
        attention_residual=attention_residual,
        ffn_normalized=ffn_normalized,
        ffn_expanded=ffn_expanded,
        ffn_activated=ffn_activated,
        ffn_update=ffn_update,
        block_output=block_output,
        final=final,
        logits=logits,
        probabilities=probabilities,
        selected_id=selected_id,
    )


# ---------------------------------------------------------------- many positions: cache and mask


@dataclass
class KVCache:
    """Keys and values of the positions processed so far; a deeper model has one of these per block.

    Causality is why it works: a later token cannot change an earlier position, so the earlier
    position's key and value never have to be computed again.
    """

    keys: list[Vector] = field(default_factory=list)
    values: list[Vector] = field(default_factory=list)

    def append(self, key: Vector, value: Vector, *, stale: bool = False) -> None:
        """Add a position. ``stale`` is a deliberate fault: the last row is overwritten instead."""
        if stale:
            self.keys[-1], self.values[-1] = key, value
            key, value = [0.0] * len(key), [0.0] * len(value)  # its own row was never written
        self.keys.append(list(key))
        self.values.append(list(value))


def visible_keys(query: int, keys: int, wiring: Wiring = SOUND) -> int:
    """How many keys, counted from position 0, a query may see: itself and all before it.

    The causal mask in one number. ``lookahead`` is a deliberate fault that lets later keys in.
    """
    if wiring.lookahead is None:
        return keys
    return min(query + 1 + wiring.lookahead, keys)


def run_pass(
    ids: Sequence[int],
    cache: KVCache,
    *,
    wiring: Wiring = SOUND,
    weights: Coefficients = COEFFICIENTS,
) -> list[PositionTrace]:
    """Process some known tokens in one pass on top of a cache: prefill with many, decode with one.

    The cache must come from the same weights and the tokens before these; it grows by ``len(ids)``.

    Raises:
        EmptyPrompt: no tokens. UnknownToken: an id outside the vocabulary.
        ContextOverflow: a fifth position.
    """
    if not ids:
        raise EmptyPrompt
    first = len(cache.keys)
    if first + len(ids) > len(weights.positions):
        raise ContextOverflow(first + len(ids), len(weights.positions))
    offset = 0 if wiring.restart_positions else first
    stale = wiring.stale_cache and first > 0
    embedded = [embed(token_id, offset + i, weights) for i, token_id in enumerate(ids)]
    projected = [project_qkv(position.x, weights) for position in embedded]
    for position in projected:
        cache.append(position.key, position.value, stale=stale)
    return attend_and_finish(embedded, projected, cache, first, wiring=wiring, weights=weights)


def attend_and_finish(
    embedded: Sequence[Embedded],
    projected: Sequence[Projected],
    cache: KVCache,
    first: int,
    *,
    wiring: Wiring = SOUND,
    weights: Coefficients = COEFFICIENTS,
) -> list[PositionTrace]:
    """Let each position from ``first`` on look at the keys it may see, and finish it."""
    traces = []
    for i, (start, own) in enumerate(zip(embedded, projected, strict=True)):
        seen = visible_keys(first + i, len(cache.keys), wiring)
        keys, values = cache.keys[:seen], cache.values[:seen]
        attended = attention(own.query, keys, values, scaled=wiring.scaled)
        traces.append(finish_position(start, own, attended, weights))
    return traces


def full_forward(
    ids: Sequence[int], *, wiring: Wiring = SOUND, weights: Coefficients = COEFFICIENTS
) -> list[PositionTrace]:
    """Process all tokens from nothing, keeping no cache: one trace per position.

    Raises:
        EmptyPrompt, UnknownToken, ContextOverflow: as in :func:`run_pass`.
    """
    return run_pass(ids, KVCache(), wiring=wiring, weights=weights)


def prefill(
    ids: Sequence[int], *, wiring: Wiring = SOUND, weights: Coefficients = COEFFICIENTS
) -> tuple[list[PositionTrace], KVCache]:
    """Process a prompt in one pass and keep the keys and values.

    Raises:
        EmptyPrompt, UnknownToken, ContextOverflow: as in :func:`run_pass`.
    """
    cache = KVCache()
    return run_pass(ids, cache, wiring=wiring, weights=weights), cache


def decode_step(
    token_id: int,
    cache: KVCache,
    *,
    wiring: Wiring = SOUND,
    weights: Coefficients = COEFFICIENTS,
) -> PositionTrace:
    """Process ONE chosen token at the next position and predict the token after it.

    The token that this step selects is not in the cache until it is processed itself.

    Raises:
        UnknownToken: an id outside the vocabulary. ContextOverflow: a fifth position.
    """
    return run_pass([token_id], cache, wiring=wiring, weights=weights)[0]


# ---------------------------------------------------------------- one step of training


class HeadUpdate(NamedTuple):
    """Result of one gradient step on the unembedding matrix alone; losses in nats."""

    head: list[Vector]
    gradients: list[Vector]
    loss_before: float
    loss_after: float


def cross_entropy(logits: Sequence[float], target_id: int) -> float:
    """-ln p(target) in nats, without ever taking the logarithm of a rounded probability."""
    largest = max(logits)
    total = sum(math.exp(logit - largest) for logit in logits)
    return largest + math.log(total) - logits[target_id]


def head_only_training_step(
    hidden: Sequence[float],
    target_id: int,
    learning_rate: float = 0.1,
    *,
    weights: Coefficients = COEFFICIENTS,
) -> HeadUpdate:
    """One gradient step on a COPY of the unembedding, for one fixed final vector (d_model).

    This is not backpropagation through the model: everything before the unembedding stays as it is.
    The gradient of the loss with respect to a logit is its probability, minus 1 at the target.

    Raises:
        UnknownToken: the target is outside the vocabulary.
    """
    logits = project(hidden, weights.w_lm)
    errors = softmax(logits)
    errors[_known(target_id)] -= 1.0
    gradients = [[value * error for error in errors] for value in hidden]
    head = [
        [weight - learning_rate * gradient for weight, gradient in zip(row, slopes, strict=True)]
        for row, slopes in zip(weights.w_lm, gradients, strict=True)
    ]
    return HeadUpdate(
        head=head,
        gradients=gradients,
        loss_before=cross_entropy(logits, target_id),
        loss_after=cross_entropy(project(hidden, head), target_id),
    )


# ---------------------------------------------------------------- the worked example


def show(numbers: Sequence[float]) -> str:
    """Six decimals each, in brackets."""
    return "[" + ", ".join(f"{number:.6f}" for number in numbers) + "]"


def main() -> None:
    """Print the worked example: prefill of "The cat", one decode step, one training step."""
    ids = tokenize("The cat")
    traces, cache = prefill(ids)
    last = traces[-1]
    print("Vocabulary:", ", ".join(f"{word}={token_id}" for token_id, word in enumerate(VOCAB)))
    print(f"Prefill of {decode(ids)!r}, ids {ids}. Position 1, {VOCAB[ids[-1]]!r}:")
    for name, numbers in last.items():
        if isinstance(numbers, list):
            print(f"  {name:<19}{show(numbers)}")
    chosen = last["selected_id"]
    print(f"Highest logit: {VOCAB[chosen]!r} (id {chosen})")

    decoded = decode_step(chosen, cache)
    recomputed = full_forward([*ids, chosen])[-1]
    apart = max(abs(a - b) for a, b in zip(decoded["logits"], recomputed["logits"], strict=True))
    print(f"Decode of {VOCAB[chosen]!r} at position 2: {show(decoded['probabilities'])}")
    print(f"Largest difference from a full pass without the cache: {apart:.1e}")
    following = decoded["selected_id"]
    print(f"Highest logit: {VOCAB[following]!r} (id {following})")
    print(f"Text: {decode([*ids, chosen, following])!r}")
    print(f"Positions in the cache: {len(cache.keys)}; the last token is chosen, not processed.")

    update = head_only_training_step(last["final"], TOKEN_IDS["sat"])
    print(
        f"One step on a copy of the unembedding, target 'sat', learning rate 0.1: "
        f"loss {update.loss_before:.6f} -> {update.loss_after:.6f} nats"
    )


if __name__ == "__main__":
    main()
