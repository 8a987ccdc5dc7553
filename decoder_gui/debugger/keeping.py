"""What of a pass is kept for good, what may give way, and how it is had again.

A block can be recomputed from the residual stream at its input, and so that is kept; of a long pass
the stream between attention and MLP and the last one too, because then either half of a block can
be had without the other. All the rest inside a block gives way when the budget of
:class:`model.trace_memory.TraceMemory` is reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.freed_memory import Holes
from model.engine import Activations, Array, Cache, Engine
from model.operations import Operation
from model.trace import Trace
from model.trace_memory import LARGE, Block, Recorded, TraceMemory

LONG_PASS = 64
"""Positions of a pass from which on a block takes long enough to be recomputed by halves."""

SPARE = 32 * 2**20
"""Bytes of memory that may lie free between steps: arrays that come and go leave holes."""

NOTHING: Mapping[str, Array] = MappingProxyType({})


@runtime_checkable
class ByHalves(Protocol):
    """An engine that can compute the second half of a block without the first."""

    def replay_mlp(self, layer: int, resid_mid: Array, first: int) -> Iterator[Activations]:
        """The operations between attention and the last addition of a block.

        ``resid_mid`` is the residual stream between the halves, (batch, pos, d_model), of positions
        first.. ; yields what the original pass did, bit for bit.
        """
        ...


def names_kept(operations: tuple[Operation, ...], depth: int, *, long_pass: bool) -> frozenset[str]:
    """The arrays of a pass that are kept for good, by canonical name."""
    outside = {name for each in operations if each.layer is None for name in each.outputs}
    kept = outside | {f"blocks.{layer}.resid_pre" for layer in range(depth)}
    if long_pass:
        kept.add(f"blocks.{depth - 1}.resid_post")
        kept |= {f"blocks.{layer}.resid_mid" for layer in range(depth)}
    return frozenset(kept)


class PassKeeper:
    """Sorts the arrays of one pass as they come.

    Args:
        memory: counts and makes room.
        operations: of the engine that runs the pass.
        kept: names of what is kept for good, see :func:`names_kept`.
        spent: bytes kept for good of other passes.

    Attributes:
        fixed: bytes kept for good of this one.
        block_bytes: bytes inside its largest block.
    """

    def __init__(
        self,
        memory: TraceMemory,
        operations: tuple[Operation, ...],
        kept: frozenset[str],
        spent: int,
    ) -> None:
        self._memory, self._operations, self._kept, self._spent = memory, operations, kept, spent
        self._layer: int | None = None
        self._block = Block(memory)
        self._inside = 0  # bytes of the block in hand
        self.fixed = self.block_bytes = 0

    def __call__(self, activations: Activations) -> Mapping[str, Array]:
        """The arrays of one operation, made read-only, as an event holds them."""
        arrays = activations.arrays
        for array in arrays.values():
            read_only(array)
        operation = self._operations[activations.operation]
        if not self._kept.isdisjoint(arrays):
            return self._with_some_kept(operation, arrays)
        return self._inside_block(operation, NOTHING, arrays) if arrays else arrays

    def _with_some_kept(
        self, operation: Operation, arrays: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        # An array with two names is one array: kept under one of them, it is there under both.
        stay = {id(array): nbytes(array) for name, array in arrays.items() if name in self._kept}
        self.fixed += sum(stay.values())
        self._memory.fixed = self._spent + self.fixed
        kept = {name: array for name, array in arrays.items() if id(array) in stay}
        if len(kept) == len(arrays):
            return arrays
        rest = {name: array for name, array in arrays.items() if id(array) not in stay}
        return self._inside_block(operation, kept, rest)

    def _inside_block(
        self, operation: Operation, kept: Mapping[str, Array], arrays: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        if operation.layer != self._layer:
            self._layer, self._block, self._inside = operation.layer, Block(self._memory), 0
            self._memory.expect(self.block_bytes)
        self._memory.add(self._block, arrays)
        for array in arrays.values():
            self._inside += array.nbytes
        self.block_bytes = max(self.block_bytes, self._inside)
        names = operation.outputs if kept is NOTHING else tuple(arrays)
        return Recorded(kept, names, self._block)


class Keeping:
    """The memory of a session's trace, and of the process around it.

    Args:
        engine: whose passes are recorded; other edits of it have the same operations.
        budget: bytes of recorded arrays, see :class:`model.trace_memory.TraceMemory`.
    """

    def __init__(self, engine: Engine, budget: int) -> None:
        self.memory = TraceMemory(budget)
        self._operations = engine.operations
        self._holes = Holes(SPARE)
        self._tidied = 0  # bytes that had given way by then
        self._names = {
            long: names_kept(engine.operations, engine.shape.depth, long_pass=long)
            for long in (False, True)
        }

    def keeper(self, positions: int, spent: int) -> PassKeeper:
        """For a pass of that many positions, with so many bytes kept for good of other passes."""
        return PassKeeper(self.memory, self._operations, self._names[positions >= LONG_PASS], spent)

    def make_room(self, needed: int) -> None:
        """For a block of that many bytes that is about to be recomputed."""
        self.memory.expect(needed, whatever=True)
        if needed > SPARE:
            # What a large block leaves fits the next; what smaller ones leave would lie beside it.
            self._holes.sweep(needed if needed >= LARGE else 0)

    def tidy(self) -> None:
        """Give back holes, if enough has given way since for any to be there."""
        if self.memory.released - self._tidied > SPARE // 2:
            self._tidied = self.memory.released
            self._holes.sweep()


def replayed(
    memory: TraceMemory,
    engine: Engine,
    cache: Cache,
    layer: int,
    first: int,
    resid_pre: Array,
    resid_mid: Array | None = None,
) -> Iterator[Mapping[str, Array]]:
    """What gave way of a block again, bit for bit, after each half what there is by then.

    Args:
        memory: holds it, whatever it takes, until something else is looked at.
        engine, cache: what ran the pass; the cache still holds its positions.
        first: the first position of the pass.
        resid_pre: the residual stream at the block's input, (batch, pos, d_model).
        resid_mid: that between the halves, for the second half first where the engine can.
    """
    long_pass = resid_pre.shape[1] >= LONG_PASS
    kept = names_kept(engine.operations, engine.shape.depth, long_pass=long_pass)
    block = Block(memory)

    def take(done: Activations) -> None:
        arrays = {k: read_only(v) for k, v in done.arrays.items() if k not in kept}
        memory.add(block, arrays, whatever=True)

    second_first = False
    if resid_mid is not None and long_pass and isinstance(engine, ByHalves):
        second_first = True
        for done in engine.replay_mlp(layer, resid_mid, first):
            take(done)
        yield block
    for done in engine.replay_block(layer, resid_pre, first, cache):
        take(done)
        if engine.operations[done.operation].name.endswith(".attn.out"):
            if second_first:
                break
            yield block
    yield block


def recomputed(
    engine: Engine, cache: Cache, layer: int, first: int, resid_pre: Array, name: str
) -> Array | None:
    """One array of a block again, bit for bit, and nothing beyond it; nobody holds the rest."""
    for done in engine.replay_block(layer, resid_pre, first, cache):
        if name in done.arrays:
            return read_only(done.arrays[name])
    return None


def stream_in_hand(trace: Trace, cursor: Cursor | None, step: int, layer: int) -> Array | None:
    """The stream that the MLP of a block reads, where the cursor is in that MLP."""
    if cursor is None:
        return None
    here = trace.operations[cursor.operation]
    if here.layer != layer or not here.short_name.startswith(("ln2", "mlp.")):
        return None
    return trace.array(step, f"blocks.{layer}.resid_mid")


def nbytes(array: Array) -> int:
    """Bytes that an array takes; one that repeats another's numbers takes none of its own."""
    return 0 if 0 in array.strides else array.nbytes


def read_only(array: Array) -> Array:
    """The same array, which nobody can write to any more."""
    if array.flags.writeable:
        array.flags.writeable = False
    return array
