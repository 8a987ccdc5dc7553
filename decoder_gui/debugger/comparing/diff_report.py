"""A comparison as text for a terminal or as one JSON object: what ``decoder-gui diff`` prints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from decoder_gui.debugger.comparing.comparison_words import (
    headline,
    result_words,
    scientific,
    where_is,
)
from decoder_gui.debugger.comparing.findings import Comparison, OperationResult, Place
from model.errors import sentence
from model.operations import Operation

LAYERS_A_TABLE = 8  # columns that fit beside the names of operations in 100 characters
CELL = 10


def as_text(found: Comparison) -> str:
    """The sentence, what was not compared, and the largest difference per operation and layer."""
    lines = [headline(found)]
    if found.origin is not None:
        name = found.operations[found.origin.operation].name
        lines.append(f"Operation: {name}; {found.origin.reason}.")
    lines.extend(sentence(remark) for remark in found.remarks)
    lines.append("")
    lines.append(
        f"Largest relative difference of {found.left.name} and {found.right.name}; "
        f"≠ marks what is past {scientific(found.tolerance)}"
    )
    lines.extend(_outside(found, before=True))
    lines.extend(_blocks(found))
    lines.extend(_outside(found, before=False))
    return "\n".join(line.rstrip() for line in lines)


def _outside(found: Comparison, *, before: bool) -> Iterator[str]:
    """Operations outside the blocks, a line each with the place."""
    layers = [i for i, result in enumerate(found.results) if result.operation.layer is not None]
    for index, result in enumerate(found.results):
        if result.operation.layer is None and before == bool(layers and index < layers[0]):
            where = ""
            if result.worst is not None and result.worst.difference != 0:
                where = f"  {where_is(found, result.worst)}"
            yield f"  {result.operation.name:<14}{result_words(result):>{CELL}}{where}"


def _blocks(found: Comparison) -> Iterator[str]:
    """Operations of a block as rows, layers as columns."""
    cells: dict[str, dict[int, OperationResult]] = {}
    for result in found.results:
        if result.operation.layer is not None:
            row = cells.setdefault(result.operation.short_name, {})
            row[result.operation.layer] = result
    depth = found.left.recording.shape.depth
    for start in range(0, depth if cells else 0, LAYERS_A_TABLE):
        layers = range(start, min(start + LAYERS_A_TABLE, depth))
        yield "  " + f"{'block':<14}" + "".join(f"{layer:>{CELL}}" for layer in layers)
        for name, row in cells.items():
            words = (_cell(found, row.get(layer)) for layer in layers)
            yield "  " + f"{name:<14}" + "".join(f"{word:>{CELL}}" for word in words)


def _cell(found: Comparison, result: OperationResult | None) -> str:
    if result is None:
        return "—"
    origin = found.origin
    if origin is not None and found.results[origin.operation] is result and result.worst is None:
        return "≠"  # it records nothing, and the difference comes from it
    return result_words(result)


def as_object(found: Comparison) -> dict[str, Any]:
    """The same as JSON; differences that are no numbers become null, in words beside it."""
    origin, mismatch = found.origin, found.mismatch
    return {
        "equal": found.agrees,
        "sentence": headline(found),
        "left": found.left.name,
        "right": found.right.name,
        "tolerance": found.tolerance,
        "positions": found.positions,
        "operation": None if origin is None else found.operations[origin.operation].name,
        "reason": None if origin is None else origin.reason,
        "first": None if found.first is None else _place(found, found.first),
        "tokens_part": None
        if mismatch is None
        else {
            "position": mismatch.position,
            "left_id": mismatch.token_id,
            "right_id": mismatch.other_id,
        },
        "remarks": list(found.remarks),
        "operations": [_result(found, result) for result in found.results],
    }


def _result(found: Comparison, result: OperationResult) -> dict[str, Any]:
    operation: Operation = result.operation
    return {
        "name": operation.name,
        "layer": operation.layer,
        "label": operation.label,
        "past": result.past,
        "compared": result.compared,
        "nan_in_both": result.both_nan,
        "largest": None if result.worst is None else _place(found, result.worst),
        "after_tokens_part": None if result.beyond is None else _place(found, result.beyond),
    }


def _place(found: Comparison, place: Place) -> dict[str, Any]:
    return {
        "operation": found.operations[place.operation].name,
        "array": place.name or None,
        "step": place.step,
        "other_step": place.other_step,
        "position": place.position,
        "head": place.head,
        "column": place.column,
        "left": _finite(place.left),
        "right": _finite(place.right),
        "difference": _finite(place.difference),
        "words": where_is(found, place),
        "numbers": [scientific_or_plain(place.left), scientific_or_plain(place.right)],
    }


def scientific_or_plain(value: float) -> str:
    """A number with all of its digits, or the word for one that is none."""
    return repr(value) if math.isfinite(value) else scientific(value)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
