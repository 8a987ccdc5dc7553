"""What breakpoints wait for: each rule true, false and at its edge, on runs made for it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from decoder_gui.debugger.cursor import Cursor, neighbour
from decoder_gui.debugger.laboratory.lens import lens_top
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.stopping.breakpoints import Breakpoint, Breakpoints
from decoder_gui.debugger.stopping.rules import (
    InvalidRule,
    Rule,
    Side,
    all_rules,
    forms,
    rule_from_dict,
)
from decoder_gui.debugger.stopping.rules.attention import AboveDiagonal, RowSum
from decoder_gui.debugger.stopping.rules.cache import CacheShare
from decoder_gui.debugger.stopping.rules.layers import TopChanges
from decoder_gui.debugger.stopping.rules.places import (
    AtEvent,
    OnLayer,
    OnOperation,
    OnPhase,
    OnPosition,
    OnStep,
    TokenChosen,
)
from decoder_gui.debugger.stopping.rules.sampling import Entropy, FewKept, LogProbability
from decoder_gui.debugger.stopping.rules.values import CellBeyond, CellCrosses, NotFinite
from decoder_gui.debugger.stopping.run_to import Judge, session_recompute
from decoder_gui.debugger.stopping.scene import Scene
from decoder_gui.debugger.stopping.spots import Spot
from model.sampling import SamplingConfig, distribution
from model.trace import Event, Phase, Trace
from tests.debugger.recorded import held, logits_of, random_loaded, record, tiny_loaded

PROMPT, DECODED = (3, 1, 4, 1, 5), (9, 2, 6, 5)
GREEDY = SamplingConfig(temperature=0.0)


def scene_of(
    run: Run, sampling: SamplingConfig = GREEDY, capacity: int = 16, weights: object = None
) -> Scene:
    engine = random_loaded().engine if weights is None else weights
    return Scene(run.copy(), sampling=sampling, capacity=capacity, weights=engine)


@pytest.fixture(scope="module")
def run() -> Run:
    return record(random_loaded(), PROMPT, DECODED)[1]


def events(trace: Trace) -> list[Cursor]:
    return [
        Cursor(step, operation)
        for step in range(len(trace.steps))
        for operation in range(trace.events_in(step))
    ]


def stops(scene: Scene, rule: Rule) -> dict[tuple[int, str], str]:
    """Every event at which a run stops for a rule: (step, operation) to the reason."""
    judge = Judge(scene, [Breakpoint(1, rule)])
    found = {}
    for here in events(scene.trace):
        for reason in judge.reasons(here):
            found[here.step, scene.operation(here).name] = reason.words
    return found


def written(run: Run, step: int, name: str, change: object) -> Run:
    """A copy of a run in which one array is another one; ``change`` writes into a copy of it."""
    other = run.copy()
    operation = other.trace.producer(name)
    event = other.trace._events[step][operation]
    array = event.arrays[name].copy()
    change(array)  # type: ignore[operator]
    other.trace._events[step][operation] = replace(event, arrays={**event.arrays, name: array})
    return other


# ---- places


def test_one_event_is_one_stop(run: Run) -> None:
    found = stops(scene_of(run), AtEvent(2, "blocks.1.attn.pattern"))
    assert list(found) == [(2, "blocks.1.attn.pattern")]
    assert stops(scene_of(run), AtEvent(9, "embed")) == {}


def test_an_operation_by_pattern_in_every_step(run: Run) -> None:
    found = stops(scene_of(run), OnOperation("blocks.*.attn.pattern"))
    assert list(found) == [
        (step, f"blocks.{layer}.attn.pattern") for step in range(5) for layer in range(2)
    ]
    assert len(stops(scene_of(run), OnOperation("*"))) == len(run.trace)
    assert len(stops(scene_of(run), OnOperation("logits"))) == 5
    assert stops(scene_of(run), OnOperation("pattern")) == {}


def test_a_layer_stops_where_it_begins(run: Run) -> None:
    assert list(stops(scene_of(run), OnLayer(1))) == [(step, "blocks.1.ln1") for step in range(5)]
    assert stops(scene_of(run), OnLayer(2)) == {}


def test_a_phase_a_step_and_a_position_stop_where_they_begin(run: Run) -> None:
    assert list(stops(scene_of(run), OnPhase(Phase.PREFILL))) == [(0, "embed")]
    assert list(stops(scene_of(run), OnPhase(Phase.DECODE))) == [(1, "embed")]
    assert list(stops(scene_of(run), OnStep(3))) == [(3, "embed")]
    assert list(stops(scene_of(run), OnPosition(4))) == [(0, "embed")]
    found = stops(scene_of(run), OnPosition(5))
    assert found == {(1, "embed"): "position 5, “9”, is processed"}
    assert stops(scene_of(run), OnPosition(9)) == {}


def test_a_token_by_its_text_stops_where_it_is_chosen(run: Run) -> None:
    assert list(stops(scene_of(run), TokenChosen("6"))) == [(2, "sample")]
    assert stops(scene_of(run), TokenChosen("39")) == {}


# ---- numbers


def test_finite_runs_have_no_stop_although_masked_scores_are_infinite(run: Run) -> None:
    assert np.isinf(held(run.trace, 0, "blocks.0.attn.scores")).any()
    assert stops(scene_of(run), NotFinite()) == {}


def test_nan_stops_where_it_appears_and_not_where_it_spreads() -> None:
    _, run = record(random_loaded(), PROMPT, DECODED, faults=frozenset({"nan-weight"}))
    found = stops(scene_of(run), NotFinite())
    assert list(found) == [(step, "blocks.1.mlp.pre") for step in range(5)]
    assert found[0, "blocks.1.mlp.pre"].startswith(
        "NaN in blocks.1.mlp.pre at position 0, index 0, one of 5 "
    )


def test_infinity_in_one_cell_is_named_with_its_place(run: Run) -> None:
    def change(array: np.ndarray) -> None:
        array[0, 2, 3, 7] = np.inf

    found = stops(scene_of(written(run, 0, "blocks.0.attn.q", change)), NotFinite())
    assert found == {
        (0, "blocks.0.attn.q"): "infinity in blocks.0.attn.q at head 2, position 3, index 7"
    }


def test_a_visible_score_of_minus_infinity_is_a_stop(run: Run) -> None:
    def change(array: np.ndarray) -> None:
        array[0, 1, 0, 2] = -np.inf

    found = stops(scene_of(written(run, 3, "blocks.1.attn.scores", change)), NotFinite())
    assert list(found) == [(3, "blocks.1.attn.scores")]
    assert found[3, "blocks.1.attn.scores"].startswith("-infinity in ")
    assert "head 1, position 7, index 2" in found[3, "blocks.1.attn.scores"]


def series(run: Run, spot: Spot) -> list[float]:
    values = []
    for step in run.trace.steps:
        array = held(run.trace, step.index, spot.array)
        values.append(float(array[0][-1, spot.index]))
    return values


def test_a_cell_crosses_a_value_from_either_side(run: Run) -> None:
    spot = Spot("blocks.0.mlp.post", index=3)
    values = series(run, spot)
    level = float(np.mean(values))
    expected = [
        (step, "blocks.0.mlp.post")
        for step in range(1, 5)
        if (values[step - 1] < level) != (values[step] < level)
    ]
    found = stops(scene_of(run), CellCrosses(spot, level))
    assert expected
    assert list(found) == expected
    step = expected[0][0]
    assert (
        f"{values[step - 1]:.4g} at step {step - 1}, {values[step]:.4g} now" in found[expected[0]]
    )
    assert stops(scene_of(run), CellCrosses(spot, max(values) + 1)) == {}


def test_reaching_a_value_exactly_is_crossing_it_from_below(run: Run) -> None:
    spot = Spot("blocks.0.mlp.post", index=3)
    for step, value in enumerate([0.0, 1.0, 1.0, 0.5, 2.0]):

        def change(array: np.ndarray, value: float = value) -> None:
            array[0, -1, 3] = value

        run = written(run, step, spot.array, change)
    found = stops(scene_of(run), CellCrosses(spot, 1.0))
    assert [step for step, _ in found] == [1, 3, 4]


def test_a_nan_is_on_no_side(run: Run) -> None:
    spot = Spot("blocks.0.mlp.post", index=3)
    for step, value in enumerate([0.0, np.nan, 0.2, np.nan, 2.0]):

        def change(array: np.ndarray, value: float = value) -> None:
            array[0, -1, 3] = value

        run = written(run, step, spot.array, change)
    found = stops(scene_of(run), CellCrosses(spot, 1.0))
    assert [step for step, _ in found] == [4]
    assert "0.2 at step 2, 2 now" in found[4, spot.array]
    assert [step for step, _ in stops(scene_of(run), CellBeyond(spot, Side.BELOW, 1.0))] == [0, 2]


def test_a_cell_above_a_value_stops_when_it_gets_there(run: Run) -> None:
    spot = Spot("blocks.1.attn.pattern", head=1, index=0)
    for step, value in enumerate([0.1, 0.6, 0.7, 0.2, 0.9]):

        def change(array: np.ndarray, value: float = value) -> None:
            array[0, 1, -1, 0] = value

        run = written(run, step, spot.array, change)
    found = stops(scene_of(run), CellBeyond(spot, Side.ABOVE, 0.5))
    assert [step for step, _ in found] == [1, 4]
    assert (
        "blocks.1.attn.pattern, head 1, newest position, key 0 is 0.6, above 0.5"
        in (found[1, spot.array])
    )
    below = stops(scene_of(run), CellBeyond(spot, Side.BELOW, 0.5))
    assert [step for step, _ in below] == [0, 3]
    assert stops(scene_of(run), CellBeyond(spot, Side.ABOVE, 0.9)) == {}  # not above itself


def test_a_cell_at_an_absolute_position_is_looked_at_once(run: Run) -> None:
    value = float(held(run.trace, 2, "blocks.0.resid_post")[0, 0, 5])
    spot = Spot("blocks.0.resid_post", position=6, index=5)
    assert list(stops(scene_of(run), CellBeyond(spot, Side.ABOVE, value - 1))) == [
        (2, "blocks.0.resid_post")
    ]
    with pytest.raises(InvalidRule, match="computed once"):
        CellCrosses(spot, 0.0)
    with pytest.raises(InvalidRule, match="one cell"):
        CellBeyond(Spot("logits"), Side.ABOVE, 0.0)


def test_a_probability_can_be_watched_like_a_cell(run: Run) -> None:
    shown = distribution(logits_of(run.trace, 2), SamplingConfig())
    token = int(shown.raw.argmax())
    rule = CellBeyond(Spot("raw", index=token), Side.ABOVE, float(shown.raw[token]) - 1e-9)
    assert (2, "sample") in stops(scene_of(run, SamplingConfig()), rule)


# ---- attention


def test_rows_of_a_sound_run_sum_to_one_and_nothing_is_above_the_diagonal(run: Run) -> None:
    assert stops(scene_of(run), RowSum()) == {}
    assert stops(scene_of(run), AboveDiagonal()) == {}


def test_a_row_that_does_not_sum_to_one_is_named(run: Run) -> None:
    def change(array: np.ndarray) -> None:
        array[0, 2, 0] *= 0.93

    found = stops(scene_of(written(run, 2, "blocks.1.attn.pattern", change)), RowSum())
    assert found == {(2, "blocks.1.attn.pattern"): "row 6 of head 1.2 sums to 0.93"}
    assert stops(scene_of(written(run, 2, "blocks.1.attn.pattern", change)), RowSum(0.1)) == {}


def test_a_row_with_nan_does_not_sum_to_one(run: Run) -> None:
    def change(array: np.ndarray) -> None:
        array[0, 0, 1:3, 0] = np.nan

    found = stops(scene_of(written(run, 0, "blocks.0.attn.pattern", change)), RowSum())
    assert found == {
        (0, "blocks.0.attn.pattern"): "row 1 of head 0.0 sums to NaN; 2 rows of this operation do "
        "not sum to 1"
    }


def test_without_a_mask_weights_lie_above_the_diagonal() -> None:
    _, run = record(random_loaded(), PROMPT, DECODED, faults=frozenset({"no-mask"}))
    found = stops(scene_of(run), AboveDiagonal())
    # A single query has no later key: only the prefill can show it.
    assert list(found) == [(0, "blocks.0.attn.pattern"), (0, "blocks.1.attn.pattern")]
    weight = float(held(run.trace, 0, "blocks.0.attn.pattern")[0, 0, 0, 1])
    assert (
        f"query 0 of head 0.0 attends to the later key 1 with weight {weight:.4g}"
        in (found[0, "blocks.0.attn.pattern"])
    )


def test_every_bad_softmax_is_a_stop_of_its_own(run: Run) -> None:
    def change(array: np.ndarray) -> None:
        array *= 2

    for step, layer in ((1, 0), (1, 1), (2, 0)):
        run = written(run, step, f"blocks.{layer}.attn.pattern", change)
    found = stops(scene_of(run), RowSum())
    assert list(found) == [
        (1, "blocks.0.attn.pattern"),
        (1, "blocks.1.attn.pattern"),
        (2, "blocks.0.attn.pattern"),
    ]


# ---- the choice of a token


def test_few_kept(run: Run) -> None:
    assert len(stops(scene_of(run, GREEDY), FewKept(2))) == 5
    top3 = SamplingConfig(top_k=3)
    assert stops(scene_of(run, top3), FewKept(3)) == {}
    found = stops(scene_of(run, top3), FewKept(4))
    assert len(found) == 5
    assert found[0, "sample"] == "3 tokens are kept"


def test_entropy_above_and_below(run: Run) -> None:
    config = SamplingConfig(temperature=0.7)
    entropies = [distribution(logits_of(run.trace, step), config).entropy for step in range(5)]
    middle = sorted(entropies)[2]
    above = stops(scene_of(run, config), Entropy(Side.ABOVE, middle))
    below = stops(scene_of(run, config), Entropy(Side.BELOW, middle))
    assert [step for step, _ in above] == [s for s in range(5) if entropies[s] > middle]
    assert [step for step, _ in below] == [s for s in range(5) if entropies[s] < middle]
    assert len(above) + len(below) == 4  # the one in the middle is neither
    step = next(iter(above))[0]
    assert f"{entropies[step]:.4g} nats" in above[step, "sample"]


def test_log_probability_of_the_token_taken_and_of_the_one_to_come(run: Run) -> None:
    taken = [
        float(distribution(logits_of(run.trace, step), GREEDY).log_raw[token])
        for step, token in enumerate(DECODED)
    ]
    landing = float(distribution(logits_of(run.trace, 4), GREEDY).log_raw.max())
    level = sorted(taken)[2]
    found = stops(scene_of(run), LogProbability(level))
    assert [step for step, _ in found] == [s for s in range(4) if taken[s] < level]
    assert (4, "sample") in stops(scene_of(run), LogProbability(landing + 1e-6))
    assert (4, "sample") not in stops(scene_of(run), LogProbability(landing))


def test_nothing_to_sample_is_no_stop_of_the_sampler() -> None:
    _, run = record(random_loaded(), PROMPT, faults=frozenset({"nan-weight"}))
    for rule in (FewKept(1000), Entropy(Side.BELOW, 100.0), LogProbability(0.0)):
        assert stops(scene_of(run), rule) == {}


# ---- cache and layers


def test_the_cache_passes_a_share_once(run: Run) -> None:
    found = stops(scene_of(run), CacheShare(40.0))
    assert list(found) == [(2, "blocks.0.cache")]
    assert found[2, "blocks.0.cache"].startswith("7 of 16 positions of the cache are in use, 43.8%")
    found = stops(scene_of(run), CacheShare(50.0))  # 8 of 16 is not more than half
    assert list(found) == [(4, "blocks.0.cache")]
    assert found[4, "blocks.0.cache"].startswith("9 of 16 positions of the cache are in use, 56.2%")
    assert stops(scene_of(run), CacheShare(99.0)) == {}
    assert list(stops(scene_of(run), CacheShare(0.0))) == [(0, "blocks.0.cache")]


def test_the_top_candidate_changes_between_layers(run: Run) -> None:
    weights = random_loaded().engine
    tops = [
        [
            int(lens_top(weights, held(run.trace, step, f"blocks.{layer}.resid_post")[0, -1:])[0])
            for layer in range(2)
        ]
        for step in range(5)
    ]
    expected = [step for step in range(5) if tops[step][0] != tops[step][1]]
    assert expected
    found = stops(scene_of(run), TopChanges())
    assert list(found) == [(step, "blocks.1.resid_post") for step in expected]
    step = expected[0]
    assert (
        f"is “{tops[step][1]}” after block 1 and was “{tops[step][0]}” after block 0"
        in (found[step, "blocks.1.resid_post"])
    )
    # The last block's residual is what the model itself reads.
    assert tops[step][1] == int(logits_of(run.trace, step).argmax())


def test_a_single_layer_has_nothing_to_change_between() -> None:
    tiny = tiny_loaded()
    _, run = record(tiny, (0, 1))
    assert stops(scene_of(run, weights=tiny.engine), TopChanges()) == {}


def test_without_weights_the_lens_says_so(run: Run) -> None:
    scene = Scene(run.copy(), sampling=GREEDY, capacity=16)
    judge = Judge(scene, [Breakpoint(1, TopChanges())])
    assert not any(judge.reasons(here) for here in events(run.trace))
    assert "5 events could not be examined" in judge.remark
    assert "weights" in judge.remark


# ---- what was not kept


def test_what_was_left_out_is_recomputed_or_said_to_be_missing() -> None:
    whole = record(random_loaded(), PROMPT, DECODED)[1]
    session, lean = record(random_loaded(), PROMPT, DECODED, budget=0)
    assert lean.trace.array(1, "blocks.0.attn.pattern") is None
    judge = Judge(scene_of(lean), [Breakpoint(1, RowSum(0.0)), Breakpoint(2, NotFinite())])
    for here in events(lean.trace):
        judge.reasons(here)
    assert "could not be examined: " in judge.remark
    assert "was not kept" in judge.remark

    scene = scene_of(lean)
    session_recompute(session, scene)
    spot = Spot("blocks.1.mlp.post", index=2)
    level = float(np.mean(series(whole, spot)))
    assert stops(scene, CellCrosses(spot, level)) == stops(
        scene_of(whole), CellCrosses(spot, level)
    )
    judge = Judge(scene, [Breakpoint(1, RowSum()), Breakpoint(2, NotFinite())])
    assert not any(judge.reasons(here) for here in events(lean.trace))
    assert judge.remark == ""


# ---- as data


def made(kind: type[Rule]) -> Rule:
    return kind(
        **{
            form.name: form.default if form.default is not None else form.entry.suggestion
            for form in forms(kind)
        }
    )


@pytest.mark.parametrize("kind", all_rules(), ids=lambda kind: kind.kind)
def test_every_rule_survives_json_and_says_what_it_is(kind: type[Rule]) -> None:
    rule = made(kind)
    assert rule_from_dict(json.loads(json.dumps(rule.to_dict()))) == rule
    assert rule.words
    assert kind.title
    assert kind.help.endswith(".")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"kind": "rowsum"}, "no breakpoint of the kind 'rowsum'"),
        ({"kind": "layer"}, "needs the field layer"),
        ({"kind": "layer", "layer": 1, "head": 2}, "has no field head"),
        ({"kind": "layer", "layer": -1}, "Layer must be at least 0, not -1"),
        ({"kind": "layer", "layer": 1.5}, "Layer must be a whole number"),
        ({"kind": "layer", "layer": True}, "Layer must be a whole number"),
        ({"kind": "cache-share", "share": 101}, "must be at most 100"),
        ({"kind": "entropy", "side": "over", "value": 1.0}, "Side is one of above, below"),
        ({"kind": "entropy", "side": "above", "value": float("nan")}, "must be a finite number"),
        ({"kind": "operation", "pattern": " "}, "Name must not be empty"),
        ({"kind": "cell-crosses", "spot": {"array": "logits", "index": -2}, "value": 0}, "index"),
        ({"kind": "cell-crosses", "spot": "logits", "value": 0}, "a place needs"),
        ([], "a breakpoint needs a kind"),
    ],
)
def test_bad_data_is_refused_in_words(data: object, words: str) -> None:
    with pytest.raises(InvalidRule, match=words):
        rule_from_dict(data)


def test_a_list_of_breakpoints_changes_and_is_saved() -> None:
    items = Breakpoints().added(NotFinite()).added(OnLayer(1), on=False).added(RowSum())
    assert [item.number for item in items] == [1, 2, 3]
    assert [item.number for item in items.on] == [1, 3]
    assert items.added(OnLayer(1)).on == items.switched(2, True).on  # no second one
    assert [item.number for item in items.without(1).added(OnLayer(0))] == [2, 3, 4]
    edited = items.edited(3, OnLayer(1))
    assert [(item.number, item.rule) for item in edited] == [(1, NotFinite()), (3, OnLayer(1))]
    again, refused = Breakpoints.from_list(json.loads(json.dumps(items.to_list())))
    assert [(i.rule, i.on) for i in again] == [(i.rule, i.on) for i in items]
    assert refused == ()


def test_a_damaged_list_keeps_what_can_be_read() -> None:
    data = [{"kind": "later-version"}, {"kind": "not-finite", "on": 1}, 7, {"kind": "row-sum"}]
    items, refused = Breakpoints.from_list(data)
    assert [item.rule for item in items] == [RowSum()]
    assert len(refused) == 3
    assert refused[0].startswith("Breakpoint 1 was left out: ")
    assert Breakpoints.from_list({"kind": "row-sum"})[1]


def test_a_stop_needs_that_it_did_not_hold_before(run: Run) -> None:
    """The edge itself: a run's stops are the events where holding begins."""
    judge = Judge(scene_of(run), [Breakpoint(1, OnLayer(1))])
    for here in events(run.trace):
        before = neighbour(run.trace, here, -1)
        inside = run.trace.operations[here.operation].layer == 1
        was = before is not None and run.trace.operations[before.operation].layer == 1
        assert bool(judge.reasons(here)) == (inside and not was)


def test_events_made_by_hand_are_not_shared_with_the_copy(run: Run) -> None:
    other = run.copy()
    other.cut(2)
    assert len(run.trace.steps) == 5
    assert len(other.trace.steps) == 2
    assert isinstance(other.trace._events[0][0], Event)
