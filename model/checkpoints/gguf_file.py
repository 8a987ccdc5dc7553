"""A GGUF file as a model: its weights as float32, in the engine's order and orientation.

Every tensor's name and shape is held against the blueprint before any of it is read. Matrices lie
in the file as (out, in), packed along their rows; each is unpacked and turned in one go, queries,
keys and values side by side.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model.blueprint import Blueprint
from model.checkpoints.estimate import FLOAT32, Needs, progress_of
from model.checkpoints.gguf_families import (
    SLOWING,
    TABLES,
    Architecture,
    architecture_of,
    blueprint_of,
)
from model.checkpoints.gguf_header import MAGIC, GgufFile, GgufTensor, read_gguf_header
from model.checkpoints.gguf_tokenizer import open_vocabulary
from model.checkpoints.gguf_values import Bytes, unpack_turned, unpacked
from model.checkpoints.loading import Format, LoadedModel, Opening, register_format
from model.decoder import Decoder
from model.errors import CheckpointError
from model.weights import (
    Floats,
    build_weights,
    count_strays,
    qkv_widths,
    stray_warning,
    weight_shapes,
)

SUFFIX = ".gguf"
PARTS = "split.count"
Order = NDArray[np.int64]


def recognises(place: Path) -> bool:
    """A GGUF file by its name or its first bytes, or a folder that holds one and no safetensors."""
    if place.is_dir():
        return bool(_files(place)) and not any(place.glob("model.safetensors*"))
    if place.suffix == SUFFIX or not place.is_file():
        return place.suffix == SUFFIX
    try:
        with place.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def open_gguf(place: Path) -> Opening:
    """Open such a file, or the only one in a folder.

    Raises:
        CheckpointError: a part of it cannot be used; the sentence names the file and the field.
    """
    file = _only_file(place) if place.is_dir() else place
    header = read_gguf_header(file)
    if header.whole(PARTS, 1, least=0) > 1:
        raise header.refuse(f"{PARTS} is {header.metadata[PARTS]}; only whole models are read")
    architecture = architecture_of(header)
    slowing = None
    if SLOWING in header.tensors:
        slowing = unpacked(_stored(header, SLOWING), header.tensors[SLOWING].kind).reshape(-1)
    blueprint = blueprint_of(header, slowing)
    shapes = weight_shapes(blueprint)
    _check_tensors(header, architecture, blueprint, shapes)
    vocabulary = open_vocabulary(header, blueprint.shape.vocabulary)

    yield Needs.of(file.stem, architecture.label, blueprint)
    reader = _WeightReader(header, architecture, blueprint)
    arrays: dict[str, Floats] = {}
    warnings = list(vocabulary.warnings)
    sizes = {name: FLOAT32 * math.prod(size) for name, size in shapes.items()}
    for name, progress in zip(shapes, progress_of(sizes), strict=True):
        yield progress
        array = reader.read(name, shapes[name])
        strays = count_strays(array)
        if strays:
            stored = ", ".join(architecture.sources(name))
            warnings.append(stray_warning(stored, strays))
        arrays[name] = array
    return LoadedModel(
        name=file.stem,
        family=architecture.label,
        engine=Decoder(blueprint, build_weights(blueprint, arrays)),
        tokenizer=vocabulary.tokenizer,
        path=place,
        warnings=tuple(warnings),
    )


class _WeightReader:
    """Reads the weights of one file, each as the engine wants it."""

    def __init__(self, header: GgufFile, architecture: Architecture, blueprint: Blueprint) -> None:
        self._header, self._architecture = header, architecture
        shape = blueprint.shape
        # Rows of queries and of keys where they have to be put back in order; values never.
        self._orders: tuple[Order | None, ...] = (None, None, None)
        if architecture.interleaved and blueprint.rotary is not None:
            dims = blueprint.rotary.dims
            self._orders = (
                halves_order(shape.num_heads, shape.head_dim, dims),
                halves_order(shape.kv_heads, shape.head_dim, dims),
                None,
            )

    def read(self, name: str, size: tuple[int, ...]) -> Floats:
        """One weight, of a shape that has been checked."""
        sources = self._architecture.sources(name)
        orders = self._orders if len(sources) == len(self._orders) else (None,)
        if name in TABLES:
            (source,) = sources
            return unpacked(_stored(self._header, source), self._header.tensors[source].kind)
        result = np.empty(size, dtype=np.float32)
        first = 0
        for source, order in zip(sources, orders, strict=True):
            kind = self._header.tensors[source].kind
            stored = _stored(self._header, source)  # (rows, bytes); one row for a vector
            if len(size) == 1:
                values = unpacked(stored, kind)[0]
                width = len(values)
                result[first : first + width] = values if order is None else values[order]
            else:
                width = len(stored)
                stored = stored if order is None else stored[order]
                unpack_turned(stored, kind, result[:, first : first + width])
            first += width
        return result


def halves_order(heads: int, head_dim: int, dims: int) -> Order:
    """Where the file has each row that the engine wants: (heads * head_dim,).

    The file has coordinates 2 i and 2 i + 1 of a head turned together, for i below dims / 2; the
    engine has i and i + dims / 2. The rest of a head is not turned and stays in its place.
    """
    within = np.arange(head_dim)
    within[:dims] = np.arange(dims).reshape(-1, 2).T.ravel()
    return (np.arange(heads)[:, None] * head_dim + within).ravel()


def _check_tensors(
    header: GgufFile,
    architecture: Architecture,
    blueprint: Blueprint,
    shapes: dict[str, tuple[int, ...]],
) -> None:
    """Every tensor's name and shape against what the metadata asks for, before any is read."""
    used = {SLOWING} if blueprint.rotary is not None else set()
    for name, size in shapes.items():
        sources = architecture.sources(name)
        widths = qkv_widths(blueprint.shape) if len(sources) > 1 else (size[-1],)
        for source, width in zip(sources, widths, strict=True):
            found = header.tensors.get(source)
            if found is None:
                raise header.refuse(f"the tensor {source} is missing")
            wanted = size if name in TABLES else (width, *size[:-1])
            if found.shape != wanted:
                raise header.refuse(
                    f"{source} has shape {list(found.shape)}, and the metadata ask for "
                    f"{list(wanted)}"
                )
            used.add(source)
    surplus = sorted(name for name in header.tensors if name not in used)
    if surplus:
        more = f", nor {len(surplus) - 1} others that are there" if len(surplus) > 1 else ""
        raise header.refuse(
            f"a {architecture.label} model of these metadata has no tensor {surplus[0]}{more}"
        )


def _stored(header: GgufFile, name: str) -> Bytes:
    """The bytes of a tensor, (rows, bytes of a row)."""
    tensor: GgufTensor = header.tensors[name]
    stored = np.fromfile(header.path, dtype=np.uint8, count=tensor.size, offset=tensor.begin)
    if stored.size != tensor.size:
        raise header.refuse(f"{name} ends before its last byte")
    return stored.reshape(tensor.rows, tensor.row_bytes)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix == SUFFIX)


def _only_file(folder: Path) -> Path:
    files = _files(folder)
    if len(files) > 1:
        raise CheckpointError(
            f"{folder}: holds {len(files)} GGUF files; open one of them, such as {files[0].name}"
        )
    return files[0]


register_format(Format("gguf", recognises, open_gguf))
