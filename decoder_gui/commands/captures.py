"""Saving the run in hand to a capture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from decoder_gui.commands.base import Commands
from decoder_gui.debugger.saving.capture_writing import Writing, write_run
from decoder_gui.worker import Ended
from model.byte_counts import format_bytes

if TYPE_CHECKING:
    from decoder_gui.context import AppContext

SUFFIX = ".safetensors"


class Captures(Commands):
    """Writes captures in the worker, a block at a time."""

    def __init__(self, context: AppContext) -> None:
        super().__init__(context)
        self.progress: Writing | None = None  # of the capture that is being written

    def save(self, path: Path) -> bool:
        """Write the run to a file; a notice says how it went. Returns whether there is one."""
        context = self.context
        if context.run_state is None or context.trace is None or not context.trace.steps:
            context.notice.emit("Nothing has been run yet, so there is nothing to save.")
            return False
        target = path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX)
        room, run, sampling = context.room, context.run_state.copy(), context.sampling

        def ended(how: Ended) -> None:
            self.progress = None
            if how.cancelled:
                context.notice.emit("Cancelled. No capture was written.")
            elif how.refusal is None and not how.crash:
                size = format_bytes(target.stat().st_size)
                context.notice.emit(f"The run was saved to {target} ({size}).")

        self.submit(
            f"Saving a capture of {len(run.trace.steps)} steps",
            lambda: write_run(target, room.session, run, sampling),
            heard=self._hear,
            ended=ended,
        )
        return True

    def _hear(self, update: object) -> None:
        if isinstance(update, Writing):
            self.progress = update
