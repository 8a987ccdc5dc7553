"""The settings of a sampler, its stages, and the orders in which libraries apply them.

Every stage keeps the first tokens of its ranking and cuts the rest, so what is kept is always a
prefix. Only the repetition penalty moves logits; from there on the ranking is another one. A stage
is a function from :class:`Stage` to :class:`Stage`; an order is a generator of the stages it
applies, registered by a decorator. Adding either is adding one function. An order of one's own is
the names of the five stages with commas between, such as
``top_k,top_p,min_p,repetition_penalty,temperature``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from numbers import Integral, Real

import numpy as np

from model.errors import InvalidSampling
from model.ranking import Floats, Ids, Ranking, read_only

# A sum of probabilities within this of its target has reached it: float32 logits say no more.
REACHES = 1e-6

TRUNCATE_FIRST = "truncate-before-temperature"


@dataclass(frozen=True)
class SamplingConfig:
    """Settings that change a text more than the model does; a result means nothing without them.

    Attributes:
        temperature: divides the logits; 0 is greedy decoding.
        top_p: keep the shortest run of most likely tokens with this mass, in (0, 1]; 1 is off.
        top_k: keep this many tokens; 0 is off, more than the vocabulary keeps all.
        seed: of the session's generator; None leaves it to the session.
        order: the name of an order, see :func:`order_names`, or the names of the five STAGES in
            the order wanted, with commas between.
        min_p: keep tokens with at least this share of the highest probability, in [0, 1]; 0 is off.
        repetition_penalty: what has occurred so far has a positive logit divided by it, any other
            multiplied; above 0, 1 is off.

    Raises:
        InvalidSampling: a value out of its range or of the wrong type.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    order: str = "reference"
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        clean = {
            "temperature": _real("temperature", self.temperature, "finite and >= 0"),
            "top_p": _real("top_p", self.top_p, "in (0, 1]"),
            "min_p": _real("min_p", self.min_p, "in [0, 1]"),
            "repetition_penalty": _real(
                "repetition_penalty", self.repetition_penalty, "finite and > 0"
            ),
            "top_k": _whole("top_k", self.top_k),
            "seed": None if self.seed is None else _whole("seed", self.seed),
        }
        for name, value in clean.items():
            object.__setattr__(self, name, value)
        if not 0.0 <= self.temperature < math.inf:
            raise InvalidSampling(f"temperature must be finite and >= 0, not {self.temperature}")
        if not 0.0 < self.top_p <= 1.0:
            raise InvalidSampling(f"top_p must be in (0, 1], not {self.top_p}")
        if not 0.0 <= self.min_p <= 1.0:
            raise InvalidSampling(f"min_p must be in [0, 1], not {self.min_p}")
        if not 0.0 < self.repetition_penalty < math.inf:
            raise InvalidSampling(
                f"repetition_penalty must be finite and > 0, not {self.repetition_penalty}"
            )
        object.__setattr__(self, "order", find_order(self.order).name)

    @property
    def deterministic(self) -> bool:
        """Temperature 0: the highest logit, nothing is drawn, no seed is needed."""
        return self.temperature == 0.0


def _real(name: str, value: object, allowed: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidSampling(f"{name} must be a number {allowed}, not {value!r}")
    try:
        return float(value)
    except OverflowError as error:
        raise InvalidSampling(f"{name} must be {allowed}; the number given is too large") from error


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 0:
        raise InvalidSampling(f"{name} must be a whole number >= 0, not {value!r}")
    return int(value)


def _no_ids() -> Ids:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Stage:
    """The distribution after one stage: the first ``kept_count`` tokens of the ranking.

    Attributes:
        name: ``raw``, ``greedy``, or one of STAGES.
        ranking: of the logits as they are at this stage.
        kept_count: how many tokens are still in.
        cut_name: what the tokens cut here are labelled with.
        temperature: by which the probabilities here are tempered.
        measure: the mass that a later top-p takes as its whole, 1 until something renormalises.
        occurred: the ids that the repetition penalty counts, each once, rising.
    """

    name: str
    ranking: Ranking = field(repr=False)
    config: SamplingConfig = field(repr=False)
    kept_count: int
    cut_name: str = field(repr=False)
    temperature: float = field(default=1.0, repr=False)
    measure: float = field(default=1.0, repr=False)
    occurred: Ids = field(default_factory=_no_ids, repr=False)

    @property
    def weights(self) -> Floats:
        """Probabilities at this stage's temperature by rank, as if nothing were cut; (vocab,)."""
        return self.ranking.tempered(self.temperature)

    @cached_property
    def mass(self) -> float:
        """The share of that whole distribution which the kept tokens hold, in (0, 1]."""
        if self.kept_count >= self.ranking.finite_count or not self.weights[self.kept_count]:
            return 1.0  # nothing of any weight is cut: the probabilities stay as they are
        return float(self.weights[: self.kept_count].sum())

    @cached_property
    def ranked(self) -> Floats:
        """Probabilities of the kept tokens by rank, renormalised; (kept_count,) float64."""
        return read_only(self.weights[: self.kept_count] / self.mass)

    @property
    def kept(self) -> Ids:
        """Ids of the kept tokens by falling probability; (kept_count,) int64."""
        return self.ranking.top(self.kept_count)

    def holds(self, token_id: int) -> bool:
        """Whether a token is still in."""
        if self.kept_count >= self.ranking.vocabulary:
            return True
        return int(self.ranking.places[token_id]) < self.kept_count

    @cached_property
    def probabilities(self) -> Floats:
        """Probabilities by token id, 0 where cut; (vocab,) float64, sums to 1."""
        whole = np.zeros(self.ranking.vocabulary)
        whole[self.kept] = self.ranked
        return read_only(whole)

    def cut(self, name: str, count: int) -> Stage:
        """The next stage, which keeps at most ``count`` tokens and at least one."""
        kept = max(1, min(self.kept_count, count))
        return replace(self, name=name, cut_name=name, kept_count=kept)


def first_stage(ranking: Ranking, config: SamplingConfig, occurred: Ids | None = None) -> Stage:
    """The distribution as the model gives it; tokens at -infinity are out already."""
    tokens = _no_ids() if occurred is None else occurred
    return Stage("raw", ranking, config, ranking.finite_count, "masked", occurred=tokens)


# --- stages -------------------------------------------------------------------------------------


def repetition_penalty(before: Stage) -> Stage:
    """Make what has occurred less likely; nothing is cut, and what was cut stays out."""
    after = replace(before, name="repetition_penalty", cut_name="repetition_penalty")
    penalty = before.config.repetition_penalty
    if penalty == 1.0 or not before.occurred.size:
        return after
    moved = before.ranking.penalised(penalty, before.occurred, before.kept_count)
    return replace(after, ranking=moved)


def temperature(before: Stage) -> Stage:
    """Divide the logits by the temperature; what rounds to probability 0 is out (underflow)."""
    after = replace(
        before, name="temperature", cut_name="underflow", temperature=before.config.temperature
    )
    positive = int(np.count_nonzero(after.weights))
    return replace(after, kept_count=min(before.kept_count, positive))


def greedy(before: Stage) -> Stage:
    """Keep the highest logit, the lowest id among equals."""
    return replace(before.cut("greedy", 1), temperature=0.0)


def top_k(before: Stage) -> Stage:
    """Keep exactly k tokens; ties at the edge go to the lower id."""
    return before.cut("top_k", before.config.top_k or before.kept_count)


def top_k_with_ties(before: Stage) -> Stage:
    """Keep k tokens and whatever has the same logit as the last of them."""
    k = before.config.top_k
    if not 0 < k < before.kept_count:
        return top_k(before)
    ranking = before.ranking
    # The logits themselves: how far they lie below the highest may round to the same number.
    edge = ranking.logits[ranking.order[k - 1]]
    return before.cut("top_k", int(np.count_nonzero(ranking.logits >= edge)))


def top_p(before: Stage) -> Stage:
    """Keep the shortest run whose mass reaches p, the token that crosses it included."""
    if before.config.top_p == 1.0:
        return before.cut("top_p", before.kept_count)
    running = np.cumsum(before.weights[: before.kept_count])
    target = (before.config.top_p - REACHES) * before.measure
    return before.cut("top_p", int(np.searchsorted(running, target)) + 1)


def min_p(before: Stage) -> Stage:
    """Keep tokens with at least min_p times the probability of the most likely one."""
    if before.config.min_p == 0.0:
        return before.cut("min_p", before.kept_count)
    # p / p_max >= min_p is a bound on how far the logit lies below the highest.
    lowest = (REACHES - math.log(before.config.min_p)) * before.temperature
    return before.cut("min_p", before.ranking.within(lowest))


def renormalised(stage: Stage) -> Stage:
    """Let the kept tokens be the whole that the next stage measures."""
    return replace(stage, measure=stage.mass)


STAGES: dict[str, Callable[[Stage], Stage]] = {
    "repetition_penalty": repetition_penalty,
    "temperature": temperature,
    "top_k": top_k,
    "top_p": top_p,
    "min_p": min_p,
}
"""The stages that an order of one's own names, in the order of ``hugging-face``."""

STAGE_WORDS = {
    "repetition_penalty": "repetition penalty",
    "temperature": "temperature",
    "top_k": "top-k",
    "top_p": "top-p",
    "min_p": "min-p",
}


# --- orders -------------------------------------------------------------------------------------

Stages = Callable[[Stage], Iterator[Stage]]


@dataclass(frozen=True)
class Order:
    """An order of stages: its name, its rule in words, and the generator that applies it.

    ``names`` are its stages in turn. ``offered`` is false for the deliberate fault, which no list
    of choices shows, and for orders of one's own.
    """

    name: str
    rule: str
    stages: Stages = field(repr=False)
    offered: bool = True
    names: tuple[str, ...] = ()


ORDERS: dict[str, Order] = {}


def sampling_order(
    name: str, rule: str, *, offered: bool = True, names: tuple[str, ...] = ()
) -> Callable[[Stages], Stages]:
    """Register a generator of stages as an order."""

    def register(stages: Stages) -> Stages:
        ORDERS[name] = Order(name, rule, stages, offered, names)
        return stages

    return register


def order_names() -> tuple[str, ...]:
    """The orders with a name that a user can choose, the default first."""
    return tuple(order.name for order in ORDERS.values() if order.offered)


def find_order(name: object) -> Order:
    """An order by its name, or one of one's own by the names of its stages.

    Raises:
        InvalidSampling: neither; the message says what there is.
    """
    if isinstance(name, str):
        if name in ORDERS:
            return ORDERS[name]
        if "," in name:
            return _own_order(name)
    raise InvalidSampling(
        f"order must be one of {', '.join(order_names())}, not {name!r}, or the names "
        f"{', '.join(STAGES)} in the order wanted"
    )


@lru_cache(maxsize=256)
def _own_order(text: str) -> Order:
    names = tuple(part.strip().replace("-", "_") for part in text.split(","))
    unknown = next((name for name in names if name not in STAGES), None)
    if unknown is not None:
        raise InvalidSampling(
            f"there is no stage {unknown!r} to order: there are {', '.join(STAGES)}"
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidSampling(f"the order names the stage {twice} twice")
    missing = [name for name in STAGES if name not in names]
    if missing:
        raise InvalidSampling(
            f"the order does not name {', '.join(missing)}: each stage has a place, one that is "
            "off too"
        )

    def stages(stage: Stage) -> Iterator[Stage]:
        for name in names:
            stage = renormalised(STAGES[name](stage))
            yield stage

    words = [STAGE_WORDS[name] for name in names]
    rule = f"{', '.join(words[:-1])}, then {words[-1]}; each on what is left by those before it"
    return Order(",".join(names), rule, stages, offered=False, names=names)


def own_order(names: Sequence[str]) -> str:
    """The name of the order that applies these stages in turn.

    Raises:
        InvalidSampling: not each of STAGES once.
    """
    return _own_order(",".join(names)).name


TEMPERED_FIRST = ("repetition_penalty", "temperature", "top_k", "top_p", "min_p")
TEMPERED_LAST = ("repetition_penalty", "top_k", "top_p", "min_p", "temperature")


@sampling_order(
    "reference",
    "repetition penalty; temperature; then top-k, top-p and min-p, each measured on the whole "
    "tempered distribution",
    names=TEMPERED_FIRST,
)
def reference(stage: Stage) -> Iterator[Stage]:
    """As nothing is renormalised in between, the order of the cuts cannot matter."""
    for step in (repetition_penalty, temperature, top_k, top_p, min_p):
        stage = step(stage)
        yield stage


@sampling_order(
    "hugging-face",
    "repetition penalty, temperature, top-k (all that tie with the k-th stay), renormalise, top-p, "
    "renormalise, min-p",
    names=TEMPERED_FIRST,
)
def hugging_face(stage: Stage) -> Iterator[Stage]:
    """What transformers' generate does with its logits processors."""
    for step in (repetition_penalty, temperature, top_k_with_ties, top_p, min_p):
        stage = renormalised(step(stage))
        yield stage


@sampling_order(
    "llama.cpp",
    "repetition penalty, top-k, renormalise, top-p on the untempered distribution, min-p, then "
    "temperature",
    names=TEMPERED_LAST,
)
def llama_cpp(stage: Stage) -> Iterator[Stage]:
    """llama.cpp's default chain, which tempers what is left at the very end.

    Its top-p takes a softmax of the candidates that are left, and its min-p compares logits with
    the highest one (src/llama-sampling.cpp).
    """
    for step in (repetition_penalty, top_k, top_p, min_p):
        stage = renormalised(step(stage))
        yield stage
    yield temperature(stage)


@sampling_order(
    TRUNCATE_FIRST,
    "the reference's cuts made before the temperature, a fault",
    offered=False,
    names=TEMPERED_LAST,
)
def truncate_first(stage: Stage) -> Iterator[Stage]:
    """Which tokens are eligible no longer depends on the temperature: the classic mistake."""
    for step in (repetition_penalty, top_k, top_p, min_p, temperature):
        stage = step(stage)
        yield stage


def fault_truncate_first(config: SamplingConfig) -> SamplingConfig:
    """The same settings under the fault ``truncate-before-temperature``.

    The result differs from the sound order only where the temperature is neither 0 nor 1 and
    top-p or min-p is on; top-k alone is untouched, as temperature keeps the ranking.
    """
    return replace(config, order=TRUNCATE_FIRST)
