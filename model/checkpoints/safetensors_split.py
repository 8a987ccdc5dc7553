"""Weights in one safetensors file or in several, with an index or without."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.checkpoints.safetensors_file import StoredTensor, StoredTensors, read_header
from model.errors import CheckpointError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PART = re.compile(r"model-\d+-of-\d+\.safetensors")
LARGEST_INDEX = 64 * 1024 * 1024


@dataclass(frozen=True)
class StoredWeights:
    """All tensors of a model.

    Attributes:
        place: what to name in a message: the only file, the index, or the folder of several files.
        tensors: by name, each with the file that it lies in.
    """

    place: Path
    tensors: StoredTensors


def holds_weights(folder: Path) -> bool:
    """Whether a folder has weights that are read here."""
    return (folder / INDEX).exists() or bool(_files(folder))


def is_part(file: Path) -> bool:
    """Whether a file is one of several, by its name."""
    return PART.fullmatch(file.name) is not None


def read_headers(place: Path) -> StoredWeights:
    """The headers of a single file, or of all files that a folder's weights are split over.

    ``model.safetensors`` comes first; without it, the files that the index names; without that, all
    ``model*.safetensors``.

    Raises:
        CheckpointError: a file is not sound, the index names one that is not there or lies
            elsewhere, or the files do not agree with it or with each other.
    """
    single = place / WEIGHTS if place.is_dir() else place
    if not place.is_dir() or single.exists():
        return StoredWeights(single, read_header(single))
    index = place / INDEX
    if not index.exists():
        files = _files(place)
        return StoredWeights(files[0] if len(files) == 1 else place, _all_of(files))
    named = read_index(index)
    tensors = _all_of([place / name for name in sorted(set(named.values()))])
    for name, file in named.items():
        found = tensors.get(name)
        if found is None or found.path.name != file:
            raise CheckpointError(f"{index}: {name} is said to be in {file}, which has it not")
    return StoredWeights(index, tensors)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("model*.safetensors") if file.is_file())


def _all_of(files: list[Path]) -> dict[str, StoredTensor]:
    """The tensors of several files, each in one of them only."""
    tensors: dict[str, StoredTensor] = {}
    for file in files:
        if not file.is_file():
            raise CheckpointError(f"{file}: there is no such file; the weights are split over it")
        for name, tensor in read_header(file).items():
            if name in tensors:
                raise CheckpointError(f"{file}: {name} is in {tensors[name].path.name} too")
            tensors[name] = tensor
    return tensors


def read_index(index: Path) -> dict[str, str]:
    """Name of each tensor -> name of its file, which lies beside the index.

    Raises:
        CheckpointError: it says something else.
    """
    if not index.is_file():
        raise CheckpointError(f"{index}: not a file")
    if index.stat().st_size > LARGEST_INDEX:
        raise CheckpointError(f"{index}: larger than {LARGEST_INDEX} bytes, so not an index")
    try:
        content: Any = json.loads(index.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{index}: not JSON ({error})") from None
    named = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(named, dict) or not named:
        raise CheckpointError(f"{index}: weight_map must say in which file each tensor is")
    for name, file in named.items():
        if not isinstance(file, str) or Path(file).suffix != ".safetensors":
            raise CheckpointError(f"{index}: {name} is said to be in {file!r}, no safetensors file")
        if "/" in file or "\\" in file or "\0" in file or Path(file).name != file:
            raise CheckpointError(
                f"{index}: {name} is said to be in {file!r}, which is not in its own folder"
            )
    return named
