# mypy: disallow-subclassing-any=False
"""GPT-2 with the names of Hugging Face's, in as little PyTorch as it takes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

WIDTH, HEADS, DEPTH, VOCABULARY, CONTEXT = 12, 3, 2, 17, 16


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        batch, count, _ = x.shape
        parts = self.c_attn(x).view(batch, count, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        later = torch.ones(count, count, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, -math.inf).softmax(-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, count, WIDTH)
        return self.c_proj(mixed), weights


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.act = nn.GELU(approximate="tanh")

    def forward(self, x: Any) -> Any:
        return self.c_proj(self.act(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention()
        self.ln_2, self.mlp = nn.LayerNorm(WIDTH), Mlp()

    def forward(self, x: Any) -> Any:
        update, weights = self.attn(self.ln_1(x))
        x = x + update
        return x + self.mlp(self.ln_2(x)), weights


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(DEPTH))
        self.ln_f = nn.LayerNorm(WIDTH)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer = Transformer()
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    class config:  # noqa: N801
        n_head = HEADS

    class Output:
        attentions: tuple[Any, ...] = ()
        logits: Any = None

    def forward(self, ids: Any, *, output_attentions: bool) -> Any:
        gpt = self.transformer
        x = gpt.wte(ids) + gpt.wpe(torch.arange(ids.shape[1])[None])
        out = self.Output()
        for block in gpt.h:
            x, weights = block(x)
            out.attentions += (weights,)
        out.logits = self.lm_head(gpt.ln_f(x))
        return out


def small_gpt2() -> Model:
    """The model with weights of its own."""
    torch.manual_seed(0)
    model = Model()
    model.eval()
    return model
