"""The tiny decoder against numbers worked out by hand, and against itself without its cache."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from model import tiny
from model.errors import ContextOverflow, EmptyPrompt, ShapeMismatch, UnknownToken
from model.wiring import Wiring

GOLDEN: dict[str, list[float]] = {
    "embedding": [0.0, 1.0],
    "position_vector": [0.1, -0.1],
    "x": [0.1, 0.9],
    "normalized": [0.156174, 1.405562],
    "query": [0.078087, 0.702781],
    "key": [-0.265495, 1.436797],
    "value": [0.156174, 0.702781],
    "scores": [0.218643, 0.699344],
    "attention_weights": [0.382087, 0.617913],
    "mixed": [0.636853, 0.434258],
    "attention_update": [0.405278, 0.280814],
    "attention_residual": [0.505278, 1.180814],
    "ffn_normalized": [0.556355, 1.300179],
    "ffn_expanded": [1.206445, 0.743824, -0.371912],
    "ffn_activated": [1.206445, 0.743824, 0.0],
    "ffn_update": [0.241289, 0.148765],
    "block_output": [0.746567, 1.329579],
    "final": [0.692403, 1.233117],
    "logits": [-0.962760, 0.261792, 1.233117, 0.692403],
    "probabilities": [0.053693, 0.182698, 0.482585, 0.281025],
}


def six(numbers: object) -> object:
    return pytest.approx(numbers, abs=5.1e-7, rel=0)


def test_every_key_of_the_worked_example() -> None:
    traces, cache = tiny.prefill(tiny.tokenize("The cat"))
    last = dict(traces[-1])
    assert set(last) == {*GOLDEN, "selected_id"}
    for key, numbers in GOLDEN.items():
        assert last[key] == six(numbers), key
    assert tiny.VOCAB[traces[-1]["selected_id"]] == "sat"
    assert len(cache.keys) == len(cache.values) == 2


def test_decoding_the_worked_example() -> None:
    traces, cache = tiny.prefill(tiny.tokenize("The cat"))
    decoded = tiny.decode_step(traces[-1]["selected_id"], cache)
    assert decoded["probabilities"] == six([0.067904, 0.191047, 0.154313, 0.586736])
    assert tiny.VOCAB[decoded["selected_id"]] == "."
    assert len(cache.keys) == 3
    assert tiny.decode([0, 1, 2, 3]) == "The cat sat ."


@pytest.mark.parametrize("ids", [[0], [3, 3], [0, 1, 2], [2, 0, 3, 1]])
def test_cached_and_full_passes_agree(ids: list[int]) -> None:
    cache = tiny.KVCache()
    cached = [tiny.decode_step(token_id, cache) for token_id in ids]
    for ours, theirs in zip(cached, tiny.full_forward(ids), strict=True):
        for key, numbers in ours.items():
            assert numbers == pytest.approx(dict(theirs)[key], abs=1e-12, rel=1e-12), key


def test_a_chunk_on_a_filled_cache_agrees_with_one_pass() -> None:
    cache = tiny.KVCache()
    traces = [*tiny.run_pass([0], cache), *tiny.run_pass([1, 2, 3], cache)]
    assert traces == tiny.full_forward([0, 1, 2, 3])


def test_an_earlier_position_does_not_depend_on_a_later_token() -> None:
    for later in range(4):
        assert tiny.full_forward([0, 1, later])[:2] == tiny.full_forward([0, 1])


def test_a_trace_is_not_changed_by_later_steps() -> None:
    traces, cache = tiny.prefill([0, 1])
    kept = list(traces[-1]["key"])
    cache.keys[-1][0] = 99.0
    assert traces[-1]["key"] == kept


def test_without_the_mask_a_query_has_a_score_for_every_key() -> None:
    traces = tiny.full_forward([0, 1, 2], wiring=Wiring(lookahead=None))
    assert [len(trace["scores"]) for trace in traces] == [3, 3, 3]
    traces = tiny.full_forward([0, 1, 2], wiring=Wiring(lookahead=1))
    assert [len(trace["scores"]) for trace in traces] == [2, 3, 3]


def test_without_the_scale_scores_grow_by_the_root_of_the_width() -> None:
    sound = tiny.full_forward([0, 1])[-1]["scores"]
    unscaled = tiny.full_forward([0, 1], wiring=Wiring(scaled=False))[-1]["scores"]
    assert unscaled == pytest.approx([score * 2**0.5 for score in sound])


def test_restarted_positions_and_a_stale_cache_touch_only_decoding() -> None:
    for wiring in (Wiring(restart_positions=True), Wiring(stale_cache=True)):
        traces, cache = tiny.prefill([0, 1], wiring=wiring)
        assert traces == tiny.full_forward([0, 1])
        assert tiny.decode_step(2, cache, wiring=wiring) != tiny.full_forward([0, 1, 2])[-1]
        assert len(cache.keys) == 3


def test_nan_is_not_hidden_by_the_relu() -> None:
    weights = replace(tiny.COEFFICIENTS, w_up=((float("nan"), 0.0, 0.0), (0.0, 0.0, 0.0)))
    activated = tiny.full_forward([0], weights=weights)[0]["ffn_activated"]
    assert activated[0] != activated[0]
    assert activated[1:] == [0.0, 0.0]


def test_an_unknown_word_is_named_and_the_vocabulary_listed() -> None:
    with pytest.raises(UnknownToken, match=r"'dog' .*The, cat, sat, \."):
        tiny.tokenize("The dog")
    with pytest.raises(UnknownToken, match=r"'cat\.'"):
        tiny.tokenize("The cat.")


@pytest.mark.parametrize("token_id", [-1, 4])
def test_an_unknown_id_is_refused_everywhere(token_id: int) -> None:
    for refused in (
        lambda: tiny.full_forward([token_id]),
        lambda: tiny.decode([token_id]),
        lambda: tiny.decode_step(token_id, tiny.KVCache()),
        lambda: tiny.head_only_training_step([1.0, 1.0], token_id),
    ):
        with pytest.raises(UnknownToken, match=f"{token_id} .*The=0"):
            refused()


def test_nothing_to_process_is_refused() -> None:
    assert tiny.tokenize("  ") == []
    for refused in (tiny.full_forward, tiny.prefill):
        with pytest.raises(EmptyPrompt, match="at least one token"):
            refused([])


def test_a_fifth_position_is_refused_and_leaves_the_cache_alone() -> None:
    with pytest.raises(ContextOverflow, match=r"5 tokens .* 4 positions"):
        tiny.full_forward([0, 1, 2, 3, 0])
    _, cache = tiny.prefill([0, 1, 2, 3])
    with pytest.raises(ContextOverflow, match=r"5 tokens .* 4 positions"):
        tiny.decode_step(0, cache)
    assert len(cache.keys) == 4


def test_a_matrix_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeMismatch, match=r"3 inputs .* 2 rows"):
        tiny.project([1.0, 2.0, 3.0], ((1.0,), (2.0,)))


def test_head_only_training_lowers_the_loss_on_a_copy() -> None:
    before = tiny.COEFFICIENTS
    final = tiny.full_forward([0, 1])[-1]["final"]
    head, gradients, old, new = tiny.head_only_training_step(final, tiny.TOKEN_IDS["sat"])
    assert (old, new) == six((0.728599, 0.654798))
    assert tiny.COEFFICIENTS is before
    assert before.w_lm == tiny.Coefficients().w_lm
    assert head[1][2] == pytest.approx(before.w_lm[1][2] - 0.1 * gradients[1][2])


def test_the_gradients_are_those_of_finite_differences() -> None:
    final = tiny.full_forward([0, 1])[-1]["final"]
    gradients = tiny.head_only_training_step(final, 2).gradients
    for i in range(2):
        for j in range(4):
            losses = []
            for nudge in (1e-6, -1e-6):
                head = [list(row) for row in tiny.COEFFICIENTS.w_lm]
                head[i][j] += nudge
                losses.append(tiny.cross_entropy(tiny.project(final, head), 2))
            assert gradients[i][j] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-8)


def test_it_needs_nothing_but_the_standard_library() -> None:
    code = (
        "import sys\n"
        "sys.modules['numpy'] = None\n"
        "from model import tiny\n"
        "tiny.main()\n"
        "foreign = {name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(sorted(name for name in foreign if name in ('safetensors', 'tokenizers')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("[]\n")


def test_it_prints_the_worked_example() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "model.tiny"], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert "[-0.962760, 0.261792, 1.233117, 0.692403]" in done.stdout
    assert "0.728599 -> 0.654798" in done.stdout
