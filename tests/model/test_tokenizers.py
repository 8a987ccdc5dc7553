"""Tokens and what is shown of them: every byte of every text accounted for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import tiny
from model.errors import CheckpointError, UnknownToken
from model.fast_tokenizers import ByteLevelTokenizer, read_tokenizer, read_vocabulary
from model.tokenizers import Tokenizer, WordTokenizer, end_ids, visible
from tests.model.small_tokenizer import small_tokenizer

SMALL = ByteLevelTokenizer(small_tokenizer(), Path("tokenizer.json"))
END = 0


def byte_tokens(raw: bytes) -> list[int]:
    """The ids of single bytes: those whose piece is that byte alone."""
    single = {
        SMALL.piece(i).raw: i for i in range(SMALL.vocabulary) if len(SMALL.piece(i).raw) == 1
    }
    return [single[bytes([byte])] for byte in raw]


@given(st.text())
def test_any_text_round_trips(text: str) -> None:
    ids = SMALL.encode(text)
    assert SMALL.decode(ids) == text
    assert b"".join(piece.raw for piece in SMALL.pieces(ids)) == text.encode()


@given(st.lists(st.integers(-5, 400) | st.integers()))
def test_any_ids_can_be_shown(ids: list[int]) -> None:
    for token_id, piece in zip(ids, SMALL.pieces(ids), strict=True):
        assert piece.token_id == token_id
        assert piece.text
        assert piece.text.isprintable()
    SMALL.decode(ids)


def test_all_bytes_have_a_token() -> None:
    assert len(byte_tokens(bytes(range(256)))) == 256


@pytest.mark.parametrize(
    ("raw", "text", "partial"),
    [
        (b" cat", "␣cat", False),
        (b"\n\t \r", "⏎⇥␣␍", False),
        (b"\x00\x1b\x7f", "␀␛␡", False),
        ("✓".encode(), "✓", False),
        ("✓".encode()[:2], "E2·9C", True),
        ("✓".encode()[2:], "93", True),
        (b" \xe2\x9c", "␣E2·9C", True),
        (b"a\xffb\xfe\xfd", "aFFbFE·FD", True),
        ("\u200b\u202e\u00a0".encode(), "U+200BU+202EU+00A0", False),
        ("\u0301".encode(), "◌\u0301", False),
        ("e\u0301".encode(), "e\u0301", False),
        ("\U0001f431".encode(), "\U0001f431", False),
        (b"", "", False),
    ],
)
def test_bytes_as_they_are_shown(raw: bytes, text: str, partial: bool) -> None:
    assert visible(raw) == (text, partial)


def test_a_character_over_several_tokens_shows_its_bytes_in_each() -> None:
    pieces = SMALL.pieces(byte_tokens("✓ é".encode()))
    assert [piece.text for piece in pieces] == ["E2", "9C", "93", "␣", "C3", "A9"]
    assert [piece.partial for piece in pieces] == [True, True, True, False, True, True]
    assert SMALL.decode([piece.token_id for piece in pieces[:2]]) == "�"


def test_an_id_without_a_token_is_shown_as_such() -> None:
    piece = SMALL.piece(123456)
    assert (piece.raw, piece.text, piece.special) == (b"", "[id 123456]", False)
    assert SMALL.piece(-1).text == "[id -1]"
    assert SMALL.piece(2**40).text == f"[id {2**40}]"


def test_a_typed_control_token_is_text() -> None:
    ids = SMALL.encode("a<|endoftext|>b")
    assert END not in ids
    assert SMALL.decode(ids) == "a<|endoftext|>b"
    assert SMALL.special_ids == {END}
    assert SMALL.piece(END).special
    assert SMALL.piece(END).text == "<|endoftext|>"


def test_nothing_is_cut_off_or_added_whatever_the_file_says() -> None:
    fast = small_tokenizer()
    fast.enable_truncation(2)
    fast.enable_padding(length=9)
    tokenizer = ByteLevelTokenizer(fast, Path("tokenizer.json"))
    text = "Once upon a time there was a cat"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_text_that_the_vocabulary_cannot_spell_is_refused() -> None:
    narrow = ByteLevelTokenizer(small_tokenizer(whole_alphabet=False), Path("tokenizer.json"))
    assert narrow.decode(narrow.encode("the cat")) == "the cat"
    with pytest.raises(UnknownToken, match="no token for 'é'"):
        narrow.encode("the é cat")


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(UnknownToken, match=r"character 1 .* U\+D800"):
        SMALL.encode("a\ud800b")


def test_files_round_trip_and_bad_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    fast = small_tokenizer()
    fast.save(str(path))
    opened = read_tokenizer(path)
    assert opened.encode("the cat") == SMALL.encode("the cat")
    assert opened.vocabulary == SMALL.vocabulary > 256

    for text in ("", "[]", '{"model": {"type": "BPE"}}', "{" * 1000):
        path.write_text(text)
        with pytest.raises(CheckpointError, match=r"tokenizer\.json: not a tokenizer") as caught:
            read_tokenizer(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(CheckpointError, match="no such file"):
        read_tokenizer(tmp_path / "absent.json")

    from tokenizers import Tokenizer as FastTokenizer
    from tokenizers import models

    FastTokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(str(path))
    with pytest.raises(CheckpointError, match="decoder is none; only ByteLevel"):
        read_tokenizer(path)


def test_the_older_pair_of_files(tmp_path: Path) -> None:
    small_tokenizer().model.save(str(tmp_path))
    opened = read_vocabulary(tmp_path / "vocab.json", tmp_path / "merges.txt")
    assert opened.encode("the cat sat") == SMALL.encode("the cat sat")
    assert opened.special_ids == {END}


def test_the_tiny_decoders_words() -> None:
    words: Tokenizer = WordTokenizer(tiny.VOCAB, tiny.tokenize)
    assert words.encode("The cat .") == [0, 1, 3]
    assert words.decode([0, 1, 3]) == "The cat ."
    assert [piece.text for piece in words.pieces([2, 7])] == ["sat", "[id 7]"]
    assert words.vocabulary == 4
    with pytest.raises(UnknownToken, match=r"'dog'.*The, cat, sat"):
        words.encode("The dog")


def test_what_ends_a_text_is_a_control_token_of_that_name() -> None:
    assert end_ids(SMALL) == {END}
    assert SMALL.encode("<|endoftext|>") != [END]  # typed, it ends nothing
    assert end_ids(WordTokenizer(tiny.VOCAB, tiny.tokenize)) == frozenset()


def test_the_packages_are_not_imported_before_they_are_needed() -> None:
    code = (
        "import sys, model.tokenizers, model.checkpoints, model.decoder; "
        "sys.exit(bool({'tokenizers', 'safetensors'} & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
