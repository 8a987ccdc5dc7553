"""The entry point: arguments to a window or to a run without one.

Nothing heavy is imported before it is known to be needed: Qt only for a window, NumPy only for a
run. Exit status: 0 done, 1 a check fell short or two runs differ, 2 the input was wrong.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decoder_gui.arguments import Arguments, BadArguments, RunOptions, parse

if TYPE_CHECKING:
    from decoder_gui.debugger.library import Prepared
    from model.checkpoints import LoadedModel
    from model.sampling import SamplingConfig

DONE, FELL_SHORT, WRONG_INPUT = 0, 1, 2

CHECK_TOKENS = 8  # decoded by `check` where nothing else is said, as far as the context goes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status and never lets a traceback out."""
    try:
        arguments = parse(sys.argv[1:] if argv is None else list(argv))
        status = _COMMANDS[arguments.command](arguments)
        _flush_output()
        return status
    except BadArguments as problem:
        return _refuse(str(problem))
    except BrokenPipeError:
        _discard_output()  # its reader went away, which is its right
        return DONE
    except KeyboardInterrupt:
        return 130
    except ImportError as problem:
        from decoder_gui.display import why_not_imported

        sentence = why_not_imported(problem)
        if sentence is None:
            raise
        return _refuse(sentence)
    except Exception as problem:
        from model.errors import DecoderError

        if not isinstance(problem, DecoderError | OSError):
            raise
        words = str(problem)
        if isinstance(problem, OSError) and problem.filename and problem.strerror:
            words = f"{problem.filename}: {problem.strerror}"
        return _refuse(words)


def _flush_output() -> None:
    """Find out now, and not when the interpreter ends, that output cannot be written."""
    if sys.stdout is not None:  # it is where the caller closed it
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
            raise


def _discard_output() -> None:
    """Point standard output somewhere harmless, for what is still buffered for it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(sentence: str) -> int:
    print(f"decoder-gui: {' '.join(sentence.split())}", file=sys.stderr)
    return WRONG_INPUT


def _window(arguments: Arguments) -> int:
    # First of all, for it fails where Qt lacks libraries.
    from decoder_gui.app import run_window
    from decoder_gui.display import choose_display

    if arguments.run is None or arguments.window is None:
        raise BadArguments("nothing to show")
    snapshot = arguments.window.snapshot
    if snapshot is None:
        reason = choose_display()
        if reason is not None:
            snapshot = Path("decoder-gui.png")
            print(f"decoder-gui: {reason}; the first screen goes to {snapshot.resolve()}")
    if snapshot is not None:
        if not snapshot.resolve().parent.is_dir():
            return _refuse(f"the folder of {snapshot} does not exist")
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    status = run_window(arguments.run, arguments.window, snapshot)
    if arguments.window.snapshot is not None:
        print(arguments.window.snapshot.resolve())
    return status


def _trace(arguments: Arguments) -> int:
    from decoder_gui.debugger.report import as_object, as_text, execute, play
    from decoder_gui.debugger.saving.captured_session import CapturedSession, session_for
    from decoder_gui.viewdata import display_check  # noqa: F401  it registers a check

    options = _run_options(arguments)
    if arguments.capture is not None and not arguments.capture.absolute().parent.is_dir():
        return _refuse(f"the folder of {arguments.capture} does not exist")
    ready, prompt_ids, sampling = _open(options)
    session = session_for(ready.loaded, capacity=ready.capacity, seed=options.seed)
    if isinstance(session, CapturedSession):
        outcome = play(session, sampling)
    else:
        tokens = 1 if options.tokens is None else options.tokens
        outcome = execute(session, prompt_ids, sampling, tokens)
    if arguments.capture is not None:
        from decoder_gui.debugger.saving.capture_writing import write_run

        for _ in write_run(arguments.capture, session, outcome.run, outcome.sampling):
            pass
    if arguments.json is None:
        print(as_text(outcome))
    else:
        _write_json(arguments.json, as_object(outcome))
    if outcome.exhausted:
        return _refuse(outcome.exhausted)
    _remark(ready)
    return DONE


def _check(arguments: Arguments) -> int:
    from decoder_gui.debugger.report import check_lines, check_objects, checks_of, play
    from decoder_gui.debugger.saving.captured_session import CapturedSession, session_for
    from decoder_gui.viewdata import display_check  # noqa: F401  it registers a check
    from model.checks import Subject, run_checks

    options = _run_options(arguments)
    ready, prompt_ids, sampling = _open(options)
    faults = () if options.fault is None else (options.fault,)
    session = session_for(ready.loaded, faults=frozenset(faults)) if ready.recorded else None
    if isinstance(session, CapturedSession):
        results = list(checks_of(play(session, sampling)))
    else:
        subject = Subject.under(
            ready.loaded.engine,
            prompt_ids,
            faults,
            continuation=CHECK_TOKENS if options.tokens is None else options.tokens,
            context=ready.capacity,
            sampling=sampling,
        )
        results = list(run_checks(subject))
    _remark(ready)
    status = DONE if all(result.holds for result in results) else FELL_SHORT
    try:
        if arguments.json is None:
            print("\n".join(check_lines(results)))
        else:
            _write_json(arguments.json, check_objects(results))
        _flush_output()
    except BrokenPipeError:
        _discard_output()  # what fell short did so, read or not
    return status


def _diff(arguments: Arguments) -> int:
    from decoder_gui.debugger.comparing.comparison import compare
    from decoder_gui.debugger.comparing.diff import Second, pair, side_names, sources
    from decoder_gui.debugger.comparing.diff_report import as_object, as_text
    from model.captured_run import Capture
    from model.tokenizers import encode_prompt

    options, diff = _run_options(arguments), arguments.diff
    if diff is None:
        raise BadArguments("nothing to compare with")
    sampling, second = options.sampling(), Second(options.fault, diff.full)
    specs = options.model, diff.against

    def prompt_ids(loaded: LoadedModel) -> Sequence[int]:
        if options.prompt_ids is not None:
            return options.prompt_ids
        return encode_prompt(loaded.tokenizer, options.prompt_for(loaded.name))

    ours, theirs = sources(specs, lambda spec: _prepare(replace(options, model=spec)).loaded)
    for spec, source in zip(specs, (ours, theirs), strict=True):
        if isinstance(source, Capture):
            _require_its_own_text(options, spec)
    names = side_names((ours, theirs), specs, second)
    tokens = CHECK_TOKENS if options.tokens is None else options.tokens
    sides = pair(ours, theirs, names, prompt_ids, sampling, tokens, second)
    found = compare(*sides, diff.tolerance)
    status = DONE if found.agrees else FELL_SHORT
    try:
        if arguments.json is None:
            print(as_text(found))
        else:
            _write_json(arguments.json, as_object(found))
        _flush_output()
    except BrokenPipeError:
        _discard_output()
    return status


def _bench(arguments: Arguments) -> int:
    from decoder_gui.bench.command import as_lines, measure

    figures = measure(arguments.shape, arguments.rounds, arguments.gguf)
    if arguments.json is None:
        print("\n".join(as_lines(figures)))
    else:
        _write_json(arguments.json, figures)
    return DONE


def _models(arguments: Arguments) -> int:
    from decoder_gui.debugger.library import named_models

    for named in named_models():
        print(f"{named.name:<10}{named.summary}\n{'':<10}{named.where}")
    return DONE


_COMMANDS = {
    "window": _window,
    "trace": _trace,
    "check": _check,
    "diff": _diff,
    "bench": _bench,
    "models": _models,
}


def _run_options(arguments: Arguments) -> RunOptions:
    if arguments.run is None:
        raise BadArguments("a model is needed")
    return arguments.run


def _open(options: RunOptions) -> tuple[Prepared, list[int], SamplingConfig]:
    """The model, the prompt's token ids and the sampler's settings, each refused in words."""
    from model.errors import NoWeights
    from model.tokenizers import encode_prompt

    sampling = options.sampling()
    ready = _prepare(options)
    loaded = ready.loaded
    if ready.recorded:
        if options.prompt is not None or options.prompt_ids is not None:
            raise NoWeights("another prompt cannot be run")
        _require_its_own_text(options, options.model)
        return ready, [], sampling
    if options.prompt_ids is not None:
        return ready, list(options.prompt_ids), sampling
    return ready, encode_prompt(loaded.tokenizer, options.prompt_for(loaded.name)), sampling


def _require_its_own_text(options: RunOptions, spec: str) -> None:
    """Refuse to run a capture, or a model beside one, over other tokens than were recorded."""
    named = {
        "--prompt": options.prompt,
        "--prompt-ids": options.prompt_ids,
        "--tokens": options.tokens,
    }
    given = [name for name, value in named.items() if value is not None]
    if given:
        raise BadArguments(f"{spec} is a capture, with tokens of its own: leave out {given[0]}")


def _prepare(options: RunOptions) -> Prepared:
    """Open the model; on a terminal its progress is one line that is written over and wiped."""
    from decoder_gui.debugger.library import prepare

    steps = prepare(options.model, options.context)
    watched = sys.stderr is not None and sys.stderr.isatty()
    width = shutil.get_terminal_size().columns - 1
    try:
        while True:
            step = next(steps)
            if watched:
                share = "" if step.fraction is None else f"{step.fraction:4.0%} "
                line = f"{share}{step.text}  {step.details}"[:width]
                print(f"\r{line:<{width}}", end="", file=sys.stderr, flush=True)
    except StopIteration as end:
        ready: Prepared = end.value
    finally:
        steps.close()
        if watched:
            print(f"\r{'':<{width}}\r", end="", file=sys.stderr, flush=True)
    return ready


def _remark(ready: Prepared) -> None:
    """Say what is doubtful about a model that was run; a refusal is one line without it."""
    for remark in filter(None, (ready.remark, *ready.loaded.warnings)):
        print(f"decoder-gui: {remark}", file=sys.stderr)


def _write_json(target: str, value: Any) -> None:
    import json

    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
    if target == "-":
        print(text)
    else:
        Path(target).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
