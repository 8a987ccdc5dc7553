"""What a model will need is known from its headers, and what will not fit is refused in time."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from model.blueprint import Blueprint
from model.byte_counts import format_bytes
from model.checkpoints import finish, opening
from model.checkpoints.estimate import (
    CACHE_MOST,
    FLOAT32,
    KEPT_FREE,
    Needs,
    Reading,
    available_memory,
    default_capacity,
    require_cache,
    require_memory,
)
from model.decoder import Decoder
from model.errors import NotEnoughMemory
from model.shape import ModelShape
from tests.model.gguf_files import convert

GOLDEN = Path(__file__).parent / "golden"
FOLDERS = sorted(path for path in GOLDEN.iterdir() if (path / "config.json").exists())


def needs_of(context: int) -> Needs:
    """A model whose cache takes 16 KiB a position."""
    shape = ModelShape(
        depth=4, model_dim=512, num_heads=8, context_length=context, vocabulary=1000, mlp_dim=512
    )
    return Needs("it", "any", shape, 1_000_000, 4_000_000, 1_000_000)


def saying(text: str, *_: object, **__: object) -> str:
    return text


def read_nothing(*_: object) -> None:
    raise AssertionError("a weight was read")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_needs_come_before_any_weight_and_are_right(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("model.checkpoints.safetensors_folder.read_tensor", read_nothing)
        steps = opening(folder)
        needs = next(steps)
        steps.close()
    assert isinstance(needs, Needs)
    loaded = finish(opening(folder))
    engine = loaded.engine
    assert isinstance(engine, Decoder)
    assert needs.parameters == engine.parameters
    assert needs.weight_bytes == FLOAT32 * engine.parameters
    assert needs.shape == engine.shape
    assert (needs.name, needs.family) == (loaded.name, loaded.family)
    cache = engine.new_cache()
    assert needs.cache_bytes(cache.capacity) == cache.bytes_reserved


def test_a_gguf_file_says_the_same(tmp_path: Path) -> None:
    convert(GOLDEN / "llama", tmp_path / "llama.gguf")
    of_file, of_folder = next(opening(tmp_path / "llama.gguf")), next(opening(GOLDEN / "llama"))
    assert isinstance(of_file, Needs)
    assert isinstance(of_folder, Needs)
    assert of_file.parameters == of_folder.parameters
    assert of_file.shape == of_folder.shape


def test_progress_names_every_weight_and_counts_every_byte() -> None:
    needs, *readings = opening(GOLDEN / "llama")
    assert isinstance(needs, Needs)
    done = [reading.done for reading in readings if isinstance(reading, Reading)]
    assert len(done) == len(readings) == len({r.tensor for r in readings if isinstance(r, Reading)})
    assert done == sorted(done)
    assert done[0] == 0
    assert all(r.total == needs.weight_bytes for r in readings if isinstance(r, Reading))


def test_an_opening_that_is_stopped_reads_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = opening(GOLDEN / "llama")
    assert isinstance(next(steps), Needs)
    assert isinstance(next(steps), Reading)
    monkeypatch.setattr("model.checkpoints.safetensors_folder.read_tensor", read_nothing)
    steps.close()
    with pytest.raises(StopIteration):
        next(steps)


@pytest.mark.parametrize(
    ("context", "available", "capacity"),
    [
        (1024, None, 1024),
        (1024, 2**40, 1024),
        (131_072, None, CACHE_MOST // 2**14),
        (131_072, 2**40, CACHE_MOST // 2**14),
        (131_072, 4_000_000 + 8 * 1000 * 2**14, 512),
        (1000, 4_000_000 + 8 * 1000 * 2**14, 1000),
        (1024, 4_000_000, 1),
        (1024, 0, 1),
    ],
)
def test_a_context_nobody_asked_for(context: int, available: int | None, capacity: int) -> None:
    needs = needs_of(context)
    assert needs.cache_bytes(1) == 2**14
    assert default_capacity(needs, available) == capacity


def test_what_will_not_fit_is_refused_with_the_numbers() -> None:
    needs = needs_of(1024)
    wanted = 5_000_000 + 1024 * 2**14 + KEPT_FREE
    require_memory(needs, 1024, None)
    require_memory(needs, 1024, wanted)
    with pytest.raises(NotEnoughMemory) as refusal:
        require_memory(needs, 1024, wanted - 1)
    words = str(refusal.value)
    for number in (wanted, wanted - 1, needs.weight_bytes, needs.largest_bytes, 2**24, KEPT_FREE):
        assert format_bytes(number) in words
    assert "1,024 positions" in words


def test_a_larger_cache_than_memory_is_refused() -> None:
    shape = needs_of(1024).shape
    require_cache(shape, 1024, None)
    require_cache(shape, 1024, 2**24)
    with pytest.raises(NotEnoughMemory, match=r"1,024 positions needs 16\.0 MiB of cache"):
        require_cache(shape, 1024, 2**24 - 1)


def test_memory_that_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[str, int | None] = {
        "MemTotal:  999 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n": 2048 * 1024
    }
    said |= dict.fromkeys(("", "MemAvailable: lots kB", "MemAvailable:"))
    for text, size in said.items():
        monkeypatch.setattr(Path, "read_text", partial(saying, text))
        assert available_memory() == size


def test_the_words_state_parameters_weights_and_cache() -> None:
    shape = ModelShape(2, 8, 2, 16, 10)
    needs = Needs.of("it", "any", Blueprint(shape))
    assert needs.sentence(16) == (
        f"{needs.parameters:,} parameters, {format_bytes(4 * needs.parameters)} of weights, "
        "2.0 KiB of cache for 16 positions"
    )
