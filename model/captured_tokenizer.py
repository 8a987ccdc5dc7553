"""The tokens of a capture: their text where it was recorded, their ids elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from model.captured_run import Capture
from model.errors import NoWeights
from model.tokenizers import Piece, no_token, visible

BYTES = "surrogateescape"  # how a text holds bytes that are no character


class CapturedTokenizer:
    """Implements :class:`model.tokenizers.Tokenizer` as far as a recording can.

    Args:
        capture: the run.
        vocabulary: number of ids.
    """

    def __init__(self, capture: Capture, vocabulary: int) -> None:
        self._texts = capture.texts
        self._prompt = capture.steps[0].token_ids
        self._vocabulary = vocabulary

    @property
    def vocabulary(self) -> int:
        return self._vocabulary

    @property
    def special_ids(self) -> frozenset[int]:
        return frozenset()

    @property
    def front_ids(self) -> tuple[int, ...]:
        return ()

    def encode(self, text: str) -> list[int]:
        """The recorded prompt's ids for the recorded prompt.

        Raises:
            NoWeights: it is another text, which could not be run anyway.
        """
        if text == self.decode(self._prompt):
            return list(self._prompt)
        raise NoWeights("another prompt cannot be run")

    def decode(self, ids: Sequence[int]) -> str:
        """The recorded texts side by side, with spaces between where none of them has any."""
        if not any(self._texts.get(token) for token in ids):
            return " ".join(map(str, ids))
        if not all(self._texts.get(token) for token in ids):
            return " ".join(self.piece(token).text for token in ids)
        texts = [self._texts[token] for token in ids]
        between = "" if any(" " in text for text in texts) else " "
        return between.join(texts).encode("utf-8", BYTES).decode("utf-8", "replace")

    def piece(self, token_id: int) -> Piece:
        """One token."""
        text = self._texts.get(token_id, "")
        if not text:
            return no_token(token_id)
        raw = text.encode("utf-8", BYTES)
        shown, partial = visible(raw)
        return Piece(token_id, raw, shown, partial=partial)

    def pieces(self, ids: Iterable[int]) -> tuple[Piece, ...]:
        """One piece per id."""
        return tuple(self.piece(token_id) for token_id in ids)


def recorded_text(piece: Piece) -> str:
    """A token's text as a capture holds it, empty for an id without a token."""
    return piece.raw.decode("utf-8", BYTES)
