"""Model files on disk to a model that runs: a file per format and per family.

:func:`open_checkpoint` is all that the rest of the program needs. A new family or format is one new
file in this folder: every module here is imported when a checkpoint is first opened, and registers
what it can read.
"""

from __future__ import annotations

from model.checkpoints.loading import LoadedModel, Opening, finish, open_checkpoint, opening

__all__ = ["LoadedModel", "Opening", "finish", "open_checkpoint", "opening"]
