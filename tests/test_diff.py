"""``decoder-gui diff``: two models or recordings, exit status 1 and a name where they differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoder_gui.arguments import STORY_PROMPT
from decoder_gui.cli import main
from decoder_gui.debugger.choosing import generate
from decoder_gui.debugger.library import open_model
from decoder_gui.debugger.session import Session
from model.captured_run import CapturedStep, write_capture
from model.engine import Array
from model.faults import fault_names, sampling_under
from model.sampling import SamplingConfig, distribution, draw
from model.tokenizers import encode_prompt

SETTINGS = SamplingConfig(temperature=0.7, top_p=0.9)

Arrays = dict[str, Array]


def captured_steps(faults: Iterable[str] = (), tokens: int = 6) -> list[CapturedStep]:
    """A run of the bundled model as someone else would record it: no logits of the prompt."""
    loaded = open_model("stories")
    session = Session(loaded, faults=frozenset(faults))
    arrays: list[Arrays] = []
    ids = encode_prompt(loaded.tokenizer, STORY_PROMPT)
    for update in generate(session, ids, SETTINGS, tokens):
        match update:
            case _ if hasattr(update, "arrays") and hasattr(update, "operation"):
                arrays[-1].update(update.arrays)
            case _ if hasattr(update, "step") and hasattr(update.step, "token_ids"):
                arrays.append({})
    return [
        CapturedStep(step.phase, step.first, step.token_ids, named, step.uniform)
        for step, named in zip(session.steps, arrays, strict=True)
    ]


def save(path: Path, steps: Iterable[CapturedStep]) -> str:
    write_capture(path, steps, model="mine", sampling={"temperature": 0.7, "top_p": 0.9})
    return str(path)


def diff(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, Any]:
    status = main(["diff", *argv, "--json", "-"])
    return status, json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["diff", *argv]) == 2
    out = capsys.readouterr()
    assert not out.out
    (line,) = out.err.splitlines()
    return line


@pytest.mark.parametrize(
    "argv",
    [
        ("stories", "stories"),
        ("stories", "stories", "--full", "--tokens", "20"),
        ("tiny", "tiny", "--full", "--prompt", "The"),
    ],
)
def test_equal_runs_give_0(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]) -> None:
    status, found = diff(capsys, *argv)
    assert status == 0
    assert found["equal"]
    assert found["operation"] is None
    assert "agree within" in found["sentence"]
    assert all(not entry["past"] for entry in found["operations"])


@pytest.mark.parametrize("fault", fault_names())
def test_every_fault_gives_1_and_a_sentence(capsys: pytest.CaptureFixture[str], fault: str) -> None:
    argv = ["stories", "stories", "--fault", fault, "--temperature", "0.7", "--top-p", "0.9"]
    status, found = diff(capsys, *argv)
    assert status == 1
    assert found["right"] == f"stories with {fault}"
    assert main(["diff", *argv]) == 1
    text = capsys.readouterr().out
    assert text.splitlines()[0] == found["sentence"]
    assert "≠" in text
    for entry in found["operations"]:
        short = entry["name"].split(".", 2)[-1]
        assert any(line.split()[:1] == [short] for line in text.splitlines())


def test_a_capture_agrees_with_the_model_that_it_is_of(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = save(tmp_path / "run.safetensors", captured_steps())
    for argv in ((path, "stories"), ("stories", path), (path, "stories", "--full"), (path, path)):
        status, found = diff(capsys, *argv)
        assert status == 0, found["sentence"]
        assert {entry["name"] for entry in found["operations"]} > {"embed", "logits", "sample"}
        assert found["positions"] == 17
    assert diff(capsys, path, "stories", "--fault", "no-scale")[1]["operation"] == (
        "blocks.0.attn.scores"
    )


def test_a_capture_is_of_tokens_of_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = save(tmp_path / "run.safetensors", captured_steps(tokens=1))
    for argv in (
        ("diff", "stories", path, "--prompt", "Hello"),
        ("diff", path, "stories", "--tokens", "2"),
        ("trace", path, "--tokens", "2"),
        ("check", path, "--tokens", "2"),
    ):
        assert main(list(argv)) == 2
        said = capsys.readouterr().err
        assert f"{path} is a capture, with tokens of its own: leave out {argv[-2]}" in said


def test_a_broken_decoder_is_named_from_its_capture(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sound = save(tmp_path / "sound.safetensors", captured_steps())
    broken = save(tmp_path / "broken.safetensors", captured_steps(["stale-cache"]))
    for argv in ((sound, broken), (broken, "stories")):
        status, found = diff(capsys, *argv)
        assert (status, found["operation"]) == (1, "blocks.0.cache")


def test_a_sampler_that_truncates_first_is_named_from_its_tokens(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    steps = captured_steps()
    wrong = sampling_under(SETTINGS, ["truncate-before-temperature"])
    for index, step in enumerate(steps[:-1]):
        logits = step.arrays["logits"][0, -1]
        assert step.draw is not None
        token = draw(distribution(logits, wrong), step.draw)
        if token != steps[index + 1].token_ids[0]:
            break
    else:
        pytest.fail("these draws do not tell the two orders apart")
    steps = [*steps[: index + 1], replace(steps[index + 1], token_ids=(token,))]
    path = save(tmp_path / "run.safetensors", steps)
    status, found = diff(capsys, "stories", path)
    assert (status, found["operation"]) == (1, "sample")
    assert found["first"]["step"] == index
    sound = save(tmp_path / "sound.safetensors", captured_steps())
    status, found = diff(capsys, sound, path)
    assert (status, found["operation"]) == (1, "sample")
    assert found["tokens_part"]["position"] == steps[-1].first


def test_captures_hold_what_they_hold(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def only(keep: Callable[[str], bool]) -> list[CapturedStep]:
        return [
            replace(step, arrays={name: a for name, a in step.arrays.items() if keep(name)})
            for step in captured_steps()
        ]

    patterns = only(lambda name: name.endswith("attn.pattern") or name == "logits")
    patterns[2] = replace(patterns[2], arrays=dict(patterns[2].arrays))
    changed = np.array(patterns[2].arrays["blocks.2.attn.pattern"])
    changed[0, 1, 0, 3] += 0.01
    patterns[2].arrays["blocks.2.attn.pattern"] = changed  # type: ignore[index]
    path = save(tmp_path / "patterns.safetensors", patterns)
    status, found = diff(capsys, "stories", path)
    assert (status, found["operation"]) == (1, "blocks.2.attn.pattern")
    assert (found["first"]["head"], found["first"]["column"]) == (1, 3)
    assert "blocks.2.attn.scores, is not recorded in both" in found["reason"]
    assert "not recorded in both" in found["sentence"]
    assert "recorded in " in found["remarks"][0]
    assert ": embed" in found["remarks"][0]


def test_bad_input_gives_2_and_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "they have 1 and 4 layers" in refusal(capsys, "tiny", "stories")
    assert "no model called 'nothing'" in refusal(capsys, "stories", "nothing")
    assert "following arguments are required: B" in refusal(capsys, "stories")
    assert "'x' is not a number" in refusal(capsys, "tiny", "tiny", "--tolerance", "x")
    assert "at least 0" in refusal(capsys, "tiny", "tiny", "--tolerance", "-1")
    assert "there is no fault 'none'" in refusal(capsys, "tiny", "tiny", "--fault", "none")
    assert "'purple' is not in the vocabulary" in refusal(
        capsys, "tiny", "tiny", "--prompt", "purple"
    )
    path = save(tmp_path / "run.safetensors", captured_steps(tokens=1))
    assert "cannot be run in one pass" in refusal(capsys, "stories", path, "--full")
    assert "they have" in refusal(capsys, "tiny", path)
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(Path(path).read_bytes()[:-100])
    assert "damaged.safetensors" in refusal(capsys, "stories", str(damaged))


def test_a_model_whose_logits_are_nan_is_compared_up_to_them(
    capsys: pytest.CaptureFixture[str], ruined: Path
) -> None:
    status, found = diff(capsys, "stories", str(ruined))
    assert (status, found["operation"]) == (1, "blocks.1.mlp.pre")
    assert found["first"]["right"] is None
    assert found["first"]["numbers"][1] == "NaN"
    assert diff(capsys, str(ruined), "stories")[1]["operation"] == "blocks.1.mlp.pre"
