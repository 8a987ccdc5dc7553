"""The figures of a long session and of opening a file: complete, and of the right things."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from decoder_gui.arguments import parse
from decoder_gui.bench.opening import measure_opening, naive_weights
from decoder_gui.bench.processes import measured
from decoder_gui.bench.shapes import NAMES, RANDOM, loaded_of
from model.checkpoints import open_checkpoint
from model.decoder import Decoder
from model.errors import CheckpointError
from tests.model.gguf_files import convert

GOLDEN = Path(__file__).parent / "model" / "golden"


def test_a_long_session_tells_its_memory_and_a_look_into_every_block() -> None:
    found = measured("decoder_gui.bench.memory", "stories", "70", "9")
    assert 0 < found["trace_mb"] < found["extra_mb"] < 512
    assert set(found["looks"]) == {"attention", "mlp", "token"}
    depth = loaded_of("stories").engine.shape.depth
    for times in found["looks"].values():
        assert len(times) == depth
        assert all(time > 0 for time in times)


def test_the_obvious_way_reads_the_same_weights(tmp_path: Path) -> None:
    file = tmp_path / "qwen2.gguf"
    convert(GOLDEN / "qwen2", file)
    ours, theirs = open_checkpoint(file).engine, naive_weights(file)
    assert isinstance(ours, Decoder)
    block = ours.weights.blocks[1]
    np.testing.assert_array_equal(block.down_weight, theirs["blk.1.ffn_down.weight"])
    np.testing.assert_array_equal(ours.weights.embedding, theirs["token_embd.weight"])
    fused = [theirs[f"blk.1.attn_{part}.weight"] for part in "qkv"]
    np.testing.assert_array_equal(block.qkv_weight, np.concatenate(fused, axis=1))


def test_opening_a_file_is_timed_against_the_obvious_way(tmp_path: Path) -> None:
    file = tmp_path / "llama.gguf"
    convert(GOLDEN / "llama", file)
    said: list[str] = []
    figures = measure_opening(file, 2, said.append)
    assert all(value > 0 for value in asdict(figures).values())
    assert figures.gguf_weights_share < 1
    assert figures.gguf_read_mb == round(file.stat().st_size / 1e6, 1)
    assert len(said) == 3
    with pytest.raises(CheckpointError, match=r"nothing\.gguf"):
        measure_opening(tmp_path / "nothing.gguf", 1, said.append)


def test_the_command_line_takes_every_shape_and_a_file() -> None:
    for name in NAMES:
        assert parse(["bench", "--shape", name]).shape == name
    assert parse(["bench", "--gguf", "a.gguf"]).gguf == Path("a.gguf")
    assert set(RANDOM) < set(NAMES)
