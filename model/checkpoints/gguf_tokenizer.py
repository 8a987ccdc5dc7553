"""The vocabulary inside a GGUF file, as a tokenizer that cuts text up as the model learnt it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from model.checkpoints.gguf_header import GgufFile
from model.fast_tokenizers import SPACE, ByteLevelTokenizer, SentencePieceTokenizer, opened
from model.tokenizers import IdTokenizer, Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as FastTokenizer
    from tokenizers.pre_tokenizers import PreTokenizer

PREFIX = "tokenizer.ggml."
MODEL, PRE, TOKENS = PREFIX + "model", PREFIX + "pre", PREFIX + "tokens"
MERGES, SCORES, TYPES = PREFIX + "merges", PREFIX + "scores", PREFIX + "token_type"
BEGIN = PREFIX + "bos_token_id"
CONTROL_IDS = tuple(f"{PREFIX}{name}_token_id" for name in ("bos", "eos", "unknown", "padding"))

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
"""Types of tokens."""

LONGEST_TOKEN = 1024  # characters
MOST_CUTS = 8_000_000  # ways to cut all tokens in two; the largest vocabulary known has 2 million


@dataclass(frozen=True)
class Splitting:
    """How text is cut up before its pieces are merged.

    Attributes:
        pattern: a regular expression for the pieces; None is GPT-2's, which the package has.
        digits: digits are cut off one by one first.
        whole_first: a piece that is a token is taken whole, whatever the merges say.
        begins: the token that begins a text is added where the file does not say.
        composed: letters and marks are composed (NFC) first, as the model's own tokenizer does.
    """

    pattern: str | None = None
    digits: bool = False
    whole_first: bool = False
    begins: bool = False
    composed: bool = False


_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _REST
_QWEN2 = _ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _REST
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

SPLITTINGS = {
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "mpt", "jais", "trillion"), Splitting()),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
        Splitting(digits=True),
    ),
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"),
        Splitting(_LLAMA3, whole_first=True, begins=True),
    ),
    **dict.fromkeys(("smaug-bpe", "dbrx"), Splitting(_LLAMA3)),
    "qwen2": Splitting(_QWEN2, composed=True),
    **dict.fromkeys(("deepseek-r1-qwen", "stablelm2", "megrez"), Splitting(_QWEN2)),
    "tekken": Splitting(_TEKKEN, whole_first=True, begins=True),
}
"""Ways to cut text up, by ``tokenizer.ggml.pre``."""


@dataclass(frozen=True)
class OpenedVocabulary:
    """A tokenizer, and what is doubtful about it, one sentence each."""

    tokenizer: Tokenizer
    warnings: tuple[str, ...] = ()


def open_vocabulary(header: GgufFile, rows: int) -> OpenedVocabulary:
    """The tokenizer of a model whose embedding has so many rows.

    Raises:
        CheckpointError: a field is missing or malformed, or is of a kind that is not read here.
    """
    if MODEL not in header.metadata:
        return OpenedVocabulary(IdTokenizer(rows, f"{header.path}: there is no {MODEL}"))
    model = header.text(MODEL)
    if model not in ("gpt2", "llama"):
        raise header.refuse(f"{MODEL} is {model!r}; read are 'gpt2' and 'llama'")
    tokens = header.texts(TOKENS)
    if not 1 <= len(tokens) <= rows:
        raise header.refuse(f"{TOKENS} has {len(tokens)} entries, and the embedding {rows} rows")
    longest = max(range(len(tokens)), key=lambda index: len(tokens[index]))
    if len(tokens[longest]) > LONGEST_TOKEN:
        raise header.refuse(f"{TOKENS}[{longest}] has {len(tokens[longest])} characters")
    if sum(map(len, tokens)) > MOST_CUTS:
        raise header.refuse(f"{TOKENS} has {sum(map(len, tokens)):,} characters in all")
    types = _types(header, tokens)
    if model == "llama":
        return OpenedVocabulary(_sentence_piece(header, tokens, types))
    return _byte_level(header, tokens, types)


def _byte_level(header: GgufFile, tokens: list[str], types: list[int]) -> OpenedVocabulary:
    warnings: tuple[str, ...] = ()
    name = header.text(PRE, "")
    if not name:
        name = "gpt-2"
        warnings = (f"{PRE} is missing, so text is cut up as for GPT-2; the model may expect else",)
    if name not in SPLITTINGS:
        raise header.refuse(f"{PRE} is {name!r}; read are {', '.join(sorted(SPLITTINGS))}")
    splitting = SPLITTINGS[name]
    merges = _merges(header)

    def build() -> FastTokenizer:
        from tokenizers import Tokenizer as FastTokenizer
        from tokenizers import decoders, models, normalizers

        vocabulary = _vocabulary(tokens, types)
        fast = FastTokenizer(models.BPE(vocabulary, merges, ignore_merges=splitting.whole_first))
        fast.pre_tokenizer = _pre_tokenizer(splitting)
        fast.decoder = decoders.ByteLevel()
        if splitting.composed:
            fast.normalizer = normalizers.NFC()
        _add_tokens(fast, tokens, types)
        return fast

    fast = opened(f"{header.path}: {TOKENS} and {MERGES}", build)
    front = _front_ids(header, len(tokens), default=splitting.begins)
    return OpenedVocabulary(ByteLevelTokenizer(fast, header.path, front), warnings)


def _sentence_piece(header: GgufFile, tokens: list[str], types: list[int]) -> Tokenizer:
    scores = header.numbers(SCORES, len(tokens)).astype(np.float64)
    if np.isnan(scores).any():
        raise header.refuse(f"{SCORES}[{int(np.isnan(scores).argmax())}] is NaN")
    prefixed = header.flag(PREFIX + "add_space_prefix", True)
    # A run of spaces is stored as text writes it, not as a person types it.
    types = [
        NORMAL if SPACE in t and k == USER_DEFINED else k
        for t, k in zip(tokens, types, strict=True)
    ]
    unknown = next((tokens[i] for i, kind in enumerate(types) if kind == UNKNOWN), None)

    def build() -> FastTokenizer:
        from tokenizers import Tokenizer as FastTokenizer
        from tokenizers import decoders, models, normalizers

        vocabulary = _vocabulary(tokens, types)
        fast = FastTokenizer(
            models.BPE(
                vocabulary,
                _merges_of_scores(tokens, types, scores.tolist(), vocabulary),
                unk_token=unknown,
                fuse_unk=True,
                byte_fallback=True,
            )
        )
        # SentencePiece cuts nothing up: a text is one piece, its spaces written out.
        spaces = normalizers.Replace(" ", SPACE)
        strip = [decoders.Strip(" ", 1, 0)] if prefixed else []
        fast.normalizer = (
            normalizers.Sequence([normalizers.Prepend(SPACE), spaces]) if prefixed else spaces
        )
        fast.decoder = decoders.Sequence(
            [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
        )
        _add_tokens(fast, tokens, types)
        return fast

    fast = opened(f"{header.path}: {TOKENS}", build)
    return SentencePieceTokenizer(fast, header.path, _front_ids(header, len(tokens), default=True))


def _types(header: GgufFile, tokens: Sequence[str]) -> list[int]:
    """The type of each token; without a table, the ids with a role are control tokens."""
    if TYPES in header.metadata:
        types: list[int] = header.numbers(TYPES, len(tokens)).tolist()
        return types
    types = [NORMAL] * len(tokens)
    for key in CONTROL_IDS:
        if key in header.metadata:
            types[_token_id(header, key, len(tokens))] = CONTROL
    return types


def _vocabulary(tokens: Sequence[str], types: Sequence[int]) -> dict[str, int]:
    """Ids of the tokens; ids that only pad the table to a round size have none."""
    return {
        token: index
        for index, token in enumerate(tokens)
        if types[index] != UNUSED or token != f"[PAD{index}]"
    }


def _add_tokens(fast: FastTokenizer, tokens: Sequence[str], types: Sequence[int]) -> None:
    """Make tokens that are no part of a text's spelling known as such."""
    from tokenizers import AddedToken

    control = [t for t, kind in zip(tokens, types, strict=True) if t and kind in (UNKNOWN, CONTROL)]
    verbatim = [t for t, kind in zip(tokens, types, strict=True) if t and kind == USER_DEFINED]
    fast.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    fast.add_tokens([AddedToken(t, special=False, normalized=False) for t in verbatim])


def _merges(header: GgufFile) -> list[tuple[str, str]]:
    merges: list[tuple[str, str]] = []
    for merge in header.texts(MERGES):
        left, _, right = merge.partition(" ")
        if not left or not right or " " in right:
            raise header.refuse(f"{MERGES}[{len(merges)}] must be two tokens with a space between")
        merges.append((left, right))
    return merges


def _merges_of_scores(
    tokens: Sequence[str],
    types: Sequence[int],
    scores: Sequence[float],
    vocabulary: dict[str, int],
) -> list[tuple[str, str]]:
    """All pairs of tokens that make a token, the best scored first.

    SentencePiece merges the pair whose result has the highest score. Where a token can be made of
    several pairs, those of more frequent parts come first.
    """
    found: list[tuple[float, int, int, str, str]] = []
    for index, token in enumerate(tokens):
        if types[index] in (NORMAL, USER_DEFINED):
            for cut in range(1, len(token)):
                left, right = vocabulary.get(token[:cut]), vocabulary.get(token[cut:])
                if left is not None and right is not None:
                    found.append((-scores[index], left, right, token[:cut], token[cut:]))
    found.sort()
    return [(left, right) for *_, left, right in found]


def _pre_tokenizer(splitting: Splitting) -> PreTokenizer:
    from tokenizers import Regex, pre_tokenizers

    own = splitting.pattern is None
    steps: list[PreTokenizer] = []
    if splitting.digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    if splitting.pattern is not None:
        steps.append(pre_tokenizers.Split(Regex(splitting.pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=own))
    return pre_tokenizers.Sequence(steps)


def _front_ids(header: GgufFile, tokens: int, *, default: bool) -> tuple[int, ...]:
    """The token that begins a text, if one is to be put in front of every prompt."""
    if not header.flag(PREFIX + "add_bos_token", default) or BEGIN not in header.metadata:
        return ()
    return (_token_id(header, BEGIN, tokens),)


def _token_id(header: GgufFile, key: str, tokens: int) -> int:
    token_id = header.whole(key, least=0)
    if token_id >= tokens:
        raise header.refuse(f"{key} is {token_id}, and {TOKENS} has {tokens} entries")
    return token_id
