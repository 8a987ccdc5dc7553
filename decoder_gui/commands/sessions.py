"""Saving the whole session, opening it again, and keeping what is unsaved through a kill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decoder_gui.change import Change
from decoder_gui.commands.base import Commands
from decoder_gui.debugger.cursor import Cursor, last
from decoder_gui.debugger.hub import PREFIX
from decoder_gui.debugger.library import named_models
from decoder_gui.debugger.saving.restoring import saved_branches
from decoder_gui.debugger.saving.session_file import (
    SUFFIX,
    ModelReference,
    SavedSession,
    SessionFileError,
    write,
)
from decoder_gui.debugger.saving.session_reading import read
from model.checkpoints import LoadedModel
from model.errors import DecoderError, sentence

if TYPE_CHECKING:
    from decoder_gui.context import AppContext

# What a session file holds; a change of anything else needs no writing.
_KEPT = (
    Change.TRACE
    | Change.CURSOR
    | Change.SELECTION
    | Change.SAMPLING
    | Change.MODEL
    | Change.STOPS
    | Change.WATCHES
    | Change.BRANCHES
)
_SELECTED = ("layer", "head", "query", "key")

Layout = dict[str, str]


def is_session(spec: str) -> bool:
    """Whether what is to be opened is a session file and not a model."""
    return spec.endswith(SUFFIX) and not spec.startswith(PREFIX)


class Sessions(Commands):
    """Session files.

    Attributes:
        path: where the session was saved or opened, if it was.
        changed: called whenever something a file holds has changed; None for nobody.
        layout: gives the arrangement of the window as texts; none without a window.
        lay_out: takes such an arrangement over.
        restored: told once a session that was opened is there.
        moved: asked where a model is that is not where it was; gives a spec, or "" to give up.
    """

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self.path: Path | None = None
        self.changed: Callable[[], None] | None = None
        self.layout: Callable[[], Layout] = dict
        self.restored: Callable[[], None] = lambda: None
        self.lay_out: Callable[[Layout], None] = lambda _: None
        self.moved: Callable[[SavedSession, Path], str] = lambda session, path: ""

    def reset(self, change: Change) -> None:
        if change & _KEPT and self.changed is not None:
            self.changed()

    # ---- saving

    def snapshot(self) -> SavedSession | None:
        """All of the session as it is now, or None before anything was run."""
        context = self.context
        model, tree = context.model, context.branches.tree
        if model is None or not len(tree) or not tree.active_branch.steps:
            return None
        cursor, trace = context.cursor, context.trace
        where = None
        if cursor is not None and trace is not None:
            where = cursor.step, trace.operations[cursor.operation].name
        return SavedSession(
            model=ModelReference(
                spec=lasting_spec(context.spec, model.path),
                name=model.name,
                family=model.family,
                parameters=model.parameters,
                vocabulary=model.shape.vocabulary,
            ),
            prompt=context.prompt,
            context=context.capacity,
            sampling=context.sampling,
            faults=context.faults,
            branches=saved_branches(tree),
            active=tree.active,
            cursor=where,
            selection={name: getattr(context.selection, name) for name in _SELECTED},
            groups={"stops": context.stops.save(), "watches": context.watches.save()},
            layout=self.layout(),
            saved_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        )

    def save(self, path: Path | None = None) -> Path | None:
        """Write the session to a file, the one it has by default; returns where, or None.

        A notice says how it went.
        """
        target = self.path if path is None else path
        session = self.snapshot()
        if session is None or target is None:
            self.context.notice.emit("Nothing has been run yet, so there is nothing to save.")
            return None
        if not target.name.endswith(SUFFIX):
            target = target.with_name(target.name + SUFFIX)
        try:
            write(session, target)
        except SessionFileError as refusal:
            self.context.notice.emit(sentence(refusal))
            return None
        self.path = target
        self.context.notice.emit(f"The session was saved to {target}.")
        return target

    # ---- opening

    def open(self, path: Path) -> bool:
        """Open a session file; a notice says why not. The one in hand stays until it is ready."""
        try:
            session = read(path)
        except SessionFileError as refusal:
            self.context.notice.emit(sentence(refusal))
            return False
        return self.restore(session, path)

    def restore(self, session: SavedSession, path: Path | None) -> bool:
        """Take over a session that was read; ``path`` is where it will be saved again."""
        spec = session.model.spec
        if not _there(spec):
            spec = self.moved(session, Path(spec))
            if not spec:
                self.context.notice.emit(
                    f"The model of this session is not where it was: {session.model.spec}."
                )
                return False
            session = replace(session, model=replace(session.model, spec=spec))
        context, room = self.context, self.context.room
        if context.playing:
            context.toggle_play()  # it would go on from where the session was left
        before = context.sampling, context.prompt

        def arrival() -> Cursor | None:
            if context.trace is None or context.spec != spec:
                context.sampling, context.prompt = before
                return None
            self._settle(session, path)
            return self._cursor(session)

        context.sampling, context.prompt = session.sampling, session.prompt
        context.run_on_session(
            f"Opening {spec}",
            lambda: room.restore(spec, session, matches=lambda loaded: _match(session, loaded)),
            arrival,
        )
        return True

    def _settle(self, session: SavedSession, path: Path | None) -> None:
        """What does not come from the worker."""
        context = self.context
        context.tell_what_was_heard()  # a new model makes groups drop what they are given here
        self.path = path
        context.prompt_ids = (
            session.branches[0].steps[0].token_ids if session.branches[0].steps else ()
        )
        said = [
            *context.stops.load(session.groups.get("stops", {})),
            *context.watches.load(session.groups.get("watches", [])),
        ]
        selected = {
            name: value
            for name, value in session.selection.items()
            if name in _SELECTED and (value is None or _is_whole(value))
        }
        shape = None if context.model is None else context.model.shape
        if shape is not None and (
            (selected.get("layer") or 0) < shape.depth
            and (selected.get("head") or 0) < shape.num_heads
        ):
            context.select(**selected)
        self.lay_out(dict(session.layout))
        self.restored()
        if said:
            context.remarked.emit(" ".join(said))

    def _cursor(self, session: SavedSession) -> Cursor | None:
        trace = self.context.trace
        if trace is None:
            return None
        names = [operation.name for operation in trace.operations]
        if session.cursor is not None and session.cursor[1] in names:
            cursor = Cursor(session.cursor[0], names.index(session.cursor[1]))
            if 0 <= cursor.step < len(trace.steps) and cursor.operation < trace.events_in(
                cursor.step
            ):
                return cursor
        return last(trace)


def lasting_spec(spec: str, path: str) -> str:
    """What opens the model in any folder: its name, or where it lies from the root on."""
    names = {named.name for named in named_models()}
    return spec if spec in names or spec.startswith(PREFIX) else str(Path(path).absolute())


def _there(spec: str) -> bool:
    if spec.startswith(PREFIX) or spec in {named.name for named in named_models()}:
        return True
    try:
        return Path(spec).exists()
    except OSError:
        return False


def _match(session: SavedSession, loaded: LoadedModel) -> None:
    """Refuse a model that is another one than that of the session."""
    engine, wanted = loaded.engine, session.model
    found = engine.parameters, engine.shape.vocabulary
    if found != (wanted.parameters, wanted.vocabulary):
        raise _OtherModel(
            f"this is another model than the session's: it has {found[0]:,} parameters and "
            f"{found[1]:,} tokens, not {wanted.parameters:,} and {wanted.vocabulary:,}"
        )


class _OtherModel(DecoderError, ValueError):
    """A model that does not fit a session."""


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def describe(session: SavedSession) -> str:
    """A session in a few words, for an offer to open it again."""
    branches = len(session.branches)
    more = f", {branches} branches" if branches > 1 else ""
    when = session.saved_at[11:16]
    at = f", {when}" if when else ""
    return f"{session.model.name}, {session.tokens} tokens{more}{at}"
