"""A session that plays a recording: the steps are those of the capture, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from decoder_gui.debugger.lines import Continuation, Entry, Pass
from decoder_gui.debugger.session import Session, StepBegan, StepEnded, Update, peek
from model.ablation import Edit
from model.captured_engine import CapturedEngine
from model.checkpoints import LoadedModel
from model.checkpoints.captures import sampling_of
from model.checks.core import as_batch
from model.engine import Array
from model.errors import NoWeights
from model.trace import Checkpoint, Event, Phase, Step


class CapturedSession(Session):
    """Plays the steps of a capture; whatever would compute something is refused in words."""

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        capacity: int | None = None,
        seed: int | None = None,
        faults: frozenset[str] = frozenset(),
    ) -> None:
        if faults:
            raise NoWeights("no fault can be switched on in it")
        assert isinstance(loaded.engine, CapturedEngine)
        self.capture = loaded.engine.capture
        settings = sampling_of(self.capture)
        recorded = None if settings is None else settings.seed
        super().__init__(loaded, capacity=capacity, seed=seed if recorded is None else recorded)

    def play(self) -> Iterator[Update]:
        """All recorded steps, from the first."""
        self.lines.start_over()
        self._enter_engine()
        engine, line = self.engine, self.lines.active
        for index, recorded in enumerate(self.capture.steps):
            uniform, after = peek(self._state)
            step = Step(
                index=index,
                phase=Phase(recorded.phase),
                first=recorded.first,
                token_ids=recorded.token_ids,
                checkpoint=Checkpoint(recorded.first, self._state),
                uniform=uniform if recorded.draw is None else recorded.draw,
            )
            yield StepBegan(step)
            for activations in engine.walk(as_batch(recorded.token_ids), self.cache):
                yield Event(index, activations.operation, activations.arrays)
            yield Event(index, len(engine.operations) - 1, {})
            self._state = after
            line.done.append(Entry(step, Pass(step.last, ran=True)))
            self._count(step)
            yield StepEnded(index)

    def prefill(self, token_ids: Sequence[int]) -> Iterator[Update]:
        """The recorded run, if it began with these tokens.

        Raises:
            NoWeights: it did not.
        """
        if tuple(token_ids) != self.capture.steps[0].token_ids:
            raise NoWeights("another prompt cannot be run")
        yield from self.play()

    def take_over(self, other: Session, steps: Sequence[Step]) -> None:
        """Nothing to plan: the recorded run is all there is."""

    def run_planned(self) -> Iterator[Update]:
        """The recorded run, unless it has been played."""
        if not self.steps:
            yield from self.play()

    def fork(
        self,
        position: int,
        continuation: Sequence[Continuation] = (),
        *,
        edits: Sequence[Edit] | None = None,
        reason: str = "",
    ) -> Iterator[Update]:
        """Refused: a branch would compute something."""
        raise NoWeights

    def decode(self, token_id: int, *, drawn: bool) -> Iterator[Update]:
        """Refused: there is nothing to compute with."""
        raise NoWeights

    def redraw(self) -> NoReturn:
        """Refused: the draws are those of the recording."""
        raise NoWeights("another draw would need another step")

    def replay(
        self, step: Step, layer: int, resid_pre: Array, resid_mid: Array | None = None
    ) -> Iterator[Update]:
        """Refused: what was not recorded cannot be brought back."""
        raise NoWeights(f"what was not recorded of block {layer} cannot be computed again")

    def recompute(self, step: Step, layer: int, resid_pre: Array, name: str) -> Array | None:
        """Refused, as :meth:`replay` is."""
        raise NoWeights(f"what was not recorded of block {layer} cannot be computed again")

    def rewind(self, steps: int) -> None:
        """Nothing: a recording stays whole."""


def session_for(
    loaded: LoadedModel,
    *,
    capacity: int | None = None,
    seed: int | None = None,
    faults: frozenset[str] = frozenset(),
) -> Session:
    """A session of a model, or of a capture.

    Raises:
        NoWeights: faults for a capture.
    """
    kind = CapturedSession if isinstance(loaded.engine, CapturedEngine) else Session
    return kind(loaded, capacity=capacity, seed=seed, faults=faults)
