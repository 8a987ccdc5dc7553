"""The command line end to end: golden values, JSON shapes, exit statuses, bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from decoder_gui.cli import main
from model.faults import fault_names
from tests.model.gguf_files import write_small


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main([*argv, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line on standard error of a command that must be refused."""
    assert main(list(argv)) == 2
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    return lines[0]


def test_a_trace_of_ruined_logits_shows_them_and_chooses_nothing(
    capsys: pytest.CaptureFixture[str], ruined: Path
) -> None:
    (step,) = run_json(capsys, "trace", str(ruined), "--tokens", "0")["steps"]
    assert set(step["logits"]) == {None}
    assert step["candidates"] == []
    assert (step["kept"], step["entropy"], step["selected_id"]) == (0, None, None)
    assert main(["trace", str(ruined), "--tokens", "0"]) == 0
    assert "NaN" in capsys.readouterr().out
    assert "NaN" in refusal(capsys, "trace", str(ruined), "--tokens", "1")


def test_trace_of_tiny_has_the_golden_values(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(
        capsys, "trace", "tiny", "--prompt", "The cat", "--tokens", "2", "--temperature", "0"
    )
    first, second = found["steps"]
    assert found["model"] == "tiny"
    assert found["prompt_ids"] == [0, 1]
    assert found["context"] == 4
    assert [round(value, 6) for value in first["logits"]] == [
        -0.962760,
        0.261792,
        1.233117,
        0.692403,
    ]
    raw = {c["id"]: round(c["raw"], 6) for c in first["candidates"]}
    assert raw == {0: 0.053693, 1: 0.182698, 2: 0.482585, 3: 0.281025}
    assert first["selected_id"] == 2
    assert first["draw"] is None
    raw = {c["id"]: round(c["raw"], 6) for c in second["candidates"]}
    assert raw == {0: 0.067904, 1: 0.191047, 2: 0.154313, 3: 0.586736}
    assert second["selected_id"] == 3
    assert first["phase"] == "prefill"
    assert first["positions"] == [0, 2]
    assert second["phase"] == "decode"
    assert second["positions"] == [2, 3]
    assert second["token_ids"] == [2]
    assert found["cache"] == {
        "positions": 3,
        "capacity": 4,
        "bytes_used": 96,
        "bytes_reserved": 128,
    }
    assert found["stats"] == {
        "prefill_tokens": 2,
        "decode_tokens": 1,
        "weight_reads": 2,
        "tokens_per_weight_read": 1.5,
    }
    assert all(check["holds"] for check in found["checks"])


def test_trace_of_stories_has_the_whole_shape(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(
        capsys, "trace", "stories", "--tokens", "3", "--seed", "5", "--top-p", "0.9",
        "--temperature", "0.8",
    )  # fmt: skip
    assert set(found) == {
        "model", "prompt_ids", "context", "steps", "cache", "stats", "checks",
    }  # fmt: skip
    for step in found["steps"]:
        assert set(step) == {
            "phase", "positions", "token_ids", "logits", "entropy", "kept", "candidates",
            "draw", "selected_id", "log_probability",
        }  # fmt: skip
        assert len(step["candidates"]) == 20
        kept = [c for c in step["candidates"] if c["cut_by"] is None]
        assert len(kept) == min(step["kept"], 20)
        assert 0 <= step["draw"] < 1
        assert step["log_probability"] <= 0
    assert [step["selected_id"] for step in found["steps"][:-1]] == [
        step["token_ids"][0] for step in found["steps"][1:]
    ]
    assert found["cache"]["positions"] == len(found["prompt_ids"]) + 2


def test_no_tokens_is_the_prefill_alone(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "trace", "tiny", "--prompt", "The cat", "--tokens", "0")
    (step,) = found["steps"]
    assert step["selected_id"] is None
    assert step["draw"] is None


def test_prompt_ids_bypass_the_tokenizer(capsys: pytest.CaptureFixture[str]) -> None:
    by_ids = run_json(capsys, "trace", "tiny", "--prompt-ids", "0,1")
    by_text = run_json(capsys, "trace", "tiny", "--prompt", "The cat")
    assert by_ids == by_text


def test_json_goes_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    assert main(["trace", "tiny", "--json", str(target)]) == 0
    assert json.loads(target.read_text())["model"] == "tiny"


def test_trace_as_text_tells_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "tiny", "--tokens", "2", "--temperature", "0"]) == 0
    out = capsys.readouterr().out
    assert "sat" in out
    assert "-0.728599" in out
    assert "3 of 4 positions" in out


@pytest.mark.parametrize("model", ["tiny", "stories"])
def test_every_check_holds(capsys: pytest.CaptureFixture[str], model: str) -> None:
    checks = run_json(capsys, "check", model)
    names = {check["name"] for check in checks}
    assert names >= {
        "causal-weights", "causal-behaviour", "rows-sum-to-one", "cache-equals-full",
        "cache-constant", "positions", "finite", "display",
    }  # fmt: skip
    assert all(set(c) == {"name", "holds", "worst", "tolerance", "detail"} for c in checks)
    assert all(check["holds"] for check in checks)


@pytest.mark.parametrize("model", ["tiny", "stories"])
@pytest.mark.parametrize("fault", fault_names())
def test_every_fault_is_caught_and_named(
    capsys: pytest.CaptureFixture[str], model: str, fault: str
) -> None:
    assert main(["check", model, "--fault", fault, "--json", "-"]) == 1
    failed = [c for c in json.loads(capsys.readouterr().out) if not c["holds"]]
    assert failed
    assert all(fault in check["detail"] for check in failed)


def test_models_are_listed_with_their_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    out = capsys.readouterr().out
    assert "tiny" in out
    assert "stories" in out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["trace", "tiny", "--prompt", ""], "at least one token"),
        (["trace", "tiny", "--prompt", "The dog"], "dog"),
        (["trace", "tiny", "--prompt", "The cat sat . The"], "5 tokens"),
        (["trace", "tiny", "--prompt-ids", "0,9"], "9"),
        (["trace", "tiny", "--prompt-ids", "0,x"], "0,x"),
        (["trace", "tiny", "--temperature", "-1"], "temperature"),
        (["trace", "tiny", "--temperature", "nan"], "temperature"),
        (["trace", "tiny", "--top-p", "0"], "top_p"),
        (["trace", "tiny", "--top-p", "1.5"], "top_p"),
        (["trace", "tiny", "--top-k", "-1"], "top_k"),
        (["trace", "tiny", "--order", "alphabetical"], "alphabetical"),
        (["trace", "tiny", "--context", "5"], "4"),
        (["trace", "tiny", "--context", "0"], "0"),
        (["trace", "tiny", "--tokens", "-1"], "-1"),
        (["trace", "tiny", "--prompt", "The", "--prompt-ids", "0"], "twice"),
        (["trace", "no-such-model"], "no-such-model"),
        (["trace"], "MODEL"),
        (["check", "tiny", "--fault", "no-such-fault"], "no-such-fault"),
        (["--size", "10x10", "--snapshot", "x.png"], "10x10"),
        (["--at", "x", "--snapshot", "x.png"], "STEP"),
        (["a.session.json", "--prompt", "x", "--seed", "3"], "leave out --prompt, --seed"),
        (["trace", "a.session.json"], "the window opens it"),
        (["diff", "stories", "a.session.json"], "the window opens it"),
    ],
)
def test_bad_input_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], argv: list[str], words: str
) -> None:
    assert words in refusal(capsys, *argv)


def test_a_full_cache_keeps_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "tiny", "--prompt", "The cat", "--tokens", "9", "--json", "-"]) == 2
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["steps"]) == 3
    assert "full" in captured.err
    assert "4" in captured.err


def test_top_k_beyond_the_vocabulary_keeps_everything(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "trace", "tiny", "--top-k", "99")
    assert found["steps"][0]["kept"] == 4


def test_it_runs_as_a_module_without_importing_qt() -> None:
    code = (
        "import sys; from decoder_gui.cli import main; status = main(['trace', 'tiny']);"
        "assert not any(name.startswith(('PySide6', 'pyqtgraph')) for name in sys.modules);"
        "sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_token_that_begins_a_text_is_part_of_a_prompt(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = str(write_small(tmp_path / "a.gguf"))
    found = run_json(capsys, "trace", path, "--prompt", "abcd")
    assert found["prompt_ids"] == [0, 3, 4, 7]
    assert found["model"] == "a"
    found = run_json(capsys, "trace", path, "--prompt-ids", "3,4")
    assert found["prompt_ids"] == [3, 4]
    assert main(["trace", path, "--prompt", "a<s>b"]) == 2
    assert "no token for '<'" in capsys.readouterr().err
    assert main(["check", path, "--prompt", "abcab"]) == 0


def test_a_damaged_gguf_file_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 16)
    assert "a.gguf: truncated or damaged: the number of tensors" in refusal(
        capsys, "trace", str(path), "--prompt", "a"
    )


def test_a_failed_check_is_told_by_the_status_also_when_nobody_reads_on() -> None:
    argv = [sys.executable, "-m", "decoder_gui", "check", "tiny", "--fault", "no-mask"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_a_file_that_cannot_be_written_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "none" / "trace.json"
    told = refusal(capsys, "trace", "tiny", "--prompt", "The", "--json", str(target))
    assert told == f"decoder-gui: {target}: No such file or directory"
