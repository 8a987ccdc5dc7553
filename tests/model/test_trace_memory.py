"""A budget is kept to, what was looked at last stays, and nothing is counted that nobody holds."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model import trace_memory
from model.engine import Array
from model.trace_memory import Block, FirstRows, Recorded, TraceMemory

KILO = 250  # float32


@pytest.fixture(autouse=True)
def nothing_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_memory, "SPARE", 0)


def array(kilobytes: int = 1) -> Array:
    return np.zeros(KILO * kilobytes, dtype=np.float32)


def filled(memory: TraceMemory, kilobytes: int = 1, **how: bool) -> Block:
    block = Block(memory)
    memory.add(block, {"a": array(kilobytes)}, **how)
    return block


def test_the_block_looked_at_longest_ago_gives_way_as_a_whole() -> None:
    memory = TraceMemory(3000)
    first, second, third = (filled(memory) for _ in range(3))
    assert first["a"].size == KILO  # looked at
    fourth = filled(memory)
    assert [len(block) for block in (first, second, third, fourth)] == [1, 0, 1, 1]
    assert memory.held == 3000
    with pytest.raises(KeyError):
        second["a"]


def test_whether_a_block_is_there_can_be_asked_without_looking_at_it() -> None:
    memory = TraceMemory(2000)
    first, second = filled(memory), filled(memory)
    assert "a" in first
    assert list(first) == ["a"]
    filled(memory)
    assert not first
    assert second


def test_what_is_kept_for_good_is_part_of_the_budget() -> None:
    memory = TraceMemory(3000)
    first = filled(memory)
    memory.fixed = 2000
    second = filled(memory)
    assert (len(first), len(second), memory.held) == (0, 1, 1000)
    memory.fixed = 5000
    assert not filled(memory)
    assert memory.held == 0


def test_room_can_be_made_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = TraceMemory(4000)
    memory.fixed = 1000
    blocks = [filled(memory) for _ in range(3)]
    memory.expect(2000)
    assert [len(block) for block in blocks] == [0, 0, 1]
    memory.expect(9000)
    assert memory.held == 0
    monkeypatch.setattr(trace_memory, "SPARE", 4000)
    memory.budget = 0
    blocks = [filled(memory, whatever=True) for _ in range(3)]
    memory.expect(2000, whatever=True)
    assert [len(block) for block in blocks] == [0, 1, 1]


def test_what_is_kept_for_good_pushes_out_the_rest_at_once() -> None:
    memory = TraceMemory(3000)
    blocks = [filled(memory) for _ in range(3)]
    memory.fixed = 1500
    assert [len(block) for block in blocks] == [0, 0, 1]


def test_a_block_that_does_not_fit_is_kept_only_where_somebody_waits_for_it() -> None:
    memory = TraceMemory(1500)
    small = filled(memory)
    assert not filled(memory, 2)
    assert not small  # it had to go first
    waited_for = filled(memory, 4, whatever=True)
    assert waited_for
    memory.add(waited_for, {"b": array(4)}, whatever=True)
    assert set(waited_for) == {"a", "b"}
    assert memory.held == 8000
    assert filled(memory)
    assert not waited_for


def test_a_few_recomputed_blocks_are_held_whatever_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace_memory, "SPARE", 3000)
    memory = TraceMemory(0)
    assert not filled(memory)
    blocks = [filled(memory, whatever=True) for _ in range(4)]
    assert [len(block) for block in blocks] == [0, 1, 1, 1]


def test_an_array_with_two_names_is_counted_once() -> None:
    memory = TraceMemory(3000)
    block, one = Block(memory), array()
    memory.add(block, {"a": one, "b": one})
    assert memory.held == 1000


def test_blocks_that_nobody_holds_take_no_room() -> None:
    memory = TraceMemory(3000)
    blocks = [filled(memory) for _ in range(3)]
    del blocks[1:]
    gc.collect()
    assert memory.held == 1000
    others = filled(memory), filled(memory)
    assert all(others)
    assert all(blocks)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["new", "more", "look", "drop", "fix"]), st.integers(0, 5)),
        max_size=60,
    )
)
def test_the_count_is_always_what_the_blocks_hold(actions: list[tuple[str, int]]) -> None:
    memory = TraceMemory(6000)
    blocks: list[Block] = []
    for number, (action, which) in enumerate(actions):
        if action == "new":
            blocks.append(filled(memory, which))
        elif action == "fix":
            memory.fixed = which * 1000
        elif blocks:
            block = blocks[which % len(blocks)]
            if action == "more":
                memory.add(block, {f"b{number}": array(which)})
            elif action == "look":
                block.get("a")
            else:
                del blocks[which % len(blocks)], block
        block = None  # type: ignore[assignment]  # or it would be held here
        held = sum(array.nbytes for each in blocks for array in each._arrays.values())
        assert memory.held == held
        if action in ("new", "more"):
            assert held <= max(0, memory.budget - memory.fixed)


def test_another_thread_may_look_while_blocks_give_way() -> None:
    memory = TraceMemory(20_000)
    blocks = [filled(memory) for _ in range(20)]
    problems: list[BaseException] = []
    done = threading.Event()

    def look() -> None:
        try:
            while not done.is_set():
                for block in list(blocks):
                    found = block.get("a")
                    assert found is None or found.size == KILO
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(2000):
        blocks.append(filled(memory))
        if len(blocks) > 40:
            del blocks[:10]
    done.set()
    thread.join()
    assert not problems
    assert memory.held <= 20_000


def test_an_operation_has_what_is_kept_and_what_its_block_still_has() -> None:
    memory = TraceMemory(3000)
    block, stays = Block(memory), array()
    memory.add(block, {"a": array(), "other": array()})
    recorded = Recorded({"kept": stays}, ("a",), block)
    assert dict(recorded).keys() == {"kept", "a"}
    assert len(recorded) == 2
    assert "other" not in recorded
    with pytest.raises(KeyError):
        recorded["other"]
    filled(memory, 3)
    assert dict(recorded) == {"kept": stays}
    assert "a" not in recorded
    assert recorded.get("a") is None


def test_the_first_rows_of_a_pass_are_views_and_hold_nothing_alive() -> None:
    memory = TraceMemory(10**6)
    block = Block(memory)
    square = np.arange(2 * 5 * 7, dtype=np.float32).reshape(1, 2, 5, 7)
    memory.add(block, {"square": square, "logits": np.zeros((1, 1, 9))})
    cut = FirstRows(block, 3, 5, 4)
    assert list(cut) == ["square"]
    assert "logits" not in cut
    np.testing.assert_array_equal(cut["square"], square[:, :, :3, :4])
    assert np.shares_memory(cut["square"], square)
    memory.budget = 0
    filled(memory)
    assert not block
    assert cut.get("square") is None


def test_small_blocks_do_not_push_out_the_newest_large_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace_memory, "LARGE", 4000)
    memory = TraceMemory(6000)
    large = filled(memory, 4)
    small = [filled(memory) for _ in range(4)]
    assert large
    assert [len(block) for block in small] == [0, 0, 1, 1]
    assert not filled(memory, 3)  # not large, and no room beside it
    assert not any(small)
    another = filled(memory, 5)
    assert another
    assert not large
    memory.fixed = 2000  # what is kept for good goes first
    assert not another
