"""Reads a capture (:mod:`model.capture`), and holds all that it says against itself.

Every tensor's name, type and axes are checked before any of it is read, so that whatever opens a
capture may rely on it. A name that has no place is not an error, since others record more than this
program shows: it is passed over, and a remark says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from model.byte_counts import format_bytes
from model.capture import (
    FIELDS,
    FORMAT_VERSION,
    KEY,
    Array,
    axes_of,
    axis_problem,
)
from model.captured_run import Capture, CapturedStep
from model.checkpoints.estimate import available_memory
from model.checkpoints.safetensors_file import (
    DTYPES,
    StoredTensor,
    StoredTensors,
    read_header,
    read_metadata,
)
from model.errors import CheckpointError, NotEnoughMemory
from model.trace import Phase

READS: dict[str, Callable[[NDArray[np.uint8]], Array]] = {
    **DTYPES,
    "F64": lambda stored: stored.view("<f8").astype(np.float64, copy=False),
}
BYTES = {"F64": 8, "F32": 4, "F16": 4, "BF16": 4}  # of a number in memory
UPCAST = {"F16": "float16", "BF16": "bfloat16"}

LARGEST_ID = 2**31 - 1
LONGEST_TEXT = 1_000  # characters of a name, or of one token
MENTIONED = 3  # names without a place that a remark lists

Axis = tuple[int, str]  # how long an axis is, and what says so


def looks_like_capture(path: Path) -> bool:
    """Whether a safetensors file is a capture, sound or not, and not a model's weights.

    Raises:
        CheckpointError: it is no safetensors file at all.
    """
    tensors = read_header(path)
    return KEY in read_metadata(path) or any(axes_of(_parted(name)[1]) for name in tensors)


def read_capture(path: Path) -> Capture:
    """A capture from a file, its arrays in memory and read-only.

    Raises:
        CheckpointError: it cannot be used; the sentence names the file and what is wrong in it.
        NotEnoughMemory: its arrays do not fit into memory.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such file")
    try:
        return _Reader(path).capture()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror or error}") from None


class _Reader:
    """One file on its way to a capture."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tensors: StoredTensors = read_header(path)
        document = read_metadata(path).get(KEY)
        if document is None:
            self._refuse(
                f"the header says nothing under {KEY!r}, so the tokens of this run are not known; "
                "write it with model/capture.py"
            )
        try:
            about: Any = json.loads(document)
        except (ValueError, RecursionError) as error:
            self._refuse(f"{KEY} in its header is not JSON ({' '.join(str(error).split())[:200]})")
        if not isinstance(about, dict):
            self._refuse(f"{KEY} in its header is no JSON object")
        self._about: dict[str, Any] = about

    def capture(self) -> Capture:
        """Everything, checked."""
        version = self._about.get("format")
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            self._refuse(f"format must be a whole number of at least 1, not {_short(version)}")
        if version > FORMAT_VERSION:
            self._refuse(
                f"format {version} is newer than the {FORMAT_VERSION} that this version reads; "
                "open it with a newer decoder-gui"
            )
        steps = list(self._steps())
        blueprint = self._blueprint()
        placed, strays = self._placed(steps)
        self._check_axes(steps, placed, blueprint)
        self._check_memory(placed)
        remarks = tuple(self._remarks(placed, strays))
        arrays = [
            {name: self._array(tensor) for name, tensor in tensors.items()} for tensors in placed
        ]
        for named in arrays:
            _name_twice(named)
        return Capture(
            steps=tuple(
                replace(step, arrays=named) for step, named in zip(steps, arrays, strict=True)
            ),
            model=self._text("model"),
            blueprint=blueprint,
            texts=self._texts(),
            sampling=self._object("sampling"),
            events=tuple(self._events()),
            made_by=self._text("made_by"),
            remarks=remarks,
        )

    # ---- the document

    def _steps(self) -> Iterator[CapturedStep]:
        listed = self._about.get("steps")
        if not isinstance(listed, list) or not listed:
            self._refuse(f"steps must be a list of at least one step, not {_short(listed)}")
        first = 0
        for index, step in enumerate(listed):
            said = f"step {index}"
            if not isinstance(step, dict):
                self._refuse(f"{said} is {_short(step)} and no object")
            ids = step.get("token_ids")
            if not isinstance(ids, list) or not ids:
                self._refuse(f"{said} has no token_ids")
            for token in ids:
                if isinstance(token, bool) or not isinstance(token, int):
                    self._refuse(f"{said} has the token id {_short(token)}, no whole number")
                if not 0 <= token <= LARGEST_ID:
                    self._refuse(f"{said} has the token id {token}, not in 0 to {LARGEST_ID}")
            if step.get("first") != first:
                self._refuse(
                    f"{said} begins at position {_short(step.get('first'))}, and {first} positions "
                    "come before it"
                )
            if step.get("phase") not in tuple(Phase):
                self._refuse(f"{said} has the phase {_short(step.get('phase'))}, not {_phases()}")
            draw = step.get("draw")
            if draw is not None and not (_is_number(draw) and 0 <= draw < 1):
                self._refuse(f"{said} has the draw {_short(draw)}, which is not in [0, 1)")
            by_hand = step.get("by_hand", False)
            if not isinstance(by_hand, bool):
                self._refuse(f"{said} has by_hand {_short(by_hand)}, not true or false")
            yield CapturedStep(Phase(step["phase"]), first, tuple(ids), {}, draw, by_hand)
            first += len(ids)

    def _blueprint(self) -> dict[str, Any]:
        blueprint = self._object("blueprint") or {}
        # What a later version may say in addition does no harm here.
        return {name: value for name, value in blueprint.items() if name in FIELDS}

    def _object(self, name: str) -> dict[str, Any] | None:
        value = self._about.get(name)
        if value is not None and not isinstance(value, dict):
            self._refuse(f"{name} is {_short(value)} and no object")
        return value

    def _text(self, name: str) -> str:
        value = self._about.get(name, "")
        if not _is_text(value):
            self._refuse(f"{name} is {_short(value)}, {_NO_TEXT}")
        return str(value)

    def _texts(self) -> dict[int, str]:
        texts = self._object("texts") or {}
        for token, text in texts.items():
            if not (token.isascii() and token.isdigit() and len(token) <= len(str(LARGEST_ID))):
                self._refuse(f"texts has a text for {_short(token)}, which is no token id")
            if not _is_text(text):
                self._refuse(f"texts has {_short(text)} for token {token}, {_NO_TEXT}")
        return {int(token): text for token, text in texts.items()}

    def _events(self) -> list[str]:
        events = self._about.get("events", [])
        if not isinstance(events, list) or not all(map(_is_text, events)):
            self._refuse(f"events is {_short(events)}, not a list of names")
        return events

    # ---- the tensors

    def _placed(self, steps: list[CapturedStep]) -> tuple[list[dict[str, StoredTensor]], list[str]]:
        """The tensors of each step by canonical name, and the names that have no place."""
        placed: list[dict[str, StoredTensor]] = [{} for _ in steps]
        strays = []
        for key, tensor in self._tensors.items():
            index, name = _parted(key)
            if axes_of(name) is None:
                strays.append(key)
                continue
            if index is None and len(steps) > 1:
                self._refuse(f"the tensor {key} does not say of which of {len(steps)} steps it is")
            step = 0 if index is None else index
            if step >= len(steps):
                self._refuse(f"the tensor {key} is of step {step}, and there are {len(steps)}")
            if name in placed[step]:
                self._refuse(f"the tensor {name} of step {step} is there twice")
            if tensor.dtype not in READS:
                self._refuse(f"{key} is stored as {tensor.dtype}; read are {', '.join(READS)}")
            placed[step][name] = tensor
        if not any(placed):
            self._refuse("there is no array in it under a canonical name")
        return placed, strays

    def _check_axes(
        self,
        steps: list[CapturedStep],
        placed: list[dict[str, StoredTensor]],
        blueprint: Mapping[str, Any],
    ) -> None:
        """Every array against its step, against what was said, and against the others."""
        sizes: dict[str, Axis] = {}
        for field, axis in (
            ("model_dim", "d_model"),
            ("num_heads", "head"),
            ("kv_heads", "kv_head"),
            ("head_dim", "d_head"),
            ("mlp_dim", "d_mlp"),
            ("vocabulary", "vocab"),
        ):
            value = blueprint.get(field)
            if value is not None:
                sizes[axis] = self._size(field, value), f"blueprint says {field} {value}"
        depth = blueprint.get("depth")
        layers = math.inf if depth is None else self._size("depth", depth)
        for step, tensors in zip(steps, placed, strict=True):
            count = len(step.token_ids)
            for name, tensor in tensors.items():
                problem = axis_problem(name, tensor.shape, count, step.first + count)
                if problem:
                    self._refuse(f"{tensor.name}: {problem}")
                if name.startswith("blocks.") and int(name.split(".")[1]) >= layers:
                    self._refuse(f"{tensor.name}: there are {depth} layers by the blueprint")
                for axis, size in zip(axes_of(name) or (), tensor.shape, strict=True):
                    if axis in ("batch", "pos", "key"):
                        continue
                    known, source = sizes.setdefault(axis, (size, f"{tensor.name} has {size}"))
                    if known != size:
                        self._refuse(f"{tensor.name} has {size} for the axis {axis}, and {source}")
        vocabulary, source = sizes.get("vocab", (math.inf, ""))
        for token in (token for step in steps for token in step.token_ids):
            if token >= vocabulary:
                self._refuse(f"there is a token id {token}, and {source} for the vocabulary")
        heads, shared = sizes.get("head"), sizes.get("kv_head")
        if heads and shared and heads[0] % shared[0]:
            self._refuse(f"{heads[0]} query heads cannot share {shared[0]} key/value heads evenly")

    def _size(self, field: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST_ID:
            said = f"{field} must be a whole number of at least 1"
            self._refuse(f"blueprint: {said}, not {_short(value)}")
        return value

    def _check_memory(self, placed: list[dict[str, StoredTensor]]) -> None:
        tensors = [tensor for named in placed for tensor in named.values()]
        needed = sum(math.prod(tensor.shape) * BYTES[tensor.dtype] for tensor in tensors)
        available = available_memory()
        if available is not None and needed > available:
            raise NotEnoughMemory(
                f"{self._path}: its arrays take {format_bytes(needed)}, and "
                f"{format_bytes(available)} of memory are available"
            )

    def _array(self, tensor: StoredTensor) -> Array:
        size = tensor.end - tensor.begin
        stored = np.fromfile(tensor.path, dtype=np.uint8, count=size, offset=tensor.begin)
        if stored.size != size:
            self._refuse(f"{tensor.name} ends before its last byte")
        array = READS[tensor.dtype](stored).reshape(tensor.shape)
        array.flags.writeable = False
        return array

    def _remarks(self, placed: list[dict[str, StoredTensor]], strays: list[str]) -> Iterator[str]:
        if strays:
            names = ", ".join(strays[:MENTIONED])
            more = f" and {len(strays) - MENTIONED} more" if len(strays) > MENTIONED else ""
            yield f"not shown, because they have no place in a capture: {names}{more}"
        types = {tensor.dtype for named in placed for tensor in named.values()}
        upcast = self._about.get("upcast", [])
        words = {UPCAST[kind] for kind in types & UPCAST.keys()}
        words |= {kind for kind in UPCAST.values() if isinstance(upcast, list) and kind in upcast}
        if words:
            yield f"{' and '.join(sorted(words))} values were upcast to float32"

    def _refuse(self, why: str) -> NoReturn:
        raise CheckpointError(f"{self._path}: {why}")


def _parted(key: str) -> tuple[int | None, str]:
    """Step and canonical name of a tensor; None where it says no step."""
    front, slash, name = key.partition("/")
    if slash and front.isascii() and front.isdigit() and len(front) < 8:
        return int(front), name
    return None, key


def _name_twice(arrays: dict[str, Array]) -> None:
    """The end of a block and the start of the next are one array; each finds the other."""
    layers = {name.split(".")[1] for name in arrays if name.startswith("blocks.")}
    for name in list(arrays):
        front, _, short = name.rpartition(".")
        if short == "resid_post" and (after := str(int(front[7:]) + 1)) in layers:
            arrays.setdefault(f"blocks.{after}.resid_pre", arrays[name])
        elif short == "resid_pre" and (before := str(int(front[7:]) - 1)) in layers:
            arrays.setdefault(f"blocks.{before}.resid_post", arrays[name])


_NO_TEXT = f"which is no Unicode text of at most {LONGEST_TEXT:,} characters"


def _is_text(value: object) -> bool:
    """A text that can be shown: bytes that are no character may be in it, half a character not."""
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        return False
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _phases() -> str:
    return " or ".join(phase.value for phase in Phase)


def _short(value: object) -> str:
    """A value as it is quoted in a refusal."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
