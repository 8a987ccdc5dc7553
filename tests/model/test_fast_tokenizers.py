"""SentencePiece vocabularies, those inside GGUF files, and what a tokenizer puts in front."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from model.checkpoints.gguf_header import GgufFile
from model.checkpoints.gguf_tokenizer import SPLITTINGS, _pre_tokenizer, open_vocabulary
from model.errors import CheckpointError, UnknownToken
from model.fast_tokenizers import (
    ByteLevelTokenizer,
    SentencePieceTokenizer,
    read_tokenizer,
)
from model.tokenizers import IdTokenizer, cut_front, encode_prompt, prompt_text
from tests.model.small_tokenizer import small_tokenizer

PLACE = Path("model.gguf")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LETTERS = list("▁abcdehot<>/s|")
WORDS = ["▁t", "he", "▁the", "at", "▁c", "▁cat", "aa", "aaa", "▁▁", "tt", "att"]
TOKENS = ["<unk>", "<s>", "</s>", *BYTES, *LETTERS, *WORDS, "<tool>"]
TYPES = [2, 3, 3, *[6] * 256, *[1] * (len(LETTERS) + len(WORDS)), 4]
SCORES = [0.0] * 259 + [-100.0 - i for i in range(len(LETTERS))]
SCORES += [-float(i) for i in (3, 0, 1, 2, 5, 4, 9, 7, 8, 8, 6)] + [0.0]
UNKNOWN, BEGIN, END = 0, 1, 2


def header(**fields: Any) -> GgufFile:
    """Metadata as a file has them; names without their prefix."""
    arrays = {key: np.array(value) for key, value in fields.items() if key in NUMBERS}
    return GgufFile(PLACE, {f"tokenizer.ggml.{k}": v for k, v in (fields | arrays).items()}, {})


NUMBERS = ("scores", "token_type")


def sentence_piece(**changed: Any) -> SentencePieceTokenizer:
    fields = {
        "model": "llama",
        "tokens": TOKENS,
        "token_type": TYPES,
        "scores": SCORES,
        "bos_token_id": BEGIN,
    } | changed
    fields = {key: value for key, value in fields.items() if value is not None}
    found = open_vocabulary(header(**fields), len(TOKENS) + 3).tokenizer
    assert isinstance(found, SentencePieceTokenizer)
    return found


PIECES = sentence_piece()


def merged_by_score(text: str) -> list[str]:
    """SentencePiece's rule in so many words: join the neighbours whose result scores highest."""
    parts = list(text.replace(" ", "▁"))
    score = dict(zip(TOKENS, SCORES, strict=True))
    known = set(LETTERS + WORDS)
    while True:
        joined = [
            (-score[whole], index)
            for index in range(len(parts) - 1)
            if (whole := parts[index] + parts[index + 1]) in known
        ]
        if not joined:
            return parts
        _, index = min(joined)
        parts[index : index + 2] = [parts[index] + parts[index + 1]]


@given(st.text("abcdehot "))
def test_pieces_are_joined_by_score(text: str) -> None:
    wanted = merged_by_score(" " + text) if text else []
    assert [TOKENS[i] for i in PIECES.encode(text)] == wanted


@given(st.text())
def test_any_text_round_trips_through_bytes(text: str) -> None:
    ids = PIECES.encode(text)
    # SentencePiece writes a space as ▁, so it cannot tell the two apart.
    wanted = text.replace("▁", " ")
    if "<tool>" not in text:
        assert PIECES.decode(ids) == wanted
        spelt = b"".join(piece.raw for piece in PIECES.pieces(ids))
        assert spelt.removeprefix(b" ") == wanted.encode()


def test_bytes_of_a_character_are_shown_in_hex_until_it_is_complete() -> None:
    pieces = PIECES.pieces(PIECES.encode("cat é\n"))
    assert [piece.text for piece in pieces] == ["␣cat", "␣", "C3", "A9", "⏎"]
    assert [piece.partial for piece in pieces] == [False, False, True, True, False]
    assert PIECES.decode([piece.token_id for piece in pieces[:3]]) == "cat �"


def test_control_tokens_are_not_typed_but_others_are_taken_whole() -> None:
    ids = PIECES.encode("</s><tool>a")
    assert END not in ids
    assert PIECES.piece(ids[-3]).text == "<tool>"
    assert PIECES.decode(ids[:-3]) == "</s>"
    assert PIECES.special_ids == {UNKNOWN, BEGIN, END}
    assert PIECES.piece(BEGIN).special
    assert not PIECES.piece(len(TOKENS) - 1).special


def test_what_belongs_in_front_of_a_prompt_is_put_there_once() -> None:
    assert PIECES.front_ids == (BEGIN,)
    ids = encode_prompt(PIECES, "the cat")
    assert ids == [BEGIN, *PIECES.encode("the cat")]
    assert prompt_text(PIECES, ids) == "the cat"
    assert prompt_text(PIECES, ids[1:]) == "the cat"
    assert encode_prompt(PIECES, "") == [BEGIN]
    assert sentence_piece(add_bos_token=False).front_ids == ()
    assert sentence_piece(bos_token_id=None).front_ids == ()


def test_cutting_the_front_keeps_what_belongs_there() -> None:
    ids = [BEGIN, 10, 11, 12, 13]
    assert cut_front(PIECES, ids, 3) == ([10, 11], [BEGIN, 12, 13])
    assert cut_front(PIECES, ids[1:], 3) == ([10], [11, 12, 13])
    assert cut_front(PIECES, ids, 1) == ([BEGIN, 10, 11, 12], [13])


def test_without_a_space_in_front_and_without_types() -> None:
    bare = sentence_piece(add_space_prefix=False)
    assert [TOKENS[i] for i in bare.encode("the cat")] == ["t", "he", "▁cat"]
    assert bare.decode(bare.encode(" cat")) == " cat"
    untyped = sentence_piece(token_type=None)
    assert untyped.special_ids == {BEGIN}
    assert untyped.encode("the cat") == PIECES.encode("the cat")


def test_a_vocabulary_without_bytes_refuses_what_it_cannot_spell() -> None:
    keep = [i for i, kind in enumerate(TYPES) if kind != 6]
    narrow = sentence_piece(
        tokens=[TOKENS[i] for i in keep],
        token_type=[TYPES[i] for i in keep],
        scores=[SCORES[i] for i in keep],
    )
    assert narrow.decode(narrow.encode("the cat")) == "the cat"
    with pytest.raises(UnknownToken, match="no token for 'x'"):
        narrow.encode("the xcat")


def test_ids_that_no_token_has_are_shown_as_such() -> None:
    padded = sentence_piece(
        tokens=[*TOKENS, f"[PAD{len(TOKENS)}]"],
        token_type=[*TYPES, 5],
        scores=[*SCORES, 0.0],
    )
    for token_id in (len(TOKENS), len(TOKENS) + 2, -1, 2**40):
        assert padded.piece(token_id).text == f"[id {token_id}]"
        assert padded.piece(token_id).raw == b""
    assert padded.decode([len(TOKENS)]) == ""


# ---- byte-level vocabularies inside GGUF


def byte_level(
    pre: str | None = "gpt-2", **changed: Any
) -> tuple[ByteLevelTokenizer, tuple[str, ...]]:
    small = small_tokenizer()
    vocabulary = sorted(small.get_vocab(), key=small.get_vocab().__getitem__)
    merges = [" ".join(pair) for pair in json.loads(small.to_str())["model"]["merges"]]
    fields = {
        "model": "gpt2",
        "tokens": vocabulary,
        "token_type": [3, *[1] * (len(vocabulary) - 1)],
        "merges": merges,
        "bos_token_id": 0,
    } | ({} if pre is None else {"pre": pre})
    opened = open_vocabulary(header(**(fields | changed)), len(vocabulary))
    assert isinstance(opened.tokenizer, ByteLevelTokenizer)
    return opened.tokenizer, opened.warnings


SPLITS = [
    ("gpt-2", "I'll 1234\n\nDON'T", ["I", "'ll", "Ġ1234", "Ċ", "Ċ", "DON", "'", "T"]),
    ("smollm", "I'll 1234", ["I", "'ll", "Ġ", "1", "2", "3", "4"]),
    ("llama-bpe", "12345 DON'T.\n\n x", ["123", "45", "ĠDON", "'T", ".ĊĊ", "Ġx"]),
    ("qwen2", "I'll 123 DON'T", ["I", "'ll", "Ġ", "1", "2", "3", "ĠDON", "'T"]),
    ("tekken", "camelCase 12", ["camel", "Case", "Ġ", "1", "2"]),
]


@pytest.mark.parametrize(("pre", "text", "wanted"), SPLITS)
def test_text_is_cut_up_as_the_field_says(pre: str, text: str, wanted: Sequence[str]) -> None:
    pieces = _pre_tokenizer(SPLITTINGS[pre]).pre_tokenize_str(text)
    assert [piece for piece, _ in pieces] == wanted


@pytest.mark.parametrize("pre", SPLITTINGS)
@given(text=st.text())
def test_any_text_round_trips_however_it_is_cut_up(pre: str, text: str) -> None:
    tokenizer, _ = LEVELS.setdefault(pre, byte_level(pre))
    if not SPLITTINGS[pre].composed:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.front_ids == ((0,) if SPLITTINGS[pre].begins else ())


LEVELS: dict[str, tuple[ByteLevelTokenizer, tuple[str, ...]]] = {}


def test_a_missing_pre_tokenizer_is_said() -> None:
    tokenizer, (warning,) = byte_level(None)
    assert "tokenizer.ggml.pre is missing" in warning
    small = ByteLevelTokenizer(small_tokenizer(), PLACE)
    assert tokenizer.encode("the cat sat 123") == small.encode("the cat sat 123")
    assert byte_level()[1] == ()


def test_a_control_token_is_not_typed_and_letters_are_composed_where_the_model_does() -> None:
    tokenizer, _ = byte_level("qwen2", add_bos_token=True)
    assert 0 not in tokenizer.encode("<|endoftext|>")
    assert tokenizer.decode(tokenizer.encode("<|endoftext|>")) == "<|endoftext|>"
    assert tokenizer.front_ids == (0,)
    assert tokenizer.decode(tokenizer.encode("e\u0301")) == "\u00e9"


def test_a_file_without_a_vocabulary_reads_ids() -> None:
    opened = open_vocabulary(GgufFile(PLACE, {}, {}), 10)
    assert isinstance(opened.tokenizer, IdTokenizer)
    with pytest.raises(UnknownToken, match=r"model\.gguf: there is no tokenizer\.ggml\.model"):
        opened.tokenizer.encode("The")


# ---- tokenizer.json of other kinds


def small_pieces(scheme: str) -> Tokenizer:
    """The three ways in which a tokenizer.json says SentencePiece."""
    vocabulary = {token: index for index, token in enumerate(TOKENS[:-1])}
    pairs = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("a", "t"), ("▁", "c"), ("▁c", "at")]
    fast = Tokenizer(models.BPE(vocabulary, pairs, unk_token="<unk>", byte_fallback=True))
    steps: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    spaces = normalizers.Replace(" ", "▁")
    if scheme == "normalised":
        fast.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces])
        steps.append(decoders.Strip(" ", 1, 0))
    elif scheme == "pre-tokenised":
        fast.pre_tokenizer = pre_tokenizers.Metaspace("▁", "first", split=False)
        steps.append(decoders.Strip(" ", 1, 0))
    else:
        fast.normalizer = spaces
    fast.decoder = decoders.Sequence(steps)
    fast.add_special_tokens(["<unk>", "<s>", "</s>"])
    fast.add_tokens([AddedToken("<tool>", normalized=False)])
    fast.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", BEGIN)]
    )
    return fast


@pytest.mark.parametrize("scheme", ["normalised", "pre-tokenised", "bare"])
def test_a_tokenizer_json_of_sentence_piece(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "tokenizer.json"
    fast = small_pieces(scheme)
    fast.save(str(path))
    opened = read_tokenizer(path)
    assert isinstance(opened, SentencePieceTokenizer)
    assert opened.front_ids == (BEGIN,)
    for text in ("the cat", " the  cat", "", "é the 猫\n", "<tool> the <tool>cat", "cat<tool>"):
        ids = opened.encode(text)
        assert ids == fast.encode(text, add_special_tokens=False).ids
        assert encode_prompt(opened, text) == [BEGIN, *ids]
        assert opened.decode(ids) == fast.decode(ids, skip_special_tokens=False)
    first = "t" if scheme == "bare" else "␣the"
    assert opened.piece(opened.encode("the")[0]).text == first


def test_a_template_of_a_byte_level_tokenizer_is_followed(tmp_path: Path) -> None:
    fast = small_tokenizer()
    fast.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<|endoftext|> $A <|endoftext|>", special_tokens=[("<|endoftext|>", 0)]
            ),
        ]
    )
    fast.save(str(tmp_path / "tokenizer.json"))
    opened = read_tokenizer(tmp_path / "tokenizer.json")
    assert opened.front_ids == (0,)
    assert encode_prompt(opened, "the cat") == [0, *opened.encode("the cat")]


def test_a_normaliser_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    fast = small_tokenizer()
    path = tmp_path / "tokenizer.json"
    fast.normalizer = normalizers.Sequence([normalizers.Replace("a", "aa")] * 40)
    fast.save(str(path))
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: its normalizer could make"):
        read_tokenizer(path)
    fast.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace("  ", " ")])
    fast.save(str(path))
    assert read_tokenizer(path).decode(read_tokenizer(path).encode("the  cat")) == "the cat"


def test_decoders_of_other_kinds_are_refused(tmp_path: Path) -> None:
    fast = small_tokenizer()
    fast.decoder = decoders.WordPiece()
    fast.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CheckpointError, match="its decoder is WordPiece; only ByteLevel"):
        read_tokenizer(tmp_path / "tokenizer.json")
