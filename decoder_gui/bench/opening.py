"""Opening a GGUF file, and the same weights had the obvious way.

The obvious way is the package ``gguf`` tensor by tensor: dequantise, make it float32, and turn each
matrix into what a product wants. It reads no tokenizer and checks nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from decoder_gui.bench.rounds import Progress, median, median_ratio
from model.checkpoints.loading import opening
from model.weights import Floats

TABLES = ("token_embd.weight", "position_embd.weight", "output.weight")  # read row by row


@dataclass(frozen=True)
class OpeningFigures:
    """Medians over interleaved rounds, the file in the system's cache.

    Attributes:
        gguf_open_s: seconds until the model can run, tokenizer included.
        gguf_weights_share: how much of that is reading and unpacking the weights, 0 to 1.
        gguf_naive_s: seconds of the obvious way to the weights alone.
        gguf_open_over_naive: the ratio of the two.
        gguf_read_mb: the file's size in megabytes of 10^6 bytes.
    """

    gguf_open_s: float
    gguf_weights_share: float
    gguf_naive_s: float
    gguf_open_over_naive: float
    gguf_read_mb: float


def measure_opening(file: Path, rounds: int, say: Progress) -> OpeningFigures:
    """Time both, one after the other in every round; a first round warms up.

    Raises:
        CheckpointError: the file cannot be opened.
    """
    opened: list[float] = []
    shares: list[float] = []
    naive: list[float] = []
    for number in range(rounds + 1):
        say(f"opening {file.name}, round {number} of {rounds}" if number else f"{file.name}")
        headers, whole = _open(file)
        began = perf_counter()
        naive_weights(file)
        took = perf_counter() - began
        if number:
            opened.append(whole)
            shares.append((whole - headers) / whole)
            naive.append(took)
    return OpeningFigures(
        gguf_open_s=median(opened),
        gguf_weights_share=median(shares),
        gguf_naive_s=median(naive),
        gguf_open_over_naive=median_ratio(opened, naive),
        gguf_read_mb=round(file.stat().st_size / 1e6, 1),
    )


def _open(file: Path) -> tuple[float, float]:
    """Seconds until the first weight is about to be read, and until the model is there."""
    began = perf_counter()
    steps = opening(file)
    next(steps)  # what it will need
    headers = perf_counter() - began
    for _ in steps:
        pass
    return headers, perf_counter() - began


def naive_weights(file: Path) -> dict[str, Floats]:
    """Every tensor as float32, matrices as (in, out)."""
    from gguf import GGUFReader, dequantize

    arrays: dict[str, Floats] = {}
    for tensor in GGUFReader(file).tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        turned = values.ndim > 1 and tensor.name not in TABLES
        arrays[tensor.name] = np.ascontiguousarray(values.T) if turned else values
    return arrays
