"""The checks themselves: what they find, what they say, and that nothing slips through as NaN."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model import tiny
from model.checks import (
    CheckResult,
    Subject,
    TraceWatch,
    Where,
    all_checks,
    check,
    check_trace,
    run_checks,
)
from model.checks.cache import relative_difference
from model.checks.core import as_batch, within, worse
from model.checks.sampling import recompute
from model.engine import Array, Cache, Engine, TokenIds
from model.errors import ContextOverflow, DecoderError, EmptyPrompt, NonFiniteLogits
from model.faults import apply_faults, fault_names, find_fault
from model.random_model import random_decoder
from model.sampling import SamplingConfig
from model.shape import ModelShape
from model.tiny_engine import TinyCache, TinyEngine
from model.trace import Checkpoint, Event, Phase, Step, Trace

TINY = TinyEngine()
DEEP = random_decoder(ModelShape(3, 16, 4, 24, 30), seed=1, spread=0.3)
NAMES = [
    "causal-weights",
    "rows-sum-to-one",
    "causal-behaviour",
    "cache-equals-full",
    "cache-constant",
    "finite",
    "positions",
    "sampling",
]


def run(subject: Subject) -> dict[str, CheckResult]:
    """The checks of this package; others may have registered theirs by now."""
    return {result.name: result for result in run_checks(subject, NAMES)}


# ---------------------------------------------------------------- sound engines


def test_the_checks_there_are() -> None:
    own = [found for found in all_checks() if found.run.__module__.startswith("model.")]
    assert [found.name for found in own] == NAMES
    assert all(found.asserts for found in all_checks())


@pytest.mark.parametrize("order", ["reference", "hugging-face", "llama.cpp"])
@pytest.mark.parametrize("prompt", [(0,), (0, 1), (3, 2, 1), (0, 1, 2, 3)])
def test_the_tiny_decoder_holds(prompt: tuple[int, ...], order: str) -> None:
    sampling = SamplingConfig(temperature=0.7, top_k=3, top_p=0.9, order=order)
    results = run(Subject.under(TINY, prompt, sampling=sampling))
    assert list(results) == NAMES
    for result in results.values():
        assert result.holds, result
        assert result.worst <= result.tolerance
        assert not result.detail.endswith(".")


def test_a_sound_pass_of_one_shape_moves_nothing_at_all() -> None:
    result = run(Subject.under(DEEP, (1, 2, 3, 4, 5)))["causal-behaviour"]
    assert result.worst == 0.0
    assert "moves no logit of 12 earlier positions; largest move 0" in result.detail


def test_details_have_numbers() -> None:
    results = run(Subject.under(DEEP, (1, 2, 3, 4, 5), continuation=(7, 8, 9)))
    assert results["causal-weights"].detail == (
        "no weight above the diagonal in 3 layers × 4 heads, 8 queries "
        "(prefill, decode and chunked prefill); largest 0"
    )
    assert "5 positions in prefill and 3 in decode" in results["cache-equals-full"].detail
    assert "kept their bits through 3 later steps" in results["cache-constant"].detail
    assert "3 decoded tokens at positions 5 to 7" in results["positions"].detail
    assert "values of 196 arrays" in results["finite"].detail
    assert "3 steps of the run and 9 probes" in results["sampling"].detail


def test_a_full_context_is_said_and_its_last_token_decoded() -> None:
    results = run(Subject.under(TINY, (0, 1, 2, 3)))
    for name in ("cache-equals-full", "cache-constant", "positions"):
        assert results[name].detail.endswith(
            "the prompt fills the context of 4, so its last token was processed as a decoded one"
        )
    assert "at position 3," in results["positions"].detail


def test_what_cannot_be_examined_is_said() -> None:
    results = run(Subject.under(TINY, (0,), context=1))
    assert results["causal-behaviour"].detail == "nothing to examine: the context has 1 position"
    for name in ("cache-constant", "positions"):
        assert results[name].detail == (
            "nothing to examine; the prompt fills the context of 1, so no token was decoded"
        )
    assert all(result.holds for result in results.values())


def test_the_continuation_is_the_sound_engines_and_stays_within_the_context() -> None:
    assert Subject.under(TINY, (0, 1)).token_ids == (0, 1, 2, 3)
    assert Subject.under(TINY, (0, 1), ("nan-weight",)).token_ids == (0, 1, 2, 3)
    assert Subject.under(TINY, (0, 1), context=3).token_ids == (0, 1, 2)
    assert Subject.under(TINY, (0, 1), continuation=(1, 1, 1)).token_ids == (0, 1, 1, 1)
    assert len(Subject.under(DEEP, (0, 1), continuation=20).token_ids) == 22


def test_a_prompt_that_nothing_follows_gets_a_continuation_all_the_same() -> None:
    for continuation in ((), 0):
        subject = Subject.under(TINY, (0,), ("stale-cache",), continuation=continuation)
        assert len(subject.token_ids) == 3
        assert subject.decoded == 2
        results = run(subject)
        assert not results["cache-constant"].holds
        assert results["positions"].detail.endswith(
            "nothing followed the prompt, so 2 tokens of the sound model's choice did"
        )


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(EmptyPrompt):
        Subject.under(TINY, ())
    with pytest.raises(ContextOverflow, match=r"5 tokens .* 4 positions"):
        Subject.under(TINY, (0, 1, 2, 3, 0))
    with pytest.raises(ContextOverflow, match=r"3 tokens .* 2 positions"):
        Subject.under(TINY, (0, 1, 2), context=2)


# ---------------------------------------------------------------- where faults are found


def test_a_leak_is_found_where_the_weight_is() -> None:
    result = run(Subject.under(TINY, (0, 1), ("no-mask",)))["causal-weights"]
    where = result.where
    assert where is not None
    assert where.query is not None
    assert where.key is not None
    broken = apply_faults(TINY, ["no-mask"])
    assert isinstance(broken, TinyEngine)
    traces = tiny.full_forward((0, 1, 2, 3), wiring=broken.wiring)
    leaks = [
        (trace["attention_weights"][key], query, key)
        for query, trace in enumerate(traces)
        for key in range(query + 1, 4)
    ]
    assert (result.worst, where.query, where.key) == max(leaks)
    assert f"query {where.query} attends to the later key {where.key}" in result.detail


def test_the_first_difference_is_named_by_layer_and_operation() -> None:
    found = {
        name: run(Subject.under(DEEP, (1, 2, 3), (name,)))["cache-equals-full"]
        for name in ("no-scale", "positions-restart", "stale-cache", "nan-weight")
    }
    places = {name: result.where for name, result in found.items()}
    assert places == {
        "no-scale": Where(layer=0, query=0, step=0, operation="blocks.0.attn.scores"),
        "positions-restart": Where(query=3, step=1, operation="pos_embed"),
        "stale-cache": Where(layer=0, query=3, step=1, operation="blocks.0.attn.scores"),
        "nan-weight": Where(layer=1, query=0, step=0, operation="blocks.1.mlp.pre"),
    }
    assert math.isnan(found["nan-weight"].worst)


def test_the_position_that_was_given_is_named() -> None:
    result = run(Subject.under(DEEP, (1, 2, 3), ("positions-restart",)))["positions"]
    assert "step 1 gave its token position 0, with 3 positions in the cache" in result.detail


def test_the_row_that_changed_is_named() -> None:
    result = run(Subject.under(TINY, (0, 1), ("stale-cache",)))["cache-constant"]
    assert result.where == Where(layer=0, key=1, step=1)
    before = tiny.prefill((0, 1))[1]
    after = [trace["key"] + trace["value"] for trace in tiny.full_forward((0, 1, 2))]
    moves = zip(before.keys[1] + before.values[1], after[2], strict=True)
    first = max(abs(a - b) for a, b in moves)
    assert f"position 1 in layer 0 by up to {first:.3g}" in result.detail


def test_the_first_value_that_is_not_finite_is_named() -> None:
    result = run(Subject.under(DEEP, (1, 2, 3), ("nan-weight",)))["finite"]
    assert result.where == Where(layer=1, query=0, step=0, operation="blocks.1.mlp.pre")
    assert "the first is NaN at position 0 of blocks.1.mlp.pre (prefill, step 0)" in result.detail


def test_logits_that_cannot_be_sampled_from_are_refused_and_counted() -> None:
    result = run(Subject.under(TINY, (0, 1), ("nan-weight",)))["sampling"]
    assert result.holds
    assert "refused, as they must be, 3 times" in result.detail


def test_a_draw_that_is_off_by_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("model.checks.sampling")
    monkeypatch.setattr(module, "draw", lambda source, uniform: int(source.kept[-1]))
    result = run(Subject.under(TINY, (0, 1)))["sampling"]
    assert not result.holds
    assert "step 0 of the run: the sampler drew id 0 and not 2 at 0.241" in result.detail


def test_probabilities_that_are_slightly_off_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("model.checks.sampling")
    exact = module.softmax

    def rounded(*arguments: object) -> dict[int, float]:
        return {i: round(p, 7) for i, p in exact(*arguments).items()}

    monkeypatch.setattr(module, "softmax", rounded)
    result = run(Subject.under(TINY, (0, 1)))["sampling"]
    assert not result.holds
    assert 1e-9 < result.worst < 1e-6
    assert "final probabilities differ by" in result.detail


class Doubling(TinyEngine):
    """Counts every decoded token twice."""

    def forward(self, token_ids: TokenIds, cache: Cache, *, all_logits: bool = False) -> Array:
        logits = super().forward(token_ids, cache, all_logits=all_logits)
        if token_ids.shape[1] == 1:
            assert isinstance(cache, TinyCache)
            cache.table.append([0.0, 0.0], [0.0, 0.0])
        return logits


def test_a_length_that_moves_by_two_is_found() -> None:
    subject = Subject(Doubling(), TINY, (0, 1), (2,))
    (result,) = run_checks(subject, ["cache-constant"])
    assert not result.holds
    assert result.detail == "step 1 moved the length of the cache from 2 to 4"


# ---------------------------------------------------------------- comparisons


def test_nan_never_passes_and_is_never_forgotten() -> None:
    assert not within(math.nan, 1.0)
    assert worse(math.nan, 1e9)
    assert not worse(1e9, math.nan)
    one = np.ones((1, 2, 3))
    dirty = one.copy()
    dirty[0, 1, 1] = np.nan
    assert math.isnan(relative_difference(dirty, one[0]))
    assert math.isnan(relative_difference(one, dirty[0]))
    assert math.isnan(relative_difference(dirty, dirty[0]))


def test_masked_scores_are_equal_to_masked_scores_only() -> None:
    masked = np.array([[[1.0, -np.inf], [2.0, 3.0]]])
    seen = np.array([[[1.0, 4.0], [2.0, 3.0]]])
    assert relative_difference(masked, masked[0]) == 0.0
    assert relative_difference(seen, masked[0]) == math.inf


def test_differences_are_relative_to_the_largest_value_of_all_rows() -> None:
    reference = np.zeros((1, 200, 2))
    reference[0, 199, 0] = 10.0
    other = reference.copy()
    other[0, 3, 1] = 1.0
    assert relative_difference(other, reference[0]) == pytest.approx(0.1)


SHARES = (0.5, 0.2, 0.15, 0.1, 0.05)
HALF = SamplingConfig(temperature=0.5, top_p=0.8)


@pytest.mark.parametrize(
    ("logits", "config", "kept"),
    [
        ((3, 2, 1), HALF, [0]),
        ((3, 2, 1), replace(HALF, order="llama.cpp"), [0, 1]),
        ((1, 2, 2, 2, 3), SamplingConfig(top_k=3), [4, 1, 2]),
        ((1, 2, 2, 2, 3), SamplingConfig(top_k=3, order="hugging-face"), [4, 1, 2, 3]),
        ([math.log(p) for p in SHARES], SamplingConfig(top_k=3, top_p=0.8), [0, 1, 2]),
        (
            [math.log(p) for p in SHARES],
            SamplingConfig(top_k=3, top_p=0.8, order="hugging-face"),
            [0, 1],
        ),
        ((1.0, -math.inf, 2.0), SamplingConfig(), [2, 0]),
        ((0.1, 0.4, 0.3, 0.2), SamplingConfig(top_k=50), [1, 2, 3, 0]),
        ((5.0, 5.0, 1.0), SamplingConfig(temperature=1e-40), [0, 1]),
        ((5.0, 5.0, 1.0), SamplingConfig(temperature=0.0), [0]),
    ],
)
def test_the_plain_recomputation_follows_the_rules(
    logits: list[float], config: SamplingConfig, kept: list[int]
) -> None:
    final = recompute(logits, config)
    assert list(final) == kept
    assert sum(final.values()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("logits", [(1.0, math.nan), (math.inf, 1.0), (-math.inf, -math.inf)])
def test_the_plain_recomputation_refuses_what_is_not_finite(logits: tuple[float, ...]) -> None:
    with pytest.raises(NonFiniteLogits):
        recompute(logits, SamplingConfig())


# ---------------------------------------------------------------- the registry


def test_one_function_is_a_new_check() -> None:
    from model.checks import core

    called: list[str] = []
    try:

        @check("window-shows-the-trace", "a panel shows what the trace holds")
        def shown(subject: Subject) -> CheckResult:
            called.append("shown")
            return CheckResult("window-shows-the-trace", False, 1.0, 0.0, "row 3 is off", None)

        subject = Subject.under(TINY, (0, 1), ("no-scale",))
        results = run_checks(subject, ["window-shows-the-trace", "finite"])
        assert called == []  # nothing runs before it is asked for
        first = next(results)
        assert first.detail == "row 3 is off; deliberate fault on: no-scale"
        assert called == ["shown"]
        results.close()  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="registered already"):
            check("finite", "again")(shown)
    finally:
        core._CHECKS.pop("window-shows-the-trace", None)


def test_an_unknown_check_is_refused_before_anything_runs() -> None:
    with pytest.raises(DecoderError, match=r"'finit'.*causal-weights, .*finite"):
        run_checks(Subject.under(TINY, (0, 1)), ["finite", "finit"])


# ---------------------------------------------------------------- recorded traces


def record(engine: Engine, prompt: tuple[int, ...], decoded: tuple[int, ...]) -> Trace:
    trace = Trace(engine.operations, engine.shape)
    cache = engine.new_cache()
    for index, tokens in enumerate((prompt, *((token,) for token in decoded))):
        record_step(trace, engine, cache_length=cache.length, index=index, tokens=tokens)
        for done in engine.walk(as_batch(tokens), cache):
            trace.add(Event(index, done.operation, done.arrays))
        trace.add(Event(index, len(engine.operations) - 1, {}))
    return trace


def record_step(
    trace: Trace, engine: Engine, *, cache_length: int, index: int, tokens: tuple[int, ...]
) -> None:
    phase = Phase.PREFILL if index == 0 else Phase.DECODE
    trace.begin(Step(index, phase, cache_length, tokens, Checkpoint(cache_length, {}), 0.5))


def by_name(results: tuple[CheckResult, ...]) -> dict[str, CheckResult]:
    return {result.name: result for result in results}


def test_a_sound_trace_holds() -> None:
    results = by_name(check_trace(record(DEEP, (1, 2, 3), (4, 5))))
    assert set(results) == {"causal-weights", "rows-sum-to-one", "finite"}
    assert all(result.holds for result in results.values())
    assert "3 layers × 4 heads, 5 queries (prefill and decode)" in results["causal-weights"].detail


def test_a_recorded_leak_is_found_like_a_live_one() -> None:
    broken = apply_faults(TINY, ["no-mask"])
    recorded = by_name(check_trace(record(broken, (0, 1, 2, 3), ()), ("no-mask",)))
    live = run(Subject.under(TINY, (0, 1, 2, 3), ("no-mask",)))
    assert recorded["causal-weights"].worst == live["causal-weights"].worst
    assert recorded["causal-weights"].where == live["causal-weights"].where
    assert recorded["causal-weights"].detail.endswith("fault on: no-mask")
    assert recorded["rows-sum-to-one"].holds


def test_recorded_nan_fails_and_its_first_place_stays() -> None:
    poisoned = apply_faults(DEEP, ["nan-weight"])
    recorded = by_name(check_trace(record(poisoned, (1, 2, 3), (4, 5))))
    assert not any(result.holds for result in recorded.values())
    assert recorded["finite"].where == Where(layer=1, query=0, step=0, operation="blocks.1.mlp.pre")


def test_an_empty_trace_says_that_nothing_was_examined() -> None:
    for result in check_trace(Trace(TINY.operations, TINY.shape)):
        assert result.holds
        assert "be examined" in result.detail


def test_arrays_that_were_not_kept_are_not_examined() -> None:
    trace = Trace(TINY.operations, TINY.shape)
    record_step(trace, TINY, cache_length=0, index=0, tokens=(0, 1))
    for done in TINY.walk(as_batch((0, 1)), TINY.new_cache(), keep=False):
        trace.add(Event(0, done.operation, done.arrays, evicted=not done.arrays))
    results = by_name(check_trace(trace))
    assert "none could be examined" in results["causal-weights"].detail
    assert "of 2 arrays" in results["finite"].detail


def test_a_watch_looks_at_each_array_once_and_agrees_with_a_fresh_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from model.checks.finite import Finite

    looked: list[str] = []
    see = Finite.see

    def counted(self: Finite, observation: object) -> None:
        looked.append(observation.name)  # type: ignore[attr-defined]
        see(self, observation)  # type: ignore[arg-type]

    monkeypatch.setattr(Finite, "see", counted)
    complete = record(DEEP, (1, 2, 3), (4, 5, 6))
    growing = Trace(DEEP.operations, DEEP.shape)
    watch = TraceWatch()
    for index, step in enumerate(complete.steps):
        growing.begin(step)
        for operation in range(complete.events_in(index)):
            names = DEEP.operations[operation].outputs
            arrays = {name: complete.array(index, name) for name in names}
            growing.add(Event(index, operation, {k: v for k, v in arrays.items() if v is not None}))
            if operation % 7 == 0:
                watch.examine(growing)
    results = watch.examine(growing)
    held = [name for _, name, _ in complete.held()]
    assert len(looked) == len(held)
    assert results == check_trace(complete)


def test_a_watch_forgets_steps_that_were_cut() -> None:
    broken = apply_faults(TINY, ["no-mask"])
    trace = record(broken, (0, 1, 2), ())
    watch = TraceWatch()
    assert not by_name(watch.examine(trace))["causal-weights"].holds
    trace.truncate(0)
    record_step(trace, TINY, cache_length=0, index=0, tokens=(0, 1))
    for done in TINY.walk(as_batch((0, 1)), TINY.new_cache()):
        trace.add(Event(0, done.operation, done.arrays))
    results = by_name(watch.examine(trace))
    assert results["causal-weights"].holds
    assert "2 queries" in results["causal-weights"].detail


def test_infinity_is_expected_above_the_diagonal_of_scores_and_nowhere_else() -> None:
    trace = record(TINY, (0, 1, 2), ())
    index = trace.operation_index("blocks.0.attn.scores")
    for row, column, value, holds in (
        (0, 1, -np.inf, True),
        (1, 0, -np.inf, False),
        (0, 1, np.inf, False),
        (0, 1, np.nan, False),
    ):
        scores: Array = np.array(trace.array(0, "blocks.0.attn.scores"))
        scores[0, 0, row, column] = value
        changed = Trace(TINY.operations, TINY.shape)
        changed.begin(trace.steps[0])
        for operation in range(index):
            changed.add(Event(0, operation, {}))
        changed.add(Event(0, index, {"blocks.0.attn.scores": scores}))
        assert by_name(check_trace(changed))["finite"].holds is holds, value


# ---------------------------------------------------------------- any decoder


@st.composite
def decoders(draw: st.DrawFn) -> tuple[Engine, tuple[int, ...]]:
    heads = draw(st.sampled_from([1, 2, 4]))
    shape = ModelShape(
        depth=draw(st.integers(1, 3)),
        model_dim=heads * draw(st.sampled_from([2, 4, 6])) * (1 if heads > 2 else 4),
        num_heads=heads,
        context_length=draw(st.integers(2, 12)),
        vocabulary=draw(st.integers(4, 20)),
    )
    engine = random_decoder(shape, seed=draw(st.integers(0, 999)), spread=0.2)
    length = draw(st.integers(1, shape.context_length))
    tokens = st.integers(0, shape.vocabulary - 1)
    return engine, tuple(draw(st.lists(tokens, min_size=length, max_size=length)))


@settings(max_examples=40, deadline=None)
@given(decoders(), st.sampled_from(fault_names()))
def test_any_decoder_is_sound_until_a_fault_is_switched_on(
    found: tuple[Engine, tuple[int, ...]], name: str
) -> None:
    engine, prompt = found
    for result in run_checks(Subject.under(engine, prompt, continuation=3)):
        assert result.holds, result
    subject = Subject.under(engine, prompt, (name,), continuation=3)
    for result in run_checks(subject, find_fault(name).caught_by):
        assert not result.holds, result
        assert result.detail.endswith(name)
