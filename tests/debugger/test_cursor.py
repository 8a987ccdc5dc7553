"""Stepping forward and back over a recorded trace: exact inverses at every granularity."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder_gui.debugger.cursor import (
    Cursor,
    Granularity,
    advance,
    first,
    is_boundary,
    last,
    neighbour,
    run_until,
)
from decoder_gui.debugger.library import open_model
from decoder_gui.debugger.report import execute
from decoder_gui.debugger.session import Session
from model.sampling import SamplingConfig
from model.trace import Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Three steps of the bundled model."""
    loaded = open_model("stories")
    ids = loaded.tokenizer.encode("Once upon a time")
    return execute(Session(loaded), ids, SamplingConfig(temperature=0.0), 3).run.trace


def every_event(trace: Trace) -> list[Cursor]:
    return [
        Cursor(step, operation)
        for step in range(len(trace.steps))
        for operation in range(trace.events_in(step))
    ]


def test_operations_visit_every_event_once(trace: Trace) -> None:
    here = first(trace)
    visited = []
    while here is not None:
        visited.append(here)
        here = advance(trace, here, Granularity.OPERATION, 1)
    assert visited == every_event(trace)
    assert visited[-1] == last(trace)


@pytest.mark.parametrize("granularity", list(Granularity))
def test_back_undoes_forward_at_every_boundary(trace: Trace, granularity: Granularity) -> None:
    here = first(trace)
    path = []
    while here is not None:
        path.append(here)
        here = advance(trace, here, granularity, 1)
    back = [path[-1]]
    while (before := advance(trace, back[-1], granularity, -1)) is not None:
        back.append(before)
    assert back == path[::-1]
    assert len(path) > 1


def test_boundaries_are_where_a_reader_expects_them(trace: Trace) -> None:
    ends = {
        granularity: [c for c in every_event(trace) if is_boundary(trace, c, granularity)]
        for granularity in Granularity
    }
    operations = len(trace.operations)
    assert len(ends[Granularity.OPERATION]) == 3 * operations
    # Embedding, each of the blocks, and what follows them.
    assert len(ends[Granularity.LAYER]) == 3 * (trace.shape.depth + 2)
    assert ends[Granularity.TOKEN] == [Cursor(step, operations - 1) for step in range(3)]
    assert ends[Granularity.PHASE] == [Cursor(0, operations - 1), Cursor(2, operations - 1)]


@given(st.data())
def test_from_anywhere_forward_then_back_does_not_pass_the_group(
    trace: Trace, data: st.DataObject
) -> None:
    here = data.draw(st.sampled_from(every_event(trace)))
    granularity = data.draw(st.sampled_from(list(Granularity)))
    ahead = advance(trace, here, granularity, 1)
    if ahead is not None:
        assert ahead > here
        behind = advance(trace, ahead, granularity, -1)
        assert behind is not None
        assert behind <= here


def test_run_until_is_one_loop_for_both_directions(trace: Trace) -> None:
    softmax = trace.operation_index("blocks.2.attn.pattern")
    start, end = first(trace), last(trace)
    assert start is not None
    assert end is not None
    ahead = run_until(trace, start, 1, lambda c: c.operation == softmax)
    behind = run_until(trace, end, -1, lambda c: c.operation == softmax)
    assert ahead == Cursor(0, softmax)
    assert behind == Cursor(2, softmax)
    assert run_until(trace, start, -1, lambda c: True) is None
    assert neighbour(trace, end, 1) is None
