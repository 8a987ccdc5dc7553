"""What can be opened by name, and opening anything that can be opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from decoder_gui.assets_path import asset
from model.checkpoints import LoadedModel, open_checkpoint
from model.errors import CheckpointError


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


def open_model(spec: str) -> LoadedModel:
    """Open a model by name or by path.

    Raises:
        CheckpointError: there is no such name or path, or the file cannot be used; one sentence.
    """
    for named in named_models():
        if named.name == spec:
            return named.open()
    path = Path(spec).expanduser()
    if not path.exists():
        names = ", ".join(named.name for named in named_models())
        raise CheckpointError(
            f"there is no model called {spec!r} (names: {names}) and no such path"
        )
    return open_checkpoint(path)
