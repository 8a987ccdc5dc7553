"""What two runs must give to be compared: a recording each, and how it chose its tokens.

A trace is a recording, whether an engine of ours filled it or a capture was opened as one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from model.engine import Array
from model.errors import FaultNotPossible, NonFiniteLogits
from model.faults import sampling_under
from model.operations import Operation
from model.sampling import Distribution, SamplingConfig, distribution, draw
from model.shape import ModelShape
from model.trace import Presence, Step

SIZES = {
    "depth": "layers",
    "model_dim": "numbers in the residual stream",
    "num_heads": "heads",
    "kv_heads": "key/value heads",
    "head_dim": "numbers in a head",
    "mlp_dim": "numbers in the MLP",
    "vocabulary": "tokens in the vocabulary",
}
"""Sizes that two runs must share to be compared, in words; contexts may differ."""

BLOCKS_HELD = 2  # recomputed blocks held at a time, for each of the two runs


class Recording(Protocol):
    """Steps in order, and their arrays under canonical names; :class:`model.trace.Trace` is one."""

    @property
    def operations(self) -> tuple[Operation, ...]: ...
    @property
    def shape(self) -> ModelShape: ...
    @property
    def steps(self) -> tuple[Step, ...]: ...
    def presence(self, step: int, array_name: str) -> Presence: ...
    def array(self, step: int, array_name: str) -> Array | None: ...


@dataclass(frozen=True, eq=False)
class Chosen:
    """How a run chooses the token after a position.

    Attributes:
        token_id: the token, None where there is nothing to choose from.
        uniform: the draw that chose it; None where it was greedy, or is not known.
        shown: the distribution that it was drawn from, None where only the token is known.
    """

    token_id: int | None
    uniform: float | None = None
    shown: Distribution | None = None


Choose = Callable[[int], Chosen | None]
"""Position -> the choice made from its logits; None where nothing was chosen or nothing is known.

The position is that of the last token processed before the choice."""

Recall = Callable[[int, int], Mapping[str, Array]]
"""(step, layer) -> the arrays of a block that the byte budget had left out."""


def nothing_chosen(_: int) -> None:
    """For a run of which no choice is known."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of two runs that are compared.

    Attributes:
        name: what a sentence calls it.
        recording: its steps and arrays.
        choose: how it chose its tokens.
        recall: brings an evicted block back; None where that is not possible.
        piece: the text of a token id, for words about a position.
        tolerance: how far its arithmetic lets sound ways of computing lie apart, relative.
        sizes: the sizes of its shape that are known; a recording does not tell all of them.
    """

    name: str
    recording: Recording
    choose: Choose = nothing_chosen
    recall: Recall | None = None
    piece: Callable[[int], str] = field(default=str)
    tolerance: float = 1e-4
    sizes: frozenset[str] = frozenset(SIZES)


class Arrays:
    """The arrays of a side, evicted ones brought back a block at a time."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.steps = side.recording.steps
        self._blocks: OrderedDict[tuple[int, int], Mapping[str, Array]] = OrderedDict()

    def get(self, step: int, operation: Operation, name: str) -> Array | None:
        """An array with its batch axis, or None if the recording has none of that name."""
        recording = self.side.recording
        found = recording.array(step, name)
        if found is not None or operation.layer is None or self.side.recall is None:
            return found
        if recording.presence(step, name) is not Presence.EVICTED:
            return None
        key = (step, operation.layer)
        if key not in self._blocks:
            self._blocks[key] = self.side.recall(*key)
            while len(self._blocks) > BLOCKS_HELD:
                self._blocks.popitem(last=False)
        return self._blocks[key].get(name)


def rows_of(array: Array, step: Step) -> tuple[Array, int]:
    """An array without its batch axis, and the position of its first row.

    An array with fewer rows than the step has positions is of the last ones: logits are often
    computed for the last position alone.
    """
    return array[0], step.last - array.shape[-2]


def logits_in(recording: Recording, step: Step, position: int) -> Array | None:
    """The logits that follow a position of a step, (vocab,), or None if they are not recorded."""
    array = recording.array(step.index, "logits")
    if array is None:
        return None
    rows, first = rows_of(array, step)
    return rows[position - first] if position >= first else None


def held_draws(recording: Recording) -> dict[int, float]:
    """The uniform number of every step, by the position that it follows."""
    return {step.last - 1: step.uniform for step in recording.steps}


def sampler(
    recording: Recording,
    config: SamplingConfig,
    draws: Mapping[int, float],
    faults: frozenset[str] = frozenset(),
) -> Choose:
    """How a run chooses under some settings with the draws given, by position."""

    steps = {at: step for step in recording.steps[::-1] for at in range(step.first, step.last)}
    tokens = [steps[at].token_ids[at - steps[at].first] for at in sorted(steps)]

    def choose(position: int) -> Chosen | None:
        uniform, step = draws.get(position), steps.get(position)
        logits = None if step is None else logits_in(recording, step, position)
        if uniform is None or logits is None:
            return None
        try:
            shown = distribution(logits, sampling_under(config, faults), tokens[: position + 1])
        except (NonFiniteLogits, FaultNotPossible):
            return Chosen(None)
        number = None if config.deterministic else uniform
        return Chosen(draw(shown, uniform), number, shown)

    return choose


def taken(
    recording: Recording, draws: Mapping[int, float | None], by_hand: Collection[int] = ()
) -> Choose:
    """The tokens that a run really took, as its later steps show; for one made elsewhere.

    After the positions ``by_hand`` somebody chose the token, which tells nothing of the sampler.
    """
    starts = {step.first: step.token_ids[0] for step in recording.steps[1:]}

    def choose(position: int) -> Chosen | None:
        if position + 1 not in starts or position in by_hand:
            return None
        return Chosen(starts[position + 1], draws.get(position))

    return choose


def variation(left: Distribution, right: Distribution) -> float:
    """Total variation distance of two distributions that are drawn from, in 0 to 1."""
    return float(np.abs(left.final - right.final).sum()) / 2
