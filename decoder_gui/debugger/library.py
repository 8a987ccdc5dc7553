"""What can be opened by name, and opening anything that can be opened."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path

from decoder_gui.assets_path import asset
from decoder_gui.debugger.hub import PREFIX, Downloading, Repository, fetch
from model.byte_counts import format_bytes
from model.captured_engine import CapturedEngine
from model.checkpoints import LoadedModel, finish, open_checkpoint, opening
from model.checkpoints.estimate import (
    Needs,
    Progress,
    Reading,
    available_memory,
    default_capacity,
    require_memory,
)
from model.errors import CheckpointError, ContextOverflow


@dataclass(frozen=True)
class NamedModel:
    """A model that needs no path."""

    name: str
    summary: str
    where: str  # a path, or the module that holds it
    open: Callable[[], LoadedModel]


def _open_tiny() -> LoadedModel:
    from model import tiny
    from model.tiny_engine import TinyEngine
    from model.tokenizers import WordTokenizer

    return LoadedModel(
        name="tiny",
        family="traced tiny decoder",
        engine=TinyEngine(),
        tokenizer=WordTokenizer(tiny.VOCAB, tiny.tokenize),
        path=Path(tiny.__file__),
    )


def named_models() -> tuple[NamedModel, ...]:
    """Every model that can be opened by name."""
    stories = asset("stories")
    return (
        NamedModel(
            "tiny",
            "four words, one block, width 2: every number can be checked by hand",
            "model/tiny.py",
            _open_tiny,
        ),
        NamedModel(
            "stories",
            "trained on short generated stories, GPT-2 architecture",
            str(stories),
            lambda: open_checkpoint(stories),
        ),
    )


@dataclass(frozen=True)
class Preparing:
    """What is going on before a model can run, for a line of progress."""

    text: str
    fraction: float | None = None  # None where the end is not known
    details: str = ""  # one sentence: what the model needs


Steps = Generator[Downloading | Progress, None, LoadedModel]


def model_steps(spec: str) -> Steps:
    """Open a model by name, by path, or from a hub, in steps that can be watched and stopped.

    Raises:
        CheckpointError: there is no such name or path, or the file cannot be used; one sentence.
    """
    for named in named_models():
        if named.name == spec:
            return named.open()
    if spec.startswith(PREFIX):
        return (yield from _from_hub(spec))
    path = Path(spec).expanduser()
    if not path.exists():
        names = ", ".join(named.name for named in named_models())
        raise CheckpointError(
            f"there is no model called {spec!r} (names: {names}; {PREFIX}owner/name for one of a "
            "model hub) and no such path"
        )
    return (yield from opening(path))


def open_model(spec: str) -> LoadedModel:
    """Open a model in one go, whatever it needs.

    Raises:
        CheckpointError: as :func:`model_steps`.
    """
    return finish(model_steps(spec))


@dataclass(frozen=True)
class Prepared:
    """A model that is open, and the context that it will run in."""

    loaded: LoadedModel
    capacity: int
    remark: str = ""  # one sentence if the context is less than the model's and nobody chose it

    @property
    def recorded(self) -> bool:
        """Whether it is a capture, which has been run already."""
        return isinstance(self.loaded.engine, CapturedEngine)


def prepare(spec: str, capacity: int | None = None) -> Generator[Preparing, None, Prepared]:
    """Open a model for a context of ``capacity`` positions, or of a sensible number of them.

    Raises:
        CheckpointError: as :func:`model_steps`.
        NotEnoughMemory: it will not fit; nothing of it was read.
    """
    yield Preparing(f"Opening {spec}")
    steps = model_steps(spec)
    remark, needs, chosen = "", None, capacity
    try:
        while True:
            step = next(steps)
            if isinstance(step, Needs):
                needs = step
                available = available_memory()
                chosen = _positions(step, capacity, available)
                require_memory(step, chosen, available)
                remark = _remark(step, chosen) if capacity is None else ""
            yield _in_words(step, needs, chosen)
    except StopIteration as end:
        loaded: LoadedModel = end.value
    finally:
        steps.close()
    own = loaded.engine.shape.context_length
    return Prepared(loaded, own if chosen is None else chosen, remark)


def _positions(needs: Needs, capacity: int | None, available: int | None) -> int:
    if capacity is None:
        return default_capacity(needs, available)
    own = needs.shape.context_length
    if capacity > own:
        raise ContextOverflow(capacity, own, "the model has no positions beyond its context")
    return capacity


def _remark(needs: Needs, capacity: int) -> str:
    own = needs.shape.context_length
    if capacity == own:
        return ""
    return (
        f"The context is {capacity:,} of the {own:,} positions that {needs.name} can have: "
        f"{format_bytes(needs.cache_bytes(capacity))} of cache instead of "
        f"{format_bytes(needs.cache_bytes(own))}. --context or the context field sets another."
    )


def _in_words(step: Downloading | Progress, needs: Needs | None, capacity: int | None) -> Preparing:
    match step:
        case Downloading(repository, file, done, total):
            if not total:
                return Preparing(f"Asking for {file}")
            return Preparing(
                f"Downloading {format_bytes(done)} of {format_bytes(total)}",
                done / total,
                f"{repository}: {format_bytes(total)} to download. They stay in the cache, from "
                "which it opens without a network next time.",
            )
        case Needs():
            return Preparing(f"Reading {step.name}", 0.0, _needed(step, capacity))
        case Reading(tensor, done, total):
            fraction = done / total if total else None
            if needs is None:
                return Preparing(f"Reading {tensor}", fraction)
            return Preparing(f"Reading {tensor}", fraction, _needed(needs, capacity))


def _needed(needs: Needs, capacity: int | None) -> str:
    return f"{needs.name}: {needs.sentence(capacity or 1)}."


def _from_hub(spec: str) -> Steps:
    repository = Repository.of(spec)
    folder = yield from fetch(repository)
    steps = opening(folder)
    try:
        while True:
            step = next(steps)
            # The folder in the cache is called after a commit.
            yield replace(step, name=repository.id) if isinstance(step, Needs) else step
    except StopIteration as end:
        loaded: LoadedModel = end.value
        return replace(loaded, name=repository.id)
    finally:
        steps.close()
