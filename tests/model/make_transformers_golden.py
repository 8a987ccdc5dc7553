"""Writes transformers_golden.json: what transformers' own logits processors leave of random logits.

Not a test, and run by hand: ``python -m tests.model.make_transformers_golden`` where torch and
transformers are installed. The same random cases are compared without a file by
:mod:`tests.model.test_sampling_transformers`, thousands of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

GOLDEN = Path(__file__).with_name("transformers_golden.json")
COMMITTED = 60


@dataclass(frozen=True)
class RandomCase:
    """Logits of a few tokens, the tokens so far, and settings."""

    logits: list[float]
    history: list[int]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float


def random_cases(seed: int, count: int) -> Iterator[RandomCase]:
    """Cases with many ties, some masked tokens, and every stage on about half of the time."""
    rng = np.random.default_rng(seed)

    def maybe(value: float, off: float) -> float:
        return value if rng.random() < 0.6 else off

    for _ in range(count):
        size = int(rng.integers(2, 40))
        logits = np.round(rng.normal(0.0, 2.0, size), int(rng.integers(1, 6)))
        logits[rng.random(size) < 0.05] = -math.inf
        logits[int(rng.integers(size))] = float(np.round(rng.normal(), 3))
        yield RandomCase(
            logits=logits.tolist(),
            history=rng.integers(0, size, int(rng.integers(0, 12))).tolist(),
            temperature=round(maybe(float(rng.uniform(0.2, 2.5)), 1.0), 3),
            top_k=int(maybe(float(rng.integers(1, size + 3)), 0)),
            top_p=round(maybe(float(rng.uniform(0.05, 0.999)), 1.0), 4),
            min_p=round(maybe(float(rng.uniform(0.001, 0.6)), 0.0), 4),
            repetition_penalty=round(maybe(float(rng.uniform(0.7, 2.0)), 1.0), 3),
        )


def by_transformers(case: RandomCase) -> NDArray[np.float64]:
    """Final probabilities, (vocab,), of generate's processors in generate's order, in float64."""
    import torch
    from transformers.generation import logits_process as lp

    chain = lp.LogitsProcessorList()
    if case.repetition_penalty != 1.0:
        chain.append(lp.RepetitionPenaltyLogitsProcessor(case.repetition_penalty))
    if case.temperature != 1.0:
        chain.append(lp.TemperatureLogitsWarper(case.temperature))
    if case.top_k:
        chain.append(lp.TopKLogitsWarper(case.top_k))
    if case.top_p < 1.0:
        chain.append(lp.TopPLogitsWarper(case.top_p))
    if case.min_p:
        chain.append(lp.MinPLogitsWarper(case.min_p))
    scores = torch.tensor([case.logits], dtype=torch.float64)
    left = chain(torch.tensor([case.history], dtype=torch.int64), scores)
    found: NDArray[np.float64] = left.softmax(dim=-1)[0].numpy()
    return found


def main() -> None:
    """Write the committed cases, with the versions that made them."""
    import torch
    import transformers

    rows = []
    for case in random_cases(7, COMMITTED):
        final = by_transformers(case)
        row = asdict(case)
        row["logits"] = [None if math.isinf(logit) else logit for logit in case.logits]
        row["final"] = [round(p, 12) for p in final.tolist()]
        rows.append(json.dumps(row))
    about = f"transformers {transformers.__version__}, torch {torch.__version__}, float64"
    lines = ",\n  ".join(rows)
    GOLDEN.write_text(
        f'{{"about": {json.dumps(about)}, "cases": [\n  {lines}\n]}}\n', encoding="utf-8"
    )


if __name__ == "__main__":
    main()
