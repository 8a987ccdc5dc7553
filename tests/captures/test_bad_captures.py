"""Damaged captures: always one sentence and exit status 2, or a run that is sound after all."""

from __future__ import annotations

import copy
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoder_gui.cli import main
from model.capture import KEY, Array, capture_forward
from model.capture_file import read_capture
from model.captured_run import write_capture
from model.errors import CheckpointError
from tests.captures.test_capture import decoded_steps

Document = dict[str, Any]
SAID = {
    "norm": "RMSNorm",
    "norm_epsilon": 1e-6,
    "activation": "ReLU",
    "context": 4,
    "sampling": {"temperature": 0.0, "order": "reference"},
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "run.safetensors"
    steps = decoded_steps("tiny", (0, 1), (2,))
    write_capture(path, steps, model="tiny", token_texts={0: "The"}, **SAID)
    return path


def parts(path: Path) -> tuple[Document, Document, bytes]:
    """Header without the metadata, the document in it, and the bytes of the tensors."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    document = json.loads(header.pop("__metadata__")[KEY])
    return header, document, raw[8 + length :]


def put_together(path: Path, header: Document, document: object, data: bytes) -> Path:
    text = document if isinstance(document, str) else json.dumps(document)
    whole = json.dumps({"__metadata__": {KEY: text}} | header).encode()
    path.write_bytes(struct.pack("<Q", len(whole)) + whole + data)
    return path


def refusal(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence with which a file is refused, or an empty string where it is not."""
    capsys.readouterr()
    status = main(["trace", str(path), "--json", "-"])
    said = capsys.readouterr()
    if status == 0:
        assert json.loads(said.out)["steps"]
        return ""
    assert status == 2
    assert said.err.count("\n") == 1
    assert said.err.startswith("decoder-gui: ")
    assert "Traceback" not in said.err
    return said.err


Change = Callable[[Document, Document], object]

LIES: dict[str, tuple[Change, str]] = {
    "newer": (lambda h, d: d.update(format=2), "format 2 is newer than the 1"),
    "no format": (lambda h, d: d.pop("format"), "format must be a whole number"),
    "no steps": (lambda h, d: d.update(steps=[]), "at least one step"),
    "no tokens": (lambda h, d: d["steps"][1].pop("token_ids"), "step 1 has no token_ids"),
    "a word": (lambda h, d: d["steps"][0].update(token_ids=[0, "x"]), "no whole number"),
    "below 0": (lambda h, d: d["steps"][0].update(token_ids=[0, -1]), "not in 0 to"),
    "beyond": (lambda h, d: d["steps"][0].update(token_ids=[0, 9]), "token id 9"),
    "a gap": (lambda h, d: d["steps"][1].update(first=3), "2 positions come before"),
    "phase": (lambda h, d: d["steps"][0].update(phase="x"), "prefill or decode"),
    "draw": (lambda h, d: d["steps"][0].update(draw=1.0), "not in [0, 1)"),
    "by hand": (lambda h, d: d["steps"][0].update(by_hand=1), "not true or false"),
    "more tokens": (lambda h, d: d["steps"][1].update(token_ids=[1, 2]), "positions where"),
    "a lost step": (lambda h, d: d["steps"].pop(), "of step 1, and there are 1"),
    "texts": (lambda h, d: d.update(texts={"x": "y"}), "no token id"),
    "a text": (lambda h, d: d.update(texts={"1": 2}), "which is no Unicode text"),
    "half a character": (lambda h, d: d.update(texts={"1": "\ud800"}), "which is no Unicode text"),
    "a long text": (lambda h, d: d.update(texts={"1": "x" * 5_000_000}), "at most 1,000 char"),
    "a name": (lambda h, d: d.update(model="\udcff\ud800"), "model is '\\udcff\\ud800', which"),
    "a layer": (
        lambda h, d: h.update({"0/blocks.7000.ln1": h.pop("0/blocks.0.ln1")}),
        "an array of layer 7000",
    ),
    "model": (lambda h, d: d.update(model=3), "model is 3"),
    "events": (lambda h, d: d.update(events="x"), "not a list of names"),
    "width": (lambda h, d: d["blueprint"].update(model_dim=3), "blueprint says model_dim 3"),
    "huge depth": (lambda h, d: d["blueprint"].update(depth=10**9), "depth must be"),
    "depth": (lambda h, d: d["blueprint"].update(depth="x"), "depth must be a whole number"),
    "norm": (lambda h, d: d["blueprint"].update(norm="x"), "norm must be"),
    "epsilon": (lambda h, d: d["blueprint"].update(norm_epsilon=-1), "epsilon"),
    "rotary": (lambda h, d: d["blueprint"].update(rotary=3), "rotary must be"),
    "turns": (
        lambda h, d: d["blueprint"].update(rotary={"dims": 2, "frequencies": [1, 2]}),
        "rotary frequencies must be 1",
    ),
    "windows": (lambda h, d: d["blueprint"].update(windows=[1, 2]), "as many windows"),
    "flag": (lambda h, d: d["blueprint"].update(gated=1), "gated must be true or false"),
    "context": (lambda h, d: d["blueprint"].update(context=2), "a context of 2 for 3 positions"),
    "heads": (lambda h, d: d["blueprint"].update(num_heads=2), "blueprint says num_heads 2"),
    "sampling": (lambda h, d: d["sampling"].update(temperature=-1), "sampling: "),
    "order": (lambda h, d: d["sampling"].update(order="x"), "sampling: "),
    "a number": (lambda h, d: d["sampling"].update(top_k="x"), "sampling: top_k"),
    "dtype": (lambda h, d: h["0/embed"].update(dtype="I64"), "stored as I64"),
    "lying": (lambda h, d: h["0/embed"].update(shape=[1, 2, 3]), "truncated, damaged"),
    "axes": (lambda h, d: h["0/embed"].update(shape=[2, 1, 2]), "a batch of 2"),
    "two axes": (lambda h, d: h["0/embed"].update(shape=[2, 2]), "not the axes (batch, pos"),
    "offsets": (lambda h, d: h["0/embed"].update(data_offsets=[0, 10**12]), "truncated, damaged"),
    "no step": (lambda h, d: h.update(embed=h.pop("0/embed")), "does not say of which of 2"),
    "a far step": (lambda h, d: h.update({"7/embed": h.pop("0/embed")}), "of step 7"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_one_sentence_that_names_the_file(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    change, words = LIES[name]
    header, document, data = parts(sound)
    change(header, document)
    path = put_together(tmp_path / "bad.safetensors", header, document, data)
    said = refusal(path, capsys)
    assert words in said
    assert str(path) in said


def test_two_arrays_that_contradict_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.safetensors"
    arrays = {"embed": np.zeros((1, 2, 4)), "ln_final": np.zeros((1, 2, 5))}
    capture_forward(path, (0, 1), arrays)
    assert "0/ln_final has 5 for the axis d_model, and 0/embed has 4" in refusal(path, capsys)
    heads: dict[str, Array] = {
        "blocks.0.attn.q": np.zeros((1, 3, 2, 4)),
        "blocks.0.attn.k": np.zeros((1, 2, 2, 4)),
    }
    capture_forward(path, (0, 1), heads)
    assert "3 query heads cannot share 2" in refusal(path, capsys)


def test_a_document_that_is_none(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header, _, data = parts(sound)
    for text, words in (("{", "not JSON"), ("[1]", "no JSON object"), ("[" * 100_000, "not JSON")):
        path = put_together(tmp_path / "bad.safetensors", header, text, data)
        assert words in refusal(path, capsys)
    whole = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(whole)) + whole + data)
    assert "the tokens of this run are not known" in refusal(path, capsys)


def test_a_single_step_may_use_bare_names(sound: Path, tmp_path: Path) -> None:
    header, document, data = parts(sound)
    path = tmp_path / "bare.safetensors"
    capture_forward(path, (0, 1), {"embed": np.ones((1, 2, 2))})
    header, document, data = parts(path)
    put_together(path, {"embed": header["0/embed"]}, document, data)
    assert np.array_equal(read_capture(path).steps[0].arrays["embed"], np.ones((1, 2, 2)))
    twice = {"embed": header["0/embed"], "0/embed": header["0/embed"]}
    put_together(path, twice, document, data)
    with pytest.raises(CheckpointError):  # the package finds that two tensors share their bytes
        read_capture(path)


def test_names_without_a_place_are_told_and_passed_over(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header, document, data = parts(sound)
    header["0/hook_scale"] = header.pop("0/embed")
    path = put_together(tmp_path / "odd.safetensors", header, document, data)
    assert refusal(path, capsys) == ""
    assert main(["trace", str(path)]) == 0
    assert "no place in a capture: 0/hook_scale" in capsys.readouterr().err


def test_half_precision_in_a_file_is_upcast_and_said(tmp_path: Path) -> None:
    path = tmp_path / "half.safetensors"
    numbers = np.linspace(-2, 2, 8, dtype=np.float32).reshape(1, 2, 4)
    capture_forward(path, (0, 1), {"embed": numbers})
    header, document, _ = parts(path)
    for dtype, data in (
        ("F16", numbers.astype(np.float16).tobytes()),
        ("BF16", (numbers.view(np.uint32) >> 16).astype(np.uint16).tobytes()),
    ):
        header["0/embed"].update(dtype=dtype, data_offsets=[0, len(data)])
        put_together(path, header, document, data)
        capture = read_capture(path)
        found = capture.steps[0].arrays["embed"]
        assert found.dtype == np.float32
        assert np.allclose(found, numbers, atol=0.01)
        assert "upcast to float32" in capture.remarks[0]


ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 10**6, 10**30, 0.5, float("inf"), "", "x", [], {}, [[]]),
    *({"a": 1}, [1, 2], ["x"], "prefill", "RMSNorm"),
)


def mutated(rng: random.Random, tree: Any) -> Any:
    """The same with one value somewhere in it replaced, dropped or doubled."""
    tree = copy.deepcopy(tree)
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return tree
        key = rng.choice(keys)
        child = node[key]
        if isinstance(child, dict | list) and child and rng.random() < 0.8:
            node = child
            continue
        action = rng.random()
        if action < 0.7:
            node[key] = rng.choice(ODD)
        elif action < 0.85:
            del node[key]
        elif isinstance(node, dict):
            node[f"{key}x"] = child
        else:
            node.append(child)
        return tree


@pytest.mark.parametrize("seed", range(4))
def test_a_random_change_gives_a_run_or_one_sentence(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    rng = random.Random(seed)
    header, document, data = parts(sound)
    refused = 0
    for _ in range(60):
        path = tmp_path / "bad.safetensors"
        kind = rng.random()
        if kind < 0.55:
            put_together(path, header, mutated(rng, document), data)
        elif kind < 0.8:
            put_together(path, mutated(rng, header), document, data)
        else:
            raw = bytearray(sound.read_bytes())
            for _ in range(rng.randint(1, 4)):
                raw[rng.randrange(min(len(raw), 4000))] = rng.randrange(256)
            path.write_bytes(raw[: rng.choice((len(raw), rng.randrange(len(raw))))])
        refused += bool(refusal(path, capsys))
    assert refused > 20
