"""The NumPy engine against the plain loops, and against itself in every other way of running it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.cache import KvCache
from model.decoder import Decoder
from model.engine import Array, Engine, TokenIds
from model.errors import (
    CacheExhausted,
    ContextOverflow,
    EmptyPrompt,
    ShapeMismatch,
    UnknownToken,
)
from model.plain import forward as plain_forward
from model.plain_model import plain_weights
from model.random_model import gpt2_small_shape, llama_blueprint, random_decoder
from model.shape import ModelShape
from model.tiny_engine import TinyEngine
from model.wiring import SOUND, Wiring

# Three heads of 5 in a width of 12, so that nothing may take d_head for d_model / heads.
ODD = ModelShape(
    depth=3,
    model_dim=12,
    num_heads=3,
    head_dim=5,
    mlp_dim=20,
    context_length=24,
    vocabulary=31,
)
LONG = ModelShape(depth=2, model_dim=16, num_heads=2, context_length=300, vocabulary=50)


def odd_decoder(wiring: Wiring = SOUND, *, tied: bool = True) -> Decoder:
    return random_decoder(ODD, seed=3, spread=0.4, tied=tied).rewired(wiring)


def tokens(shape: ModelShape, count: int, batch: int = 1, seed: int = 0) -> TokenIds:
    return np.random.default_rng(seed).integers(0, shape.vocabulary, (batch, count))


def record(decoder: Decoder, ids: TokenIds, cache: KvCache, **options: bool) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for activations in decoder.walk(ids, cache, **options):
        arrays.update(activations.arrays)
    return arrays


def worst(found: Array, wanted: Array) -> float:
    """Largest difference relative to the largest value; -infinity must be in the same places."""
    assert found.shape == wanted.shape
    masked = np.isneginf(wanted)
    assert np.array_equal(np.isneginf(found), masked)
    return float(
        np.abs(np.where(masked, 0, found) - np.where(masked, 0, wanted)).max()
        / np.abs(np.where(masked, 0, wanted)).max()
    )


def test_it_is_an_engine() -> None:
    engine: Engine = odd_decoder()
    assert engine.shape == ODD
    assert engine.dtype == np.float32


@pytest.mark.parametrize("tied", [True, False])
def test_every_operation_agrees_with_the_plain_loops(tied: bool) -> None:
    decoder = odd_decoder(tied=tied)
    ids = tokens(ODD, 20)
    found = record(decoder, ids, decoder.new_cache(), all_logits=True)
    wanted: dict[str, object] = {}
    plain_forward(ids[0].tolist(), plain_weights(decoder), wanted.__setitem__)
    assert set(found) == set(wanted)
    for name, nested in wanted.items():
        difference = worst(found[name], np.array(nested)[np.newaxis])
        assert difference < 2e-5, f"{name}: {difference}"


@pytest.mark.parametrize("count", [1, 127, 128, 129, 257])
def test_blocks_of_queries_leave_no_seam(count: int) -> None:
    decoder = random_decoder(LONG, spread=0.3)
    ids = tokens(LONG, count)
    found = record(decoder, ids, decoder.new_cache(), all_logits=True)
    pattern = found["blocks.1.attn.pattern"]
    q, k = found["blocks.1.attn.q"], found["blocks.1.attn.k"]
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2).astype(np.float64) * LONG.scale
    scores = np.where(np.tri(count, dtype=bool), scores, -math.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(pattern, weights, atol=1e-6)
    assert not pattern[..., ~np.tri(count, dtype=bool)].any()
    np.testing.assert_allclose(
        found["blocks.1.attn.z"], weights @ found["blocks.1.attn.v"], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("window", [1, 50, 128, 200, 299, 300, 400])
def test_windows_and_shared_keys_leave_no_seam_either(window: int) -> None:
    shape = replace(LONG, num_heads=6, kv_heads=2, head_dim=6, windows=(0, window))
    decoder = random_decoder(llama_blueprint(shape), spread=0.3)
    ids = tokens(shape, 300, batch=2)
    found = record(decoder, ids, decoder.new_cache(batch=2), all_logits=True)
    queries, keys = np.indices((300, 300))
    seen = (keys <= queries) & (keys > queries - window)
    q, k = (found[f"blocks.1.attn.rot_{name}"].astype(np.float64) for name in "qk")
    scores = q @ np.repeat(k, 3, axis=1).swapaxes(-1, -2) * shape.scale
    scores = np.where(seen, scores, -math.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    pattern = found["blocks.1.attn.pattern"]
    np.testing.assert_allclose(pattern, weights, atol=1e-6)
    assert not pattern[..., ~seen].any()
    assert np.isneginf(found["blocks.1.attn.scores"][..., ~seen]).all()
    value = np.repeat(found["blocks.1.attn.v"], 3, axis=1)
    np.testing.assert_allclose(found["blocks.1.attn.z"], weights @ value, rtol=1e-4, atol=1e-5)
    cache = decoder.new_cache(batch=2)
    parts = [
        decoder.forward(ids[:, start:end], cache, all_logits=True)
        for start, end in ((0, 141), (141, 142), (142, 299), (299, 300))
    ]
    assert worst(np.concatenate(parts, axis=1), found["logits"]) < decoder.tolerance


@settings(max_examples=25)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 3))
def test_chunks_and_single_tokens_give_what_one_pass_gives(chunks: list[int], batch: int) -> None:
    decoder = odd_decoder()
    count = min(sum(chunks), ODD.context_length)
    ids = tokens(ODD, count, batch)
    whole = decoder.forward(ids, decoder.new_cache(batch=batch), all_logits=True)
    cache = decoder.new_cache(batch=batch)
    parts = []
    for width in chunks:
        chunk = ids[:, cache.length : cache.length + width]
        if chunk.size:
            parts.append(decoder.forward(chunk, cache, all_logits=True))
    assert worst(np.concatenate(parts, axis=1), whole) < decoder.tolerance
    assert cache.length == count


@pytest.mark.parametrize("chunk", [1, 7, 150])
def test_chunks_wider_than_a_block_of_queries(chunk: int) -> None:
    decoder = random_decoder(LONG, spread=0.3)
    ids = tokens(LONG, 300)
    whole = decoder.forward(ids, decoder.new_cache(), all_logits=True)
    cache = decoder.new_cache()
    parts = [
        decoder.forward(ids[:, start : start + chunk], cache, all_logits=True)
        for start in range(0, 300, chunk)
    ]
    assert worst(np.concatenate(parts, axis=1), whole) < decoder.tolerance


def test_a_batch_gives_what_its_rows_give() -> None:
    decoder = odd_decoder()
    ids = tokens(ODD, 9, batch=4)
    together = record(decoder, ids, decoder.new_cache(batch=4), all_logits=True)
    for row in range(4):
        alone = record(decoder, ids[row : row + 1], decoder.new_cache(), all_logits=True)
        for name, array in alone.items():
            assert worst(together[name][row : row + 1], array) < 1e-5, name


@pytest.mark.parametrize("counts", [(1,), (20, 1, 1), (129, 1), (200, 60)])
@pytest.mark.parametrize("all_logits", [False, True])
def test_recording_changes_no_bit(counts: tuple[int, ...], all_logits: bool) -> None:
    decoder = random_decoder(LONG, spread=0.3)
    ids = tokens(LONG, sum(counts), batch=2)
    watched, unwatched = decoder.new_cache(batch=2), decoder.new_cache(batch=2)
    for count in counts:
        chunk = ids[:, watched.length : watched.length + count]
        held = record(decoder, chunk, watched, all_logits=all_logits)
        plain = decoder.forward(chunk, unwatched, all_logits=all_logits)
        assert plain.shape == (2, count if all_logits else 1, LONG.vocabulary)
        assert np.array_equal(held["logits"], plain)
        for layer in range(LONG.depth):
            assert np.array_equal(watched.keys(layer), unwatched.keys(layer))
            assert np.array_equal(watched.values(layer), unwatched.values(layer))


def test_the_order_is_the_same_without_recording_and_the_stream_is_still_there() -> None:
    decoder = odd_decoder()
    ids = tokens(ODD, 6)
    kept = list(decoder.walk(ids, decoder.new_cache()))
    bare = list(decoder.walk(ids, decoder.new_cache(), keep=False))
    assert [a.operation for a in kept] == list(range(len(decoder.operations) - 1))
    assert [a.operation for a in bare] == [a.operation for a in kept]
    for activations in kept:
        assert tuple(activations.arrays) == decoder.operations[activations.operation].outputs
    names = {name for a in bare for name in a.arrays}
    assert names == {f"blocks.{layer}.resid_pre" for layer in range(ODD.depth)} | {"logits"}


def test_the_stream_between_two_blocks_is_one_array_with_two_names() -> None:
    decoder = odd_decoder()
    arrays = record(decoder, tokens(ODD, 6), decoder.new_cache())
    assert arrays["blocks.0.resid_post"] is arrays["blocks.1.resid_pre"]


@pytest.mark.parametrize("wiring", [SOUND, Wiring(lookahead=None), Wiring(scaled=False)])
def test_replaying_a_block_gives_the_same_bits(wiring: Wiring) -> None:
    decoder = random_decoder(LONG, spread=0.3).rewired(wiring)
    ids = tokens(LONG, 216)
    cache = decoder.new_cache()
    passes = []
    for count in (200, 1, 14, 1):  # prefill, decode, a chunk, decode
        first = cache.length
        passes.append((first, record(decoder, ids[:, first : first + count], cache)))
    for first, held in passes:
        for layer in range(LONG.depth):
            stream = held[f"blocks.{layer}.resid_pre"]
            replay = {
                name: array
                for activations in decoder.replay_block(layer, stream, first, cache)
                for name, array in activations.arrays.items()
            }
            assert set(replay) == {
                name
                for operation in decoder.operations
                if operation.layer == layer
                for name in operation.outputs
            }
            for name, array in replay.items():
                assert np.array_equal(array, held[name]), (first, name)


def test_replaying_needs_the_positions_and_the_block() -> None:
    decoder = odd_decoder()
    cache = decoder.new_cache()
    arrays = record(decoder, tokens(ODD, 6), cache)
    stream = arrays["blocks.0.resid_pre"]
    cache.rewind(5)
    with pytest.raises(ShapeMismatch, match="5 positions, not 6"):
        decoder.replay_block(0, stream, 0, cache)
    with pytest.raises(ShapeMismatch, match="no block 3"):
        decoder.replay_block(3, stream[:, :5], 0, cache)
    with pytest.raises(ShapeMismatch, match="12"):
        decoder.replay_block(0, stream[..., :4], 0, cache)


def test_a_step_run_again_from_its_checkpoint_gives_the_same_bits() -> None:
    decoder = odd_decoder()
    ids = tokens(ODD, 12)
    cache = decoder.new_cache()
    decoder.forward(ids[:, :11], cache)
    first = record(decoder, ids[:, 11:], cache)
    cache.rewind(11)
    decoder.forward(np.array([[1]]), cache)  # another token was tried meanwhile
    cache.rewind(11)
    again = record(decoder, ids[:, 11:], cache)
    for name, array in first.items():
        assert np.array_equal(array, again[name]), name


def test_abandoning_a_pass_leaves_the_length() -> None:
    decoder = odd_decoder()
    cache = decoder.new_cache()
    decoder.forward(tokens(ODD, 5), cache)
    keys = cache.keys(0).copy()
    walk = decoder.walk(tokens(ODD, 2, seed=1), cache)
    for _ in range(len(decoder.operations) - 2):
        next(walk)
        assert cache.length == 5
    assert np.array_equal(cache.keys(0), keys)
    assert "logits" in next(walk).arrays
    assert cache.length == 7


def test_everything_is_float32_and_read_only() -> None:
    decoder = odd_decoder()
    cache = decoder.new_cache()
    for ids in (tokens(ODD, 5), tokens(ODD, 1)):
        for name, array in record(decoder, ids, cache).items():
            assert array.dtype == np.float32, name
            assert not array.flags.writeable, name


def test_recorded_arrays_are_never_written_again() -> None:
    decoder = odd_decoder()
    cache = decoder.new_cache()
    ids = tokens(ODD, 9)
    at_once: dict[str, Array] = {}
    held: dict[str, Array] = {}
    for activations in decoder.walk(ids[:, :8], cache):
        for name, array in activations.arrays.items():
            held[name], at_once[name] = array, array.copy()
    cache.rewind(3)
    decoder.forward(ids[:, :5], cache)
    for name, array in held.items():
        assert np.array_equal(array, at_once[name]), name


def test_parameters_count_a_tied_table_once() -> None:
    assert random_decoder(LONG).parameters + 50 * 16 == random_decoder(LONG, tied=False).parameters
    assert gpt2_small_shape().vocabulary == 50257


# -- refusals ----------------------------------------------------------------------------------


REFUSED: list[tuple[Callable[[Decoder, KvCache], object], type[Exception], str]] = [
    (lambda d, c: d.walk(tokens(ODD, 0), c), EmptyPrompt, "empty"),
    (lambda d, c: d.walk(np.array([[1, 31]]), c), UnknownToken, "31.*0 to 30"),
    (lambda d, c: d.walk(np.array([[1, -1]]), c), UnknownToken, "-1"),
    (lambda d, c: d.walk(np.array([1, 2]), c), ShapeMismatch, "batch, pos"),
    (lambda d, c: d.walk(tokens(ODD, 2, batch=2), c), ShapeMismatch, "batch of 2"),
    (lambda d, c: d.walk(tokens(ODD, 25), c), ContextOverflow, "25 tokens.*24"),
    (lambda d, c: d.new_cache(25), ContextOverflow, "25.*24"),
    (lambda d, c: d.new_cache(0), ShapeMismatch, "at least 1"),
    (lambda d, c: d.walk(tokens(ODD, 2), TinyEngine().new_cache()), ShapeMismatch, "TinyCache"),
]


@pytest.mark.parametrize(("attempt", "error", "message"), REFUSED)
def test_refusals_name_both_numbers(
    attempt: Callable[[Decoder, KvCache], object], error: type[Exception], message: str
) -> None:
    decoder = odd_decoder()
    cache = decoder.new_cache()
    with pytest.raises(error, match=message):
        attempt(decoder, cache)
    assert cache.length == 0


def test_decoding_past_the_capacity_keeps_what_is_there() -> None:
    decoder = odd_decoder()
    cache = decoder.new_cache(4)
    decoder.forward(tokens(ODD, 4), cache)
    with pytest.raises(CacheExhausted, match=r"position 4 .* capacity is 4"):
        decoder.forward(tokens(ODD, 1), cache)
    assert cache.length == 4


# -- deliberate faults -------------------------------------------------------------------------


def test_lookahead_one_sees_one_later_key_and_none_sees_all() -> None:
    for lookahead, count in ((1, 20), (None, 20), (1, 200), (None, 200)):
        shape = ODD if count == 20 else LONG
        decoder = random_decoder(shape, seed=3, spread=0.3).rewired(Wiring(lookahead=lookahead))
        pattern = record(decoder, tokens(shape, count), decoder.new_cache())[
            "blocks.0.attn.pattern"
        ]
        later = np.arange(count)[np.newaxis, :] - np.arange(count)[:, np.newaxis]
        seen = later <= (count if lookahead is None else lookahead)
        assert np.array_equal(pattern[0, 0] > 0, seen)
        np.testing.assert_allclose(pattern.sum(axis=-1), 1, atol=1e-5)


def test_restarted_positions_differ_from_the_cache_length_only_in_decode() -> None:
    sound, wrong = odd_decoder(), odd_decoder(Wiring(restart_positions=True))
    ids = tokens(ODD, 6)
    caches = sound.new_cache(), wrong.new_cache()
    assert np.array_equal(
        sound.forward(ids[:, :5], caches[0]), wrong.forward(ids[:, :5], caches[1])
    )
    held = record(wrong, ids[:, 5:], caches[1])
    assert wrong.weights.position is not None
    assert sound.weights.position is not None
    assert np.array_equal(held["pos_embed"][0, 0], wrong.weights.position[0])
    held = record(sound, ids[:, 5:], caches[0])
    assert np.array_equal(held["pos_embed"][0, 0], sound.weights.position[5])


def test_a_stale_cache_overwrites_the_newest_row_and_keeps_what_its_own_held() -> None:
    decoder = odd_decoder(Wiring(stale_cache=True))
    ids = tokens(ODD, 6)
    cache = decoder.new_cache()
    decoder.forward(ids[:, :5], cache)
    before = cache.keys(0).copy()
    held = record(decoder, ids[:, 5:], cache)
    after = cache.keys(0)
    assert cache.length == 6
    assert np.array_equal(after[:, :, :4], before[:, :, :4])
    assert np.array_equal(after[:, :, 4], held["blocks.0.attn.k"][:, :, 0])
    assert not np.array_equal(after[:, :, 4], before[:, :, 4])
    assert not after[:, :, 5].any()  # never written: still the zeros that it was made with


def test_without_the_scale_scores_grow_by_the_root_of_the_head_width() -> None:
    ids = tokens(ODD, 6)
    sound, wrong = odd_decoder(), odd_decoder(Wiring(scaled=False))
    name = "blocks.0.attn.scores"
    scaled = record(sound, ids, sound.new_cache())[name]
    unscaled = record(wrong, ids, wrong.new_cache())[name]
    assert worst(unscaled, scaled * np.float32(math.sqrt(ODD.head_dim))) < 1e-5


def test_one_nan_shows_first_in_the_second_blocks_mlp_and_leaves_the_original() -> None:
    decoder = odd_decoder()
    poisoned = decoder.poisoned()
    first = next(
        name
        for name, array in record(poisoned, tokens(ODD, 6), poisoned.new_cache()).items()
        if np.isnan(array).any()
    )
    assert first == "blocks.1.mlp.pre"
    assert poisoned.rewired(Wiring(lookahead=1)).weights is poisoned.weights
    assert np.isfinite(decoder.forward(tokens(ODD, 6), decoder.new_cache())).all()


def test_the_callers_own_numpy_settings_are_left_alone() -> None:
    decoder = odd_decoder().poisoned()
    with np.errstate(invalid="raise"):
        for _ in decoder.walk(tokens(ODD, 3), decoder.new_cache()):
            assert np.geterr()["invalid"] == "raise"
