"""What a comparison found, in sentences and plain numbers: the same in the window and without."""

from __future__ import annotations

import math

from decoder_gui.debugger.comparing.findings import Comparison, OperationResult, Place
from model.operations import Kind, Operation
from model.trace import Phase


def scientific(value: float) -> str:
    """A tolerance or a difference: ``0``, ``1e-4``, ``1.24e-6``, ``NaN``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0.0:
        return "0"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    digits = mantissa.rstrip("0").rstrip(".")
    if -3 <= int(exponent) <= 3:
        return f"{value:.3g}"
    return f"{digits}e{int(exponent)}"


def plain_pair(left: float, right: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart, six at least."""
    for digits in range(6, 18):
        ours, theirs = _plain(left, digits), _plain(right, digits)
        if ours != theirs:
            break
    return ours, theirs


def _plain(value: float, digits: int) -> str:
    if math.isfinite(value):
        return f"{value:.{digits}g}"
    return scientific(value)


def headline(found: Comparison) -> str:
    """The whole result in one or two sentences."""
    if found.first is not None:
        return f"First difference at {described(found, found.first)}.{_origin_sentence(found)}"
    parts = []
    if found.mismatch is not None:
        position = found.mismatch.position
        ours, theirs = found.mismatch.token_id, found.mismatch.other_id
        parts.append(
            f"The tokens part at position {position}: “{found.left.piece(ours)}” (id {ours}) "
            f"against “{found.right.piece(theirs)}” (id {theirs})."
        )
        if not found.positions:
            parts.append("No position before it is left to compare.")
    if found.positions:
        worst = found.worst
        size = "0" if worst is None else scientific(worst.difference)
        where = "" if worst is None or not worst.difference else f" at {where_is(found, worst)}"
        agree = (
            "1 position agrees" if found.positions == 1 else f"{found.positions} positions agree"
        )
        if parts:
            only = (
                "The position before it agrees",
                f"The {found.positions} positions before it agree",
            )
            agree = only[found.positions > 1]
        parts.append(
            f"{agree} within {scientific(found.tolerance)}; largest relative difference "
            f"{size}{where}."
        )
    return " ".join(parts)


def described(found: Comparison, place: Place) -> str:
    """A place with both numbers and what is accepted."""
    if not place.name:
        return f"{where_is(found, place)}: {_choice(found, place)}"
    ours, theirs = plain_pair(place.left, place.right)
    return (
        f"{where_is(found, place)}: {ours} against {theirs} "
        f"(tolerance {scientific(found.tolerance)})"
    )


def where_is(found: Comparison, place: Place) -> str:
    """A place in words: step and token, block, operation, head, query and key."""
    operation = found.operations[place.operation]
    step = found.left.recording.steps[place.step]
    token = step.token_ids[place.position - step.first]
    phase = ", prefill" if step.phase is Phase.PREFILL else ""
    parts = [
        f"step {place.step}{phase} (token {place.position} “{found.left.piece(token)}”)",
        operation_words(operation),
    ]
    if place.name and place.name != operation.outputs[0]:
        parts[-1] += f" ({place.name.rpartition('.')[2]})"
    if place.head is not None:
        kind = "key/value head" if _is_shared(found, place) else "head"
        parts.append(f"{kind} {place.head}")
    if place.column is not None:
        parts.append(_column(found, operation, place))
    return ", ".join(parts)


def operation_words(operation: Operation) -> str:
    """Block and label of an operation."""
    return (
        operation.label
        if operation.layer is None
        else f"block {operation.layer}, {operation.label}"
    )


def _is_shared(found: Comparison, place: Place) -> bool:
    shape = found.left.recording.shape
    short = place.name.rpartition(".")[2]
    return shape.kv_heads < shape.num_heads and short in ("k", "v", "k_norm", "rot_k")


def _column(found: Comparison, operation: Operation, place: Place) -> str:
    if operation.kind in (Kind.SCORES, Kind.PATTERN):
        return f"query {place.position}, key {place.column}"
    if operation.kind is Kind.LOGITS and place.column is not None:
        return f"logit of “{found.left.piece(place.column)}” (id {place.column})"
    return f"coordinate {place.column}"


def _choice(found: Comparison, place: Place) -> str:
    position = place.position
    ours, theirs = found.left.choose(position), found.right.choose(position)
    names = []
    for side, chosen in ((found.left, ours), (found.right, theirs)):
        if chosen is None or chosen.token_id is None:
            names.append("nothing")
            continue
        kept = "" if chosen.shown is None else f" of {chosen.shown.kept_count} kept"
        draw = "" if chosen.uniform is None else f", draw {chosen.uniform:.6f}"
        names.append(f"“{side.piece(chosen.token_id)}” (id {chosen.token_id}{kept}{draw})")
    if place.left == place.right:
        return (
            f"{names[0]} against {names[1]}; the distributions are "
            f"{scientific(place.difference)} apart"
        )
    return f"chooses {names[0]} against {names[1]}, although the logits agree"


def _origin_sentence(found: Comparison) -> str:
    origin, first = found.origin, found.first
    if origin is None or first is None:
        return ""
    operation = found.operations[origin.operation]
    if origin.operation == first.operation:
        return f" {_capital(origin.reason)}." if "not recorded" in origin.reason else ""
    place = origin.place
    said = f" It comes from {operation_words(operation)}: {origin.reason}"
    if place is not None and place.name:
        ours, theirs = plain_pair(place.left, place.right)
        said += f", and its result does not ({ours} against {theirs})"
    return f"{said}."


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def result_words(result: OperationResult) -> str:
    """The largest difference of an operation as a table shows it: with a mark where it is past."""
    if result.worst is None:
        return "—"
    return f"{'≠ ' if result.past else ''}{scientific(result.worst.difference)}"
