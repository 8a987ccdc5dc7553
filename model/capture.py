"""A run of any decoder in one file, which decoder-gui opens, checks and compares.

This module needs NumPy and nothing else: copy it into your own project, or import it from here. A
whole forward pass is one call::

    capture_forward("run.safetensors", token_ids, {"blocks.0.attn.pattern": pattern, ...})

A run of several passes over a key-value cache is written step by step::

    with CaptureWriter("run.safetensors", model="mine", num_heads=12) as writer:
        writer.step(prompt_ids, arrays)  # the prefill
        writer.step([next_id], arrays)  # one token decoded; keys are all of those so far

Names are TransformerLens's without ``hook_`` (:data:`AXES` has them all, with their axes); its own
names, with its own order of axes, are taken too. Give what you have: the rest is not shown. Arrays
are of one sequence, with or without a batch axis of 1; NumPy arrays or PyTorch tensors.

The file is safetensors: a tensor ``STEP/NAME`` per array, and under :data:`KEY` in the metadata of
its header one JSON object with everything else. It holds data only, and is written whole or not.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT_VERSION = 1
KEY = "decoder_capture"
STORED = {"float64": "F64", "float32": "F32"}  # NumPy's name of a type -> the file's

Array = NDArray[Any]
Heads = int | None
Texts = Mapping[int, str] | Sequence[str] | None  # by token id, or of the run's tokens in order

_STREAM = ("batch", "pos", "d_model")
_HEADS = ("batch", "head", "pos", "d_head")
_SHARED = ("batch", "kv_head", "pos", "d_head")
_SQUARE = ("batch", "head", "pos", "key")
_WIDE = ("batch", "pos", "d_mlp")

AXES: Mapping[str, tuple[str, ...]] = {
    "embed": _STREAM,  # the token's row of the embedding table
    "pos_embed": _STREAM,  # the position's row, where positions are a table
    "blocks.N.resid_pre": _STREAM,  # the residual stream at the input of block N
    "blocks.N.ln1": _STREAM,  # what attention reads, gain and shift included
    "blocks.N.attn.q": _HEADS,
    "blocks.N.attn.k": _SHARED,
    "blocks.N.attn.v": _SHARED,
    "blocks.N.attn.q_norm": _HEADS,  # where queries and keys are normalised
    "blocks.N.attn.k_norm": _SHARED,
    "blocks.N.attn.rot_q": _HEADS,  # where positions are rotary: queries and keys as turned
    "blocks.N.attn.rot_k": _SHARED,
    "blocks.N.attn.scores": _SQUARE,  # scaled, with -infinity where a query may not look
    "blocks.N.attn.pattern": _SQUARE,  # after the softmax
    "blocks.N.attn.z": _HEADS,  # weighted values
    "blocks.N.attn.out": _STREAM,  # attention's update of the stream
    "blocks.N.resid_mid": _STREAM,
    "blocks.N.ln2": _STREAM,  # what the MLP reads
    "blocks.N.mlp.gate": _WIDE,  # of a gated MLP, before the activation
    "blocks.N.mlp.pre": _WIDE,
    "blocks.N.mlp.post": _WIDE,  # what the last matrix of the MLP reads
    "blocks.N.mlp.out": _STREAM,  # the MLP's update
    "blocks.N.resid_post": _STREAM,
    "ln_final": _STREAM,  # what the unembedding reads
    "logits": ("batch", "pos", "vocab"),  # of every position of the step, or of the last alone
}
"""Every name that has a place, in the order of a pass, and its axes."""

FIELDS = (
    *("family", "parameters", "depth", "model_dim", "num_heads", "kv_heads", "head_dim", "mlp_dim"),
    *("vocabulary", "context", "windows", "norm", "norm_epsilon", "activation", "rotary"),
    *("gated", "parallel", "qk_norm", "tied", "qkv_bias", "out_bias", "mlp_bias"),
)
"""What may be said of the model; sizes that are not said are read off the arrays.
norm is "LayerNorm" or "RMSNorm"; activation "GELU" (the tanh form), "exact GELU", "SiLU" or "ReLU";
rotary {"dims": 64, "theta": 10000.0}; windows a list; the rest are numbers, true or false.
"""


def capture_forward(
    path: str | Path, token_ids: Iterable[int], activations: Mapping[str, Any], **metadata: Any
) -> tuple[str, ...]:
    """Write one forward pass; returns the names that have no place in a capture."""
    with CaptureWriter(path, **metadata) as writer:
        writer.step(token_ids, activations)
    return tuple(writer.skipped)


class CaptureWriter:
    """Writes a capture step by step and holds none of it; the file is there once it is closed.

    Args:
        sampling: the sampler's settings: temperature, top_k, top_p, min_p, seed, order.
        events: names of the operations of a step, in their order.
        blueprint: what is known of the model, by the names of :data:`FIELDS`.

    Raises:
        ValueError: something that a capture cannot hold; the sentence names it.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        model: str = "",
        token_texts: Texts = None,
        sampling: Mapping[str, Any] | None = None,
        events: Sequence[str] = (),
        made_by: str = "",
        **blueprint: Any,
    ) -> None:
        for unknown in blueprint.keys() - FIELDS:
            raise ValueError(f"{unknown} is no field; there are {', '.join(FIELDS)}")
        self.texts = {} if token_texts is None else token_texts
        self.skipped: dict[str, None] = {}  # names given that have no place; they are left out
        self._about: dict[str, Any] = {"model": model, "made_by": made_by, "sampling": sampling}
        self._about |= {"events": list(events), "blueprint": blueprint}
        self._heads = blueprint.get("num_heads"), blueprint.get("kv_heads")
        self._steps: list[dict[str, Any]] = []
        self._header: dict[str, Any] = {}
        self._upcast: dict[str, None] = {}
        self._path = Path(path)
        self._parts = self._path.with_name(f"{self._path.name}.{os.getpid()}.part")
        self._data = self._parts.open("wb+")

    def step(
        self,
        token_ids: Iterable[int],
        activations: Mapping[str, Any],
        *,
        phase: str = "",
        draw: float | None = None,
        by_hand: bool = False,
    ) -> None:
        """Add a pass over the tokens that follow those so far; one token alone is a decode step."""
        given = as_numpy(token_ids if hasattr(token_ids, "__len__") else list(token_ids))
        ids = [int(token) for token in given.reshape(-1)]  # also [[1, 2, 3]], a batch of one
        first = sum(len(step["token_ids"]) for step in self._steps)
        if not ids or min(ids) < 0:
            raise ValueError(f"step {len(self._steps)} needs at least one token id, none below 0")
        phase = phase or ("decode" if first and len(ids) == 1 else "prefill")
        step: dict[str, Any] = {"phase": phase, "first": first, "token_ids": ids}
        self._steps.append(step | {"draw": draw, "by_hand": by_hand})
        self.more(activations)

    def more(self, activations: Mapping[str, Any]) -> None:
        """Add arrays to the step in hand."""
        index, step = len(self._steps) - 1, self._steps[-1]
        count = len(step["token_ids"])
        ends: dict[str, object] = {}
        for name, source, array in canonical(activations, self.skipped, *self._heads):
            problem = axis_problem(name, array.shape, count, step["first"] + count)
            if problem:
                raise ValueError(f"step {index}: {problem}")
            if "bfloat16" in str(getattr(source, "dtype", "")):  # also where PyTorch upcast it
                self._upcast["bfloat16"] = None
            # The end of a block and the start of the next are one array, stored once.
            if name.endswith(".resid_post"):
                ends[f"blocks.{int(name.split('.')[1]) + 1}.resid_pre"] = source
            if ends.get(name) is not source:
                self._write(f"{index}/{name}", array)

    def close(self) -> None:
        """Put the file together under its name."""
        whole = self._parts.with_suffix(".whole")
        try:
            header = self._whole_header()
            with whole.open("wb") as file:
                file.write(len(header).to_bytes(8, "little") + header)
                self._data.seek(0)
                shutil.copyfileobj(self._data, file, 2**20)
            whole.replace(self._path)
        finally:
            whole.unlink(missing_ok=True)
            self.discard()

    def discard(self) -> None:
        """Leave nothing behind."""
        self._data.close()
        self._parts.unlink(missing_ok=True)

    def _whole_header(self) -> bytes:
        texts, ids = self.texts, [token for step in self._steps for token in step["token_ids"]]
        if isinstance(texts, Sequence):
            texts = dict(zip(ids, texts, strict=False))
        about = {"format": FORMAT_VERSION, **self._about, "steps": self._steps}
        about |= {"texts": {str(token): text for token, text in texts.items()}}
        about |= {"upcast": list(self._upcast)}
        document = json.dumps(about, allow_nan=False, default=_plain)
        header = json.dumps({"__metadata__": {KEY: document}} | self._header).encode()
        return header + b" " * (-len(header) % 8)

    def __enter__(self) -> CaptureWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _write(self, key: str, array: Array) -> None:
        if array.dtype.name in ("float16", "bfloat16"):
            self._upcast[array.dtype.name] = None
            array = array.astype(np.float32)
        if array.dtype.name not in STORED:
            raise ValueError(f"{key} holds {array.dtype.name}; stored are {', '.join(STORED)}")
        begin = self._data.tell()
        self._data.write(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data)
        stored = {"dtype": STORED[array.dtype.name], "shape": list(array.shape)}
        self._header[key] = stored | {"data_offsets": [begin, begin + array.nbytes]}


def canonical(
    activations: Mapping[str, Any], skipped: dict[str, None], heads: Heads, kv_heads: Heads
) -> Iterator[tuple[str, object, Array]]:
    """Canonical name, what was given, and its array with a batch axis.

    With ``heads`` known, heads side by side in one axis are parted, as are the three parts of
    ``attn.qkv``. Names that have no place go into ``skipped``.
    """
    for given, value in activations.items():
        name = re.sub(r"(^|\.)hook_", r"\1", given)
        foreign = name != given  # TransformerLens, which has positions before heads
        name = re.sub(r"\.(attn|mlp)_out$", r".\1.out", name.removesuffix(".normalized"))
        name = name.replace("attn.attn_scores", "attn.scores")
        if foreign and f"{given}_linear" in activations:  # a gated MLP under its names
            name = name.replace("mlp.pre", "mlp.gate")
        name = name.replace("mlp.pre_linear", "mlp.pre")
        axes = axes_of(name)
        if isinstance(value, tuple | list):
            raise ValueError(f"{given} is a {type(value).__name__}; give the array in it")
        if axes is not None:
            array = as_numpy(value)
            if axes[1:3] == ("head", "pos") or axes[1] == "kv_head":
                own = kv_heads or heads if axes[1] == "kv_head" else heads
                if own and axes[-1] == "d_head" and array.ndim == 3 and len(array) == 1:
                    array = _part(given, array, own)
                elif foreign and axes[-1] == "d_head":
                    array = array.swapaxes(-2, -3)
            yield name, value, array[np.newaxis] if array.ndim == len(axes) - 1 else array
        elif heads and name.endswith(".attn.qkv"):
            shared = kv_heads or heads
            array = _part(given, as_numpy(value), heads + 2 * shared)
            for part, cut in zip("qkv", np.split(array, [heads, heads + shared], 1), strict=True):
                yield name.removesuffix("qkv") + part, cut, cut
        else:
            skipped[given] = None


def _part(given: str, array: Array, heads: int) -> Array:
    """Heads side by side in the last axis as an axis of their own, before the positions."""
    if array.shape[-1] % heads:
        raise ValueError(f"{given} has {array.shape[-1]} columns, which {heads} heads cannot share")
    return array.reshape(1, array.shape[-2], heads, -1).swapaxes(1, 2)


def axes_of(name: str) -> tuple[str, ...] | None:
    """The axes of a canonical name, or None if it has no place."""
    return AXES.get(re.sub(r"^blocks\.(0|[1-9][0-9]{0,3})\.", "blocks.N.", name))


def axis_problem(name: str, shape: tuple[int, ...], positions: int, keys: int) -> str:
    """What is wrong with an array's axes in a step of so many positions, or an empty string."""
    axes, said = axes_of(name) or (), f"{name} has the shape {list(shape)}"
    if len(shape) != len(axes) or 0 in shape:
        return f"{said} and not the axes ({', '.join(axes)})"
    sizes = dict(zip(axes, shape, strict=True))
    if sizes["batch"] != 1:
        return f"{said}, a batch of {sizes['batch']}; a capture is of one sequence"
    if sizes["pos"] != positions and not (name == "logits" and sizes["pos"] == 1):
        return f"{said}, {sizes['pos']} positions where the step has {positions}"
    if sizes.get("key", keys) != keys:
        return f"{said}, {sizes['key']} keys where there are {keys} positions so far"
    return ""


def _plain(value: Any) -> object:
    """A number of NumPy or PyTorch as JSON has it."""
    if hasattr(value, "item"):
        return value.item()
    raise ValueError(f"{value!r} cannot be written; numbers, texts, true and false can")


def as_numpy(value: Any) -> Array:
    """An array, also from a PyTorch tensor, without importing PyTorch."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()  # and NumPy has no bfloat16
        value = (value.float() if "bfloat16" in str(value.dtype) else value).numpy()
    return np.asarray(value)
