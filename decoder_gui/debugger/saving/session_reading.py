"""Reading a session file: every field is checked before anything is made of it."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from decoder_gui.debugger.saving.session_file import (
    FORMAT,
    VERSION,
    ModelReference,
    SavedBranch,
    SavedSession,
    SavedStep,
    SessionFileError,
)
from model.ablation import Edit, Patch, ZeroHead, ZeroMlp
from model.engine import Array
from model.errors import DecoderError
from model.sampling import SamplingConfig
from model.trace import Phase

LARGEST = 256 * 2**20  # bytes of a file that is read at all

Kind = TypeVar("Kind")


def read(path: Path) -> SavedSession:
    """Read a file.

    Raises:
        SessionFileError: it cannot be read, is no session, is damaged, or is of a newer version.
    """
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise SessionFileError(f"{path} has {size} bytes: no session is that large")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SessionFileError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SessionFileError(f"{path} is not a text file") from None
    return from_text(text, str(path))


def from_text(text: str, where: str) -> SavedSession:
    """A session from the file's text; ``where`` names the file in refusals."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SessionFileError(f"{where} is not JSON: {error}") from None
    fields = _Fields(document, where, "")
    if fields.optional("format", str, "") != FORMAT:
        raise SessionFileError(f"{where} is not a session: its format is not {FORMAT!r}")
    version = fields.get("version", int)
    if version > VERSION:
        raise SessionFileError(
            f"{where} has version {version}, and this program reads up to {VERSION}: it was "
            "written by a newer one"
        )
    branches = tuple(_read_branch(each) for each in fields.each("branches"))
    active = fields.get("active", int)
    session = SavedSession(
        model=_read_model(fields.inside("model")),
        prompt=fields.get("prompt", str),
        context=fields.get("context", int),
        sampling=fields.inside("sampling").build(lambda values: SamplingConfig(**values)),
        faults=frozenset(fields.list_of("faults", str)),
        branches=branches,
        active=active,
        cursor=_read_cursor(fields),
        selection=fields.optional("selection", dict, {}),
        groups=fields.optional("groups", dict, {}),
        layout={k: v for k, v in fields.optional("layout", dict, {}).items() if isinstance(v, str)},
        saved_at=fields.optional("saved_at", str, ""),
    )
    _require_tree(branches, active, where)
    return session


def _require_tree(branches: Sequence[SavedBranch], active: int, where: str) -> None:
    """Refuse branches that do not make a tree."""
    known = [branch.id for branch in branches]
    if len(set(known)) != len(known) or active not in known:
        raise SessionFileError(f"{where}: branches: the active branch {active} is not there once")
    before: set[int] = set()
    for branch in branches:
        if (branch.parent is None) != (not before) or (before and branch.parent not in before):
            raise SessionFileError(
                f"{where}: branches: branch {branch.id} has no parent before it, or the first has"
            )
        if not branch.steps and branch.id == active and len(branches) > 1:
            raise SessionFileError(f"{where}: branches: branch {branch.id} has no steps")
        before.add(branch.id)


def _read_model(fields: _Fields) -> ModelReference:
    return ModelReference(
        spec=fields.get("spec", str),
        name=fields.get("name", str),
        family=fields.get("family", str),
        parameters=fields.get("parameters", int),
        vocabulary=fields.get("vocabulary", int),
    )


def _read_cursor(fields: _Fields) -> tuple[int, str] | None:
    pair = fields.optional("cursor", list, [])
    match pair:
        case []:
            return None
        case [int() as step, str() as operation]:
            return step, operation
    raise fields.wrong("cursor", "a step and the name of an operation")


def _read_branch(fields: _Fields) -> SavedBranch:
    settings = {}
    for key in fields.optional("settings", dict, {}):
        inside = fields.inside("settings").inside(key)
        if not key.isdigit():
            raise fields.wrong("settings", "named by steps")
        settings[int(key)] = inside.build(lambda values: SamplingConfig(**values))
    parent = fields.optional("parent", int, None)
    return SavedBranch(
        id=fields.get("id", int),
        name=fields.get("name", str),
        parent=parent,
        position=fields.get("position", int),
        reason=fields.get("reason", str),
        steps=tuple(_read_step(each) for each in fields.each("steps")),
        edits=tuple(_read_edit(each) for each in fields.each("edits")),
        by_hand=frozenset(fields.list_of("by_hand", int)),
        settings=settings,
    )


def _read_step(fields: _Fields) -> SavedStep:
    phase = fields.get("phase", str)
    if phase not in {each.value for each in Phase}:
        raise fields.wrong("phase", "prefill or decode")
    ids = fields.list_of("token_ids", int)
    if not ids or min(ids) < 0:
        raise fields.wrong("token_ids", "one whole number or more, none below 0")
    return SavedStep(Phase(phase), tuple(ids), _read_state(fields.inside("generator")))


def _read_state(fields: _Fields) -> Mapping[str, Any]:
    inner = fields.inside("state")
    state = {
        "bit_generator": fields.get("bit_generator", str),
        "state": {"state": inner.whole("state"), "inc": inner.whole("inc")},
        "has_uint32": fields.whole("has_uint32"),
        "uinteger": fields.whole("uinteger"),
    }
    try:
        np.random.PCG64().state = cast(Any, state)
    except (ValueError, TypeError, OverflowError):
        raise fields.wrong("state", "the state of a PCG64 generator") from None
    return state


def _read_edit(fields: _Fields) -> Edit:
    kind = fields.get("kind", str)
    if kind == "zero head":
        return ZeroHead(*(fields.get(name, int) for name in ("layer", "head", "first")))
    if kind == "zero mlp":
        return ZeroMlp(*(fields.get(name, int) for name in ("layer", "first")))
    if kind != "patch":
        raise fields.wrong("kind", "zero head, zero mlp or patch")
    return Patch(
        name=fields.get("name", str),
        positions=tuple(fields.list_of("positions", int)),
        values=_read_array(fields),
        head=fields.optional("head", int, None),
        source=fields.get("source", str),
    )


def _read_array(fields: _Fields) -> Array:
    dtype, shape = fields.get("dtype", str), fields.list_of("shape", int)
    if dtype not in ("<f4", "<f8"):
        raise fields.wrong("dtype", "<f4 or <f8")
    try:
        data = base64.b64decode(fields.get("values", str), validate=True)
    except binascii.Error:
        raise fields.wrong("values", "base64") from None
    size = int(np.prod(shape, dtype=np.int64)) if shape and min(shape) > 0 else 0
    if len(data) != size * np.dtype(dtype).itemsize or not size:
        raise fields.wrong("values", f"{size} numbers, as the shape says")
    return np.frombuffer(data, dtype=dtype).reshape(shape)


class _Fields:
    """An object of the document, with what to call it in a refusal."""

    def __init__(self, value: object, where: str, path: str) -> None:
        self._where, self._path = where, path
        if not isinstance(value, dict):
            raise SessionFileError(f"{where}: {path or 'the document'} is not an object")
        self._values: dict[str, Any] = value

    def wrong(self, name: str, wanted: str) -> SessionFileError:
        """The refusal of a field."""
        return SessionFileError(f"{self._where}: {self._name(name)} is not {wanted}")

    def _name(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def get(self, name: str, kind: type[Kind]) -> Kind:
        """A field of a kind that must be there."""
        if name not in self._values:
            raise SessionFileError(f"{self._where}: {self._name(name)} is missing")
        value = self._values[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(
                name,
                {"int": "a whole number", "str": "a text"}.get(kind.__name__, f"a {kind.__name__}"),
            )
        return value

    def optional(self, name: str, kind: type[Kind], default: Any) -> Any:
        """The same, or a default where it is missing or null."""
        return default if self._values.get(name) is None else self.get(name, kind)

    def whole(self, name: str) -> int:
        """A whole number written as a text."""
        text = self.get(name, str)
        if not (text.isascii() and text.isdigit() and len(text) <= 64):
            raise self.wrong(name, "a whole number as a text")
        return int(text)

    def list_of(self, name: str, kind: type[Kind]) -> list[Kind]:
        """A list whose items are all of a kind."""
        values: list[Any] = self.get(name, list)
        for value in values:
            if not isinstance(value, kind) or isinstance(value, bool):
                raise self.wrong(name, f"a list of {kind.__name__}")
        return values

    def inside(self, name: str) -> _Fields:
        """An object within."""
        return _Fields(self.get(name, dict), self._where, self._name(name))

    def each(self, name: str) -> list[_Fields]:
        """A list of objects within."""
        return [
            _Fields(value, self._where, self._name(f"{name}[{at}]"))
            for at, value in enumerate(self.get(name, list))
        ]

    def build(self, make: Callable[[dict[str, Any]], Kind]) -> Kind:
        """What the object's fields make; a refusal of theirs names the object."""
        try:
            return make(self._values)
        except (TypeError, ValueError, DecoderError) as error:
            raise SessionFileError(f"{self._where}: {self._path}: {error}") from None
