"""What an operation of a forward pass is, as data that an engine publishes.

No panel has a list of its own: the tree, the stepper, the source view and the sentences all come
from the operations of the engine in hand. Names are canonical (TransformerLens's activation names
without ``hook_``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path


class Kind(StrEnum):
    """What an operation does, for panels that treat some of them specially."""

    EMBED = "embed"
    NORM = "norm"
    QKV = "qkv"
    ROTARY = "rotary"
    CACHE = "cache"
    SCORES = "scores"
    PATTERN = "pattern"
    MIX = "mix"
    LINEAR = "linear"
    ACTIVATION = "activation"
    RESIDUAL = "residual"
    LOGITS = "logits"
    SAMPLE = "sample"


@dataclass(frozen=True)
class SourceLines:
    """The lines of code that compute an operation, read from the file that ran."""

    file: str  # relative to the import root: "model/attention.py"
    first_line: int  # number of lines[0] in the file, from 1
    lines: tuple[str, ...]
    marked: int  # index into lines of the one that computes the operation


@dataclass(frozen=True)
class Operation:
    """One operation of one step, the unit of stepping.

    Attributes:
        name: unique within a model, e.g. ``blocks.2.attn.pattern``; what ``--at STEP:NAME`` takes.
            The name of its main output, or ``blocks.N.cache`` and ``sample``, which have none.
        label: what the tree shows, e.g. ``Softmax``.
        kind: what sort of operation it is.
        layer: the block it belongs to, None outside the blocks.
        outputs: canonical names of the arrays that it records, the main one first; may be empty.
        inputs: canonical names of the arrays that it reads.
        axes: axis names of the main output.
        formula: the arithmetic in one line of plain notation.
        sentence: one plain sentence on what it does and why. ``{queries}``, ``{keys}``,
            ``{heads}``, ``{layer}``, ``{width}`` may appear; :meth:`describe` fills them in.
        function: the function whose code computes it.
        mark: text that occurs in exactly one line of that function: the line that computes it.
        window: for scores and attention weights, how many keys a query sees at most, its own
            included; 0 is all that are not later.
    """

    name: str
    label: str
    kind: Kind
    layer: int | None
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    axes: tuple[str, ...]
    formula: str
    sentence: str
    function: Callable[..., object] = field(repr=False)
    mark: str = field(repr=False)
    window: int = 0

    @property
    def short_name(self) -> str:
        """The name without its ``blocks.N.`` prefix, e.g. ``attn.pattern``."""
        return self.name.split(".", 2)[2] if self.layer is not None else self.name

    def describe(self, **numbers: int) -> str:
        """The sentence with the numbers of the step in hand filled in."""
        return self.sentence.format(**numbers)

    def source(self) -> SourceLines:
        """The function's lines with the computing line marked.

        Raises:
            LookupError: the mark is not in exactly one line (a test holds every operation to it).
        """
        return _source(self.function, self.mark)


@cache
def _source(function: Callable[..., object], mark: str) -> SourceLines:
    lines, first = inspect.getsourcelines(function)
    hits = [index for index, line in enumerate(lines) if mark in line]
    if len(hits) != 1:
        raise LookupError(f"{mark!r} is in {len(hits)} lines of {function.__qualname__}, not in 1")
    path = Path(inspect.getfile(function))
    root = Path(__file__).resolve().parent.parent
    try:
        shown = path.resolve().relative_to(root).as_posix()
    except ValueError:
        shown = path.name
    return SourceLines(shown, first, tuple(line.rstrip("\n") for line in lines), hits[0])
