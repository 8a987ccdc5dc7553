"""Whatever is in a file: one sentence that names it, status 2, little memory, and no hang."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.bad_files import MOST_SECONDS
from tests.model.gguf_files import convert

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "model" / "golden"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits are set the POSIX way")

ROOM = 48 * 2**20  # bytes that a process may hold besides what a file's own size justifies
CHANGES = 60  # random changes of each base


@dataclass(frozen=True)
class Outcome:
    """What became of opening a path."""

    status: int | str
    said: str
    held: int
    resident: int
    seconds: float


class Opener:
    """A process that opens one path after another."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bad_files"],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.stdin: IO[str] = self._process.stdin  # type: ignore[assignment]
        self.stdout: IO[str] = self._process.stdout  # type: ignore[assignment]

    def __call__(self, path: Path) -> Outcome:
        self.stdin.write(f"{path}\n")
        self.stdin.flush()
        line = self.stdout.readline()
        assert line, f"opening {path} ended the process with {self._process.wait()}"
        return Outcome(**json.loads(line))

    def close(self) -> None:
        self.stdin.close()
        self.stdout.close()
        self._process.wait(MOST_SECONDS)


@pytest.fixture(scope="module")
def opened() -> Iterator[Opener]:
    opener = Opener()
    yield opener
    opener.close()


def size_of(place: Path) -> int:
    files = place.rglob("*") if place.is_dir() else [place]
    return sum(file.lstat().st_size for file in files)


def assert_refused(found: Outcome, place: Path, *words: str, within: Path | None = None) -> None:
    """Status 2 and one line that names a file below ``within`` and holds the words."""
    assert found.status == 2, found
    assert found.said.count("\n") == 1, found.said
    assert found.said.startswith("decoder-gui: ")
    assert str(within or place) in found.said, found.said
    for word in words:
        assert word in found.said, found.said
    assert_modest(found, place)


def assert_modest(found: Outcome, place: Path) -> None:
    assert found.held < ROOM + 8 * size_of(place), found
    assert found.resident < 700 * 2**20, found
    assert found.seconds < MOST_SECONDS / 2, found


# ---- one lie each


def config_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


def configured(**fields: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps(config_of(folder) | fields))

    return change


def written(name: str, content: bytes | str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        raw = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(raw)

    return change


def with_tensors(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        path = folder / "model.safetensors"
        tensors = dict(load_file(path))
        change(tensors)
        save_file(tensors, path)

    return rewrite


def with_header(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Another header before the same data; its length says the truth."""

    def rewrite(folder: Path) -> None:
        path = folder / "model.safetensors"
        raw = path.read_bytes()
        length = struct.unpack("<Q", raw[:8])[0]
        header = json.loads(raw[8 : 8 + length])
        change(header)
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])

    return rewrite


def header_length(length: int) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        path = folder / "model.safetensors"
        path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])

    return rewrite


def sparse(name: str, size: int, start: bytes = b"") -> Callable[[Path], None]:
    """A file of zeros that takes no room on the disk."""

    def make(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.write(start)
            file.truncate(size)

    return make


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return change


def indexed(**files: object) -> Callable[[Path], None]:
    """Weights said to be in other files than those beside the index."""

    def change(folder: Path) -> None:
        path = folder / "model.safetensors.index.json"
        content = json.loads(path.read_text())
        names = list(content["weight_map"])
        for number, file in enumerate(files.values()):
            content["weight_map"][names[number]] = file
        path.write_text(json.dumps(content))

    return change


def tokenizer(**fields: object) -> str:
    """A tokenizer.json of three letters, with fields of one's own."""
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": {
                "type": "ByteLevel",
                "add_prefix_space": False,
                "trim_offsets": True,
                "use_regex": True,
            },
            "post_processor": None,
            "decoder": {
                "type": "ByteLevel",
                "add_prefix_space": True,
                "trim_offsets": True,
                "use_regex": True,
            },
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2}, "merges": []},
        }
        | fields
    )


def longer(times: int) -> dict[str, Any]:
    """A normaliser that makes each a into as many."""
    return {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * times}


FIRST = "transformer.wte.weight"
BOMB = {"type": "Sequence", "normalizers": [longer(1000)] * 8}

LIES: dict[str, tuple[str, Callable[[Path], object], tuple[str, ...]]] = {
    "pickle": (
        "tied",
        written("model.safetensors", pickle.dumps({"a": 1})),
        ("model.safetensors", "pickle", "can run code"),
    ),
    "zip of torch": (
        "tied",
        written("model.safetensors", b"PK\x03\x04" + bytes(100)),
        ("model.safetensors", "pickle"),
    ),
    "empty weights": ("tied", written("model.safetensors", b""), ("model.safetensors",)),
    "header length 2^60": ("tied", header_length(2**60), ("model.safetensors", "header")),
    "header length 2^64-1": ("tied", header_length(2**64 - 1), ("model.safetensors", "header")),
    "header length 0": ("tied", header_length(0), ("model.safetensors", "header")),
    "header length short": ("tied", header_length(40), ("model.safetensors", "header")),
    "header nested": (
        "tied",
        written("model.safetensors", struct.pack("<Q", 10**6) + b"[" * 10**6),
        ("model.safetensors", "header"),
    ),
    "header of zeros, 4 GB": (
        "tied",
        sparse("model.safetensors", 4 * 2**30, struct.pack("<Q", 4 * 2**30 - 8)),
        ("model.safetensors", "header"),
    ),
    "shape 2^40": (
        "tied",
        with_header(lambda header: header[FIRST].update(shape=[2**20, 2**20])),
        ("model.safetensors", "header"),
    ),
    "negative shape": (
        "tied",
        with_header(lambda header: header[FIRST].update(shape=[-29, -12])),
        ("model.safetensors", "header"),
    ),
    "offsets beyond the end": (
        "tied",
        with_header(lambda header: header[FIRST].update(data_offsets=[0, 2**40])),
        ("model.safetensors", "header"),
    ),
    "offsets overlap": (
        "tied",
        with_header(
            lambda header: header[FIRST].update(
                data_offsets=header["transformer.wpe.weight"]["data_offsets"]
            )
        ),
        ("model.safetensors", "header"),
    ),
    "unheard dtype": (
        "tied",
        with_header(lambda header: header[FIRST].update(dtype="F128")),
        ("model.safetensors", "header"),
    ),
    "missing tensor": (
        "tied",
        with_tensors(lambda tensors: tensors.pop(FIRST)),
        ("model.safetensors", "wte.weight", "missing"),
    ),
    "surplus tensor": (
        "tied",
        with_tensors(lambda tensors: tensors.update(adapter=np.ones(2, dtype=np.float32))),
        ("model.safetensors", "has no tensor adapter"),
    ),
    "wrong dtype": (
        "tied",
        with_tensors(lambda tensors: tensors.update({FIRST: tensors[FIRST].astype(np.int64)})),
        ("model.safetensors", FIRST, "I64"),
    ),
    "wrong shape": (
        "tied",
        with_tensors(lambda tensors: tensors.update({FIRST: tensors[FIRST][:-1].copy()})),
        ("model.safetensors", FIRST, "shape [28, "),
    ),
    "no config": ("tied", lambda folder: (folder / "config.json").unlink(), ("config.json",)),
    "config is a list": ("tied", written("config.json", "[1]"), ("config.json", "object")),
    "config is no JSON": ("tied", written("config.json", "{"), ("config.json", "not JSON")),
    "config nested": (
        "tied",
        written("config.json", '{"a":' * 10**5),
        ("config.json", "not JSON"),
    ),
    "config of 2 GB": ("tied", sparse("config.json", 2 * 2**30), ("config.json", "larger")),
    "config bytes": ("tied", written("config.json", b"\xff\xfe\x00"), ("config.json",)),
    "unknown family": (
        "tied",
        configured(model_type="falcon_mamba"),
        ("config.json", "model_type", "falcon_mamba"),
    ),
    "no family": ("tied", configured(model_type=None), ("config.json", "model_type")),
    "10^9 layers": ("tied", configured(n_layer=10**9), ("config.json", "n_layer")),
    "vocabulary 10^12": ("tied", configured(vocab_size=10**12), ("vocab_size|shape",)),
    "width of another": ("tied", configured(n_embd=36), ("shape",)),
    "no heads": ("tied", configured(n_head=0), ("config.json", "n_head")),
    "heads that do not divide": ("tied", configured(n_head=5), ("config.json", "head")),
    "width negative": ("tied", configured(n_embd=-12), ("config.json", "n_embd")),
    "width in words": ("tied", configured(n_embd="twelve"), ("config.json", "n_embd", "twelve")),
    "epsilon": ("tied", configured(layer_norm_epsilon=-1), ("config.json", "layer_norm_epsilon")),
    "llama layers": (
        "llama",
        configured(num_hidden_layers=10**9),
        ("config.json", "num_hidden_layers"),
    ),
    "llama heads": ("llama", configured(num_key_value_heads=7), ("config.json",)),
    "llama rotary": (
        "llama",
        configured(rope_scaling={"rope_type": "unheard"}, rope_parameters=None),
        ("config.json", "rope"),
    ),
    "index outside": (
        "gpt2_split",
        indexed(a="../other.safetensors"),
        ("index.json", "'../other.safetensors'", "its own folder"),
    ),
    "index absolute": (
        "gpt2_split",
        indexed(a="/etc/passwd"),
        ("index.json", "/etc/passwd"),
    ),
    "index to no file": (
        "gpt2_split",
        indexed(a="model-00009-of-00003.safetensors"),
        ("model-00009-of-00003.safetensors", "no such file"),
    ),
    "index of numbers": ("gpt2_split", indexed(a=3), ("index.json", "3")),
    "index nested": (
        "gpt2_split",
        written("model.safetensors.index.json", '{"weight_map":' * 10**5),
        ("index.json", "JSON"),
    ),
    "index of 1 GB": (
        "gpt2_split",
        sparse("model.safetensors.index.json", 2**30),
        ("index.json", "larger"),
    ),
    "a part is gone": (
        "gpt2_split",
        lambda folder: (folder / "model-00002-of-00003.safetensors").unlink(),
        ("model-00002-of-00003.safetensors", "no such file"),
    ),
    "tokenizer nested": (
        "tied",
        written("tokenizer.json", '{"model":' * 10**6),
        ("tokenizer.json",),
    ),
    "tokenizer of 4 GB": (
        "tied",
        sparse("tokenizer.json", 4 * 2**30),
        ("tokenizer.json", "larger"),
    ),
    "tokenizer is no JSON": ("tied", written("tokenizer.json", "vocab"), ("tokenizer.json",)),
    "tokenizer bomb": (
        "tied",
        written("tokenizer.json", tokenizer(normalizer=BOMB)),
        ("tokenizer.json", "normalizer"),
    ),
    "tokenizer with ids of 32 bits": (
        "tied",
        written(
            "tokenizer.json",
            tokenizer(model={"type": "BPE", "vocab": {"a": 0, "b": 2**32 - 1}, "merges": []}),
        ),
        ("tokenizer.json", "vocab"),
    ),
    "tokenizer larger than the model": (
        "tied",
        written(
            "tokenizer.json",
            tokenizer(
                model={"type": "BPE", "vocab": {str(i): i for i in range(500)}, "merges": []}
            ),
        ),
        ("tokenizer.json", "500", "29"),
    ),
    "weights are a folder": ("tied", replaced("model.safetensors", Path.mkdir), ("model.safe",)),
    "weights are a pipe": ("tied", replaced("model.safetensors", os.mkfifo), ("model.safe",)),
    "config is a pipe": ("tied", replaced("config.json", os.mkfifo), ("config.json",)),
    "tokenizer is a pipe": ("tied", replaced("tokenizer.json", os.mkfifo), ("tokenizer.json",)),
    "index is a pipe": (
        "gpt2_split",
        replaced("model.safetensors.index.json", os.mkfifo),
        ("index.json",),
    ),
    "a part is a pipe": (
        "gpt2_split",
        replaced("model-00002-of-00003.safetensors", os.mkfifo),
        ("model-00002-of-00003.safetensors",),
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_one_sentence(opened: Opener, tmp_path: Path, name: str) -> None:
    base, change, words = LIES[name]
    folder = Path(shutil.copytree(GOLDEN / base, tmp_path / "model"))
    change(folder)
    found = opened(folder)
    single = [word for word in words if "|" not in word]
    either = [word.split("|") for word in words if "|" in word]
    assert_refused(found, folder, *single)
    for choice in either:
        assert any(word in found.said for word in choice), found.said


def other_places(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    empty = tmp_path / "empty"
    empty.mkdir()
    torch = tmp_path / "torch"
    torch.mkdir()
    (torch / "pytorch_model.bin").write_bytes(pickle.dumps(1))
    (torch / "config.json").write_text("{}")
    files = {
        name: tmp_path / name for name in ("model.pt", "model.bin", "model.gguf", "photo.png", "x")
    }
    for path in files.values():
        path.write_bytes(pickle.dumps([1, 2]))
    os.mkfifo(tmp_path / "pipe.gguf")
    os.mkfifo(tmp_path / "pipe.safetensors")
    return {
        "an empty folder": (empty, "there is no model.safetensors"),
        "only a pickle": (torch, "pytorch_model.bin, a PyTorch pickle, which is never opened"),
        "a .pt file": (files["model.pt"], "a PyTorch pickle"),
        "a .bin file": (files["model.bin"], "a PyTorch pickle"),
        "no GGUF": (files["model.gguf"], "model.gguf"),
        "a picture": (files["photo.png"], "not a model"),
        "no ending": (files["x"], "not a model"),
        "a pipe": (tmp_path / "pipe.gguf", "pipe.gguf"),
        "another pipe": (tmp_path / "pipe.safetensors", "pipe.safetensors"),
        "nothing": (tmp_path / "nothing", "no such path"),
    }


def test_what_is_no_model_is_one_sentence(opened: Opener, tmp_path: Path) -> None:
    for place, words in other_places(tmp_path).values():
        found = opened(place)
        assert found.status == 2, (place, found)
        assert found.said.count("\n") == 1, found.said
        assert words in found.said, found.said
        assert str(place.parent) in found.said


# ---- any lie


def as_folder(base: str) -> Callable[[Path], Path]:
    return lambda place: Path(shutil.copytree(GOLDEN / base, place / base))


def as_gguf(place: Path) -> Path:
    convert(GOLDEN / "llama_yarn", place / "model.gguf")
    return place / "model.gguf"


BASES: dict[str, Callable[[Path], Path]] = {
    "tied": as_folder("tied"),
    "llama_yarn": as_folder("llama_yarn"),
    "gpt2_split": as_folder("gpt2_split"),
    "gguf": as_gguf,
}


def disturb(rng: random.Random, file: Path) -> None:
    """One random change of a file: cut off, bytes or digits changed, a part twice, zeros."""
    raw = bytearray(file.read_bytes())
    kind = rng.choice(("cut", "flip", "early", "digits", "repeat", "zeros"))
    if kind == "cut":
        del raw[rng.randrange(len(raw)) :]
    elif kind in ("flip", "early"):
        end = len(raw) if kind == "flip" else min(len(raw), 600)
        for _ in range(rng.randint(1, 8)):
            raw[rng.randrange(end)] ^= 1 << rng.randrange(8)
    elif kind == "digits":
        places = [i for i in range(min(len(raw), 4000)) if chr(raw[i]).isdigit()] or [0]
        for _ in range(rng.randint(1, 3)):
            raw[rng.choice(places)] = ord(rng.choice("0123456789"))
    else:
        at, size = rng.randrange(len(raw)), rng.randint(1, 64)
        raw[at:at] = bytes(size) if kind == "zeros" else raw[at : at + size]
    file.write_bytes(raw)


@pytest.mark.parametrize("base", BASES)
def test_a_random_change_gives_a_model_or_one_sentence(
    opened: Opener, tmp_path: Path, base: str
) -> None:
    refused = 0
    for seed in range(CHANGES):
        rng = random.Random(f"{base} {seed}")
        place = tmp_path / str(seed)
        place.mkdir()
        path = BASES[base](place)
        files = sorted(path.glob("*")) if path.is_dir() else [path]
        files = [file for file in files if file.name != "golden.json"]
        disturb(rng, rng.choice(files))
        found = opened(path)
        assert found.status in (0, 2), (seed, found)
        assert_modest(found, path)
        if found.status == 2:
            refused += 1
            assert found.said.splitlines()[-1].startswith("decoder-gui: "), (seed, found.said)
        for line in found.said.splitlines():
            assert line.startswith("decoder-gui: "), (seed, found.said)
        shutil.rmtree(place)
    assert CHANGES / 4 < refused < CHANGES


def test_a_sound_model_opens_after_all_that(opened: Opener) -> None:
    found = opened(GOLDEN / "tied")
    assert (found.status, found.said) == (0, "")


def test_weights_that_are_no_numbers_are_opened_and_said(opened: Opener, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(GOLDEN / "tied", tmp_path / "model"))
    with_tensors(lambda tensors: tensors[FIRST].__setitem__((3, 3), np.nan))(folder)
    found = opened(folder)
    assert (found.status, found.said.count("\n")) == (2, 1)
    assert "NaN: nothing can be sampled" in found.said
    assert "Traceback" not in str(found.status)
