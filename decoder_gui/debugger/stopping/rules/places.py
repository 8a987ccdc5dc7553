"""Rules about where a run is: an event, a token, a step, a phase, a layer, an operation."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.stopping.rules.core import NO, Entry, Rule, Verdict, found, rule
from decoder_gui.debugger.stopping.scene import Scene
from model.trace import Phase


@rule(
    "event",
    "One event",
    "Stops at this operation of this step, and nowhere else.",
    each=True,
)
@dataclass(frozen=True)
class AtEvent(Rule):
    """What the timeline sets: an operation of one step, by its name."""

    step: Annotated[int, Entry("Step", least=0, suggestion=0)]
    operation: Annotated[str, Entry("Operation", suggestion="blocks.0.attn.pattern")]

    @property
    def words(self) -> str:
        return f"Step {self.step}, {self.operation}"

    def ahead(self, scene: Scene) -> bool:
        return self.step >= len(scene.trace.steps)

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        if here.step == self.step and scene.operation(here).name == self.operation:
            return found("breakpoint at this event")
        return NO


@rule(
    "operation",
    "An operation",
    "Stops at every operation whose name fits; * stands for anything: blocks.*.attn.pattern.",
    each=True,
)
@dataclass(frozen=True)
class OnOperation(Rule):
    """An operation by a pattern of its name, in every step."""

    pattern: Annotated[str, Entry("Name", suggestion="blocks.*.attn.pattern")]

    @property
    def words(self) -> str:
        return f"{self.pattern} in every step"

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        name = scene.operation(here).name
        return found(f"breakpoint on {self.words}") if fnmatchcase(name, self.pattern) else NO


@rule("layer", "A layer", "Stops at the first operation of the block in every step.")
@dataclass(frozen=True)
class OnLayer(Rule):
    """A block is entered."""

    layer: Annotated[int, Entry("Layer", least=0, suggestion=0)]

    @property
    def words(self) -> str:
        return f"Block {self.layer} begins"

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        if scene.operation(here).layer == self.layer:
            return found(f"block {self.layer} begins")
        return NO


@rule("phase", "A phase", "Stops at the first operation of the phase.")
@dataclass(frozen=True)
class OnPhase(Rule):
    """Prefill or decoding begins."""

    phase: Annotated[Phase, Entry("Phase", suggestion=Phase.DECODE)]

    @property
    def words(self) -> str:
        return f"{self.phase.capitalize()} begins"

    def ahead(self, scene: Scene) -> bool:
        return all(step.phase is not self.phase for step in scene.trace.steps)

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        if scene.step(here).phase is self.phase:
            return found(f"{self.phase} begins")
        return NO


@rule("position", "A token, by its position", "Stops where the token at the position is processed.")
@dataclass(frozen=True)
class OnPosition(Rule):
    """The step that processes a position begins."""

    position: Annotated[int, Entry("Position", least=0, suggestion=0)]

    @property
    def words(self) -> str:
        return f"Position {self.position} is processed"

    def ahead(self, scene: Scene) -> bool:
        return self.position >= scene.trace.positions

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        step = scene.step(here)
        if not step.first <= self.position < step.last:
            return NO
        token = scene.name(step.token_ids[self.position - step.first])
        return found(f"position {self.position}, “{token}”, is processed")


@rule("step", "A step", "Stops at the first operation of the step; 0 is the prefill.")
@dataclass(frozen=True)
class OnStep(Rule):
    """A step begins."""

    step: Annotated[int, Entry("Step", least=0, suggestion=1)]

    @property
    def words(self) -> str:
        return f"Step {self.step} begins"

    def ahead(self, scene: Scene) -> bool:
        return self.step >= len(scene.trace.steps)

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        return found(f"step {self.step} begins") if here.step == self.step else NO


@rule("token", "A token, by its text", "Stops where the token is chosen; a space is written ␣.")
@dataclass(frozen=True)
class TokenChosen(Rule):
    """The sampler chooses a certain token."""

    text: Annotated[str, Entry("Token", suggestion=".")]

    @property
    def words(self) -> str:
        return f"“{self.text}” is chosen"

    def verdict(self, scene: Scene, here: Cursor) -> Verdict:
        if not scene.sampling_at(here):
            return NO
        chosen = scene.chosen(here.step)
        if chosen is None:
            return NO
        piece = scene.name(chosen[0])
        # Whoever writes "cat" means the word, with or without the space in front of it.
        if self.text in (piece, piece.removeprefix("␣")):
            return found(f"“{piece}” is chosen")
        return NO
