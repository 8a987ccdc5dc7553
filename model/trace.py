"""What a run recorded: steps, operations and their arrays, within a byte budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from itertools import takewhile
from typing import Any

from model.engine import Array
from model.operations import Operation
from model.shape import ModelShape
from model.trace_memory import FirstRows


class Phase(StrEnum):
    """The two phases of a run."""

    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True)
class Checkpoint:
    """All that is needed to run a step again: small, because a cache only grows.

    ``generator_state`` is the state of the session's generator before this step's draw.
    """

    cache_length: int
    generator_state: Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """One pass through the model: the prefill of the prompt, or the decoding of one token."""

    index: int
    phase: Phase
    first: int  # first position processed
    token_ids: tuple[int, ...]  # the tokens processed, one a position
    checkpoint: Checkpoint
    uniform: float  # the uniform draw in [0, 1) held for choosing this step's token

    @property
    def last(self) -> int:
        """One past the last position processed."""
        return self.first + len(self.token_ids)


@dataclass(frozen=True, slots=True)
class Event:
    """One operation of one step, with the arrays that it produced (read-only, batch axis first).

    Arrays inside a block may give way later on, see :mod:`model.trace_memory`. An operation whose
    arrays were left out from the beginning has ``evicted`` set.
    """

    step: int
    operation: int
    arrays: Mapping[str, Array]
    evicted: bool = False


class Presence(Enum):
    """Whether an array can be shown."""

    HELD = "held"
    EVICTED = "evicted"  # computed, not kept; a replay brings it back
    NOT_YET = "not yet"


class Trace:
    """The recorded list that the cursor moves over; it only grows, or is cut at a step.

    The arrays are those of batch row 0 onwards, exactly as the engine produced them. Replayed
    blocks are held besides, for as long as their own memory keeps them.
    """

    def __init__(self, operations: tuple[Operation, ...], shape: ModelShape) -> None:
        self.operations = operations
        self.shape = shape
        self._index = {operation.name: i for i, operation in enumerate(operations)}
        self._producer = {
            name: i for i, operation in enumerate(operations) for name in operation.outputs
        }
        self._steps: list[Step] = []
        self._events: list[list[Event]] = []
        self._sizes: dict[int, int] = {}  # bytes of complete steps, once asked for
        self._replays: dict[tuple[int, int], Mapping[str, Array]] = {}

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(self._steps)

    def __len__(self) -> int:
        """Number of events: a step that is complete has one per operation."""
        return sum(len(events) for events in self._events)

    @property
    def positions(self) -> int:
        """Positions of all steps begun."""
        return self._steps[-1].last if self._steps else 0

    @property
    def prompt(self) -> int:
        """Positions of the prompt: those of the prefill steps that the run begins with."""
        given = takewhile(lambda step: step.phase is Phase.PREFILL, self._steps)
        return sum(len(step.token_ids) for step in given)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens of all steps begun, one a position."""
        return tuple(token for step in self._steps for token in step.token_ids)

    def operation_index(self, name: str) -> int:
        """Index of an operation by its name; KeyError if the model has none of that name."""
        return self._index[name]

    def producer(self, array_name: str) -> int:
        """Index of the operation that records an array; KeyError for an unknown name."""
        return self._producer[array_name]

    def events_in(self, step: int) -> int:
        """Number of operations recorded in a step so far."""
        return len(self._events[step])

    def complete(self, step: int) -> bool:
        """Whether every operation of the step has been recorded."""
        return 0 <= step < len(self._events) and len(self._events[step]) == len(self.operations)

    @property
    def fraction_of_last(self) -> float | None:
        """How much of the last step is recorded; None where nothing is being recorded."""
        if not self._events or self.complete(len(self._events) - 1):
            return None
        return len(self._events[-1]) / len(self.operations)

    def begin(self, step: Step) -> None:
        """Start a step; it must follow the last one."""
        if step.index != len(self._steps):
            raise IndexError(f"step {step.index} cannot follow {len(self._steps)} steps")
        self._steps.append(step)
        self._events.append([])

    def replace_last(self, step: Step) -> None:
        """Put another version of the last step in its place (another held draw)."""
        if not self._steps or step.index != len(self._steps) - 1:
            raise IndexError(f"step {step.index} is not the last of {len(self._steps)}")
        self._steps[-1] = step

    def add(self, event: Event) -> None:
        """Record the next operation of the last step."""
        if event.step != len(self._steps) - 1 or event.operation != len(self._events[-1]):
            raise IndexError(
                f"operation {event.operation} of step {event.step} is not the next one"
            )
        self._events[-1].append(event)

    def add_replay(self, step: int, layer: int, arrays: Mapping[str, Array]) -> None:
        """Hold a recomputed block, or what there is of it so far."""
        self._replays[(step, layer)] = arrays
        for key in [key for key, held in self._replays.items() if not held]:
            del self._replays[key]  # it has given way

    def copy(self) -> Trace:
        """Another list of the same events: arrays are shared, neither grows with the other."""
        other = Trace(self.operations, self.shape)
        other._steps = list(self._steps)
        other._events = [list(events) for events in self._events]
        other._replays = dict(self._replays)
        return other

    def fork(self, steps: Sequence[Step]) -> Trace:
        """Another list that begins with these steps of this one, over the same arrays.

        The steps must cover the same positions as those here, but for the last: it may end sooner,
        and then its arrays are views of the rows that are left. They may hold other draws.

        Raises:
            IndexError: a step that is not complete here, or does not begin where the one here does.
        """
        other = Trace(self.operations, self.shape)
        for step in steps:
            if not self.complete(step.index) or self._steps[step.index].first != step.first:
                raise IndexError(f"step {step.index} is not complete here, or is another one")
            events = self._events[step.index]  # never written again once a step is complete
            whole = self._steps[step.index].last
            other._steps.append(step)
            if step.last < whole:
                events = [self._cut_short(event, step, whole - step.first) for event in events]
            other._events.append(events)
        return other

    def same_recording(self, other: Trace, step: int) -> bool:
        """Whether a step of two traces is one list of events, computed once."""
        mine, theirs = self._events[step], other._events[step]
        return bool(mine) and bool(theirs) and mine[0] is theirs[0]

    def _cut_short(self, event: Event, step: Step, rows: int) -> Event:
        """An event with the rows of fewer positions, of ``rows`` that there are."""
        square = self.operations[event.operation].axes[-1:] == ("key",)
        arrays = FirstRows(event.arrays, len(step.token_ids), rows, step.last if square else None)
        return Event(step.index, event.operation, arrays, event.evicted)

    def truncate(self, steps: int) -> None:
        """Keep the first ``steps`` steps."""
        del self._steps[steps:]
        del self._events[steps:]
        self._sizes = {step: size for step, size in self._sizes.items() if step < steps}
        for key in [key for key in self._replays if key[0] >= steps]:
            del self._replays[key]

    def presence(self, step: int, array_name: str) -> Presence:
        """Whether an array of a step is held, was left out, or is not computed yet."""
        operation = self._producer.get(array_name)
        if operation is None or not 0 <= step < len(self._events):
            return Presence.NOT_YET
        if operation >= len(self._events[step]):
            return Presence.NOT_YET
        held = array_name in self._events[step][operation].arrays
        replayed = array_name in self._replay(step, operation)
        return Presence.HELD if held or replayed else Presence.EVICTED

    def array(self, step: int, array_name: str) -> Array | None:
        """An array of a step by its canonical name, or None if it is not held."""
        operation = self._producer.get(array_name)
        if operation is None or not 0 <= step < len(self._events):
            return None
        events = self._events[step]
        if operation >= len(events):
            return None
        found = events[operation].arrays.get(array_name)
        return self._replay(step, operation).get(array_name) if found is None else found

    def _replay(self, step: int, operation: int) -> Mapping[str, Array]:
        layer = self.operations[operation].layer
        return {} if layer is None else self._replays.get((step, layer), {})

    def nbytes(self, step: int) -> int:
        """Bytes of the arrays that were kept of a step; views count as what they show."""
        size = self._sizes.get(step)
        if size is None:
            arrays = {id(a): a for event in self._events[step] for a in event.arrays.values()}
            size = sum(array.nbytes for array in arrays.values())
            if self.complete(step):
                self._sizes[step] = size
        return size

    def logits(self, step: int) -> Array | None:
        """Logits of the last position of a step, (vocab,), or None before they are computed."""
        found = self.array(step, "logits")
        return None if found is None else found[0, -1]

    def held(self) -> Iterator[tuple[int, str, Array]]:
        """Every array held, as (step, canonical name, array)."""
        for step, events in enumerate(self._events):
            for event in events:
                for name in self.operations[event.operation].outputs:
                    array = event.arrays.get(name)
                    if array is not None:
                        yield step, name, array
