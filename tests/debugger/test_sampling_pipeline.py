"""The pipeline's view data: public reports, edges, a large vocabulary, the table as CSV."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.run import Run
from decoder_gui.viewdata.moment import ModelInfo, Moment, Selection, build_moment
from decoder_gui.viewdata.sampling_lab import build_held_draw, build_two_settings
from decoder_gui.viewdata.sampling_pipeline import build_pipeline
from decoder_gui.viewdata.token_search import find_tokens
from decoder_gui.viewdata.vocabulary_csv import csv_lines
from model.checkpoints import LoadedModel
from model.sampling import SamplingConfig, distribution
from tests.debugger.recorded import random_loaded, record, tiny_loaded
from tests.model.test_sampling import REPORTED, Case


def with_logits(
    monkeypatch: pytest.MonkeyPatch,
    loaded: LoadedModel,
    logits: list[float],
    config: SamplingConfig,
) -> Moment:
    """A moment whose step has other logits than the model's: those of a report."""
    _, run = record(loaded, (1, 2))
    monkeypatch.setattr(run.trace, "logits", lambda step: np.array(logits))
    return at_end(loaded, run, config)


def at_end(loaded: LoadedModel, run: Run, config: SamplingConfig) -> Moment:
    step = len(run.trace.steps) - 1
    cursor = Cursor(step, run.trace.events_in(step) - 1)
    return build_moment(ModelInfo.of(loaded), run, cursor, Selection(), config, 8)


@pytest.mark.parametrize("case", REPORTED, ids=lambda case: case.source)
def test_reported_cases_keep_the_right_tokens(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    config = SamplingConfig(**case.settings)
    moment = with_logits(monkeypatch, tiny_loaded(), case.logits, config)
    view = build_pipeline(moment)
    final = {row.token_id: row.cells[-1].probability for row in view.rows if row.cells[-1].inside}
    kept = sorted(final, key=lambda token: (-final[token], token))
    if case.kept is not None:
        assert kept == case.kept
    if case.final is not None:
        assert [final.get(token, 0.0) for token in range(len(case.logits))] == case.final
    if case.selected is not None:
        assert kept == [case.selected]
    # And the other panels of the laboratory agree.
    curve = build_held_draw(moment)
    assert {step.token_id for step in curve.steps} == set(kept)
    two = build_two_settings(moment, config)
    shown = {figure.label: figure.value for figure in two.figures}
    assert shown["Kept by A"] == shown["Kept by both"] == str(len(kept))
    assert shown["KL(A, B)"] == "0.000 nats"


def test_where_each_token_falls_is_said_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = np.log([0.5, 0.2, 0.15, 0.1, 0.05]).tolist()
    for settings, token, words in (
        ({"top_k": 2}, 3, "falls at top-k: number 4 of those left, and k is 2."),
        ({"top_p": 0.7}, 2, "falls at top-p: those before it reach 0.7 (mass 0.700)."),
        ({"min_p": 0.3}, 3, "falls at min-p: share 0.200 is below 0.3."),
        ({"temperature": 1e-40}, 1, "falls at the temperature: its probability rounds to 0."),
        ({"temperature": 0.0}, 1, "temperature 0 takes the highest logit, and this is another."),
        ({}, 0, "stays to the end, and is drawn with 50.0%."),
    ):
        config = SamplingConfig(**settings)
        view = build_pipeline(with_logits(monkeypatch, tiny_loaded(), logits, config))
        row = next(row for row in view.rows if row.token_id == token)
        assert row.fate.endswith(words)


def test_a_penalty_marks_what_has_occurred(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SamplingConfig(repetition_penalty=2.0)
    moment = with_logits(monkeypatch, tiny_loaded(), [0.0, 3.0, -1.0, 1.0], config)
    view = build_pipeline(moment)  # the text is tokens 1 and 2
    assert {row.token_id for row in view.rows if row.occurred} == {1, 2}
    penalty = view.columns[1]
    assert penalty.edge.startswith("2 tokens that occurred (↺) become less likely")
    expected = distribution([0.0, 3.0, -1.0, 1.0], config, [1, 2])
    for row in view.rows:
        assert row.cells[1].probability == pytest.approx(expected.final[row.token_id])


def test_a_token_of_any_rank_is_found() -> None:
    loaded = random_loaded()
    _, run = record(loaded, (3, 1, 4))
    moment = at_end(loaded, run, SamplingConfig(top_k=2))
    shown = moment.distribution
    assert shown is not None
    for token in (0, 17, 39):
        assert find_tokens(str(token), shown, loaded.tokenizer)[0] == token
    assert find_tokens("40", shown, loaded.tokenizer) == ()
    assert find_tokens("  ", shown, loaded.tokenizer) == ()
    view = build_pipeline(moment, "17")
    assert view.rows[0].token_id == 17
    assert f"rank {view.rows[0].rank} of 40" in view.search


def test_the_table_as_csv_is_read_back_bit_for_bit() -> None:
    loaded = random_loaded()
    config = SamplingConfig(0.7, 0.8, 30, min_p=0.01, repetition_penalty=1.3)
    _, run = record(loaded, (3, 1, 4))
    shown = at_end(loaded, run, config).distribution
    assert shown is not None
    text = "".join(csv_lines(shown, loaded.tokenizer))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [int(row["token_id"]) for row in rows] == shown.ranking.order.tolist()
    for row in rows:
        token = int(row["token_id"])
        assert float(row["logit"]) == shown.ranking.logits[token]
        assert float(row["log_probability"]) == shown.log_raw[token]
        for stage in shown.stages:
            assert float(row[stage.name]) == stage.probabilities[token]
        assert row["cut_by"] == (shown.cut_name(token) or "")
    assert text.startswith("rank,token_id,text,logit,log_probability,raw,repetition_penalty,")
