"""What a GGUF file says about itself: its metadata and where its tensors lie, each held to account.

The package ``gguf`` has a reader, which trusts every length in the file and takes seconds over a
vocabulary; this one reads the same layout (versions 2 and 3, little-endian) and believes nothing:
no count or length is acted on before the bytes left in the file allow it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from model.checkpoints.gguf_values import Kind, kind_of, name_of
from model.errors import CheckpointError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32  # of the tensors' data, where general.alignment does not say
LARGEST_TABLE = 2**16  # metadata fields, and tensors
LARGEST_LIST = 2**20  # strings in one array: four times the largest vocabulary known
LARGEST_NAME = 2**16 - 1
LARGEST_RANK = 4
LARGEST_SIZE = 2**31 - 1
LARGEST_NUMBER = 1e30
LONGEST_SENTENCE = 1000
SMALLEST_FIELD, SMALLEST_TENSOR = 8 + 4 + 1, 8 + 4 + 8 + 4 + 8  # bytes in the file

SCALARS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?",
    10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
"""Type numbers of metadata, and how NumPy reads them."""

STRING, ARRAY = 8, 9

Value = bool | int | float | str | list[str] | NDArray[Any]


@dataclass(frozen=True)
class GgufTensor:
    """A tensor as the header describes it; ``begin`` counts bytes from the start of the file."""

    name: str
    kind: Kind
    shape: tuple[int, ...]  # slowest axis first, as NumPy has it; the file has it reversed
    begin: int

    @property
    def rows(self) -> int:
        """Number of rows, whichever the rank."""
        return math.prod(self.shape[:-1])

    @property
    def row_bytes(self) -> int:
        """Bytes that a row of the last axis takes in the file."""
        return self.shape[-1] // self.kind.block * self.kind.block_bytes

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class GgufFile:
    """A header that fits its file.

    The methods return a field of the metadata and raise CheckpointError, naming it, where it is of
    another type, out of range, or missing without a default.
    """

    path: Path
    metadata: Mapping[str, Value]
    tensors: Mapping[str, GgufTensor]

    def refuse(self, sentence: str) -> CheckpointError:
        """An error that names the file."""
        return _refusal(self.path, sentence)

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.refuse(f"{key} must be a string, not {_shown(value)}")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.refuse(f"{key} must be true or false, not {_shown(value)}")
        return value

    def whole(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number from ``least`` to 2^31 - 1."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse(f"{key} must be a whole number, not {_shown(value)}")
        if not least <= value <= LARGEST_SIZE:
            raise self.refuse(f"{key} must lie in {least} to {LARGEST_SIZE}, not {value}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number that float32 can hold with room to spare."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(f"{key} must be a number, not {_shown(value)}")
        if not abs(value) <= LARGEST_NUMBER:
            raise self.refuse(f"{key} must be a number up to {LARGEST_NUMBER}, not {value}")
        return float(value)

    def texts(self, key: str) -> list[str]:
        """An array of strings."""
        value = self._value(key, None)
        if not isinstance(value, list):
            raise self.refuse(f"{key} must be an array of strings, not {_shown(value)}")
        return value

    def numbers(self, key: str, length: int) -> NDArray[Any]:
        """An array of so many numbers."""
        value = self._value(key, None)
        if not isinstance(value, np.ndarray):
            raise self.refuse(f"{key} must be an array of numbers, not {_shown(value)}")
        if len(value) != length:
            raise self.refuse(f"{key} has {len(value)} entries, and {length} are needed")
        return value

    def _value(self, key: str, default: Value | None) -> Value:
        value = self.metadata.get(key, default)
        if value is None:
            raise self.refuse(f"{key} is missing")
        return value


def read_gguf_header(path: Path) -> GgufFile:
    """The metadata and the tensors that a file holds.

    Raises:
        CheckpointError: it is truncated, contradicts itself, or holds what is not read here.
    """
    if not path.is_file():  # a pipe would keep its reader waiting
        raise CheckpointError(f"{path}: not a regular file")
    with path.open("rb") as file:
        reader = _Reader(path, file)
        if reader.left < len(MAGIC) or reader.take(len(MAGIC), "the magic number") != MAGIC:
            raise reader.refuse("does not begin with GGUF, so not a GGUF file")
        version = reader.unsigned(4, "the version")
        if version not in VERSIONS:
            turned = int.from_bytes(version.to_bytes(4, "big"), "little")
            why = "is big-endian" if turned in VERSIONS else f"is of GGUF version {version}"
            raise reader.refuse(f"{why}; only little-endian files of version 2 and 3 are read")
        tensor_count = reader.count("the number of tensors", SMALLEST_TENSOR, LARGEST_TABLE)
        field_count = reader.count("the number of metadata fields", SMALLEST_FIELD, LARGEST_TABLE)
        metadata: dict[str, Value] = {}
        for index in range(field_count):
            key = reader.name(f"the name of metadata field {index}")
            if key in metadata:
                raise reader.refuse(f"the metadata field {key} is there twice")
            metadata[key] = reader.value(key)
        header = GgufFile(path, metadata, {})
        alignment = header.whole("general.alignment", ALIGNMENT)
        if alignment & (alignment - 1):
            raise header.refuse(f"general.alignment must be a power of two, not {alignment}")
        described = [reader.tensor(index) for index in range(tensor_count)]
        start = -(-reader.position // alignment) * alignment
        return GgufFile(path, metadata, _placed(header, described, start, alignment, reader.size))


def _placed(
    header: GgufFile, described: list[GgufTensor], start: int, alignment: int, size: int
) -> dict[str, GgufTensor]:
    """The tensors by name, each inside the file and none on top of another."""
    tensors: dict[str, GgufTensor] = {}
    for tensor in described:
        if tensor.name in tensors:
            raise header.refuse(f"the tensor {tensor.name} is there twice")
        if tensor.begin % alignment:
            raise header.refuse(
                f"the offset of {tensor.name} is {tensor.begin}, no multiple of {alignment}"
            )
        placed = GgufTensor(tensor.name, tensor.kind, tensor.shape, start + tensor.begin)
        if placed.begin + placed.size > size:
            raise header.refuse(
                f"truncated: {tensor.name} would end at byte {placed.begin + placed.size}, and "
                f"the file has {size}"
            )
        tensors[tensor.name] = placed
    end, before = start, ""
    for tensor in sorted(tensors.values(), key=lambda tensor: tensor.begin):
        if tensor.begin < end:
            raise header.refuse(f"the data of {before} and {tensor.name} overlap")
        end, before = tensor.begin + tensor.size, tensor.name
    return tensors


class _Reader:
    """Reads a file from its start and refuses to read past its end."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.file = path, file
        self.size = file.seek(0, 2)
        self.position = file.seek(0)

    @property
    def left(self) -> int:
        return self.size - self.position

    def refuse(self, sentence: str) -> CheckpointError:
        return _refusal(self.path, sentence)

    def take(self, count: int, field: str) -> bytes:
        """The next bytes; ``field`` says what they are."""
        if count > self.left:
            raise self._too_long(count, field)
        self.position += count
        data = self.file.read(count)
        if len(data) != count:
            raise self.refuse(f"truncated while it was read, in {field}")
        return data

    def unsigned(self, width: int, field: str) -> int:
        return int.from_bytes(self.take(width, field), "little")

    def count(self, field: str, smallest: int, largest: int) -> int:
        """A number of things that each take at least ``smallest`` bytes of what is left."""
        count = self.unsigned(8, field)
        if count * smallest > self.left:
            raise self._too_long(count * smallest, field)
        if count > largest:
            raise self.refuse(f"{field} is {count}; at most {largest} are read")
        return count

    def name(self, field: str) -> str:
        length = self.unsigned(8, field)
        if length > LARGEST_NAME:
            raise self.refuse(f"{field} would be {length} bytes long")
        data = self.take(length, field)
        if not _is_text(data):
            raise self.refuse(f"{field} is not UTF-8")
        return data.decode()

    def value(self, key: str) -> Value:
        """One value of the metadata."""
        kind = self.unsigned(4, f"the type of {key}")
        if kind == STRING:
            length = self.unsigned(8, f"the length of {key}")
            return self.take(length, key).decode("utf-8", "replace")
        if kind == ARRAY:
            return self._array(key)
        value: Value = self._scalars(kind, 1, key)[0].item()
        return value

    def tensor(self, index: int) -> GgufTensor:
        """One tensor's entry, its offset as the file has it."""
        name = self.name(f"the name of tensor {index}")
        rank = self.unsigned(4, f"the number of axes of {name}")
        if not 1 <= rank <= LARGEST_RANK:
            raise self.refuse(f"{name} has {rank} axes; 1 to {LARGEST_RANK} are read")
        sizes = struct.unpack(f"<{rank}Q", self.take(8 * rank, f"the shape of {name}"))
        number = self.unsigned(4, f"the type of {name}")
        kind = kind_of(number)
        if kind is None:
            raise self.refuse(f"{name} is stored as {name_of(number)}, which is not read")
        if not all(1 <= size <= LARGEST_SIZE for size in sizes):
            raise self.refuse(f"{name} has the shape {list(sizes)}")
        if sizes[0] % kind.block:
            raise self.refuse(
                f"a row of {name} has {sizes[0]} values, no multiple of the {kind.block} that "
                f"{kind.name} packs together"
            )
        return GgufTensor(name, kind, sizes[::-1], self.unsigned(8, f"the offset of {name}"))

    def _array(self, key: str) -> Value:
        kind = self.unsigned(4, f"the type of the entries of {key}")
        length = f"the length of {key}"
        if kind == STRING:
            return self._strings(self.count(length, 8, LARGEST_LIST), key)
        return self._scalars(kind, self.unsigned(8, length), key)

    def _strings(self, count: int, key: str) -> list[str]:
        # A vocabulary has 100,000 of these, so this is take() and _decoded() spelt out.
        read, unpack, left = self.file.read, struct.Struct("<Q").unpack, self.left
        found: list[bytes] = []
        for index in range(count):
            left -= 8
            length = unpack(read(8))[0] if left >= 0 else 0
            left -= length
            if left < 0:
                raise self.refuse(f"truncated or damaged: {key}[{index}] is longer than the file")
            found.append(read(length))
        self.position = self.size - left
        try:
            return [data.decode() for data in found]
        except UnicodeDecodeError:
            index = next(i for i, data in enumerate(found) if not _is_text(data))
            raise self.refuse(f"{key}[{index}] is not UTF-8") from None

    def _scalars(self, kind: int, count: int, key: str) -> NDArray[Any]:
        if kind not in SCALARS:
            raise self.refuse(f"{key} holds values of the type {kind}, which is not read")
        dtype = np.dtype(SCALARS[kind])
        return np.frombuffer(self.take(count * dtype.itemsize, key), dtype=dtype)

    def _too_long(self, count: int, field: str) -> CheckpointError:
        return self.refuse(
            f"truncated or damaged: {field} takes {count} bytes, and {self.left} are left"
        )


def _refusal(path: Path, sentence: str) -> CheckpointError:
    """An error in one line; a name from the file may hold anything, and be any length."""
    shown = "".join(
        letter if letter.isprintable() else "�" for letter in sentence[:LONGEST_SENTENCE]
    )
    return CheckpointError(f"{path}: {shown}{'…' if len(sentence) > LONGEST_SENTENCE else ''}")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(value: Value) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {len(value)} numbers"
    if isinstance(value, list):
        return f"an array of {len(value)} strings"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
