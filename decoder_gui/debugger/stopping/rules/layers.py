"""A rule about what the model would say after each block."""

from __future__ import annotations

from dataclasses import dataclass

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.rules.core import NO, Rule, Verdict, found, rule
from decoder_gui.debugger.stopping.scene import Scene


@rule(
    "top-changes",
    "The top candidate changes between layers",
    "Stops at the end of every block after which the newest position would say another token "
    "than after the block before (final norm and unembedding applied to the residual stream).",
    each=True,
)
@dataclass(frozen=True)
class TopChanges(Rule):
    """A block turns the most likely next token of the newest position into another one."""

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        operation = scene.operation(here)
        layer = operation.layer
        if not layer or not operation.name.endswith(".resid_post"):
            return NO
        before = scene.top_candidate(here.step, f"blocks.{layer - 1}.resid_post")
        after = scene.top_candidate(here.step, operation.name)
        if before is None or after is None or before == after:
            return NO
        return found(
            f"the top candidate after position {scene.step(here).last - 1} is "
            f"“{scene.name(after)}” after block {layer} and was “{scene.name(before)}” after "
            f"block {layer - 1}"
        )
