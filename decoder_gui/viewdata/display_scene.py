"""What a trace holds at a cursor, worked out without the functions that fill the panels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.run import Run
from decoder_gui.viewdata.attention_store import PatternStore
from decoder_gui.viewdata.display_reading import Held, Ledger
from decoder_gui.viewdata.moment import ModelInfo, Moment
from model.checks.sampling import can_recompute, penalised, recompute
from model.engine import Array
from model.faults import sampling_under
from model.operations import Kind, Operation
from model.sampling import SamplingConfig
from model.trace import Step, Trace

Doubles = NDArray[np.float64]

RANKED_ANEW = 4096  # up to this vocabulary the cuts are made again, in plain Python
LEAK = 1e-9  # a weight above the diagonal is a leak beyond this


@dataclass(frozen=True, eq=False)
class Shares:
    """The sampler's numbers of one step; arrays are (vocab,).

    ``kept`` is by falling probability, ``landing`` the token on which the held draw falls.
    """

    raw: Doubles
    tempered: Doubles
    final: Doubles
    kept: tuple[int, ...]
    entropy: Held
    landing: int


@dataclass(eq=False)
class Record:
    """A run that is over, and what was worked out of it; one for all cursors."""

    run: Run
    model: ModelInfo
    sampling: SamplingConfig
    capacity: int
    ledger: Ledger
    store: PatternStore = field(default_factory=PatternStore)  # kept from one cursor to the next

    def __post_init__(self) -> None:
        self.operations: tuple[Operation, ...] = self.run.trace.operations
        self.producer = {
            name: index
            for index, operation in enumerate(self.operations)
            for name in operation.outputs
        }
        self._shares: dict[int, Shares | None] = {}
        self._scores: list[float | None] | None = None

    @property
    def trace(self) -> Trace:
        return self.run.trace

    def shares(self, step: int) -> Shares | None:
        """The distribution of a step, or None where its logits are no numbers to sample from."""
        if step not in self._shares:
            self._shares[step] = self._work_out(step)
        return self._shares[step]

    def log_probabilities(self) -> list[float | None]:
        """Per position, log-probability (nats) of its token given all before it, or None."""
        if self._scores is None:
            self._scores = []
            before: Array | None = None
            for step in self.trace.steps:
                logits = self.trace.array(step.index, "logits")
                assert logits is not None
                rows = logits[0] if logits.shape[1] == len(step.token_ids) else None
                for at, token in enumerate(step.token_ids):
                    row = before if at == 0 else None if rows is None else rows[at - 1]
                    self._scores.append(None if row is None else log_share(row, token))
                before = logits[0, -1]
        return self._scores

    def _work_out(self, index: int) -> Shares | None:
        array = self.trace.array(index, "logits")
        assert array is not None
        logits = array[0, -1].astype(np.float64)
        if np.isnan(logits).any() or not math.isfinite(logits.max()):
            return None
        settings = sampling_under(self.sampling, self.run.faults)
        history = self.trace.token_ids[: self.trace.steps[index].last]
        moved = np.array(penalised(logits.tolist(), settings, history))
        greedy = settings.temperature == 0.0
        chosen = np.zeros(logits.size)
        chosen[int(moved.argmax())] = 1.0
        raw = softmax(logits)
        tempered = chosen if greedy else softmax(moved, settings.temperature)
        kept = self._kept(index, logits, settings, history)
        final = np.zeros(logits.size)
        final[list(kept)] = tempered[list(kept)] / math.fsum(tempered[list(kept)].tolist())
        falling = final[list(kept)]
        logarithms = np.log(falling, out=np.zeros_like(falling), where=falling > 0)
        terms = falling * logarithms
        running = np.cumsum(falling)
        uniform = self.trace.steps[index].uniform
        landing = kept[int(np.argmax(running > uniform * running[-1]))]
        entropy = Held(abs(math.fsum(terms.tolist())), 1.0)
        return Shares(raw, tempered, final, kept, entropy, landing)

    def _kept(
        self, index: int, logits: Doubles, settings: SamplingConfig, history: tuple[int, ...]
    ) -> tuple[int, ...]:
        if can_recompute(settings) and logits.size <= RANKED_ANEW:
            return tuple(recompute(logits.tolist(), settings, history))
        # The check of the sampler answers for the cuts; here it is what was made of them.
        found = self.run.distribution(index, self.sampling)
        assert found is not None
        return tuple(found.kept.tolist())


@dataclass(eq=False)
class Scene:
    """One cursor of a record, with the moment that the panels are given."""

    record: Record
    moment: Moment
    cursor: Cursor
    index: int  # of the cursor among those looked at, from which selections vary

    @property
    def ledger(self) -> Ledger:
        return self.record.ledger

    @property
    def step(self) -> Step:
        return self.record.trace.steps[self.cursor.step]

    @property
    def operation(self) -> Operation:
        return self.record.operations[self.cursor.operation]

    @property
    def ends_step(self) -> bool:
        """Whether the operation in hand is the last of its step."""
        return self.cursor.operation == len(self.record.operations) - 1

    def computed(self, step: int, name: str) -> bool:
        """Whether an array exists at the cursor."""
        here = (self.cursor.step, self.cursor.operation)
        return (step, self.record.producer[name]) <= here

    def array(self, step: int, name: str) -> Array | None:
        """An array that exists at the cursor and is held, without its batch axis."""
        found = self.record.trace.array(step, name) if self.computed(step, name) else None
        return None if found is None else found[0]

    def row(self, name: str, position: int) -> Array | None:
        """Rows of one position, of whichever step processed it: (..., columns)."""
        step = next(each for each in self.record.trace.steps if each.last > position)
        array = self.array(step.index, name)
        if array is None:
            return None
        at = position - step.last
        return None if -at > array.shape[-2] else np.asarray(array[..., at, :])

    def patterns(self) -> list[tuple[int, Step, Array | None]]:
        """(layer, step, pattern (head, row, key) or None if not kept) of what exists."""
        found = []
        for operation in self.record.operations:
            if operation.kind is not Kind.PATTERN or operation.layer is None:
                continue
            for step in self.record.trace.steps[: self.cursor.step + 1]:
                if self.computed(step.index, operation.outputs[0]):
                    array = self.array(step.index, operation.outputs[0])
                    found.append((operation.layer, step, array))
        return found

    def layer_in_hand(self) -> int:
        """The block of the operation in hand, or the nearest one."""
        layers = [each.layer for each in self.record.operations[: self.cursor.operation + 1]]
        return max((layer for layer in layers if layer is not None), default=0)


def softmax(logits: Doubles, temperature: float = 1.0) -> Doubles:
    """Probabilities of finite or masked logits at a temperature; (vocab,)."""
    with np.errstate(under="ignore", over="ignore"):
        powers: Doubles = np.exp((logits - logits.max()) / temperature)
    return powers / math.fsum(powers.tolist())


def log_share(logits: Array, token: int) -> float:
    """Log-probability of a token in nats; NaN where the logits are no numbers to sample from."""
    row = logits.astype(np.float64)
    highest = float(row.max())
    if not math.isfinite(highest):
        return math.nan
    with np.errstate(under="ignore"):
        total = float(np.exp(row - highest).sum())
    return float(row[token]) - highest - math.log(total)
