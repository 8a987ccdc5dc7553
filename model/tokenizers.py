"""Text to token ids and back, and tokens as they may be shown: every byte accounted for.

The package ``tokenizers`` is imported when a ``tokenizer.json`` is opened, not before.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from model.errors import CheckpointError, UnknownToken

if TYPE_CHECKING:
    from tokenizers import Tokenizer as FastTokenizer

END_OF_TEXT = "<|endoftext|>"


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


class ByteLevelTokenizer:
    """A byte-level BPE, as GPT-2 and its descendants use it: any text round-trips.

    Raises:
        CheckpointError: the tokenizer does not map its tokens to bytes the byte-level way.
    """

    def __init__(self, fast: FastTokenizer, source: Path) -> None:
        if type(fast.decoder).__name__ != "ByteLevel":
            raise CheckpointError(
                f"{source}: its decoder is {type(fast.decoder).__name__}; only ByteLevel is read"
            )
        # A text that happens to spell a control token is a text, and none of it may be cut off.
        fast.encode_special_tokens = True
        fast.no_truncation()
        fast.no_padding()
        self._fast = fast
        self._added = {
            token_id: (token.content, bool(token.special))
            for token_id, token in fast.get_added_tokens_decoder().items()
        }
        self._vocabulary = max(fast.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self._pieces: dict[int, Piece] = {}

    @classmethod
    def from_file(cls, path: Path) -> ByteLevelTokenizer:
        """Read a ``tokenizer.json``.

        Raises:
            CheckpointError: it is missing, damaged or of another kind.
        """
        from tokenizers import Tokenizer as FastTokenizer

        return cls(_opened(path, lambda: FastTokenizer.from_file(str(path))), path)

    @classmethod
    def from_vocabulary(cls, vocabulary: Path, merges: Path) -> ByteLevelTokenizer:
        """Read the older pair of files, ``vocab.json`` and ``merges.txt``.

        Raises:
            CheckpointError: one of them is missing or damaged.
        """
        from tokenizers import Tokenizer as FastTokenizer
        from tokenizers import decoders, models, pre_tokenizers

        def open_both() -> FastTokenizer:
            fast = FastTokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
            fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            fast.decoder = decoders.ByteLevel()
            if fast.token_to_id(END_OF_TEXT) is not None:
                fast.add_special_tokens([END_OF_TEXT])
            return fast

        return cls(_opened(vocabulary, open_both), vocabulary)

    @property
    def vocabulary(self) -> int:
        return self._vocabulary

    @property
    def special_ids(self) -> frozenset[int]:
        return frozenset(token_id for token_id, (_, special) in self._added.items() if special)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, nothing added; see :class:`Tokenizer`."""
        try:
            wanted = text.encode("utf-8")
        except UnicodeEncodeError as error:
            lone = ord(text[error.start])
            raise UnknownToken(
                f"character {error.start} of the text is half of a pair, U+{lone:04X}: "
                "it has no bytes, so no token"
            ) from None
        ids: list[int] = self._fast.encode(text, add_special_tokens=False).ids
        spelled = b"".join(self.piece(token_id).raw for token_id in ids)
        # A normaliser changes the text on purpose, and some models put a space before it.
        if spelled not in (wanted, b" " + wanted) and self._fast.normalizer is None:
            raise UnknownToken(f"the tokenizer has no token for {_first_loss(wanted, spelled)}")
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text that the tokens spell; see :class:`Tokenizer`."""
        return b"".join(self.piece(token_id).raw for token_id in ids).decode("utf-8", "replace")

    def piece(self, token_id: int) -> Piece:
        """One token by itself; never fails."""
        found = self._pieces.get(token_id)
        if found is None:
            found = self._pieces[token_id] = self._new_piece(token_id)
        return found

    def pieces(self, ids: Iterable[int]) -> tuple[Piece, ...]:
        """One piece per id."""
        return tuple(self.piece(token_id) for token_id in ids)

    def _new_piece(self, token_id: int) -> Piece:
        if token_id in self._added:
            content, special = self._added[token_id]
            raw = content.encode("utf-8")
            return Piece(token_id, raw, content if special else visible(raw)[0], special)
        # The package takes only ids of 32 bits.
        token = self._fast.id_to_token(token_id) if 0 <= token_id < self._vocabulary else None
        if token is None:
            return _no_token(token_id)
        try:
            raw = bytes(_BYTE_OF[character] for character in token)
        except KeyError:
            raw = token.encode("utf-8")
        text, partial = visible(raw)
        return Piece(token_id, raw, text, partial=partial)


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

    def encode(self, text: str) -> list[int]:
        """Ids of the words; see :class:`Tokenizer`."""
        return self._tokenize(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The words with a space between each two."""
        return " ".join(self.piece(token_id).text for token_id in ids)

    def piece(self, token_id: int) -> Piece:
        """One word."""
        if not 0 <= token_id < len(self._words):
            return _no_token(token_id)
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
        return _no_token(token_id)

    def pieces(self, ids: Iterable[int]) -> tuple[Piece, ...]:
        """One piece per id."""
        return tuple(self.piece(token_id) for token_id in ids)


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


def _opened(path: Path, opening: Callable[[], FastTokenizer]) -> FastTokenizer:
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such file")
    try:
        return opening()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # the package's own panics derive from nothing narrower
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path}: not a tokenizer that can be read ({reason})") from None


def _no_token(token_id: int) -> Piece:
    return Piece(token_id, b"", f"[id {token_id}]")


def _first_loss(wanted: bytes, spelled: bytes) -> str:
    """The first character of a text that its tokens do not spell, named."""
    same = next(
        (i for i, (a, b) in enumerate(zip(wanted, spelled, strict=False)) if a != b),
        min(len(wanted), len(spelled)),
    )
    character = wanted[same:].decode("utf-8", "ignore")[:1]
    return f"{character!r}" if character else "the end of the text"


def _byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in a byte-level vocabulary, reversed.

    Bytes that are visible Latin-1 characters stand for themselves; the others, in order, are the
    characters from U+0100 on.
    """
    own = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {
        chr(0x100 + index): byte for index, byte in enumerate(others)
    }


_BYTE_OF = _byte_alphabet()

_SHOWN = {" ": "␣", "\n": "⏎", "\t": "⇥"} | {
    chr(code): chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"
}
_SHOWN["\x7f"] = "␡"
