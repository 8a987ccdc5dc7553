"""Branches: begin them, go from one to another, name and delete them, undo and redo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from decoder_gui.change import Change
from decoder_gui.commands.branch_tree import BranchTree
from decoder_gui.debugger.branch_history import Shape
from decoder_gui.debugger.branches import shared_prefix
from decoder_gui.debugger.editing import (
    again_from,
    continued,
    patch_of,
    prompt_reason,
    step_of,
    what_to_prefill,
)
from decoder_gui.debugger.lines import Continuation
from decoder_gui.viewdata.numbers import plural
from model.ablation import Edit, Edits, ZeroHead, ZeroMlp
from model.errors import CacheExhausted, DecoderError, sentence
from model.tokenizers import encode_prompt

if TYPE_CHECKING:
    pass


class Branches(BranchTree):
    """Everything that changes the tree of branches."""

    def text(self, branch: int) -> str:
        """The whole text of a branch."""
        model = self.context.model
        return "" if model is None else model.tokenizer.decode(list(self.tree[branch].token_ids))

    def judge(self, text: str) -> tuple[str, bool]:
        """What a branch for another text would share, in words, and whether it can begin."""
        model, branch = self.context.model, self.active
        if model is None or branch is None:
            return "Nothing has been run yet.", False
        try:
            ids = encode_prompt(model.tokenizer, text)
        except DecoderError as refusal:
            return sentence(refusal), False
        if ids == list(branch.token_ids):
            return "The text is that of the branch in hand.", False
        if not ids or len(ids) > self.context.capacity:
            return f"{len(ids)} tokens; the context holds 1 to {self.context.capacity}.", False
        shared = shared_prefix(ids, branch.token_ids)
        rest = plural(len(ids) - shared, "token is", "tokens are")
        return (
            f"{plural(shared, 'token')} at the beginning stay as they are; {rest} computed.",
            True,
        )

    # ---- from one to another

    def switch(self, branch: int, *, at: int | None = None) -> None:
        """Enter another branch; the cursor stays at its event where there is one.

        ``at`` is the step at whose end it is put instead.
        """
        self._when_idle(lambda: self._switch(branch, at))

    def switch_by(self, places: int) -> None:
        """Enter the branch so many places further on in the order in which they were begun."""
        self._when_idle(lambda: self._switch_by(places))

    def rename(self, branch: int, name: str) -> None:
        """Give a branch another name; an empty one is refused."""
        self._when_idle(lambda: self._rename(branch, name.strip()))

    def delete(self, branch: int) -> None:
        """Free a branch; those that grew from it keep what they shared. The last one stays."""
        self._when_idle(lambda: self._delete(branch))

    def undo(self) -> None:
        """Take back the newest change of the tree: a branch begun, deleted or renamed."""
        self._when_idle(lambda: self._travel(self._history.undo, "There is nothing to undo."))

    def redo(self) -> None:
        """Do again what was undone last; a branch is run again when it was freed."""
        self._when_idle(lambda: self._travel(self._history.redo, "There is nothing to redo."))

    # ---- beginning one

    def edit_prompt(self, text: str) -> None:
        """Another text: a branch from the first token that differs, sharing all before it."""
        self._when_idle(lambda: self._edit_prompt(text))

    def zero_head(self, layer: int, head: int, step: int, *, same_tokens: bool = True) -> None:
        """A branch in which a head's output is 0 from a step on."""
        self._when_idle(
            lambda: self._ablate(lambda first: ZeroHead(layer, head, first), step, same_tokens)
        )

    def zero_mlp(self, layer: int, step: int, *, same_tokens: bool = True) -> None:
        """A branch in which the MLP of a layer adds nothing from a step on."""
        self._when_idle(
            lambda: self._ablate(lambda first: ZeroMlp(layer, first), step, same_tokens)
        )

    def patch(
        self,
        name: str,
        position: int,
        source: int,
        *,
        branch: int | None = None,
        head: int | None = None,
        same_tokens: bool = True,
    ) -> None:
        """A branch in which an activation at one position is what it was at another.

        Args:
            name: canonical name of the array.
            position: the position that is overwritten.
            source: the position that the values come from.
            branch: the branch that they come from; the active one if not given.
            head: the only head that is overwritten, or None for all of the array.
            same_tokens: whether all later tokens are run again, or the first step alone.
        """
        self._when_idle(lambda: self._patch(name, position, source, branch, head, same_tokens))

    # ---- inside

    def _switch(self, branch: int, at: int | None) -> None:
        if self._known(branch) and branch != self.tree.active:
            self._go_to(replace(self.tree.shape, active=branch), at)

    def _switch_by(self, places: int) -> None:
        ids = [branch.id for branch in self.tree]
        if len(ids) > 1:
            self._switch(ids[(ids.index(self.tree.active) + places) % len(ids)], None)

    def _rename(self, branch: int, name: str) -> None:
        if not self._known(branch) or name == self.tree[branch].name:
            return
        if not name:
            self._refuse("A branch needs a name.")
            return
        before = self.tree.shape
        words = f"renamed {self.tree[branch].name} to {name}"
        self._go_to(before.named(branch, name))
        self._history.record(words, before)
        self._drop_unknown()
        self.tell(Change.BRANCHES)

    def _delete(self, branch: int) -> None:
        if not self._known(branch):
            return
        if len(self.tree) == 1:
            self._refuse("The only branch stays: Prefill begins anew.")
            return
        before = self.tree.shape
        self._history.record(f"deleted {self.tree[branch].name}", before)
        self._go_to(before.without(branch))

    def _travel(self, where: Callable[[Shape], Shape | None], nothing: str) -> None:
        if not len(self.tree):
            return
        shape = where(self.tree.shape)
        if shape is None:
            self._refuse(nothing)
            return
        self._go_to(shape)

    def _edit_prompt(self, text: str) -> None:
        model, branch = self.context.model, self.active
        if model is None or branch is None or not branch.run.trace.steps:
            return
        try:
            ids = encode_prompt(model.tokenizer, text)
        except DecoderError as refusal:
            self._refuse(refusal)
            return
        if ids == list(branch.token_ids):
            self._refuse("The text is the same: there is nothing to branch for.")
            return
        shared = shared_prefix(ids, branch.token_ids)
        position, chunk = what_to_prefill(branch.run.trace, ids, shared)
        self._fork(
            position,
            [continued(chunk)] if chunk else [],
            reason=prompt_reason(shared, len(ids)),
        )

    def _ablate(self, make: Callable[[int], Edit], step: int, same_tokens: bool) -> None:
        branch = self.active
        if branch is None or not 0 <= step < len(branch.run.trace.steps):
            return
        position = branch.run.trace.steps[step].first
        edit = make(position)
        self._edited(edit, position, f"{edit.words} from step {step}", same_tokens)

    def _patch(
        self,
        name: str,
        position: int,
        source: int,
        origin: int | None,
        head: int | None,
        same_tokens: bool,
    ) -> None:
        branch = self.active
        if branch is None:
            return
        given = branch if origin is None else self.tree[origin]
        try:
            edit = patch_of(
                name,
                position,
                given.run.trace,
                source,
                head=head,
                whose="" if given is branch else given.name,
            )
        except DecoderError as refusal:
            self._refuse(refusal)
            return
        self._edited(edit, position, edit.words, same_tokens)

    def _edited(self, edit: Edit, position: int, reason: str, same_tokens: bool) -> None:
        branch, trace = self.active, self.context.trace
        if branch is None or trace is None or self.context.model is None:
            return
        edits = (*branch.edits, edit)
        try:
            Edits.of(edits, trace.operations, trace.shape)
            step_of(trace, position)
        except DecoderError as refusal:
            self._refuse(refusal)
            return
        steps = again_from(trace, position)
        self._fork(position, steps if same_tokens else steps[:1], edits=edits, reason=reason)

    def _fork(
        self,
        position: int,
        continuation: Sequence[Continuation],
        *,
        reason: str,
        edits: Sequence[Edit] | None = None,
    ) -> None:
        wanted = position + sum(len(part.token_ids) for part in continuation)
        if wanted > self.context.capacity:
            self._refuse(CacheExhausted(wanted - 1, self.context.capacity))
            return
        room, here = self.context.room, self.context.cursor
        keep = edits is not None
        self.context.run_on_session(
            f"Branching at position {position}",
            lambda: room.fork(position, continuation, edits=edits, reason=reason),
            lambda: self._same_or_last(here if keep else None),
        )
