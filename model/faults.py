"""Deliberate faults: each breaks one thing, so that a class can watch the checks find it.

A fault is a function registered by a decorator, of an engine or of the sampler's settings. Nothing
else has to know of it. The weights in hand are never written: a fault gives another engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from model.engine import Engine
from model.errors import FaultNotPossible
from model.sampling_orders import (
    TRUNCATE_FIRST,
    SamplingConfig,
    fault_truncate_first,
    find_order,
)

EngineChange = Callable[[Engine], Engine]
SamplingChange = Callable[[SamplingConfig], SamplingConfig]


@dataclass(frozen=True)
class Fault:
    """A mistake that can be switched on.

    Attributes:
        name: what the command line takes.
        title: a few words for a menu.
        explanation: one sentence: what is done wrong, and what follows from it.
        caught_by: the checks that fail under it in every engine, whatever the prompt, as long as
            the context has two positions; others may fail too.
        positions: how many positions a run needs for the mistake to show.
    """

    name: str
    title: str
    explanation: str
    caught_by: tuple[str, ...]
    positions: int = 1
    _engine: EngineChange | None = field(default=None, repr=False)
    _sampling: SamplingChange | None = field(default=None, repr=False)

    @property
    def in_sampler(self) -> bool:
        """Whether it changes the choice of a token and leaves the forward pass alone."""
        return self._sampling is not None

    def apply(self, engine: Engine) -> Engine:
        """The engine under this fault; the engine itself if the fault is in the sampler.

        Raises:
            FaultNotPossible: this engine cannot have it; the message says why.
        """
        self.require_positions(engine.shape.context_length)
        return engine if self._engine is None else self._engine(engine)

    def require_positions(self, context: int) -> None:
        """Refuse a context in which the mistake could not show.

        Raises:
            FaultNotPossible: it has too few positions.
        """
        if context < self.positions:
            raise FaultNotPossible(
                f"{self.name} needs {self.positions} positions to show; this context has {context}"
            )

    def apply_to_sampling(self, config: SamplingConfig) -> SamplingConfig:
        """The settings that the sampler really follows while ``config`` is what they say.

        Raises:
            FaultNotPossible: these settings cannot have it; the message says why.
        """
        return config if self._sampling is None else self._sampling(config)


_FAULTS: dict[str, Fault] = {}


def _register(fault: Fault) -> None:
    if fault.name in _FAULTS:
        raise ValueError(f"the fault {fault.name} is registered already")
    _FAULTS[fault.name] = fault


def engine_fault(
    name: str, title: str, explanation: str, caught_by: tuple[str, ...], *, positions: int = 1
) -> Callable[[EngineChange], EngineChange]:
    """Register a fault of the forward pass, made by the decorated function of an engine."""

    def register(change: EngineChange) -> EngineChange:
        _register(Fault(name, title, explanation, caught_by, positions, _engine=change))
        return change

    return register


def sampling_fault(
    name: str, title: str, explanation: str, caught_by: tuple[str, ...]
) -> Callable[[SamplingChange], SamplingChange]:
    """Register a fault of the sampler, made by the decorated function of its settings."""

    def register(change: SamplingChange) -> SamplingChange:
        _register(Fault(name, title, explanation, caught_by, _sampling=change))
        return change

    return register


def fault_names() -> tuple[str, ...]:
    """Names of all faults, in the order in which a menu lists them."""
    return tuple(_FAULTS)


def all_faults() -> tuple[Fault, ...]:
    """All faults, in the order in which a menu lists them."""
    return tuple(_FAULTS.values())


def find_fault(name: str) -> Fault:
    """A fault by its name.

    Raises:
        FaultNotPossible: there is none of that name; the message lists those that there are.
    """
    if name not in _FAULTS:
        raise FaultNotPossible(f"there is no fault {name!r}; there are {', '.join(_FAULTS)}")
    return _FAULTS[name]


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Some faults, each once, in the order in which a menu lists them.

    Raises:
        FaultNotPossible: an unknown name.
    """
    wanted = {find_fault(name).name for name in names}
    return tuple(name for name in _FAULTS if name in wanted)


def apply_faults(engine: Engine, names: Iterable[str]) -> Engine:
    """The engine with all of these faults switched on, or the engine itself if there are none.

    Faults of the sampler are accepted and change nothing here; see :func:`sampling_under`.

    Raises:
        FaultNotPossible: an unknown name, or a fault that this engine cannot have.
    """
    for name in names:
        engine = find_fault(name).apply(engine)
    return engine


def sampling_under(config: SamplingConfig, names: Iterable[str]) -> SamplingConfig:
    """The settings that the sampler really follows with these faults switched on.

    Faults of the engine are accepted and change nothing here; see :func:`apply_faults`.

    Raises:
        FaultNotPossible: an unknown name, or a fault that these settings cannot have.
    """
    for name in names:
        config = find_fault(name).apply_to_sampling(config)
    return config


@engine_fault(
    "no-mask",
    "No causal mask",
    "Every query sees all keys of its pass, later ones too, so a prediction can read its answer.",
    ("causal-weights", "causal-behaviour"),
    positions=2,
)
def _no_mask(engine: Engine) -> Engine:
    return engine.rewired(replace(engine.wiring, lookahead=None))


@engine_fault(
    "mask-off-by-one",
    "Mask off by one",
    "The diagonal of the mask lies one place too far, so every query also sees the next token.",
    ("causal-weights", "causal-behaviour"),
    positions=2,
)
def _mask_off_by_one(engine: Engine) -> Engine:
    wiring = engine.wiring
    wider = None if wiring.lookahead is None else max(1, wiring.lookahead)
    return engine.rewired(replace(wiring, lookahead=wider))


@engine_fault(
    "positions-restart",
    "Positions restart",
    "A decoded token is given position 0 again instead of the number of tokens in the cache.",
    ("positions", "cache-equals-full"),
    positions=2,
)
def _positions_restart(engine: Engine) -> Engine:
    return engine.rewired(replace(engine.wiring, restart_positions=True))


@engine_fault(
    "stale-cache",
    "Stale cache row",
    "A decoded token's key and value overwrite the newest cached row, and its own stays unwritten.",
    ("cache-constant", "cache-equals-full"),
    positions=2,
)
def _stale_cache(engine: Engine) -> Engine:
    return engine.rewired(replace(engine.wiring, stale_cache=True))


@engine_fault(
    "no-scale",
    "Scores not scaled",
    "Scores are not divided by the root of the head width, so softmax is sharper than trained for.",
    ("cache-equals-full",),
)
def _no_scale(engine: Engine) -> Engine:
    if engine.shape.head_dim == 1:
        raise FaultNotPossible("with a head width of 1 the scale is 1: leaving it out is no fault")
    return engine.rewired(replace(engine.wiring, scaled=False))


@sampling_fault(
    TRUNCATE_FIRST,
    "Truncation before temperature",
    "Top-k and top-p are measured before the temperature, against the order that the settings say.",
    ("sampling",),
)
def _truncate_first(config: SamplingConfig) -> SamplingConfig:
    names = find_order(config.order).names
    if names and names.index("temperature") > names.index("top_p"):
        raise FaultNotPossible(
            f"the order {config.order} truncates before the temperature by its own rule, so under "
            f"it {TRUNCATE_FIRST} is no fault"
        )
    return fault_truncate_first(config)


@engine_fault(
    "nan-weight",
    "One weight is NaN",
    "One weight is not a number; everything computed from it is not a number either.",
    ("finite", "causal-behaviour", "cache-equals-full"),
)
def _nan_weight(engine: Engine) -> Engine:
    return engine.poisoned()
