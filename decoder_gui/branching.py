"""The dialogs for a new branch around a context."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from decoder_gui.context import AppContext
from decoder_gui.viewdata.edit_form import EditChoices, EditKind, EditWish
from decoder_gui.widgets.edit_dialog import EditDialog
from decoder_gui.widgets.text_dialog import TextDialog
from model.operations import Kind


def ask_for_edit(parent: QWidget, context: AppContext) -> EditDialog | None:
    """Ask what to change, suggesting what is selected; None where nothing has been run."""
    branch, trace, cursor = context.branches.active, context.trace, context.cursor
    if branch is None or trace is None or cursor is None:
        return None
    tree, selection, step = context.branches.tree, context.selection, trace.steps[cursor.step]
    shape = trace.shape
    layer = min(selection.layer, shape.depth - 1)
    names = tuple(
        name
        for operation in trace.operations
        for name in operation.outputs
        if operation.kind is not Kind.EMBED or name == "blocks.0.resid_pre"
    )
    others = ((other.id, other.name) for other in tree if other.id != branch.id)
    position = step.last - 1 if selection.query is None else selection.query
    choices = EditChoices(
        layers=shape.depth,
        heads=shape.num_heads,
        steps=len(trace.steps),
        positions=trace.positions,
        sources=tree.positions,
        names=names,
        branches=((branch.id, branch.name), *others),
        layer=layer,
        head=min(selection.head, shape.num_heads - 1),
        step=cursor.step,
        position=position,
        name=f"blocks.{layer}.resid_post",
    )
    dialog = EditDialog(context.style, choices, parent)

    def take() -> None:
        if dialog.wish is not None:
            begin(context, dialog.wish)

    dialog.accepted.connect(take)
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog


def begin(context: AppContext, wish: EditWish) -> None:
    """Begin the branch that was asked for."""
    branches = context.branches
    match wish.kind:
        case EditKind.ZERO_HEAD:
            assert wish.head is not None
            branches.zero_head(wish.layer, wish.head, wish.step, same_tokens=wish.same_tokens)
        case EditKind.ZERO_MLP:
            branches.zero_mlp(wish.layer, wish.step, same_tokens=wish.same_tokens)
        case EditKind.PATCH:
            branches.patch(
                wish.name,
                wish.position,
                wish.source,
                branch=wish.branch,
                head=wish.head,
                same_tokens=wish.same_tokens,
            )


def ask_for_text(parent: QWidget, context: AppContext) -> TextDialog | None:
    """Ask for another text of the branch in hand; None where nothing has been run."""
    branch = context.branches.active
    if branch is None or context.trace is None or not context.trace.steps:
        return None
    text = context.branches.text(branch.id)
    dialog = TextDialog(context.style, text, context.branches.judge, parent)
    dialog.accepted.connect(lambda: context.branches.edit_prompt(dialog.text))
    dialog.finished.connect(dialog.deleteLater)
    dialog.open()
    return dialog
