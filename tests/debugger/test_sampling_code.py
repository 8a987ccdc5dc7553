"""Sampling settings as code, and settings from JSON."""

from __future__ import annotations

import itertools
import json
import math
import shlex
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from decoder_gui.arguments import parse
from decoder_gui.debugger.laboratory.sampling_code import (
    GENERATE,
    GENERATORS,
    LLAMA_CPP,
    VLLM,
    chain,
    differences,
    llama_cpp_code,
    own_code,
    transformers_code,
    vllm_code,
)
from decoder_gui.debugger.laboratory.sampling_paste import OWN, as_json, read_settings
from model.errors import InvalidSampling
from model.sampling import STAGES, SamplingConfig, distribution, order_names, own_order

FULL = SamplingConfig(0.7, 0.9, 40, 41, "reference", 0.05, 1.1)
LATE = "top_k,top_p,min_p,repetition_penalty,temperature"


def test_generate_takes_arguments_where_its_order_is_meant() -> None:
    code = transformers_code(replace(FULL, order="hugging-face", seed=None))
    assert code.text == (
        "model.generate(**inputs, do_sample=True, temperature=0.7, top_k=40, top_p=0.9, "
        "min_p=0.05, repetition_penalty=1.1)\n"
    )
    assert code.remarks == ()


def test_generate_takes_a_list_of_processors_in_any_other_order() -> None:
    code = transformers_code(replace(FULL, order="llama.cpp"))
    inside = code.text.split("LogitsProcessorList([")[1].split("])")[0].split()
    assert [line.split("(")[0] for line in inside] == [
        "RepetitionPenaltyLogitsProcessor",
        "TopKLogitsWarper",
        "TopPLogitsWarper",
        "MinPLogitsWarper",
        "TemperatureLogitsWarper",
    ]
    assert "temperature=1.0, top_k=0, top_p=1.0" in code.text
    assert "# Of tokens that tie with the k-th, all of them stay; here the lower ids stay." in (
        code.text
    )
    assert "torch.manual_seed(41)" in code.text
    compile(code.text, "pasted", "exec")


def test_the_code_for_transformers_runs_as_python() -> None:
    for order in (*order_names(), LATE):
        for seed, temperature in itertools.product((None, 3), (0.0, 0.5)):
            config = replace(FULL, order=order, seed=seed, temperature=temperature)
            compile(transformers_code(config).text, "pasted", "exec")
            compile(vllm_code(config).text, "pasted", "exec")


def test_llama_cpp_gets_its_chain_spelled_out() -> None:
    words = shlex.split(llama_cpp_code(replace(FULL, order="llama.cpp")).text, comments=True)
    assert words[words.index("--samplers") + 1] == "penalties;top_k;top_p;min_p;temperature"
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert given == {
        "--samplers": "penalties;top_k;top_p;min_p;temperature",
        "--temp": "0.7",
        "--top-k": "40",
        "--top-p": "0.9",
        "--min-p": "0.05",
        "--repeat-penalty": "1.1",
        "--repeat-last-n": "-1",
        "--seed": "41",
    }


def test_a_chain_says_the_reference_with_top_p_before_top_k() -> None:
    words = shlex.split(llama_cpp_code(FULL).text, comments=True)
    assert words[words.index("--samplers") + 1] == "penalties;temperature;top_p;min_p;top_k"


@pytest.mark.parametrize("order", [*order_names(), LATE])
def test_the_chain_keeps_the_same_tokens(order: str) -> None:
    """Renormalising after every stage, as the other programs do, in the order that is written."""
    rng = np.random.default_rng(5)
    for _ in range(150):
        row = rng.normal(0, 2.5, 30)
        config = SamplingConfig(
            temperature=float(rng.choice([0.6, 1.0, 1.7])),
            top_p=float(rng.choice([0.31, 0.77, 1.0])),
            top_k=int(rng.choice([0, 3, 9])),
            min_p=float(rng.choice([0.0, 0.043, 0.3])),
            repetition_penalty=float(rng.choice([1.0, 1.4])),
            order=order,
        )
        names = chain(config)
        whole = own_order((*names, *(name for name in STAGES if name not in names)))
        written = distribution(row, replace(config, order=whole), [1, 2, 3])
        meant = distribution(row, config, [1, 2, 3])
        assert written.kept.tolist() == meant.kept.tolist()
        assert written.final == pytest.approx(meant.final)


@pytest.mark.parametrize("theirs", [GENERATE, VLLM])
def test_no_difference_is_only_said_where_there_is_none(theirs: tuple[str, ...]) -> None:
    rng = np.random.default_rng(6)
    silent = 0
    for names in itertools.permutations(STAGES):
        for case in range(4):
            config = SamplingConfig(
                temperature=(1.0, 0.5, 1.8, 0.7)[case],
                top_p=(0.6, 0.8, 1.0, 0.9)[case],
                top_k=(4, 0, 5, 12)[case],
                min_p=(0.1, 0.05, 0.2, 0.0)[case],
                repetition_penalty=(1.5, 1.0, 1.3, 1.0)[case],
                order=own_order(names),
            )
            if differences(config, theirs):
                continue
            silent += 1
            for _ in range(5):
                row = rng.normal(0, 2, 25)
                ours = distribution(row, config, [0, 1, 2])
                other = distribution(row, replace(config, order=own_order(theirs)), [0, 1, 2])
                assert ours.kept.tolist() == other.kept.tolist()
    assert 10 < silent < 400


def test_vllm_says_what_its_fixed_chain_does_otherwise() -> None:
    code = vllm_code(replace(FULL, order="llama.cpp"))
    assert "temperature=0.7, top_k=40, top_p=0.9, min_p=0.05, repetition_penalty=1.1, seed=41" in (
        code.text
    )
    assert any("temperature before top-p and min-p" in remark for remark in code.remarks)
    assert any("what top-k and min-p left" in remark for remark in code.remarks)
    assert all(f"# {remark}" in code.text for remark in code.remarks)
    same = vllm_code(SamplingConfig(0.7, 0.9, order="hugging-face"))
    assert same.remarks == ()


def test_greedy_is_greedy_everywhere() -> None:
    greedy = SamplingConfig(0.0, 0.5, 3, repetition_penalty=1.2)
    assert "do_sample=False, repetition_penalty=1.2" in transformers_code(greedy).text
    assert "--samplers 'penalties;temperature' --temp 0.0" in llama_cpp_code(greedy).text
    assert "SamplingParams(temperature=0.0, repetition_penalty=1.2)" in vllm_code(greedy).text


@pytest.mark.parametrize("order", [*order_names(), LATE])
def test_our_own_command_line_gives_the_settings_back(order: str) -> None:
    config = replace(FULL, order=order, seed=7)
    words = shlex.split(own_code(config, "tiny").text)
    assert words[0] == "decoder-gui"
    run = parse(words[1:]).run
    assert run is not None
    assert run.model == "tiny"
    assert run.sampling() == config


def test_every_program_names_every_stage_that_is_on() -> None:
    for make in GENERATORS.values():
        assert make(FULL).name
        assert "1.1" in make(FULL).text
    assert set(LLAMA_CPP) == set(STAGES)


# --- JSON ---------------------------------------------------------------------------------------


def test_settings_come_back_from_their_own_json() -> None:
    for config in (FULL, SamplingConfig(), replace(FULL, order=LATE, seed=None)):
        pasted = read_settings(as_json(config))
        assert pasted.config == config
        assert pasted.remarks == ()
    assert set(json.loads(as_json(FULL))) == set(OWN)


def test_a_generation_config_of_transformers_is_understood() -> None:
    text = json.dumps(
        {
            "bos_token_id": 1,
            "do_sample": True,
            "eos_token_id": [2, 3],
            "temperature": 0.6,
            "top_p": 0.95,
            "top_k": 20,
            "repetition_penalty": 1.05,
            "typical_p": 1.0,
            "num_beams": 1,
            "transformers_version": "4.51.0",
        }
    )
    pasted = read_settings(text)
    assert pasted.config == SamplingConfig(
        0.6, 0.95, 20, order="hugging-face", repetition_penalty=1.05
    )
    assert pasted.remarks == (
        "Left aside: bos_token_id, eos_token_id, transformers_version.",
        "The order is that of transformers, hugging-face.",
    )


def test_defaults_of_generate_are_taken_and_said() -> None:
    pasted = read_settings('{"do_sample": true, "temperature": 0.5}')
    assert pasted.config.top_k == 50
    assert any("top_k is not named: 50" in remark for remark in pasted.remarks)
    greedy = read_settings('{"transformers_version": "5", "temperature": 0.5}')
    assert greedy.config.deterministic
    assert any("not named, and false by default" in remark for remark in greedy.remarks)


def test_names_of_llama_cpp_are_understood() -> None:
    assert read_settings('{"temp": 0.5, "repeat_penalty": 1.1}').config == SamplingConfig(
        0.5, repetition_penalty=1.1
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"temperatur": 1}', "'temperatur' is no setting: there are temperature, top_p"),
        ('{"typical_p": 0.9}', "typical_p 0.9 cannot be had here"),
        ('{"num_beams": 4}', "num_beams 4 cannot be had here"),
        ('{"temp": 1, "temperature": 1}', "temperature is named twice, once as temperature"),
        ('{"top_p": 0.5, "top_p": 0.6}', "'top_p' is named twice"),
        ('{"top_p": 2}', "top_p must be in (0, 1], not 2.0"),
        ('{"top_p": NaN}', "top_p must be in (0, 1], not nan"),
        ('{"top_k": "forty"}', "top_k must be a whole number >= 0, not 'forty'"),
        ('{"do_sample": 1}', "do_sample must be true or false, not 1"),
        ('{"order": "top_k,top_p"}', "does not name repetition_penalty"),
        ("[1]", "no object with settings"),
        ("temperature=1", "the text is not JSON (line 1)"),
        ("", "the text is not JSON"),
        ("[" * 5000, "the text is not JSON"),
        (" " * 200_000, "200,000 characters"),
    ],
)
def test_what_is_no_settings_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(InvalidSampling) as refusal:
        read_settings(text)
    assert said in str(refusal.value)


def test_the_code_for_transformers_does_what_it_says() -> None:
    """Its processors, run by transformers themselves, give our probabilities."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    rng = np.random.default_rng(8)
    for order in (*order_names(), LATE, "top_p,temperature,min_p,top_k,repetition_penalty"):
        config = SamplingConfig(0.7, 0.81, 9, None, order, 0.031, 1.3)
        row, history = rng.normal(0, 2, 40), [3, 5, 8]
        caught: dict[str, Any] = {}
        model = SimpleNamespace(generate=caught.update)
        exec(transformers_code(config).text, {"model": model, "inputs": {}})
        scores = torch.tensor([row.tolist()], dtype=torch.float64)
        ids = torch.tensor([history])
        if "logits_processor" in caught:
            final = caught["logits_processor"](ids, scores).softmax(-1)[0].numpy()
            ours = distribution(row, config, history)
            assert final == pytest.approx(ours.final, abs=1e-9)
        else:
            assert (caught["temperature"], caught["top_k"], caught["top_p"]) == (0.7, 9, 0.81)
            assert (caught["min_p"], caught["repetition_penalty"]) == (0.031, 1.3)
    assert math.isfinite(float(scores.sum()))
