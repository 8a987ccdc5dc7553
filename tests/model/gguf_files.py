"""GGUF files written with the package's own writer, from safetensors folders or by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

Array = NDArray[Any]
ARCHITECTURES = {
    "gpt2": gguf.MODEL_ARCH.GPT2,
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
}
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
    it is; keys without a dot belong to the architecture.
    """
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in metadata.items():
        full = key if "." in key.removeprefix("attention.").removeprefix("rope.") else None
        add_value(writer, full or f"{architecture}.{key}", value)
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
            "feed_forward_length": config["n_inner"],
            "attention.head_count": config["n_head"],
            "attention.layer_norm_epsilon": config["layer_norm_epsilon"],
        }
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    rope = config.get("rope_parameters") or config
    found = {
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
    """The tensors of a folder; bfloat16 ones are not supported by NumPy, so not by this."""
    return dict(load_file(folder / "model.safetensors"))


def convert(folder: Path, path: Path, **extra: Any) -> None:
    """A folder as a GGUF file of float32."""
    config = json.loads((folder / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"]]
    write_gguf(
        path,
        gguf.MODEL_ARCH_NAMES[architecture],
        metadata_of(config) | extra,
        tensors_of(folder),
    )
