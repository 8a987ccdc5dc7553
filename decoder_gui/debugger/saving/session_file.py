"""A session in a file: the model by name, every branch by its tokens and draws, and what was set.

JSON, data only. Nothing that was computed is in it: the same tokens under the same model give the
same numbers again, and the state of the generator is kept with each step, so that a step holds the
same draw. Whole numbers that JSON readers elsewhere would round are written as texts.
"""

from __future__ import annotations

import base64
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from model.ablation import Edit, Patch, ZeroHead, ZeroMlp
from model.errors import CheckpointError
from model.sampling import SamplingConfig
from model.trace import Phase

FORMAT = "decoder-gui session"
VERSION = 1
SUFFIX = ".session.json"


class SessionFileError(CheckpointError):
    """A session file that cannot be used; one sentence naming the file and the field."""


@dataclass(frozen=True)
class ModelReference:
    """Which model a session is of, with enough to notice that another one is opened.

    Attributes:
        spec: what opens it: a name, a path, or ``hf:owner/name``.
    """

    spec: str
    name: str
    family: str
    parameters: int
    vocabulary: int


@dataclass(frozen=True)
class SavedStep:
    """One pass: its tokens, and the state of the generator before its draw."""

    phase: Phase
    token_ids: tuple[int, ...]
    generator_state: Mapping[str, Any]


@dataclass(frozen=True)
class SavedBranch:
    """A branch: where it grows, what it changes, and its steps with how their tokens were chosen.

    ``settings`` are those under which the token after a step was chosen, by step.
    """

    id: int
    name: str
    parent: int | None
    position: int
    reason: str
    steps: tuple[SavedStep, ...]
    edits: tuple[Edit, ...] = ()
    by_hand: frozenset[int] = frozenset()
    settings: Mapping[int, SamplingConfig] = field(default_factory=dict)


@dataclass(frozen=True)
class SavedSession:
    """All of a session.

    Attributes:
        cursor: step, and the name of the operation; None before the first.
        groups: what groups of commands save of themselves, such as breakpoints, by their names.
        layout: of the window: the workspace in hand and the arrangements, as texts.
        saved_at: ISO time, local.
    """

    model: ModelReference
    prompt: str
    context: int
    sampling: SamplingConfig
    faults: frozenset[str]
    branches: tuple[SavedBranch, ...]
    active: int
    cursor: tuple[int, str] | None = None
    selection: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Any] = field(default_factory=dict)
    layout: Mapping[str, str] = field(default_factory=dict)
    saved_at: str = ""

    @property
    def tokens(self) -> int:
        """Positions of the active branch."""
        active = next(branch for branch in self.branches if branch.id == self.active)
        return sum(len(step.token_ids) for step in active.steps)


# ---------------------------------------------------------------- writing


def to_text(session: SavedSession) -> str:
    """The file's text."""
    return json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "saved_at": session.saved_at,
            "model": asdict(session.model),
            "prompt": session.prompt,
            "context": session.context,
            "sampling": asdict(session.sampling),
            "faults": sorted(session.faults),
            "active": session.active,
            "cursor": None if session.cursor is None else list(session.cursor),
            "selection": dict(session.selection),
            "branches": [_branch(branch) for branch in session.branches],
            "groups": dict(session.groups),
            "layout": dict(session.layout),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def write(session: SavedSession, path: Path, *, private: bool = False) -> None:
    """Write a file so that a kill at any moment leaves the old one or the new one whole.

    Args:
        private: nobody else may read it; otherwise it is as open as any new file, or as before.

    Raises:
        SessionFileError: it cannot be written.
    """
    text = to_text(session) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            # Half a character, which a pasted text may have, is written as a question mark.
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                if not private:
                    Path(name).chmod(_mode(path))
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SessionFileError(f"{path} cannot be written: {error.strerror or error}") from None


def _mode(path: Path) -> int:
    """The permissions of the file that is there, or those of a new one."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask


def _branch(branch: SavedBranch) -> dict[str, object]:
    return {
        "id": branch.id,
        "name": branch.name,
        "parent": branch.parent,
        "position": branch.position,
        "reason": branch.reason,
        "edits": [_edit(edit) for edit in branch.edits],
        "by_hand": sorted(branch.by_hand),
        "settings": {str(step): asdict(config) for step, config in branch.settings.items()},
        "steps": [
            {
                "phase": step.phase.value,
                "token_ids": list(step.token_ids),
                "generator": _whole_to_text(step.generator_state),
            }
            for step in branch.steps
        ],
    }


def _edit(edit: Edit) -> dict[str, object]:
    match edit:
        case ZeroHead(layer, head, first):
            return {"kind": "zero head", "layer": layer, "head": head, "first": first}
        case ZeroMlp(layer, first):
            return {"kind": "zero mlp", "layer": layer, "first": first}
        case Patch():
            values = np.ascontiguousarray(edit.values)
            return {
                "kind": "patch",
                "name": edit.name,
                "positions": list(edit.positions),
                "head": edit.head,
                "source": edit.source,
                "dtype": values.dtype.str,
                "shape": list(values.shape),
                "values": base64.b64encode(values.tobytes()).decode("ascii"),
            }
        case _:
            raise TypeError(f"{edit!r} cannot be written down")


def _whole_to_text(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _whole_to_text(inner) for key, inner in value.items()}
    return str(value) if isinstance(value, int) else value
