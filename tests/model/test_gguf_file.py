"""GGUF files: the same numbers as the folders and the weights that they were made of."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from model.blueprint import Activation, Blueprint, Norm
from model.checkpoints import LoadedModel, open_checkpoint
from model.checkpoints.gguf_values import KINDS
from model.decoder import Decoder
from model.errors import CheckpointError
from model.rotary import Linear, Rotary, Yarn
from model.shape import ModelShape
from model.weights import build_weights
from tests.model.gguf_files import Array, add_value, can_hold, convert, interleaved, write_gguf

GOLDEN = Path(__file__).parent / "golden"
REAL = os.environ.get("DECODER_GUI_SMOLLM2", "")
Q = gguf.GGMLQuantizationType
WRITABLE = (Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1)
WIDTH, MLP, HEADS, KV_HEADS, HEAD_DIM, DEPTH, VOCABULARY = 64, 96, 4, 2, 10, 2, 50
SHAPE = ModelShape(DEPTH, WIDTH, HEADS, 32, VOCABULARY, KV_HEADS, HEAD_DIM, MLP, gated=True)
LLAMA = Blueprint(
    SHAPE,
    Norm.RMS_NORM,
    1e-6,
    Activation.SILU,
    Rotary(HEAD_DIM, 5000.0),
    tied=False,
    qkv_bias=False,
    out_bias=False,
    mlp_bias=False,
)
METADATA = {
    "block_count": DEPTH,
    "context_length": 32,
    "embedding_length": WIDTH,
    "feed_forward_length": MLP,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KV_HEADS,
    "attention.key_length": HEAD_DIM,
    "attention.value_length": HEAD_DIM,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.freq_base": 5000.0,
    "rope.dimension_count": HEAD_DIM,
}
IDS = np.array([[3, 1, 4, 1, 5, 9, 2, 6]])


def folders_that_gguf_can_hold() -> list[str]:
    """Golden folders of the architectures, by name."""
    return sorted(
        path.parent.name
        for path in GOLDEN.glob("*/config.json")
        if can_hold(json.loads(path.read_text()))
    )


def random_tensors(architecture: str, seed: int = 0) -> dict[str, Array]:
    """A model's tensors as GGUF names them, all (out, in), before queries and keys are permuted."""
    random = np.random.default_rng(seed)
    queries, keys = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    sizes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (VOCABULARY, WIDTH),
        "output_norm.weight": (WIDTH,),
        "output.weight": (VOCABULARY, WIDTH),
    }
    for layer in range(DEPTH):
        block: dict[str, tuple[int, ...]] = {
            "attn_norm.weight": (WIDTH,),
            "attn_q.weight": (queries, WIDTH),
            "attn_k.weight": (keys, WIDTH),
            "attn_v.weight": (keys, WIDTH),
            "attn_output.weight": (WIDTH, queries),
            "ffn_norm.weight": (WIDTH,),
            "ffn_gate.weight": (MLP, WIDTH),
            "ffn_up.weight": (MLP, WIDTH),
            "ffn_down.weight": (WIDTH, MLP),
        }
        if architecture == "qwen2":
            block |= {"attn_q.bias": (queries,), "attn_k.bias": (keys,), "attn_v.bias": (keys,)}
        if architecture == "qwen3":
            block |= {"attn_q_norm.weight": (HEAD_DIM,), "attn_k_norm.weight": (HEAD_DIM,)}
        sizes |= {f"blk.{layer}.{name}": size for name, size in block.items()}
    return {
        name: random.standard_normal(size).astype(np.float32)
        / np.float32(1 if len(size) == 1 else np.sqrt(size[-1]))
        for name, size in sizes.items()
    }


def decoder_of(blueprint: Blueprint, tensors: Mapping[str, Array]) -> Decoder:
    """The engine on these tensors, put together without a file."""
    arrays = {
        "embedding": tensors["token_embd.weight"],
        "final_gain": tensors["output_norm.weight"],
        "unembedding": tensors.get("output.weight", tensors["token_embd.weight"]),
    }
    for layer in range(DEPTH):
        found = {
            name.removeprefix(f"blk.{layer}."): np.ascontiguousarray(tensor.T)
            for name, tensor in tensors.items()
        }
        names = {
            "ln1_gain": ["attn_norm.weight"],
            "qkv_weight": ["attn_q.weight", "attn_k.weight", "attn_v.weight"],
            "qkv_bias": ["attn_q.bias", "attn_k.bias", "attn_v.bias"],
            "q_norm_gain": ["attn_q_norm.weight"],
            "k_norm_gain": ["attn_k_norm.weight"],
            "out_weight": ["attn_output.weight"],
            "ln2_gain": ["ffn_norm.weight"],
            "gate_weight": ["ffn_gate.weight"],
            "up_weight": ["ffn_up.weight"],
            "down_weight": ["ffn_down.weight"],
        }
        for name, parts in names.items():
            if parts[0] in found:
                whole = np.concatenate([found[part] for part in parts], axis=-1)
                arrays[f"blocks.{layer}.{name}"] = whole
    return Decoder(blueprint, build_weights(blueprint, arrays))


def as_llama_stores_it(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Rows of queries and keys in Llama's order of GGUF."""
    heads = {"attn_q": HEADS, "attn_k": KV_HEADS}
    return {
        name: interleaved(tensor, heads[part]) if (part := name.split(".")[-2]) in heads else tensor
        for name, tensor in tensors.items()
    }


def logits(engine: Any, ids: Array = IDS) -> Array:
    found: Array = engine.forward(ids, engine.new_cache(batch=len(ids)), all_logits=True)
    return found


@pytest.mark.parametrize("name", folders_that_gguf_can_hold())
def test_a_converted_folder_gives_the_same_logits(name: str, tmp_path: Path) -> None:
    folder = GOLDEN / name
    convert(folder, tmp_path / "model.gguf")
    opened, original = open_checkpoint(tmp_path / "model.gguf"), open_checkpoint(folder)
    ids = np.atleast_2d(json.loads((folder / "golden.json").read_text())["ids"])
    found, wanted = logits(opened.engine, ids), logits(original.engine, ids)
    if (tmp_path / "model.gguf").read_bytes().find(b"rope_freqs") < 0:
        assert np.array_equal(found, wanted)
    else:  # the rule that stretches positions is stated as numbers that were rounded
        np.testing.assert_allclose(found, wanted, atol=2e-5)
    assert opened.engine.parameters == original.engine.parameters
    assert opened.name == "model"
    assert opened.family


BLUEPRINTS = {
    "llama": LLAMA,
    "qwen2": Blueprint(**(vars(LLAMA) | {"qkv_bias": True})),
    "qwen3": Blueprint(**(vars(LLAMA) | {"qk_norm": True})),
}


@pytest.mark.parametrize("architecture", BLUEPRINTS)
def test_every_architecture_is_put_together_as_it_was_stored(
    architecture: str, tmp_path: Path
) -> None:
    tensors = random_tensors(architecture)
    stored = as_llama_stores_it(tensors) if architecture == "llama" else tensors
    write_gguf(tmp_path / "a.gguf", architecture, METADATA, stored)
    opened = open_checkpoint(tmp_path / "a.gguf")
    wanted = decoder_of(BLUEPRINTS[architecture], tensors)
    assert np.array_equal(logits(opened.engine), logits(wanted))
    assert opened.warnings == ()
    assert opened.tokenizer.encode("3 1") == [3, 1]


@pytest.mark.parametrize("kind", WRITABLE)
def test_packed_weights_give_the_logits_of_what_was_packed(kind: Q, tmp_path: Path) -> None:
    tensors = as_llama_stores_it(random_tensors("llama"))
    block = gguf.GGML_QUANT_SIZES[kind][0]
    packed = [n for n, t in tensors.items() if t.ndim == 2 and t.shape[1] % block == 0]
    assert len(packed) > 10
    write_gguf(tmp_path / "a.gguf", "llama", METADATA, tensors, dict.fromkeys(packed, kind))
    unpacked = {n: gguf.dequantize(gguf.quantize(tensors[n], kind), kind) for n in packed}
    write_gguf(tmp_path / "b.gguf", "llama", METADATA, tensors | unpacked)
    write_gguf(tmp_path / "c.gguf", "llama", METADATA, tensors)
    found, same, exact = (
        logits(open_checkpoint(tmp_path / f"{name}.gguf").engine) for name in "abc"
    )
    assert np.array_equal(found, same)
    # Bits lost in each weight: 8 of bfloat16's, half a step of 16 for four bits, …
    bound = {Q.F16: 0.002, Q.BF16: 0.02, Q.Q8_0: 0.03, Q.Q4_0: 0.6, Q.Q4_1: 0.6}[kind]
    assert 0 < np.abs(found - exact).max() < bound * np.abs(exact).max()


def test_a_tied_head_scaled_positions_and_windows_are_read(tmp_path: Path) -> None:
    tensors = random_tensors("llama")
    del tensors["output.weight"]
    cases: list[tuple[dict[str, Any], dict[str, Array], Any]] = [
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, {}, Linear(4.0)),
        (
            {
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 8,
                "rope.scaling.yarn_beta_fast": 4.0,
            },
            {},
            Yarn(4.0, 8, 0.1 * np.log(4.0) + 1.0, fast=4.0),
        ),
        ({}, {"rope_freqs.weight": np.full(HEAD_DIM // 2, 4.0, np.float32)}, Linear(4.0)),
    ]
    for number, (extra, more, scaling) in enumerate(cases):
        path = tmp_path / f"{number}.gguf"
        window = {"attention.sliding_window": 3}
        write_gguf(path, "llama", METADATA | extra | window, as_llama_stores_it(tensors) | more)
        shape = ModelShape(**(vars(SHAPE) | {"windows": (3,) * DEPTH}))
        rotary = Rotary(HEAD_DIM, 5000.0, scaling)
        changed = {"shape": shape, "rotary": rotary, "tied": True}
        wanted = decoder_of(Blueprint(**(vars(LLAMA) | changed)), tensors)
        found = logits(open_checkpoint(path).engine)
        assert np.array_equal(found, logits(wanted))
        assert not np.allclose(found, logits(decoder_of(LLAMA, random_tensors("llama"))))


def test_only_part_of_a_head_may_be_turned(tmp_path: Path) -> None:
    tensors = random_tensors("llama")
    stored = dict(tensors)
    for layer in range(DEPTH):
        for part, heads in (("attn_q", HEADS), ("attn_k", KV_HEADS)):
            name = f"blk.{layer}.{part}.weight"
            split = tensors[name].reshape(heads, HEAD_DIM, WIDTH)
            turned = interleaved(np.ascontiguousarray(split[:, :6]).reshape(-1, WIDTH), heads)
            joined = [turned.reshape(heads, 6, WIDTH), split[:, 6:]]
            stored[name] = np.concatenate(joined, axis=1).reshape(-1, WIDTH)
    write_gguf(tmp_path / "a.gguf", "llama", METADATA | {"rope.dimension_count": 6}, stored)
    wanted = decoder_of(Blueprint(**(vars(LLAMA) | {"rotary": Rotary(6, 5000.0)})), tensors)
    assert np.array_equal(logits(open_checkpoint(tmp_path / "a.gguf").engine), logits(wanted))


def test_weights_that_are_not_finite_are_opened_and_reported(tmp_path: Path) -> None:
    tensors = random_tensors("llama")
    tensors["blk.1.ffn_up.weight"][0, :2] = -np.inf, np.inf
    write_gguf(tmp_path / "a.gguf", "llama", METADATA, tensors)
    (warning,) = open_checkpoint(tmp_path / "a.gguf").warnings
    assert warning == "blk.1.ffn_up.weight holds 2 values that are NaN or infinite"


def test_a_folder_with_one_file_opens_and_with_two_asks_for_one(tmp_path: Path) -> None:
    tensors = random_tensors("llama")
    write_gguf(tmp_path / "a.gguf", "llama", METADATA, tensors)
    assert open_checkpoint(tmp_path).name == "a"
    (tmp_path / "other").write_bytes((tmp_path / "a.gguf").read_bytes())
    assert open_checkpoint(tmp_path / "other").family == "Llama"
    write_gguf(tmp_path / "b.gguf", "llama", METADATA, tensors)
    with pytest.raises(CheckpointError, match=r"holds 2 GGUF files; open one of them.*a\.gguf"):
        open_checkpoint(tmp_path)


def test_all_types_are_read_through_a_file(tmp_path: Path) -> None:
    """Types that the package cannot write, from random bytes: the file only says what they are."""
    tensors = random_tensors("llama")
    random = np.random.default_rng(5)
    sizes = {"feed_forward_length": 256}
    for number in KINDS:
        kind = Q(number)
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        path = tmp_path / f"{kind.name}.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        for key, value in (METADATA | sizes).items():
            add_value(writer, f"llama.{key}", value)
        down: Array = random.integers(0, 60, (WIDTH, 256 // block * block_bytes), dtype=np.uint8)
        for name, tensor in tensors.items():
            if name == "blk.0.ffn_down.weight":
                if kind in (Q.F32, Q.F16):
                    down = down.view({Q.F32: np.float32, Q.F16: np.float16}[kind])
                writer.add_tensor(name, down, raw_dtype=kind)
            elif "ffn_down" in name:
                writer.add_tensor(name, np.zeros((WIDTH, 256), np.float32))
            elif "ffn_up" in name or "ffn_gate" in name:
                writer.add_tensor(name, np.ones((256, WIDTH), np.float32))
            else:
                writer.add_tensor(name, tensor)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        engine = open_checkpoint(path).engine
        assert isinstance(engine, Decoder)
        found = engine.weights.blocks[0].down_weight
        assert np.array_equal(found.T, gguf.dequantize(down, kind))


def real() -> LoadedModel:
    return open_checkpoint(REAL)


@pytest.mark.skipif(not REAL, reason="DECODER_GUI_SMOLLM2 names no SmolLM2-135M-Instruct GGUF")
def test_smollm2_knows_the_capital_of_france() -> None:
    loaded = real()
    ids = loaded.tokenizer.encode("The capital of France is")
    assert ids == [504, 3575, 282, 4649, 314]
    last = logits(loaded.engine, np.array([ids]))[0, -1].astype(np.float64)
    shown = last - last.max()
    likely = shown - np.log(np.exp(shown).sum())
    assert loaded.tokenizer.piece(int(likely.argmax())).text == "␣Paris"
    assert likely.max() == pytest.approx(-0.26, abs=0.005)
    assert loaded.tokenizer.encode("Café déjà vu.") == [
        51,
        1939,
        2756,
        32564,
        90,
        16739,
        386,
        101,
        30,
    ]
    assert loaded.tokenizer.front_ids == ()
