"""GGUF files written with the package's own writer, from safetensors folders or by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from model.checkpoints.safetensors_file import read_header, read_tensor

Array = NDArray[Any]
ARCHITECTURES = {
    "gpt2": gguf.MODEL_ARCH.GPT2,
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
}
COMMON = ("general.", "tokenizer.", "split.")
TURNED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")


def write_gguf(
    path: Path,
    architecture: str,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Array],
    kinds: Mapping[str, gguf.GGMLQuantizationType] | None = None,
) -> None:
    """Write a file; matrices named in ``kinds`` are packed, everything else is float32.

    A metadata value that is a str, bool, float, int (32 bits, unsigned) or list is written as what
    it is; keys that are not common to all files belong to the architecture.
    """
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in metadata.items():
        add_value(writer, key if key.startswith(COMMON) else f"{architecture}.{key}", value)
    for name, tensor in tensors.items():
        kind = (kinds or {}).get(name, gguf.GGMLQuantizationType.F32)
        if kind is gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, np.ascontiguousarray(tensor, dtype=np.float32))
        else:
            writer.add_tensor(name, gguf.quantize(tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_value(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """One metadata field, of the type that the value has."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def metadata_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a converter writes for a config.json of one of the families."""
    if config["model_type"] == "gpt2":
        return {
            "block_count": config["n_layer"],
            "context_length": config["n_positions"],
            "embedding_length": config["n_embd"],
            "feed_forward_length": config["n_inner"] or 4 * config["n_embd"],
            "attention.head_count": config["n_head"],
            "attention.layer_norm_epsilon": config["layer_norm_epsilon"],
        }
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    rope = config["rope_parameters"]
    found: dict[str, Any] = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": heads,
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "rope.freq_base": float(rope["rope_theta"]),
        "rope.dimension_count": head_dim,
    }
    if rope["rope_type"] == "linear":
        found |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])}
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        found["attention.sliding_window"] = config["sliding_window"]
    return found


def interleaved(matrix: Array, heads: int) -> Array:
    """Rows of queries or keys as Llama's converter stores them: coordinate pairs side by side."""
    halves = matrix.reshape(heads, 2, -1, *matrix.shape[1:])
    return halves.swapaxes(1, 2).reshape(matrix.shape)


def tensors_of(folder: Path) -> dict[str, Array]:
    """A folder's tensors under GGUF's names, which the package maps, in GGUF's order."""
    config = json.loads((folder / "config.json").read_text())
    depth = config.get("n_layer") or config["num_hidden_layers"]
    names = gguf.get_tensor_name_map(ARCHITECTURES[config["model_type"]], depth)
    found: dict[str, Array] = {}
    for stored, array in float_tensors(folder).items():
        name = names.get_name(stored, try_suffixes=(".weight", ".bias"))
        if name is None:
            raise KeyError(stored)
        found[name] = np.ascontiguousarray(_as_gguf_has_it(config, stored, array), np.float32)
    return found


def _as_gguf_has_it(config: Mapping[str, Any], stored: str, array: Array) -> Array:
    if stored.endswith(TURNED):
        return array.T
    if config["model_type"] in ("llama", "mistral") and ".q_proj." in stored:
        return interleaved(array, config["num_attention_heads"])
    if config["model_type"] in ("llama", "mistral") and ".k_proj." in stored:
        return interleaved(array, config["num_key_value_heads"])
    return array


def float_tensors(folder: Path) -> dict[str, Array]:
    """The tensors of a folder as float32."""
    return {
        name: read_tensor(tensor)
        for file in folder.glob("*.safetensors")
        for name, tensor in read_header(file).items()
    }


def can_hold(config: Mapping[str, Any]) -> bool:
    """Whether GGUF has a way to say what a config.json says."""
    return (
        config["model_type"] in ARCHITECTURES
        and config.get("hidden_act", "silu") == "silu"
        and len(set(config.get("layer_types", ["all"]))) == 1
        and config.get("rope_parameters", {}).get("rope_type", "default")
        in ("default", "llama3", "linear")
    )


def slowing(config: Mapping[str, Any]) -> dict[str, Array]:
    """The tensor by which a converter states Llama 3's stretched positions, if they are."""
    rope = config.get("rope_parameters", {})
    if rope.get("rope_type") != "llama3":
        return {}
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    theta, factor = rope["rope_theta"], rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    divisors = []
    for pair in range(head_dim // 2):
        wavelength = 2 * math.pi * theta ** (2 * pair / head_dim)
        turns = rope["original_max_position_embeddings"] / wavelength
        kept = min(1.0, max(0.0, (turns - low) / (high - low)))
        divisors.append(1 / ((1 - kept) / factor + kept))
    return {"rope_freqs.weight": np.array(divisors, dtype=np.float32)}


def convert(folder: Path, path: Path, **extra: Any) -> None:
    """A folder as a GGUF file of float32."""
    config = json.loads((folder / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"]]
    write_gguf(
        path,
        gguf.MODEL_ARCH_NAMES[architecture],
        metadata_of(config) | extra,
        tensors_of(folder) | slowing(config),
    )


SMALL: dict[str, Any] = {
    "block_count": 1,
    "context_length": 16,
    "embedding_length": 8,
    "feed_forward_length": 12,
    "attention.head_count": 2,
    "attention.head_count_kv": 1,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 10000.0,
}
TOKENS = ["<s>", "a", "b", "ab", "c", "<x>", "[PAD6]", "d"]
BYTE_LEVEL: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, 1, 1, 1, 1, 4, 5, 1],
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.bos_token_id": 0,
    "tokenizer.ggml.add_bos_token": True,
}
SENTENCE_PIECE: dict[str, Any] = {
    **BYTE_LEVEL,
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.scores": [-float(i) for i in range(len(TOKENS))],
}
SMALL_TENSORS: dict[str, tuple[int, ...]] = {
    "token_embd.weight": (8, 8),
    "output_norm.weight": (8,),
    "blk.0.attn_norm.weight": (8,),
    "blk.0.attn_q.weight": (8, 8),
    "blk.0.attn_k.weight": (4, 8),
    "blk.0.attn_v.weight": (4, 8),
    "blk.0.attn_output.weight": (8, 8),
    "blk.0.ffn_norm.weight": (8,),
    "blk.0.ffn_gate.weight": (12, 8),
    "blk.0.ffn_up.weight": (12, 8),
    "blk.0.ffn_down.weight": (8, 12),
}


def small_tensors(**changed: tuple[int, ...] | None) -> dict[str, Array]:
    """A small Llama's tensors; ``changed`` has other shapes, or None for a missing one."""
    sizes = SMALL_TENSORS | {name.replace("__", "."): size for name, size in changed.items()}
    random = np.random.default_rng(1)
    return {
        name: random.standard_normal(size).astype(np.float32)
        for name, size in sizes.items()
        if size is not None
    }


def write_small(
    path: Path,
    metadata: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
    architecture: str = "llama",
) -> Path:
    """A Llama of one block with a vocabulary of eight tokens; a field that is None is left out."""
    every = {**SMALL, **BYTE_LEVEL, **(metadata or {})}
    fields = {key: value for key, value in every.items() if value is not None}
    write_gguf(path, architecture, fields, small_tensors() if arrays is None else arrays)
    return path
