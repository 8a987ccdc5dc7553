"""The Llama family: Llama 1 to 3, TinyLlama, SmolLM2 and everything that keeps their config."""

from __future__ import annotations

from model.checkpoints.llama_like import LlamaLike
from model.checkpoints.loading import register_family

register_family(LlamaLike(label="Llama", model_type="llama", context=2048))
