"""Writing a capture and reading it back: the same bits, from whatever convention they came in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoder_gui.cli import main
from decoder_gui.debugger.choosing import generate
from decoder_gui.debugger.library import open_model
from decoder_gui.debugger.report import play
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.saving.capture_writing import NotWritable, write_run
from decoder_gui.debugger.saving.captured_session import CapturedSession, session_for
from decoder_gui.debugger.session import Session
from model.capture import AXES, KEY, CaptureWriter, capture_forward
from model.capture_file import read_capture
from model.captured_run import CapturedStep, write_capture
from model.checkpoints import open_checkpoint
from model.checkpoints.captures import sampling_of
from model.engine import Array
from model.errors import NoWeights, ShapeMismatch
from model.operations import Kind
from model.sampling import SamplingConfig

IDS = (3, 1, 4, 1, 5)


def decoded_steps(spec: str, prompt: tuple[int, ...], more: tuple[int, ...]) -> list[CapturedStep]:
    """A prefill and decode steps of a real engine, every array of them."""
    engine = open_model(spec).engine
    cache = engine.new_cache()
    steps: list[CapturedStep] = []
    for chunk in (prompt, *((token,) for token in more)):
        arrays: dict[str, Array] = {}
        first = cache.length
        for done in engine.walk(np.array([chunk]), cache):
            arrays |= done.arrays
        phase = "decode" if first else "prefill"
        steps.append(CapturedStep(phase, first, chunk, arrays, 0.25 * len(steps)))
    return steps


@pytest.mark.parametrize("spec", ["tiny", "stories"])
def test_what_is_written_is_read_bit_for_bit(spec: str, tmp_path: Path) -> None:
    steps = decoded_steps(spec, (0, 1), (3, 2))
    path = tmp_path / "run.safetensors"
    write_capture(
        path,
        steps,
        model=spec,
        token_texts={0: "The", 1: " cät", 2: "\udcff"},
        sampling={"temperature": 0.5, "order": "hugging-face"},
        made_by="a test",
        num_heads=np.int64(steps[0].arrays["blocks.0.attn.q"].shape[1]),
    )
    capture = read_capture(path)
    assert [(s.phase, s.first, s.token_ids, s.draw) for s in capture.steps] == [
        (s.phase, s.first, s.token_ids, s.draw) for s in steps
    ]
    for ours, theirs in zip(capture.steps, steps, strict=True):
        assert set(ours.arrays) == set(theirs.arrays)
        for name, array in theirs.arrays.items():
            assert ours.arrays[name].dtype == array.dtype
            assert ours.arrays[name].tobytes() == array.tobytes(), name
            assert not ours.arrays[name].flags.writeable
    assert capture.model == spec
    assert capture.pieces == ("The", " cät", "", "\udcff")
    assert capture.draws == (0.0, 0.25, 0.5)
    assert sampling_of(capture) is not None
    assert not capture.remarks
    assert not [other for other in tmp_path.iterdir() if other != path]


def test_a_step_that_is_written_in_parts_is_the_same(tmp_path: Path) -> None:
    step = decoded_steps("tiny", (0, 1), ())[0]
    write_capture(tmp_path / "whole.safetensors", [step])
    with CaptureWriter(tmp_path / "parts.safetensors") as writer:
        writer.step(step.token_ids, {})
        for name, array in step.arrays.items():
            writer.more({name: array})
    whole = read_capture(tmp_path / "whole.safetensors").steps[0].arrays
    parts = read_capture(tmp_path / "parts.safetensors").steps[0].arrays
    assert whole.keys() == parts.keys()
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)


def test_an_error_leaves_no_file_and_not_the_old_one_changed(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    path.write_bytes(b"before")

    def fail() -> None:
        with CaptureWriter(path) as writer:
            writer.step([1], {})
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ValueError, match="JSON compliant"):
        capture_forward(path, [1], {}, sampling={"temperature": float("nan")})
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("embed", (2, 5, 8), "batch of 2"),
        ("embed", (1, 4, 8), "4 positions where the step has 5"),
        ("embed", (5,), "not the axes (batch, pos, d_model)"),
        ("blocks.0.attn.pattern", (1, 2, 5, 4), "4 keys where there are 5"),
        ("logits", (1, 2, 9), "2 positions"),
        ("logits", (1, 1, 0), "not the axes"),
    ],
)
def test_a_wrong_array_is_refused_when_it_is_written(
    tmp_path: Path, name: str, shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(ValueError, match="step 0") as refusal:
        capture_forward(tmp_path / "run.safetensors", IDS, {name: np.zeros(shape)})
    assert words in str(refusal.value)


def test_other_wrong_things_are_refused_when_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with pytest.raises(ValueError, match="layers is no field"):
        capture_forward(path, IDS, {}, layers=3)
    with pytest.raises(ValueError, match="at least one token"):
        capture_forward(path, [], {})
    with pytest.raises(ValueError, match="holds int64"):
        capture_forward(path, IDS, {"embed": np.zeros((1, 5, 2), np.int64)})


def test_half_precision_is_upcast_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    array = np.linspace(-1, 1, 10, dtype=np.float16).reshape(1, 5, 2)
    capture_forward(path, IDS, {"embed": array})
    capture = read_capture(path)
    assert np.array_equal(capture.steps[0].arrays["embed"], array.astype(np.float32))
    assert capture.remarks == ("float16 values were upcast to float32",)


def test_a_name_without_a_place_is_left_out_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    step = np.zeros((1, 5, 2))
    left = capture_forward(path, IDS, {"embed": step, "blocks.0.attn.magic": step, "hook_x": step})
    assert left == ("blocks.0.attn.magic", "hook_x")
    assert set(read_capture(path).steps[0].arrays) == {"embed"}


TRANSFORMER_LENS = {
    "hook_embed": "embed",
    "hook_pos_embed": "pos_embed",
    "blocks.0.hook_resid_pre": "blocks.0.resid_pre",
    "blocks.0.ln1.hook_normalized": "blocks.0.ln1",
    "blocks.0.attn.hook_q": "blocks.0.attn.q",
    "blocks.0.attn.hook_k": "blocks.0.attn.k",
    "blocks.0.attn.hook_v": "blocks.0.attn.v",
    "blocks.0.attn.hook_rot_q": "blocks.0.attn.rot_q",
    "blocks.0.attn.hook_rot_k": "blocks.0.attn.rot_k",
    "blocks.0.attn.hook_attn_scores": "blocks.0.attn.scores",
    "blocks.0.attn.hook_pattern": "blocks.0.attn.pattern",
    "blocks.0.attn.hook_z": "blocks.0.attn.z",
    "blocks.0.hook_attn_out": "blocks.0.attn.out",
    "blocks.0.hook_resid_mid": "blocks.0.resid_mid",
    "blocks.0.ln2.hook_normalized": "blocks.0.ln2",
    "blocks.0.mlp.hook_pre": "blocks.0.mlp.pre",
    "blocks.0.mlp.hook_post": "blocks.0.mlp.post",
    "blocks.0.hook_mlp_out": "blocks.0.mlp.out",
    "blocks.0.hook_resid_post": "blocks.0.resid_post",
    "ln_final.hook_normalized": "ln_final",
    "logits": "logits",
}


def transformer_lens_cache(*, gated: bool) -> dict[str, Array]:
    """Arrays under the names and in the order of axes of TransformerLens's cache."""
    sizes = {"batch": 1, "pos": 5, "d_model": 8, "head": 4, "kv_head": 2, "d_head": 3}
    sizes |= {"key": 5, "d_mlp": 6, "vocab": 11}
    generator = np.random.default_rng(0)
    cache = {}
    for hooked, name in TRANSFORMER_LENS.items():
        axes = AXES[name.replace("blocks.0", "blocks.N")]
        if axes[-1] == "d_head":
            axes = (axes[0], axes[2], axes[1], axes[3])  # (batch, pos, head, d_head)
        cache[hooked] = generator.normal(size=tuple(sizes[axis] for axis in axes))
    cache["blocks.0.ln1.hook_scale"] = np.ones((1, 5, 1))
    if gated:
        cache["blocks.0.mlp.hook_pre_linear"] = generator.normal(size=(1, 5, 6))
    return cache


@pytest.mark.parametrize("gated", [False, True])
def test_transformer_lens_names_and_axes(tmp_path: Path, gated: bool) -> None:
    cache, path = transformer_lens_cache(gated=gated), tmp_path / "run.safetensors"
    assert capture_forward(path, IDS, cache) == ("blocks.0.ln1.hook_scale",)
    arrays = read_capture(path).steps[0].arrays
    expected = {name: cache[hooked] for hooked, name in TRANSFORMER_LENS.items()}
    if gated:
        expected["blocks.0.mlp.gate"] = cache["blocks.0.mlp.hook_pre"]
        expected["blocks.0.mlp.pre"] = cache["blocks.0.mlp.hook_pre_linear"]
    assert set(arrays) == set(expected)
    for name, array in expected.items():
        by_head = AXES[name.replace("blocks.0", "blocks.N")][-1] == "d_head"
        assert np.array_equal(arrays[name], array.swapaxes(1, 2) if by_head else array), name


def test_fused_and_flat_projections_are_parted_into_heads(tmp_path: Path) -> None:
    path, generator = tmp_path / "run.safetensors", np.random.default_rng(0)
    heads, shared, width = 4, 2, 3
    q, k, v = (generator.normal(size=(1, n, 5, width)) for n in (heads, shared, shared))
    flat = [part.swapaxes(1, 2).reshape(1, 5, -1) for part in (q, k, v)]
    for arrays in (
        {"blocks.0.attn.qkv": np.concatenate(flat, axis=-1)},
        {f"blocks.0.attn.{name}": part for name, part in zip("qkv", flat, strict=True)},
        {f"blocks.0.attn.{name}": p[0] for name, p in zip("qkv", (q, k, v), strict=True)},
    ):
        capture_forward(path, IDS, arrays, num_heads=heads, kv_heads=shared)
        found = read_capture(path).steps[0].arrays
        for name, part in zip("qkv", (q, k, v), strict=True):
            assert np.array_equal(found[f"blocks.0.attn.{name}"], part)


def test_an_opened_capture_plays_its_steps_and_computes_nothing(tmp_path: Path) -> None:
    steps = decoded_steps("stories", (5, 6, 7), (8, 9))
    path = tmp_path / "run.safetensors"
    write_capture(path, steps, token_texts={5: "a", 6: " b", 7: " c"}, norm="LayerNorm")
    loaded = open_checkpoint(path)
    session = session_for(loaded)
    assert isinstance(session, CapturedSession)
    run = Run(session.engine)
    for update in session.play():
        run.apply(update)
    trace = run.trace
    assert trace.token_ids == (5, 6, 7, 8, 9)
    assert [step.uniform for step in trace.steps] == [0.0, 0.25, 0.5]
    for index, step in enumerate(steps):
        assert trace.complete(index)
        for name, array in step.arrays.items():
            held = trace.array(index, name)
            assert held is not None
            assert np.array_equal(held, array)
    keys = np.concatenate([step.arrays["blocks.3.attn.k"] for step in steps], axis=2)
    assert np.array_equal(session.cache.keys(3), keys)
    assert loaded.tokenizer.decode((5, 6, 7)) == "a b c"
    assert loaded.tokenizer.encode("a b c") == [5, 6, 7]
    for refused in (
        lambda: loaded.tokenizer.encode("another"),
        lambda: list(session.decode(1, drawn=True)),
        lambda: list(session.prefill([5, 6])),
        session.redraw,
        lambda: session.engine.walk(np.array([[1]]), session.cache),
        lambda: session_for(loaded, faults=frozenset({"no-mask"})),
        session.engine.poisoned,
    ):
        with pytest.raises(NoWeights, match="a capture holds no weights"):
            refused()
    session.rewind(1)
    assert len(session.steps) == 3


def test_operations_claim_no_more_than_the_capture_says(tmp_path: Path) -> None:
    steps = decoded_steps("stories", (5, 6), ())
    kept = {n: a for n, a in steps[0].arrays.items() if not n.endswith((".ln2", ".attn.q"))}
    path = tmp_path / "run.safetensors"

    def operations(**said: Any) -> dict[str, Any]:
        capture_forward(path, (5, 6), kept, **said)
        return {each.name: each for each in open_checkpoint(path).engine.operations}

    bare = operations()
    sound = open_model("stories").engine.operations
    assert [n for n in (o.name for o in sound) if n in bare] == list(bare)
    assert "blocks.0.ln2" not in bare
    assert bare["blocks.0.attn.q"].outputs == ("blocks.0.attn.k", "blocks.0.attn.v")
    assert bare["blocks.0.ln1"].label == "Norm"
    assert bare["blocks.0.ln1"].formula == ""
    assert bare["blocks.0.mlp.post"].label == "Activation"
    assert list(bare.values())[-1].kind is Kind.SAMPLE
    told = operations(norm="LayerNorm", activation="GELU")
    assert told["blocks.0.ln1"].label == "LayerNorm"
    assert "tanh" in told["blocks.0.mlp.post"].formula
    for operation in (*bare.values(), *told.values()):
        with pytest.raises(LookupError):
            operation.source()


def test_the_header_is_plain_safetensors_with_one_json_document(tmp_path: Path) -> None:
    import safetensors

    path = tmp_path / "run.safetensors"
    capture_forward(path, IDS, {"embed": np.zeros((1, 5, 2), np.float32)}, model="m")
    with safetensors.safe_open(str(path), framework="numpy") as file:
        assert list(file.keys()) == ["0/embed"]
        about = json.loads(file.metadata()[KEY])
    assert about["format"] == 1
    assert about["model"] == "m"
    assert about["steps"][0]["token_ids"] == list(IDS)


def test_a_context_smaller_than_the_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    capture_forward(path, IDS, {"embed": np.zeros((1, 5, 2))}, context=4)
    with pytest.raises(Exception, match="a context of 4 for 5 positions") as refusal:
        open_checkpoint(path)
    assert isinstance(refusal.value, ValueError)
    assert not isinstance(refusal.value, ShapeMismatch)


@pytest.mark.parametrize("spec", ["tiny", "stories"])
def test_a_capture_of_a_session_has_what_the_budget_left_out(spec: str, tmp_path: Path) -> None:
    loaded, config = open_model(spec), SamplingConfig(temperature=0.7, top_k=3)
    found = []
    for budget in (0, 2**30):
        session = Session(loaded, budget=budget)
        run = Run(session.engine)
        for update in generate(session, (1, 2), config, 2):
            run.apply(update)
        path = tmp_path / f"{budget}.safetensors"
        progress = [writing.fraction for writing in write_run(path, session, run, config)]
        assert progress == sorted(progress)
        assert 0 <= progress[0] <= progress[-1] < 1
        found.append(read_capture(path))
    small, large = found
    assert small.draws == large.draws
    assert None not in large.draws
    assert sampling_of(small) == config
    assert small.texts == large.texts
    assert set(small.token_ids) <= set(small.texts)
    for left, right in zip(small.steps, large.steps, strict=True):
        assert left.arrays.keys() == right.arrays.keys()
        for name, array in right.arrays.items():
            assert left.arrays[name].tobytes() == array.tobytes(), name


def test_writing_a_run_that_is_stopped_leaves_no_file(tmp_path: Path) -> None:
    session = Session(open_model("tiny"))
    run = Run(session.engine)
    path = tmp_path / "run.safetensors"
    with pytest.raises(NotWritable, match="nothing to save"):
        next(write_run(path, session, run, SamplingConfig()))
    for update in session.prefill((0, 1)):
        run.apply(update)
    writing = write_run(path, session, run, SamplingConfig())
    next(writing)
    writing.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named_as_it_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken.safetensors"
    taken.mkdir()
    for path, words in (
        (taken, f"{taken} cannot be written"),
        (tmp_path / "nowhere" / "a.safetensors", f"the folder of {tmp_path / 'nowhere'}"),
    ):
        assert main(["trace", "tiny", "--capture", str(path)]) == 2
        said = capsys.readouterr()
        assert words in said.err
        assert ".part" not in said.err
    assert [each.name for each in tmp_path.iterdir()] == ["taken.safetensors"]


def test_a_capture_saved_again_keeps_the_texts_of_tokens_that_were_never_likely(
    tmp_path: Path,
) -> None:
    path, again = tmp_path / "run.safetensors", tmp_path / "again.safetensors"
    texts = {token: f"t{token}" for token in range(90)}
    capture_forward(path, [0, 1], {"logits": np.zeros((2, 90), np.float32)}, token_texts=texts)
    session = session_for(open_model(str(path)))
    assert isinstance(session, CapturedSession)
    for _ in write_run(again, session, play(session, SamplingConfig()).run, SamplingConfig()):
        pass
    assert read_capture(again).texts == texts


@pytest.mark.parametrize(
    ("arrays", "said", "words"),
    [
        ({"ln_final": (np.zeros((2, 4)), None)}, {}, "ln_final is a tuple; give the array in it"),
        ({"blocks.0.attn.q": np.zeros((1, 2, 32))}, {"num_heads": 5}, "which 5 heads cannot share"),
        ({"blocks.0.attn.qkv": np.zeros((2, 50))}, {"num_heads": 4}, "which 12 heads cannot share"),
        ({}, {"norm": object}, "cannot be written"),
    ],
)
def test_what_a_hook_got_wrong_is_named(
    tmp_path: Path, arrays: dict[str, Any], said: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        capture_forward(tmp_path / "run.safetensors", [0, 1], arrays, **said)
    assert not list(tmp_path.iterdir())


def test_ids_with_a_batch_axis_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    capture_forward(path, np.array([[3, 1]]), {"ln_final": np.zeros((1, 2, 4), np.float32)})
    assert read_capture(path).token_ids == (3, 1)
    capture_forward(path, iter((3, 1)), {"ln_final": np.zeros((1, 2, 4), np.float32)})
    assert read_capture(path).token_ids == (3, 1)


LENS = """\
logits, cache = model.run_with_cache(tokens)
capture_forward("run.safetensors", tokens[0], dict(cache) | {"logits": logits},
                token_texts=model.to_str_tokens(tokens), num_heads=model.cfg.n_heads)
"""
"""What the README shows for TransformerLens, word for word."""


class Lens:
    """What those lines use of a HookedTransformer."""

    class cfg:  # noqa: N801
        n_heads = 4

    def run_with_cache(self, tokens: Array) -> tuple[Array, dict[str, Array]]:
        cache = transformer_lens_cache(gated=False)
        return cache.pop("logits"), cache

    def to_str_tokens(self, tokens: Array) -> list[str]:
        return [f" t{token}" for token in tokens[0]]


def test_the_lines_for_transformer_lens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"model": Lens(), "tokens": np.array([IDS]), "capture_forward": capture_forward}
    exec(compile(LENS, "README.md", "exec"), names)
    capture = read_capture(tmp_path / "run.safetensors")
    assert capture.token_ids == IDS
    assert capture.pieces == tuple(f" t{token}" for token in IDS)
    assert set(TRANSFORMER_LENS.values()) == set(capture.steps[0].arrays)
    assert capture.steps[0].arrays["blocks.0.attn.q"].shape == (1, 4, 5, 3)


def test_the_readme_has_these_lines() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert re.sub(r"(?m)^(?=.)", "    ", LENS) in readme or "run_with_cache" not in readme


def test_draws_that_were_not_recorded_are_told_of(tmp_path: Path) -> None:
    path, array = tmp_path / "run.safetensors", {"embed": np.zeros((1, 1, 2))}
    for draw, told in ((None, True), (0.5, False)):
        with CaptureWriter(path) as writer:
            writer.step([1], array, draw=draw)
            writer.step([2], array)
        warnings = open_checkpoint(path).warnings
        assert any("no draws were recorded" in words for words in warnings) is told
