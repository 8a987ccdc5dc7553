"""What a breakpoint can wait for: the base of all rules, their registry and their form as data.

A rule is a frozen dataclass registered by a decorator. Its fields are annotated with an
:class:`Entry`, which says what a dialog asks for, and are all that is saved. Nothing else has to
know of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_type_hints

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.spots import InvalidSpot, Spot
from model.errors import DecoderError

if TYPE_CHECKING:
    from decoder_gui.debugger.stopping.scene import Scene


class InvalidRule(DecoderError, ValueError):
    """A breakpoint that cannot be; the message says why, for the dialog or the file it is from."""


@dataclass(frozen=True)
class Verdict:
    """What a rule says of one event.

    ``holds`` None says nothing: whatever held at the event before still does.
    """

    holds: bool | None
    reason: str = ""


NO = Verdict(False)
SILENT = Verdict(None)


def found(reason: str) -> Verdict:
    """The rule holds, for a reason in words."""
    return Verdict(True, reason)


class Side(StrEnum):
    """On which side of a value."""

    ABOVE = "above"
    BELOW = "below"


@dataclass(frozen=True)
class Entry:
    """What a dialog asks for to fill in a field.

    ``least`` and ``most`` are allowed themselves; ``suggestion`` stands in the empty form where
    the field has no default.
    """

    label: str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    suggestion: Any = None


@dataclass(frozen=True)
class FieldForm:
    """A field of a rule, for a form: its name, type (int, float, str, Spot or an enum), entry."""

    name: str
    type: type
    entry: Entry
    default: Any


@dataclass(frozen=True)
class Rule:
    """One thing to stop at.

    A search stops at an event where the rule holds and did not hold at the event before, so that
    running on always gets further. With ``each`` it stops at every event where it holds.

    Attributes:
        kind: stable name, in saved files.
        title: what the list of kinds says.
        help: one sentence: at which events it stops.
    """

    kind: ClassVar[str] = ""
    title: ClassVar[str] = ""
    help: ClassVar[str] = ""
    each: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for form in forms(type(self)):
            _check(form, getattr(self, form.name))

    @property
    def words(self) -> str:
        """The rule in words, for a list."""
        return self.title

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        """Whether it holds at an event."""
        raise NotImplementedError

    def ahead(self, scene: Scene) -> bool:
        """Whether it may hold in steps that are still to come."""
        return True

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON; :func:`rule_from_dict` is the inverse."""
        plain: dict[str, object] = {"kind": self.kind}
        for form in forms(type(self)):
            value = getattr(self, form.name)
            plain[form.name] = value.to_dict() if isinstance(value, Spot) else value
        return plain


_RULES: dict[str, type[Rule]] = {}
R = TypeVar("R", bound=type[Rule])


def rule(kind: str, title: str, help: str, *, each: bool = False) -> Callable[[R], R]:
    """Decorator: make a frozen dataclass a rule. One new class is all that it takes."""

    def register(made: R) -> R:
        if kind in _RULES:
            raise ValueError(f"two rules are called {kind!r}")
        made.kind, made.title, made.help, made.each = kind, title, help, each
        _RULES[kind] = made
        return made

    return register


@cache
def _load() -> None:
    """Import every module of this package, once."""
    package = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


def all_rules() -> tuple[type[Rule], ...]:
    """Every kind of rule, in the order in which a dialog lists them."""
    _load()
    # Whichever module was needed first: the order is always the same.
    return tuple(sorted(_RULES.values(), key=lambda made: made.__module__))


def forms(kind: type[Rule]) -> tuple[FieldForm, ...]:
    """The fields of a kind of rule."""
    hints = get_type_hints(kind, include_extras=True)
    made = []
    for each in fields(kind):
        annotated = hints[each.name]
        default = None if each.default is MISSING else each.default
        made.append(FieldForm(each.name, annotated.__origin__, annotated.__metadata__[0], default))
    return tuple(made)


def rule_from_dict(data: object) -> Rule:
    """A rule from plain data.

    Raises:
        InvalidRule: no such kind, or fields that do not fit; the message says which.
    """
    if not isinstance(data, Mapping):
        raise InvalidRule(f"a breakpoint needs a kind and its fields, not {data!r}")
    _load()
    made = _RULES.get(str(data.get("kind")))
    if made is None:
        raise InvalidRule(f"there is no breakpoint of the kind {data.get('kind')!r}")
    known = {form.name: form for form in forms(made)}
    strange = sorted(set(data) - set(known) - {"kind"})
    missing = sorted(
        name for name, form in known.items() if name not in data and _required(made, name)
    )
    if strange or missing:
        which = f"has no field {strange[0]}" if strange else f"needs the field {missing[0]}"
        raise InvalidRule(f"a breakpoint of the kind {made.kind} {which}")
    values = {name: _value(form, data[name]) for name, form in known.items() if name in data}
    return made(**values)


def _required(made: type[Rule], name: str) -> bool:
    return any(each.name == name and each.default is MISSING for each in fields(made))


def _value(form: FieldForm, value: object) -> object:
    if form.type is Spot:
        try:
            return Spot.from_dict(value)
        except InvalidSpot as problem:
            raise InvalidRule(str(problem)) from problem
    if issubclass(form.type, StrEnum):
        try:
            return form.type(str(value))
        except ValueError as problem:
            offered = ", ".join(form.type)
            raise InvalidRule(f"{form.entry.label} is one of {offered}, not {value!r}") from problem
    if form.type is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _check(form: FieldForm, value: object) -> None:
    asked = form.entry
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = isinstance(value, form.type) and (form.type not in (int, float) or number)
    if form.type is float and number:
        fits = math.isfinite(float(value))  # type: ignore[arg-type]
    if not fits:
        what = {int: "a whole number", float: "a finite number", str: "a text"}
        raise InvalidRule(f"{asked.label} must be {what.get(form.type, form.type)}, not {value!r}")
    if form.type is str and not str(value).strip():
        raise InvalidRule(f"{asked.label} must not be empty")
    if number:
        assert isinstance(value, int | float)
        if asked.least is not None and value < asked.least:
            raise InvalidRule(f"{asked.label} must be at least {asked.least:g}, not {value:g}")
        if asked.most is not None and value > asked.most:
            raise InvalidRule(f"{asked.label} must be at most {asked.most:g}, not {value:g}")


def shown(value: float) -> str:
    """A number in a reason: four significant digits, NaN and infinity as words."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return f"{value:.4g}"
