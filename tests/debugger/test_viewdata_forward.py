"""The Forward pass panel's content: every operation once, in the right state, with true shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from decoder_gui.viewdata.forward_pass import (
    BlockRow,
    ForwardPassView,
    OperationRow,
    Progress,
    build_forward_pass,
)
from decoder_gui.viewdata.moment import Moment
from model.checkpoints import LoadedModel
from model.operations import Kind
from tests.debugger.recorded import moment_of, random_loaded, record, tiny_loaded


def view_of(moment: Moment) -> ForwardPassView:
    view = build_forward_pass(moment)
    assert view is not None
    return view


def flat(view: ForwardPassView) -> list[OperationRow]:
    rows: list[OperationRow] = []
    for row in view.rows:
        rows.extend(row.operations if isinstance(row, BlockRow) else (row,))
    return rows


@pytest.mark.parametrize("load", [tiny_loaded, random_loaded])
def test_every_operation_is_a_row_and_says_where_it_stands(
    load: Callable[[], LoadedModel],
) -> None:
    loaded = load()
    _, run = record(loaded, (0, 1), (2,))
    operations = run.trace.operations
    for current in range(len(operations)):
        view = view_of(moment_of(loaded, run, 1, current))
        rows = flat(view)
        assert [row.index for row in rows] == list(range(len(operations)))
        assert [row.label for row in rows] == [operation.label for operation in operations]
        for row in rows:
            expected = (row.index > current) - (row.index < current)
            assert row.progress is (Progress.NOW, Progress.TO_COME, Progress.DONE)[expected]
        assert view.formula == operations[current].formula
        assert "{" not in view.sentence
        assert view.source is not None
        assert operations[current].mark in view.source.lines[view.source.marked]


def test_shapes_are_those_of_the_arrays() -> None:
    loaded = random_loaded()
    _, run = record(loaded, (3, 1, 4), (1,))
    for step in (0, 1):
        early, late = (view_of(moment_of(loaded, run, step, at)) for at in ("embed", "sample"))
        # What is to come is said before it is there, and does not change when it is.
        assert [row.detail for row in flat(early)] == [row.detail for row in flat(late)]
        for row in flat(late):
            operation = run.trace.operations[row.index]
            if operation.kind in (Kind.CACHE, Kind.SAMPLE):
                continue
            held = run.trace.array(step, operation.outputs[0])
            assert held is not None
            shape = str(list(held.shape[1:]))
            assert row.detail == (f"3 × {shape}" if operation.kind is Kind.QKV else shape)


def test_words_about_the_step() -> None:
    loaded = random_loaded()
    _, run = record(loaded, (3, 1, 4), (1,))
    prefill = view_of(moment_of(loaded, run, 0, "blocks.0.cache"))
    decode = view_of(moment_of(loaded, run, 1, "blocks.0.cache"))
    assert (prefill.title, prefill.hint) == ("Forward pass", "prefill, tokens 0–2")
    assert decode.hint == "decode, token 3"
    details = {row.label: row.detail for row in flat(prefill)}
    assert details["Append K, V to cache"] == "pos 0–2"
    assert details["Sample"] == "token"
    assert {row.label: row.detail for row in flat(decode)}["Append K, V to cache"] == "pos 3"


def test_one_block_is_open_wherever_the_cursor_stands() -> None:
    loaded = random_loaded()
    _, run = record(loaded, (3, 1, 4))
    opened = {
        at: view_of(moment_of(loaded, run, 0, at)).open_layer
        for at in ("embed", "blocks.0.ln1", "blocks.1.mlp.out", "ln_final", "sample")
    }
    assert list(opened.values()) == [0, 0, 1, 1, 1]
    view = view_of(moment_of(loaded, run, 0, "blocks.1.ln1"))
    blocks = [row for row in view.rows if isinstance(row, BlockRow)]
    assert [block.progress for block in blocks] == [Progress.DONE, Progress.NOW]
    assert [block.label for block in blocks] == ["Block 0", "Block 1"]
