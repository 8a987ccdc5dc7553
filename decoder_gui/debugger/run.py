"""The Qt-free state of a run as the window and the command line see it: trace and choices."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np

from decoder_gui.debugger.choosing import Pick, pick
from decoder_gui.debugger.session import BlockReplayed, StepBegan, StepEnded, Update
from model.ablation import Edit
from model.engine import Array, Engine
from model.faults import sampling_under
from model.sampling import (
    Distribution,
    Ranking,
    SamplingConfig,
    distribution_from,
    rank,
    stable_log_softmax,
)
from model.trace import Event, Phase, Step, Trace


@dataclass(frozen=True)
class Taken:
    """The token that was really taken after a step."""

    token_id: int
    log_probability: float  # nats, of the raw distribution
    by_hand: bool


class Run:
    """A trace that grows by updates, with the tokens taken and their log-probabilities."""

    def __init__(self, engine: Engine, faults: frozenset[str] = frozenset()) -> None:
        self.trace = Trace(engine.operations, engine.shape)
        self.faults = faults
        self.edits: tuple[Edit, ...] = engine.edits
        self._taken_by_hand: set[int] = set()
        self._settings: dict[int, SamplingConfig] = {}
        self._log_probabilities: list[float | None] = []
        self._rankings: OrderedDict[int, Ranking] = OrderedDict()

    def copy(self) -> Run:
        """The same run with a trace of its own, to be searched or carried on elsewhere."""
        other = copy(self)
        other.trace = self.trace.copy()
        other._taken_by_hand = set(self._taken_by_hand)
        other._settings = dict(self._settings)
        other._log_probabilities = list(self._log_probabilities)
        other._rankings = OrderedDict(self._rankings)
        return other

    def apply(self, update: Update) -> None:
        """Take in what a session yielded."""
        match update:
            case StepBegan(step):
                if step.index < len(self.trace.steps):
                    self.cut(step.index)
                self.trace.begin(step)
            case Event():
                self.trace.add(update)
            case StepEnded(step):
                self._extend_log_probabilities(step)
            case BlockReplayed(step, layer, arrays):
                self.trace.add_replay(step, layer, arrays)

    def fork(self, steps: Sequence[Step]) -> Run:
        """Another run that begins with these steps of this one; see :meth:`Trace.fork`."""
        other = copy(self)
        other.trace = self.trace.fork(steps)
        other._taken_by_hand = {step for step in self._taken_by_hand if step < len(steps) - 1}
        other._settings = {k: v for k, v in self._settings.items() if k < len(steps) - 1}
        other._log_probabilities = self._log_probabilities[: other.trace.positions]
        other._rankings = OrderedDict()
        return other

    def emptied(self) -> Run:
        """A run of no steps that remembers how the tokens of this one were chosen."""
        other = self.fork(())
        other.take_marks(self)
        return other

    def take_marks(self, other: Run) -> None:
        """How the tokens were chosen, from another run of the same tokens."""
        self._taken_by_hand |= other._taken_by_hand
        self._settings.update(other._settings)

    def cut(self, steps: int) -> None:
        """Forget everything from a step on."""
        if steps < len(self.trace.steps):
            del self._log_probabilities[self.trace.steps[steps].first :]
        self.trace.truncate(steps)
        self._taken_by_hand = {step for step in self._taken_by_hand if step < steps - 1}
        self._settings = {k: v for k, v in self._settings.items() if k < steps - 1}
        for step in [step for step in self._rankings if step >= steps]:
            del self._rankings[step]

    def drop_unfinished(self) -> None:
        """After a cancelled job: forget the step that was not completed, and what was to follow."""
        steps = len(self.trace.steps)
        if steps and not self.trace.complete(steps - 1):
            steps -= 1
        self.cut(steps)

    @property
    def taken_by_hand(self) -> frozenset[int]:
        """Steps after which the token was chosen by hand."""
        return frozenset(self._taken_by_hand)

    def mark_by_hand(self, step: int) -> None:
        """Remember that the token after a step was chosen by hand."""
        self._taken_by_hand.add(step)

    @property
    def settings(self) -> Mapping[int, SamplingConfig]:
        """Per step, the settings under which the token after it was chosen, where known."""
        return self._settings

    def mark_settings(self, steps: Iterable[int], settings: SamplingConfig) -> None:
        """Remember under which settings the tokens after some steps were chosen."""
        self._settings.update((step, settings) for step in steps)

    @property
    def log_probabilities(self) -> tuple[float | None, ...]:
        """Per position of complete steps: log-probability of its token, None where unknown."""
        return tuple(self._log_probabilities)

    def taken(self) -> tuple[Taken, ...]:
        """One per step that has a complete successor."""
        known = len(self._log_probabilities)
        return tuple(
            Taken(
                step.token_ids[0],
                _number(self._log_probabilities[step.first]),
                step.index - 1 in self._taken_by_hand or step.phase is Phase.PREFILL,
            )
            for step in self.trace.steps[1:]
            if step.first < known
        )

    def ranking(self, step: int) -> Ranking | None:
        """The step's logits, validated and sorted once; None before they are recorded.

        Raises:
            NonFiniteLogits: there is nothing to sample from.
        """
        found = self._rankings.get(step)
        if found is None:
            logits = self.trace.logits(step)
            if logits is None:
                return None
            found = self._rankings[step] = rank(logits)
            while len(self._rankings) > 4:
                self._rankings.popitem(last=False)
        return found

    def distribution(self, step: int, config: SamplingConfig) -> Distribution | None:
        """The step's distribution under a setting, faults of the sampler included."""
        ranking = self.ranking(step)
        if ranking is None:
            return None
        settings = sampling_under(config, self.faults)
        return distribution_from(ranking, settings, self.history(step, settings))

    def history(self, step: int, config: SamplingConfig) -> tuple[int, ...]:
        """The tokens up to and including a step; none where the penalty that counts them is off."""
        if config.repetition_penalty == 1.0:
            return ()
        return self.trace.token_ids[: self.trace.steps[step].last]

    def landing(self, step: int, config: SamplingConfig) -> Pick | None:
        """The token on which the step's held draw falls under a setting."""
        distribution = self.distribution(step, config)
        if distribution is None:
            return None
        return pick(distribution, config, self.trace.steps[step].uniform)

    def _extend_log_probabilities(self, index: int) -> None:
        step = self.trace.steps[index]
        if step.first == 0:
            self._log_probabilities.append(None)
        else:
            self._log_probabilities.append(
                self._token_log_probability(index - 1, step.token_ids[0])
            )
        logits = self.trace.array(index, "logits")
        rest = step.token_ids[1:]
        if logits is None or logits.shape[1] != len(step.token_ids):
            self._log_probabilities.extend(None for _ in rest)
            return
        for row, token in zip(logits[0], rest, strict=False):
            self._log_probabilities.append(_log_probability(row, token))

    def _token_log_probability(self, step: int, token: int) -> float | None:
        logits = self.trace.logits(step)  # a capture may be without them
        return None if logits is None else _log_probability(logits, token)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _log_probability(logits: Array, token: int) -> float:
    if np.isnan(logits).any() or not np.isfinite(logits.max()):
        return float("nan")
    return float(stable_log_softmax(logits)[token])
