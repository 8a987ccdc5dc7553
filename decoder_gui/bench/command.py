"""``decoder-gui bench``: every figure of the project, measured in one go.

A machine's speed may change by a factor of two within minutes, so everything is measured in
rounds, one thing after the other, and every figure is the median over the rounds. A ratio is the
median of the rounds' own ratios, not the ratio of two medians.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from decoder_gui.bench.engine import EngineFigures, measure_engine
from decoder_gui.bench.opening import measure_opening
from decoder_gui.bench.processes import measured
from decoder_gui.bench.rounds import Progress, median, median_ratio, percentile
from decoder_gui.bench.sampler import measure_sampler
from decoder_gui.bench.shapes import RANDOM, loaded_of
from decoder_gui.debugger.freed_memory import keep_freed_memory
from model.decoder import Decoder

POSITIONS = 512  # of context in use, where the model has as many
LONG_SESSIONS = ((1000, 24), (512, 512))  # tokens of the prompt, and decoded
MOVES = 240  # of the cursor in a round, forward and back
# Rounds where nothing else is said; a figure that takes longer gets fewer.
DECODES, PREFILLS, SAMPLERS, STARTS, WINDOWS, LARGE, OPENINGS = 21, 5, 7, 7, 3, 2, 3
# Variables that change the arithmetic's speed; which of them are set is part of a figure.
_VARIABLES = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
)

_UNITS = {
    "gguf_open_s": ("opening the file given, until the model can run", "s"),
    "gguf_weights_share": ("of that, reading and unpacking weights", ""),
    "gguf_naive_s": ("its weights by the package gguf, tensor by tensor", "s"),
    "gguf_open_over_naive": ("opening over that", "×"),
    "gguf_read_mb": ("the file's size", "MB"),
    "products_ms": ("matrix products of one decoded token, nothing else", "ms"),
    "decode_ms": ("one decoded token, everything recorded", "ms"),
    "decode_over_products": ("decode over its products", "×"),
    "prefill_products_ms": ("matrix products of a prefill, nothing else", "ms"),
    "prefill_ms": ("a prefill, nothing recorded", "ms"),
    "prefill_over_products": ("prefill over its products", "×"),
    "record_over_products": ("prefill with everything recorded, over its products", "×"),
    "session_1024_extra_mb": ("peak of a 1,024-token session above weights and cache", "MB"),
    "replay_block_ms": ("a look into a block that gave way, half of it recomputed", "ms"),
    "sampler_rank_ms": ("validating and sorting the logits, once per token", "ms"),
    "sampler_redraw_ms": ("one slider tick: distribution, candidates, words", "ms"),
    "step_to_paint_ms": ("one move of the cursor until all panels are painted", "ms"),
    "gui_longest_block_ms": ("longest block of the window while the worker decodes", "ms"),
    "gui_longest_block_checking_ms": ("longest block of the window while the checks run", "ms"),
    "gui_longest_block_first_shown_ms": (
        "longest block of the window while 1,024 tokens of 12 × 12 heads run and are shown",
        "ms",
    ),
    "head_switch_ms": ("another head of those until painted", "ms"),
    "layer_switch_ms": ("another layer of those until painted", "ms"),
    "layer_complete_ms": ("the same until what was not kept is recomputed and painted", "ms"),
    "strip_scroll_ms": ("one notch of the wheel over 1,024 tokens until painted", "ms"),
    "tree_scroll_ms": ("one notch of the wheel over the operations until painted", "ms"),
    "slider_tick_window_ms": (
        "one tick of a sampling slider at 151,936 tokens until all panels are painted",
        "ms",
    ),
    "startup_ms": ("fresh process until the window's first paint", "ms"),
    "bare_window_ms": ("the same for a bare window of PySide6", "ms"),
    "startup_over_bare": ("start over the bare window's", "×"),
    "startup_ready_ms": ("fresh process until the prompt has run and is painted", "ms"),
}


def measure(shape: str, rounds: int | None = None, gguf: Path | None = None) -> dict[str, Any]:
    """Measure everything; progress goes to standard error, a line for each part.

    Args:
        shape: "stories", the bundled model, or "gpt2-small" or "smollm2", random weights of that
            shape. The window's figures are those of ``stories`` in any case.
        rounds: of every figure; each has its own number where None. At least one is measured.
        gguf: a file whose opening is measured besides.

    Returns:
        What ``--json`` writes: times in milliseconds, ratios, and the circumstances.

    Raises:
        BenchFailed: the window or a bare one could not be measured.
        CheckpointError: the bundled model or the file cannot be opened.
    """
    keep_freed_memory()  # as the window does
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - began:5.0f} s] {what}", file=sys.stderr, flush=True)

    def count(usual: int) -> int:
        return usual if rounds is None else max(1, rounds)

    figures: dict[str, Any] = {"shape": shape}
    if gguf is not None:
        figures |= asdict(measure_opening(gguf, count(OPENINGS), say))
    figures |= _engine(shape, count(DECODES), count(PREFILLS), say)
    figures |= _memory(shape, say)
    figures |= _sampler(count(SAMPLERS), say)
    figures |= _window(count(WINDOWS), say)
    figures |= _large("gpt2-small" if shape == "gpt2-small" else "narrow", count(LARGE), say)
    figures |= _start(count(STARTS), say)
    figures["rounds"] = {
        "decode": count(DECODES),
        "prefill": count(PREFILLS),
        "sampler": count(SAMPLERS),
        "window": count(WINDOWS),
        "large": count(LARGE),
        "startup": count(STARTS),
    } | ({} if gguf is None else {"opening": count(OPENINGS)})
    return figures | _circumstances()


def as_lines(figures: Mapping[str, Any]) -> list[str]:
    """The figures as a table: name, value, unit, what it is; then the circumstances."""
    rows: list[tuple[str, str, str, str]] = []
    for name, (words, unit) in _UNITS.items():
        if name not in figures:
            continue
        value = figures[name]
        if isinstance(value, Mapping):
            rows += [(f"{name} {key}", _number(part), unit, words) for key, part in value.items()]
        else:
            rows.append((name, _number(value), unit, words))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"{name:<{widths[0]}}  {value:>{widths[1]}} {unit:<{widths[2]}}  {words}"
        for name, value, unit, words in rows
    ]
    rest = {name: value for name, value in figures.items() if name not in _UNITS}
    width = max((len(name) for name in rest), default=0)
    return [*lines, "", *(f"{name:<{width}}  {_words(value)}" for name, value in rest.items())]


def _engine(shape: str, decodes: int, prefills: int, say: Progress) -> dict[str, Any]:
    say(f"opening {shape}" if shape not in RANDOM else "drawing random weights")
    decoder = loaded_of(shape).engine
    assert isinstance(decoder, Decoder)
    found: EngineFigures = measure_engine(
        decoder,
        positions=min(POSITIONS, decoder.shape.context_length),
        decode_rounds=decodes,
        prefill_rounds=prefills,
        progress=say,
    )
    names = (name for name in _UNITS if hasattr(found, name))
    return {"positions": found.positions} | {name: round(getattr(found, name), 3) for name in names}


def _memory(shape: str, say: Progress) -> dict[str, Any]:
    """Long sessions, where the model has positions for them."""
    if shape not in RANDOM:
        return {}
    extra: dict[str, float] = {}
    looks: dict[str, float] = {}
    for prefill, decode in LONG_SESSIONS:
        say(f"a session of {prefill} tokens and {decode} decoded, and looks into its blocks")
        found = measured("decoder_gui.bench.memory", shape, str(prefill), str(decode))
        extra[f"{prefill}+{decode}"] = round(found["extra_mb"], 1)
        looks = looks or {look: median(times) for look, times in found["looks"].items()}
    return {"session_1024_extra_mb": extra, "replay_block_ms": looks}


def _sampler(rounds: int, say: Progress) -> dict[str, Any]:
    found = measure_sampler(rounds, say)
    return {
        "sampler_rank_ms": {str(size): time for size, time in found.rank.items()},
        "sampler_redraw_ms": {str(size): time for size, time in found.redraw.items()},
    }


def _window(rounds: int, say: Progress) -> dict[str, Any]:
    say("the window, on the bundled model")
    found = measured("decoder_gui.bench.window", str(rounds), str(MOVES), talks=True)
    steps: list[list[float]] = found["steps"]
    return {
        "step_to_paint_ms": {
            "p50": median([percentile(moves, 0.5) for moves in steps]),
            "p95": median([percentile(moves, 0.95) for moves in steps]),
        },
        "gui_longest_block_ms": median(found["blocks"]),
        "gui_longest_block_checking_ms": median(found["check_blocks"]),
    }


def _large(shape: str, rounds: int, say: Progress) -> dict[str, Any]:
    say("the window, on large shapes")
    found: dict[str, list[float]] = measured(
        "decoder_gui.bench.large", shape, str(rounds), talks=True
    )
    longest = median(found.pop("gui_longest_block_first_shown"))
    return {"gui_longest_block_first_shown_ms": longest} | {
        f"{name}_ms": {"p50": percentile(times, 0.5), "p95": percentile(times, 0.95)}
        for name, times in found.items()
    }


def _start(rounds: int, say: Progress) -> dict[str, Any]:
    """From nothing to a painted window, and the same for a bare one, in turns."""
    painted: list[float] = []
    ready: list[float] = []
    bare: list[float] = []
    for number in range(rounds + 1):
        say(f"start of the window, round {number} of {rounds}" if number else "start, warming up")
        product = _milliseconds_from_start("product")
        alone = _milliseconds_from_start("bare")
        if number:  # the first brings the files into memory
            painted.append(product["first_paint"])
            ready.append(product["ready"])
            bare.append(alone["first_paint"])
    return {
        "startup_ms": median(painted),
        "bare_window_ms": median(bare),
        "startup_over_bare": median_ratio(painted, bare),
        "startup_ready_ms": median(ready),
    }


def _milliseconds_from_start(which: str) -> dict[str, float]:
    start = time.monotonic_ns()
    found = measured("decoder_gui.bench.startup", which)
    return {name: (at - start) / 1e6 for name, at in found.items()}


def _circumstances() -> dict[str, Any]:
    return {
        "threads": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "numpy": np.__version__,
        "blas": _blas(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def _blas() -> str:
    described: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    blas = described.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _number(value: float) -> str:
    return f"{value:,.2f}"


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part}" for name, part in value.items()) or "nothing set"
    return str(value)
