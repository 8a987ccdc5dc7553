"""A run without a window, as one JSON object or as text: what ``decoder-gui trace`` prints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from decoder_gui.debugger.choosing import Pick, generate, pick
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.saving.captured_session import CapturedSession
from decoder_gui.debugger.session import Session
from model.captured_engine import CapturedEngine
from model.checkpoints.captures import sampling_of
from model.checks import CheckResult, Subject, run_checks
from model.checks.captured import Recorded, check_capture
from model.errors import CacheExhausted, NonFiniteLogits
from model.sampling import Distribution, SamplingConfig, token_score, top_candidates
from model.trace import Phase

CANDIDATES = 20


@dataclass(frozen=True)
class Outcome:
    """A run that has been made: its state, and why it stopped early, if it did."""

    session: Session
    run: Run
    sampling: SamplingConfig
    chosen: int  # tokens asked for
    exhausted: str = ""


def execute(
    session: Session, prompt_ids: Sequence[int], sampling: SamplingConfig, tokens: int
) -> Outcome:
    """Run a prompt to the end in this thread; a full cache ends it early and keeps the rest."""
    run = Run(session.engine, session.faults)
    exhausted = ""
    try:
        for update in generate(session, prompt_ids, sampling, tokens):
            run.apply(update)
    except CacheExhausted as full:
        exhausted = str(full)
    return Outcome(session, run, sampling, tokens, exhausted)


def play(session: CapturedSession, sampling: SamplingConfig) -> Outcome:
    """The steps of a capture; nothing is run, and its own settings of the sampler go before."""
    run = Run(session.engine)
    for update in session.play():
        run.apply(update)
    for index, step in enumerate(session.capture.steps):
        if step.by_hand:
            run.mark_by_hand(index)
    return Outcome(session, run, sampling_of(session.capture) or sampling, len(run.trace.steps))


def checks_of(outcome: Outcome, names: Iterable[str] | None = None) -> Iterator[CheckResult]:
    """The checks after a run; of a capture, those that can be made without weights."""
    engine, run = outcome.session.engine, outcome.run
    if isinstance(engine, CapturedEngine):
        recorded = Recorded(engine, run.trace, sampling_of(engine.capture))
        return check_capture(recorded, names)
    return run_checks(subject_of(outcome), names)


def subject_of(outcome: Outcome) -> Subject:
    """What the checks look at after a run: its own tokens."""
    session, trace = outcome.session, outcome.run.trace
    split = len(trace.steps[0].token_ids)
    return Subject.under(
        session.loaded.engine,
        trace.token_ids[:split],
        session.faults,
        continuation=trace.token_ids[split:],
        context=session.cache.capacity,
        sampling=outcome.sampling,
    )


def as_object(outcome: Outcome) -> dict[str, Any]:
    """The run as the JSON object of the command line; non-finite numbers become null."""
    session, trace = outcome.session, outcome.run.trace
    cache, stats = session.cache, session.stats
    return {
        "model": session.loaded.name,
        "prompt_ids": list(trace.steps[0].token_ids),
        "context": cache.capacity,
        "steps": [_step_object(outcome, index) for index in range(len(trace.steps))],
        "cache": {
            "positions": cache.length,
            "capacity": cache.capacity,
            "bytes_used": cache.bytes_used,
            "bytes_reserved": cache.bytes_reserved,
        },
        "stats": {
            "prefill_tokens": stats.prefill_tokens,
            "decode_tokens": stats.decode_tokens,
            "weight_reads": stats.weight_reads,
            "tokens_per_weight_read": stats.tokens_per_weight_read,
        },
        "checks": check_objects(checks_of(outcome)),
    }


def check_objects(results: Iterable[CheckResult]) -> list[dict[str, Any]]:
    """Verdicts as JSON objects."""
    return [
        {
            "name": result.name,
            "holds": result.holds,
            "worst": _finite(result.worst),
            "tolerance": result.tolerance,
            "detail": result.detail,
        }
        for result in results
    ]


def check_lines(results: Iterable[CheckResult]) -> list[str]:
    """Verdicts as text, one line each."""
    return [f"{_word(result):<5}  {result.name:<18} {result.detail}" for result in results]


def _word(result: CheckResult) -> str:
    if not result.examined:
        return "–"
    return "holds" if result.holds else "FAILS"


def as_text(outcome: Outcome) -> str:
    """The run as text for a terminal."""
    session, trace = outcome.session, outcome.run.trace
    piece = session.loaded.tokenizer.piece
    lines = [f"{session.loaded.name}, context {session.cache.capacity}"]
    for index, step in enumerate(trace.steps):
        shown = _step_object(outcome, index)
        tokens = " ".join(piece(token).text for token in step.token_ids)
        lines.append("")
        lines.append(f"{step.phase} · positions {step.first} to {step.last - 1} · {tokens}")
        best = "   ".join(
            f"{c['text']} {c['final'] * 100:.1f}%" for c in shown["candidates"][:5] if c["final"]
        )
        if not shown["logits"]:
            lines.append("  no logits were recorded")
        elif shown["entropy"] is None:
            lines.append("  no distribution: there are logits that are NaN or infinite")
        else:
            lines.append(f"  {shown['kept']} kept · entropy {shown['entropy']:.3f} nats · {best}")
        if shown["selected_id"] is not None:
            how = "greedy" if outcome.sampling.deterministic else "draw not known"
            how = how if shown["draw"] is None else f"draw {shown['draw']:.6f}"
            lines.append(
                f"  takes {piece(shown['selected_id']).text} "
                f"({how}, log-probability {shown['log_probability']:.6f} nats)"
            )
    cache = session.cache
    lines.append("")
    lines.append(f"text  {_whole_text(outcome)!r}")
    lines.append(
        f"cache {cache.length} of {cache.capacity} positions, {cache.bytes_used} of "
        f"{cache.bytes_reserved} bytes"
    )
    lines.extend(check_lines(checks_of(outcome)))
    return "\n".join(lines)


def _whole_text(outcome: Outcome) -> str:
    trace = outcome.run.trace
    last = len(trace.steps) - 1
    ids = list(trace.token_ids)
    if isinstance(outcome.session, CapturedSession):
        return outcome.session.loaded.tokenizer.decode(ids)
    picked = outcome.run.landing(last, outcome.sampling) if outcome.chosen else None
    return outcome.session.loaded.tokenizer.decode([*ids, *([picked.token_id] if picked else [])])


def _step_object(outcome: Outcome, index: int) -> dict[str, Any]:
    run, config = outcome.run, outcome.sampling
    trace = run.trace
    step = trace.steps[index]
    logits = trace.logits(index)
    shown: Distribution | None = None
    try:
        shown = run.distribution(index, config)
    except NonFiniteLogits:
        # A token was asked for, and there is nothing to choose it from.
        if outcome.chosen and not isinstance(outcome.session, CapturedSession):
            raise
    piece = outcome.session.loaded.tokenizer.piece
    chosen = _choice(outcome, index, shown)
    return {
        "phase": step.phase.value,
        "positions": [step.first, step.last],
        "token_ids": list(step.token_ids),
        "logits": [] if logits is None else [_finite(value) for value in logits.tolist()],
        "entropy": None if shown is None else shown.entropy,
        "kept": 0 if shown is None else shown.kept_count,
        "candidates": [
            {
                "id": candidate.token_id,
                "text": piece(candidate.token_id).text,
                "raw": candidate.raw,
                "tempered": candidate.tempered,
                "final": candidate.final,
                "cut_by": candidate.cut_by,
            }
            for candidate in (() if shown is None else top_candidates(shown, CANDIDATES))
        ],
        "draw": None if chosen is None else chosen.uniform,
        "selected_id": None if chosen is None else chosen.token_id,
        "log_probability": None if chosen is None else chosen.log_probability,
    }


def _choice(outcome: Outcome, index: int, shown: Distribution | None) -> Pick | None:
    """The token chosen after a step: of a capture, the one that was really taken."""
    session, steps = outcome.session, outcome.run.trace.steps
    if shown is None or not outcome.chosen:
        return None
    if not isinstance(session, CapturedSession):
        return pick(shown, outcome.sampling, steps[index].uniform)
    captured = session.capture.steps[index]
    if index + 1 == len(steps):
        if captured.draw is None and not outcome.sampling.deterministic:
            return None
        return pick(shown, outcome.sampling, steps[index].uniform)
    following = steps[index + 1]
    if following.phase is Phase.PREFILL:
        return None  # the rest of a prompt: nothing was chosen
    score = token_score(shown, following.token_ids[0])
    return Pick(score.token, score.log_probability, captured.draw)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
