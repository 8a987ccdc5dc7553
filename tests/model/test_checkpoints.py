"""Folders on disk: what transformers computed with them, and a sentence for each wrong one."""

from __future__ import annotations

import json
import pickle
import shutil
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from model.blueprint import Blueprint
from model.checkpoints import loading, open_checkpoint
from model.checkpoints.gpt2 import Gpt2
from model.checkpoints.loading import TensorSource
from model.errors import CheckpointError, UnknownToken

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound model of one's own to spoil."""
    return Path(shutil.copytree(GOLDEN / "tied", tmp_path / "spoilt"))


def change_config(folder: Path, **fields: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def change_tensors(folder: Path, change: Callable[[dict[str, NDArray[Any]]], object]) -> None:
    path = folder / "model.safetensors"
    tensors = dict(load_file(path))
    change(tensors)
    save_file(tensors, path)


def write_header(path: Path, header: str, data: bytes = b"") -> None:
    raw = header.encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)


@pytest.mark.parametrize("name", ["tied", "own_head", "bare"])
def test_logits_agree_with_transformers(name: str) -> None:
    loaded = open_checkpoint(GOLDEN / name)
    golden = json.loads((GOLDEN / name / "golden.json").read_text())
    ids = np.array(golden["ids"])
    found = loaded.engine.forward(ids, loaded.engine.new_cache(batch=2), all_logits=True)
    np.testing.assert_allclose(found, np.array(golden["logits"]), atol=1e-4)
    assert found.dtype == np.float32
    assert (loaded.name, loaded.family, loaded.warnings) == (name, "GPT-2", ())
    assert loaded.tokenizer.front_ids == ()


def test_the_weights_file_itself_opens_its_folder() -> None:
    loaded = open_checkpoint(GOLDEN / "tied" / "model.safetensors")
    assert loaded.name == "tied"


def test_without_a_tokenizer_a_prompt_is_a_list_of_ids() -> None:
    tokenizer = open_checkpoint(GOLDEN / "tied").tokenizer
    assert tokenizer.encode("3, 28 0") == [3, 28, 0]
    assert tokenizer.piece(3).text == "[id 3]"
    for text, reason in (("Once", "no tokenizer.json.*'Once'"), ("29", "29.*0 to 28"), ("³", "³")):
        with pytest.raises(UnknownToken, match=reason):
            tokenizer.encode(text)


def test_stored_masks_are_passed_over(folder: Path) -> None:
    def add(tensors: dict[str, NDArray[Any]]) -> None:
        tensors["transformer.h.0.attn.bias"] = np.ones((1, 1, 20, 20), dtype=bool)
        tensors["transformer.h.1.attn.masked_bias"] = np.array(-1e4, dtype=np.float32)

    change_tensors(folder, add)
    assert open_checkpoint(folder).warnings == ()


def test_a_stored_head_must_be_the_embedding_if_it_is_tied(folder: Path) -> None:
    def repeat(tensors: dict[str, NDArray[Any]]) -> None:
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"].copy()

    def spoil(tensors: dict[str, NDArray[Any]]) -> None:
        tensors["lm_head.weight"][3, 3] += 1

    change_tensors(folder, repeat)
    assert open_checkpoint(folder).warnings == ()
    change_tensors(folder, spoil)
    (warning,) = open_checkpoint(folder).warnings
    assert "lm_head.weight is not the transformer.wte.weight" in warning


def test_non_finite_weights_are_opened_and_reported(folder: Path) -> None:
    def spoil(tensors: dict[str, NDArray[Any]]) -> None:
        tensors["transformer.h.1.mlp.c_fc.weight"][0, :2] = np.nan, np.inf

    change_tensors(folder, spoil)
    (warning,) = open_checkpoint(folder).warnings
    assert warning == "transformer.h.1.mlp.c_fc.weight holds 2 values that are NaN or infinite"


class Turned(Gpt2):
    """A family with a name of its own that stores its matrices as (out, in)."""

    label = "Turned"
    model_type = "turned"

    def sources(self, blueprint: Blueprint, present: frozenset[str]) -> dict[str, TensorSource]:
        return {
            name: replace(source, transposed=name.endswith("qkv_weight"))
            for name, source in super().sources(blueprint, present).items()
        }


def test_a_new_family_is_a_map_of_names_and_a_blueprint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_families", dict(loading._families))
    loading.register_family(Turned())
    change_config(folder, model_type="turned")

    def turn(tensors: dict[str, NDArray[Any]]) -> None:
        for layer in range(2):
            name = f"transformer.h.{layer}.attn.c_attn.weight"
            tensors[name] = np.ascontiguousarray(tensors[name].T)

    change_tensors(folder, turn)
    turned, original = open_checkpoint(folder), open_checkpoint(GOLDEN / "tied")
    assert turned.family == "Turned"
    ids = np.array([[3, 1, 4]])
    assert np.array_equal(
        turned.engine.forward(ids, turned.engine.new_cache()),
        original.engine.forward(ids, original.engine.new_cache()),
    )


# -- refusals: each names the file and the part of it that is wrong ------------------------------


CONFIGS: list[tuple[dict[str, object], str]] = [
    ({"model_type": "bert"}, "model_type is 'bert'.*gpt2.*llama"),
    ({"model_type": ["gpt2"]}, "model_type"),
    ({"n_layer": 3}, r"transformer\.h\.2\.ln_1\.weight is missing"),
    ({"n_layer": 1}, r"no tensor transformer\.h\.1.*nor 11 others"),
    ({"n_layer": 10**12}, "n_layer"),
    ({"n_layer": "2"}, "n_layer must be a whole number, not '2'"),
    ({"n_head": True}, "n_head must be a whole number"),
    ({"n_head": 0}, "n_head must be at least 1"),
    ({"n_head": 5}, "n_embd and n_head: a width of 24 .* 5 heads"),
    ({"n_embd": 48, "n_head": 3}, r"wte\.weight has shape \[29, 24\].*\[29, 48\]"),
    ({"vocab_size": 30}, r"wte\.weight has shape \[29, 24\].*\[30, 24\]"),
    ({"n_positions": 1024}, r"wpe\.weight has shape"),
    ({"n_inner": None}, r"c_fc\.weight has shape \[24, 40\].*\[24, 96\]"),
    ({"activation_function": "relu"}, "activation_function is 'relu'"),
    ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True"),
    ({"layer_norm_epsilon": -1}, "layer_norm_epsilon"),
    ({"layer_norm_epsilon": "small"}, "layer_norm_epsilon"),
    ({"tie_word_embeddings": False}, r"lm_head\.weight is missing"),
    ({"tie_word_embeddings": "no"}, "tie_word_embeddings"),
]


@pytest.mark.parametrize(("fields", "message"), CONFIGS)
def test_a_config_that_does_not_fit(folder: Path, fields: dict[str, object], message: str) -> None:
    change_config(folder, **fields)
    with pytest.raises(CheckpointError, match=message) as caught:
        open_checkpoint(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("[]", "no JSON object"), ("{", "not JSON"), ("[" * 100_000, "not JSON"), ("{}", "None")],
)
def test_a_config_that_is_none(folder: Path, text: str, message: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=f"config.json.*{message}"):
        open_checkpoint(folder)
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"config.json.*sizes"):
        open_checkpoint(folder)


def test_a_missing_size_is_named(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config["n_embd"]
    path.write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="n_embd is missing"):
        open_checkpoint(folder)


TENSORS: list[tuple[str, Callable[[NDArray[Any]], NDArray[Any] | None], str]] = [
    ("transformer.wte.weight", lambda _: None, r"wte\.weight is missing"),
    ("transformer.ln_f.bias", lambda _: None, r"ln_f\.bias is missing"),
    ("transformer.h.0.attn.c_attn.weight", lambda t: t.T.copy(), r"\[72, 24\].*\[24, 72\]"),
    ("transformer.ln_f.weight", lambda t: t.astype(np.int32), "I32; read are F32, F16, BF16"),
    ("transformer.ln_f.weight", lambda t: t.astype(np.float64), "F64"),
]


@pytest.mark.parametrize(("name", "change", "message"), TENSORS)
def test_a_tensor_that_does_not_fit(
    folder: Path,
    name: str,
    change: Callable[[NDArray[Any]], NDArray[Any] | None],
    message: str,
) -> None:
    def apply(tensors: dict[str, NDArray[Any]]) -> None:
        changed = change(tensors.pop(name))
        if changed is not None:
            tensors[name] = changed

    change_tensors(folder, apply)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(folder)


def test_a_tensor_too_many(folder: Path) -> None:
    def add(tensors: dict[str, NDArray[Any]]) -> None:
        tensors["transformer.h.0.attn.rotary"] = np.ones(3, dtype=np.float32)

    change_tensors(folder, add)
    with pytest.raises(CheckpointError, match=r"no tensor transformer\.h\.0\.attn\.rotary"):
        open_checkpoint(folder)


@pytest.mark.parametrize("keep", [0, 3, 8, 200, 5_000, 43_303])
def test_a_truncated_file(folder: Path, keep: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        open_checkpoint(folder)


HEADERS = [
    ("{}", b""),
    ("not json", b""),
    ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 80]}}', b"1234"),
    ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}', b"12345678"),
    ('{"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 8]}}', b"12345678"),
    ('{"a": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}', b"12345678"),
    ('{"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}}', b""),
    ('{"a": 1}', b""),
]


@pytest.mark.parametrize(("header", "data"), HEADERS)
def test_a_malicious_header(folder: Path, header: str, data: bytes) -> None:
    write_header(folder / "model.safetensors", header, data)
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        open_checkpoint(folder)


def test_a_header_longer_than_the_file(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(CheckpointError, match="truncated, damaged or of another kind"):
        open_checkpoint(folder)


class Boom:
    """Would end the test run if it were ever unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return sys.exit, ("unpickled",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_under_another_name_is_refused(folder: Path, protocol: int) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps(Boom(), protocol))
    with pytest.raises(CheckpointError, match="a pickle, whatever its name"):
        open_checkpoint(folder)


def test_the_oldest_pickle_is_refused_too(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps(Boom(), 0))
    with pytest.raises(CheckpointError, match="of another kind"):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pytorch_model.bin", "PyTorch pickle.*never opened.*safetensors first"),
        ("model.pt", "PyTorch pickle"),
        ("model.gguf", "GGUF"),
        ("model.txt", "not a model"),
    ],
)
def test_other_files_are_refused_with_the_reason(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(pickle.dumps(Boom()))
    for place in (tmp_path / name, tmp_path):
        with pytest.raises(CheckpointError) as caught:
            open_checkpoint(place)
        if place.is_file() or name != "model.txt":
            assert caught.match(message)
        else:
            assert caught.match("no model.safetensors")


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such file or folder"):
        open_checkpoint(tmp_path / "absent")


def test_a_tokenizer_larger_than_the_model(folder: Path) -> None:
    from tests.model.small_tokenizer import small_tokenizer

    small_tokenizer().save(str(folder / "tokenizer.json"))
    with pytest.raises(CheckpointError, match=r"tokenizer.json: has \d+ tokens.*vocab_size.*29"):
        open_checkpoint(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer.json: not a tokenizer"):
        open_checkpoint(folder)


@settings(max_examples=80)
@given(st.data())
def test_a_few_changed_bytes_give_a_model_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    shutil.copytree(GOLDEN / "tied", folder, dirs_exist_ok=True)
    path = folder / data.draw(st.sampled_from(["config.json", "model.safetensors"]))
    content = bytearray(path.read_bytes())
    header = min(len(content), 3_000)
    for place in data.draw(st.lists(st.integers(0, header - 1), min_size=1, max_size=3)):
        content[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    path.write_bytes(content)
    said = ""
    try:
        assert open_checkpoint(folder).engine.shape.depth == 2
    except CheckpointError as refusal:
        said = str(refusal)
    assert "\n" not in said
    shutil.rmtree(folder)


@pytest.mark.parametrize(("name", "read"), [("tied", True), ("llama", False)])
def test_the_older_vocabulary_is_read_for_gpt2_only(tmp_path: Path, name: str, read: bool) -> None:
    folder = Path(shutil.copytree(GOLDEN / name, tmp_path / name))
    vocabulary = {letter: index for index, letter in enumerate("abcdefgh")} | {"ab": 8}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\na b\n")
    tokenizer = open_checkpoint(folder).tokenizer
    if read:
        assert tokenizer.encode("abc") == [8, 2]
        assert tokenizer.piece(20).text == "[id 20]"
        (folder / "vocab.json").write_text(json.dumps(vocabulary | {"z": 29}))
        with pytest.raises(CheckpointError, match=r"vocab\.json: has 30 tokens"):
            open_checkpoint(folder)
    else:
        with pytest.raises(UnknownToken, match=r"no tokenizer\.json"):
            tokenizer.encode("abc")
