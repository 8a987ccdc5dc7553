"""A free run: the model goes on by itself after the beginning of a text, reading its own choices.

One departure from the text changes all that follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from model.engine import Engine
from model.errors import ContextOverflow
from model.ranking import check_logits


def free_run(engine: Engine, token_ids: Sequence[int], given: int) -> Iterator[int]:
    """The tokens that the model chooses greedily after the first ``given`` of a text.

    As many as the text has left; yields one id each, from a cache of its own.

    Raises:
        ContextOverflow: the text is longer than the context.
        NonFiniteLogits: there is nothing to choose from.
    """
    count = len(token_ids)
    if count > engine.shape.context_length:
        raise ContextOverflow(count, engine.shape.context_length)
    cache = engine.new_cache(max(1, count))
    ids = np.asarray([token_ids[:given]], dtype=np.int64)
    for _ in range(given, count):
        logits = engine.forward(ids, cache)[0, -1]
        check_logits(logits)
        chosen = int(np.argmax(logits))
        yield chosen
        ids = np.asarray([[chosen]], dtype=np.int64)
