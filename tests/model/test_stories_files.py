"""The bundled model's files: whole, small, and with one token for every word of its stories."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from tokenizers import Tokenizer

from model.checkpoints import open_checkpoint

FOLDER = Path(__file__).parents[2] / "assets" / "stories"
END = 0
TOKENIZER = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


def load(name: str) -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


def test_weights_fit_the_config_and_are_small() -> None:
    config = json.loads((FOLDER / "config.json").read_text())
    weights = FOLDER / "model.safetensors"
    assert weights.stat().st_size < 4_000_000
    assert config["vocab_size"] == TOKENIZER.get_vocab_size()
    assert 512 <= config["vocab_size"] <= 1024
    width = config["n_embd"]
    with safe_open(weights, framework="numpy") as file:
        names = set(file.keys())
        assert file.get_tensor("transformer.wte.weight").shape == (config["vocab_size"], width)
        assert file.get_tensor("transformer.wpe.weight").shape == (config["n_positions"], width)
        shape = file.get_tensor("transformer.h.3.attn.c_attn.weight").shape
        assert shape == (width, 3 * width)
    assert "transformer.ln_f.bias" in names
    assert "transformer.h.4.ln_1.weight" not in names
    assert len(names) == 2 + 12 * config["n_layer"] + 2


def test_every_word_of_the_grammar_is_one_token() -> None:
    grammar = load("grammar")
    source = grammar.stories(12)
    words = {word for _ in range(1500) for word in next(source).words}
    words |= {f" {name}" for name in load("story_shapes").NAMES}
    assert {w for w in words if len(TOKENIZER.encode(w).ids) != 1} == set()


def test_a_story_has_as_many_tokens_as_words() -> None:
    source = load("grammar").stories(13)
    for _ in range(100):
        story = next(source)
        assert len(TOKENIZER.encode(story.text).ids) == len(story.words)


def test_the_end_token_is_the_one_of_the_config() -> None:
    config = json.loads((FOLDER / "config.json").read_text())
    assert TOKENIZER.token_to_id("<|endoftext|>") == config["eos_token_id"]
    assert config["bos_token_id"] == config["eos_token_id"]


@pytest.mark.parametrize(
    "prompt",
    [
        "There was a big dog named Max.",
        "One day a dog named Max",
        "Anna had a red ball.",
        "Tom was a little cat.",
        "Anna and Ben",
        "The cat",
        "She said",
    ],
)
def test_the_model_goes_on_from_many_beginnings(prompt: str) -> None:
    """Greedy text ends by itself and reads as a story of the grammar."""
    grammar = load("grammar")
    model = open_checkpoint(FOLDER)
    ids = list(model.tokenizer.encode(prompt))
    cache = model.engine.new_cache()
    given = ids
    while ids[-1] != END and len(ids) < 128:
        logits = model.engine.forward(np.array([given]), cache)
        given = [int(logits[0, -1].argmax())]
        ids += given
    assert ids.pop() == END
    assert grammar.loose_sentences().fullmatch(TOKENIZER.decode(ids))


@given(st.text(max_size=60))
def test_any_text_comes_back_unchanged(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids) == text


@pytest.mark.parametrize(
    "text", ["", " ", "\x00", "  two  spaces ", "é", "中文 😀", "\r\n\t", "Tom's"]
)
def test_awkward_texts_come_back_unchanged(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids) == text
