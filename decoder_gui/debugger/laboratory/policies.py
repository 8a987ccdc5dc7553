"""At capacity: what an engine can do when the cache is full, and what each choice costs in sense.

The same text is run twice side by side, once in a cache with room for all of it and once in a
small one under a policy; at each position the two next-token distributions are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from model.decoder import Decoder
from model.engine import Array, Engine
from model.errors import CacheExhausted, ContextOverflow, DecoderError, ShapeMismatch
from model.ranking import stable_log_softmax
from model.sliding_cache import SlidingCache

SINKS = 4  # first tokens kept, as the paper that introduced keeping them found enough


class Policy(StrEnum):
    """What to do when the cache is full; the value is what it is called on screen."""

    STOP = "Stop"
    SLIDE = "Slide the window"
    KEEP_FIRST = "Keep the first tokens and slide"


class NotSlidable(DecoderError, TypeError):
    """This engine's cache cannot let rows go; the message says so."""


@dataclass(frozen=True)
class Divergence:
    """What a policy did at one position.

    Attributes:
        kept: positions that the small cache held when this one was processed, itself included.
        divergence: Kullback-Leibler divergence of the policy's next-token distribution from that
            of the full context, in nats; infinite where it rules out what was possible.
        log_probability, reference: of the token that came next in the text, under the policy and
            under the full context; NaN after the last token.
        choice, reference_choice: the most likely next token under each.
    """

    position: int
    kept: int
    divergence: float
    log_probability: float
    reference: float
    choice: int
    reference_choice: int

    @property
    def same_choice(self) -> bool:
        return self.choice == self.reference_choice


def compare(
    engine: Engine, token_ids: Sequence[int], capacity: int, policy: Policy, *, keep_first: int = 0
) -> Iterator[Divergence]:
    """Run a text under a policy beside the full context; yields one item a position.

    With ``Policy.STOP`` it ends where the cache is full. ``keep_first`` only says something with
    ``Policy.KEEP_FIRST``.

    Raises:
        NotSlidable: the tiny decoder, and a recording.
        ContextOverflow: the text is longer than the model's context.
        ShapeMismatch: a capacity below 2, or no room to slide behind the tokens kept.
    """
    if not isinstance(engine, Decoder):
        raise NotSlidable("only the NumPy engine's cache can let rows go")
    shape = engine.shape
    if len(token_ids) > shape.context_length:
        raise ContextOverflow(len(token_ids), shape.context_length)
    first = keep_first if policy is Policy.KEEP_FIRST else 0
    if capacity < first + 2:
        raise ShapeMismatch(
            f"a cache of {capacity} positions leaves no room to slide behind {first} that are kept"
        )
    whole = engine.new_cache(len(token_ids))
    small = SlidingCache(shape.depth, 1, shape.kv_heads, capacity, shape.head_dim)
    for position, token in enumerate(token_ids):
        ids = np.asarray([[token]], dtype=np.int64)
        if small.length == capacity:
            if policy is Policy.STOP:
                return
            small.let_go(1, keep_first=first)
        reference = engine.forward(ids, whole)[0, -1]
        found = engine.forward(ids, small)[0, -1]
        after = token_ids[position + 1] if position + 1 < len(token_ids) else None
        yield divergence(position, small.length, reference, found, after)


def divergence(
    position: int, kept: int, reference: Array, found: Array, after: int | None
) -> Divergence:
    """Compare two rows of logits, (vocab,)."""
    wanted, said = stable_log_softmax(reference), stable_log_softmax(found)
    mass = np.exp(wanted)
    with np.errstate(invalid="ignore"):
        terms = np.where(mass > 0, mass * (wanted - said), 0.0)
    return Divergence(
        position=position,
        kept=kept,
        divergence=max(0.0, float(terms.sum())),
        log_probability=math.nan if after is None else float(said[after]),
        reference=math.nan if after is None else float(wanted[after]),
        choice=int(np.argmax(found)),
        reference_choice=int(np.argmax(reference)),
    )


def stop_sentence(positions: int, capacity: int) -> str:
    """What stopping means for a text of so many positions."""
    if positions <= capacity:
        return f"All {positions} positions fit in {capacity}."
    return str(CacheExhausted(capacity, capacity))
