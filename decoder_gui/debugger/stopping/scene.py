"""What a condition may look at while a run is searched: a run of its own, and what follows.

A scene belongs to whoever searches, the window or the worker, and works on a copy of the run: the
arrays are shared and read-only, the list of events is not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping

from decoder_gui.debugger.choosing import Pick, pick
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.laboratory.lens import NoReadout, lens_top
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import Update
from decoder_gui.debugger.stopping.spots import STAGES
from model.engine import Array
from model.errors import FaultNotPossible, NonFiniteLogits
from model.operations import Kind, Operation
from model.sampling import Distribution, SamplingConfig, token_score
from model.trace import Presence, Step, Trace

Recompute = Callable[[int, int], Mapping[str, Array] | None]
"""Brings back a block of a step: (step, layer) -> canonical name -> array with its batch axis.

None where it cannot be had again.
"""

BLOCKS_HELD = 2
STEPS_HELD = 2
TOPS_HELD = 8


class NotKept(LookupError):
    """An array was left out for the byte budget and cannot be had again; the message says which."""


class Elsewhere(LookupError):
    """An array has to be recomputed, which is the worker's business."""


class Scene:
    """A run as a search sees it.

    Args:
        run: searched; :meth:`apply` lets it grow, so it should be a copy.
        sampling: the settings under which tokens are chosen.
        capacity: positions that the cache can hold.
        weights: of the model, for a look through its unembedding; None if there is no model.
        name: the text of a token id.
        recompute: brings back what was left out; None where nothing can.
        elsewhere: whether it could be had by searching in the worker.
    """

    def __init__(
        self,
        run: Run,
        *,
        sampling: SamplingConfig,
        capacity: int,
        weights: object = None,
        name: Callable[[int], str] = str,
        recompute: Recompute | None = None,
        elsewhere: bool = False,
    ) -> None:
        self.run = run
        self.sampling = sampling
        self.capacity = capacity
        self.weights = weights
        self.name = name
        self.recompute = recompute
        self.elsewhere = elsewhere
        self._blocks: OrderedDict[tuple[int, int], Mapping[str, Array]] = OrderedDict()
        self._tops: OrderedDict[tuple[int, str], int] = OrderedDict()
        self._distributions: OrderedDict[int, tuple[Distribution | None, str]] = OrderedDict()

    @property
    def trace(self) -> Trace:
        return self.run.trace

    def apply(self, update: Update) -> None:
        """Let the run grow by what a session yielded."""
        self.run.apply(update)

    def step(self, here: Cursor) -> Step:
        return self.trace.steps[here.step]

    def operation(self, here: Cursor) -> Operation:
        return self.trace.operations[here.operation]

    def sampling_at(self, here: Cursor) -> bool:
        """Whether a token is chosen at an event."""
        return self.operation(here).kind is Kind.SAMPLE

    def array(self, step: int, name: str) -> Array | None:
        """An array of a step without its batch axis; None if it is not computed, or never is.

        Raises:
            NotKept: it was computed and is gone.
            Elsewhere: it can be had again, but not here.
        """
        if name in STAGES:
            shown = self.distribution(step)
            if shown is None:
                return None
            stage: Array = getattr(shown, name)
            return stage[None]
        found = self.trace.array(step, name)
        if found is None and self.trace.presence(step, name) is Presence.EVICTED:
            found = self._recomputed(step, name)
        return None if found is None else found[0]

    def outputs(self, here: Cursor) -> Iterator[tuple[str, Array]]:
        """The arrays that an event recorded, each once whatever its names, without batch axis.

        Raises:
            NotKept, Elsewhere: as :meth:`array`, after those that are there.
        """
        seen: set[int] = set()
        missing: list[str] = []
        for name in self.operation(here).outputs:
            held = self.trace.array(here.step, name)
            if held is None:
                missing.append(name)
            elif id(held) not in seen:
                seen.add(id(held))
                yield name, held[0]
        for name in missing:
            array = self.array(here.step, name)
            if array is not None:
                yield name, array

    def distribution(self, step: int) -> Distribution | None:
        """What the token after a step is chosen from; None where there is nothing to sample."""
        return self._sampled(step)[0]

    def top_candidate(self, step: int, name: str) -> int | None:
        """What the newest position of a residual stream would say, through norm and unembedding.

        None where the array is not there or its logits are not finite.

        Raises:
            NotKept: also where the weights are not at hand.
        """
        if (step, name) not in self._tops:
            residual = self.array(step, name)
            if residual is None:
                return None
            try:
                self._tops[step, name] = int(lens_top(self.weights, residual[-1:])[0])
            except NoReadout as reason:
                raise NotKept(str(reason)) from reason
            while len(self._tops) > TOPS_HELD:
                self._tops.popitem(last=False)
        token = self._tops[step, name]
        return token if token >= 0 else None

    def refusal(self, step: int) -> str:
        """In words why nothing can be sampled from a step; empty where something can."""
        return self._sampled(step)[1]

    def landing(self, step: int) -> Pick | None:
        """The token on which a step's held number falls."""
        shown = self.distribution(step)
        return None if shown is None else pick(shown, self.sampling, self.trace.steps[step].uniform)

    def chosen(self, step: int) -> tuple[int, float] | None:
        """The token after a step and its log-probability (nats, raw): taken, or to be taken."""
        shown, steps = self.distribution(step), self.trace.steps
        if shown is None:
            return None
        if step + 1 < len(steps):
            score = token_score(shown, steps[step + 1].token_ids[0])
            return score.token, score.log_probability
        landing = self.landing(step)
        return None if landing is None else (landing.token_id, landing.log_probability)

    def _sampled(self, step: int) -> tuple[Distribution | None, str]:
        found = self._distributions.get(step)
        if found is None:
            try:
                shown = self.run.distribution(step, self.sampling)
                found = shown, "" if shown is not None else "its logits are not computed"
            except (NonFiniteLogits, FaultNotPossible) as problem:
                found = None, str(problem)
            if found[0] is None and self.trace.logits(step) is None:
                return found  # to be asked again once they are there
            self._distributions[step] = found
            while len(self._distributions) > STEPS_HELD:
                self._distributions.popitem(last=False)
        return found

    def _recomputed(self, step: int, name: str) -> Array | None:
        layer = self.trace.operations[self.trace.producer(name)].layer
        gone = f"{name} of step {step} was not kept"
        if layer is None:
            raise NotKept(gone)
        if (step, layer) not in self._blocks:
            if self.recompute is None:
                raise Elsewhere(gone) if self.elsewhere else NotKept(gone)
            arrays = self.recompute(step, layer)
            if arrays is None:
                raise NotKept(f"{gone} and cannot be recomputed")
            self._blocks[(step, layer)] = arrays
            while len(self._blocks) > BLOCKS_HELD:
                self._blocks.popitem(last=False)
        return self._blocks[(step, layer)].get(name)
