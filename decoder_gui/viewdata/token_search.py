"""Finding a token of the vocabulary by its text or its id."""

from __future__ import annotations

from model.errors import DecoderError
from model.sampling import Distribution
from model.tokenizers import Tokenizer

HITS = 6
LOOKED_THROUGH = 20_000  # most likely tokens, in which a part of a text is looked for


def find_tokens(text: str, shown: Distribution, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids that a text means, the best match first: an id, a whole token, a part of a token.

    A space in front often makes another token: both are found. Parts of tokens are looked for in
    the most likely ones only, which is said by whoever shows them.
    """
    wanted = text.strip()
    if not wanted:
        return ()
    size = shown.ranking.vocabulary
    found: list[int] = []
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 12 and int(wanted) < size:
        found.append(int(wanted))
    for spelling in dict.fromkeys((text, wanted, f" {wanted}")):
        try:
            ids = tokenizer.encode(spelling)
        except DecoderError:
            continue
        if len(ids) == 1 and ids[0] < size:
            found.append(ids[0])
    part = wanted.casefold()
    for token in shown.ranking.order[:LOOKED_THROUGH].tolist():
        if len(found) >= HITS:
            break
        if part in tokenizer.piece(token).text.casefold():
            found.append(token)
    return tuple(dict.fromkeys(found))[:HITS]
