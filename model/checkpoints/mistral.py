"""The Mistral family: a Llama without biases whose every layer may have a sliding window."""

from __future__ import annotations

from model.checkpoints.fields import Fields
from model.checkpoints.llama_like import Biases, LlamaLike
from model.checkpoints.loading import register_family

DEFAULT_WINDOW = 4096


class Mistral(LlamaLike):
    """Mistral; a ``sliding_window`` of null is none, a missing one is 4,096 keys."""

    def biases(self, fields: Fields) -> Biases:
        """None."""
        return Biases()

    def windows(self, fields: Fields, depth: int) -> tuple[int, ...]:
        """The same in every layer."""
        if "sliding_window" in fields.values and not fields.has("sliding_window"):
            return ()
        return (fields.size("sliding_window", absent=DEFAULT_WINDOW),) * depth


register_family(Mistral(label="Mistral", model_type="mistral", context=131_072, kv_heads=8))
