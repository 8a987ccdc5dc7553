"""The models that the figures are taken on."""

from __future__ import annotations

from pathlib import Path

from decoder_gui.debugger.library import open_model
from model.blueprint import Blueprint
from model.checkpoints import LoadedModel
from model.random_model import gpt2_small_shape, llama_blueprint, random_decoder, smollm2_shape
from model.shape import ModelShape
from model.tokenizers import IdTokenizer

RANDOM: dict[str, ModelShape | Blueprint] = {
    "gpt2-small": gpt2_small_shape(),
    "smollm2": llama_blueprint(smollm2_shape()),
}
"""Shapes of real models, filled with random weights."""
NAMES = ("stories", *RANDOM)


def loaded_of(shape: str) -> LoadedModel:
    """One of :data:`NAMES`: the bundled model, or random weights of a shape.

    Raises:
        CheckpointError: the bundled model cannot be opened.
    """
    if shape not in RANDOM:
        return open_model(shape)
    engine = random_decoder(RANDOM[shape])
    words = "a shape with random weights has no tokenizer"
    return LoadedModel(
        name=shape,
        family="random weights",
        engine=engine,
        tokenizer=IdTokenizer(engine.shape.vocabulary, words),
        path=Path(shape),
    )
