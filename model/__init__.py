"""The arithmetic of decoder-only language models, readable without the window.

The names below are imported when they are first used, so that the traced tiny decoder
(:mod:`model.tiny`) and the plain-loop reference (:mod:`model.plain`) run without NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.attention import cached_attention, fused_qkv_decode
    from model.cache import KvCache
    from model.costs import DecodeStats, arithmetic_intensity
    from model.errors import CacheExhausted, CausalityViolation, ContextOverflow, ShapeMismatch
    from model.guards import assert_causal, fit_context
    from model.likelihood import exact_log_likelihood, perplexity, training_loss
    from model.ranking import stable_log_softmax
    from model.sampling import TokenScore, batched_sample, sample_token
    from model.sampling_orders import SamplingConfig
    from model.shape import ModelShape

__all__ = [
    "CacheExhausted",
    "CausalityViolation",
    "ContextOverflow",
    "DecodeStats",
    "KvCache",
    "ModelShape",
    "SamplingConfig",
    "ShapeMismatch",
    "TokenScore",
    "arithmetic_intensity",
    "assert_causal",
    "batched_sample",
    "cached_attention",
    "exact_log_likelihood",
    "fit_context",
    "fused_qkv_decode",
    "perplexity",
    "sample_token",
    "stable_log_softmax",
    "training_loss",
]

_HOMES = {
    "attention": ("cached_attention", "fused_qkv_decode"),
    "cache": ("KvCache",),
    "costs": ("DecodeStats", "arithmetic_intensity"),
    "errors": ("CacheExhausted", "CausalityViolation", "ContextOverflow", "ShapeMismatch"),
    "guards": ("assert_causal", "fit_context"),
    "likelihood": ("exact_log_likelihood", "perplexity", "training_loss"),
    "ranking": ("stable_log_softmax",),
    "sampling": ("TokenScore", "batched_sample", "sample_token"),
    "sampling_orders": ("SamplingConfig",),
    "shape": ("ModelShape",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_DECODERS = ("tiny", "plain")  # modules to reach as attributes, `model.tiny.tokenize(...)`


def __getattr__(name: str) -> object:
    if name in _DECODERS:
        return import_module(f"model.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'model' has no attribute {name!r}")
    found = getattr(import_module(f"model.{_HOME_OF[name]}"), name)
    globals()[name] = found  # the next use does not come back here
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_DECODERS})
