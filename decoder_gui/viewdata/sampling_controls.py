"""The sampling settings as controls: their stops, how a value is written, how one is read.

A typed value is either taken exactly or refused with a sentence that names the range. The decimal
sign is a point in every locale, because that is what every configuration file and every paper uses.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from model.errors import InvalidSampling

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?\d+")
_LARGEST_SEED = 2**128 - 1


@dataclass(frozen=True)
class Setting:
    """One numeric setting of a sampler.

    Attributes:
        field: its name in :class:`model.sampling.SamplingConfig`.
        label: its name on screen.
        stops: the values that the slider rests on, rising.
        accepts: the range in words.
        explanation: what it does, in one sentence.
        write: the text shown for a value.
        read: the value of a text; raises InvalidSampling.
    """

    field: str
    label: str
    stops: tuple[float, ...]
    accepts: str
    explanation: str
    write: Callable[[float], str]
    read: Callable[[str], float]

    def nearest(self, value: float) -> int:
        """Index of the stop closest to a value; the last one for anything beyond the stops."""
        at = bisect_left(self.stops, value)
        if at == 0 or at == len(self.stops):
            return min(at, len(self.stops) - 1)
        below, above = self.stops[at - 1], self.stops[at]
        return at if above - value <= value - below else at - 1


def _refusal(text: str, label: str, accepts: str, why: str = "") -> InvalidSampling:
    return InvalidSampling(f"“{text.strip()}” is not possible{why}: {label} is {accepts}")


def _normal(text: str) -> str:
    # U+2212 is what a minus looks like in print, and it is no number to float().
    return text.strip().replace("\N{MINUS SIGN}", "-").lower()


def _reader(
    label: str,
    accepts: str,
    allowed: Callable[[float], bool],
    *,
    words: dict[str, float],
    whole: bool = False,
) -> Callable[[str], float]:
    def read(text: str) -> float:
        cleaned = _normal(text)
        if cleaned in words:
            return words[cleaned]
        if not (_WHOLE if whole else _NUMBER).fullmatch(cleaned):
            why = ""
            if re.fullmatch(r"[+-]?\d*,\d*", cleaned) and not whole:
                why = ", the decimal sign is “.”"
            raise _refusal(text, label, accepts, why)
        value = float(cleaned)
        if not (math.isfinite(value) and allowed(value)):
            raise _refusal(text, label, accepts)
        return value

    return read


def _hundredths(value: float) -> str:
    shown = f"{value:.2f}"
    return shown if float(shown) == value else f"{value:.4g}"


def _temperature_setting() -> Setting:
    label, accepts = "Temperature", "0 (greedy) or any positive number"
    return Setting(
        field="temperature",
        label=label,
        stops=tuple(step / 100 for step in range(201)),
        accepts=accepts,
        explanation="Divides the logits before the softmax: below 1 sharpens, above 1 flattens, "
        "0 always takes the most likely token.",
        write=lambda value: "greedy" if value == 0 else _hundredths(value),
        read=_reader(label, accepts, lambda value: value >= 0, words={"greedy": 0.0, "off": 1.0}),
    )


def _counts(vocabulary: int) -> tuple[float, ...]:
    """Off, then 1 … vocabulary in even steps of the logarithm, each whole number once."""
    steps = 160
    top = math.log(max(2, vocabulary))
    rising = {min(vocabulary, round(math.exp(top * step / steps))) for step in range(steps + 1)}
    return (0.0, *(float(count) for count in sorted(rising | {1, vocabulary})))


def _top_k_setting(vocabulary: int) -> Setting:
    label = "Top-k"
    accepts = f"off or a whole number from 1 (more than {vocabulary:,} keeps every token)"
    return Setting(
        field="top_k",
        label=label,
        stops=_counts(vocabulary),
        accepts=accepts,
        explanation="Keeps this many of the most likely tokens.",
        write=lambda value: "off" if value == 0 else f"{int(value)}",
        read=_reader(label, accepts, lambda value: value >= 0, words={"off": 0.0}, whole=True),
    )


def _top_p_setting() -> Setting:
    label, accepts = "Top-p", "a number above 0 and up to 1 (1 is off)"
    return Setting(
        field="top_p",
        label=label,
        stops=tuple(step / 100 for step in range(1, 101)),
        accepts=accepts,
        explanation="Keeps the shortest run of most likely tokens whose probabilities reach this "
        "sum.",
        write=lambda value: "off" if value == 1 else _hundredths(value),
        read=_reader(label, accepts, lambda value: 0 < value <= 1, words={"off": 1.0}),
    )


def _min_p_setting() -> Setting:
    label, accepts = "Min-p", "a number from 0 (off) to 1"
    return Setting(
        field="min_p",
        label=label,
        stops=tuple(step / 100 for step in range(101)),
        accepts=accepts,
        explanation="Keeps tokens with at least this share of the most likely token's probability.",
        write=lambda value: "off" if value == 0 else _hundredths(value),
        read=_reader(label, accepts, lambda value: 0 <= value <= 1, words={"off": 0.0}),
    )


def _repetition_penalty_setting() -> Setting:
    label, accepts = "Repetition penalty", "any positive number (1 is off)"
    return Setting(
        field="repetition_penalty",
        label=label,
        stops=tuple(step / 100 for step in range(50, 201)),
        accepts=accepts,
        explanation="Divides the positive logits of tokens that have occurred, and multiplies the "
        "others: above 1 they become less likely.",
        write=lambda value: "off" if value == 1 else _hundredths(value),
        read=_reader(label, accepts, lambda value: value > 0, words={"off": 1.0}),
    )


def stage_settings(vocabulary: int) -> dict[str, Setting]:
    """The setting of each stage that an order names, by the stage's name."""
    every = (*sampling_settings(vocabulary), _repetition_penalty_setting())
    return {setting.field: setting for setting in every}


@lru_cache(maxsize=4)  # a moving slider asks for them at every stop
def sampling_settings(vocabulary: int) -> tuple[Setting, ...]:
    """Temperature, top-k, top-p and min-p for a vocabulary of that size."""
    return (
        _temperature_setting(),
        _top_k_setting(vocabulary),
        _top_p_setting(),
        _min_p_setting(),
    )


def read_seed(text: str) -> int:
    """A seed as typed.

    Raises:
        InvalidSampling: not a whole number from 0 to 2¹²⁸ - 1.
    """
    cleaned = _normal(text)
    if not _WHOLE.fullmatch(cleaned) or not 0 <= int(cleaned[:60]) <= _LARGEST_SEED:
        raise _refusal(text, "Seed", "a whole number from 0 to 2¹²⁸ - 1")
    return int(cleaned)
