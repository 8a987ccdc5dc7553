"""Unpacking: the same bits as the package that defines the types."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from model.checkpoints.gguf_values import KINDS, kind_of, name_of, unpack_turned, unpacked

ROWS, COLUMNS = 70, 512  # more rows than are turned at once, and no multiple of them


@pytest.mark.parametrize("number", [*KINDS, gguf.GGMLQuantizationType.Q5_0])
@pytest.mark.parametrize("highest", [60, 256])
def test_every_type_has_the_packages_bits(number: int, highest: int) -> None:
    kind = kind_of(number)
    assert kind is not None
    wanted_kind = gguf.GGMLQuantizationType(number)
    assert (kind.block, kind.block_bytes) == gguf.GGML_QUANT_SIZES[wanted_kind]
    assert kind.name == name_of(number) == wanted_kind.name
    # Bytes below 60 make sound scales; with all bytes some are NaN, infinite or denormal.
    size = (ROWS, COLUMNS // kind.block * kind.block_bytes)
    stored = np.random.default_rng(number).integers(0, highest, size, dtype=np.uint8)
    with np.errstate(all="ignore"):
        wanted = gguf.dequantize(stored, wanted_kind).view(np.uint32)
    found = unpacked(stored, kind)
    assert found.dtype == np.float32
    assert np.array_equal(found.view(np.uint32), wanted)

    # Beside other columns, as queries lie beside keys.
    turned = np.zeros((COLUMNS, ROWS + 5), dtype=np.float32)
    unpack_turned(stored, kind, turned[:, 3 : ROWS + 3])
    assert np.array_equal(turned[:, 3 : ROWS + 3].T.copy().view(np.uint32), wanted)
    assert not turned[:, :3].any()
    assert not turned[:, ROWS + 3 :].any()


def test_types_that_nobody_unpacks_are_named() -> None:
    assert kind_of(gguf.GGMLQuantizationType.I32) is None
    assert kind_of(9999) is None
    assert name_of(gguf.GGMLQuantizationType.I32) == "I32"
    assert name_of(9999) == "the unknown type 9999"
