"""A text as evidence: how probable each of its tokens was, and what the model would have said.

Under teacher forcing the model always reads the text as it is given, however little it expected it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from decoder_gui.debugger.laboratory.lens import NoReadout, slices, unembedder
from model.engine import Array
from model.ranking import stable_log_softmax
from model.trace import Trace


@dataclass(frozen=True)
class Surprise:
    """What the model said about one token of the text before it saw it.

    Attributes:
        log_probability: nats, of the raw distribution.
        rank: 1 is the most likely token; of equal ones the lower id comes first.
        choice_id: the token that the model held most likely there.
        entropy: of the distribution, in nats: how surprised it expected to be.
    """

    position: int
    token_id: int
    log_probability: float
    rank: int
    choice_id: int
    choice_log_probability: float
    entropy: float

    @property
    def agrees(self) -> bool:
        """Whether the text goes on as the model would have."""
        return self.rank == 1


@dataclass(frozen=True)
class Evidence:
    """The tokens of a text but the first, about which nothing was said.

    ``missing`` are positions whose logits were neither recorded nor can be computed again.
    """

    surprises: tuple[Surprise, ...] = ()
    missing: tuple[int, ...] = ()

    @property
    def log_likelihood(self) -> float:
        """Sum over the tokens, in nats."""
        return math.fsum(each.log_probability for each in self.surprises)

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability; not a number without tokens."""
        if not self.surprises:
            return math.nan
        mean = -self.log_likelihood / len(self.surprises)
        return math.exp(mean) if mean < 709.0 else math.inf

    @property
    def agreements(self) -> int:
        """Tokens that the model would have chosen greedily."""
        return sum(each.agrees for each in self.surprises)


def weigh(
    trace: Trace, weights: object | None, *, first: int = 1
) -> Iterator[tuple[Surprise, ...] | int]:
    """What a recorded run says about its own tokens, a few positions at a time.

    ``first`` is the first position of interest: what lies before it is known already. Logits that
    were recorded are used as they are; others are read again from the final norm, which is always
    recorded. Yields tuples of surprises, and the position of each token about
    which nothing can be known.
    """
    try:
        read = None if weights is None else unembedder(weights)
    except NoReadout:
        read = None
    ids = trace.token_ids
    for step in trace.steps:
        if not trace.complete(step.index):
            return
        logits = trace.array(step.index, "logits")
        final = trace.array(step.index, "ln_final")
        # Row r of the step speaks about the token at position step.first + r + 1.
        beyond = range(step.last - step.first)
        rows = [r for r in beyond if first <= step.first + r + 1 < len(ids)]
        recorded = logits is not None and logits.shape[1] == step.last - step.first
        for part in slices(len(rows), trace.shape.vocabulary):
            wanted = rows[part]
            if recorded and logits is not None:
                found: Array = logits[0, wanted]
            elif wanted == [step.last - step.first - 1] and logits is not None:
                found = logits[0, -1:]
            elif read is not None and final is not None:
                found = read(final[0, wanted])
            else:
                yield from (step.first + r + 1 for r in wanted)
                continue
            yield tuple(
                surprise(row, ids[step.first + r + 1], step.first + r + 1)
                for row, r in zip(found, wanted, strict=True)
                if bool(np.isfinite(row).all())
            )
            yield from (
                step.first + r + 1
                for row, r in zip(found, wanted, strict=True)
                if not np.isfinite(row).all()
            )


def surprise(logits: Array, token_id: int, position: int) -> Surprise:
    """What logits (vocab,) say about a token."""
    logs = stable_log_softmax(logits)
    own = logits[token_id]
    choice = int(np.argmax(logits))
    powers = np.exp(logs)
    return Surprise(
        position=position,
        token_id=token_id,
        log_probability=float(logs[token_id]),
        rank=1 + int((logits > own).sum()) + int((logits[:token_id] == own).sum()),
        choice_id=choice,
        choice_log_probability=float(logs[choice]),
        entropy=float(-(powers * np.where(powers > 0, logs, 0.0)).sum()),
    )
