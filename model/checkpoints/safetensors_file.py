"""The safetensors file: its header, and its tensors as float32.

The package ``safetensors`` holds the header against the length of the file. The bytes are read
here, straight into arrays of their own: it has no bfloat16 for NumPy, and products on memory that a
file is mapped to are slower.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.errors import CheckpointError
from model.weights import Floats

DTYPES: dict[str, Callable[[NDArray[np.uint8]], Floats]] = {
    "F32": lambda stored: stored.view("<f4").astype(np.float32, copy=False),
    "F16": lambda stored: stored.view("<f2").astype(np.float32),
    # bfloat16 is the upper half of a float32.
    "BF16": lambda stored: (stored.view("<u2").astype(np.uint32) << 16).view(np.float32),
}
"""Types that weights may be stored in, and how their bytes become float32."""

PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
LENGTH_BYTES = 8


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as a header describes it; begin and end count from the start of the file."""

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


StoredTensors = Mapping[str, StoredTensor]


def read_header(path: Path) -> StoredTensors:
    """The tensors that a file holds, by name, once the package has found its header sound.

    Raises:
        CheckpointError: it is truncated, damaged, or another sort of file, such as a pickle.
    """
    import safetensors

    with path.open("rb") as file:
        start = file.read(LENGTH_BYTES)
        if start.startswith(PICKLE_STARTS):
            raise CheckpointError(
                f"{path}: a pickle, whatever its name, which is never opened because opening it "
                "can run code; save the model as safetensors first (save_pretrained does)"
            )
        if len(start) < LENGTH_BYTES:
            raise CheckpointError(f"{path}: {len(start)} bytes long, so not a safetensors file")
        try:
            with safetensors.safe_open(str(path), framework="numpy"):
                pass
            length = int.from_bytes(start, "little")
            header = json.loads(file.read(length), object_pairs_hook=_without_doubles)
            return {
                name: _described(path, name, entry, LENGTH_BYTES + length)
                for name, entry in header.items()
                if name != "__metadata__"
            }
        except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise CheckpointError(
                f"{path}: the header does not describe the file, which is truncated, damaged or "
                f"of another kind ({reason})"
            ) from None


def read_metadata(path: Path) -> Mapping[str, str]:
    """The texts that a header holds besides its tensors, once :func:`read_header` found it sound.

    Raises:
        CheckpointError: the file has changed since.
    """
    import safetensors

    try:
        with safetensors.safe_open(str(path), framework="numpy") as file:
            return file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise CheckpointError(f"{path}: the header cannot be read ({error})") from None


def read_tensor(tensor: StoredTensor) -> Floats:
    """One tensor as a new float32 array; its type must be among :data:`DTYPES`."""
    size = tensor.end - tensor.begin
    stored = np.fromfile(tensor.path, dtype=np.uint8, count=size, offset=tensor.begin)
    if stored.size != size:
        raise CheckpointError(f"{tensor.path}: {tensor.name} ends before its last byte")
    return DTYPES[tensor.dtype](stored).reshape(tensor.shape)


def _described(path: Path, name: str, entry: Mapping[str, Any], start: int) -> StoredTensor:
    begin, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    return StoredTensor(path, name, entry["dtype"], shape, start + begin, start + end)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A header that names a tensor twice means different things to different readers."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the header has the same name twice")
    return found
