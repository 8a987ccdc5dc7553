"""Every seeded bug is named: by ``diff`` against a sound capture, and by the checks that see it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from decoder_gui.cli import main
from decoder_gui.debugger.comparing.comparison import compare
from decoder_gui.debugger.comparing.diff import captured
from decoder_gui.debugger.comparing.findings import Comparison
from decoder_gui.debugger.report import checks_of, play
from decoder_gui.debugger.saving.captured_session import CapturedSession
from decoder_gui.viewdata.display_check import NAME
from model.capture_file import read_capture
from model.captured_run import Capture
from model.checkpoints import open_checkpoint
from model.checks import CheckResult, all_checks
from model.sampling import SamplingConfig
from tests.broken.bugs import Broken, every_bug
from tests.broken.decoder import GptLike, LlamaLike

BUGS = every_bug()
CHUNKS = ((3, 1, 4, 1, 5, 9), (2, 6, 5, 3))
# What the panels show is looked at with the sound ones: it takes most of the time.
CHECKS = ("arithmetic", *(check.name for check in all_checks() if check.name != NAME))
DRAWS = (0.67, 0.35, 0.81, 0.12)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[type[GptLike], Path]:
    """A capture of each sound decoder."""
    folder = tmp_path_factory.mktemp("sound")
    paths = {}
    for kind in (GptLike, LlamaLike):
        paths[kind] = folder / f"{kind.__name__}.safetensors"
        kind().record(paths[kind], CHUNKS, DRAWS)
    return paths


def kin(bug: type[Broken]) -> type[GptLike]:
    return LlamaLike if issubclass(bug, LlamaLike) else GptLike


def record(bug: type[Broken], against: Path, path: Path) -> Path:
    """The broken decoder over the tokens of the sound one, unless the bug is which are chosen."""
    decoder = bug()
    if bug.operation != "sample":
        tokens = iter(read_capture(against).token_ids[sum(map(len, CHUNKS)) :])
        decoder.follow = lambda token: next(tokens, 0)  # type: ignore[method-assign]
    decoder.record(path, CHUNKS, DRAWS)
    return path


def difference(left: Capture, right: Capture) -> Comparison:
    return compare(captured(left, "sound"), captured(right, "broken"))


def verdicts(path: Path, names: Sequence[str] | None = None) -> dict[str, CheckResult]:
    outcome = play(CapturedSession(open_checkpoint(path)), SamplingConfig())
    return {result.name: result for result in checks_of(outcome, names)}


@pytest.mark.parametrize("kind", [GptLike, LlamaLike])
def test_the_sound_decoders_are_sound(
    sound: dict[type[GptLike], Path], kind: type[GptLike]
) -> None:
    found = verdicts(sound[kind])
    assert all(result.holds for result in found.values())
    assert {name for name, result in found.items() if not result.examined} == {
        "causal-behaviour",
        "cache-equals-full",
    }
    capture = read_capture(sound[kind])
    assert difference(capture, capture).agrees


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_bug_is_traced_to_its_operation(
    sound: dict[type[GptLike], Path], tmp_path: Path, bug: type[Broken]
) -> None:
    against = sound[kin(bug)]
    path = record(bug, against, tmp_path / "broken.safetensors")
    found = difference(read_capture(against), read_capture(path))
    assert not found.agrees
    assert found.origin is not None
    assert found.operations[found.origin.operation].name == bug.operation
    place = found.origin.place or found.first
    assert place is not None
    assert place.other_step == bug.step


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_checks_that_can_see_a_bug_do_and_no_others(
    sound: dict[type[GptLike], Path], tmp_path: Path, bug: type[Broken]
) -> None:
    path = record(bug, sound[kin(bug)], tmp_path / "broken.safetensors")
    found = verdicts(path, CHECKS)
    failing = {name for name, result in found.items() if not result.holds}
    # Its tokens are those of the sound run, which the broken one would not have chosen.
    if bug.operation != "sample":
        failing -= {"sampling"}
    assert failing == bug.seen_by
    if "arithmetic" in bug.seen_by:
        where = found["arithmetic"].where
        assert where is not None
        assert where.step == bug.step
        if not bug.operation.endswith(".cache"):  # which shows in the scores
            assert where.operation == bug.operation


def test_there_are_enough_of_them() -> None:
    assert len(BUGS) >= 20
    assert sum(bool(bug.seen_by) for bug in BUGS) >= 18


def test_the_command_line_says_so_too(
    sound: dict[type[GptLike], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bug = next(bug for bug in BUGS if bug.__name__ == "NoScale")
    path = record(bug, sound[GptLike], tmp_path / "broken.safetensors")
    assert main(["diff", str(sound[GptLike]), str(path)]) == 1
    assert "blocks.0.attn.scores" in capsys.readouterr().out
    assert main(["check", str(path), "--json", "-"]) == 1
    said = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert not said["arithmetic"]["holds"]
    assert "blocks.0.attn.scores is not what" in said["arithmetic"]["detail"]
    assert main(["check", str(sound[GptLike])]) == 0
    assert main(["diff", str(sound[GptLike]), str(sound[GptLike])]) == 0
