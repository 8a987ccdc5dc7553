"""What the worker's thread does: the one owner of the session, as jobs that yield updates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from decoder_gui.debugger.choosing import generate
from decoder_gui.debugger.freed_memory import give_back, keep_freed_memory
from decoder_gui.debugger.library import Preparing, prepare
from decoder_gui.debugger.session import Session, Update
from model.checkpoints import LoadedModel
from model.checkpoints.estimate import available_memory, require_cache
from model.checks import CheckResult, Subject, run_checks
from model.engine import Array
from model.sampling import SamplingConfig
from model.trace import Step


@dataclass(frozen=True)
class Opened:
    """A model is ready; an empty run of it begins.

    Attributes:
        spec: what to open to have it again; empty where it was open already.
        remark: one sentence about the context, or empty.
    """

    loaded: LoadedModel
    capacity: int
    faults: frozenset[str]
    spec: str = ""
    remark: str = ""


@dataclass(frozen=True)
class Redrawn:
    """The newest step holds another uniform number."""

    step: Step


@dataclass(frozen=True)
class Checked:
    """One more check has its verdict."""

    result: CheckResult


RoomUpdate = Update | Preparing | Opened | Redrawn | Checked


class EngineRoom:
    """Owns the model and the session. Every method but the constructor runs in the worker."""

    def __init__(self) -> None:
        keep_freed_memory()  # before there is a worker
        self._session: Session | None = None
        self._swept = True  # whether what the last model left behind has been given back

    @property
    def session(self) -> Session:
        if self._session is None:
            raise RuntimeError("no model has been opened yet")
        return self._session

    def open(
        self, spec: str, *, capacity: int | None, seed: int, faults: frozenset[str] = frozenset()
    ) -> Iterator[RoomUpdate]:
        """Open a model; the one in hand stays until the new one is ready."""
        ready = yield from prepare(spec, capacity)
        session = Session(ready.loaded, capacity=ready.capacity, seed=seed, faults=faults)
        self._session, self._swept = session, False
        yield Opened(ready.loaded, session.cache.capacity, faults, spec, ready.remark)

    def rebuild(
        self,
        *,
        capacity: int | None,
        seed: int,
        faults: frozenset[str],
        steps: Sequence[Step],
        prompt_ids: Sequence[int] = (),
    ) -> Iterator[RoomUpdate]:
        """The same steps again in a new session: another context, or other faults.

        A prompt, where one is given, is run instead of them.
        """
        loaded = self.session.loaded
        shape = loaded.engine.shape
        wanted = shape.context_length if capacity is None else capacity
        require_cache(shape, wanted, available_memory())
        session = Session(loaded, capacity=capacity, seed=seed, faults=faults)
        self._session = session
        yield Opened(loaded, session.cache.capacity, faults)
        if prompt_ids:
            yield from session.prefill(prompt_ids)
        else:
            yield from session.repeat(steps)

    def prefill(self, token_ids: Sequence[int], seed: int) -> Iterator[RoomUpdate]:
        """A new prompt, from the seed."""
        self._sweep()
        self.session.seed = seed
        yield from self.session.prefill(token_ids)

    def decode(self, after: int, token_id: int, *, drawn: bool) -> Iterator[RoomUpdate]:
        """Take a token after a step; whatever came after that step is dropped."""
        self.session.rewind(after + 1)
        yield from self.session.decode(token_id, drawn=drawn)

    def generate(
        self, token_ids: Sequence[int], seed: int, config: SamplingConfig, tokens: int
    ) -> Iterator[RoomUpdate]:
        """A new prompt and then tokens chosen by the sampler, ``tokens`` in all."""
        self._sweep()
        self.session.seed = seed
        yield from generate(self.session, token_ids, config, tokens)

    def redraw(self, after: int) -> Iterator[RoomUpdate]:
        """Hold another uniform number at a step; whatever came after it is dropped."""
        self.session.rewind(after + 1)
        yield Redrawn(self.session.redraw())

    def replay(self, step: Step, layer: int, resid_pre: Array) -> Iterator[RoomUpdate]:
        """Recompute a block that the byte budget left out."""
        yield from self.session.replay(step, layer, resid_pre)

    def check(
        self,
        prompt_ids: Sequence[int],
        continuation_ids: Sequence[int],
        sampling: SamplingConfig,
        names: Sequence[str] | None = None,
    ) -> Iterator[RoomUpdate]:
        """Every check on the tokens in hand, one verdict at a time."""
        session = self.session
        subject = Subject.under(
            session.loaded.engine,
            prompt_ids,
            session.faults,
            continuation=tuple(continuation_ids),
            context=session.cache.capacity,
            sampling=sampling,
        )
        for result in run_checks(subject, names):
            yield Checked(result)

    def _sweep(self) -> None:
        """Once after a model was opened: the one before it has been let go by now."""
        if not self._swept:
            self._swept = True
            give_back()
