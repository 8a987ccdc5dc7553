"""The engine beside transformers, on the same random GPT-2 small, in interleaved rounds.

    python -m decoder_gui.bench.against_transformers [--rounds N] [--tokens N]

Needs an interpreter that has PyTorch and transformers besides this project's own packages; nothing
else here does. Each side runs in a process of its own, so that neither's idle threads get in the
other's way, and with as many threads. What is compared:

- a prefill after which every operation can be stepped through, as the window runs it, with eager
  attention that returns all attention weights and hidden states, for the logits of the last
  position only and as it comes, with those of all;
- a prefill that records nothing, with one that returns nothing else;
- one decoded token, recorded here and not there.

Every figure is the median over rounds, every ratio the median of the rounds' own ratios; that of
processor time says more while the machine has other things to do. The logits of both are held
against each other first.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple, Protocol

import numpy as np

from decoder_gui.bench.rounds import median, median_ratio, milliseconds

Work = Callable[[], Any]

TOKENS = 5  # decoded in a round
CLOSE = 2e-4  # of the largest logit
PAIRS = (
    ("recorded", "recorded"),
    ("recorded", "recorded, all logits"),
    ("bare", "bare"),
    ("token", "token"),
)


class Row(NamedTuple):
    """One comparison: what each side did, in how many milliseconds, and the ratios ours/theirs."""

    ours: str
    theirs: str
    our_ms: float
    their_ms: float
    ratio: float
    processor_ratio: float


def ours(folder: Path, tokens: Sequence[int], threads: int) -> dict[str, Work]:
    """What this project does, by name; ``logits`` gives those of the last position."""
    from decoder_gui.debugger.run import Run
    from decoder_gui.debugger.session import Session
    from model.checkpoints import open_checkpoint

    loaded = open_checkpoint(folder)
    session = Session(loaded, capacity=len(tokens))
    run = Run(session.engine)
    ids, cache = np.array([tokens], dtype=np.int64), loaded.engine.new_cache(len(tokens))

    def recorded() -> None:
        for update in session.prefill(tokens):
            run.apply(update)

    def bare() -> Any:
        cache.rewind(0)
        return loaded.engine.forward(ids, cache)

    def token() -> None:
        session.rewind(1)
        for update in session.decode(tokens[-1], drawn=True):
            run.apply(update)

    def before_token() -> None:
        for update in session.prefill(tokens[:-1]):
            run.apply(update)

    return {
        "logits": lambda: bare()[0, -1],
        "recorded": recorded,
        "bare": bare,
        "before token": before_token,
        "token": token,
    }


def theirs(folder: Path, tokens: Sequence[int], threads: int) -> dict[str, Work]:
    """The same by transformers."""
    import torch
    import transformers

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    eager = transformers.GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()
    plain = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    ids = torch.tensor([list(tokens)])
    held: list[Any] = []

    def recorded(**how: int) -> None:
        held[:] = []  # as the other side drops the last run when the next begins
        held.append(eager(ids, output_attentions=True, output_hidden_states=True, **how))

    def bare() -> Any:
        return plain(ids, logits_to_keep=1).logits

    def logits() -> Any:
        return bare()[0, -1].numpy()

    def token() -> None:
        plain(ids[:, -1:], past_key_values=held[0], use_cache=True)
        held[0].crop(-1)

    def before_token() -> None:
        held[:] = [plain(ids[:, :-1], use_cache=True, logits_to_keep=1).past_key_values]

    return {
        "logits": logits,
        "recorded": lambda: recorded(logits_to_keep=1),
        "recorded, all logits": recorded,
        "bare": bare,
        "before token": before_token,
        "token": token,
    }


def serve(side: str, connection: Connection, folder: Path, tokens: list[int], threads: int) -> None:
    """In a process of its own: do what is asked for, and answer with milliseconds or logits."""
    works = {"ours": ours, "theirs": theirs}[side](folder, tokens, threads)
    while (name := connection.recv()) is not None:
        connection.send(works[name]() if name == "logits" else _timed(works[name]))


def _timed(work: Work) -> tuple[float, float]:
    """Milliseconds by the wall clock, and of all processors together."""
    began = process_time()
    taken = milliseconds(work)
    return taken, (process_time() - began) * 1000


class Side:
    """One of the two processes."""

    def __init__(self, side: str, folder: Path, tokens: list[int], threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, there = context.Pipe()
        self._process = context.Process(target=serve, args=(side, there, folder, tokens, threads))
        self._process.start()

    def ask(self, name: str) -> Any:
        self._connection.send(name)
        return self._connection.recv()

    def end(self) -> None:
        with suppress(OSError):  # it may have failed
            self._connection.send(None)
        self._process.join()


class Asked(Protocol):
    """Whoever does a work by its name, and says how long it took."""

    def ask(self, name: str) -> Any: ...


def compare(left: Asked, right: Asked, rounds: int) -> list[Row]:
    """Everything once in every round, in turns; a first round warms up."""
    times: dict[tuple[str, str], list[tuple[float, float, float, float]]]
    times = {pair: [] for pair in PAIRS}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        for one, other in PAIRS:
            for turn in range(TOKENS + 1 if one == "token" else 1):
                if one == "token" and not turn:
                    left.ask("before token"), right.ask("before token")
                took = (*left.ask(one), *right.ask(other))
                if number and (turn or one != "token"):
                    times[one, other].append(took)
    rows = []
    for (one, other), found in times.items():
        wall, processor, their_wall, their_processor = zip(*found, strict=True)
        ratios = median_ratio(wall, their_wall), median_ratio(processor, their_processor)
        rows.append(Row(one, other, median(wall), median(their_wall), *ratios))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and print a table; returns 1 if the two do not compute the same."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=512)
    asked = parser.parse_args(arguments)
    threads = _threads()
    import transformers

    tokens = np.random.default_rng(0).integers(0, 50257, asked.tokens).tolist()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        transformers.set_seed(0)
        transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(folder)
        sides = [Side(side, folder, tokens, threads) for side in ("ours", "theirs")]
        try:
            mine, other = (side.ask("logits") for side in sides)
            apart = float(np.abs(mine - other).max() / np.abs(other).max())
            rows = compare(sides[0], sides[1], asked.rounds) if apart < CLOSE else []
        finally:
            for side in sides:
                side.end()
    print(f"{asked.tokens} tokens, {threads} threads, logits {apart:.1e} apart")
    for row in rows:
        against = "" if row.theirs == row.ours else f" / {row.theirs}"
        print(
            f"{row.ours + against:<32} {row.our_ms:9.1f} ms   transformers {row.their_ms:9.1f} ms"
            f"   ratio {row.ratio:.2f}, of processor time {row.processor_ratio:.2f}"
        )
    return 0 if rows else 1


def _threads() -> int:
    """As many as NumPy's BLAS takes."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    raise SystemExit(main())
