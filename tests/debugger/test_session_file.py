"""Session files: what goes in comes out, and whatever is damaged is refused in a sentence."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decoder_gui.debugger.saving.session_file import (
    ModelReference,
    SavedBranch,
    SavedSession,
    SavedStep,
    SessionFileError,
    to_text,
    write,
)
from decoder_gui.debugger.saving.session_reading import from_text, read
from model.ablation import Patch, ZeroHead, ZeroMlp
from model.sampling import SamplingConfig
from model.trace import Phase


def state(seed: int) -> dict[str, object]:
    return dict(np.random.PCG64(seed).state)


def session() -> SavedSession:
    prefill = SavedStep(Phase.PREFILL, (5, 6, 7), state(1))
    decode = SavedStep(Phase.DECODE, (9,), state(2))
    values = np.arange(6, dtype=np.float32).reshape(1, 6) / 7
    return SavedSession(
        model=ModelReference("stories", "stories", "GPT-2", 1234, 916),
        prompt="Once “upon” a ␣",
        context=128,
        sampling=SamplingConfig(temperature=0.7, top_k=4, seed=11, order="hugging-face"),
        faults=frozenset({"no-mask"}),
        branches=(
            SavedBranch(
                0,
                "main",
                None,
                0,
                "",
                (prefill, decode, decode),
                by_hand=frozenset({1}),
                settings={0: SamplingConfig(temperature=0.0)},
            ),
            SavedBranch(
                3,
                "what if",
                0,
                3,
                "zeroed head 1.2 from step 1",
                (prefill, decode),
                edits=(
                    ZeroHead(1, 2, 3),
                    ZeroMlp(0, 3),
                    Patch("blocks.0.mlp.out", (3,), values, None, "position 1 of step 0"),
                ),
            ),
        ),
        active=3,
        cursor=(1, "blocks.0.mlp.out"),
        selection={"layer": 1, "head": 2, "query": None, "key": None},
        groups={"stops": {"limit": 3}},
        layout={"view": "Find"},
        saved_at="2026-11-29T19:50:00+00:00",
    )


def test_everything_comes_back() -> None:
    before = session()
    after = from_text(to_text(before), "a.session.json")
    assert to_text(after) == to_text(before)
    assert after.branches[0] == before.branches[0]
    assert after.sampling == before.sampling
    assert after.faults == before.faults
    assert after.tokens == 4
    patch, original = after.branches[1].edits[2], before.branches[1].edits[2]
    assert isinstance(patch, Patch)
    assert isinstance(original, Patch)
    assert np.array_equal(patch.values, original.values)
    generator = np.random.PCG64()
    generator.state = after.branches[0].steps[1].generator_state  # type: ignore[assignment]
    assert (
        np.random.Generator(generator).random() == np.random.Generator(np.random.PCG64(2)).random()
    )


def test_whole_numbers_beyond_other_readers_are_texts() -> None:
    document = json.loads(to_text(session()))
    generator = document["branches"][0]["steps"][0]["generator"]
    assert isinstance(generator["state"]["state"], str)


def test_writing_replaces_the_old_file_or_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.session.json"
    write(session(), path)
    assert read(path).prompt == session().prompt
    write(session(), path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    with pytest.raises(SessionFileError, match="cannot be written"):
        write(session(), path / "below a file" / "b.session.json")


def test_a_file_is_as_open_as_any_other_unless_it_is_private(tmp_path: Path) -> None:
    plain, shared, own = (tmp_path / name for name in ("plain", "shared", "own"))
    plain.write_text("")
    write(session(), shared)
    write(session(), own, private=True)
    assert shared.stat().st_mode == plain.stat().st_mode
    assert own.stat().st_mode & 0o077 == 0
    shared.chmod(0o640)
    write(session(), shared)
    assert shared.stat().st_mode & 0o777 == 0o640


def test_half_a_character_keeps_nothing_from_being_saved(tmp_path: Path) -> None:
    write(replace(session(), prompt="a\ud800b"), tmp_path / "a")
    assert read(tmp_path / "a").prompt == "a?b"


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (("format",), "other", "not a session"),
        (("version",), 99, "newer"),
        (("model", "parameters"), "many", r"model\.parameters is not a whole number"),
        (("context",), None, "context"),
        (("sampling", "temperature"), -1, "temperature"),
        (("sampling", "unheard"), 1, "unheard"),
        (("branches", 0, "steps", 0, "phase"), "later", r"branches\[0\]\.steps\[0\]\.phase"),
        (("branches", 0, "steps", 0, "token_ids"), [], "token_ids"),
        (("branches", 0, "steps", 0, "token_ids"), [1, True], "token_ids"),
        (("branches", 0, "steps", 0, "generator", "state", "inc"), "1e5", "inc"),
        (("branches", 0, "steps", 0, "generator", "bit_generator"), "MT19937", "PCG64"),
        (("branches", 1, "edits", 0, "kind"), "explode", "kind"),
        (("branches", 1, "edits", 2, "values"), "!!", "base64"),
        (("branches", 1, "edits", 2, "shape"), [1, 7], "7 numbers"),
        (("branches", 1, "edits", 2, "dtype"), "|O", "dtype"),
        (("branches", 1, "parent"), 7, "parent"),
        (("branches", 1, "id"), 0, "once"),
        (("active",), 12, "active branch 12"),
        (("cursor",), [1], "cursor"),
        (("branches",), {}, "branches"),
    ],
)
def test_a_wrong_field_is_named(where: tuple[str | int, ...], value: object, words: str) -> None:
    document = json.loads(to_text(session()))
    inside = document
    for step in where[:-1]:
        inside = inside[step]
    inside[where[-1]] = value
    with pytest.raises(SessionFileError, match=words) as caught:
        from_text(json.dumps(document), "a.session.json")
    assert str(caught.value).startswith("a.session.json")
    assert "\n" not in str(caught.value)


def test_files_cut_and_changed_anywhere_are_refused_or_read_whole() -> None:
    text, chance = to_text(session()), random.Random(4)
    for _ in range(600):
        at = chance.randrange(len(text))
        damaged = (
            text[:at]
            if chance.random() < 0.4
            else text[:at] + chance.choice('{}[]",:0x-\u0000') + text[at + 1 :]
        )
        refusal = ""
        try:
            from_text(damaged, "a.session.json")
        except SessionFileError as error:
            refusal = str(error)
        assert "\n" not in refusal


def test_files_that_are_no_text_or_not_there_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.session.json"
    with pytest.raises(SessionFileError, match="cannot be read"):
        read(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SessionFileError, match="not a text"):
        read(path)
    path.write_text("[" * 100_000)
    with pytest.raises(SessionFileError, match="not JSON"):
        read(path)
