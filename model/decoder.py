"""The NumPy engine: prefill and decode of a pre-norm decoder over a key-value cache.

One code path for everything: a prompt, a further chunk and a single token differ only in the number
of queries, and recording only decides whether arrays are handed out and whether memory is used
again. That is why a pass gives the same bits with and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import numpy as np

from model.ablation import UNEDITED, Edit, Edits
from model.attention import (
    attention_scores,
    mix_values,
    project_qkv,
    query_blocks,
    softmax,
)
from model.blueprint import Blueprint
from model.cache import KvCache
from model.decoder_operations import decoder_operations
from model.engine import Activations, Array, Cache, TokenIds
from model.errors import (
    CacheExhausted,
    ContextOverflow,
    EmptyPrompt,
    ShapeMismatch,
    UnknownToken,
)
from model.layers import ACTIVATIONS, NORMS, gate, linear, rms_norm, rotate
from model.operations import Operation
from model.parameters import decoder_parameter
from model.rotary import Rotary, turns
from model.shape import ModelShape
from model.weights import Floats, Weights
from model.wiring import SOUND, Wiring

Remember = Callable[[int, Floats, Floats], tuple[Floats, Floats]]
"""Takes a layer's new keys and values; returns all keys and values of that layer."""

Turns = tuple[Floats, Floats] | None
"""Cosine and sine of each pair at each position, (pos, pairs); None where nothing is turned."""

ESSENTIAL = (".resid_pre", "logits")
"""Endings of the arrays that a pass hands out even when it is not recorded."""


class Recorder:
    """Numbers the operations of a pass as they are done, and hands out their arrays.

    It is also where edits act: on an array that has just been computed, before anything reads it.
    """

    def __init__(
        self,
        operations: tuple[Operation, ...],
        first: int,
        keep: bool,
        edits: Edits = UNEDITED,
        end: int = 0,
    ) -> None:
        self._operations = operations
        self._next = first
        self._edits = edits
        self._end = end  # one past the last position of the pass
        self.keep = keep
        self.whole = keep or bool(edits)  # whether every array must be there as one piece

    def __call__(self, *arrays: Array) -> Activations:
        """The next operation, with its arrays in the order of its ``outputs``, read-only.

        A single array goes under all of the names, as one object.
        """
        index = self._next
        self._next += 1
        outputs = self._operations[index].outputs
        if self._edits and arrays:
            for i, name in enumerate(outputs):
                self._edits.write(name, arrays[i if len(arrays) > 1 else 0], self._end)
        labelled: dict[str, Array] = {}
        views = [array.view() for array in arrays]
        for view in views:
            view.flags.writeable = False
        for i, name in enumerate(outputs if views else ()):
            if self.keep or name.endswith(ESSENTIAL):
                labelled[name] = views[i if len(views) > 1 else 0]
        return Activations(index, labelled)


class Decoder:
    """A pre-norm decoder in float32 with a batch axis throughout; see :class:`model.engine.Engine`.

    Args:
        blueprint: sizes and kinds of parts.
        weights: what :func:`model.weights.build_weights` made for that blueprint; never written.
        wiring: how a pass is wired; anything but the default is a deliberate fault.
        edits: activations that are changed where they are computed.

    Raises:
        EditNotPossible: the model has no such part, or the values do not fit it.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        weights: Weights,
        wiring: Wiring = SOUND,
        edits: Sequence[Edit] = (),
    ) -> None:
        self.blueprint = blueprint
        self.weights = weights
        self._wiring = wiring
        self.edits = tuple(edits)
        self._edits = Edits.of(self.edits, self.operations, self.shape) if edits else UNEDITED
        self._norm = NORMS[blueprint.norm]
        self._bend = ACTIVATIONS[blueprint.activation]
        self._frequencies = None if blueprint.rotary is None else blueprint.rotary.frequencies

    @property
    def shape(self) -> ModelShape:
        return self.blueprint.shape

    @property
    def parameters(self) -> int:
        return self.weights.parameters

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    @property
    def tolerance(self) -> float:
        return 1e-4

    @property
    def norm(self) -> str:
        return str(self.blueprint.norm)

    @property
    def norm_epsilon(self) -> float:
        return self.blueprint.norm_epsilon

    @property
    def activation(self) -> str:
        return str(self.blueprint.activation)

    @property
    def rotary(self) -> Rotary | None:
        return self.blueprint.rotary

    def parameter(self, name: str) -> Array | None:
        """A weight by its canonical name, read-only; see :mod:`model.parameters`."""
        return decoder_parameter(self.weights, self.shape, name)

    @property
    def operations(self) -> tuple[Operation, ...]:
        return decoder_operations(self.blueprint, Decoder.run, Decoder.block, Decoder._widen)

    @property
    def wiring(self) -> Wiring:
        return self._wiring

    def rewired(self, wiring: Wiring) -> Decoder:
        """The same weights, not copied, under another wiring."""
        return Decoder(self.blueprint, self.weights, wiring, self.edits)

    def with_edits(self, edits: Sequence[Edit]) -> Decoder:
        """The same weights, not copied, with other edits; see :class:`model.engine.Engine`."""
        return Decoder(self.blueprint, self.weights, self._wiring, edits)

    def poisoned(self) -> Decoder:
        """One NaN in the MLP of block 1, or of block 0 if that is all; ``mlp.pre`` shows it."""
        return Decoder(self.blueprint, self.weights.poisoned(), self._wiring, self.edits)

    def new_cache(self, capacity: int | None = None, batch: int = 1) -> KvCache:
        """An empty cache; the capacity defaults to the context.

        Raises:
            ContextOverflow: the model has no positions for that capacity.
        """
        shape = self.shape
        positions = shape.context_length if capacity is None else capacity
        if positions > shape.context_length:
            raise ContextOverflow(
                positions, shape.context_length, "the model has no more", what="positions"
            )
        return KvCache(shape.depth, batch, shape.kv_heads, positions, shape.head_dim)

    def walk(
        self, token_ids: TokenIds, cache: Cache, *, keep: bool = True, all_logits: bool = False
    ) -> Iterator[Activations]:
        """One pass, as :meth:`model.engine.Engine.walk` describes it.

        A pass that is not kept still hands out each block's ``resid_pre``, from which
        :meth:`replay_block` brings the rest back. A float32 NaN or infinity is not an error here:
        it is what a debugger has to show.

        Raises:
            EmptyPrompt, UnknownToken, ContextOverflow, CacheExhausted, ShapeMismatch: at once, not
                when the first operation is asked for.
        """
        own = self._check(token_ids, cache)
        return _quietly(self.run(token_ids, own, keep, all_logits))

    def forward(self, token_ids: TokenIds, cache: Cache, *, all_logits: bool = False) -> Array:
        """The logits of a pass, (batch, 1 or pos, vocab)."""
        own = self._check(token_ids, cache)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            for activations in self.run(token_ids, own, False, all_logits):
                last = activations
        return last.arrays["logits"]

    def replay_block(
        self, layer: int, resid_pre: Array, first: int, cache: Cache
    ) -> Iterator[Activations]:
        """One block of an earlier pass again; see :meth:`model.engine.Engine.replay_block`.

        Under the fault ``stale_cache`` only the newest pass can be had again: later ones have
        overwritten rows that it read.

        Raises:
            ShapeMismatch: the cache no longer holds those positions, or the shape is not the
                residual stream's.
        """
        if resid_pre.ndim != 3 or resid_pre.shape[-1] != self.shape.model_dim:
            raise ShapeMismatch(
                f"a residual stream is (batch, pos, {self.shape.model_dim}), not {resid_pre.shape}"
            )
        if not 0 <= layer < self.shape.depth:
            raise ShapeMismatch(f"there is no block {layer} among {self.shape.depth}")
        end = first + resid_pre.shape[1]
        if end > cache.length:
            raise ShapeMismatch(f"the cache holds {cache.length} positions, not {end}")

        def recall(layer: int, keys: Floats, values: Floats) -> tuple[Floats, Floats]:
            return cache.keys(layer)[:, :, :end], cache.values(layer)[:, :, :end]

        start = next(i for i, operation in enumerate(self.operations) if operation.layer == layer)
        record = Recorder(self.operations, start, True, self._edits, end)
        turned = self._turns(first, resid_pre.shape[1])
        return _quietly(self.block(layer, resid_pre, turned, recall, record))

    def replay_mlp(self, layer: int, resid_mid: Array, first: int) -> Iterator[Activations]:
        """The MLP of a block of an earlier pass again, without attention and the last addition.

        ``resid_mid`` is the residual stream between attention and MLP, (batch, pos, d_model), of
        positions first.. . Yields what the pass did, bit for bit.

        Raises:
            ShapeMismatch: the halves of this model's blocks do not follow one another.
        """
        if self.blueprint.parallel:
            raise ShapeMismatch("attention and MLP of this model read the same stream")
        return _quietly(self._second_half(layer, resid_mid, first))

    def _second_half(
        self, layer: int, residual: Floats, first: int
    ) -> Generator[Activations, None, None]:
        weights, name = self.weights.blocks[layer], f"blocks.{layer}.ln2"
        start = next(i for i, operation in enumerate(self.operations) if operation.name == name)
        record = Recorder(self.operations, start, True, self._edits, first + residual.shape[1])
        epsilon = self.blueprint.norm_epsilon
        normalized = self._norm(residual, weights.ln2_gain, weights.ln2_shift, epsilon)
        yield record(normalized)
        activated = yield from self._widen(layer, normalized, record)  # (batch, pos, d_mlp)
        yield record(linear(activated, weights.down_weight, weights.down_bias))

    def run(
        self, token_ids: TokenIds, cache: KvCache, keep: bool, all_logits: bool
    ) -> Iterator[Activations]:
        """The pass itself, without the checks of :meth:`walk`: embedding, blocks, norm, logits."""
        weights = self.weights
        first, count = cache.position, token_ids.shape[1]
        record = Recorder(self.operations, 0, keep, self._edits, first + count)
        newest = cache.length - 1
        stale = self._wiring.stale_cache and newest >= 0
        turned = self._turns(first, count)

        embedded = weights.embedding[token_ids]  # (batch, pos, d_model)
        if weights.position is None:
            hidden = embedded
            yield record(embedded)
        else:
            position = self._position(first)
            positioned = weights.position[position : position + count]  # (pos, d_model)
            hidden = embedded + positioned  # (batch, pos, d_model)
            yield record(embedded, np.broadcast_to(positioned, embedded.shape), hidden)

        def remember(layer: int, keys: Floats, values: Floats) -> tuple[Floats, Floats]:
            return cache.append(layer, keys, values, at=newest if stale else None)

        for layer in range(self.shape.depth):
            hidden = yield from self.block(layer, hidden, turned, remember, record)

        epsilon = self.blueprint.norm_epsilon
        final = self._norm(hidden, weights.final_gain, weights.final_shift, epsilon)
        yield record(final)
        read = final if all_logits else final[:, -1:]  # (batch, pos or 1, d_model)
        logits = linear(read, weights.unembedding.T)  # (batch, pos or 1, vocab)
        cache.advance(count)
        yield record(logits)

    def block(
        self, layer: int, hidden: Floats, turned: Turns, remember: Remember, record: Recorder
    ) -> Generator[Activations, None, Floats]:
        """One block: attention, then an MLP, each reading a norm of the stream and adding to it.

        Args:
            layer: which one.
            hidden: the residual stream at its input, (batch, pos, d_model); not written.
            turned: how far the pairs of queries and keys are turned at its positions.
            remember: where its new keys and values go.
            record: what becomes of its results.

        Returns:
            The residual stream at its output, (batch, pos, d_model).
        """
        weights, epsilon = self.weights.blocks[layer], self.blueprint.norm_epsilon
        normalized = self._norm(hidden, weights.ln1_gain, weights.ln1_shift, epsilon)
        yield record(normalized)
        query, key, value = yield from self._project(layer, normalized, turned, record)
        keys, values = remember(layer, key, value)  # (batch, kv_head, key, d_head) each
        yield record()

        mixed = yield from self._attend(layer, query, keys, values, record)
        attention_update = linear(mixed, weights.out_weight, weights.out_bias)
        yield record(attention_update)
        residual = hidden + attention_update  # (batch, pos, d_model)
        if not self.blueprint.parallel:
            yield record(residual)

        read = hidden if self.blueprint.parallel else residual  # (batch, pos, d_model)
        normalized = self._norm(read, weights.ln2_gain, weights.ln2_shift, epsilon)
        yield record(normalized)
        activated = yield from self._widen(layer, normalized, record)  # (batch, pos, d_mlp)
        mlp_update = linear(activated, weights.down_weight, weights.down_bias)
        yield record(mlp_update)
        output = residual + mlp_update  # (batch, pos, d_model)
        yield record(output)
        return output

    def _project(
        self, layer: int, normalized: Floats, turned: Turns, record: Recorder
    ) -> Generator[Activations, None, tuple[Floats, Floats, Floats]]:
        """Queries, keys and values as attention takes them: brought to one size, and turned."""
        weights, shape = self.weights.blocks[layer], self.shape
        query, key, value = project_qkv(  # (batch, head or kv_head, pos, d_head) each
            normalized, weights.qkv_weight, weights.qkv_bias, shape.num_heads, shape.kv_heads
        )
        yield record(query, key, value)
        if weights.q_norm_gain is not None and weights.k_norm_gain is not None:
            query = rms_norm(query, weights.q_norm_gain, None, self.blueprint.norm_epsilon)
            key = rms_norm(key, weights.k_norm_gain, None, self.blueprint.norm_epsilon)
            yield record(query, key)
        if turned is not None:
            query, key = rotate(query, *turned), rotate(key, *turned)
            yield record(query, key)
        return query, key, value

    def _widen(
        self, layer: int, normalized: Floats, record: Recorder
    ) -> Generator[Activations, None, Floats]:
        """The MLP up to its last matrix, (batch, pos, d_mlp); bent in place if not recorded."""
        weights = self.weights.blocks[layer]
        closed = None
        if weights.gate_weight is not None:
            closed = linear(normalized, weights.gate_weight, weights.gate_bias)
            yield record(closed)
        expanded = linear(normalized, weights.up_weight, weights.up_bias)
        yield record(expanded)
        straight = expanded if closed is None else closed
        activated = self._bend(straight, None if record.keep else straight)
        if closed is not None:
            activated = gate(activated, expanded, out=activated)
        yield record(activated)
        return activated

    def _attend(
        self, layer: int, query: Floats, keys: Floats, values: Floats, record: Recorder
    ) -> Generator[Activations, None, Floats]:
        """Scores, softmax and weighted values, (batch, pos, heads * d_head).

        When nothing is recorded or edited the three are done for one block of queries at a time, so
        that its scores stay in the processor's cache; otherwise each is done for all queries first.
        The products are the same ones.
        """
        batch, heads, count, width = query.shape
        scale = self.shape.scale if self._wiring.scaled else 1.0
        window = self.shape.window(layer)
        blocks = tuple(query_blocks(count, keys.shape[2], self._wiring.lookahead, window))
        mixed = np.empty((batch, count, heads, width), dtype=np.float32)
        by_head = mixed.swapaxes(1, 2)  # (batch, head, pos, d_head)

        if not record.whole:
            for block in blocks:
                weights = attention_scores(query, keys, block, scale)  # (batch, head, block, seen)
                softmax(weights, out=weights)
                mix_values(weights, values, block, out=by_head[:, :, block.start : block.stop])
            yield record()
            yield record()
            yield record()
            return mixed.reshape(batch, count, heads * width)

        square = (batch, heads, count, keys.shape[2])
        scores = np.empty(square, dtype=np.float32)
        for block in blocks:
            rows = scores[:, :, block.start : block.stop]
            rows[..., : block.low] = rows[..., block.seen :] = -np.inf
            attention_scores(query, keys, block, scale, out=rows[..., block.low : block.seen])
        yield record(scores)
        pattern = np.empty(square, dtype=np.float32)
        for block in blocks:
            rows = pattern[:, :, block.start : block.stop]
            rows[..., : block.low] = rows[..., block.seen :] = 0.0
            seen = scores[:, :, block.start : block.stop, block.low : block.seen]
            softmax(seen, out=rows[..., block.low : block.seen])
        yield record(pattern)
        for block in blocks:
            seen = pattern[:, :, block.start : block.stop, block.low : block.seen]
            mix_values(seen, values, block, out=by_head[:, :, block.start : block.stop])
        yield record(by_head)
        return mixed.reshape(batch, count, heads * width)

    def _position(self, first: int) -> int:
        """The position that the first token of a pass is given."""
        return 0 if self._wiring.restart_positions else first

    def _turns(self, first: int, count: int) -> Turns:
        """Cosine and sine for a pass, the same in every layer."""
        rotary = self.blueprint.rotary
        if rotary is None or self._frequencies is None:
            return None
        return turns(self._frequencies, rotary.magnitude, self._position(first), count)

    def _check(self, token_ids: TokenIds, cache: Cache) -> KvCache:
        """The cache, after every reason to refuse a pass before it starts."""
        if not isinstance(cache, KvCache):
            raise ShapeMismatch(f"a {type(cache).__name__} is not a cache of this engine")
        if token_ids.ndim != 2:
            raise ShapeMismatch(f"token ids need the axes (batch, pos), not {token_ids.ndim} axes")
        batch, count = token_ids.shape
        if count == 0:
            raise EmptyPrompt
        if batch != cache.batch:
            raise ShapeMismatch(
                f"a batch of {batch} does not go into a cache for a batch of {cache.batch}"
            )
        low, high, vocabulary = int(token_ids.min()), int(token_ids.max()), self.shape.vocabulary
        if low < 0 or high >= vocabulary:
            raise UnknownToken(
                f"there is no token {low if low < 0 else high}: ids go from 0 to {vocabulary - 1}"
            )
        end = cache.length + count
        if cache.length == 0 and end > cache.capacity:
            raise ContextOverflow(end, cache.capacity)
        if end > cache.capacity:
            raise CacheExhausted(end - 1, cache.capacity)
        if cache.position + count > self.shape.context_length:
            raise ContextOverflow(cache.position + count, self.shape.context_length)
        return cache


def _quietly(activations: Iterator[Activations]) -> Iterator[Activations]:
    """The same, computed without NumPy's warnings; the caller's own setting is left alone."""
    while True:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            item = next(activations, None)
        if item is None:
            return
        yield item
