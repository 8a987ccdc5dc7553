"""The bytes that recorded arrays may take: blocks that nobody has looked at for long give way.

What a block can be computed again from is kept for good. All that is inside a block is held for as
long as a budget allows, whether it was recorded or recomputed, and let go of as a whole. The thread
that computes lets go at once, so that the budget holds however late another thread hears of it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from threading import Lock
from weakref import ref

from model.engine import Array

SPARE = 16 * 2**20
"""Bytes of recomputed blocks that are held whatever the budget: some arithmetic reads several."""

LARGE = 64 * 2**20
"""Bytes of a block from which on it is costly to have again: small ones do not push it out."""


class Block(Mapping[str, Array]):
    """The arrays inside one block of one pass, by canonical name; empty once they gave way.

    Looking one up counts as looking at the block.
    """

    __slots__ = ("__weakref__", "_arrays", "_memory")

    def __init__(self, memory: TraceMemory) -> None:
        self._memory = memory
        self._arrays: dict[str, Array] = {}  # replaced, never changed: another thread may read it

    def __getitem__(self, name: str) -> Array:
        found = self._arrays[name]
        self._memory.touch(self)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class Recorded(Mapping[str, Array]):
    """The arrays of one operation: some are kept for good, the others until their block gives way.

    Args:
        kept: those that stay.
        names: those in the block.
        block: what holds them.
    """

    __slots__ = ("_block", "_kept", "_names")

    def __init__(self, kept: Mapping[str, Array], names: tuple[str, ...], block: Block) -> None:
        self._kept, self._names, self._block = kept, names, block

    def __getitem__(self, name: str) -> Array:
        found = self._kept.get(name)
        if found is None and name in self._names:
            found = self._block.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._kept or (name in self._names and name in self._block)

    def __iter__(self) -> Iterator[str]:
        yield from self._kept
        yield from (name for name in self._names if name in self._block)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class FirstRows(Mapping[str, Array]):
    """The arrays of a pass as far as its first positions go, as views made when they are asked for.

    Args:
        source: arrays (..., pos, n).
        rows: how many positions are left.
        whole: how many there are; an array with another number of them is left out.
        keys: how much is left of the last axis; all of it where None.
    """

    __slots__ = ("_keys", "_rows", "_source", "_whole")

    def __init__(
        self, source: Mapping[str, Array], rows: int, whole: int, keys: int | None
    ) -> None:
        self._source, self._rows, self._whole, self._keys = source, rows, whole, keys

    def __getitem__(self, name: str) -> Array:
        array = self._source[name]
        if array.shape[-2] != self._whole:  # the logits of the last position alone
            raise KeyError(name)
        return array[..., : self._rows, : self._keys]

    def __iter__(self) -> Iterator[str]:
        for name in self._source:
            array = self._source.get(name)  # it may give way meanwhile
            if array is not None and array.shape[-2] == self._whole:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


class TraceMemory:
    """Counts what a run's trace holds, and makes room.

    Blocks belong to whoever holds their events: one that nobody holds any more takes no room.

    Attributes:
        budget: bytes that everything recorded may take together.
        released: bytes that have been let go of so far.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.released = 0
        self._fixed = 0
        self._lock = Lock()
        # By identity, the block looked at longest ago in front: a reference, and its bytes.
        self._blocks: OrderedDict[int, tuple[ref[Block], int]] = OrderedDict()
        self._held = 0
        self._newest_large: int | None = None  # the key of such a block
        # A block may die in any thread, and in the middle of anything: that only makes a note.
        self._dead: deque[tuple[int, ref[Block]]] = deque()

    @property
    def fixed(self) -> int:
        """Bytes of what is kept for good; its owner counts them."""
        return self._fixed

    @fixed.setter
    def fixed(self, count: int) -> None:
        with self._lock:
            self._fixed = count
            self._make_room(self.budget - count, LARGE)

    @property
    def held(self) -> int:
        """Bytes held inside blocks."""
        with self._lock:
            self._bury()
            return self._held

    def add(self, block: Block, arrays: Mapping[str, Array], *, whatever: bool = False) -> bool:
        """Put arrays into a block, at the cost of those that were looked at before it.

        Args:
            block: where they belong.
            arrays: by canonical name; more of the same block may follow.
            whatever: keep them whatever they take, because somebody is waiting for them, and a few
                of their kind besides.

        Returns:
            Whether they are held. A block that does not fit by itself is let go of.
        """
        size = sum(
            array.nbytes for array in {id(array): array for array in arrays.values()}.values()
        )
        with self._lock:
            self._bury()
            reference, before = self._blocks.pop(id(block), (self._reference(block), 0))
            self._held += size
            self._blocks[id(block)] = (reference, before + size)
            if before + size >= LARGE:
                self._newest_large = id(block)
            block._arrays = {**block._arrays, **arrays}
            spared = id(block) if whatever else None
            self._make_room(self._room(whatever), before + size, spared)
            return id(block) in self._blocks

    def expect(self, count: int, *, whatever: bool = False) -> None:
        """Make room for that many bytes before they are computed, so that theirs are used again.

        ``whatever`` says how they will be added.
        """
        with self._lock:
            self._bury()
            self._make_room(max(0, self._room(whatever) - count), count)

    def touch(self, block: Block) -> None:
        """Count a block as the one looked at last."""
        with self._lock:
            if id(block) in self._blocks:
                self._blocks.move_to_end(id(block))
                if self._blocks[id(block)][1] >= LARGE:
                    self._newest_large = id(block)

    def _reference(self, block: Block) -> ref[Block]:
        key = id(block)
        return ref(block, lambda gone: self._dead.append((key, gone)))

    def _room(self, whatever: bool) -> int:
        return max(self.budget - self._fixed, SPARE if whatever else 0)

    def _make_room(self, most: int, newcomer: int, spared: int | None = None) -> None:
        """Let go of blocks until that many bytes are held.

        Args:
            most: bytes.
            newcomer: bytes of the block that needs the room.
            spared: the key of a block that stays in any case.
        """
        large = None if newcomer >= LARGE else self._newest_large
        while self._held > most:
            oldest = next((key for key in self._blocks if key not in (spared, large)), None)
            if oldest is None:
                return
            self._let_go(oldest)

    def _let_go(self, key: int) -> None:
        reference, size = self._blocks.pop(key)
        self._held -= size
        self.released += size
        if key == self._newest_large:
            newest_first = reversed(self._blocks.items())
            larger = (each for each, (_, size) in newest_first if size >= LARGE)
            self._newest_large = next(larger, None)
        block = reference()
        if block is not None:
            block._arrays = {}

    def _bury(self) -> None:
        while self._dead:
            key, gone = self._dead.popleft()
            entry = self._blocks.get(key)
            if entry is not None and entry[0] is gone:  # and not a later one at the same address
                self._let_go(key)
