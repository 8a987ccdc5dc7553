"""The logits of one token, validated once and ranked once.

Temperature, top-k and top-p never change the order of the logits, so whoever moves a slider ranks
the logits of the token in hand once and then redraws from the ranking. A repetition penalty moves
a few of them: those are merged anew into the order that is there, which sorts nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from model.errors import NonFiniteLogits, ShapeMismatch

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

# exp of anything below is 0 in float64, and slow to find out.
_SMALLEST_EXPONENT = -745.2
# A slider moves one setting at a time: the temperature in hand and 1 (llama.cpp's order) suffice.
_TEMPERATURES_HELD = 3
_PENALTIES_HELD = 2  # of two settings side by side


@dataclass(frozen=True, eq=False)
class Ranking:
    """Logits and their order; made by :func:`rank`, which validates them.

    Attributes:
        logits: (vocab,) float64, read-only.
        highest: the highest logit, always finite.
        best: the lowest id among the tokens with the highest logit.
        finite_count: tokens whose logit is not -infinity; they are the first of ``order``.
        known_order: the order, where whoever made this knows it already.
    """

    logits: Floats = field(repr=False)
    highest: float
    best: int
    finite_count: int
    known_order: Ids | None = field(default=None, repr=False)
    _held: dict[float, Floats] = field(default_factory=dict, repr=False)
    _penalised: dict[tuple[float, bytes, int], Ranking] = field(default_factory=dict, repr=False)

    @property
    def vocabulary(self) -> int:
        return self.logits.size

    @cached_property
    def order(self) -> Ids:
        """All token ids by falling logit, the lower id first among equals; (vocab,) int64."""
        if self.known_order is not None:
            return read_only(self.known_order)
        return read_only(_falling_order(self.logits))

    @cached_property
    def places(self) -> Ids:
        """Of each token its rank, from 0: the inverse of ``order``; (vocab,) int64."""
        places = np.empty_like(self.order)
        places[self.order] = np.arange(self.vocabulary)
        return read_only(places)

    def top(self, count: int) -> Ids:
        """The ids of the ``count`` highest logits; asking for one alone does not sort."""
        if count == 1:
            return read_only(np.array([self.best]))
        return self.order[:count]

    @cached_property
    def drop(self) -> Floats:
        """How far each rank lies below the highest logit: (vocab,), rising from 0 to +infinity."""
        with np.errstate(over="ignore"):  # logits near both ends of float64: the drop is infinite
            return read_only(self.highest - self.logits[self.order])

    @cached_property
    def _relative(self) -> Floats:
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(self.logits - self.highest)

    @cached_property
    def log_total(self) -> float:
        """ln of the sum of exp(logit - highest): what turns a logit into a log-probability."""
        return math.log(float(self._relative.sum()))

    @cached_property
    def raw(self) -> Floats:
        """Softmax of the logits as they are, by token id; (vocab,) float64, sums to 1."""
        return read_only(self._relative / self._relative.sum())

    @cached_property
    def log_raw(self) -> Floats:
        """Log-probabilities (nats) by token id, as a log-softmax; -infinity where masked."""
        with np.errstate(over="ignore"):
            return read_only(self.logits - self.highest - self.log_total)

    def log_probability(self, token_id: int) -> float:
        """The entry of ``log_raw`` of one token, without computing the others."""
        return float(self.logits[token_id]) - self.highest - self.log_total

    def tempered(self, temperature: float) -> Floats:
        """Softmax of logits / temperature by RANK, nothing cut; (vocab,) float64, sums to 1.

        Temperature 0 puts everything on the first rank. Finite for any positive temperature:
        only differences from the highest logit are divided.
        """
        held = self._held.get(temperature)
        if held is None:
            held = read_only(self._tempered(temperature))
            if len(self._held) >= _TEMPERATURES_HELD:
                self._held.pop(next(iter(self._held)), None)
            self._held[temperature] = held
        return held

    def _tempered(self, temperature: float) -> Floats:
        if temperature == 1.0:
            return self.raw[self.order]
        weights = np.zeros(self.vocabulary)
        if temperature == 0.0:
            weights[0] = 1.0
            return weights
        positive = self.within(-_SMALLEST_EXPONENT * temperature)
        with np.errstate(over="ignore", under="ignore"):
            np.exp(self.drop[:positive] / -temperature, out=weights[:positive])
        weights /= weights.sum()
        return weights

    def penalised(self, penalty: float, tokens: Ids, kept: int | None = None) -> Ranking:
        """The ranking after a repetition penalty: what has occurred becomes less likely.

        The rule of CTRL (Keskar et al., 2019): a positive logit is divided by the penalty, any
        other multiplied with it; how often a token has occurred does not matter.

        Args:
            penalty: above 0; below 1 it makes what has occurred more likely.
            tokens: ids that have occurred, each once, rising.
            kept: how many of this ranking are still in; the others get -infinity. None is all.
        """
        count = self.finite_count if kept is None else kept
        if count == self.finite_count and (penalty == 1.0 or not tokens.size):
            return self
        key = (penalty, tokens.tobytes(), count)
        found = self._penalised.get(key)
        if found is None:
            found = self._merged(penalty, tokens, count)
            while len(self._penalised) >= _PENALTIES_HELD:
                self._penalised.pop(next(iter(self._penalised)), None)
            self._penalised[key] = found
        return found

    def _merged(self, penalty: float, tokens: Ids, count: int) -> Ranking:
        inside, outside = self.order[:count], self.order[count:]
        logits = self.logits.copy()
        logits[outside] = -math.inf
        known = tokens[logits[tokens] > -math.inf]
        before = logits[known]
        with np.errstate(over="ignore"):
            after = np.where(before > 0.0, before / penalty, before * penalty)
        # A penalty is no mask, and makes nothing certain: it stops short of infinity.
        largest = np.finfo(np.float64).max
        logits[known] = np.clip(after, -largest, largest)
        moved = np.zeros(self.vocabulary, bool)
        moved[known] = True
        order = np.concatenate((_merge(inside[~moved[inside]], known, logits), outside))
        best = int(order[0])
        return Ranking(read_only(logits), float(logits[best]), best, count, order)

    def within(self, drop: float) -> int:
        """How many tokens lie at most ``drop`` below the highest logit."""
        return int(np.searchsorted(self.drop, drop, side="right"))


def rank(logits: ArrayLike) -> Ranking:
    """Validate the logits of one token, (vocab,), in any real dtype; they are copied.

    The sort itself waits until something asks for it: greedy decoding never does.

    Raises:
        NonFiniteLogits: NaN or +infinity (the message has the token id), or only -infinity.
        ShapeMismatch: no logits, more than one axis, or not real numbers.
    """
    values = real_array(logits)
    if values.ndim != 1 or not values.size:
        raise ShapeMismatch(f"logits of one token must have shape (vocab,), not {values.shape}")
    check_logits(values)
    best = int(values.argmax())
    finite = values.size
    if values.min() == -math.inf:
        finite = int(np.count_nonzero(values != -math.inf))
    return Ranking(read_only(values), float(values[best]), best, finite)


def stable_log_softmax(logits: ArrayLike) -> Floats:
    """Log-softmax over the last axis in float64, never as the logarithm of a softmax.

    A confident model gives probabilities that underflow; their logarithms do not.

    Raises:
        NonFiniteLogits: NaN or +infinity, or a row of nothing but -infinity.
        ShapeMismatch: no axis, an empty last axis, or not real numbers.
    """
    values = real_array(logits)
    if not values.ndim or not values.shape[-1]:
        raise ShapeMismatch(f"log-softmax needs a vocabulary axis, not the shape {values.shape}")
    for row in values.reshape(-1, values.shape[-1]):
        check_logits(row)
    with np.errstate(over="ignore", under="ignore"):
        shifted: Floats = values - values.max(axis=-1, keepdims=True)
        total: Floats = np.exp(shifted).sum(axis=-1, keepdims=True)
    return shifted - np.log(total)


def check_logits(row: Floats) -> None:
    """Refuse a row that cannot be sampled from, naming the first token at fault."""
    highest = float(row.max())
    if math.isfinite(highest):
        return
    if highest == -math.inf:
        raise NonFiniteLogits(
            f"all {row.size} logits are -infinity: every token is masked and none can be chosen"
        )
    token = int(np.argmax(np.isnan(row) | (row == math.inf)))
    what = "NaN" if math.isnan(row[token]) else "+infinity"
    raise NonFiniteLogits(f"the logit of token {token} is {what}: nothing can be sampled")


def real_array(logits: ArrayLike) -> Floats:
    """A float64 copy of anything that holds real numbers."""
    try:
        values = np.asarray(logits)
    except ValueError as error:
        raise ShapeMismatch(f"logits must be a regular array of numbers: {error}") from error
    if values.dtype.kind not in "fiu":
        raise ShapeMismatch(f"logits must be real numbers, not {values.dtype}")
    return values.astype(np.float64)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, closed against writing: it is shared with whoever draws it."""
    array.flags.writeable = False
    return array


def _merge(ranked: Ids, others: Ids, logits: Floats) -> Ids:
    """Ids in falling order of logits, and a few others put where they belong among them."""
    falling = -logits[ranked]
    wanted = others[np.lexsort((others, -logits[others]))]
    lows = np.searchsorted(falling, -logits[wanted], side="left")
    highs = np.searchsorted(falling, -logits[wanted], side="right")
    at = lows.copy()
    for i in np.flatnonzero(highs > lows):  # equal logits stand by their ids
        at[i] += np.searchsorted(ranked[lows[i] : highs[i]], wanted[i])
    return np.insert(ranked, at, wanted)


def _falling_order(logits: Floats) -> Ids:
    with np.errstate(over="ignore", under="ignore"):
        narrow = logits.astype(np.float32)
    if not np.array_equal(narrow, logits):
        return np.argsort(-logits, kind="stable")
    # Logits are float32 as a rule. As integers that fall when the float rises, their two halves
    # can each be sorted by NumPy's stable radix sort, three times faster than comparing floats.
    bits = (narrow + np.float32(0.0)).view(np.uint32)  # adding 0 makes -0 equal to 0
    keys = np.where(bits >> 31, bits, ~bits & np.uint32(0x7FFFFFFF))
    by_low = np.argsort(keys.astype(np.uint16), kind="stable")
    high = (keys >> np.uint32(16)).astype(np.uint16)
    return by_low[np.argsort(high[by_low], kind="stable")]
