"""Sampling settings from JSON: this program's, or a generation_config.json of transformers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from model.errors import InvalidSampling
from model.sampling import SamplingConfig

OWN = ("temperature", "top_p", "top_k", "seed", "order", "min_p", "repetition_penalty")

ALIASES = {"temp": "temperature", "repeat_penalty": "repetition_penalty"}
"""What llama.cpp calls the same settings."""

NOT_SAMPLING = frozenset(
    (
        "_from_model_config",
        "bos_token_id",
        "cache_implementation",
        "decoder_start_token_id",
        "eos_token_id",
        "max_length",
        "max_new_tokens",
        "min_length",
        "min_new_tokens",
        "num_return_sequences",
        "output_attentions",
        "output_hidden_states",
        "output_logits",
        "output_scores",
        "pad_token_id",
        "return_dict_in_generate",
        "transformers_version",
        "use_cache",
    )
)
"""Fields of a generation_config.json that say nothing about which token is drawn."""

NEUTRAL: dict[str, tuple[object, ...]] = {
    "diversity_penalty": (0, None),
    "encoder_no_repeat_ngram_size": (0, None),
    "encoder_repetition_penalty": (1, None),
    "epsilon_cutoff": (0, None),
    "eta_cutoff": (0, None),
    "guidance_scale": (1, None),
    "length_penalty": (1, None),
    "no_repeat_ngram_size": (0, None),
    "num_beam_groups": (1, None),
    "num_beams": (1, None),
    "penalty_alpha": (0, None),
    "renormalize_logits": (False, None),
    "top_h": (None,),
    "typical_p": (1, None),
}
"""Fields of a sampler that this program has not, with the values at which they do nothing."""

LARGEST = 100_000  # characters; nobody's settings are longer
GENERATE_TOP_K = 50  # what transformers' generate takes where a file does not name top_k


@dataclass(frozen=True)
class Pasted:
    """Settings that were read, and what was left aside or assumed, one sentence each."""

    config: SamplingConfig
    remarks: tuple[str, ...] = ()


def read_settings(text: str) -> Pasted:
    """Settings from a JSON object; what it does not name is off.

    Raises:
        InvalidSampling: no JSON object, an unknown key (by name), or a value out of range.
    """
    found = _object(text)
    from_transformers = bool({"do_sample", "transformers_version"} & set(found))
    settings: dict[str, Any] = {}
    aside = []
    for given, value in found.items():
        name = ALIASES.get(given, given)
        if name in OWN:
            if name in settings:
                raise InvalidSampling(f"{name} is named twice, once as {given}")
            if value is not None:
                settings[name] = value
        elif name in NOT_SAMPLING:
            aside.append(name)
        elif name in NEUTRAL:
            if value not in NEUTRAL[name]:
                raise InvalidSampling(
                    f"{name} {value!r} cannot be had here: there is no such stage"
                )
        elif name != "do_sample":
            raise InvalidSampling(f"{given!r} is no setting: there are {', '.join(OWN)}")
    remarks = [f"Left aside: {', '.join(aside)}."] if aside else []
    if from_transformers:
        remarks += _as_transformers(settings, found)
    return Pasted(SamplingConfig(**settings), tuple(remarks))


def as_json(config: SamplingConfig) -> str:
    """The same settings as a JSON object, which :func:`read_settings` reads back."""
    return json.dumps({name: getattr(config, name) for name in OWN}, indent=2)


def _as_transformers(settings: dict[str, Any], found: dict[str, Any]) -> list[str]:
    remarks = []
    if "order" not in settings:
        settings["order"] = "hugging-face"
        remarks.append("The order is that of transformers, hugging-face.")
    sampled = found.get("do_sample")
    if sampled is not None and not isinstance(sampled, bool):
        raise InvalidSampling(f"do_sample must be true or false, not {sampled!r}")
    if not sampled:
        settings["temperature"] = 0.0
        said = "false" if sampled is False else "not named, and false by default"
        remarks.append(f"do_sample is {said}: greedy, temperature 0.")
    elif "top_k" not in settings:
        settings["top_k"] = GENERATE_TOP_K
        remarks.append(f"top_k is not named: {GENERATE_TOP_K}, the default of generate.")
    return remarks


def _object(text: str) -> dict[str, Any]:
    if len(text) > LARGEST:
        raise InvalidSampling(f"the text has {len(text):,} characters; settings are far shorter")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidSampling(f"{twice!r} is named twice")
        return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=once)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidSampling(f"the text is not JSON{where}") from error
    if not isinstance(found, dict):
        raise InvalidSampling("the text is JSON, but no object with settings in { }")
    return found
