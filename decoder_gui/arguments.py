"""The command line: what can be said, and what a saying means."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from decoder_gui.view import View

if TYPE_CHECKING:
    from model.sampling import SamplingConfig

COMMANDS = ("trace", "check", "diff", "bench", "models")
TINY_PROMPT = "The cat"
SESSION = ".session.json"  # how the name of a session file ends
STORY_PROMPT = "Once upon a time there was a little cat named Tom."


class BadArguments(ValueError):
    """The command line is wrong; one sentence."""


def sample_prompt(model_name: str) -> str:
    """A prompt that suits a model, for where nobody has typed one."""
    return TINY_PROMPT if model_name == "tiny" else STORY_PROMPT


@dataclass(frozen=True)
class RunOptions:
    """What every command that runs a model takes."""

    model: str
    prompt: str | None
    prompt_ids: tuple[int, ...] | None
    tokens: int | None
    seed: int | None
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    order: str
    context: int | None
    fault: str | None

    def prompt_for(self, model_name: str) -> str:
        """The prompt as text; where none was given, one that suits the model."""
        if self.prompt is not None:
            return self.prompt
        return sample_prompt(model_name)

    def sampling(self) -> SamplingConfig:
        """The sampler's settings.

        Raises:
            InvalidSampling: out of range.
        """
        from model.sampling import SamplingConfig

        return SamplingConfig(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            seed=self.seed,
            order=self.order,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
        )


@dataclass(frozen=True)
class WindowOptions:
    """What only the window takes."""

    at: tuple[int, str | None] | None
    theme: str | None
    projector: bool
    size: tuple[int, int] | None
    snapshot: Path | None
    view: View | None = None  # None: that of a session, or else the first


@dataclass(frozen=True)
class DiffOptions:
    """What only a comparison takes; the run options are those of its left model."""

    against: str
    tolerance: float | None
    full: bool


@dataclass(frozen=True)
class Arguments:
    """A parsed command line. ``command`` is ``window`` or one of COMMANDS."""

    command: str
    run: RunOptions | None = None
    window: WindowOptions | None = None
    diff: DiffOptions | None = None
    json: str | None = None
    capture: Path | None = None
    shape: str = "stories"
    rounds: int | None = None
    gguf: Path | None = None


class _Version(argparse.Action):
    """Prints the version when it is asked for: to look it up takes longer than all the rest."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(_version())
        parser.exit()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadArguments(message)


def parse(argv: Sequence[str]) -> Arguments:
    """The command line as data.

    Raises:
        BadArguments: in one sentence; ``--help`` and ``--version`` print and raise SystemExit(0).
    """
    command = argv[0] if argv and argv[0] in COMMANDS else "window"
    parser = _PARSERS[command]()
    found = parser.parse_args(argv if command == "window" else argv[1:])
    if command == "models":
        return Arguments(command)
    if command == "bench":
        return Arguments(
            command, json=found.json, shape=found.shape, rounds=found.rounds, gguf=found.gguf
        )
    if found.prompt is not None and found.prompt_ids is not None:
        raise BadArguments("--prompt and --prompt-ids say the same thing twice; give one of them")
    for spec in (found.model, getattr(found, "against", "")):
        if spec.endswith(SESSION) and not spec.startswith("hf:"):
            _require_session_alone(command, spec, parser, found)
    run = RunOptions(
        model=found.model,
        prompt=found.prompt,
        prompt_ids=found.prompt_ids,
        tokens=found.tokens,
        seed=found.seed,
        temperature=found.temperature,
        top_k=found.top_k,
        top_p=found.top_p,
        min_p=found.min_p,
        repetition_penalty=found.repetition_penalty,
        order=found.order,
        context=found.context,
        fault=getattr(found, "fault", None),
    )
    if command == "diff":
        diff = DiffOptions(found.against, found.tolerance, found.full)
        return Arguments(command, run, diff=diff, json=found.json)
    if command != "window":
        capture = getattr(found, "capture", None)
        return Arguments(command, run, json=found.json, capture=capture)
    window = WindowOptions(
        found.at,
        found.theme,
        found.projector,
        found.size,
        found.snapshot,
        None if found.view is None else View[found.view.upper()],
    )
    return Arguments(command, run, window)


def _require_session_alone(
    command: str, path: str, parser: argparse.ArgumentParser, found: argparse.Namespace
) -> None:
    """A session says itself what is run and how, and only the window opens one."""
    if command != "window":
        raise BadArguments(f"{path} is a session: the window opens it, as in decoder-gui {path}")
    given = [name for name in _OF_RUNS if getattr(found, name) != parser.get_default(name)]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise BadArguments(f"{path} is a session and says this itself: leave out {options}")


_OF_RUNS = (
    *("prompt", "prompt_ids", "tokens", "seed", "temperature", "top_k", "top_p", "min_p"),
    *("repetition_penalty", "order", "context", "fault"),
)


def _window_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="decoder-gui",
        description="A visual debugger for decoder-only language models.",
        epilog="Commands without a window: decoder-gui trace | check | diff | bench | models, "
        "each with --help.",
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    _add_run_options(parser, optional_model=True)
    parser.add_argument("--fault", metavar="NAME", help="open with a deliberate fault switched on")
    parser.add_argument(
        "--at",
        type=_at,
        metavar="STEP[:OPERATION]",
        help="stand on a step (0 is the prefill) and an operation, e.g. 6:blocks.2.attn.pattern",
    )
    parser.add_argument(
        "--view",
        choices=tuple(view.value.lower() for view in View),
        type=str.lower,
        help="the workspace to begin with",
    )
    parser.add_argument("--theme", choices=("dark", "light", "contrast"))
    parser.add_argument("--projector", action="store_true", help="light, and 1.5 times larger")
    parser.add_argument("--size", type=_size, metavar="WxH", help="size of the window in pixels")
    parser.add_argument(
        "--snapshot",
        type=_picture,
        metavar="FILE.png",
        help="render the window to a file and exit; needs no display",
    )
    return parser


def _trace_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="decoder-gui trace", description="The same run without a window, as text or JSON."
    )
    _add_run_options(parser)
    _add_json(parser)
    parser.add_argument(
        "--capture",
        type=_capture,
        metavar="FILE.safetensors",
        help="write the whole run to a file that opens without the model",
    )
    return parser


def _check_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="decoder-gui check",
        description="All checks on a model; exit status 0 only if all of them hold.",
    )
    _add_run_options(parser)
    parser.add_argument(
        "--fault", metavar="NAME", help="switch one deliberate fault on; some check must then fail"
    )
    _add_json(parser)
    return parser


def _diff_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="decoder-gui diff",
        description="Two models of one shape, or recorded runs, over the same tokens; exit status "
        "1 names the operation that the first difference comes from.",
    )
    _add_run_options(parser, model="A")
    parser.add_argument("against", metavar="B", help="the same; may be A once more")
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        metavar="X",
        help="largest relative difference accepted; 1e-4 for float32 if not given",
    )
    parser.add_argument(
        "--full", action="store_true", help="run B in one pass over all tokens, without a cache"
    )
    parser.add_argument("--fault", metavar="NAME", help="switch a deliberate fault on in B")
    _add_json(parser)
    return parser


def _bench_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="decoder-gui bench",
        description="The project's own performance figures, medians of interleaved rounds.",
    )
    parser.add_argument(
        "--shape",
        choices=("stories", "gpt2-small", "smollm2"),
        default="stories",
        help="the bundled model, or random weights of the GPT-2 small or SmolLM2-135M shape",
    )
    parser.add_argument("--rounds", type=_count, help="interleaved rounds of each figure")
    parser.add_argument(
        "--gguf", type=Path, metavar="FILE", help="also measure how this file is opened"
    )
    _add_json(parser)
    return parser


def _models_parser() -> argparse.ArgumentParser:
    return _Parser(
        prog="decoder-gui models", description="What can be opened by name, and where it lies."
    )


_PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "window": _window_parser,
    "trace": _trace_parser,
    "check": _check_parser,
    "diff": _diff_parser,
    "bench": _bench_parser,
    "models": _models_parser,
}


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", metavar="FILE", help="write JSON to a file, or to standard output for -"
    )


def _add_run_options(
    parser: argparse.ArgumentParser, *, optional_model: bool = False, model: str = "MODEL"
) -> None:
    parser.add_argument(
        "model",
        metavar=model,
        nargs="?" if optional_model else None,
        default="stories",
        help="tiny, stories, a path to a model or a capture, or hf:owner/name[@revision] from a "
        "model hub" + ("; or a session file" if optional_model else ""),
    )
    parser.add_argument("--prompt", metavar="TEXT")
    parser.add_argument(
        "--prompt-ids", type=_ids, metavar="ID,ID,...", help="token ids; bypasses the tokenizer"
    )
    parser.add_argument("--tokens", type=_count, metavar="N", help="how many tokens to choose")
    parser.add_argument("--seed", type=_count, metavar="S")
    parser.add_argument("--temperature", type=_number, default=1.0, metavar="T")
    parser.add_argument("--top-k", type=_integer, default=0, metavar="K", help="0 is off")
    parser.add_argument("--top-p", type=_number, default=1.0, metavar="P", help="1 is off")
    parser.add_argument("--min-p", type=_number, default=0.0, metavar="P", help="0 is off")
    parser.add_argument(
        "--repetition-penalty", type=_number, default=1.0, metavar="R", help="1 is off"
    )
    parser.add_argument(
        "--order",
        default="reference",
        metavar="NAME",
        help="reference, hugging-face, llama.cpp, or the five stages in the order wanted, as in "
        "top_k,top_p,min_p,repetition_penalty,temperature",
    )
    parser.add_argument("--context", type=_integer, metavar="N", help="positions of the cache")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"decoder-gui {version('decoder-gui')}"
    except PackageNotFoundError:
        return "decoder-gui (not installed)"


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _count(text: str) -> int:
    value = _integer(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _tolerance(text: str) -> float:
    value = _number(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a finite number of at least 0")
    return value


def _ids(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of token ids such as 464,3797"
        ) from None


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (width.isdigit() and height.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 1440x900")
    if not (720 <= int(width) <= 16384 and 450 <= int(height) <= 16384):
        raise argparse.ArgumentTypeError(f"{text} is not between 720x450 and 16384x16384")
    return int(width), int(height)


def _picture(text: str) -> Path:
    if not text.lower().endswith(".png"):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .png")
    return Path(text)


def _capture(text: str) -> Path:
    if not text.lower().endswith(".safetensors"):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .safetensors")
    return Path(text)


def _at(text: str) -> tuple[int, str | None]:
    step, _, operation = text.partition(":")
    if not step.isdigit():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not STEP or STEP:OPERATION, such as 6 or 6:blocks.2.attn.pattern"
        )
    return int(step), operation or None
