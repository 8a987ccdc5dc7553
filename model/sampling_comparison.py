"""Two distributions over one vocabulary side by side: overlap and divergence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from model.errors import ShapeMismatch
from model.ranking import Floats, Ids
from model.sampling import Distribution


@dataclass(frozen=True, eq=False)
class Comparison:
    """How two settings of the sampler differ on the same logits.

    Attributes:
        only_first, only_second, both: ids kept by one alone or by both, rising.
        jaccard: tokens kept by both among those kept by either, in [0, 1].
        shared_mass: the sum of the smaller of the two probabilities of every token, in [0, 1]; 1
            minus it is the total variation distance.
        first_inside, second_inside: mass of the first on what the second keeps, and the reverse.
        forward, backward: Kullback-Leibler divergence of the first from the second and the reverse,
            nats; infinite where one can draw what the other cannot.
    """

    only_first: Ids
    only_second: Ids
    both: Ids
    jaccard: float
    shared_mass: float
    first_inside: float
    second_inside: float
    forward: float
    backward: float


def compare(first: Distribution, second: Distribution) -> Comparison:
    """Two final distributions compared.

    Raises:
        ShapeMismatch: they are of different vocabularies.
    """
    sizes = first.ranking.vocabulary, second.ranking.vocabulary
    if sizes[0] != sizes[1]:
        raise ShapeMismatch(f"a vocabulary of {sizes[0]} tokens and one of {sizes[1]}")
    held = np.zeros((2, sizes[0]), bool)
    for row, each in zip(held, (first, second), strict=True):
        row[each.kept] = True
    both = held[0] & held[1]
    mine, other = first.final[both], second.final[both]
    either = int(np.count_nonzero(held[0] | held[1]))
    complete = first.kept_count == mine.size, second.kept_count == other.size
    return Comparison(
        only_first=np.flatnonzero(held[0] & ~held[1]),
        only_second=np.flatnonzero(held[1] & ~held[0]),
        both=np.flatnonzero(both),
        jaccard=mine.size / either,
        shared_mass=min(1.0, float(np.minimum(mine, other).sum())),
        first_inside=1.0 if complete[0] else min(1.0, float(mine.sum())),
        second_inside=1.0 if complete[1] else min(1.0, float(other.sum())),
        forward=_divergence(mine, other) if complete[0] else math.inf,
        backward=_divergence(other, mine) if complete[1] else math.inf,
    )


def _divergence(mine: Floats, other: Floats) -> float:
    """Sum of p ln(p / q) over tokens that both can draw, nats."""
    return max(0.0, float((mine * (np.log(mine) - np.log(other))).sum()))
