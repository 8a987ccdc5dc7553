"""The logit lens: its last row is what the model says, and every number is worked out again."""

from __future__ import annotations

import math

import numpy as np
import pytest

from decoder_gui.debugger.laboratory import lens
from decoder_gui.debugger.laboratory.lens import NoReadout, lens_top, reader, slices, summarize
from decoder_gui.debugger.laboratory.lens_table import LensTable, lens_columns
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import TRACE_BUDGET
from model.checkpoints import LoadedModel
from tests.debugger.recorded import (
    FAMILIES,
    family_loaded,
    random_loaded,
    record,
    tiny_loaded,
)

MODELS = ("tiny", "random", *FAMILIES)


def recorded(which: str, budget: int = TRACE_BUDGET) -> tuple[LoadedModel, Run]:
    prompt: tuple[int, ...] = (0, 1)
    if which == "tiny":
        loaded = tiny_loaded()
    else:
        loaded = random_loaded() if which == "random" else family_loaded(which)
        prompt = (3, 1, 4, 1, 5, 9, 2)
    return loaded, record(loaded, prompt, (2, 3), budget=budget)[1]


def table_of(loaded: LoadedModel, run: Run, target: int = -1, first: int = 0) -> LensTable:
    parts = list(lens_columns(run.trace, loaded.engine, first=first, target=target))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.joined(part)
    return whole


@pytest.mark.parametrize("which", MODELS)
def test_the_last_row_is_what_the_model_says(which: str) -> None:
    loaded, run = recorded(which)
    table = table_of(loaded, run)
    engine = loaded.engine
    read = reader(engine)
    assert table.layers == engine.shape.depth + 1
    assert table.positions == run.trace.positions
    loose = 1e-12 if which == "tiny" else 1e-5
    for step in run.trace.steps:
        logits = run.trace.array(step.index, "logits")
        resid = run.trace.array(step.index, f"blocks.{engine.shape.depth - 1}.resid_post")
        assert logits is not None
        assert resid is not None
        again = read(resid[0])[-logits.shape[1] :]
        np.testing.assert_allclose(again, logits[0], rtol=loose, atol=loose)
        for position, row in enumerate(logits[0], step.last - len(logits[0])):
            exact = np.exp(row.astype(np.float64) - row.max())
            exact /= exact.sum()
            order = np.argsort(-exact, kind="stable")
            said = table.probabilities[-1, position]
            np.testing.assert_allclose(said, exact[order[: said.size]], rtol=1e-5, atol=1e-7)
            assert table.ids[-1, position, 0] == row.argmax()


@pytest.mark.parametrize("which", MODELS)
def test_every_row_is_its_residual_read_by_hand(which: str) -> None:
    loaded, run = recorded(which)
    target = 1
    table = table_of(loaded, run, target)
    engine = loaded.engine
    matrix = np.asarray(engine.parameter("unembed.W_U"), np.float64)  # type: ignore[attr-defined]
    gain = engine.parameter("ln_final.w")  # type: ignore[attr-defined]
    shift = engine.parameter("ln_final.b")  # type: ignore[attr-defined]
    epsilon = engine.norm_epsilon  # type: ignore[attr-defined]
    text = run.trace.token_ids
    for step in run.trace.steps:
        for layer in range(engine.shape.depth):
            resid = run.trace.array(step.index, f"blocks.{layer}.resid_pre")
            assert resid is not None
            for position, read in enumerate(resid[0].astype(np.float64), step.first):
                centred = engine.norm == "LayerNorm"  # type: ignore[attr-defined]
                row = read - read.mean() if centred else read
                normed = row / math.sqrt((row**2).mean() + epsilon) * gain
                logits = (normed if shift is None else normed + shift) @ matrix
                shares = np.exp(logits - logits.max())
                shares /= shares.sum()
                wanted = text[position + 1] if position + 1 < len(text) else target
                assert table.target_ids[position] == wanted
                assert math.isclose(
                    table.target_probabilities[layer, position], shares[wanted], rel_tol=1e-4
                )
                assert table.target_ranks[layer, position] == 1 + (shares > shares[wanted]).sum()
                np.testing.assert_allclose(
                    table.probabilities[layer, position, 0], shares.max(), rtol=1e-4
                )
                entropy = -(shares * np.log(shares)).sum()
                assert math.isclose(table.entropy[layer, position], entropy, abs_tol=1e-4)


def test_slices_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, run = recorded("random")
    whole = table_of(loaded, run, 5)
    monkeypatch.setattr("decoder_gui.debugger.laboratory.lens_table.SLICE_BYTES", 1)
    parts = list(lens_columns(run.trace, loaded.engine, target=5))
    assert [part.positions for part in parts] == [1] * 9
    again = table_of(loaded, run, 5)
    np.testing.assert_array_equal(whole.ids, again.ids)
    np.testing.assert_array_equal(whole.target_ranks, again.target_ranks)
    np.testing.assert_allclose(whole.probabilities, again.probabilities, rtol=1e-5)


def test_columns_go_on_where_they_ended() -> None:
    loaded, run = recorded("random")
    whole = table_of(loaded, run, 5)
    later = table_of(loaded, run, 5, first=4)
    assert (later.first, later.last) == (4, 9)
    joined = whole.upto(4).joined(later)
    np.testing.assert_array_equal(joined.ids, whole.ids)
    np.testing.assert_array_equal(joined.target_ids, whole.target_ids)
    with pytest.raises(ValueError, match="does not follow"):
        whole.joined(later)


def test_a_last_block_that_was_not_kept_is_read_from_the_final_norm() -> None:
    loaded, run = recorded("random")
    _, poor = recorded("random", budget=0)
    assert poor.trace.array(1, "blocks.1.resid_post") is None
    ours, theirs = table_of(loaded, poor, 5), table_of(loaded, run, 5)
    np.testing.assert_array_equal(ours.ids, theirs.ids)
    np.testing.assert_allclose(ours.probabilities, theirs.probabilities, rtol=1e-6)


def test_ties_go_to_the_lower_id_and_nan_is_told() -> None:
    logits = np.array([[1.0, 3.0, 3.0, 0.0], [0.0, math.nan, 1.0, 2.0]], dtype=np.float32)
    said = summarize(logits, np.array([2, 3]), top=3)
    assert said.ids[0].tolist() == [1, 2, 0]
    assert said.target_ranks[0] == 2
    assert said.finite.tolist() == [True, False]
    none = summarize(logits[:1], np.array([-1]))
    assert none.target_ranks[0] == 0
    assert math.isnan(none.target_probabilities[0])


def test_the_most_likely_tokens_alone() -> None:
    loaded, run = recorded("random")
    resid = run.trace.array(0, "blocks.1.resid_pre")
    assert resid is not None
    top = lens_top(loaded.engine, resid[0])
    np.testing.assert_array_equal(top, table_of(loaded, run).ids[1, : len(top), 0])
    broken = resid[0].copy()
    broken[2, 3] = np.nan
    assert lens_top(loaded.engine, broken)[2] == -1


def test_slices_hold_so_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lens, "SLICE_BYTES", 3 * 40 * 4)
    assert [part.stop - part.start for part in slices(7, 40)] == [3, 3, 1]
    loaded, run = recorded("random")
    resid = run.trace.array(0, "blocks.1.resid_pre")
    assert resid is not None
    whole = reader(loaded.engine)(resid[0]).argmax(axis=-1)
    np.testing.assert_array_equal(lens_top(loaded.engine, resid[0]), whole)


def test_without_weights_there_is_no_lens() -> None:
    with pytest.raises(NoReadout, match="weights of this model are not at hand"):
        reader(object())
