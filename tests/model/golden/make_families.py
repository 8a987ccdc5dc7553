"""Write the golden folders of the families: small random models and what transformers computes.

Run by hand, with PyTorch and transformers installed, neither of which the tests need:

    python tests/model/golden/make_families.py [NAME ...]

Every folder has the logits of one sequence computed in three ways, each by transformers and with
its own cache: in one pass, in chunks, and as a prefill with single tokens after it.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

HERE = Path(__file__).resolve().parent
VOCABULARY, CONTEXT = 29, 40
CHUNKS = (9, 1, 14, 8)
PREFILL, DECODED = 12, 20


@dataclass(frozen=True)
class Model:
    """One folder: what transformers calls the family, its config, and how it is stored."""

    family: str
    config: dict[str, Any]
    dtype: torch.dtype = torch.float32
    shard: str = "1GB"
    layers: int = 3


def rope(kind: str, **fields: object) -> dict[str, object]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1000.0, **fields}}


GATED = {"hidden_size": 24, "num_attention_heads": 6, "intermediate_size": 34}

MODELS = {
    "gpt2_split": Model(
        "GPT2",
        {"n_layer": 3, "n_embd": 15, "n_head": 3, "n_inner": None, "n_positions": CONTEXT},
        shard="16KB",
    ),
    "llama": Model(
        "Llama",
        GATED
        | {"num_key_value_heads": 2, "head_dim": 10, "tie_word_embeddings": False}
        | rope(
            "llama3",
            factor=4.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=16,
        ),
    ),
    "llama_linear": Model(
        "Llama",
        GATED
        | {"num_key_value_heads": 3, "tie_word_embeddings": True}
        | {"attention_bias": True, "mlp_bias": True}
        | rope("linear", factor=2.5),
        dtype=torch.bfloat16,
    ),
    "llama_yarn": Model(
        "Llama",
        GATED
        | {"num_key_value_heads": 1, "head_dim": 14, "hidden_act": "gelu_pytorch_tanh"}
        | rope("yarn", factor=4.0, original_max_position_embeddings=10, beta_fast=4.0),
        dtype=torch.float16,
    ),
    "llama_dynamic": Model(
        "Llama",
        GATED | {"tie_word_embeddings": True} | rope("dynamic", factor=2.0),
        dtype=torch.float16,
    ),
    "mistral": Model(
        "Mistral",
        GATED | {"num_key_value_heads": 2, "head_dim": 6, "sliding_window": 5} | rope("default"),
        shard="25KB",
    ),
    "qwen2": Model(
        "Qwen2",
        GATED
        | {"num_key_value_heads": 3, "tie_word_embeddings": True, "use_sliding_window": True}
        | {"sliding_window": 6, "max_window_layers": 1}
        | rope("default"),
    ),
    "qwen3": Model(
        "Qwen3",
        GATED
        | {"num_key_value_heads": 2, "head_dim": 8, "tie_word_embeddings": True}
        | {"attention_bias": True}
        | rope("default"),
        dtype=torch.bfloat16,
    ),
    "gpt_neox": Model(
        "GPTNeoX",
        {"hidden_size": 27, "num_attention_heads": 3, "intermediate_size": 50}
        | rope("default", partial_rotary_factor=0.5),
    ),
    "gpt_neox_serial": Model(
        "GPTNeoX",
        {"hidden_size": 24, "num_attention_heads": 2, "intermediate_size": 30}
        | {"use_parallel_residual": False, "attention_bias": False, "tie_word_embeddings": True}
        | rope("linear", partial_rotary_factor=0.7, factor=1.5),
        dtype=torch.float16,
    ),
}


def make(name: str, wanted: Model) -> None:
    """One folder, weights as they are stored and logits in float32."""
    torch.manual_seed(sum(name.encode()))
    sizes = {"num_hidden_layers": wanted.layers, "max_position_embeddings": CONTEXT}
    config = getattr(transformers, f"{wanted.family}Config")(
        vocab_size=VOCABULARY,
        initializer_range=0.25,
        bos_token_id=0,
        eos_token_id=0,
        **({} if wanted.family == "GPT2" else sizes),
        **wanted.config,
    )
    kind = "LMHeadModel" if wanted.family == "GPT2" else "ForCausalLM"
    family = getattr(transformers, wanted.family + kind)
    model = family(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # or biases would all be 0 and gains 1
                parameter.add_(torch.randn_like(parameter) * 0.3)
    model = model.eval().to(wanted.dtype)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size=wanted.shard)
    (folder / "generation_config.json").unlink(missing_ok=True)

    ids = torch.randint(0, VOCABULARY, (1, sum(CHUNKS)))
    golden = {"ids": ids[0].tolist(), "chunk_sizes": CHUNKS, "prefilled": PREFILL}
    # Read again, because casting a model casts its rotary frequencies too, which no reader does.
    model = family.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    golden["whole"] = logits(model, ids, (ids.shape[1],))
    golden["chunks"] = logits(model, ids, CHUNKS)
    golden["decode"] = logits(model, ids, (PREFILL, *(1,) * DECODED))
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


def logits(model: Any, ids: torch.Tensor, sizes: tuple[int, ...]) -> list[list[float]]:
    """Logits of every position, (pos, vocab), from passes of those sizes over one cache."""
    cache = transformers.DynamicCache(config=model.config)
    rows: list[list[float]] = []
    for chunk in ids.split(list(sizes), dim=1):
        with torch.no_grad():
            found = model(chunk, past_key_values=cache, use_cache=True).logits[0]
        rows += [[round(value, 6) for value in row] for row in found.tolist()]
    return rows


if __name__ == "__main__":
    for each in sys.argv[1:] or MODELS:
        make(each, MODELS[each])
