"""A pre-norm decoder in plain loops: the definition, and the oracle for the NumPy engine.

Standard library only, float64, one sequence, no cache. Generating with it recomputes the whole
prefix for every token, which is cubic in the length of the text; that is the cost that a key-value
cache removes, and seeing it here first is the point.

A matrix is a list of rows and maps from its rows to its columns, (in, out): ``out[j] = sum over i
of vector[i] * matrix[i][j]``. Heads are blocks of columns: head ``h`` of a projection is its
columns ``h * head_dim`` to ``(h + 1) * head_dim``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from model.errors import ContextOverflow, EmptyPrompt, ShapeMismatch, UnknownToken
from model.shape import ModelShape

Vector = list[float]
Matrix = list[Vector]

# (vectors, gain, shift, epsilon) -> the normed vectors
Norm = Callable[[Matrix, Vector, Vector | None, float], Matrix]

# Called with a canonical name and the nested lists of that operation, axes as published but without
# the batch axis. ``some_dict.__setitem__`` is one.
Recorder = Callable[[str, list[Vector] | list[Matrix]], None]


def layer_norm(vectors: Matrix, gain: Vector, shift: Vector | None, epsilon: float) -> Matrix:
    """Each vector to mean 0 and variance 1 over its coordinates, then times gain plus shift."""
    shifts = shift or [0.0] * len(gain)
    normed = []
    for vector in vectors:
        mean = math.fsum(vector) / len(vector)
        variance = math.fsum((value - mean) ** 2 for value in vector) / len(vector)
        deviation = math.sqrt(variance + epsilon)
        normed.append(
            [
                (value - mean) / deviation * g + s
                for value, g, s in zip(vector, gain, shifts, strict=True)
            ]
        )
    return normed


def rms_norm(vectors: Matrix, gain: Vector, _shift: Vector | None, epsilon: float) -> Matrix:
    """Each vector over the root of its mean square, then times gain; it has no shift."""
    normed = []
    for vector in vectors:
        root = math.sqrt(math.fsum(value * value for value in vector) / len(vector) + epsilon)
        normed.append([value / root * g for value, g in zip(vector, gain, strict=True)])
    return normed


def gelu(value: float) -> float:
    """The tanh form of the Gaussian error linear unit, as GPT-2 has it."""
    inner = math.sqrt(2.0 / math.pi) * (value + 0.044715 * value * value * value)
    return 0.5 * value * (1.0 + math.tanh(inner))


def relu(value: float) -> float:
    """The number itself, or 0 where it is negative."""
    return max(value, 0.0)


@dataclass(frozen=True)
class PlainBlock:
    """Weights of one block; d is model_dim, q is heads x head_dim, k is kv_heads x head_dim."""

    ln1_gain: Vector  # (d)
    ln1_shift: Vector | None  # (d); None in an RMSNorm
    wq: Matrix  # (d, q)
    bq: Vector | None  # (q)
    wk: Matrix  # (d, k)
    bk: Vector | None  # (k)
    wv: Matrix  # (d, k)
    bv: Vector | None  # (k)
    wo: Matrix  # (q, d)
    bo: Vector | None  # (d)
    ln2_gain: Vector  # (d)
    ln2_shift: Vector | None  # (d); None in an RMSNorm
    w_up: Matrix  # (d, mlp_dim)
    b_up: Vector | None  # (mlp_dim)
    w_down: Matrix  # (mlp_dim, d)
    b_down: Vector | None  # (d)


@dataclass(frozen=True)
class PlainWeights:
    """All weights of a decoder.

    ``unembedding`` None ties it to the embedding. ``epsilon`` belongs to every norm; ``norm`` and
    ``bend``, the activation, are GPT-2's unless others are given.

    Raises:
        ShapeMismatch: tables or blocks that do not fit the shape.
    """

    shape: ModelShape
    embedding: Matrix = field(repr=False)  # (vocabulary, d)
    position: Matrix = field(repr=False)  # (context_length, d)
    blocks: tuple[PlainBlock, ...] = field(repr=False)
    final_gain: Vector = field(repr=False)  # (d)
    final_shift: Vector | None = field(repr=False)  # (d)
    unembedding: Matrix | None = field(default=None, repr=False)  # (d, vocabulary)
    unembedding_bias: Vector | None = field(default=None, repr=False)  # (vocabulary)
    epsilon: float = 1e-5
    norm: Norm = field(default=layer_norm, repr=False)
    bend: Callable[[float], float] = field(default=gelu, repr=False)

    def __post_init__(self) -> None:
        for what, rows, wanted in (
            ("token embeddings", len(self.embedding), self.shape.vocabulary),
            ("position embeddings", len(self.position), self.shape.context_length),
            ("blocks", len(self.blocks), self.shape.depth),
            ("coordinates in an embedding", len(self.embedding[0]), self.shape.model_dim),
        ):
            if rows != wanted:
                raise ShapeMismatch(f"{rows} {what} where the shape says {wanted}")


def softmax(scores: Sequence[float]) -> Vector:
    """Probabilities of scores; -infinity gives 0. The highest is subtracted first."""
    peak = max(scores)
    exponentials = [math.exp(score - peak) for score in scores]
    total = math.fsum(exponentials)
    return [value / total for value in exponentials]


def log_softmax(scores: Sequence[float]) -> Vector:
    """Log-probabilities (nats) without taking the logarithm of a probability."""
    peak = max(scores)
    log_total = math.log(math.fsum(math.exp(score - peak) for score in scores))
    return [score - peak - log_total for score in scores]


def dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def add(left: Matrix, right: Matrix) -> Matrix:
    return [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(left, right, strict=True)]


def linear(vectors: Matrix, matrix: Matrix, bias: Vector | None) -> Matrix:
    """vectors (pos, in) times matrix (in, out) plus bias (out): (pos, out)."""
    columns = list(zip(*matrix, strict=True))
    shift = bias or [0.0] * len(columns)
    return [
        [dot(vector, column) + b for column, b in zip(columns, shift, strict=True)]
        for vector in vectors
    ]


def heads_of(vectors: Matrix, heads: int, head_dim: int) -> list[Matrix]:
    """(pos, heads x head_dim) -> (head, pos, head_dim)."""
    return [
        [vector[head * head_dim : (head + 1) * head_dim] for vector in vectors]
        for head in range(heads)
    ]


def causal_scores(queries: Matrix, keys: Matrix, scale: float) -> Matrix:
    """Scaled scores of one head, (pos, key), with -infinity for every later key.

    That mask is what makes each prediction depend on earlier tokens only; without it a model sees
    the very token that it is asked for, and its loss is splendid and worth nothing.
    """
    return [
        [dot(query, key) * scale if at <= position else -math.inf for at, key in enumerate(keys)]
        for position, query in enumerate(queries)
    ]


def mix(pattern: Matrix, values: Matrix) -> Matrix:
    """Values of one head weighted by its attention: (pos, head_dim)."""
    columns = list(zip(*values, strict=True))
    return [[dot(row, column) for column in columns] for row in pattern]


def _discard(_name: str, _array: list[Vector] | list[Matrix]) -> None:
    """Record nothing."""


def attention(
    normed: Matrix, block: PlainBlock, shape: ModelShape, prefix: str, record: Recorder
) -> Matrix:
    """Multi-head causal attention over normed vectors (pos, d): its update, (pos, d)."""
    queries = heads_of(linear(normed, block.wq, block.bq), shape.num_heads, shape.head_dim)
    keys = heads_of(linear(normed, block.wk, block.bk), shape.kv_heads, shape.head_dim)
    values = heads_of(linear(normed, block.wv, block.bv), shape.kv_heads, shape.head_dim)
    shared = shape.num_heads // shape.kv_heads  # query heads for each key/value head
    scores = [
        causal_scores(query, keys[head // shared], shape.scale)
        for head, query in enumerate(queries)
    ]
    pattern = [[softmax(row) for row in head] for head in scores]
    mixed = [mix(weights, values[head // shared]) for head, weights in enumerate(pattern)]
    for name, array in (
        ("q", queries),
        ("k", keys),
        ("v", values),
        ("scores", scores),
        ("pattern", pattern),
        ("z", mixed),
    ):
        record(f"{prefix}.attn.{name}", array)
    joined = [[value for head in row for value in head] for row in zip(*mixed, strict=True)]
    return linear(joined, block.wo, block.bo)


def run_block(
    residual: Matrix, block: PlainBlock, weights: PlainWeights, prefix: str, record: Recorder
) -> Matrix:
    """One pre-norm block on the residual stream (pos, d): attention, then the MLP, both added."""
    record(f"{prefix}.resid_pre", residual)
    normed = weights.norm(residual, block.ln1_gain, block.ln1_shift, weights.epsilon)
    record(f"{prefix}.ln1", normed)
    update = attention(normed, block, weights.shape, prefix, record)
    record(f"{prefix}.attn.out", update)
    residual = add(residual, update)
    record(f"{prefix}.resid_mid", residual)

    normed = weights.norm(residual, block.ln2_gain, block.ln2_shift, weights.epsilon)
    record(f"{prefix}.ln2", normed)
    hidden = linear(normed, block.w_up, block.b_up)
    record(f"{prefix}.mlp.pre", hidden)
    active = [[weights.bend(value) for value in row] for row in hidden]
    record(f"{prefix}.mlp.post", active)
    update = linear(active, block.w_down, block.b_down)
    record(f"{prefix}.mlp.out", update)
    residual = add(residual, update)
    record(f"{prefix}.resid_post", residual)
    return residual


def forward(
    token_ids: Sequence[int], weights: PlainWeights, record: Recorder = _discard
) -> list[Vector]:
    """Logits for every position, (pos, vocabulary), in one pass.

    As no position sees a later one, all the predictions are valid at once; that is why training is
    parallel over a text and generating it is not.

    Raises:
        EmptyPrompt: no tokens.
        ContextOverflow: more tokens than positions.
        UnknownToken: an id outside the vocabulary.
    """
    passing = walk(token_ids, weights, record)
    while True:
        try:
            next(passing)
        except StopIteration as end:
            logits: list[Vector] = end.value
            return logits


def walk(
    token_ids: Sequence[int], weights: PlainWeights, record: Recorder = _discard
) -> Generator[int, None, list[Vector]]:
    """:func:`forward` as a generator that can be left after each block, whose index it yields."""
    shape = weights.shape
    if not token_ids:
        raise EmptyPrompt
    if len(token_ids) > shape.context_length:
        raise ContextOverflow(len(token_ids), shape.context_length)
    for token in token_ids:
        if not 0 <= token < shape.vocabulary:
            raise UnknownToken(f"token {token} is outside the vocabulary 0..{shape.vocabulary - 1}")

    embedded = [weights.embedding[token] for token in token_ids]
    placed = weights.position[: len(token_ids)]
    record("embed", embedded)
    record("pos_embed", placed)
    residual = add(embedded, placed)
    for layer, block in enumerate(weights.blocks):
        residual = run_block(residual, block, weights, f"blocks.{layer}", record)
        yield layer
    final = weights.norm(residual, weights.final_gain, weights.final_shift, weights.epsilon)
    record("ln_final", final)
    unembedding = weights.unembedding
    if unembedding is None:  # tied: (vocabulary, d) turned into (d, vocabulary)
        unembedding = [list(column) for column in zip(*weights.embedding, strict=True)]
    logits = linear(final, unembedding, weights.unembedding_bias)
    record("logits", logits)
    return logits


def exact_log_likelihood(token_ids: Sequence[int], weights: PlainWeights) -> float:
    """Log-probability (nats) of all tokens but the first, given the first.

    Raises:
        ShapeMismatch: fewer than two tokens; otherwise as :func:`forward`.
    """
    if len(token_ids) < 2:
        raise ShapeMismatch(f"a likelihood needs at least 2 tokens, not {len(token_ids)}")
    logits = forward(token_ids[:-1], weights)
    return math.fsum(
        log_softmax(row)[target] for row, target in zip(logits, token_ids[1:], strict=True)
    )


def training_loss(token_ids: Sequence[int], weights: PlainWeights) -> float:
    """Mean cross-entropy (nats per token) of each next token, given the true ones before it."""
    return -exact_log_likelihood(token_ids, weights) / (len(token_ids) - 1)


def perplexity(token_ids: Sequence[int], weights: PlainWeights) -> float:
    """exp of the training loss."""
    return math.exp(training_loss(token_ids, weights))


def choose(logits: Sequence[float], temperature: float, uniform: float) -> int:
    """The token that a uniform number in [0, 1) selects at a temperature; 0 is greedy.

    The first, by falling probability, whose cumulative mass exceeds its share of the whole mass.
    The whole mass is the last cumulative sum itself, so rounding cannot put the share beyond it.
    """
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    if temperature == 0.0:
        return order[0]
    peak = logits[order[0]]
    cumulative = []
    total = 0.0
    for token in order:
        total += math.exp((logits[token] - peak) / temperature)
        cumulative.append(total)
    return next(
        token for token, reached in zip(order, cumulative, strict=True) if reached > uniform * total
    )


def generate(
    prompt: Sequence[int],
    weights: PlainWeights,
    count: int,
    temperature: float,
    rng: random.Random,
) -> list[int]:
    """The prompt and ``count`` more tokens, each from a full pass over all before it.

    Greedy generation (temperature 0) draws nothing from the generator.

    Raises:
        ShapeMismatch: a temperature that is negative or not finite; otherwise as :func:`forward`.
    """
    if not 0.0 <= temperature < math.inf:
        raise ShapeMismatch(f"temperature must be finite and >= 0, not {temperature}")
    tokens = list(prompt)
    for _ in range(count):
        logits = forward(tokens, weights)[-1]
        tokens.append(choose(logits, temperature, rng.random() if temperature else 0.0))
    return tokens


def random_weights(
    shape: ModelShape,
    seed: int,
    *,
    spread: float = 0.3,
    tied: bool = False,
    unembedding_bias: bool = False,
    epsilon: float = 1e-5,
) -> PlainWeights:
    """Weights drawn from a normal distribution, the same for the same seed.

    Biases are drawn too and gains lie around 1, so that a decoder which forgets one of them gives
    other logits.
    """
    rng = random.Random(seed)

    def vector(size: int, middle: float = 0.0) -> Vector:
        return [rng.gauss(middle, spread) for _ in range(size)]

    def matrix(rows: int, columns: int) -> Matrix:
        return [vector(columns) for _ in range(rows)]

    width, hidden = shape.model_dim, shape.mlp_dim
    queries, keys = shape.num_heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return PlainWeights(
        shape=shape,
        embedding=matrix(shape.vocabulary, width),
        position=matrix(shape.context_length, width),
        blocks=tuple(
            PlainBlock(
                ln1_gain=vector(width, 1.0),
                ln1_shift=vector(width),
                wq=matrix(width, queries),
                bq=vector(queries),
                wk=matrix(width, keys),
                bk=vector(keys),
                wv=matrix(width, keys),
                bv=vector(keys),
                wo=matrix(queries, width),
                bo=vector(width),
                ln2_gain=vector(width, 1.0),
                ln2_shift=vector(width),
                w_up=matrix(width, hidden),
                b_up=vector(hidden),
                w_down=matrix(hidden, width),
                b_down=vector(width),
            )
            for _ in range(shape.depth)
        ),
        final_gain=vector(width, 1.0),
        final_shift=vector(width),
        unembedding=None if tied else matrix(width, shape.vocabulary),
        unembedding_bias=vector(shape.vocabulary) if unembedding_bias else None,
        epsilon=epsilon,
    )
