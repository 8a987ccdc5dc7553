"""How large a cache is, and how many sequences a memory holds: for sizing a deployment.

The shapes of well-known models are those of their published ``config.json``; only the numbers that
decide the size of a cache are kept. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum

from model.errors import ShapeMismatch
from model.shape import ModelShape


class ValueSize(Enum):
    """Bytes that one cached number takes."""

    FLOAT64 = ("float64", 8.0)
    FLOAT32 = ("float32", 4.0)
    FLOAT16 = ("float16 or bfloat16", 2.0)
    INT8 = ("8 bits", 1.0)
    INT4 = ("4 bits", 0.5)

    @property
    def words(self) -> str:
        return self.value[0]

    @property
    def bytes(self) -> float:
        """Without scales that a packed format stores besides."""
        return self.value[1]


@dataclass(frozen=True)
class CachePlan:
    """The numbers that decide the size of a cache.

    Attributes:
        layers: blocks with attention.
        heads: query heads; they cost nothing here and say what sharing keys saves.
        kv_heads: heads of keys and values.
        head_dim: numbers of one key.
        context: positions per sequence.
        batch: sequences side by side.
        bytes_per_value: 4 for float32, 2 for float16, 0.5 for four bits.

    Raises:
        ShapeMismatch: a number that is not positive, or heads that kv_heads does not divide.
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    batch: int = 1
    bytes_per_value: float = 2.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                words = field.name.replace("_", " ")
                raise ShapeMismatch(f"{words} must be above 0, not {value:g}")
        if self.heads % self.kv_heads:
            raise ShapeMismatch(
                f"{self.heads} heads cannot share {self.kv_heads} key-value heads evenly"
            )

    @classmethod
    def of(cls, shape: ModelShape, *, context: int, bytes_per_value: float) -> CachePlan:
        """The plan of a model in hand."""
        return cls(
            shape.depth,
            shape.num_heads,
            shape.kv_heads,
            shape.head_dim,
            context,
            bytes_per_value=bytes_per_value,
        )

    @property
    def bytes_per_token(self) -> float:
        """Keys and values of one position of one sequence."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.bytes_per_value

    @property
    def bytes_per_sequence(self) -> float:
        return self.bytes_per_token * self.context

    @property
    def total(self) -> float:
        """Bytes of all sequences."""
        return self.bytes_per_sequence * self.batch

    def sequences_in(self, memory: float, *, besides: float = 0.0) -> int:
        """How many whole sequences fit; ``besides`` are bytes that something else takes."""
        return max(0, int((memory - besides) // self.bytes_per_sequence))

    def positions_in(self, memory: float, *, besides: float = 0.0) -> int:
        """How many positions each of ``batch`` sequences may have."""
        return max(0, int((memory - besides) // (self.bytes_per_token * self.batch)))

    def shared(self, kv_heads: int) -> CachePlan:
        """The same model with another number of key-value heads."""
        return replace(self, kv_heads=kv_heads)

    @property
    def sharing(self) -> str:
        """What this way of sharing keys and values is called."""
        if self.kv_heads == self.heads:
            return "multi-head"
        return "multi-query" if self.kv_heads == 1 else "grouped-query"


@dataclass(frozen=True)
class KnownModel:
    """A public model's published shape, with the repository whose config.json says so."""

    name: str
    source: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    parameters: float  # as its publisher counts them
    note: str = ""

    def plan(self, *, batch: int = 1, bytes_per_value: float = 2.0) -> CachePlan:
        """Its cache at its whole context."""
        return CachePlan(
            self.layers,
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.context,
            batch,
            bytes_per_value,
        )


_WINDOWED = "its sliding window of {} positions would bound this"

KNOWN: Mapping[str, KnownModel] = {
    model.name: model
    for model in (
        KnownModel("GPT-2 small", "openai-community/gpt2", 12, 12, 12, 64, 1024, 124e6),
        KnownModel("GPT-2 XL", "openai-community/gpt2-xl", 48, 25, 25, 64, 1024, 1.56e9),
        KnownModel("Pythia 6.9B", "EleutherAI/pythia-6.9b", 32, 32, 32, 128, 2048, 6.9e9),
        KnownModel("Llama 2 7B", "meta-llama/Llama-2-7b-hf", 32, 32, 32, 128, 4096, 6.7e9),
        KnownModel("Llama 2 70B", "meta-llama/Llama-2-70b-hf", 80, 64, 8, 128, 4096, 69e9),
        KnownModel("Llama 3 8B", "meta-llama/Meta-Llama-3-8B", 32, 32, 8, 128, 8192, 8.0e9),
        KnownModel("Llama 3.1 70B", "meta-llama/Llama-3.1-70B", 80, 64, 8, 128, 131072, 70.6e9),
        KnownModel("Llama 3.1 405B", "meta-llama/Llama-3.1-405B", 126, 128, 8, 128, 131072, 405e9),
        KnownModel(
            "TinyLlama 1.1B", "TinyLlama/TinyLlama-1.1B-Chat-v1.0", 22, 32, 4, 64, 2048, 1.1e9
        ),
        KnownModel("SmolLM2 135M", "HuggingFaceTB/SmolLM2-135M", 30, 9, 3, 64, 8192, 135e6),
        KnownModel(
            "Mistral 7B v0.1",
            "mistralai/Mistral-7B-v0.1",
            32,
            32,
            8,
            128,
            32768,
            7.2e9,
            _WINDOWED.format("4,096"),
        ),
        KnownModel("Qwen2.5 0.5B", "Qwen/Qwen2.5-0.5B", 24, 14, 2, 64, 32768, 0.49e9),
        KnownModel("Qwen2.5 7B", "Qwen/Qwen2.5-7B", 28, 28, 4, 128, 131072, 7.6e9),
        KnownModel("Qwen3 8B", "Qwen/Qwen3-8B", 36, 32, 8, 128, 40960, 8.2e9),
        KnownModel("Falcon 7B", "tiiuae/falcon-7b", 32, 71, 1, 64, 2048, 7.2e9),
    )
}
