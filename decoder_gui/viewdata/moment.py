"""Everything that a panel may look at, at one moment: the input of every view-data function."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from decoder_gui.debugger.choosing import pick
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.run import Run
from decoder_gui.viewdata.weights import RecordedFacts, Weights
from model.ablation import Edit
from model.captured_engine import CapturedEngine
from model.checkpoints import LoadedModel
from model.engine import Array
from model.errors import FaultNotPossible, NonFiniteLogits
from model.operations import Operation
from model.sampling import Candidate, Distribution, SamplingConfig, top_candidates
from model.shape import ModelShape
from model.tokenizers import Piece, Tokenizer
from model.trace import Presence, Step, Trace

SPELLED_OUT_WIDTH = 8  # up to this width every product of a dot product is written out


@dataclass(frozen=True)
class Selection:
    """What the user points at; shared by all panels.

    ``query`` and ``key`` are absolute positions; None follows the newest position of the step in
    hand. ``cell`` is (row, column) in the Values panel's matrix of the current operation, and
    ``array`` the canonical name of the array that it was chosen in, empty where none was.
    """

    layer: int = 0
    head: int = 0
    query: int | None = None
    key: int | None = None
    cell: tuple[int, int] | None = None
    array: str = ""


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
    weights: Weights | None = None  # the engine without faults: the arithmetic of a cell needs it
    recorded: RecordedFacts | None = None  # of a capture, which has no weights and runs nothing

    @classmethod
    def of(cls, loaded: LoadedModel) -> ModelInfo:
        """The facts of a model that has been opened."""
        engine = loaded.engine
        return cls(
            name=loaded.name,
            family=loaded.family,
            shape=engine.shape,
            parameters=engine.parameters,
            bytes_per_value=engine.dtype.itemsize,
            tokenizer=loaded.tokenizer,
            path=str(loaded.path),
            warnings=loaded.warnings,
            grows=not isinstance(engine, CapturedEngine),
            spelled_out=engine.shape.model_dim <= SPELLED_OUT_WIDTH,
            weights=engine if isinstance(engine, Weights) else None,
            recorded=RecordedFacts.of(engine) if isinstance(engine, CapturedEngine) else None,
        )


@dataclass(frozen=True)
class Moment:
    """A consistent picture of the state, handed to every panel.

    Attributes:
        cursor: the event in hand; None while nothing has been computed.
        capacity: positions that the cache can hold.
        distribution: that of the step in hand under the sampling settings of now (faults included);
            None before the step's logits are recorded.
        candidates: its most likely tokens, most likely first, as many as are displayed.
        landing: the token that would be taken, the one on which the step's held draw falls under
            the settings of now.
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
    edits: tuple[Edit, ...] = ()  # what the engine of this run changes where it is computed
    pieces: Sequence[Piece] = field(default=())  # one per position of the whole trace
    sampling_refusal: str = ""  # why nothing can be sampled from the step in hand, in words

    @property
    def step(self) -> Step | None:
        """The step in hand."""
        return None if self.cursor is None else self.trace.steps[self.cursor.step]

    @property
    def position(self) -> int | None:
        """The query that is selected, or else the newest position of the step in hand."""
        step, query = self.step, self.selection.query
        if step is None:
            return None
        return query if query is not None and step.first <= query < step.last else step.last - 1

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


def build_moment(
    model: ModelInfo,
    run: Run,
    cursor: Cursor | None,
    selection: Selection,
    sampling: SamplingConfig,
    capacity: int,
    *,
    displayed: int = 20,
) -> Moment:
    """The moment of a run at a cursor; ``displayed`` candidates are listed."""
    shown: Distribution | None = None
    landing: Choice | None = None
    candidates: tuple[Candidate, ...] = ()
    refusal = ""
    if cursor is not None:
        try:
            shown = run.distribution(cursor.step, sampling)
        except (NonFiniteLogits, FaultNotPossible) as problem:
            refusal = str(problem)
        else:
            if shown is not None:
                candidates = top_candidates(shown, displayed)
                picked = pick(shown, sampling, run.trace.steps[cursor.step].uniform)
                landing = Choice(picked.token_id, picked.log_probability)
    return Moment(
        model=model,
        trace=run.trace,
        cursor=cursor,
        selection=selection,
        sampling=sampling,
        capacity=capacity,
        distribution=shown,
        candidates=candidates,
        landing=landing,
        choices=tuple(
            Choice(taken.token_id, taken.log_probability, taken.by_hand) for taken in run.taken()
        ),
        token_log_probabilities=run.log_probabilities,
        faults=run.faults,
        edits=run.edits,
        pieces=_pieces(cast(Hashable, model.tokenizer), run.trace.token_ids),
        sampling_refusal=refusal,
    )


@lru_cache(maxsize=2)
def _pieces(tokenizer: Hashable, token_ids: tuple[int, ...]) -> tuple[Piece, ...]:
    """The pieces of a run, made once: most moments are of the same tokens as the one before."""
    return tuple(cast(Tokenizer, tokenizer).pieces(token_ids))
