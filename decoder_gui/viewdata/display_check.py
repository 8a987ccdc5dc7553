"""The check ``display``: what a panel shows is what the trace holds.

Importing this module registers it. The subject's tokens are run and recorded as in a window; at a
spread of events every panel's contents are built as the panel builds them, the numbers in them are
read back from the text, and each is compared with one worked out from the recorded arrays by other
code. That is so for a faulty engine too: wrong numbers are to be shown as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.saving.captured_session import session_for
from decoder_gui.debugger.session import Session
from decoder_gui.viewdata import display_matrices
from decoder_gui.viewdata.display_panels import READERS
from decoder_gui.viewdata.display_reading import Ledger, spread
from decoder_gui.viewdata.display_scene import Record, Scene
from decoder_gui.viewdata.moment import ModelInfo, Selection, build_moment
from model.checkpoints import LoadedModel
from model.checks import CheckResult, Subject, Where, check
from model.checks.captured import Recorded, not_examined, recorded_check
from model.checks.core import plural
from model.operations import Kind
from model.sampling import SamplingConfig
from model.tokenizers import IdTokenizer
from model.trace import Trace

__all__ = ["NAME", "TOLERANCE", "display", "display_matrices"]

NAME = "display"
TOLERANCE = 0.5  # of one unit of the last digit shown
BUDGET = 128 * 2**20  # bytes of recorded arrays
LAST_STEP, ENDS = 64, 8  # most events looked at: of the last step, of the ends of others
PREFILL = (Kind.CACHE, Kind.SCORES, Kind.PATTERN, Kind.LOGITS)  # where many positions matter


@check(NAME, "every number that a panel shows is the one that the trace holds")
def display(subject: Subject) -> CheckResult:
    """Read every panel at a spread of events."""
    return _verdict(_record(subject), subject.remark)


@recorded_check(NAME)
def display_of_a_capture(recorded: Recorded) -> CheckResult:
    """The same of a recorded run, if all of it was recorded."""
    lacking = recorded.engine.lacks
    if lacking:
        return not_examined(NAME, f"it reads whole runs, and this capture lacks {lacking}")
    tokenizer = IdTokenizer(recorded.engine.shape.vocabulary, "the check needs none")
    loaded = LoadedModel(
        name="model", family="", engine=recorded.engine, tokenizer=tokenizer, path=Path()
    )
    session = session_for(loaded)
    run = Run(recorded.engine)
    for update in session.run_planned():
        run.apply(update)
    sampling = recorded.sampling or SamplingConfig()
    record = Record(run, ModelInfo.of(loaded), sampling, session.cache.capacity, Ledger())
    return _verdict(record, "")


def _verdict(record: Record, remark: str) -> CheckResult:
    ledger = record.ledger
    with np.errstate(all="ignore"):  # numbers that are not finite are shown as what they are
        for index, cursor in enumerate(cursors(record.trace)):
            _read(record, cursor, index)
    where = None
    finding = ledger.finding
    if finding is None:
        detail = (
            f"{counted(ledger.numbers, 'number')} on {plural(len(ledger.panels), 'panel')} at "
            f"{plural(len(ledger.events), 'event')} are those of the trace; largest rounding "
            f"{ledger.worst:.2f} of the last digit shown{remark}"
        )
    else:
        where = Where(step=finding.step, operation=finding.operation)
        detail = (
            f"the panel {finding.panel} shows “{finding.shown}” for {finding.what} at step "
            f"{finding.step}, {finding.operation}, where the trace holds {finding.held}; "
            f"{ledger.failed:,} of {counted(ledger.numbers, 'number')} differ"
        )
    return CheckResult(NAME, finding is None, ledger.worst, TOLERANCE, detail, where)


def cursors(trace: Trace) -> list[Cursor]:
    """Events that are looked at, in order of time and then back from the end.

    All of the last step, or a spread of it; the end of each step, or of some; a few of the prefill.
    """
    steps, count = len(trace.steps), len(trace.operations)
    chosen = {Cursor(0, 0), *_in_the_prefill(trace)}
    chosen |= {Cursor(step, count - 1) for step in spread(steps, ENDS)}
    chosen |= {Cursor(steps - 1, operation) for operation in spread(count, LAST_STEP)}
    forth = sorted(chosen)
    # What was shown later must not be left over when the cursor goes back.
    return [*forth, *reversed(forth[: len(PREFILL)])]


def _in_the_prefill(trace: Trace) -> Iterator[Cursor]:
    """One event of each kind, in blocks that differ."""
    for block, kind in enumerate(PREFILL):
        found = [index for index, each in enumerate(trace.operations) if each.kind is kind]
        if found:  # a capture may lack some
            yield Cursor(0, found[block % len(found)])


def counted(count: int, noun: str) -> str:
    """``1,204 numbers``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _record(subject: Subject) -> Record:
    """The subject's run, recorded as a window records it."""
    tokenizer = IdTokenizer(subject.engine.shape.vocabulary, "the check needs none")
    loaded = LoadedModel(
        name="model", family="", engine=subject.engine, tokenizer=tokenizer, path=Path()
    )
    sound = LoadedModel(
        name="model", family="", engine=subject.sound_engine, tokenizer=tokenizer, path=Path()
    )
    session = Session(loaded, capacity=subject.positions, budget=BUDGET)
    run = Run(subject.engine, frozenset(subject.faults))
    ids, split = subject.token_ids, subject.prefilled
    for update in session.prefill(ids[:split]):
        run.apply(update)
    for token in ids[split:]:
        for update in session.decode(token, drawn=not subject.sampling.deterministic):
            run.apply(update)
    info = ModelInfo.of(sound)
    return Record(run, info, subject.sampling, session.cache.capacity, Ledger())


def _read(record: Record, cursor: Cursor, index: int) -> None:
    """All panels at one event; what is selected differs from one event to the next."""
    shape, step = record.trace.shape, record.trace.steps[cursor.step]
    query = None if index % 2 else (step.first + step.last - 1) // 2
    selection = Selection(head=index % shape.num_heads, query=query)
    moment = build_moment(
        record.model, record.run, cursor, selection, record.sampling, record.capacity
    )
    scene = Scene(record, moment, cursor, index)
    for reader in READERS:
        if reader.wanted(scene):
            record.ledger.turn_to(reader.panel, cursor.step, scene.operation.name)
            reader.read(scene)
