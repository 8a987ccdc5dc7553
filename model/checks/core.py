"""What a check is, what it is given, and what it answers.

A check is one function from a :class:`Subject` to a :class:`CheckResult`, registered by
:func:`check`. Any package may register more; every list of checks follows from the registry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from model.engine import Cache, Engine, TokenIds
from model.errors import ContextOverflow, DecoderError, EmptyPrompt
from model.faults import apply_faults, find_fault, in_order, sampling_under
from model.sampling_orders import SamplingConfig

LEAST_DECODED = 2


@dataclass(frozen=True)
class Where:
    """A place in a run; what does not apply is None.

    ``step`` counts passes of the check's own run, or steps of a recorded trace; 0 is the prefill.
    """

    layer: int | None = None
    head: int | None = None
    query: int | None = None
    key: int | None = None
    step: int | None = None
    operation: str | None = None


@dataclass(frozen=True)
class CheckResult:
    """The verdict of one check.

    Attributes:
        worst: the largest deviation found; NaN if a number that was compared is NaN.
        tolerance: the largest that is accepted, in the same unit.
        detail: one sentence with the numbers, whether it holds or not.
        where: where the deviation is, or None if there is none.
        examined: whether it could be examined at all; if not, it holds, and the detail says why.
    """

    name: str
    holds: bool
    worst: float
    tolerance: float
    detail: str
    where: Where | None = None
    examined: bool = True


@dataclass(frozen=True)
class Subject:
    """What is examined: an engine, faults and all, beside the same engine without them.

    Attributes:
        engine: the engine in hand.
        sound_engine: the same weights, wired as they should be.
        prompt_ids: the prompt, at least one token.
        continuation: the tokens to decode after it, or how many the sound engine chooses greedily;
            with neither it chooses a few all the same, so that there is a decode to examine.
        context: positions to stay within; None is the model's own.
        sampling: the settings as they are stated.
        faults: names of the faults that are switched on.

    Raises:
        EmptyPrompt, ContextOverflow: the prompt is empty, or longer than the context.
    """

    engine: Engine
    sound_engine: Engine
    prompt_ids: tuple[int, ...]
    continuation: tuple[int, ...] | int = 8
    context: int | None = None
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    faults: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise EmptyPrompt
        if len(self.prompt_ids) > self.positions:
            raise ContextOverflow(len(self.prompt_ids), self.positions)

    @classmethod
    def under(
        cls,
        engine: Engine,
        prompt_ids: Iterable[int],
        faults: Iterable[str] = (),
        *,
        continuation: tuple[int, ...] | int = 8,
        context: int | None = None,
        sampling: SamplingConfig | None = None,
    ) -> Subject:
        """A sound engine with some faults switched on.

        Raises:
            FaultNotPossible: an unknown fault, or one that this engine or these settings cannot
                have.
        """
        names = in_order(faults)
        settings = sampling or SamplingConfig()
        sampling_under(settings, names)  # refuses here what could not be examined later
        broken = apply_faults(engine, names)
        prompt = tuple(prompt_ids)
        subject = cls(broken, engine, prompt, continuation, context, settings, names)
        for name in names:
            find_fault(name).require_positions(len(subject.token_ids))
        return subject

    @property
    def positions(self) -> int:
        """Positions that a run may use: the context asked for, or the model's if that is less."""
        own = self.sound_engine.shape.context_length
        return own if self.context is None else min(own, self.context)

    @property
    def chosen(self) -> int:
        """How many tokens the sound engine chooses, if the context has room for them."""
        if self.continuation:
            return self.continuation if isinstance(self.continuation, int) else 0
        return LEAST_DECODED

    @cached_property
    def token_ids(self) -> tuple[int, ...]:
        """The prompt and what is decoded after it, as far as the context goes."""
        given = () if isinstance(self.continuation, int) else self.continuation
        ids = [*self.prompt_ids, *given][: self.positions]
        cache = self.new_cache()
        fed = 0
        for _ in range(min(self.chosen, self.positions - len(ids))):
            logits = self.sound_engine.forward(as_batch(ids[fed:]), cache)
            fed = len(ids)
            ids.append(int(np.argmax(logits[0, -1])))
        return tuple(ids)

    @cached_property
    def prefilled(self) -> int:
        """How many of ``token_ids`` are processed in the first pass; the rest, one at a time.

        That is the prompt; where nothing follows it, all of it but its last token.
        """
        total = len(self.token_ids)
        return len(self.prompt_ids) if total > len(self.prompt_ids) else max(1, total - 1)

    @property
    def decoded(self) -> int:
        """How many tokens are decoded, one at a time."""
        return len(self.token_ids) - self.prefilled

    @property
    def remark(self) -> str:
        """What the reader must know about the run, or nothing."""
        following = len(self.token_ids) - len(self.prompt_ids)
        if following and self.continuation:
            return ""
        if following:
            tokens = plural(following, "token")
            return f"; nothing followed the prompt, so {tokens} of the sound model's choice did"
        why = f"the prompt fills the context of {self.positions}"
        if self.decoded:
            return f"; {why}, so its last token was processed as a decoded one"
        return f"; {why}, so no token was decoded"

    def new_cache(self) -> Cache:
        """An empty cache for a run within the context."""
        return self.sound_engine.new_cache(self.positions)


CheckFunction = Callable[[Subject], CheckResult]


@dataclass(frozen=True)
class Check:
    """A registered check: its name, one sentence on what it asserts, and the function."""

    name: str
    asserts: str
    run: CheckFunction


_CHECKS: dict[str, Check] = {}


def check(name: str, asserts: str) -> Callable[[CheckFunction], CheckFunction]:
    """Register a check under its name with one sentence on what it asserts."""

    def register(function: CheckFunction) -> CheckFunction:
        if name in _CHECKS:
            raise ValueError(f"the check {name} is registered already")
        _CHECKS[name] = Check(name, asserts, function)
        return function

    return register


def all_checks() -> tuple[Check, ...]:
    """All registered checks, in the order in which they were registered."""
    return tuple(_CHECKS.values())


def run_checks(subject: Subject, names: Iterable[str] | None = None) -> Iterator[CheckResult]:
    """Run checks one after the other; the caller may stop between two of them.

    Args:
        subject: what is examined.
        names: which checks, in this order; None is all of them.

    Raises:
        DecoderError: there is no check of that name; raised before any check runs.
    """
    chosen = tuple(_CHECKS) if names is None else tuple(names)
    for name in chosen:
        if name not in _CHECKS:
            raise DecoderError(f"there is no check {name!r}; there are {', '.join(_CHECKS)}")
    return (blamed(_CHECKS[name].run(subject), subject.faults) for name in chosen)


def blamed(result: CheckResult, faults: tuple[str, ...]) -> CheckResult:
    """The result, which names the faults that are on if it does not hold."""
    if result.holds or not faults:
        return result
    expected = [name for name in faults if result.name in find_fault(name).caught_by]
    culprits = ", ".join(expected or faults)
    return replace(result, detail=f"{result.detail}; deliberate fault on: {culprits}")


def as_batch(token_ids: Iterable[int]) -> TokenIds:
    """Token ids as an engine takes them, (1, pos) int64."""
    return np.array([list(token_ids)], dtype=np.int64)


def worse(candidate: float, worst: float) -> bool:
    """Whether a deviation exceeds the worst so far; NaN exceeds every number."""
    return not math.isnan(worst) and (math.isnan(candidate) or candidate > worst)


def within(worst: float, tolerance: float) -> bool:
    """Whether a deviation is accepted; NaN never is."""
    return worst <= tolerance


def number(value: float) -> str:
    """A deviation for a sentence: ``0``, ``NaN``, or three significant digits."""
    return "NaN" if math.isnan(value) else f"{value:.3g}"


def plural(count: int, noun: str, nouns: str = "") -> str:
    """``1 layer``, ``4 layers``, ``2 queries``."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"
