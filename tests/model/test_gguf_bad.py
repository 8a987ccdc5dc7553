"""GGUF files that lie: one sentence with the file and the field, little memory, no hang."""

from __future__ import annotations

import os
import re
import struct
import tempfile
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.checkpoints import open_checkpoint
from model.errors import CheckpointError
from tests.model.gguf_files import BYTE_LEVEL, SENTENCE_PIECE, TOKENS, small_tensors, write_small


def refusal(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(path)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(path) in sentence
    return sentence


def test_a_sound_file_opens(tmp_path: Path) -> None:
    for tokenizer in (BYTE_LEVEL, SENTENCE_PIECE):
        loaded = open_checkpoint(write_small(tmp_path / "a.gguf", tokenizer))
        assert loaded.engine.shape.kv_heads == 1
        assert loaded.tokenizer.front_ids == (0,)
        assert loaded.tokenizer.piece(6).text == "[id 6]"


# ---- what the metadata and the tensors say


METADATA_LIES: list[tuple[dict[str, Any], str]] = [
    ({"general.architecture": "falcon"}, "architecture is 'falcon'; read are gpt2, llama"),
    ({"block_count": None}, "llama.block_count is missing"),
    ({"block_count": 0}, "llama.block_count must lie in 1 to"),
    ({"block_count": "1"}, "llama.block_count must be a whole number, not '1'"),
    ({"block_count": True}, "llama.block_count must be a whole number, not True"),
    ({"block_count": 2}, "tensor blk.1.attn_norm.weight is missing"),
    ({"block_count": 4_000_000_000}, "llama.block_count must lie in"),
    ({"block_count": 100_000}, "llama.block_count is 100000; at most"),
    ({"context_length": None}, "llama.context_length is missing"),
    ({"embedding_length": 16}, "output_norm.weight has shape|token_embd.weight has shape"),
    ({"feed_forward_length": 8}, r"ffn_gate.weight has shape \[12, 8\].*\[8, 8\]"),
    ({"attention.head_count": 3}, "sizes do not fit together"),
    ({"attention.head_count_kv": 2}, r"attn_k.weight has shape \[4, 8\].*\[8, 8\]"),
    ({"attention.head_count": [2]}, "head_count must be a whole number, not an array"),
    ({"attention.layer_norm_rms_epsilon": None}, "layer_norm_rms_epsilon is missing"),
    ({"attention.layer_norm_rms_epsilon": float("nan")}, "rms_epsilon must be a number up to"),
    ({"attention.layer_norm_rms_epsilon": -1.0}, "rms_epsilon must lie in 0 to 1"),
    ({"attention.key_length": 4, "attention.value_length": 8}, "value_length is 8 and key_length"),
    ({"rope.freq_base": float("inf")}, "rope.freq_base must be a number up to"),
    ({"rope.freq_base": 1.0}, "base of rotary positions must be above 1"),
    ({"rope.dimension_count": 3}, "turned in pairs"),
    ({"rope.dimension_count": 8}, "cannot be turned"),
    ({"rope.scaling.type": "longrope"}, "scaling.type is 'longrope'; read are"),
    ({"rope.scaling.type": "linear"}, "scaling.factor is missing"),
    ({"rope.scaling.type": "linear", "rope.scaling.factor": 0.0}, "factor must be at least 1"),
    (
        {"rope.scaling.type": "yarn", "rope.scaling.attn_factor": 2.0},
        "scaling.attn_factor changes the positions",
    ),
    (
        {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 2.0,
            "rope.scaling.yarn_beta_slow": 0.0,
        },
        "yarn_beta_slow is 0.0",
    ),
    ({"expert_count": 8}, "expert_count: a mixture of experts"),
    ({"split.count": 3}, "split.count is 3; only whole models"),
    ({"general.alignment": 0}, "general.alignment must lie in 1"),
    ({"tokenizer.ggml.model": "bert"}, "tokenizer.ggml.model is 'bert'"),
    ({"tokenizer.ggml.pre": "unheard"}, "tokenizer.ggml.pre is 'unheard'; read are"),
    ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens is missing"),
    ({"tokenizer.ggml.tokens": [1, 2]}, "tokens must be an array of strings"),
    ({"tokenizer.ggml.tokens": [*TOKENS, "e"]}, "tokens has 9 entries, and the embedding 8 rows"),
    ({"tokenizer.ggml.tokens": [*TOKENS[:7], "e" * 2000]}, r"tokens\[7\] has 2000 characters"),
    ({"tokenizer.ggml.token_type": [1]}, "token_type has 1 entries, and 8 are needed"),
    ({"tokenizer.ggml.merges": None}, "merges is missing"),
    ({"tokenizer.ggml.merges": ["a b", "ab"]}, r"merges\[1\] must be two tokens"),
    ({"tokenizer.ggml.merges": ["a b c"]}, r"merges\[0\] must be two tokens"),
    ({"tokenizer.ggml.merges": ["a c"]}, "not a tokenizer that can be read"),
    ({"tokenizer.ggml.bos_token_id": 8}, "bos_token_id is 8, and tokenizer.ggml.tokens has 8"),
    ({"tokenizer.ggml.add_bos_token": 1}, "add_bos_token must be true or false, not 1"),
    (SENTENCE_PIECE | {"tokenizer.ggml.scores": None}, "scores is missing"),
    (SENTENCE_PIECE | {"tokenizer.ggml.scores": [1.0]}, "scores has 1 entries"),
    (SENTENCE_PIECE | {"tokenizer.ggml.scores": [float("nan")] * 8}, r"scores\[0\] is NaN"),
]


@pytest.mark.parametrize(("fields", "message"), METADATA_LIES)
def test_metadata_that_lie(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    fields = dict(fields)
    architecture = fields.pop("general.architecture", "llama")
    path = write_small(tmp_path / "a.gguf", fields, architecture=architecture)
    assert re.search(message, refusal(path))


TENSOR_LIES: list[tuple[dict[str, tuple[int, ...] | None], str]] = [
    ({"token_embd__weight": None}, "token_embd.weight is missing"),
    ({"output_norm__weight": None}, "output_norm.weight is missing"),
    ({"blk__0__attn_v__weight": None}, "blk.0.attn_v.weight is missing"),
    ({"blk__0__ffn_down__weight": (12, 8)}, r"ffn_down.weight has shape \[12, 8\].*\[8, 12\]"),
    ({"blk__0__ffn_norm__weight": (8, 1)}, r"ffn_norm.weight has shape \[8, 1\]"),
    ({"blk__0__attn_rot__weight": (8,)}, "no tensor blk.0.attn_rot.weight"),
    ({"rope_freqs__weight": (3,)}, "rope_freqs.weight must hold 2 numbers from"),
]


@pytest.mark.parametrize(("changed", "message"), TENSOR_LIES)
def test_tensors_that_lie(
    tmp_path: Path, changed: dict[str, tuple[int, ...] | None], message: str
) -> None:
    path = write_small(tmp_path / "a.gguf", arrays=small_tensors(**changed))
    assert re.search(message, refusal(path))


# ---- what the header says, byte by byte


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def field(key: bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def entry(
    name: bytes = b"t", sizes: tuple[int, ...] = (8,), kind: int = 0, offset: int = 0
) -> bytes:
    shape = struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
    return text(name) + shape + struct.pack("<IQ", kind, offset)


def file_of(
    *parts: bytes,
    fields: int = 0,
    entries: int = 0,
    magic: bytes = b"GGUF",
    version: int = 3,
    data: int = 256,
) -> bytes:
    start = magic + struct.pack("<IQQ", version, entries, fields) + b"".join(parts)
    return start + bytes(-len(start) % 32) + bytes(data)


HUGE = struct.pack("<Q", 2**62)
HEADERS: list[tuple[bytes, str]] = [
    (b"", "does not begin with GGUF"),
    (b"GGU", "does not begin with GGUF"),
    (file_of(magic=b"GGML"), "does not begin with GGUF"),
    (file_of(version=1), "GGUF version 1"),
    (file_of(version=99), "GGUF version 99"),
    (file_of(version=3 << 24), "big-endian"),
    (file_of(entries=2**60), "the number of tensors takes"),
    (file_of(fields=2**60), "the number of metadata fields takes"),
    (file_of(entries=2**17, data=33 * 2**17), "at most 65536 are read"),
    (file_of(HUGE, fields=1), "name of metadata field 0 would be"),
    (file_of(struct.pack("<Q", 999), fields=1), "name of metadata field 0 takes 999 bytes"),
    (file_of(field(b"\xff", 0, b"1"), fields=1), "name of metadata field 0 is not UTF-8"),
    (file_of(field(b"k", 0, b"1"), field(b"k", 0, b"1"), fields=2), "field k is there twice"),
    (file_of(field(b"k", 77, b""), fields=1), "k holds values of the type 77"),
    (file_of(field(b"k", 8, HUGE), fields=1), "k takes 4611686018427387904 bytes"),
    (
        file_of(field(b"k", 9, struct.pack("<I", 9) + HUGE), fields=1),
        "k holds values of the type 9",
    ),
    (file_of(field(b"k", 9, struct.pack("<I", 0) + HUGE), fields=1), "k takes 46116"),
    (file_of(field(b"k", 9, struct.pack("<I", 12) + HUGE), fields=1), "k takes 36893"),
    (file_of(field(b"k", 9, struct.pack("<I", 8) + HUGE), fields=1), "the length of k takes"),
    (
        file_of(field(b"k", 9, struct.pack("<IQ", 8, 2) + text(b"x") + HUGE), fields=1),
        r"k\[1\] is longer than the file",
    ),
    (
        file_of(field(b"k", 9, struct.pack("<IQ", 8, 2) + text(b"x") + text(b"\xff")), fields=1),
        r"k\[1\] is not UTF-8",
    ),
    (
        file_of(field(b"k", 9, struct.pack("<IQ", 8, 2**20 + 1)), fields=1, data=2**23 + 64),
        "at most 1048576 are read",
    ),
    (
        file_of(field(b"general.alignment", 4, struct.pack("<I", 24)), fields=1),
        "alignment must be a power of two, not 24",
    ),
    (file_of(field(b"general.alignment", 8, text(b"32")), fields=1), "alignment must be a whole"),
    (file_of(entry(sizes=()), entries=1), "t has 0 axes"),
    (file_of(entry(b"a\n\x1b[2Jb", ()), entries=1), "a��.2Jb has 0 axes"),
    (file_of(entry(b"n" * 30_000, ()), entries=1), "n{1000}…$"),
    (file_of(entry(sizes=(1, 1, 1, 1, 8)), entries=1), "t has 5 axes"),
    (file_of(entry(sizes=(0,)), entries=1), r"t has the shape \[0\]"),
    (file_of(entry(sizes=(2**62, 2**62)), entries=1), "t has the shape"),
    (file_of(entry(sizes=(2**31 - 1, 2**31 - 1)), entries=1), "truncated: t would end at byte"),
    (file_of(entry(sizes=(65,)), entries=1), "truncated: t would end at byte"),
    (file_of(entry(kind=9999), entries=1), "t is stored as the unknown type 9999"),
    (file_of(entry(kind=26), entries=1), "t is stored as I32, which is not read"),
    (file_of(entry(sizes=(40,), kind=2), entries=1), "a row of t has 40 values, no multiple of"),
    (file_of(entry(offset=8), entries=1), "offset of t is 8, no multiple of 32"),
    (file_of(entry(offset=2**62), entries=1), "truncated: t would end"),
    (file_of(entry(), entry(), entries=2), "tensor t is there twice"),
    (
        file_of(entry(sizes=(16,)), entry(b"u", offset=32), entries=2),
        "the data of t and u overlap",
    ),
    (file_of(entry(), entries=1), "general.architecture is missing"),
]


@pytest.mark.parametrize(("content", "message"), HEADERS)
def test_headers_that_lie(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        assert re.search(message, refusal(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(content) + 4_000_000  # what is imported on the way takes some


@cache
def sound(sentence_piece: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write_small(
            Path(folder) / "a.gguf", SENTENCE_PIECE if sentence_piece else BYTE_LEVEL
        ).read_bytes()


def test_truncated_anywhere(tmp_path: Path) -> None:
    content, path = sound(False), tmp_path / "a.gguf"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"a\.gguf: "):
            open_checkpoint(path)


@settings(max_examples=300)
@given(st.data())
def test_a_few_changed_bytes_give_a_model_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(sound(data.draw(st.booleans())))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
        content[place : place + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    path = tmp_path_factory.getbasetemp() / "changed.gguf"
    path.write_bytes(content)
    said = ""
    try:
        loaded = open_checkpoint(path)
        loaded.tokenizer.pieces(range(12))
    except CheckpointError as refused:
        said = str(refused)
    assert "\n" not in said


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.gguf")
    with pytest.raises(CheckpointError, match="not a regular file"):
        open_checkpoint(tmp_path)


def test_a_pickle_or_a_folder_without_a_model_is_no_gguf_file(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"\x80\x04N.")
    assert "does not begin with GGUF" in refusal(tmp_path / "a.gguf")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="no GGUF file in this folder"):
        open_checkpoint(tmp_path / "empty")
