"""Edits of a pass, against the plain loops with the same numbers written over by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.ablation import Edit, Patch, ZeroHead, ZeroMlp, describe
from model.checks import Subject, run_checks
from model.decoder import Decoder
from model.engine import Array, Engine, TokenIds
from model.errors import EditNotPossible
from model.faults import apply_faults
from model.plain import forward as plain_forward
from model.plain_model import plain_weights
from model.random_model import llama_blueprint, random_decoder
from model.shape import ModelShape
from model.tiny_engine import TinyEngine
from model.wiring import Wiring

ODD = ModelShape(
    depth=3,
    model_dim=12,
    num_heads=3,
    head_dim=5,
    mlp_dim=20,
    context_length=24,
    vocabulary=31,
)
IDS = tuple(int(token) for token in np.random.default_rng(0).integers(0, 31, 9))

Change = Callable[[str, Any], None]


def odd() -> Decoder:
    return random_decoder(ODD, seed=3, spread=0.4)


def rotary() -> Decoder:
    shape = replace(ODD, num_heads=6, kv_heads=2, head_dim=4, mlp_dim=16)
    return random_decoder(llama_blueprint(shape), seed=5, spread=0.3)


def batch(ids: Sequence[int]) -> TokenIds:
    return np.array([list(ids)])


def run(engine: Engine, ids: Sequence[int], chunks: Sequence[int] = ()) -> list[dict[str, Array]]:
    """All arrays of each chunk; ``chunks`` are where a new one begins."""
    cache = engine.new_cache()
    bounds = [0, *chunks, len(ids)]
    passes = []
    for start, stop in pairwise(bounds):
        arrays: dict[str, Array] = {}
        for activations in engine.walk(batch(ids[start:stop]), cache, all_logits=True):
            arrays.update(activations.arrays)
        passes.append(arrays)
    return passes


def same_as_plain(decoder: Decoder, edits: Sequence[Edit], change: Change) -> None:
    """Every array of the edited engine is that of the plain loops with ``change`` in them."""
    held: dict[str, Any] = {}

    def record(name: str, array: Any) -> None:
        change(name, array)
        held[name] = np.array(array)

    plain_forward(IDS, plain_weights(decoder), record)
    (found,) = run(decoder.with_edits(edits), IDS)
    for name, wanted in held.items():
        seen = found[name][0]
        masked = np.isneginf(wanted)
        assert np.array_equal(np.isneginf(seen), masked)
        np.testing.assert_allclose(seen[~masked], wanted[~masked], rtol=2e-4, atol=2e-5)


def test_a_zeroed_head_is_what_the_plain_loops_make_of_it() -> None:
    def change(name: str, array: Any) -> None:
        if name == "blocks.1.attn.z":
            array[2][:] = [[0.0] * 5 for _ in array[2]]

    same_as_plain(odd(), [ZeroHead(1, 2)], change)


def test_an_mlp_zeroed_from_a_position_on() -> None:
    def change(name: str, array: Any) -> None:
        if name == "blocks.0.mlp.out":
            array[4:] = [[0.0] * 12 for _ in array[4:]]

    same_as_plain(odd(), [ZeroMlp(0, first=4)], change)


@pytest.mark.parametrize(
    "name",
    ["attn.z", "resid_mid", "ln2", "mlp.pre", "mlp.post", "mlp.out"],
)
def test_any_activation_patched_at_two_positions(name: str) -> None:
    decoder = odd()
    (clean,) = run(decoder, (*IDS[:-4], 1, 2, 3, 4))
    full = f"blocks.1.{name}"
    values = clean[full][0][..., [6, 8], :]

    def change(seen: str, array: Any) -> None:
        if seen == full:
            heads = array if name.startswith("attn.") else [array]
            for rows, new in zip(heads, values if heads is array else [values], strict=True):
                for position, row in zip((6, 8), new.tolist(), strict=True):
                    rows[position][:] = row

    same_as_plain(decoder, [Patch(full, (6, 8), values)], change)


@pytest.mark.parametrize("make", [odd, rotary, TinyEngine])
def test_a_patch_is_what_is_recorded_and_what_is_read(make: Callable[[], Engine]) -> None:
    """A patch of every array that can be had: the arrays before it stay, it shows, others move."""
    engine = make()
    ids = IDS[:6] if engine.shape.vocabulary > 4 else (0, 1, 2)
    other = tuple((token + 1) % engine.shape.vocabulary for token in ids)
    (clean,), (foreign,) = run(engine, ids), run(engine, other)
    position = len(ids) - 2
    names = [n for o in engine.operations for n in o.outputs if o.kind != "embed"]
    for name in [*names, "blocks.0.resid_pre"]:
        values = foreign[name][0][..., [position], :]
        patch = Patch(name, (position,), values)
        (found,) = run(engine.with_edits([patch]), ids)
        row = found[name][0][..., position, :]
        width = position + 1 if name.endswith(("scores", "pattern")) else row.shape[-1]
        assert np.array_equal(row[..., :width], values[..., 0, :width])
        made = next(i for i, o in enumerate(engine.operations) if name in o.outputs)
        for operation in engine.operations[:made]:
            for before in operation.outputs:
                assert np.array_equal(found[before], clean[before])
        assert np.array_equal(found[name][0][..., :position, :], clean[name][0][..., :position, :])
        if not name.endswith("logits"):
            assert not np.array_equal(found["logits"], clean["logits"]), name


@pytest.mark.parametrize("make", [odd, rotary, TinyEngine])
def test_edits_act_on_absolute_positions_however_a_sequence_is_cut(
    make: Callable[[], Engine],
) -> None:
    engine = make()
    ids = IDS if engine.shape.vocabulary > 4 else (0, 1, 2, 3)
    split = len(ids) // 2
    (clean,) = run(engine, ids)
    resid = "blocks.0.resid_post"
    edits: list[Edit] = [
        ZeroHead(0, 0, first=1),
        Patch(resid, (split - 1, split), clean[resid][0][:2]),
    ]
    edited = engine.with_edits(edits)
    (whole,) = run(edited, ids)
    pieces = run(edited, ids, [split])
    last = run(edited, ids, list(range(1, len(ids))))
    for name, array in whole.items():
        for part, rows in ((pieces[1], slice(split, None)), (last[-1], slice(-1, None))):
            np.testing.assert_allclose(part[name], array[..., rows, :], rtol=3e-4, atol=3e-5)
    assert not np.any(whole["blocks.0.attn.z"][:, 0, 1:])
    assert np.array_equal(whole["blocks.0.attn.z"][:, 0, 0], clean["blocks.0.attn.z"][:, 0, 0])


@pytest.mark.parametrize("make", [odd, rotary])
def test_an_edited_pass_makes_the_same_bits_when_nothing_is_kept(
    make: Callable[[], Engine],
) -> None:
    engine = make()
    (clean,) = run(engine, IDS)
    pattern = "blocks.0.attn.pattern"
    edited = engine.with_edits(
        [Patch(pattern, (3,), np.roll(clean[pattern][0][..., [3], :], 1, axis=0)), ZeroMlp(1)]
    )
    (whole,) = run(edited, IDS)
    logits = edited.forward(batch(IDS), edited.new_cache(), all_logits=True)
    assert np.array_equal(logits, whole["logits"])
    assert not np.array_equal(logits, clean["logits"])


@pytest.mark.parametrize("make", [odd, rotary, TinyEngine])
def test_a_replayed_block_is_edited_too(make: Callable[[], Engine]) -> None:
    engine = make()
    ids = IDS if engine.shape.vocabulary > 4 else (0, 1, 2)
    edited = engine.with_edits([ZeroHead(0, 0, first=1), ZeroMlp(0, first=2)])
    cache = edited.new_cache()
    arrays: dict[str, Array] = {}
    for activations in edited.walk(batch(ids), cache):
        arrays.update(activations.arrays)
    replayed: dict[str, Array] = {}
    for activations in edited.replay_block(0, arrays["blocks.0.resid_pre"], 0, cache):
        replayed.update(activations.arrays)
    assert len(replayed) > 10
    for name, array in replayed.items():
        assert np.array_equal(array, arrays[name]), name


@pytest.mark.parametrize("make", [odd, rotary, TinyEngine])
def test_without_edits_the_bits_stay(make: Callable[[], Engine]) -> None:
    engine = make()
    ids = IDS if engine.shape.vocabulary > 4 else (0, 1, 2)
    (clean,) = run(engine, ids)
    (again,) = run(engine.with_edits([ZeroMlp(0)]).with_edits([]), ids)
    (late,) = run(engine.with_edits([ZeroMlp(0, first=len(ids))]), ids)
    for name, array in clean.items():
        assert np.array_equal(array, again[name])
        assert np.array_equal(array, late[name])


@given(
    ids=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    split=st.integers(0, 3),
    lookahead=st.sampled_from([0, 1, None]),
    restart=st.booleans(),
    stale=st.booleans(),
    scaled=st.booleans(),
)
@settings(max_examples=60)
def test_the_tiny_pass_that_can_be_edited_is_the_tiny_pass(
    ids: list[int], split: int, lookahead: int | None, restart: bool, stale: bool, scaled: bool
) -> None:
    wiring = Wiring(lookahead, restart, stale, scaled)
    plain = TinyEngine(wiring)
    edited = plain.with_edits([ZeroMlp(0, first=4)])
    chunks = [split] if 0 < split < len(ids) else []
    for one, other in zip(run(plain, ids, chunks), run(edited, ids, chunks), strict=True):
        assert one.keys() == other.keys()
        for name in one:
            assert np.array_equal(one[name], other[name])


def test_edits_stay_under_faults_and_faults_under_edits() -> None:
    engine = odd().with_edits([ZeroHead(1, 1)])
    one = apply_faults(engine, ["no-scale"])
    other = apply_faults(odd(), ["no-scale"]).with_edits(engine.edits)
    assert one.edits == other.edits == (ZeroHead(1, 1),)
    for left, right in zip(run(one, IDS), run(other, IDS), strict=True):
        for name in left:
            assert np.array_equal(left[name], right[name])
    assert engine.poisoned().edits == engine.edits
    tiny = TinyEngine(edits=(ZeroMlp(0),))
    assert tiny.poisoned().edits == replace(tiny, wiring=Wiring(scaled=False)).edits == tiny.edits


@pytest.mark.parametrize("make", [odd, TinyEngine])
def test_an_edited_engine_passes_its_checks_and_a_fault_in_it_is_caught(
    make: Callable[[], Engine],
) -> None:
    engine = make()
    ids = IDS[:4] if engine.shape.vocabulary > 4 else (0, 1)
    (clean,) = run(engine, ids)
    edited = engine.with_edits(
        [
            ZeroHead(0, 0, first=1),
            Patch("blocks.0.resid_mid", (1,), clean["blocks.0.resid_mid"][0, :1]),
        ]
    )
    sound = Subject.under(edited, ids)
    assert all(result.holds for result in run_checks(sound))
    broken = Subject.under(edited, ids, ["positions-restart"])
    assert not all(result.holds for result in run_checks(broken))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (ZeroHead(3, 0), "records no blocks.3.attn.z"),
        (ZeroHead(1, 3), "no head 3"),
        (ZeroMlp(0, first=-1), "no position -1"),
        (Patch("blocks.1.mlp.gate", (0,), np.zeros((1, 20))), "records no"),
        (Patch("blocks.1.ln1", (), np.zeros((0, 12))), "some positions"),
        (Patch("blocks.1.ln1", (2, 1), np.zeros((2, 12))), "increasing order"),
        (Patch("blocks.1.ln1", (2,), np.zeros((1, 13))), r"shape \(1, 12\)"),
        (Patch("blocks.1.attn.z", (2,), np.zeros((1, 5)), head=3), "no head 3"),
        (Patch("blocks.1.ln1", (2,), np.zeros((1, 12)), head=0), "no head 0"),
        (Patch("blocks.1.attn.pattern", (4,), np.zeros((3, 1, 4))), "5 of them"),
        (Patch("embed", (0,), np.zeros((1, 12))), "blocks.0.resid_pre"),
    ],
)
def test_what_a_model_has_no_part_for_is_refused(edit: Edit, words: str) -> None:
    with pytest.raises(EditNotPossible, match=words):
        odd().with_edits([edit])


def test_the_tiny_decoder_refuses_too() -> None:
    with pytest.raises(EditNotPossible, match="1 heads and no head 1"):
        TinyEngine().with_edits([ZeroHead(0, 1)])


def test_patched_scores_become_weights_and_patched_weights_mix_values() -> None:
    decoder = odd()
    (clean,) = run(decoder, IDS)
    scores, pattern = "blocks.1.attn.scores", "blocks.1.attn.pattern"
    row = np.array([0.5, -1.0, 2.0, 0.0], dtype=np.float32)
    (found,) = run(decoder.with_edits([Patch(scores, (3,), row[np.newaxis], head=1)]), IDS)
    weights = np.exp(row) / np.exp(row).sum()
    np.testing.assert_allclose(found[pattern][0, 1, 3, :4], weights, rtol=1e-6)
    assert np.all(np.isneginf(found[scores][0, 1, 3, 4:]))
    assert not np.any(found[pattern][0, 1, 3, 4:])
    uniform = np.full((1, 4), 0.25, dtype=np.float32)
    (found,) = run(decoder.with_edits([Patch(pattern, (3,), uniform, head=1)]), IDS)
    mean = clean["blocks.1.attn.v"][0, 1, :4].mean(axis=0)
    np.testing.assert_allclose(found["blocks.1.attn.z"][0, 1, 3], mean, rtol=1e-4, atol=1e-5)


def test_one_head_patched_leaves_the_others() -> None:
    decoder = odd()
    (clean,) = run(decoder, IDS)
    name = "blocks.0.attn.z"
    values = clean[name][0, 1, [2]]
    (found,) = run(decoder.with_edits([Patch(name, (5,), values, head=1)]), IDS)
    assert np.array_equal(found[name][0, 1, 5], values[0])
    assert np.array_equal(found[name][0, [0, 2]], clean[name][0, [0, 2]])


def test_a_patch_keeps_values_of_its_own() -> None:
    values = np.ones((1, 12), dtype=np.float32)
    patch = Patch("blocks.1.ln1", (2,), values)
    values[:] = 7.0
    assert np.all(patch.values == 1.0)
    assert not patch.values.flags.writeable


def test_edits_in_words() -> None:
    patch = Patch("blocks.1.ln1", (2, 3), np.zeros((2, 12)), source="position 0 of step 0")
    assert describe([ZeroHead(2, 1, first=7), patch]) == (
        "zeroed head 2.1 from position 7; patched blocks.1.ln1 at positions 2, 3 with position 0 "
        "of step 0"
    )
