"""The figures of a long session and of opening a file: complete, and of the right things."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from decoder_gui.arguments import parse
from decoder_gui.bench import against_transformers as against
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
    assert set(found["looks"]) == {"pattern", "attention", "mlp", "token"}
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


class FakeSide:
    """Answers with the milliseconds of a list, and remembers what it was asked."""

    def __init__(self, times: dict[str, float]) -> None:
        self.times = times
        self.asked: list[str] = []

    def ask(self, name: str) -> tuple[float, float]:
        self.asked.append(name)
        return self.times.get(name, 1.0), 2 * self.times.get(name, 1.0)


def test_the_engine_beside_transformers_is_compared_pair_by_pair() -> None:
    left, right = FakeSide({"recorded": 3.0}), FakeSide({"recorded": 4.0, "token": 8.0})
    rows = against.compare(left, right, 2)
    assert [(row.ours, row.theirs) for row in rows] == list(against.PAIRS)
    assert rows[0].ratio == rows[0].processor_ratio == 0.75
    assert (rows[-1].our_ms, rows[-1].their_ms, rows[-1].ratio) == (1.0, 8.0, 0.125)
    tokens = 3 * (against.TOKENS + 1)
    assert left.asked.count("token") == right.asked.count("token") == tokens
    assert left.asked.count("before token") == 3


def test_our_side_does_what_its_names_say() -> None:
    tokens = [1, 2, 3, 4, 5, 6, 7]
    works = against.ours(GOLDEN / "gpt2_split", tokens, 1)
    engine = open_checkpoint(GOLDEN / "gpt2_split").engine
    expected = engine.forward(np.array([tokens]), engine.new_cache(7))[0, -1]
    np.testing.assert_array_equal(works["logits"](), expected)
    works["recorded"]()
    works["before token"]()
    works["token"]()
    works["token"]()
