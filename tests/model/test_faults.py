"""Each deliberate fault in each engine: which checks fail, and what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.checkpoints.loading import open_checkpoint
from model.checks import CheckResult, Subject, all_checks, run_checks
from model.engine import Engine
from model.errors import FaultNotPossible
from model.faults import (
    all_faults,
    apply_faults,
    fault_names,
    find_fault,
    sampling_under,
)
from model.random_model import random_decoder
from model.sampling import SamplingConfig
from model.shape import ModelShape
from model.tiny_engine import TinyEngine
from model.wiring import SOUND, Wiring

TINY = TinyEngine()
DEEP = random_decoder(ModelShape(4, 32, 4, 40, 60), seed=3, spread=0.3)
SHALLOW = random_decoder(ModelShape(1, 8, 2, 16, 11), seed=5, spread=0.3)
STORIES = open_checkpoint(Path(__file__).resolve().parents[2] / "assets" / "stories")
PROMPTS: dict[str, tuple[Engine, tuple[int, ...]]] = {
    "tiny": (TINY, (0, 1)),
    "deep": (DEEP, (5, 17, 3, 58, 4, 4, 7)),
    "shallow": (SHALLOW, (1, 10, 4)),
    "stories": (STORIES.engine, tuple(STORIES.tokenizer.encode("Once upon a time there was"))),
}

MASK = {"causal-weights", "causal-behaviour", "cache-equals-full"}
FAILS: dict[str, set[str]] = {
    "no-mask": MASK,
    "mask-off-by-one": MASK,
    "positions-restart": {"positions", "cache-equals-full"},
    "stale-cache": {"cache-constant", "cache-equals-full"},
    "no-scale": {"cache-equals-full"},
    "truncate-before-temperature": {"sampling"},
    "nan-weight": {"finite", "causal-behaviour", "cache-equals-full"},
}
NAN_SPREADS: dict[str, set[str]] = {
    "tiny": {"rows-sum-to-one"},  # a query weight: later keys are left out, not weighed
    "deep": {"rows-sum-to-one", "causal-weights"},  # blocks 2 and 3 attend with NaN, masked or not
    "stories": {"rows-sum-to-one", "causal-weights"},
    "shallow": set(),  # in the MLP of the only block: attention has come before
}


def run(subject: Subject) -> dict[str, CheckResult]:
    return {result.name: result for result in run_checks(subject)}


def failing(results: dict[str, CheckResult]) -> set[str]:
    return {name for name, result in results.items() if not result.holds}


def test_every_fault_has_an_expectation_here() -> None:
    assert set(fault_names()) == set(FAILS)
    assert {fault.name for fault in all_faults()} == set(FAILS)


@pytest.mark.parametrize("engine_name", PROMPTS)
@pytest.mark.parametrize("name", FAILS)
def test_exactly_these_checks_fail_and_name_the_fault(engine_name: str, name: str) -> None:
    engine, prompt = PROMPTS[engine_name]
    results = run(Subject.under(engine, prompt, (name,)))
    expected = FAILS[name] | (NAN_SPREADS[engine_name] if name == "nan-weight" else set())
    assert failing(results) == expected
    assert set(find_fault(name).caught_by) <= expected
    for check_name in expected:
        result = results[check_name]
        assert result.detail.endswith(f"deliberate fault on: {name}")
        assert not result.worst <= result.tolerance
        assert result.where is not None
    for check_name in set(results) - expected:
        assert "deliberate" not in results[check_name].detail


def test_each_check_fails_under_some_fault() -> None:
    caught = set().union(*FAILS.values(), *NAN_SPREADS.values())
    # Checks that other packages register look at something else than the engine.
    own = [check for check in all_checks() if check.run.__module__.startswith("model.")]
    assert caught == {check.name for check in own}


def test_every_fault_has_its_words() -> None:
    for fault in all_faults():
        assert fault.title
        assert fault.explanation.endswith(".")
        assert set(fault.caught_by) <= {check.name for check in all_checks()}
        assert fault.in_sampler == (fault.name == "truncate-before-temperature")


def test_a_fault_leaves_the_engine_in_hand_alone() -> None:
    for engine, prompt in PROMPTS.values():
        for name in fault_names():
            apply_faults(engine, [name])
        assert engine.wiring == SOUND
        assert failing(run(Subject.under(engine, prompt))) == set()
        assert apply_faults(engine, []) is engine


def test_faults_add_up() -> None:
    both = apply_faults(TINY, ["mask-off-by-one", "no-scale", "stale-cache"])
    assert both.wiring == Wiring(lookahead=1, scaled=False, stale_cache=True)
    wide = apply_faults(TINY, ["no-mask", "mask-off-by-one", "positions-restart"])
    assert wide.wiring == Wiring(lookahead=None, restart_positions=True)
    results = run(Subject.under(DEEP, PROMPTS["deep"][1], ("no-scale", "stale-cache")))
    assert results["cache-constant"].detail.endswith("fault on: stale-cache")
    assert results["cache-equals-full"].detail.endswith("fault on: stale-cache, no-scale")
    unordered = Subject.under(DEEP, (1, 2), frozenset({"no-scale", "no-mask", "nan-weight"}))
    assert unordered.faults == ("no-mask", "no-scale", "nan-weight")


def test_an_unknown_fault_is_refused_and_the_known_ones_listed() -> None:
    for refused in (
        lambda: apply_faults(TINY, ["no-masks"]),
        lambda: sampling_under(SamplingConfig(), ["no-masks"]),
        lambda: Subject.under(TINY, (0, 1), ("no-masks",)),
    ):
        with pytest.raises(FaultNotPossible, match=r"'no-masks'.*no-mask, mask-off-by-one"):
            refused()


@pytest.mark.parametrize("name", ["no-mask", "mask-off-by-one", "positions-restart", "stale-cache"])
def test_a_fault_that_could_not_show_is_refused(name: str) -> None:
    alone = random_decoder(ModelShape(1, 4, 1, 1, 5))
    with pytest.raises(FaultNotPossible, match=f"{name} needs 2 positions .* has 1"):
        apply_faults(alone, [name])
    with pytest.raises(FaultNotPossible, match=f"{name} needs 2 positions"):
        Subject.under(TINY, (0,), (name,), context=1)


def test_no_scale_is_refused_where_the_scale_is_one() -> None:
    with pytest.raises(FaultNotPossible, match="the scale is 1"):
        apply_faults(random_decoder(ModelShape(1, 4, 4, 8, 5)), ["no-scale"])


def test_the_sampler_says_one_order_and_follows_another() -> None:
    stated = SamplingConfig(temperature=0.5, top_p=0.8)
    followed = sampling_under(stated, ["no-mask", "truncate-before-temperature"])
    assert followed != stated
    assert stated.order == "reference"
    assert sampling_under(stated, ["no-mask"]) == stated
    with pytest.raises(FaultNotPossible, match=r"llama\.cpp"):
        Subject.under(
            TINY,
            (0, 1),
            ("truncate-before-temperature",),
            sampling=SamplingConfig(order="llama.cpp"),
        )


@pytest.mark.parametrize("order", ["reference", "hugging-face"])
@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0, 2.0])
def test_truncating_first_is_caught_whatever_the_settings(order: str, temperature: float) -> None:
    subject = Subject.under(
        TINY,
        (0, 1),
        ("truncate-before-temperature",),
        sampling=SamplingConfig(temperature=temperature, order=order),
    )
    assert failing(run(subject)) == {"sampling"}


@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("name", FAILS)
def test_every_fault_is_caught_in_tiny_at_every_length_of_prompt(name: str, length: int) -> None:
    results = run(Subject.under(TINY, (3, 0, 1, 2)[:length], (name,)))
    assert set(find_fault(name).caught_by) <= failing(results)
