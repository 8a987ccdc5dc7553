"""Rules about the choice of a token, judged where it is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.rules.core import (
    NO,
    Entry,
    Rule,
    Side,
    Verdict,
    found,
    rule,
    shown,
)
from decoder_gui.debugger.stopping.scene import Scene


@rule(
    "few-kept",
    "Fewer than n tokens are kept",
    "Stops at every choice among fewer tokens.",
    each=True,
)
@dataclass(frozen=True)
class FewKept(Rule):
    """The sampler cuts so much that fewer than n tokens can be drawn."""

    count: Annotated[int, Entry("Fewer than", unit="tokens", least=2, suggestion=2)]

    @property
    def words(self) -> str:
        return f"Fewer than {self.count:,} tokens are kept"

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        shown = scene.distribution(here.step) if scene.sampling_at(here) else None
        if shown is None or shown.kept_count >= self.count:
            return NO
        kept = shown.kept_count
        return found(f"{kept:,} token{' is' if kept == 1 else 's are'} kept")


@rule(
    "entropy",
    "Entropy above or below a value",
    "Stops at every choice from a distribution whose entropy, after all cuts, lies there.",
    each=True,
)
@dataclass(frozen=True)
class Entropy(Rule):
    """The entropy of what is drawn from, in nats."""

    side: Annotated[Side, Entry("Side")] = Side.ABOVE
    value: Annotated[float, Entry("Entropy", unit="nats", least=0.0)] = 2.0

    @property
    def words(self) -> str:
        return f"Entropy {self.side} {self.value:g} nats"

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        source = scene.distribution(here.step) if scene.sampling_at(here) else None
        if source is None:
            return NO
        entropy = source.entropy
        if entropy > self.value if self.side is Side.ABOVE else entropy < self.value:
            return found(f"entropy is {shown(entropy)} nats, {self.side} {self.value:g}")
        return NO


@rule(
    "log-probability",
    "Log-probability of the chosen token below a value",
    "Stops at every choice of a token that the raw distribution finds less likely than that.",
    each=True,
)
@dataclass(frozen=True)
class LogProbability(Rule):
    """A token is chosen, or was taken, whose raw log-probability is low."""

    value: Annotated[float, Entry("Below", unit="nats", most=0.0, suggestion=-3.0)]

    @property
    def words(self) -> str:
        return f"Log-probability of the chosen token below {self.value:g} nats"

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        chosen = scene.chosen(here.step) if scene.sampling_at(here) else None
        if chosen is None or not chosen[1] < self.value:
            return NO
        return found(
            f"log-probability of “{scene.name(chosen[0])}” is {shown(chosen[1])} nats, "
            f"below {self.value:g}"
        )
