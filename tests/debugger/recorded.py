"""Moments of real runs, for tests of view data."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.library import open_model
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import TRACE_BUDGET, Session
from decoder_gui.viewdata.moment import ModelInfo, Moment, Selection, build_moment
from model.checkpoints import LoadedModel, open_checkpoint
from model.engine import Array
from model.random_model import random_decoder
from model.sampling import SamplingConfig
from model.shape import ModelShape
from model.tokenizers import IdTokenizer
from model.trace import Trace

GOLDEN = Path(__file__).parent.parent / "model" / "golden"
FAMILIES = ("gpt_neox", "gpt_neox_serial", "llama", "llama_yarn", "mistral", "qwen2", "qwen3")

SHAPE = ModelShape(depth=2, model_dim=24, num_heads=3, context_length=16, vocabulary=40)


@cache
def random_loaded(shape: ModelShape = SHAPE) -> LoadedModel:
    """A small decoder with random weights, large enough that attention is far from uniform."""
    return LoadedModel(
        name="random",
        family="GPT-2",
        engine=random_decoder(shape, seed=7, spread=0.4),
        tokenizer=IdTokenizer(shape.vocabulary, "this model has no tokenizer"),
        path=Path("random"),
    )


@cache
def family_loaded(name: str) -> LoadedModel:
    """A small random model of another family, from the golden folders."""
    return open_checkpoint(GOLDEN / name)


def tiny_loaded() -> LoadedModel:
    return open_model("tiny")


def record(
    loaded: LoadedModel,
    prompt: tuple[int, ...],
    decoded: tuple[int, ...] = (),
    *,
    faults: frozenset[str] = frozenset(),
    budget: int = TRACE_BUDGET,
) -> tuple[Session, Run]:
    """A prefill of the prompt, then one decode step per token given."""
    session = Session(loaded, faults=faults, budget=budget)
    run = Run(session.engine, faults)
    for update in session.prefill(prompt):
        run.apply(update)
    for token in decoded:
        for update in session.decode(token, drawn=True):
            run.apply(update)
    return session, run


def moment_of(
    loaded: LoadedModel,
    run: Run,
    step: int,
    operation: str | int,
    selection: Selection | None = None,
    sampling: SamplingConfig | None = None,
) -> Moment:
    """The moment at an operation, by its name or index."""
    index = operation if isinstance(operation, int) else run.trace.operation_index(operation)
    return build_moment(
        ModelInfo.of(loaded),
        run,
        Cursor(step, index),
        Selection() if selection is None else selection,
        SamplingConfig() if sampling is None else sampling,
        loaded.engine.shape.context_length,
    )


def without_weights(moment: Moment) -> Moment:
    return replace(moment, model=replace(moment.model, weights=None))


def held(trace: Trace | None, step: int, name: str) -> Array:
    """An array of a step that must be there."""
    array = None if trace is None else trace.array(step, name)
    assert array is not None
    return array


def logits_of(trace: Trace | None, step: int) -> Array:
    """The logits of a step that must be there."""
    logits = None if trace is None else trace.logits(step)
    assert logits is not None
    return logits
