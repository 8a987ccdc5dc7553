"""From logits to a token: every stage's distribution, and the draw as a function of its own.

``distribution`` never draws and ``draw`` never touches a generator, so a control that moves can
show its effect with the step's own uniform number held still. The window, the command line and the
batch sampler all go through these two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from model.errors import InvalidSampling, ShapeMismatch, UnknownToken
from model.ranking import (
    Floats,
    Ids,
    Ranking,
    rank,
    read_only,
    real_array,
    stable_log_softmax,
)
from model.sampling_orders import (
    ORDERS,
    STAGE_WORDS,
    STAGES,
    Order,
    SamplingConfig,
    Stage,
    fault_truncate_first,
    find_order,
    first_stage,
    greedy,
    order_names,
    own_order,
    repetition_penalty,
    sampling_order,
)

__all__ = [
    "ORDERS",
    "STAGES",
    "STAGE_WORDS",
    "Candidate",
    "Distribution",
    "Order",
    "Ranking",
    "SamplingConfig",
    "Stage",
    "TokenScore",
    "UniformSource",
    "batched_sample",
    "distribution",
    "distribution_from",
    "draw",
    "fault_truncate_first",
    "find_order",
    "order_names",
    "own_order",
    "rank",
    "sample_token",
    "sampling_order",
    "stable_log_softmax",
    "token_score",
    "top_candidates",
]


class UniformSource(Protocol):
    """What a draw needs of a generator: random.Random and numpy.random.Generator both fit."""

    def random(self) -> float:
        """A uniform number in [0, 1)."""
        ...


class TokenScore(NamedTuple):
    """A token and its log-probability (nats) under the raw distribution."""

    token: int
    log_probability: float


@dataclass(frozen=True)
class Candidate:
    """One token of the distribution, as a panel lists it; ``cut_by`` is None for kept tokens."""

    token_id: int
    raw: float
    tempered: float
    final: float
    cut_by: str | None
    log_probability: float


@dataclass(frozen=True, eq=False)
class Distribution:
    """A token's distribution at every stage; made by :func:`distribution`.

    Arrays over the vocabulary are float64, read-only, indexed by token id, and computed when they
    are first asked for: a panel that shows twenty candidates and a few totals pays for no more.

    Attributes:
        ranking: the validated logits and their order.
        config: the settings.
        stages: the distribution after each stage, ``raw`` first.
        penalised: all logits after the repetition penalty, and their order; ``ranking`` itself
            where it is off.
    """

    ranking: Ranking = field(repr=False)
    config: SamplingConfig
    stages: tuple[Stage, ...]
    penalised: Ranking = field(repr=False)

    @property
    def _last(self) -> Stage:
        return self.stages[-1]

    @property
    def raw(self) -> Floats:
        """Softmax of the logits as they are; (vocab,)."""
        return self.ranking.raw

    @property
    def log_raw(self) -> Floats:
        """Log-softmax of the logits (nats), the log-probabilities that are reported; (vocab,)."""
        return self.ranking.log_raw

    @cached_property
    def tempered(self) -> Floats:
        """Softmax of penalised logits / temperature, nothing cut, whatever the order; (vocab,)."""
        if self.config.temperature == 1.0:
            return self.penalised.raw
        whole = np.zeros(self.ranking.vocabulary)
        if self.config.deterministic:
            whole[self.penalised.best] = 1.0
        else:
            whole[self.penalised.order] = self.penalised.tempered(self.config.temperature)
        return read_only(whole)

    @property
    def final(self) -> Floats:
        """What is drawn from: 0 where cut, sums to 1; (vocab,)."""
        return self._last.probabilities

    @property
    def kept_count(self) -> int:
        """How many tokens can be drawn."""
        return self._last.kept_count

    @property
    def kept(self) -> Ids:
        """Their ids by falling probability, the lower id first among equals; (kept_count,)."""
        return self._last.kept

    @cached_property
    def cut_names(self) -> tuple[str | None, ...]:
        """What the codes of ``cut_by`` mean; code 0, None, is a token that was kept.

        Besides the names of stages there are ``masked`` (a logit of -infinity) and ``underflow``
        (a probability that the temperature has rounded to 0).
        """
        return (None, *(stage.cut_name for stage in self.stages))

    @cached_property
    def cut_by(self) -> NDArray[np.int8]:
        """Per token, the index into ``cut_names`` of what cut it; (vocab,) int8."""
        codes = np.zeros(self.ranking.vocabulary, np.int8)
        end = codes.size
        for code, stage in enumerate(self.stages, start=1):
            if stage.kept_count < end:
                codes[stage.ranking.order[stage.kept_count : end]] = code
                end = stage.kept_count
        return read_only(codes)

    def cut_name(self, token_id: int) -> str | None:
        """What cut a token, or None if it can be drawn; without an array over the vocabulary.

        Raises:
            UnknownToken: no such token.
        """
        self._known(token_id)
        return next((each.cut_name for each in self.stages if not each.holds(token_id)), None)

    def candidate(self, token_id: int) -> Candidate:
        """One token as a panel lists it.

        Raises:
            UnknownToken: no such token.
        """
        cut = self.cut_name(token_id)
        last, temperature = self._last, self.config.temperature
        return Candidate(
            token_id,
            float(self.ranking.raw[token_id]),
            float(self.penalised.tempered(temperature)[self.penalised.places[token_id]]),
            0.0 if cut is not None else float(last.ranked[last.ranking.places[token_id]]),
            cut,
            self.ranking.log_probability(token_id),
        )

    @cached_property
    def entropy(self) -> float:
        """Entropy of the final distribution, nats."""
        if self.kept_count == 1:
            return 0.0
        probabilities = self._last.ranked
        # ln p falls from ln p_first by drop / temperature: one product instead of a logarithm each.
        drop = float((probabilities * self._last.ranking.drop[: self.kept_count]).sum())
        return max(0.0, drop / self._last.temperature - math.log(probabilities[0]))

    @property
    def effective(self) -> float:
        """Effective choices: how many equally likely tokens have the same entropy."""
        return math.exp(self.entropy)

    @cached_property
    def cumulative(self) -> Floats:
        """Running sums of the final probabilities by rank; (kept_count,)."""
        return read_only(np.cumsum(self._last.ranked))

    def _known(self, token_id: int) -> int:
        if not 0 <= token_id < self.ranking.vocabulary:
            raise UnknownToken(
                f"token {token_id} is outside the vocabulary 0..{self.ranking.vocabulary - 1}"
            )
        return token_id


def distribution(
    logits: ArrayLike, config: SamplingConfig, history: Sequence[int] = ()
) -> Distribution:
    """The distribution of one token's logits, (vocab,), at every stage.

    ``history`` is the ids of all tokens so far, which only the repetition penalty looks at.

    Raises:
        NonFiniteLogits: NaN or +infinity (the message has the token id), or only -infinity.
        ShapeMismatch: logits that are not one row of real numbers.
        UnknownToken: the penalty is on and the history has an id outside the vocabulary.
    """
    return distribution_from(rank(logits), config, history)


def distribution_from(
    ranking: Ranking, config: SamplingConfig, history: Sequence[int] = ()
) -> Distribution:
    """The same for logits that are ranked already: what a moving slider calls."""
    occurred = _occurred(ranking, config, history)
    raw = first_stage(ranking, config, occurred)
    if config.deterministic:
        penalised = repetition_penalty(raw)
        return Distribution(ranking, config, (raw, penalised, greedy(penalised)), penalised.ranking)
    stages = tuple(find_order(config.order).stages(raw))
    whole = ranking.penalised(config.repetition_penalty, occurred)
    return Distribution(ranking, config, (raw, *stages), whole)


def _occurred(ranking: Ranking, config: SamplingConfig, history: Sequence[int]) -> Ids:
    """The tokens of a history, each once; none where the penalty is off."""
    if config.repetition_penalty == 1.0 or not len(history):
        return np.empty(0, np.int64)
    tokens = np.unique(np.asarray(history, dtype=np.int64))
    for token in (int(tokens[0]), int(tokens[-1])):
        if not 0 <= token < ranking.vocabulary:
            raise UnknownToken(
                f"token {token} of the history is outside the vocabulary "
                f"0..{ranking.vocabulary - 1}"
            )
    return tokens


def top_candidates(shown: Distribution, count: int) -> tuple[Candidate, ...]:
    """The ``count`` most likely tokens by falling raw probability, the lower id among equals.

    Tokens that were cut are among them. How many are asked for never changes what is drawn.
    """
    count = max(0, min(count, shown.ranking.vocabulary))
    return tuple(shown.candidate(token) for token in shown.ranking.top(count).tolist())


def draw(source: Distribution, uniform: float) -> int:
    """The token that a uniform number in [0, 1) selects.

    The first kept token, by falling probability, whose cumulative mass exceeds ``uniform`` times
    the kept mass. As the last cumulative mass exceeds it for any uniform below 1, there is always
    one; and as the mass has to grow at that token, its probability is not 0.

    Raises:
        InvalidSampling: a uniform number outside [0, 1).
    """
    if not 0.0 <= uniform < 1.0:
        raise InvalidSampling(f"a uniform number must lie in [0, 1), not {uniform}")
    reached = uniform * source.cumulative[-1]
    return int(source.kept[np.searchsorted(source.cumulative, reached, side="right")])


def token_score(source: Distribution, token_id: int) -> TokenScore:
    """A token with its raw log-probability, whether it was drawn or chosen by hand.

    Raises:
        UnknownToken: no such token.
    """
    return TokenScore(token_id, source.ranking.log_probability(source._known(token_id)))


def sample_token(
    logits: ArrayLike, config: SamplingConfig, rng: UniformSource, history: Sequence[int] = ()
) -> TokenScore:
    """Choose the next token from logits (vocab,), with one uniform number; greedy draws none."""
    source = distribution(logits, config, history)
    uniform = 0.0 if config.deterministic else float(rng.random())
    return token_score(source, draw(source, uniform))


def batched_sample(
    logits: ArrayLike,
    temperature: float | SamplingConfig,
    top_p: float = 1.0,
    rng: UniformSource | None = None,
    histories: Sequence[Sequence[int]] = (),
) -> Ids:
    """One token per row of logits (batch, vocab); (batch,) int64.

    Row by row the same as :func:`sample_token` with one generator, one uniform number a row.

    Args:
        logits: (batch, vocab).
        temperature: a temperature, or a whole SamplingConfig, which then holds top-p as well.
        top_p: nucleus mass, beside a plain temperature only.
        rng: the generator; only greedy decoding does without.
        histories: the ids so far of each row, for the repetition penalty; none is none.

    Raises:
        InvalidSampling: settings out of range, or no generator where one is needed.
        ShapeMismatch: logits that are not (batch, vocab).
        NonFiniteLogits: as for :func:`distribution`.
    """
    if not isinstance(temperature, SamplingConfig):
        config = SamplingConfig(temperature=temperature, top_p=top_p)
    elif top_p != 1.0:
        raise InvalidSampling(f"top_p is part of the SamplingConfig; {top_p} was given beside it")
    else:
        config = temperature
    rows = real_array(logits)
    if rows.ndim != 2:
        raise ShapeMismatch(f"batched logits must have shape (batch, vocab), not {rows.shape}")
    before = histories or [()] * len(rows)
    if len(before) != len(rows):
        raise ShapeMismatch(f"{len(rows)} rows of logits have {len(before)} histories")
    sources = [  # all refusals before the first draw
        distribution(row, config, ids) for row, ids in zip(rows, before, strict=True)
    ]
    if config.deterministic:
        uniforms = [0.0] * len(sources)
    elif rng is None:
        raise InvalidSampling(f"temperature {config.temperature} needs a generator to draw from")
    else:
        uniforms = [float(rng.random()) for _ in sources]
    chosen = [draw(source, uniform) for source, uniform in zip(sources, uniforms, strict=True)]
    return np.array(chosen, dtype=np.int64)
