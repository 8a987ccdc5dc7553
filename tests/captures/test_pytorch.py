"""The lines of the README for a hooked PyTorch model, run on a small GPT-2 written in PyTorch.

``HOOKS`` is what the README shows, word for word.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model.capture import capture_forward
from model.capture_file import read_capture
from model.captured_engine import CapturedEngine
from model.checkpoints import open_checkpoint
from model.checks.captured import Recorded, check_capture
from model.trace import Checkpoint, Event, Phase, Step, Trace

torch = pytest.importorskip("torch")

from tests.captures import small_gpt2 as small  # noqa: E402  it needs PyTorch

HOOKS = """\
kept, gpt = {}, model.transformer
def keep(module, name):
    module.register_forward_hook(
        lambda m, i, out: kept.update({name: out[0] if isinstance(out, tuple) else out}))
for part, name in {gpt.wte: "embed", gpt.wpe: "pos_embed", gpt.ln_f: "ln_final"}.items():
    keep(part, name)
for n, b in enumerate(gpt.h):
    for part, name in {b.ln_1: "ln1", b.attn.c_attn: "attn.qkv", b.attn: "attn.out", b.ln_2: "ln2",
            b.mlp.c_fc: "mlp.pre", b.mlp.act: "mlp.post", b.mlp: "mlp.out", b: "resid_post",
    }.items():
        keep(part, f"blocks.{n}.{name}")
with torch.no_grad():
    out = model(torch.tensor([ids]), output_attentions=True)
kept |= {f"blocks.{n}.attn.pattern": a for n, a in enumerate(out.attentions)}
capture_forward("run.safetensors", ids, kept | {"logits": out.logits},
                num_heads=model.config.n_head, activation="GELU", norm="LayerNorm")
"""

IDS = [3, 1, 4, 1, 5, 9, 2, 6]


def hooked(model: Any, path: Path) -> None:
    """Run the README's lines on a model."""
    lines = HOOKS.replace('"run.safetensors"', repr(str(path)))
    names = {"model": model, "ids": IDS, "torch": torch, "capture_forward": capture_forward}
    exec(compile(lines, "README.md", "exec"), names)


def checked(path: Path) -> dict[str, Any]:
    engine = open_checkpoint(path).engine
    assert isinstance(engine, CapturedEngine)
    trace = Trace(engine.operations, engine.shape)
    trace.begin(Step(0, Phase.PREFILL, 0, tuple(IDS), Checkpoint(0, {}), 0.5))
    arrays = engine.capture.steps[0].arrays
    for index, operation in enumerate(engine.operations):
        trace.add(Event(0, index, {n: arrays[n] for n in operation.outputs if n in arrays}))
    return {result.name: result for result in check_capture(Recorded(engine, trace))}


def assert_whole(path: Path, heads: int, depth: int) -> None:
    capture = read_capture(path)
    assert capture.token_ids == tuple(IDS)
    arrays = capture.steps[0].arrays
    shape = arrays["blocks.0.attn.q"].shape
    assert shape[:3] == (1, heads, len(IDS))
    assert arrays["blocks.0.attn.pattern"].shape == (1, heads, len(IDS), len(IDS))
    assert len([name for name in arrays if name.endswith("attn.v")]) == depth
    verdicts = checked(path)
    assert all(result.holds for result in verdicts.values())
    assert verdicts["causal-weights"].examined
    assert verdicts["finite"].examined
    assert "mlp.post" in verdicts["arithmetic"].detail


def test_ten_lines_make_a_capture_of_a_hooked_model(tmp_path: Path) -> None:
    model, path = small.small_gpt2(), tmp_path / "run.safetensors"
    hooked(model, path)
    assert_whole(path, small.HEADS, small.DEPTH)
    arrays = read_capture(path).steps[0].arrays
    with torch.no_grad():
        x = model.transformer.wte(torch.tensor([IDS])) + model.transformer.wpe(
            torch.arange(len(IDS))[None]
        )
        block = model.transformer.h[0]
        fused = block.attn.c_attn(block.ln_1(x))[0]  # (pos, 3 * heads * d_head)
    for part, name in enumerate("qkv"):
        for head in range(small.HEADS):
            start = part * small.WIDTH + head * (small.WIDTH // small.HEADS)
            rows = fused[:, start : start + small.WIDTH // small.HEADS].numpy()
            assert np.array_equal(arrays[f"blocks.0.attn.{name}"][0, head], rows)


def test_the_same_lines_on_hugging_face_s_gpt2(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=small.VOCABULARY,
        n_positions=small.CONTEXT,
        n_embd=small.WIDTH,
        n_layer=small.DEPTH,
        n_head=small.HEADS,
    )
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model, path = transformers.GPT2LMHeadModel(config).eval(), tmp_path / "run.safetensors"
    hooked(model, path)
    assert_whole(path, small.HEADS, small.DEPTH)


def test_bfloat16_tensors_are_upcast_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    numbers = torch.linspace(-1, 1, 8).reshape(1, 2, 4).to(torch.bfloat16)
    capture_forward(path, torch.tensor([1, 2]), {"embed": numbers.requires_grad_()})
    capture = read_capture(path)
    assert np.array_equal(capture.steps[0].arrays["embed"], numbers.detach().float().numpy())
    assert capture.remarks == ("bfloat16 values were upcast to float32",)


def test_the_readme_has_these_lines() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    indented = re.sub(r"(?m)^(?=.)", "    ", HOOKS)
    assert indented in readme or "register_forward_hook" not in readme
