"""Write the golden folders: small random GPT-2 models and what transformers computes with them.

Run by hand, with PyTorch and transformers installed, neither of which the tests need:

    python tests/model/golden/make.py
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

HERE = Path(__file__).resolve().parent


def make(name: str, *, tied: bool, dtype: torch.dtype, bare: bool = False) -> None:
    """One folder; ``bare`` leaves the prefix ``transformer.`` and the head out of the file."""
    torch.manual_seed(len(name))
    config = GPT2Config(
        n_layer=2,
        n_head=3,
        n_embd=24,
        n_positions=20,
        vocab_size=29,
        n_inner=40,
        initializer_range=0.3,
        tie_word_embeddings=tied,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # or biases would all be 0 and gains 1
                parameter.add_(torch.randn_like(parameter) * 0.3)
    model = model.to(dtype)
    (model.transformer if bare else model).save_pretrained(HERE / name)
    ids = torch.randint(0, config.vocab_size, (2, config.n_positions))
    with torch.no_grad():
        logits = model.float()(ids).logits
    golden = {
        "ids": ids.tolist(),
        "logits": [[[round(x, 6) for x in r] for r in b] for b in logits.tolist()],
    }
    (HERE / name / "golden.json").write_text(json.dumps(golden) + "\n")
    (HERE / name / "generation_config.json").unlink(missing_ok=True)


if __name__ == "__main__":
    make("tied", tied=True, dtype=torch.float32)
    make("own_head", tied=False, dtype=torch.bfloat16)
    make("bare", tied=True, dtype=torch.float16, bare=True)
