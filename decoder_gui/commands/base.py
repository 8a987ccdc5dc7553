"""What a group of commands is: a part of the window's state with an owner of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from decoder_gui.change import Change
from decoder_gui.worker import Ended

if TYPE_CHECKING:
    from decoder_gui.context import AppContext


def _nothing(_: object) -> None:
    """For a job whose end nobody waits for."""


@dataclass(frozen=True)
class Listener:
    """Who hears what a job in the worker yields; called in the GUI thread, in order."""

    tag: str
    heard: Callable[[object], None]
    ended: Callable[[Ended], None] = _nothing


@dataclass(frozen=True)
class Told:
    """Something in a job on the session that a group of commands wants to hear of itself."""

    heard: Callable[[object], None]
    what: object


class Commands:
    """Commands about one subject, and the state that they change.

    No command blocks: what takes time is a job for the worker. What is different is told through
    :meth:`tell`, once for everything that happened together. To add a group, write a subclass and
    give the context one.

    Args:
        context: whose commands these are.
    """

    def __init__(self, context: AppContext) -> None:
        self.context = context

    def tell(self, change: Change) -> None:
        """Say what is different; every visible panel that wants it is redrawn."""
        self.context.tell(change)

    def submit(
        self,
        text: str,
        job: Callable[[], Iterator[object]],
        *,
        heard: Callable[[object], None],
        ended: Callable[[Ended], None] = _nothing,
        tag: str | None = None,
    ) -> None:
        """Run a job in the worker; a newer one of the same tag replaces it.

        A job must leave the session as it is: a step of the session interrupts it, and then
        ``ended`` hears that it was cancelled. Refusals and crashes are shown by the context.

        Args:
            text: what it does, for the progress line.
            job: called in the worker; it is left between two of the items that it yields.
            heard: gets each item, in the GUI thread.
            ended: gets the end, whatever it was.
            tag: the name of the group, if not given.
        """
        tag = type(self).__name__ if tag is None else tag
        self.context.submit(tag, text, job, Listener(tag, heard, ended))

    def cancel(self, tag: str | None = None) -> None:
        """Stop a job of this group between two of its items."""
        self.context.cancel_jobs(type(self).__name__ if tag is None else tag)

    def reset(self, change: Change) -> None:
        """Drop what no longer applies; called before any panel hears of a change."""
