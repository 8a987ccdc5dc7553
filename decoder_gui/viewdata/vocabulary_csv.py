"""The whole vocabulary under a setting of the sampler, as CSV: every token, every stage."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from model.sampling import Distribution
from model.tokenizers import Tokenizer

CHUNK = 2000  # rows worked out between two that a job may be left at
HEAD = ("rank", "token_id", "text", "logit", "log_probability")


def csv_lines(shown: Distribution, tokenizer: Tokenizer) -> Iterator[str]:
    """Lines of RFC 4180 in chunks, the head first; probabilities to 17 digits, as they are.

    Rows are by falling raw probability. Each stage has a column of its distribution, 0 where the
    token is out; ``cut_by`` names the stage that cut it, and is empty for what can be drawn.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    names = [stage.name for stage in shown.stages]
    columns = [stage.probabilities for stage in shown.stages]
    writer.writerow((*HEAD, *names, "cut_by"))
    yield _taken(buffer)
    order, logits, scores = shown.ranking.order, shown.ranking.logits, shown.ranking.log_raw
    cuts, cut_names = shown.cut_by, shown.cut_names
    for start in range(0, order.size, CHUNK):
        for rank, token in enumerate(order[start : start + CHUNK].tolist(), start=start + 1):
            writer.writerow(
                (
                    rank,
                    token,
                    tokenizer.decode([token]),
                    repr(float(logits[token])),
                    repr(float(scores[token])),
                    *(repr(float(column[token])) for column in columns),
                    cut_names[int(cuts[token])] or "",
                )
            )
        yield _taken(buffer)


def _taken(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text
