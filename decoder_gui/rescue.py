"""After an unforeseen exception: what is on screen is written down, with how to get it back."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path

from PySide6.QtCore import QStandardPaths

from decoder_gui.context import AppContext
from decoder_gui.debugger.hub import PREFIX
from decoder_gui.debugger.library import named_models
from decoder_gui.debugger.sampling_code import sampling_options

FILE_NAME = "rescued-session.json"


def rescue(context: AppContext) -> Path | None:
    """Write the session down; returns where, or None if there was nothing or no place for it."""
    if context.model is None or context.trace is None or not context.trace.steps:
        return None
    folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.AppDataLocation)
    if not folder:
        return None
    names = {named.name for named in named_models()}
    by_name = context.spec in names or context.spec.startswith(PREFIX)
    model = context.spec if by_name else context.model.path
    prompt_ids = list(context.trace.steps[0].token_ids)
    record = {
        "reopen": command(model, list(context.trace.token_ids), context),
        "model": model,
        "prompt_ids": prompt_ids,
        "continuation_ids": list(context.trace.token_ids[len(prompt_ids) :]),
        "text": context.model.tokenizer.decode(list(context.trace.token_ids)),
        "context": context.capacity,
        "sampling": asdict(context.sampling),
        "faults": sorted(context.faults),
    }
    path = Path(folder) / FILE_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError:
        return None
    return path


def command(model: str, token_ids: list[int], context: AppContext) -> str:
    """The command line that opens the same tokens again."""
    sampling = context.sampling
    words = ["decoder-gui", model, "--prompt-ids", ",".join(map(str, token_ids))]
    words += ["--context", str(context.capacity), *sampling_options(sampling)]
    return shlex.join(words)
