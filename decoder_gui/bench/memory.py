"""A long session in a process of its own: its peak of memory, and a look at what gave way.

``python -m decoder_gui.bench.memory SHAPE PREFILL DECODE`` prefills random tokens and decodes more,
as the window does, pictures of the attention included; then it looks into every block of the
prefill. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from decoder_gui.bench.shapes import loaded_of
from decoder_gui.debugger.cursor import Cursor, last
from decoder_gui.debugger.freed_memory import give_back
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import Session, StepEnded, Update
from decoder_gui.viewdata.attention import build_attention
from decoder_gui.viewdata.attention_store import PatternStore
from decoder_gui.viewdata.moment import ModelInfo, Selection, build_moment
from model.checkpoints import LoadedModel
from model.operations import Kind
from model.sampling import SamplingConfig
from model.trace import Phase, Presence, Trace

MEGABYTE = 1e6


def main(shape: str, prefill: int, decode: int) -> dict[str, Any]:
    """Times in milliseconds; memory in megabytes of 10^6 bytes."""
    loaded = loaded_of(shape)
    weights = loaded.engine.parameters * loaded.engine.dtype.itemsize
    give_back()  # what drawing the weights took
    _forget_the_peak()
    session = Session(loaded, capacity=prefill + decode, seed=1)
    run, pictures = Run(session.engine), Pictures(loaded, session)
    ids = np.random.default_rng(0).integers(0, loaded.engine.shape.vocabulary, prefill + decode)
    tokens = [int(token) for token in ids]
    _apply(session.prefill(tokens[:prefill]), run, pictures)
    for token in tokens[prefill:]:
        _apply(session.decode(token, drawn=True), run, pictures)
    looks = _looks(session, run)
    return {
        "extra_mb": (_peak() - weights - session.cache.bytes_reserved) / MEGABYTE,
        "trace_mb": (session.memory.fixed + session.memory.held) / MEGABYTE,
        "looks": looks,
    }


class Pictures:
    """What the attention panel makes of a run as it grows, and at its end."""

    def __init__(self, loaded: LoadedModel, session: Session) -> None:
        self._info, self._capacity = ModelInfo.of(loaded), session.cache.capacity
        self._store = PatternStore()

    def hear(self, run: Run, update: Update) -> None:
        """Take in each pattern of a prompt as it comes, those of a token once it is complete."""
        here = last(run.trace)
        if here is None or not _shows(run, here, update):
            return
        moment = build_moment(self._info, run, here, Selection(), SamplingConfig(), self._capacity)
        self._store.prepare(moment)
        if run.trace.complete(here.step):
            build_attention(moment, self._store)


def _shows(run: Run, here: Cursor, update: Update) -> bool:
    if isinstance(update, StepEnded):
        return True
    operation, step = run.trace.operations[here.operation], run.trace.steps[here.step]
    return step.phase is Phase.PREFILL and operation.kind is Kind.PATTERN


def _apply(updates: Iterable[Update], run: Run, pictures: Pictures) -> None:
    for update in updates:
        run.apply(update)
        pictures.hear(run, update)


def _looks(session: Session, run: Run) -> dict[str, list[float]]:
    """How long it takes until the array that is looked at is there, for every block."""
    trace = run.trace
    newest = len(trace.steps) - 1
    wanted = {
        "attention": (0, "attn.pattern", False),
        "mlp": (0, "mlp.out", True),
        "token": (max(newest // 2, min(1, newest)), "attn.pattern", False),
    }
    found: dict[str, list[float]] = {"pattern": _patterns_alone(session, trace)}
    for look, (step, part, mlp_first) in wanted.items():
        times = found[look] = []
        for layer in range(trace.shape.depth):
            pre = trace.array(step, f"blocks.{layer}.resid_pre")
            mid = trace.array(step, f"blocks.{layer}.resid_mid") if mlp_first else None
            assert pre is not None
            name, began = f"blocks.{layer}.{part}", perf_counter()
            for update in session.replay(trace.steps[step], layer, pre, mid):
                if len(times) == layer:
                    run.apply(update)
                    assert trace.presence(step, name) is Presence.HELD
                    times.append((perf_counter() - began) * 1000)
    return found


def _patterns_alone(session: Session, trace: Trace) -> list[float]:
    """How long the pattern of a block takes that only a thumbnail is made of."""
    times = []
    for layer in range(trace.shape.depth):
        pre, began = trace.array(0, f"blocks.{layer}.resid_pre"), perf_counter()
        assert pre is not None
        found = session.recompute(trace.steps[0], layer, pre, f"blocks.{layer}.attn.pattern")
        assert found is not None
        times.append((perf_counter() - began) * 1000)
    return times


def _forget_the_peak() -> None:
    """Let the peak begin anew where the system can do that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak() -> int:
    """The most that was resident, in bytes."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource  # which Windows lacks

        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
