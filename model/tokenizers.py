"""Text to token ids and back, and tokens as they may be shown: every byte accounted for.

The vocabularies that the package ``tokenizers`` reads are in :mod:`model.fast_tokenizers`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from model.errors import UnknownToken


@dataclass(frozen=True)
class Piece:
    """One token as it may be shown.

    Attributes:
        token_id: its id.
        raw: the bytes that it stands for; empty for an id without a token.
        text: what to show: white space as ``␣ ⏎ ⇥``, bytes that are no whole character as hex
            like ``E2·9C``, other characters that would be invisible as ``U+200B``, and ``[id 123]``
            for an id without a token.
        special: a control token, such as the end of a text; typing its name does not produce it.
        partial: some of its bytes are only part of a character.
    """

    token_id: int
    raw: bytes
    text: str
    special: bool = False
    partial: bool = False

    @property
    def shown(self) -> str:
        """The text, or a sign for nothing: a place for a token is never blank."""
        return self.text or "∅"


class Tokenizer(Protocol):
    """Text to ids and back, for one vocabulary."""

    @property
    def vocabulary(self) -> int:
        """Number of ids; each is below it."""
        ...

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of control tokens, which no text is encoded to."""
        ...

    @property
    def front_ids(self) -> tuple[int, ...]:
        """Ids that belong in front of every prompt, such as the one that begins a text."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of a text, nothing added.

        Raises:
            UnknownToken: part of the text has no token.
        """
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text that the tokens spell; U+FFFD for bytes that are no character."""
        ...

    def piece(self, token_id: int) -> Piece:
        """One token by itself; never fails, whatever the id."""
        ...

    def pieces(self, ids: Iterable[int]) -> tuple[Piece, ...]:
        """One piece per id; tokens that share a character each show their own bytes as hex."""
        ...


END_NAMES = frozenset(
    {
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|end|>",
        "<end_of_turn>",
        "<eos>",
        "</s>",
    }
)
"""What control tokens are called that end a text or a turn, in the vocabularies read here."""


def end_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """The control tokens of a vocabulary that end a text; none where it has no such token."""
    return frozenset(
        token for token in tokenizer.special_ids if tokenizer.piece(token).text in END_NAMES
    )


class WordTokenizer:
    """A vocabulary of words that white space separates: the tiny decoder's.

    Args:
        words: the vocabulary; a word's id is its index.
        tokenize: text to ids, which raises UnknownToken naming the word and the vocabulary.
    """

    def __init__(self, words: Sequence[str], tokenize: Callable[[str], list[int]]) -> None:
        self._words = tuple(words)
        self._tokenize = tokenize

    @property
    def vocabulary(self) -> int:
        return len(self._words)

    @property
    def special_ids(self) -> frozenset[int]:
        return frozenset()

    @property
    def front_ids(self) -> tuple[int, ...]:
        return ()

    def encode(self, text: str) -> list[int]:
        """Ids of the words; see :class:`Tokenizer`."""
        return self._tokenize(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The words with a space between each two."""
        return " ".join(self.piece(token_id).text for token_id in ids)

    def piece(self, token_id: int) -> Piece:
        """One word."""
        if not 0 <= token_id < len(self._words):
            return no_token(token_id)
        raw = self._words[token_id].encode("utf-8")
        return Piece(token_id, raw, visible(raw)[0])

    def pieces(self, ids: Iterable[int]) -> tuple[Piece, ...]:
        """One piece per id."""
        return tuple(self.piece(token_id) for token_id in ids)


class IdTokenizer:
    """For a model that came without a tokenizer: a text is a list of token ids.

    Args:
        vocabulary: number of ids.
        reason: why there is no tokenizer, for the message about a text that is no list of ids.
    """

    def __init__(self, vocabulary: int, reason: str) -> None:
        self._vocabulary = vocabulary
        self._reason = reason

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
        """The ids that the text lists, separated by commas or spaces.

        Raises:
            UnknownToken: it is not a list of ids of this vocabulary.
        """
        ids: list[int] = []
        for word in text.replace(",", " ").split():
            if not (word.isascii() and word.isdigit() and len(word) < 10):
                raise UnknownToken(
                    f"{self._reason}, so a prompt is a list of token ids, and {word!r} is none"
                )
            if int(word) >= self._vocabulary:
                raise UnknownToken(
                    f"there is no token {word}: ids go from 0 to {self._vocabulary - 1}"
                )
            ids.append(int(word))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The ids with a space between each two."""
        return " ".join(str(token_id) for token_id in ids)

    def piece(self, token_id: int) -> Piece:
        """The id alone."""
        return no_token(token_id)

    def pieces(self, ids: Iterable[int]) -> tuple[Piece, ...]:
        """One piece per id."""
        return tuple(self.piece(token_id) for token_id in ids)


def encode_prompt(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids that a prompt is run as: what belongs in front of every prompt, then the text's.

    Raises:
        UnknownToken: part of the text has no token.
    """
    return [*tokenizer.front_ids, *tokenizer.encode(text)]


def prompt_text(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """The text of a prompt, without what :func:`encode_prompt` would put in front of it again."""
    front = len(tokenizer.front_ids)
    return tokenizer.decode(ids[front:] if tuple(ids[:front]) == tokenizer.front_ids else ids)


def cut_front(
    tokenizer: Tokenizer, ids: Sequence[int], capacity: int
) -> tuple[list[int], list[int]]:
    """What of a prompt that is too long would be lost, and what would be kept.

    The end is kept, and what belongs in front of every prompt, if it is there and leaves room.
    """
    front = len(tokenizer.front_ids)
    if tuple(ids[:front]) != tokenizer.front_ids or front >= capacity:
        front = 0
    end = len(ids) - (capacity - front)
    return list(ids[front:end]), [*ids[:front], *ids[end:]]


def visible(raw: bytes) -> tuple[str, bool]:
    """How bytes are shown, and whether some of them are only part of a character."""
    shown = ""
    partial = after_byte = False
    # surrogateescape keeps a byte that is no character, in its place, as U+DC00 plus the byte.
    for character in raw.decode("utf-8", errors="surrogateescape"):
        code = ord(character)
        if 0xDC80 <= code <= 0xDCFF:
            shown += f"{'·' if after_byte else ''}{code - 0xDC00:02X}"
            partial = after_byte = True
        else:
            # A mark that would sit on the character before it gets a dotted circle to sit on.
            shown += "◌" if not shown and unicodedata.combining(character) else ""
            shown += _SHOWN.get(character) or (
                character if character.isprintable() else f"U+{code:04X}"
            )
            after_byte = False
    return shown, partial


def no_token(token_id: int) -> Piece:
    """What is shown for an id that no token has."""
    return Piece(token_id, b"", f"[id {token_id}]")


_SHOWN = {" ": "␣", "\n": "⏎", "\t": "⇥"} | {
    chr(code): chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"
}
_SHOWN["\x7f"] = "␡"
