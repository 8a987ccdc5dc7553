"""Which token a step takes: one function for the window, the command line and every test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from decoder_gui.debugger.session import Session, Update
from model.engine import Array
from model.faults import sampling_under
from model.sampling import Distribution, SamplingConfig, distribution, draw, token_score
from model.trace import Event


@dataclass(frozen=True)
class Pick:
    """A token chosen from a step's logits.

    ``uniform`` is the number that chose it, None where the choice was greedy and nothing was drawn.
    """

    token_id: int
    log_probability: float  # nats, of the raw distribution
    uniform: float | None


def pick(source: Distribution, config: SamplingConfig, uniform: float) -> Pick:
    """The token that a held uniform number lands on under a distribution."""
    score = token_score(source, draw(source, uniform))
    return Pick(
        token_id=score.token,
        log_probability=score.log_probability,
        uniform=None if config.deterministic else uniform,
    )


def draw_many(source: Distribution, count: int, generator: np.random.Generator) -> Array:
    """How often each token comes up in ``count`` draws from a generator; (vocab,) int64."""
    reached = generator.random(count) * source.cumulative[-1]
    drawn = source.kept[np.searchsorted(source.cumulative, reached, side="right")]
    return np.bincount(drawn, minlength=source.ranking.vocabulary)


def generate(
    session: Session, prompt_ids: Sequence[int], config: SamplingConfig, tokens: int
) -> Iterator[Update]:
    """Prefill a prompt and choose ``tokens`` tokens.

    The prefill step chooses the first and each further one is a decode step. The last one chosen
    is not processed, so that there are ``tokens`` steps and prompt + tokens - 1 positions; 0 is
    the prefill alone.

    Raises:
        CacheExhausted: the cache is full before that; every step so far has been yielded.
    """
    logits: Array | None = None
    for update in session.prefill(prompt_ids):
        logits = _last_logits(update, logits)
        yield update
    for _ in range(tokens - 1):
        if logits is None:
            raise RuntimeError("a step ended without logits")
        uniform = session.steps[-1].uniform
        history = [token for step in session.steps for token in step.token_ids]
        source = distribution(logits, sampling_under(config, session.faults), history)
        chosen = pick(source, config, uniform)
        for update in session.decode(chosen.token_id, drawn=chosen.uniform is not None):
            logits = _last_logits(update, logits)
            yield update


def _last_logits(update: Update, before: Array | None) -> Array | None:
    if isinstance(update, Event) and "logits" in update.arrays:
        logits: Array = update.arrays["logits"][0, -1]
        return logits
    return before
