"""A byte-level BPE of a few hundred tokens, made in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TEXT = "Once upon a time there was a little cat named Tom. The cat sat on the mat. " * 4


def small_tokenizer(*, whole_alphabet: bool = True) -> Tokenizer:
    """Every byte is a token unless ``whole_alphabet`` is false; ``<|endoftext|>`` is id 0."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320 if whole_alphabet else 60,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if whole_alphabet else [],
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer
