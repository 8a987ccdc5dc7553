"""Where numbers come from: every operation of every family, and what each fault makes disagree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.run import Run
from decoder_gui.viewdata.arithmetic import NoArithmetic, NotKept, short_name
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.operands import Cell, Constant, Parameter, Source
from decoder_gui.viewdata.provenance import (
    STAGES,
    explain,
    original,
    place_of,
    recorded_value,
    rest_words,
    selection_at,
    sum_words,
    where_words,
    words_of,
)
from model.checkpoints import LoadedModel
from model.faults import fault_names
from model.sampling import SamplingConfig
from model.trace import Trace
from tests.debugger.recorded import (
    FAMILIES,
    family_loaded,
    moment_of,
    random_loaded,
    record,
    tiny_loaded,
    without_weights,
)

Loading = tuple[Callable[[], LoadedModel], tuple[int, ...], tuple[int, ...]]
RUNS: dict[str, Loading] = {
    "tiny": (tiny_loaded, (0, 1), (2, 3)),
    "random": (random_loaded, (3, 1, 4, 1, 5), (9, 2, 6)),
    **{name: (partial(family_loaded, name), (3, 1, 4, 1, 5, 9, 2), (6, 5, 3)) for name in FAMILIES},
}
CLOSE = {"tiny": 1e-12} | dict.fromkeys(["random", *FAMILIES], 1e-5)
COLD = SamplingConfig(temperature=0.7, top_p=0.9)


def recorded(which: str, faults: frozenset[str] = frozenset()) -> tuple[LoadedModel, Run]:
    load, prompt, decoded = RUNS[which]
    loaded = load()
    return loaded, record(loaded, prompt, decoded, faults=faults)[1]


def at_end(loaded: LoadedModel, run: Run, step: int | None = None) -> Moment:
    last = len(run.trace.steps) - 1 if step is None else step
    return moment_of(loaded, run, last, len(run.trace.operations) - 1, sampling=COLD)


def cells_of(trace: Trace, step: int, name: str, random: np.random.Generator) -> Iterator[Cell]:
    """Some cells of an array of a step; of squares every one, where masks have their edges."""
    array = trace.array(step, name)
    assert array is not None
    *heads, rows, columns = array.shape[1:]
    last = trace.steps[step].last
    square = name.endswith((".scores", ".pattern"))
    count = rows * columns if square else 5
    for i in range(count):
        head = int(random.integers(heads[0])) if heads else None
        row, column = (
            divmod(i, columns)
            if square
            else (int(random.integers(rows)), int(random.integers(columns)))
        )
        yield Cell(name, last - rows + row, head, column)


def all_cells(trace: Trace, seed: int = 3) -> Iterator[Cell]:
    random = np.random.default_rng(seed)
    for step in range(len(trace.steps)):
        for operation in trace.operations:
            for name in operation.outputs:
                yield from cells_of(trace, step, name, random)


@pytest.mark.parametrize("which", RUNS)
def test_every_operation_s_number_is_what_its_operands_give(which: str) -> None:
    loaded, run = recorded(which)
    moment = at_end(loaded, run)
    seen = set()
    for cell in all_cells(run.trace):
        found = explain(moment, cell)
        worked = found.derivation
        assert found.agrees, (cell, found.verdict)
        assert worked.recorded == recorded_value(moment, cell)
        if math.isfinite(worked.recorded):
            size = max(1.0, abs(worked.recorded))
            assert worked.difference <= CLOSE[which] * size
            # A bound that excuses anything proves nothing.
            assert worked.tolerance <= 1e-3 * size
        seen.add(cell.short)
        assert found.place == place_of(run.trace, found.cell)
    assert seen == {short_name(name) for each in run.trace.operations for name in each.outputs}


@pytest.mark.parametrize("which", ["tiny", "random", "qwen3"])
@pytest.mark.parametrize(
    "sampling",
    [
        SamplingConfig(),
        COLD,
        SamplingConfig(temperature=0.0),
        SamplingConfig(temperature=2.0, top_k=3, order="hugging-face"),
        SamplingConfig(temperature=0.6, top_p=0.8, min_p=0.02, order="llama.cpp"),
    ],
)
def test_probabilities_are_what_their_logits_give(which: str, sampling: SamplingConfig) -> None:
    loaded, run = recorded(which)
    for step in range(len(run.trace.steps)):
        moment = moment_of(loaded, run, step, len(run.trace.operations) - 1, sampling=sampling)
        position = run.trace.steps[step].last - 1
        for stage in STAGES:
            for token in range(loaded.engine.shape.vocabulary):
                found = explain(moment, Cell(stage, position, None, token))
                assert found.agrees, (stage, token, found.verdict)
                assert found.derivation.difference <= 1e-12
                assert found.operands


def sources_of(moment: Moment, cell: Cell) -> Iterator[tuple[Source, float]]:
    found = explain(moment, cell)
    for operand in found.operands:
        yield operand.source, operand.value
    for total in found.sums:
        for term in total.largest(4):
            yield from ((operand.source, operand.value) for operand in term.operands)


@pytest.mark.parametrize("which", RUNS)
def test_every_operand_is_the_number_where_it_says_it_comes_from(which: str) -> None:
    loaded, run = recorded(which)
    moment = at_end(loaded, run)
    weights = moment.model.weights
    assert weights is not None
    kinds = set()
    for cell in all_cells(run.trace, seed=5):
        here = place_of(run.trace, original(run.trace, cell))
        for source, value in sources_of(moment, cell):
            kinds.add(type(source))
            assert where_words(moment, source)
            if isinstance(source, Parameter):
                matrix = weights.parameter(source.name)
                assert matrix is not None
                assert float(matrix[source.index]) == value
            elif isinstance(source, Cell):
                there = place_of(run.trace, original(run.trace, source))
                same = there == here and source.array != cell.array  # a sum beside its terms
                assert there < here or (same and here.operation == 0), (cell, source)
                if source.array not in STAGES:  # those only of the step in hand
                    assert recorded_value(moment, source) == value
                    copy = original(run.trace, source)
                    assert recorded_value(moment, copy) == value
    assert {Cell, Parameter} <= kinds


@pytest.mark.parametrize("which", RUNS)
def test_a_probability_leads_back_to_the_weights(which: str) -> None:
    """Follow the largest computed operand from a probability: it ends at the table of tokens."""
    loaded, run = recorded(which)
    moment = at_end(loaded, run)
    assert moment.landing is not None
    cell = Cell("final", run.trace.steps[-1].last - 1, None, moment.landing.token_id)
    way = [cell.array]
    while True:
        cells = [s for s, _ in sources_of(moment, cell) if isinstance(s, Cell)]
        cells = [s for s in cells if s.array not in STAGES or s.position == cell.position]
        if not cells:
            break
        cell = original(run.trace, cells[0])
        way.append(cell.array)
    assert way[:4] == ["final", "tempered", "logits", "ln_final"]
    assert way[-1] in ("embed", "pos_embed")
    assert not any(name.endswith(".resid_pre") for name in way[:-2])


def disagreeing(loaded: LoadedModel, run: Run) -> set[tuple[int, str]]:
    """Step and short name of every array of which a sampled cell disagrees."""
    found = set()
    moment = at_end(loaded, run)
    for cell in all_cells(run.trace, seed=11):
        if not explain(moment, cell).agrees:
            place = place_of(run.trace, original(run.trace, cell))
            found.add((place.step, original(run.trace, cell).short))
    return found


GUILTY = {
    "no-mask": {"attn.scores"},
    "mask-off-by-one": {"attn.scores"},
    "no-scale": {"attn.scores"},
    "positions-restart": {"pos_embed"},
    # What is read from a row of the cache is not what the trace says was put there.
    "stale-cache": {"attn.scores", "attn.z"},
}
"""Fault -> arrays of the operations that do something else under it."""

IN_PREFILL = {"no-mask", "mask-off-by-one", "no-scale"}
IN_DECODE = {"no-scale", "positions-restart", "stale-cache"}


@pytest.mark.parametrize("which", RUNS)
@pytest.mark.parametrize("fault", GUILTY)
def test_a_fault_disagrees_exactly_at_the_faulty_operation(fault: str, which: str) -> None:
    loaded, run = recorded(which, frozenset({fault}))
    found = disagreeing(loaded, run)
    names = GUILTY[fault]
    if fault == "positions-restart" and loaded.engine.rotary is not None:  # type: ignore[attr-defined]
        names = {"attn.rot_q", "attn.rot_k"}
    decoded = set(range(1, len(run.trace.steps))) if fault in IN_DECODE else set()
    assert {name for _, name in found} == names
    assert {step for step, _ in found} == decoded | ({0} if fault in IN_PREFILL else set())


@pytest.mark.parametrize(("which", "array"), [("random", "blocks.1.mlp.pre"), ("tiny", "attn.q")])
def test_a_weight_that_is_nan_disagrees_where_it_is_read(which: str, array: str) -> None:
    loaded, run = recorded(which, frozenset({"nan-weight"}))
    moment = moment_of(loaded, run, 0, len(run.trace.operations) - 1)
    name = array if array.startswith("blocks.") else f"blocks.0.{array}"
    column = 0 if which == "random" else 1
    head = None if which == "random" else 0
    found = explain(moment, Cell(name, 1, head, column))
    assert not found.agrees
    assert "recorded NaN: not rounding" in found.verdict
    later = explain(moment, Cell("ln_final", 1, None, 0))
    assert math.isnan(later.derivation.result)
    assert later.agrees  # it did right with what it was given


def test_truncating_before_the_temperature_disagrees_in_the_last_stage_only() -> None:
    loaded, run = recorded("random", frozenset({"truncate-before-temperature"}))
    wide = SamplingConfig(temperature=2.5, top_p=0.7)
    moment = moment_of(loaded, run, 1, len(run.trace.operations) - 1, sampling=wide)
    position = run.trace.steps[1].last - 1
    wrong = {
        stage
        for stage in STAGES
        for token in range(40)
        if not explain(moment, Cell(stage, position, None, token)).agrees
    }
    assert wrong == {"final"}


def test_every_fault_is_looked_at() -> None:
    assert set(fault_names()) == {*GUILTY, "nan-weight", "truncate-before-temperature"}


def test_sums_are_listed_by_size_and_nothing_is_left_out() -> None:
    loaded, run = recorded("random")
    moment = at_end(loaded, run)
    [total] = explain(moment, Cell("blocks.1.mlp.out", 4, None, 7)).sums
    assert len(total) == 96
    terms = total.largest(96)
    sizes = [abs(term.contribution) for term in terms]
    assert sizes == sorted(sizes, reverse=True)
    assert sorted(term.index for term in terms) == list(range(96))
    for term in terms:
        left, right = term.operands
        assert left.value * right.value == term.contribution
    count, rest = total.rest(6)
    assert count == 90
    assert math.isclose(rest, sum(term.contribution for term in terms[6:]), abs_tol=1e-12)
    assert rest_words(total, 6).startswith("… and 90 more, summing to ")
    assert not rest_words(total, 96)
    assert sum_words(total).startswith("96 products g·W_out[:, 7], summing to ")


def test_keys_of_earlier_steps_come_from_the_step_that_wrote_them() -> None:
    loaded, run = recorded("random")
    moment = at_end(loaded, run)
    found = explain(moment, Cell("blocks.1.attn.scores", 7, 2, 5))  # written by step 1
    sources = [operand.source for operand in found.sums[0].term(0).operands]
    assert sources == [
        Cell("blocks.1.attn.q", 7, 2, 0),
        Cell("blocks.1.attn.k", 5, 2, 0),
    ]
    key = sources[1]
    assert isinstance(key, Cell)
    assert place_of(run.trace, key) == Cursor(1, run.trace.operation_index("blocks.1.attn.q"))
    assert "position 5" in where_words(moment, key)
    assert "step 1" in where_words(moment, key)


def test_the_token_decoded_leads_to_the_step_that_chose_it() -> None:
    loaded, run = recorded("random")
    moment = at_end(loaded, run)
    token = explain(moment, Cell("embed", 6, None, 3)).operands[1]
    assert token.source == Cell("final", 5, None, 2)
    prompt = explain(moment, Cell("embed", 0, None, 3)).operands[1]
    assert prompt.source == Constant("a token of the prompt")
    assert where_words(moment, prompt.source) == "A token of the prompt"


def test_copies_are_skipped_and_sums_are_not() -> None:
    _, run = recorded("random")
    assert (
        original(run.trace, Cell("blocks.1.resid_pre", 2, None, 0)).array == "blocks.0.resid_post"
    )
    start = Cell("blocks.0.resid_pre", 2, None, 0)
    assert original(run.trace, start) == start
    _, turned = recorded("llama")
    assert original(turned.trace, start).array == "embed"


def test_the_verdict_is_in_words() -> None:
    loaded, run = recorded("random")
    moment = at_end(loaded, run)
    found = explain(moment, Cell("blocks.0.attn.pattern", 7, 1, 3))
    worked = found.derivation
    assert found.verdict.startswith(f"recomputed {worked.result:.6f}, recorded ")
    assert found.verdict.endswith((": within rounding", ": equal"))
    copied = explain(moment, Cell("pos_embed", 7, None, 1))
    assert copied.verdict.endswith(": equal")
    _, faulty = recorded("random", frozenset({"no-scale"}))
    wrong = explain(at_end(loaded, faulty), Cell("blocks.0.attn.scores", 7, 1, 3))
    assert ", difference " in wrong.verdict
    assert ": more than rounding (at most " in wrong.verdict


def test_what_is_not_there_is_said_in_words() -> None:
    loaded, run = recorded("random")
    moment = moment_of(loaded, run, 1, "blocks.0.ln1")
    with pytest.raises(NoArithmetic, match=r"mlp.out of position 5 is not computed yet"):
        explain(moment, Cell("blocks.0.mlp.out", 5, None, 0))
    with pytest.raises(NoArithmetic, match="position 30 does not exist"):
        explain(moment, Cell("blocks.0.mlp.out", 30, None, 0))
    with pytest.raises(NoArithmetic, match="records nothing"):
        explain(moment, Cell("nothing", 0, None, 0))
    with pytest.raises(NoArithmetic, match="step in hand"):
        explain(at_end(loaded, run), Cell("final", 4, None, 0))
    with pytest.raises(NoArithmetic, match=r"weight blocks\.0\.attn\.W_Q is not at hand"):
        explain(without_weights(at_end(loaded, run)), Cell("blocks.0.attn.q", 0, 0, 0))
    _, poor = record(loaded, (3, 1, 4), (9,), budget=0)
    with pytest.raises(NotKept) as gone:
        explain(at_end(loaded, poor), Cell("blocks.1.attn.q", 1, 0, 0))
    assert (gone.value.step, gone.value.layer) == (0, 1)


def test_a_cell_in_words_and_as_a_selection() -> None:
    loaded, run = recorded("random")
    moment = at_end(loaded, run)
    assert words_of(moment, Cell("logits", 7, None, 12), 1.25) == "logit [id 12] 1.250"
    assert words_of(moment, Cell("final", 7, None, 12), 0.261) == "final [id 12] 26.1%"
    assert words_of(moment, Cell("blocks.1.attn.q", 7, 2, 3), -0.5) == "q[3] -0.500"
    assert selection_at(moment, Cell("blocks.1.attn.scores", 6, 2, 3)) == {
        "array": "blocks.1.attn.scores",
        "cell": (0, 3),
        "head": 2,
        "query": 6,
        "key": 3,
        "layer": 1,
    }
