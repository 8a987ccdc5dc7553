"""Vocabularies that the package ``tokenizers`` encodes with, which is imported when one is opened.

Two kinds: byte-level, whose tokens are spelt in 256 characters that stand for bytes, and
SentencePiece, whose tokens are spelt in text with ``▁`` for a space, and in bytes for what the
vocabulary has no token for. What a token spells is worked out here, so that no byte is lost.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.errors import CheckpointError, UnknownToken
from model.tokenizers import Piece, Tokenizer, no_token, visible

if TYPE_CHECKING:
    from tokenizers import Tokenizer as FastTokenizer

END_OF_TEXT = "<|endoftext|>"
SPACE = "▁"  # how SentencePiece writes one
BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
LARGEST_FILE = 256 * 2**20  # bytes; the largest tokenizer.json known has 34 million
LARGEST_GROWTH = 1024  # times that a normaliser may lengthen a text


class _FastTokenizer(ABC):
    """What both kinds share; ``source`` is the file, for messages."""

    def __init__(self, fast: FastTokenizer, source: Path, front_ids: Sequence[int] | None) -> None:
        growth = _growth(_state(fast.normalizer))
        if growth > LARGEST_GROWTH:
            raise CheckpointError(
                f"{source}: its normalizer could make a text {growth:,.0f} times longer; at most "
                f"{LARGEST_GROWTH} is allowed"
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
        ids = fast.get_vocab(with_added_tokens=True).values()
        self._vocabulary = max((*ids, *self._added), default=-1) + 1
        self._pieces: dict[int, Piece] = {}
        self._front = _front_of(fast) if front_ids is None else tuple(front_ids)

    @property
    def vocabulary(self) -> int:
        return self._vocabulary

    @property
    def special_ids(self) -> frozenset[int]:
        return frozenset(token_id for token_id, (_, special) in self._added.items() if special)

    @property
    def front_ids(self) -> tuple[int, ...]:
        return self._front

    def encode(self, text: str) -> list[int]:
        """Ids of a text, nothing added; see :class:`model.tokenizers.Tokenizer`."""
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            lone = ord(text[error.start])
            raise UnknownToken(
                f"character {error.start} of the text is half of a pair, U+{lone:04X}: "
                "it has no bytes, so no token"
            ) from None
        try:
            ids: list[int] = self._fast.encode(text, add_special_tokens=False).ids
        except Exception as error:  # the package raises nothing narrower
            reason = " ".join(str(error).split())[:200]
            raise UnknownToken(f"the tokenizer cannot encode this text ({reason})") from None
        self._require_whole(text, ids)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text that the tokens spell; see :class:`model.tokenizers.Tokenizer`."""
        return self._spelt(ids).decode("utf-8", "replace")

    def piece(self, token_id: int) -> Piece:
        """One token by itself; never fails."""
        found = self._pieces.get(token_id)
        if found is None:
            found = self._pieces[token_id] = self._new_piece(token_id)
        return found

    def pieces(self, ids: Iterable[int]) -> tuple[Piece, ...]:
        """One piece per id."""
        return tuple(self.piece(token_id) for token_id in ids)

    @abstractmethod
    def _bytes_of(self, token: str) -> bytes:
        """What an ordinary token spells."""

    def _spelt(self, ids: Sequence[int]) -> bytes:
        return b"".join(self.piece(token_id).raw for token_id in ids)

    def _written(self, text: str) -> str:
        """A text as its tokens will spell it."""
        normalizer = self._fast.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))

    def _require_whole(self, text: str, ids: list[int]) -> None:
        """Refuse a text of which some part has no token, and name the part."""
        if any(token_id in self._added for token_id in ids):
            return  # these may swallow the white space beside them, and are not normalised
        spelt = b"".join(self.piece(token_id).raw for token_id in ids)
        wanted = self._written(text).encode("utf-8")
        # Some models put a space before a text.
        if spelt != wanted and spelt != b" " + wanted:
            raise UnknownToken(f"the tokenizer has no token for {_first_loss(wanted, spelt)}")

    def _new_piece(self, token_id: int) -> Piece:
        if token_id in self._added:
            content, special = self._added[token_id]
            raw = content.encode("utf-8")
            return Piece(token_id, raw, content if special else visible(raw)[0], special)
        # The package takes only ids of 32 bits.
        token = self._fast.id_to_token(token_id) if 0 <= token_id < self._vocabulary else None
        if token is None:
            return no_token(token_id)
        raw = self._bytes_of(token)
        text, partial = visible(raw)
        return Piece(token_id, raw, text, partial=partial)


class ByteLevelTokenizer(_FastTokenizer):
    """A byte-level BPE, as GPT-2 and its descendants use it: any text round-trips.

    Args:
        fast: the package's tokenizer.
        source: its file, for messages.
        front_ids: ids in front of every prompt; what ``fast`` itself adds where None.

    Raises:
        CheckpointError: the tokenizer does not map its tokens to bytes the byte-level way.
    """

    def __init__(
        self, fast: FastTokenizer, source: Path, front_ids: Sequence[int] | None = None
    ) -> None:
        if "ByteLevel" not in _kinds(_state(fast.decoder), "decoders"):
            raise CheckpointError(
                f"{source}: its decoder is {_name(fast.decoder)}, and not ByteLevel"
            )
        super().__init__(fast, source, front_ids)

    def _bytes_of(self, token: str) -> bytes:
        try:
            return bytes(_BYTE_OF[character] for character in token)
        except KeyError:
            return token.encode("utf-8")


class SentencePieceTokenizer(_FastTokenizer):
    """A SentencePiece vocabulary, as Llama 2, Mistral and Gemma use it.

    Args:
        fast: the package's tokenizer, made to encode as SentencePiece does.
        source: its file, for messages.
        front_ids: ids in front of every prompt; what ``fast`` itself adds where None.

    Raises:
        CheckpointError: the tokenizer does not write spaces as ``▁``.
    """

    def __init__(
        self, fast: FastTokenizer, source: Path, front_ids: Sequence[int] | None = None
    ) -> None:
        decoder = _state(fast.decoder)
        if not _is_sentence_piece(decoder):
            raise CheckpointError(
                f"{source}: its decoder is {_name(fast.decoder)}, which does not write ▁ as a space"
            )
        super().__init__(fast, source, front_ids)
        self._has_bytes = bool(getattr(fast.model, "byte_fallback", False))
        # Whether a text begins with a space that nobody typed.
        self._prefixed = any(
            part["type"] == "Strip"
            or (part["type"] == "Metaspace" and part.get("prepend_scheme") != "never")
            for part in _parts(decoder, "decoders")
        )
        unknown = getattr(fast.model, "unk_token", None)
        self._unknown = None if unknown is None else fast.token_to_id(unknown)

    def _bytes_of(self, token: str) -> bytes:
        single = BYTE_TOKEN.fullmatch(token) if self._has_bytes else None
        if single is not None:
            return bytes([int(single[1], 16)])
        return token.replace(SPACE, " ").encode("utf-8")

    def _spelt(self, ids: Sequence[int]) -> bytes:
        spelt = super()._spelt(ids)
        return spelt.removeprefix(b" ") if self._prefixed else spelt

    def _written(self, text: str) -> str:
        return super()._written(text).replace(SPACE, " ")

    def _require_whole(self, text: str, ids: list[int]) -> None:
        if self._unknown is not None and self._unknown in ids:
            encoding = self._fast.encode(text, add_special_tokens=False)
            begin, end = encoding.offsets[ids.index(self._unknown)]
            raise UnknownToken(f"the tokenizer has no token for {text[begin:end]!r}")
        super()._require_whole(text, ids)


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a ``tokenizer.json`` of either kind.

    Raises:
        CheckpointError: it is missing, damaged or of another kind.
    """
    fast = _read(path)
    decoder = _state(fast.decoder)
    if "ByteLevel" in _kinds(decoder, "decoders"):
        return ByteLevelTokenizer(fast, path)
    if _is_sentence_piece(decoder):
        return SentencePieceTokenizer(fast, path)
    raise CheckpointError(
        f"{path}: its decoder is {_name(fast.decoder)}; only ByteLevel and those that write ▁ as "
        "a space are read"
    )


def read_vocabulary(vocabulary: Path, merges: Path) -> Tokenizer:
    """Read the older pair of files of GPT-2, ``vocab.json`` and ``merges.txt``.

    Raises:
        CheckpointError: one of them is missing or damaged.
    """
    from tokenizers import Tokenizer as FastTokenizer
    from tokenizers import decoders, models, pre_tokenizers

    for path in (vocabulary, merges):
        _require_file(path)

    def open_both() -> FastTokenizer:
        fast = FastTokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
        fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        fast.decoder = decoders.ByteLevel()
        if fast.token_to_id(END_OF_TEXT) is not None:
            fast.add_special_tokens([END_OF_TEXT])
        return fast

    return ByteLevelTokenizer(opened(str(vocabulary), open_both), vocabulary)


def opened(source: str, opening: Callable[[], FastTokenizer]) -> FastTokenizer:
    """What ``opening`` makes, its failures told in one sentence that begins with ``source``.

    Raises:
        CheckpointError: it failed.
    """
    try:
        return opening()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # the package's own panics derive from nothing narrower
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{source}: not a tokenizer that can be read ({reason})") from None


def _read(path: Path) -> FastTokenizer:
    from tokenizers import Tokenizer as FastTokenizer

    _require_file(path)
    return opened(str(path), lambda: FastTokenizer.from_file(str(path)))


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such file")
    if path.stat().st_size > LARGEST_FILE:
        raise CheckpointError(f"{path}: larger than {LARGEST_FILE:,} bytes, so not a vocabulary")


def _state(part: Any) -> Mapping[str, Any]:
    """A decoder or normaliser of the package, as tokenizer.json spells it."""
    if part is None:
        return {}
    state: Mapping[str, Any] = json.loads(part.__getstate__())
    return state


def _parts(state: Mapping[str, Any], within: str) -> list[Mapping[str, Any]]:
    """A sequence of parts in order, or the part itself."""
    if state.get("type") == "Sequence":
        return [part for each in state[within] for part in _parts(each, within)]
    return [state] if state else []


def _kinds(state: Mapping[str, Any], within: str) -> list[str]:
    return [part["type"] for part in _parts(state, within)]


def _name(decoder: object) -> str:
    return "none" if decoder is None else type(decoder).__name__


def _is_sentence_piece(decoder: Mapping[str, Any]) -> bool:
    return any(
        part["type"] == "Metaspace"
        or (part["type"] == "Replace" and part.get("pattern") == {"String": SPACE})
        for part in _parts(decoder, "decoders")
    )


def _growth(normalizer: Mapping[str, Any]) -> float:
    """How many times longer a text may get, at most."""
    growth = 1.0
    for part in _parts(normalizer, "normalizers"):
        match part:
            case {"type": "Replace", "pattern": {"String": str(found)}, "content": str(content)}:
                growth *= max(1.0, len(content) / len(found)) if found else 1 + len(content)
            case {"type": "Replace", "content": str(content)}:
                growth *= 1 + len(content)
            case {"type": "Prepend", "prepend": str(content)}:
                growth *= 1 + len(content)
            case {"type": "NFKC" | "NFKD" | "NFC" | "NFD" | "Lowercase"}:
                growth *= 4
            case {"type": "Precompiled"}:
                growth *= 16
    return growth


def _front_of(fast: FastTokenizer) -> tuple[int, ...]:
    """The ids that the tokenizer's own template puts before a text."""
    if fast.post_processor is None:
        return ()
    framed: list[int] = fast.encode("", add_special_tokens=True).ids
    if not framed:
        return ()
    plain: list[int] = fast.encode("a", add_special_tokens=False).ids
    framed = fast.encode("a", add_special_tokens=True).ids
    for begin in range(len(framed) - len(plain) + 1):
        if framed[begin : begin + len(plain)] == plain:
            return tuple(framed[:begin])
    return ()


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
