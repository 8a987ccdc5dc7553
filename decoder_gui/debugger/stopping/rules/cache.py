"""A rule about the key-value cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.rules.core import NO, Entry, Rule, Verdict, found, rule
from decoder_gui.debugger.stopping.scene import Scene
from model.operations import Kind


@rule(
    "cache-share",
    "The cache is fuller than a share",
    "Stops where the first block writes the row that makes it so.",
)
@dataclass(frozen=True)
class CacheShare(Rule):
    """More than a share of the cache's positions is in use."""

    share: Annotated[
        float, Entry("Fuller than", unit="% of its positions", least=0.0, most=100.0)
    ] = 50.0

    @property
    def words(self) -> str:
        return f"The cache is fuller than {self.share:g}%"

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        step = scene.step(here)
        writes = next(
            (i for i, each in enumerate(scene.trace.operations) if each.kind is Kind.CACHE), 0
        )
        used = step.last if here.operation >= writes else step.first
        if scene.capacity <= 0 or used * 100 <= self.share * scene.capacity:
            return NO
        return found(
            f"{used:,} of {scene.capacity:,} positions of the cache are in use, "
            f"{100 * used / scene.capacity:.1f}%, more than {self.share:g}%"
        )
