"""What a branch runs when a prompt is edited or an activation changed, worked out from a trace."""

from __future__ import annotations

from collections.abc import Sequence

from decoder_gui.debugger.lines import Continuation
from model.ablation import Patch
from model.errors import EditNotPossible
from model.trace import Phase, Step, Trace


def step_of(trace: Trace, position: int) -> Step:
    """The step that processed a position.

    Raises:
        EditNotPossible: none did.
    """
    for step in trace.steps:
        if step.first <= position < step.last and trace.complete(step.index):
            return step
    raise EditNotPossible(f"there is no position {position}: {trace.positions} have been processed")


def continued(token_ids: Sequence[int]) -> Continuation:
    """Text given by hand, processed in one pass; nothing is drawn for it."""
    return Continuation(Phase.PREFILL, tuple(token_ids))


def what_to_prefill(
    trace: Trace, token_ids: Sequence[int], shared: int
) -> tuple[int, tuple[int, ...]]:
    """Where a branch for another text begins, and the tokens that it has to process.

    A text that ends where the two are still the same needs nothing but logits at its last token;
    where those were not recorded, that token is processed again.
    """
    position = shared
    if shared == len(token_ids):
        step = step_of(trace, shared - 1)
        logits = trace.array(step.index, "logits")
        whole = logits is not None and logits.shape[-2] == len(step.token_ids)
        if shared < step.last and not whole:
            position = shared - 1
    return position, tuple(token_ids[position:])


def prompt_reason(shared: int, tokens: int) -> str:
    """Why such a branch was begun, in words."""
    if shared == tokens:
        return f"prompt cut after position {shared - 1}"
    return f"prompt changed from position {shared}"


def again_from(trace: Trace, position: int) -> list[Continuation]:
    """The steps of a trace from a position on, with the tokens and the draws that they had."""
    return [
        Continuation(
            step.phase,
            step.token_ids[max(0, position - step.first) :],
            step.checkpoint,
        )
        for step in trace.steps
        if step.last > position
    ]


def patch_of(
    name: str, position: int, trace: Trace, source: int, *, head: int | None, whose: str = ""
) -> Patch:
    """A patch of one position with what a trace recorded at another.

    Args:
        name: canonical name of the array.
        position: the one that is overwritten.
        trace: where the values were recorded.
        source: the position that they come from.
        head: the only head, or None for all of the array.
        whose: the name of the branch that the values come from, if it is another one.

    Raises:
        EditNotPossible: the values are not there; the message says why.
    """
    step = step_of(trace, source)
    if name.endswith((".attn.scores", ".attn.pattern")) and source != position:
        raise EditNotPossible(
            f"a row of {name} has one number for each key that its query sees: it can come from "
            "another branch, but not from another position"
        )
    found = trace.array(step.index, name)
    if found is None:
        raise EditNotPossible(f"{name} of step {step.index} is not recorded")
    row = source - (step.last - found.shape[-2])
    if row < 0:
        raise EditNotPossible(f"{name} was recorded for the last position of step {step.index}")
    values = found[0][..., row : row + 1, :]
    if head is not None:
        if values.ndim != 3 or not 0 <= head < values.shape[0]:
            raise EditNotPossible(f"{name} has no head {head}")
        values = values[head]
    where = f"position {source} of step {step.index}" + (f" of {whose}" if whose else "")
    return Patch(name, (position,), values, head, where)
