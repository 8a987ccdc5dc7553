"""Everything that a panel may look at, at one moment: the input of every view-data function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from decoder_gui.debugger.cursor import Cursor
from model.engine import Array
from model.operations import Operation
from model.sampling import Candidate, Distribution, SamplingConfig
from model.shape import ModelShape
from model.tokenizers import Piece, Tokenizer
from model.trace import Presence, Step, Trace


@dataclass(frozen=True)
class Selection:
    """What the user points at; shared by all panels.

    ``query`` and ``key`` are absolute positions; None follows the newest position of the step in
    hand. ``cell`` is (row, column) in the Values panel's matrix of the current operation.
    """

    layer: int = 0
    head: int = 0
    query: int | None = None
    key: int | None = None
    cell: tuple[int, int] | None = None


@dataclass(frozen=True)
class Choice:
    """The token that a step chose: by its held draw, greedily, or by hand."""

    token_id: int
    log_probability: float  # nats, of the raw distribution
    by_hand: bool = False


@dataclass(frozen=True)
class ModelInfo:
    """The model in hand, in words and sizes."""

    name: str  # "stories"
    family: str  # "GPT-2"
    shape: ModelShape
    parameters: int
    bytes_per_value: int
    tokenizer: Tokenizer
    path: str = ""
    warnings: tuple[str, ...] = ()
    grows: bool = True  # whether another context than the present one can be chosen
    spelled_out: bool = False  # whether every number is small enough to be written out (tiny)


@dataclass(frozen=True)
class Moment:
    """A consistent picture of the state, handed to every panel.

    Attributes:
        cursor: the event in hand; None while nothing has been computed.
        capacity: positions that the cache can hold.
        distribution: that of the step in hand under the sampling settings of now (faults included);
            None before the step's logits are recorded.
        candidates: its most likely tokens, most likely first, as many as are displayed.
        landing: the token on which the step's held draw falls under the settings of now.
        choices: one per step whose successor exists, the token actually taken.
        token_log_probabilities: per position of the trace, log-probability in nats of the token
            there given all before it; None where it was not computed (position 0 always).
    """

    model: ModelInfo
    trace: Trace
    cursor: Cursor | None
    selection: Selection
    sampling: SamplingConfig
    capacity: int
    distribution: Distribution | None = None
    candidates: tuple[Candidate, ...] = ()
    landing: Choice | None = None
    choices: tuple[Choice, ...] = ()
    token_log_probabilities: tuple[float | None, ...] = ()
    faults: frozenset[str] = frozenset()
    pieces: Sequence[Piece] = field(default=())  # one per position of the whole trace

    @property
    def step(self) -> Step | None:
        """The step in hand."""
        return None if self.cursor is None else self.trace.steps[self.cursor.step]

    @property
    def operation(self) -> Operation | None:
        """The operation in hand."""
        return None if self.cursor is None else self.trace.operations[self.cursor.operation]

    def exists(self, step: int, array_name: str) -> bool:
        """Whether an array has been computed at the cursor (later events do not exist yet)."""
        if self.cursor is None or step > self.cursor.step:
            return False
        if self.trace.presence(step, array_name) is Presence.NOT_YET:
            return False
        return step < self.cursor.step or self.trace.producer(array_name) <= self.cursor.operation

    def array(self, step: int, array_name: str) -> Array | None:
        """An array that exists at the cursor and is held, without its batch axis, or None."""
        if not self.exists(step, array_name):
            return None
        found = self.trace.array(step, array_name)
        return None if found is None else found[0]
