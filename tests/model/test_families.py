"""Every family against what transformers computed with the same small random model."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.blueprint import Activation, Norm
from model.checkpoints import open_checkpoint
from model.checks import Subject, run_checks
from model.decoder import Decoder
from model.engine import Array
from model.errors import CheckpointError
from model.faults import all_faults
from model.rotary import Linear, Llama3, Yarn
from model.trace import Trace

GOLDEN = Path(__file__).parent / "golden"
FAMILIES = {
    "gpt2_split": "GPT-2",
    "gpt_neox": "GPT-NeoX",
    "gpt_neox_serial": "GPT-NeoX",
    "llama": "Llama",
    "llama_dynamic": "Llama",
    "llama_linear": "Llama",
    "llama_yarn": "Llama",
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
}
EVERY = pytest.mark.parametrize("name", FAMILIES)


@dataclass(frozen=True)
class Golden:
    """Token ids, and the logits (pos, vocab) that three ways of running them gave."""

    ids: list[int]
    chunk_sizes: list[int]
    prefilled: int
    whole: list[list[float]]
    chunks: list[list[float]]
    decode: list[list[float]]


def golden_of(name: str) -> Golden:
    return Golden(**json.loads((GOLDEN / name / "golden.json").read_text()))


def decoder_of(name: str) -> Decoder:
    engine = open_checkpoint(GOLDEN / name).engine
    assert isinstance(engine, Decoder)
    return engine


def run(decoder: Decoder, ids: list[int], sizes: Iterable[int]) -> Array:
    """Logits of all positions, (pos, vocab), from passes of those sizes over one cache."""
    cache, rows = decoder.new_cache(), []
    ends = list(accumulate(sizes))
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        rows.append(decoder.forward(np.array([ids[start:end]]), cache, all_logits=True)[0])
    return np.concatenate(rows)


@EVERY
def test_logits_agree_with_transformers(name: str) -> None:
    decoder, golden = decoder_of(name), golden_of(name)
    assert len(golden.ids) - golden.prefilled == 20
    assert np.ptp(golden.whole) > 1
    singles = [1] * (len(golden.ids) - golden.prefilled)
    for sizes, wanted in (
        ([len(golden.ids)], golden.whole),
        (golden.chunk_sizes, golden.chunks),
        ([golden.prefilled, *singles], golden.decode),
    ):
        found = run(decoder, golden.ids, sizes)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, np.array(wanted), atol=1e-4, rtol=0)


@EVERY
def test_recording_changes_nothing_and_a_block_can_be_had_again(name: str) -> None:
    decoder, golden = decoder_of(name), golden_of(name)
    bare, kept = decoder.new_cache(), decoder.new_cache()
    for start, end in ((0, 12), (12, 19), (19, 20), (20, 21)):
        ids = np.array([golden.ids[start:end]])
        logits = decoder.forward(ids, bare)
        arrays: dict[str, Array] = {}
        for activations in decoder.walk(ids, kept):
            assert all(not array.flags.writeable for array in activations.arrays.values())
            arrays.update(activations.arrays)
        assert np.array_equal(arrays["logits"], logits)
        assert all(array.dtype == np.float32 for array in arrays.values())
        for layer in range(decoder.shape.depth):
            stream = arrays[f"blocks.{layer}.resid_pre"]
            for activations in decoder.replay_block(layer, stream, start, kept):
                for each, again in activations.arrays.items():
                    assert np.array_equal(again, arrays[each]), each


@EVERY
def test_every_check_holds(name: str) -> None:
    subject = Subject.under(decoder_of(name), golden_of(name).ids[:12], continuation=8)
    for result in run_checks(subject):
        assert result.holds, result.detail
        if result.name == "positions":
            assert ("pos_embed" if name == "gpt2_split" else "rot_k") in result.detail


@EVERY
@pytest.mark.parametrize("fault", [fault.name for fault in all_faults()])
def test_every_fault_is_caught(name: str, fault: str) -> None:
    subject = Subject.under(decoder_of(name), golden_of(name).ids[:12], [fault], continuation=4)
    caught_by = next(each.caught_by for each in all_faults() if each.name == fault)
    for result in run_checks(subject, caught_by):
        assert not result.holds, result.name
        assert fault in result.detail


@EVERY
def test_names_and_labels(name: str) -> None:
    loaded = open_checkpoint(GOLDEN / name)
    assert (loaded.family, loaded.name, loaded.warnings) == (FAMILIES[name], name, ())
    operations = loaded.engine.operations
    trace = Trace(operations, loaded.engine.shape)
    for operation in operations:
        assert operation.mark in operation.source().lines[operation.source().marked]
        assert set(operation.inputs) <= {o for each in operations for o in each.outputs}
        sentence = operation.describe(queries=3, keys=7, heads=6, layer=1, width=24)
        assert sentence.endswith(".")
        assert "{" not in sentence
        assert 20 < len(sentence) < 220, operation.name
        for output in operation.outputs:
            assert operations[trace.producer(output)] is operation


def test_the_blueprints_say_what_the_configs_say() -> None:
    llama = decoder_of("llama").blueprint
    assert (llama.shape.kv_heads, llama.shape.head_dim, llama.tied) == (2, 10, False)
    assert (llama.norm, llama.activation, llama.shape.gated) == (
        Norm.RMS_NORM,
        Activation.SILU,
        True,
    )
    assert llama.rotary is not None
    assert llama.rotary.scaling == Llama3(4.0, 1.0, 4.0, 16)
    linear = decoder_of("llama_linear").blueprint
    assert (linear.qkv_bias, linear.out_bias, linear.mlp_bias, linear.tied) == (True,) * 4
    assert linear.rotary is not None
    assert linear.rotary.scaling == Linear(2.5)
    yarn = decoder_of("llama_yarn").blueprint.rotary
    assert yarn is not None
    assert isinstance(yarn.scaling, Yarn)
    assert yarn.magnitude == pytest.approx(0.1 * math.log(4) + 1)
    dynamic = decoder_of("llama_dynamic").blueprint.rotary
    assert dynamic is not None
    assert dynamic.scaling is None
    assert decoder_of("mistral").shape.windows == (5, 5, 5)
    qwen2 = decoder_of("qwen2").blueprint
    assert (qwen2.qkv_bias, qwen2.out_bias, qwen2.shape.windows) == (True, False, (0, 6, 6))
    assert decoder_of("qwen3").blueprint.qk_norm
    neox = decoder_of("gpt_neox").blueprint
    assert neox.rotary is not None
    assert (neox.parallel, neox.rotary.dims, neox.activation) == (True, 4, Activation.GELU_EXACT)
    assert not decoder_of("gpt_neox_serial").blueprint.parallel


def test_keys_are_cached_as_they_were_turned() -> None:
    decoder, golden = decoder_of("llama"), golden_of("llama")
    cache = decoder.new_cache()
    arrays: dict[str, Array] = {}
    for activations in decoder.walk(np.array([golden.ids[:6]]), cache):
        arrays.update(activations.arrays)
    assert np.array_equal(cache.keys(1), arrays["blocks.1.attn.rot_k"])
    assert not np.array_equal(cache.keys(1), arrays["blocks.1.attn.k"])
    assert cache.keys(1).shape == (1, 2, 6, 10)
    assert arrays["blocks.1.attn.rot_q"].shape == (1, 6, 6, 10)


def test_a_window_hides_older_keys() -> None:
    decoder, golden = decoder_of("qwen2"), golden_of("qwen2")
    cache = decoder.new_cache()
    for chunk in (golden.ids[:11], golden.ids[11:12]):
        first = cache.length
        for activations in decoder.walk(np.array([chunk]), cache):
            for name, array in activations.arrays.items():
                if not name.endswith(("attn.pattern", "attn.scores")):
                    continue
                queries, keys = np.indices(array.shape[-2:])
                seen = (keys <= queries + first) & (
                    (keys > queries + first - 6) | name.startswith("blocks.0.")
                )
                shown = np.isfinite(array) if name.endswith("scores") else array > 0
                assert np.array_equal(shown[0, 3], seen), name


# -- several files ---------------------------------------------------------------------------------


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """A model in several files of one's own to spoil."""
    return Path(shutil.copytree(GOLDEN / "mistral", tmp_path / "spoilt"))


INDEX = "model.safetensors.index.json"


def change_index(folder: Path, change: Callable[[dict[str, str]], object]) -> None:
    content = json.loads((folder / INDEX).read_text())
    change(content["weight_map"])
    (folder / INDEX).write_text(json.dumps(content))


def test_several_files_open_without_an_index_and_from_any_of_them(split: Path) -> None:
    golden = golden_of("mistral")
    part = sorted(split.glob("model-*.safetensors"))[1]
    places = [part, split]
    for place in places:
        engine = open_checkpoint(place).engine
        assert isinstance(engine, Decoder)
        found = run(engine, golden.ids, [len(golden.ids)])
        np.testing.assert_allclose(found, np.array(golden.whole), atol=1e-4)
    (split / INDEX).unlink()
    assert open_checkpoint(split).engine.parameters == open_checkpoint(part).engine.parameters
    part.unlink()
    with pytest.raises(CheckpointError, match=r"spoilt: the tensor model\S+ is missing"):
        open_checkpoint(split)


@pytest.mark.parametrize(
    "place",
    ["../model.safetensors", "/etc/model.safetensors", "..\\a.safetensors", "x/a.safetensors"],
)
def test_an_index_that_points_outside_its_folder_is_refused(split: Path, place: str) -> None:
    shutil.copy(next(split.glob("model-*")), split.parent / "model.safetensors")
    change_index(split, lambda named: named.update({next(iter(named)): place}))
    with pytest.raises(CheckpointError, match=r"index\.json: .* not in its own folder"):
        open_checkpoint(split)


def test_an_index_that_is_wrong(split: Path) -> None:
    original = (split / INDEX).read_text()
    first, *_, last = sorted(split.glob("model-*.safetensors"))
    cases: list[tuple[Callable[[dict[str, str]], object], str]] = [
        (lambda named: named.update({"lm_head.weight": "gone.safetensors"}), "gone.*no such file"),
        (lambda named: named.update({"lm_head.weight": "model.bin"}), "no safetensors file"),
        (lambda named: named.update({"ghost": first.name}), "ghost is said to be in"),
        (lambda named: named.update(dict.fromkeys(list(named), last.name)), "which has it not"),
        (lambda named: named.clear(), "weight_map must say"),
    ]
    for change, message in cases:
        (split / INDEX).write_text(original)
        change_index(split, change)
        with pytest.raises(CheckpointError, match=message):
            open_checkpoint(split)
    for content in ("{", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 1}}', "[" * 100_000):
        (split / INDEX).write_text(content)
        with pytest.raises(CheckpointError, match=r"index\.json"):
            open_checkpoint(split)


@settings(max_examples=60)
@given(st.data())
def test_a_few_changed_bytes_give_a_model_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(["llama", "llama_yarn", "mistral", "qwen2", "gpt_neox"]))
    folder = tmp_path_factory.mktemp("changed")
    shutil.copytree(GOLDEN / name, folder, dirs_exist_ok=True)
    files = sorted(each for each in folder.iterdir() if each.name != "golden.json")
    path = data.draw(st.sampled_from(files))
    content = bytearray(path.read_bytes())
    header = min(len(content), 3_000)
    for place in data.draw(st.lists(st.integers(0, header - 1), min_size=1, max_size=3)):
        content[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    path.write_bytes(content)
    said = ""
    try:
        assert open_checkpoint(folder).engine.shape.depth == 3
    except CheckpointError as refusal:
        said = str(refusal)
    assert "\n" not in said
    shutil.rmtree(folder)


def test_a_tensor_in_two_files_is_refused(split: Path) -> None:
    (split / INDEX).unlink()
    shutil.copy(next(split.glob("model-*")), split / "model-again.safetensors")
    with pytest.raises(CheckpointError, match="is in model"):
        open_checkpoint(split)


# -- configs ---------------------------------------------------------------------------------------

REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("llama", {"num_key_value_heads": 4}, "6 query heads cannot share 4"),
    ("llama", {"head_dim": 7}, "rotary positions: coordinates are turned in pairs, not 7"),
    ("llama", {"head_dim": 12}, r"q_proj.weight has shape \[60, 24\].*\[72, 24\]"),
    ("llama", {"hidden_act": "relu"}, "hidden_act is 'relu'; computed here are"),
    ("llama", {"attention_bias": True}, "q_proj.bias is missing"),
    ("llama", {"attention_bias": 1}, "attention_bias must be true or false"),
    ("llama", {"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    ("llama", {"rms_norm_eps": -1}, "rms_norm_eps"),
    ("llama", {"rms_norm_eps": 1e999}, "rms_norm_eps must be a finite number"),
    ("llama", {"quantization_config": {"bits": 4}}, "quantised"),
    ("llama", {"rope_interleaved": True}, "rope_interleaved is True"),
    ("llama", {"rope_parameters": []}, "rope_parameters must be an object"),
    ("llama", {"rope_parameters": {"rope_type": "longrope"}}, "rope_type is 'longrope'"),
    ("llama", {"rope_parameters": {"rope_type": ["linear"]}}, "rope_type"),
    ("llama", {"rope_parameters": {"rope_type": "linear"}}, "factor is missing"),
    ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 0}}, "factor must be above 0"),
    ("llama", {"rope_parameters": {"rope_theta": 1e300}}, "base of rotary positions"),
    ("llama", {"rope_parameters": {"rope_theta": "x"}}, "rope_theta must be a number"),
    ("llama", {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor is 0.5"),
    ("gpt_neox", {"rope_parameters": {"partial_rotary_factor": 0.4}}, "in pairs, not 3"),
    ("gpt_neox", {"rope_parameters": {"partial_rotary_factor": 1e308}}, "more than the whole"),
    ("gpt_neox", {"use_parallel_residual": 0}, "use_parallel_residual"),
    ("gpt_neox", {"num_attention_heads": 4}, "a width of 27 does not divide into 4"),
    ("mistral", {"sliding_window": 0}, "sliding_window must be at least 1"),
    ("qwen2", {"layer_types": ["full_attention"]}, "types of 3 layers"),
    ("qwen2", {"layer_types": ["full_attention", "chunked", "x"]}, "layer_types has 'chunked'"),
    ("qwen3", {"num_hidden_layers": 2, "layer_types": None}, "no tensor model.layers.2"),
]


@pytest.mark.parametrize(("name", "fields", "message"), REFUSED)
def test_a_config_that_asks_for_something_else(
    tmp_path: Path, name: str, fields: dict[str, object], message: str
) -> None:
    folder = Path(shutil.copytree(GOLDEN / name, tmp_path / "spoilt"))
    config = json.loads((folder / "config.json").read_text()) | fields
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=message) as caught:
        open_checkpoint(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "scaling"),
    [("llama", "rope_scaling"), ("llama_linear", "rope_scaling"), ("gpt_neox", "")],
)
def test_older_configs_say_the_same_with_other_fields(
    tmp_path: Path, name: str, scaling: str
) -> None:
    folder = Path(shutil.copytree(GOLDEN / name, tmp_path / "older"))
    config = json.loads((folder / "config.json").read_text())
    inside = config.pop("rope_parameters")
    if scaling:
        config["rope_theta"] = inside.pop("rope_theta")
        inside["type"] = inside.pop("rope_type")
        config[scaling] = inside
    else:
        config["rotary_emb_base"] = inside["rope_theta"]
        config["rotary_pct"] = inside["partial_rotary_factor"]
    (folder / "config.json").write_text(json.dumps(config))
    engine = open_checkpoint(folder).engine
    assert isinstance(engine, Decoder)
    assert engine.blueprint == decoder_of(name).blueprint
