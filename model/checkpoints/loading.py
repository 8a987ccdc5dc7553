"""What a checkpoint becomes, and the two lists that the modules of this folder register in."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from model.blueprint import Blueprint
from model.checkpoints.estimate import Progress
from model.engine import Engine
from model.errors import CheckpointError
from model.tokenizers import Tokenizer
from model.weights import Floats

Config = Mapping[str, Any]

REFUSED = {
    ".bin": "a PyTorch pickle",
    ".pt": "a PyTorch pickle",
    ".pth": "a PyTorch pickle",
    ".ckpt": "a PyTorch pickle",
    ".pkl": "a pickle",
    ".h5": "a Keras file",
    ".msgpack": "a Flax file",
    ".onnx": "an ONNX graph",
    ".npz": "a NumPy archive",
}
"""What files that are not read are, by their ending."""

STRIP = 16
"""Columns that are transposed at a time."""

PICKLES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl"})


@dataclass(frozen=True)
class LoadedModel:
    """A model that is ready to run.

    Attributes:
        name: what to call it: the name of its folder.
        family: what sort of model it is, e.g. ``GPT-2``.
        engine: runs it.
        tokenizer: its own, or one that reads lists of ids if it came without.
        path: the folder or file that it was read from.
        warnings: one sentence each on what is doubtful but no reason to refuse, such as a NaN.
    """

    name: str
    family: str
    engine: Engine
    tokenizer: Tokenizer
    path: Path
    warnings: tuple[str, ...] = ()


Opening = Generator[Progress, None, LoadedModel]
"""Opening a model, step by step.

It yields :class:`~model.checkpoints.estimate.Needs` once, after the headers were held against each
other and before any weight is read, then a :class:`~model.checkpoints.estimate.Reading` before each
tensor. Whoever drives it may stop at any of them, by closing it.
"""


@dataclass(frozen=True)
class TensorSource:
    """Where a weight lies in a file, and how it becomes (in, out).

    Attributes:
        names: the tensors that it is made of, side by side along its last axis; one as a rule.
        transposed: whether they are stored as (out, in).
        widths: how much of the last axis each has, where there are several.
        arrange: what puts the columns of the whole into the engine's order, if they are in another.
    """

    names: tuple[str, ...]
    transposed: bool = False
    widths: tuple[int, ...] = ()
    arrange: Callable[[Floats], Floats] | None = None

    def stored_shapes(self, size: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """The shape of each tensor in the file for a weight of that size."""
        parts = tuple((*size[:-1], width) for width in self.widths or size[-1:])
        return tuple(part[::-1] if self.transposed else part for part in parts)

    def assemble(self, tensors: Sequence[Floats]) -> Floats:
        """The weight from its tensors, contiguous."""
        parts = [tensor.T if self.transposed else tensor for tensor in tensors]
        whole = side_by_side(parts) if len(parts) > 1 or self.transposed else parts[0]
        return np.ascontiguousarray(whole if self.arrange is None else self.arrange(whole))


def side_by_side(parts: Sequence[Floats]) -> Floats:
    """Arrays put together along their last axis, which may be transposed views, as a new one."""
    whole = np.empty((*parts[0].shape[:-1], sum(part.shape[-1] for part in parts)), np.float32)
    start = 0
    for part in parts:
        width = part.shape[-1]
        # A transposed copy in narrow strips stays in the cache: five times as fast as all at once.
        for strip in range(0, width, STRIP):
            end = min(strip + STRIP, width)
            whole[..., start + strip : start + end] = part[..., strip:end]
        start += width
    return whole


class Family(Protocol):
    """A family of models: a map of names plus a blueprint, and nothing else."""

    @property
    def label(self) -> str:
        """What a window shows, e.g. ``GPT-2``."""
        ...

    @property
    def model_type(self) -> str:
        """The value of ``model_type`` in a config.json of this family."""
        ...

    def blueprint(self, config: Config, source: Path) -> Blueprint:
        """Sizes and parts from a config.json.

        Raises:
            CheckpointError: a field is missing, malformed, or asks for what is not computed here.
        """
        ...

    def sources(self, blueprint: Blueprint, present: frozenset[str]) -> dict[str, TensorSource]:
        """Where each weight of :func:`model.weights.weight_shapes` lies, given the names there."""
        ...

    def ignored(self, name: str) -> bool:
        """Whether a tensor is no weight, such as a stored mask, and may be passed over."""
        ...

    def doubles(self, blueprint: Blueprint) -> Mapping[str, str]:
        """Tensors that may be stored besides, and the weight that each has to repeat."""
        ...


@dataclass(frozen=True)
class Format:
    """A way to store a model: whether a path is one, and how it is opened.

    One that is ``narrow`` recognises some files of another format, so it is asked first.
    """

    name: str
    recognises: Callable[[Path], bool]
    open: Callable[[Path], Opening]
    narrow: bool = False


_families: dict[str, Family] = {}
_formats: dict[str, Format] = {}


def register_family(family: Family) -> None:
    """Make a family known by its ``model_type``."""
    _families[family.model_type] = family


def register_format(format_: Format) -> None:
    """Make a format known."""
    _formats[format_.name] = format_


@cache
def _import_all() -> None:
    package = importlib.import_module("model.checkpoints")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"model.checkpoints.{module.name}")


def family_of(model_type: object, source: Path) -> Family:
    """The family that a config.json names.

    Raises:
        CheckpointError: no family of that name is known.
    """
    _import_all()
    if not isinstance(model_type, str) or model_type not in _families:
        raise CheckpointError(
            f"{source}: model_type is {model_type!r}; known are {', '.join(sorted(_families))}"
        )
    return _families[model_type]


def open_checkpoint(path: str | Path) -> LoadedModel:
    """Open a model folder, the weights file in it, or a GGUF file, in one go.

    Raises:
        CheckpointError: as :func:`opening`.
    """
    return finish(opening(path))


def finish(steps: Generator[object, None, LoadedModel]) -> LoadedModel:
    """Drive an opening to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            loaded: LoadedModel = end.value
            return loaded


def opening(path: str | Path) -> Opening:
    """Open a model folder or a weights file, in steps that can be watched and stopped.

    Nothing in it is ever executed: pickles are refused by their content, whatever their name.

    Raises:
        CheckpointError: one sentence that says which file and which part of it cannot be used.
    """
    _import_all()
    place = Path(path).expanduser()
    if not place.exists():
        raise CheckpointError(f"{place}: there is no such file or folder")
    if not (place.is_dir() or place.is_file()):
        raise CheckpointError(f"{place}: neither a file nor a folder")  # a pipe would never answer
    for format_ in sorted(_formats.values(), key=lambda format_: not format_.narrow):
        if format_.recognises(place):
            try:
                return (yield from format_.open(place))
            except OSError as error:
                reason = error.strerror or str(error)
                raise CheckpointError(f"{error.filename or place}: {reason}") from None
            except MemoryError:
                raise CheckpointError(f"{place}: not enough memory to hold it") from None
    raise CheckpointError(_why_not(place))


def _why_not(place: Path) -> str:
    """Why nothing here can be opened, and what to do about it."""
    if place.is_dir():
        files = sorted(place.iterdir())
        found = next((file for file in files if file.suffix in REFUSED), None)
        if found is None:
            return f"{place}: there is no model.safetensors and no GGUF file in this folder"
        return f"{place}: there is no model.safetensors in this folder, only {_refusal(found)}"
    if place.suffix in REFUSED:
        return f"{place.parent}: {_refusal(place)}"
    return (
        f"{place}: not a model; open a GGUF file, or a folder with config.json and "
        "model.safetensors"
    )


def _refusal(file: Path) -> str:
    if file.suffix in PICKLES:
        return (
            f"{file.name}, {REFUSED[file.suffix]}, which is never opened because opening it can "
            "run code; save the model as safetensors first (save_pretrained does)"
        )
    return f"{file.name}, {REFUSED[file.suffix]}, which is not read; save it as safetensors first"
