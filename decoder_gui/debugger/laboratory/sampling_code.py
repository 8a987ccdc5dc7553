"""Sampling settings as code for other programs, honest about what those cannot say.

Libraries apply their stages in a chain: each on the candidates that the one before has left. What a
chain cannot express, or applies at another place, stands as a comment in the code.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from model.sampling import ORDERS, STAGE_WORDS, SamplingConfig, find_order

GENERATE = ("repetition_penalty", "temperature", "top_k", "top_p", "min_p")
"""The chain of transformers' generate."""

VLLM = ("repetition_penalty", "temperature", "min_p", "top_k", "top_p")
"""The chain of vLLM's sampler."""

LLAMA_CPP = {
    "repetition_penalty": "penalties",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
}
"""What llama.cpp calls the stages in ``--samplers``."""

CUTS = ("top_k", "top_p", "min_p")
DRAWS = "The seed gives other draws there: each program has a generator of its own."


@dataclass(frozen=True)
class Code:
    """Settings as code for one program.

    Attributes:
        name: of the program.
        text: what is copied, the remarks as comments in it.
        remarks: what the program does otherwise, one sentence each; empty where nothing.
    """

    name: str
    text: str
    remarks: tuple[str, ...] = ()


def is_on(config: SamplingConfig, stage: str) -> bool:
    """Whether a stage changes anything under these settings."""
    off = {"repetition_penalty": 1.0, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    return bool(getattr(config, stage) != off[stage])


def chain(config: SamplingConfig) -> tuple[str, ...]:
    """The stages that are on, in an order in which a chain keeps the same tokens.

    The reference measures top-p on the whole distribution, so in a chain it has to come before
    top-k; min-p compares with the most likely token and does not mind.
    """
    names = find_order(config.order).names
    if config.order == "reference":
        names = ("repetition_penalty", "temperature", "top_p", "min_p", "top_k")
    return tuple(name for name in names if is_on(config, name))


def differences(config: SamplingConfig, theirs: tuple[str, ...]) -> list[str]:
    """In which way a fixed chain keeps other tokens than these settings do, in words."""
    ours = chain(config)
    cuts = [name for name in ours if name in CUTS]
    found = []
    for moving in ("temperature", "repetition_penalty"):
        if moving not in ours:
            continue
        # Top-k counts: only a penalty, which changes who is first, matters to it.
        minding = [name for name in cuts if moving != "temperature" or name != "top_k"]
        moved = [
            name for name in minding if _first(ours, moving, name) != _first(theirs, moving, name)
        ]
        if moved:
            side = "before" if _first(theirs, moving, moved[0]) else "after"
            words = " and ".join(STAGE_WORDS[name] for name in moved)
            found.append(
                f"It applies the {STAGE_WORDS[moving]} {side} {words}, not as the order here."
            )
    if "top_p" in cuts:
        mine = {name for name in cuts if ours.index(name) < ours.index("top_p")}
        other = {name for name in cuts if theirs.index(name) < theirs.index("top_p")}
        if mine != other:
            found.append(
                f"It measures top-p {_of_what(other)}; the order here measures it {_of_what(mine)}."
            )
    return found


def _first(names: tuple[str, ...], one: str, other: str) -> bool:
    """Whether one stage comes before another."""
    return names.index(one) < names.index(other)


def _of_what(cuts: set[str]) -> str:
    if not cuts:
        return "on the whole distribution"
    return f"on what {' and '.join(STAGE_WORDS[name] for name in CUTS if name in cuts)} left"


def _ties(config: SamplingConfig, theirs: str, *, all_stay: bool) -> list[str]:
    stays_here = config.order == "hugging-face"
    if not is_on(config, "top_k") or config.deterministic or stays_here == all_stay:
        return []
    here = "all of them stay" if stays_here else "the lower ids stay"
    return [f"Of tokens that tie with the k-th, {theirs}; here {here}."]


def _commented(remarks: list[str]) -> str:
    return "".join(f"# {remark}\n" for remark in remarks)


def transformers_code(config: SamplingConfig) -> Code:
    """Arguments of ``generate``; processors in a list of one's own where its order is another."""
    penalty = f"repetition_penalty={config.repetition_penalty!r}"
    if config.deterministic:
        return Code("transformers", f"model.generate(**inputs, do_sample=False, {penalty})\n")
    remarks = _ties(config, "all of them stay", all_stay=True)
    lines = []
    # generate's own default of top_k is 50: what is off has to be said too.
    arguments = ["temperature=1.0", "top_k=0", "top_p=1.0"]
    if differences(config, GENERATE):
        lines = ["# The order is another than that of generate's arguments: a list of processors."]
        lines += _processors(config)
        arguments.insert(0, "logits_processor=processors")
    else:
        arguments = [f"{name}={getattr(config, name)!r}" for name in ("temperature", "top_k")]
        arguments.append(f"top_p={config.top_p!r}")
        arguments += [f"min_p={config.min_p!r}"] if is_on(config, "min_p") else []
        arguments += [penalty] if is_on(config, "repetition_penalty") else []
    if config.seed is not None:
        remarks.append(DRAWS)
        lines += ["import torch", "", f"torch.manual_seed({config.seed % 2**63})"]
    lines.append(f"model.generate(**inputs, do_sample=True, {', '.join(arguments)})")
    text = _commented(remarks) + "\n".join(lines) + "\n"
    return Code("transformers", text, tuple(remarks))


def _processors(config: SamplingConfig) -> list[str]:
    """Lines that make the chain as a LogitsProcessorList."""
    classes = {
        "repetition_penalty": "RepetitionPenaltyLogitsProcessor",
        "temperature": "TemperatureLogitsWarper",
        "top_k": "TopKLogitsWarper",
        "top_p": "TopPLogitsWarper",
        "min_p": "MinPLogitsWarper",
    }
    names = chain(config)
    return [
        "from transformers import (",
        *(
            f"    {each},"
            for each in sorted(["LogitsProcessorList", *(classes[name] for name in names)])
        ),
        ")",
        "",
        "processors = LogitsProcessorList([",
        *(f"    {classes[name]}({getattr(config, name)!r})," for name in names),
        "])",
    ]


def llama_cpp_code(config: SamplingConfig) -> Code:
    """A command line of llama.cpp, its chain of samplers spelled out."""
    remarks: list[str] = []
    words = ["llama-cli", "-m", "MODEL.gguf"]
    names = chain(config)
    if config.deterministic:
        names = (*(name for name in names if name == "repetition_penalty"), "temperature")
    words += ["--samplers", ";".join(LLAMA_CPP[name] for name in names) or "temperature"]
    words += ["--temp", repr(config.temperature)]
    if "top_k" in names:
        words += ["--top-k", str(config.top_k)]
        remarks += _ties(config, "its sort decides which stay", all_stay=False)
    if "top_p" in names:
        words += ["--top-p", repr(config.top_p)]
    if "min_p" in names:
        words += ["--min-p", repr(config.min_p)]
    if "repetition_penalty" in names:
        # Its default looks at the last 64 tokens only; -1 is the whole context, as here.
        words += ["--repeat-penalty", repr(config.repetition_penalty), "--repeat-last-n", "-1"]
    if config.seed is not None and not config.deterministic:
        words += ["--seed", str(config.seed % 2**32)]
        remarks.append(DRAWS)
        if config.seed >= 2**32:
            remarks.append("Its seed has 32 bits: the remainder of this one is given.")
    return Code("llama.cpp", _commented(remarks) + shlex.join(words) + "\n", tuple(remarks))


def vllm_code(config: SamplingConfig) -> Code:
    """vLLM's SamplingParams; its chain is fixed."""
    if config.deterministic:
        remarks: list[str] = []
    else:
        remarks = differences(config, VLLM)
        remarks += _ties(config, "its kernels may keep all or some", all_stay=True)
        if config.order == "hugging-face" and is_on(config, "top_k"):
            remarks.append("Of tokens that tie with the k-th, its kernels may keep all or some.")
    fields = [f"temperature={config.temperature!r}"]
    for name in ("top_k", "top_p", "min_p", "repetition_penalty"):
        relevant = name == "repetition_penalty" or not config.deterministic
        if is_on(config, name) and relevant:
            fields.append(f"{name}={getattr(config, name)!r}")
    if config.seed is not None and not config.deterministic:
        fields.append(f"seed={config.seed % 2**63}")
        remarks.append(DRAWS)
    text = f"from vllm import SamplingParams\n\nparams = SamplingParams({', '.join(fields)})\n"
    return Code("vLLM", _commented(remarks) + text, tuple(remarks))


def sampling_options(config: SamplingConfig) -> list[str]:
    """The options of this program's command line that give the same settings, every one of them."""
    words = ["--order", config.order]
    words += ["--temperature", repr(config.temperature), "--top-k", str(config.top_k)]
    words += ["--top-p", repr(config.top_p), "--min-p", repr(config.min_p)]
    words += ["--repetition-penalty", repr(config.repetition_penalty)]
    if config.seed is not None:
        words += ["--seed", str(config.seed)]
    return words


def own_code(config: SamplingConfig, model: str = "stories") -> Code:
    """This program's command line."""
    remarks = []
    if config.order in ORDERS and not ORDERS[config.order].offered:
        remarks.append(f"The order {config.order} is a deliberate fault, not a setting.")
    text = shlex.join(["decoder-gui", model, *sampling_options(config)]) + "\n"
    return Code("decoder-gui", _commented(remarks) + text, tuple(remarks))


GENERATORS: dict[str, Callable[[SamplingConfig], Code]] = {
    "transformers": transformers_code,
    "llama.cpp": llama_cpp_code,
    "vLLM": vllm_code,
    "decoder-gui": own_code,
}
"""What makes the code, by the program's name."""
