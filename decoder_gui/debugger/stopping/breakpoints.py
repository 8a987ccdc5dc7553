"""The breakpoints of a run: rules with a number of their own that can be switched on and off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from decoder_gui.debugger.stopping.rules import InvalidRule, Rule, rule_from_dict


@dataclass(frozen=True)
class Breakpoint:
    """One thing to stop at; ``number`` is its own for as long as there is a list."""

    number: int
    rule: Rule
    on: bool = True


@dataclass(frozen=True)
class Breakpoints:
    """All of them, in the order in which they were set; every change makes another list."""

    items: tuple[Breakpoint, ...] = ()
    next_number: int = 1

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def on(self) -> tuple[Breakpoint, ...]:
        """Those that are switched on."""
        return tuple(item for item in self.items if item.on)

    def find(self, number: int) -> Breakpoint | None:
        return next((item for item in self.items if item.number == number), None)

    def of(self, rule: Rule) -> Breakpoint | None:
        """The one with exactly this rule."""
        return next((item for item in self.items if item.rule == rule), None)

    def added(self, rule: Rule, *, on: bool = True) -> Breakpoints:
        """With one more; a rule that is there already is switched on instead."""
        there = self.of(rule)
        if there is not None:
            return self.switched(there.number, on)
        made = Breakpoint(self.next_number, rule, on)
        return Breakpoints((*self.items, made), self.next_number + 1)

    def without(self, *numbers: int) -> Breakpoints:
        """Without some of them."""
        kept = tuple(item for item in self.items if item.number not in numbers)
        return replace(self, items=kept)

    def switched(self, number: int, on: bool) -> Breakpoints:
        """With one switched on or off."""
        items = (replace(i, on=on) if i.number == number else i for i in self.items)
        return replace(self, items=tuple(items))

    def edited(self, number: int, rule: Rule) -> Breakpoints:
        """With another rule under the same number; one that had this rule already goes."""
        items = (replace(i, rule=rule) if i.number == number else i for i in self.items)
        kept = tuple(i for i in items if i.number == number or i.rule != rule)
        return replace(self, items=kept)

    def to_list(self) -> list[dict[str, object]]:
        """Plain data for JSON; numbers are given anew when it is read."""
        return [{**item.rule.to_dict(), "on": item.on} for item in self.items]

    @classmethod
    def from_list(cls, data: object) -> tuple[Breakpoints, tuple[str, ...]]:
        """The inverse, and a sentence for each entry that could not be read."""
        if not isinstance(data, list):
            return cls(), (f"Breakpoints must be a list, not {type(data).__name__}.",)
        made, refused = cls(), []
        for at, plain in enumerate(data):
            try:
                if not isinstance(plain, Mapping):
                    raise InvalidRule("it must be a kind with its fields")
                on = plain.get("on", True)
                if not isinstance(on, bool):
                    raise InvalidRule(f"on must be true or false, not {on!r}")
                rule = rule_from_dict({k: v for k, v in plain.items() if k != "on"})
            except InvalidRule as problem:
                refused.append(f"Breakpoint {at + 1} was left out: {problem}.")
            else:
                made = made.added(rule, on=on)
        return made, tuple(refused)
