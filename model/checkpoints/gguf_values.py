"""The types that GGUF packs weights in, and how their bytes become float32.

The package ``gguf`` can unpack every type. The common ones are unpacked here, to the same bits (a
test holds each against the package) in a third of the time; the package is imported for the others.
Matrices go straight into arrays that are (in, out), as the engine wants them and no file has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from model.weights import Floats

Bytes = NDArray[np.uint8]

CHUNK = 2**17  # values unpacked at once: float32 of them stay in a core's own cache
TURNED_ROWS = 64  # turned at once
PADDING = (
    16  # floats after each of these rows: or rows of 2^n values all fall on the same cache lines
)
SUPER = 256  # values in a block of the K types, which has 8 or 16 scales of its own

Q4_0 = np.dtype([("scale", "<f2"), ("low_high", "u1", 16)])
Q4_1 = np.dtype([("scale", "<f2"), ("least", "<f2"), ("low_high", "u1", 16)])
Q8_0 = np.dtype([("scale", "<f2"), ("values", "i1", 32)])
Q4_K = np.dtype(
    [("scale", "<f2"), ("least", "<f2"), ("scales", "u1", 12), ("low_high", "u1", (4, 32))]
)
Q5_K = np.dtype(
    [
        ("scale", "<f2"),
        ("least", "<f2"),
        ("scales", "u1", 12),
        ("fifth_bits", "u1", 32),
        ("low_high", "u1", (4, 32)),
    ]
)
Q6_K = np.dtype(
    [
        ("low_high", "u1", (2, 2, 32)),
        ("upper", "u1", (2, 32)),
        ("scales", "i1", 16),
        ("scale", "<f2"),
    ]
)


@dataclass(frozen=True)
class Kind:
    """A type: ``block`` values take ``block_bytes`` bytes, and ``unpack`` writes them out.

    ``unpack`` takes (rows, bytes) and a float32 array (rows, values) whose rows are contiguous.
    """

    name: str
    block: int
    block_bytes: int
    unpack: Callable[[Bytes, Floats], None]


def unpacked(stored: Bytes, kind: Kind) -> Floats:
    """Rows of bytes, (rows, bytes), as a new float32 array (rows, values)."""
    values = stored.shape[1] // kind.block_bytes * kind.block
    result = np.empty((stored.shape[0], values), dtype=np.float32)
    step = max(1, CHUNK // values)
    with np.errstate(all="ignore"):  # scales that are NaN or infinite are reported by the loader
        for first in range(0, len(result), step):
            kind.unpack(stored[first : first + step], result[first : first + step])
    return result


def unpack_turned(stored: Bytes, kind: Kind, target: Floats) -> None:
    """Rows of bytes, (rows, bytes), into the columns of ``target``, (values, rows)."""
    values, rows = target.shape
    padded = np.empty((TURNED_ROWS, values + PADDING), dtype=np.float32)[:, :values]
    with np.errstate(all="ignore"):
        for first in range(0, rows, TURNED_ROWS):
            part = padded[: min(TURNED_ROWS, rows - first)]
            kind.unpack(stored[first : first + TURNED_ROWS], part)
            target[:, first : first + TURNED_ROWS] = part.T


def _f32(stored: Bytes, out: Floats) -> None:
    out[...] = stored.view("<f4")


def _f16(stored: Bytes, out: Floats) -> None:
    out[...] = stored.view("<f2")


def _bf16(stored: Bytes, out: Floats) -> None:
    bits = out.view(np.uint32)
    bits[...] = stored.view("<u2")
    bits <<= 16


def _q8_0(stored: Bytes, out: Floats) -> None:
    blocks = stored.view(Q8_0)  # (rows, blocks)
    values = out.reshape(*blocks.shape, 32)
    values[...] = blocks["values"]
    values *= _float(blocks["scale"])[..., None]


def _q4_0(stored: Bytes, out: Floats) -> None:
    blocks = stored.view(Q4_0)
    values = _nibbles(blocks["low_high"], out.reshape(*blocks.shape, 2, 16))
    values -= 8
    values *= _float(blocks["scale"])[..., None, None]


def _q4_1(stored: Bytes, out: Floats) -> None:
    blocks = stored.view(Q4_1)
    values = _nibbles(blocks["low_high"], out.reshape(*blocks.shape, 2, 16))
    values *= _float(blocks["scale"])[..., None, None]
    values += _float(blocks["least"])[..., None, None]


def _q4_k(stored: Bytes, out: Floats) -> None:
    blocks = stored.view(Q4_K)
    values = _nibbles(blocks["low_high"], out.reshape(*blocks.shape, 4, 2, 32))
    scales, least = _scales_and_least(blocks)
    values *= scales.reshape(*blocks.shape, 4, 2, 1)
    values -= least.reshape(*blocks.shape, 4, 2, 1)


def _q5_k(stored: Bytes, out: Floats) -> None:
    blocks = stored.view(Q5_K)
    values = out.reshape(*blocks.shape, 4, 2, 32)
    packed, fifth = blocks["low_high"], blocks["fifth_bits"]
    for pair in range(4):
        low_bit, high_bit = fifth >> (2 * pair), fifth >> (2 * pair + 1)
        values[..., pair, 0, :] = packed[..., pair, :] & 15 | (low_bit & 1) << 4
        values[..., pair, 1, :] = packed[..., pair, :] >> 4 | (high_bit & 1) << 4
    scales, least = _scales_and_least(blocks)
    values *= scales.reshape(*blocks.shape, 4, 2, 1)
    values -= least.reshape(*blocks.shape, 4, 2, 1)


def _q6_k(stored: Bytes, out: Floats) -> None:
    blocks = stored.view(Q6_K)
    values = out.reshape(*blocks.shape, 2, 4, 32)  # halves, quarters of a half
    packed, upper = blocks["low_high"], blocks["upper"]  # (…, 2, 2, 32), (…, 2, 32)
    for place in range(2):
        low_bits, high_bits = upper >> (2 * place), upper >> (2 * place + 4)
        values[..., place, :] = packed[..., place, :] & 15 | (low_bits & 3) << 4
        values[..., place + 2, :] = packed[..., place, :] >> 4 | (high_bits & 3) << 4
    values -= 32
    scales = _float(blocks["scale"])[..., None] * _float(blocks["scales"])
    sixteens = values.reshape(*blocks.shape, 16, 16)
    sixteens *= scales[..., None]


def _float(array: NDArray[np.generic]) -> Floats:
    return array.astype(np.float32)


def _nibbles(packed: Bytes, out: Floats) -> Floats:
    """Low halves of bytes into ``out[..., 0, :]``, high ones into ``out[..., 1, :]``."""
    np.bitwise_and(packed, 15, out=out[..., 0, :], casting="unsafe", dtype=np.uint8)
    np.right_shift(packed, 4, out=out[..., 1, :], casting="unsafe", dtype=np.uint8)
    return out


def _scales_and_least(blocks: NDArray[np.void]) -> tuple[Floats, Floats]:
    """The eight scales and the eight least values of a block of Q4_K or Q5_K.

    They are 6 bits each in 12 bytes: the first four of both lie in the low bits of bytes 0 to 7,
    the last four have 4 bits in bytes 8 to 11 and their upper 2 atop those of the first four.
    """
    packed = blocks["scales"]
    first, second, last = packed[..., 0:4], packed[..., 4:8], packed[..., 8:12]
    scales = np.concatenate([first & 63, last & 15 | first >> 2 & 48], axis=-1)
    least = np.concatenate([second & 63, last >> 4 | second >> 2 & 48], axis=-1)
    return (
        _float(blocks["scale"])[..., None] * _float(scales),
        _float(blocks["least"])[..., None] * _float(least),
    )


KINDS = {
    0: Kind("F32", 1, 4, _f32),
    1: Kind("F16", 1, 2, _f16),
    30: Kind("BF16", 1, 2, _bf16),
    8: Kind("Q8_0", 32, Q8_0.itemsize, _q8_0),
    2: Kind("Q4_0", 32, Q4_0.itemsize, _q4_0),
    3: Kind("Q4_1", 32, Q4_1.itemsize, _q4_1),
    12: Kind("Q4_K", SUPER, Q4_K.itemsize, _q4_k),
    13: Kind("Q5_K", SUPER, Q5_K.itemsize, _q5_k),
    14: Kind("Q6_K", SUPER, Q6_K.itemsize, _q6_k),
}
"""The types that are unpacked here, by their number in a file."""


def kind_of(number: int) -> Kind | None:
    """The type of this number in a file, None where nobody knows how to unpack it."""
    return KINDS.get(number) or _kind_of_package(number)


def name_of(number: int) -> str:
    """What a type is called."""
    from gguf import GGMLQuantizationType

    try:
        return GGMLQuantizationType(number).name
    except ValueError:
        return f"the unknown type {number}"


@cache
def _kind_of_package(number: int) -> Kind | None:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

    def unpack(stored: Bytes, out: Floats) -> None:
        out[...] = dequantize(stored, kind)

    try:
        kind = GGMLQuantizationType(number)
        block, block_bytes = GGML_QUANT_SIZES[kind]
        unpack(np.zeros((1, block_bytes), np.uint8), np.empty((1, block), np.float32))
    except (ValueError, KeyError, NotImplementedError):
        return None
    return Kind(kind.name, block, block_bytes, unpack)
