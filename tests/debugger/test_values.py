"""Every number that the Values panel shows is the recorded one, and its arithmetic gives it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from decoder_gui.debugger.run import Run
from decoder_gui.viewdata.arithmetic import Derivation, short_name
from decoder_gui.viewdata.moment import Moment, Selection
from decoder_gui.viewdata.values import ValuesView, build_values
from model.checkpoints import LoadedModel
from model.sampling import SamplingConfig
from model.trace import Presence
from tests.debugger.recorded import (
    FAMILIES,
    family_loaded,
    moment_of,
    random_loaded,
    record,
    tiny_loaded,
    without_weights,
)

Load = Callable[[], LoadedModel]
Loading = tuple[Load, tuple[int, ...], tuple[int, ...]]


def of_family(name: str) -> Loading:
    return partial(family_loaded, name), (3, 1, 4, 1, 5, 9, 2), (6, 5, 3)


RUNS: dict[str, Loading] = {
    "tiny": (tiny_loaded, (0, 1), (2, 3)),
    "random": (random_loaded, (3, 1, 4, 1, 5), (9, 2, 6)),
    **{name: of_family(name) for name in FAMILIES},
}
BOUNDS = {"tiny": 1e-12} | dict.fromkeys(["random", *FAMILIES], 1e-5)
COLD = SamplingConfig(temperature=0.7, top_k=3, top_p=0.9)


def recorded(which: str) -> tuple[LoadedModel, Run]:
    load, prompt, decoded = RUNS[which]
    loaded = load()
    return loaded, record(loaded, prompt, decoded)[1]


def view_of(moment: Moment, output: str = "") -> ValuesView:
    view = build_values(moment, output)
    assert view is not None
    return view


def worked(view: ValuesView) -> Derivation:
    assert view.derivation is not None, view.without
    return view.derivation


@pytest.mark.parametrize("which", RUNS)
def test_the_arithmetic_of_every_operation_gives_the_recorded_number(which: str) -> None:
    loaded, run = recorded(which)
    random = np.random.default_rng(1)
    seen = set()
    for step in range(len(run.trace.steps)):
        for index in range(len(run.trace.operations)):
            outputs = view_of(moment_of(loaded, run, step, index)).outputs
            for name, _ in outputs:
                for _ in range(6):
                    columns = view_of(moment_of(loaded, run, step, index), name).columns
                    selection = Selection(
                        head=int(random.integers(4)),
                        query=int(random.integers(10)),
                        cell=(0, int(random.integers(columns))),
                    )
                    moment = moment_of(loaded, run, step, index, selection, COLD)
                    view = view_of(moment, name)
                    found = worked(view)
                    assert view.cell is not None
                    assert view.cell.column == selection.cell[1]  # type: ignore[index]
                    assert found.agrees, (name, view.cell, found)
                    assert not view.disagreement
                    if math.isfinite(found.recorded):
                        size = max(1.0, abs(found.recorded))
                        assert abs(found.result - found.recorded) <= BOUNDS[which] * size
                    assert all(line for line in found.lines)
                    assert "\u2212" not in "".join(found.lines)
                    seen.add(view.cell.short)
    produced = {short_name(name) for each in run.trace.operations for name in each.outputs}
    assert seen == produced | {"raw", "tempered", "final"}
    assert {"embed", "attn.q", "attn.k", "attn.v", "attn.scores", "mlp.post", "logits"} <= seen


@pytest.mark.parametrize("which", RUNS)
def test_every_number_shown_is_the_trace_s(which: str) -> None:
    loaded, run = recorded(which)
    for step in range(len(run.trace.steps)):
        for operation in run.trace.operations:
            for name in operation.outputs:
                view = view_of(moment_of(loaded, run, step, operation.name), name)
                if view.output != name:
                    continue  # the same array under the next block's name
                held = run.trace.array(step, name)
                assert held is not None
                matrix = held[0].reshape(view.rows, view.columns)
                for row in range(view.rows):
                    np.testing.assert_array_equal(view.row_values(row), matrix[row])
                    head, position = view.place(row)
                    assert view.row_of(head or 0, position) == row
                    for column in range(view.columns):
                        text = view.text(row, column)
                        if text == "masked":
                            assert matrix[row, column] in (-math.inf, 0.0)
                            window = operation.window
                            oldest = position - window if window else -1
                            assert not oldest < column <= position
                        else:
                            assert math.isclose(
                                float(text), matrix[row, column], rel_tol=0.05, abs_tol=5.01e-4
                            )


def test_the_arithmetic_of_tiny_is_written_out() -> None:
    loaded, run = recorded("tiny")
    selection = Selection(query=1, key=1)
    scores = view_of(moment_of(loaded, run, 0, "blocks.0.attn.scores", selection))
    assert scores.text(1, 0) == "0.218643"
    assert scores.text(1, 1) == "0.699344"
    assert scores.text(0, 1) == "masked"
    line = worked(scores).lines[0]
    assert line.startswith("score[1] = q·k[1] / √2 = (")
    assert line.endswith("= 0.699344")
    assert line.count("×") == 2
    pattern = view_of(moment_of(loaded, run, 0, "blocks.0.attn.pattern", selection))
    assert worked(pattern).lines[0] == (
        "weight[1] = exp(0.699344 - 0.699344) / Σ exp(score - 0.699344) = 1 / 1.618350 = 0.617913"
    )
    assert pattern.title == "Softmax · head 0 · query 1 “cat”"
    assert pattern.hint == "2 values · min 0.382 · max 0.618 · sum 1.000"
    logits = view_of(moment_of(loaded, run, 0, "logits"))
    assert logits.column == 2
    assert logits.labels[2] == "sat"
    assert worked(logits).lines[0].endswith("= 1.233117")
    norm = view_of(moment_of(loaded, run, 0, "blocks.0.ln1"))
    assert "²" in worked(norm).lines[1]


def test_a_large_dot_product_is_counted_and_not_written_out() -> None:
    loaded, run = recorded("random")
    view = view_of(moment_of(loaded, run, 1, "blocks.1.mlp.out"))
    assert "×" not in "".join(worked(view).lines)
    [products] = worked(view).sums
    assert len(products) == 96


@pytest.mark.parametrize(
    ("fault", "step", "operation", "selection"),
    [
        ("no-scale", 0, "blocks.0.attn.scores", Selection(query=4, key=2)),
        ("positions-restart", 2, "embed", Selection(cell=(0, 3))),
        ("stale-cache", 2, "blocks.0.attn.scores", Selection(key=4)),
        ("no-mask", 0, "blocks.0.attn.scores", Selection(query=1, key=3)),
        ("nan-weight", 0, "blocks.1.mlp.pre", Selection(query=1, cell=(0, 0))),
    ],
)
def test_a_fault_is_seen_as_a_number_that_the_arithmetic_does_not_give(
    fault: str, step: int, operation: str, selection: Selection
) -> None:
    loaded = random_loaded()
    _, run = record(loaded, (3, 1, 4, 1, 5), (9, 2, 6), faults=frozenset({fault}))
    view = view_of(
        moment_of(loaded, run, step, operation, selection),
        "pos_embed" if operation == "embed" else "",
    )
    assert not worked(view).agrees
    assert f"Switched on: {fault}." in view.disagreement


def test_what_is_not_finite_is_said_in_words() -> None:
    loaded = random_loaded()
    _, run = record(loaded, (3, 1, 4), faults=frozenset({"nan-weight"}))
    view = view_of(moment_of(loaded, run, 0, "blocks.1.mlp.pre", Selection(cell=(0, 0))))
    assert view.statistics is not None
    assert view.statistics.nan == 1
    assert view.statistics.problem == "Not finite: 1 NaN."
    assert view.text(view.row, 0) == "NaN"
    assert math.isfinite(view.row_limit)
    refused = view_of(moment_of(loaded, run, 0, "sample"))
    assert refused.array is None
    assert refused.message


def test_masked_scores_are_no_infinities() -> None:
    loaded, run = recorded("random")
    view = view_of(moment_of(loaded, run, 0, "blocks.0.attn.scores", Selection(query=1, head=2)))
    assert view.statistics is not None
    assert (view.statistics.count, view.statistics.masked) == (2, 3)
    assert not view.statistics.problem
    assert view.hint.endswith("3 masked")
    beyond = view_of(moment_of(loaded, run, 0, "blocks.0.attn.scores", Selection(query=1, key=4)))
    assert beyond.text(beyond.row, 4) == "masked"
    assert worked(beyond).agrees
    weights = view_of(moment_of(loaded, run, 0, "blocks.0.attn.pattern", Selection(query=1, key=4)))
    assert weights.text(weights.row, 4) == "masked"
    assert worked(weights).result == 0.0


def test_what_was_left_out_asks_for_a_replay_and_comes_back_equal() -> None:
    loaded = random_loaded()
    session, run = record(loaded, (3, 1, 4, 1, 5), (9, 2), budget=0)
    assert run.trace.presence(1, "blocks.1.attn.pattern") is Presence.EVICTED
    view = view_of(moment_of(loaded, run, 1, "blocks.1.attn.pattern"))
    assert view.array is None
    assert view.missing == (1, 1)
    assert view.message == "Not kept: recomputing."
    for _ in range(3):  # the pattern's block, then the steps that hold the keys it read
        view = view_of(moment_of(loaded, run, 1, "blocks.1.attn.z"))
        if view.missing is None:
            break
        step, layer = view.missing
        resid_pre = run.trace.array(step, f"blocks.{layer}.resid_pre")
        assert resid_pre is not None
        for update in session.replay(run.trace.steps[step], layer, resid_pre):
            run.apply(update)
    assert worked(view).agrees
    _, whole = record(loaded, (3, 1, 4, 1, 5), (9, 2))
    expected = whole.trace.array(1, "blocks.1.attn.z")
    assert expected is not None
    np.testing.assert_array_equal(view.array, expected[0])


def test_only_the_last_position_s_logits() -> None:
    loaded, run = recorded("random")
    view = view_of(moment_of(loaded, run, 2, "logits", Selection(query=0)))
    assert view.first == 6
    assert view.title.startswith("Logits · position 6 ")


def test_sampling_stages_and_cuts() -> None:
    loaded, run = recorded("random")
    moment = moment_of(loaded, run, 0, "sample", sampling=COLD)
    assert moment.distribution is not None
    best, worst = int(moment.distribution.raw.argmax()), int(moment.distribution.raw.argmin())
    view = view_of(moment)
    assert view.output == "final"
    assert view.column == best
    assert view.value(0, best) == moment.distribution.final[best]
    cut = view_of(
        moment_of(loaded, run, 0, "sample", Selection(cell=(0, worst)), sampling=COLD), "final"
    )
    assert "cut by top" in worked(cut).lines[0]
    greedy = view_of(moment_of(loaded, run, 0, "sample", sampling=SamplingConfig(temperature=0)))
    assert worked(greedy).agrees


def test_without_weights_the_numbers_stay_and_the_arithmetic_says_what_it_lacks() -> None:
    loaded, run = recorded("random")
    view = view_of(without_weights(moment_of(loaded, run, 0, "blocks.0.mlp.pre")))
    assert view.array is not None
    assert view.derivation is None
    assert view.arithmetic == ("The weight blocks.0.mlp.W_in is not at hand.",)
    scores = view_of(without_weights(moment_of(loaded, run, 0, "blocks.0.attn.scores")))
    assert worked(scores).agrees
