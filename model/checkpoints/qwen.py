"""Qwen2 and Qwen3: Llamas with biases on Q, K and V, or with norms on Q and K."""

from __future__ import annotations

from model.checkpoints.fields import Fields
from model.checkpoints.llama_like import Biases, LlamaLike, windows_of
from model.checkpoints.loading import register_family

DEFAULT_WINDOW = 4096
DEFAULT_FIRST = 28
CONTEXT = 32_768


class Qwen(LlamaLike):
    """Both; a window only where ``use_sliding_window`` says so."""

    def windows(self, fields: Fields, depth: int) -> tuple[int, ...]:
        """Windows of the layers that have one, the later ones as a rule."""
        used = fields.flag("use_sliding_window", False)
        window = fields.size("sliding_window", absent=DEFAULT_WINDOW) if used else None
        if "sliding_window" in fields.values and not fields.has("sliding_window"):
            window = None
        first = fields.values.get("max_window_layers")
        if first != 0:
            first = fields.size("max_window_layers", absent=DEFAULT_FIRST)
        return windows_of(fields, depth, window, first)


class Qwen2(Qwen):
    """Biases on Q, K and V, always."""

    def biases(self, fields: Fields) -> Biases:
        """Those of Q, K and V."""
        return Biases(qkv=True)


class Qwen3(Qwen):
    """Norms on Q and K; biases of attention if the config.json says so."""

    def biases(self, fields: Fields) -> Biases:
        """Those of attention or none."""
        attention = fields.flag("attention_bias", False)
        return Biases(attention, attention)


register_family(Qwen2(label="Qwen2", model_type="qwen2", context=CONTEXT, kv_heads=32))
register_family(
    Qwen3(
        label="Qwen3",
        model_type="qwen3",
        context=CONTEXT,
        kv_heads=32,
        head_dim=128,
        qk_norm=True,
    )
)
