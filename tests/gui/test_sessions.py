"""Sessions saved and opened again in a window: branches, draws, breakpoints, watches, layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from decoder_gui.change import Change
from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.saving.session_file import SavedSession
from decoder_gui.debugger.saving.session_reading import read
from decoder_gui.debugger.stopping.rules.places import AtEvent
from decoder_gui.debugger.stopping.spots import Spot
from decoder_gui.waiting import wait_until
from tests.gui.conftest import settle

Make = Callable[..., AppContext]


def busy_session(context: AppContext) -> None:
    """Two branches besides the main one, a breakpoint, a watch, a cursor in the middle."""
    settle(context)
    context.seek(Cursor(2, 10))
    token = next(
        candidate.token_id
        for candidate in context.moment.candidates  # type: ignore[union-attr]
        if (candidate.token_id,) != context.trace.steps[3].token_ids  # type: ignore[union-attr]
    )
    context.choices.take(token)
    settle(context)
    context.branches.zero_head(1, 2, 1)
    settle(context)
    context.branches.rename(context.branches.tree.active, "without head 1.2")
    context.stops.add(AtEvent(2, "blocks.0.attn.pattern"))
    context.watches.add(Spot("blocks.0.mlp.out", position=1, index=3))
    context.set_sampling(temperature=0.7, top_k=12)
    context.select(layer=2, head=3)
    context.seek(Cursor(1, 17))


def test_everything_is_there_again_bit_for_bit(make_context: Make, tmp_path: Path) -> None:
    one = make_context("stories", "Once upon a time there was a cat.", tokens=5)
    busy_session(one)
    path = one.sessions.save(tmp_path / "cats")
    assert path == tmp_path / "cats.session.json"
    two = make_context("tiny", "The cat")
    assert two.sessions.open(path)
    settle(two)
    assert two.model is not None
    assert two.model.name == "stories"
    old, new = one.branches.tree, two.branches.tree
    assert [branch.limb for branch in new] == [branch.limb for branch in old]
    assert [branch.reason for branch in new] == [branch.reason for branch in old]
    assert [branch.steps for branch in new] == [branch.steps for branch in old]
    assert new.active == old.active
    assert two.cursor == one.cursor == Cursor(1, 17)
    assert two.sampling == one.sampling
    assert two.selection.layer == 2
    assert list(two.stops.items) == list(one.stops.items)
    assert [item.spot for item in two.watches.items] == [item.spot for item in one.watches.items]
    for branch in list(new):
        one.branches.switch(branch.id)
        two.branches.switch(branch.id)
        settle(one)
        settle(two)
        assert one.trace is not None
        assert two.trace is not None
        arrays = list(one.trace.held())
        assert len(arrays) == len(list(two.trace.held()))
        for step, name, array in arrays:
            again = two.trace.array(step, name)
            assert again is not None
            assert np.array_equal(again, array), f"{branch.name}: {name} of step {step}"


def test_a_session_that_goes_on_draws_what_it_would_have_drawn(
    make_context: Make, tmp_path: Path
) -> None:
    one = make_context("stories", "Once upon a time there was a cat.", tokens=3)
    path = one.sessions.save(tmp_path / "a.session.json")
    assert path is not None
    two = make_context("tiny", "The cat")
    assert two.sessions.open(path)
    settle(two)
    for context in (one, two):
        context.go_last()
        for _ in range(4):
            context.move(1)
            settle(context)
            context.go_last()
    assert one.trace is not None
    assert two.trace is not None
    assert one.trace.token_ids == two.trace.token_ids
    assert [s.uniform for s in one.trace.steps] == [s.uniform for s in two.trace.steps]


def test_shared_steps_are_run_once(make_context: Make, tmp_path: Path) -> None:
    one = make_context("stories", "Once upon a time there was a cat.", tokens=5)
    busy_session(one)
    path = one.sessions.save(tmp_path / "a")
    assert path is not None
    two = make_context("tiny", "The cat")
    assert two.sessions.open(path)
    settle(two)
    tree = two.branches.tree
    first = next(branch for branch in tree if branch.limb.parent is None)
    two.branches.switch(first.id)
    settle(two)
    left = tree.active_branch.run.trace
    right = two.branches.tree[first.id].run.trace
    assert left.array(0, "logits") is right.array(0, "logits")


def test_a_model_that_moved_is_asked_for_and_another_one_refused(
    make_context: Make, tmp_path: Path
) -> None:
    one = make_context("stories", "Once upon a time", tokens=2)
    path = one.sessions.save(tmp_path / "a")
    assert path is not None
    text = path.read_text().replace('"spec":"stories"', '"spec":"/nowhere/stories"')
    path.write_text(text)
    two = make_context("tiny", "The cat")
    said: list[str] = []
    two.notice.connect(said.append)
    asked: list[Path] = []

    def give_up(_: SavedSession, where: Path) -> str:
        asked.append(where)
        return ""

    two.sessions.moved = give_up
    assert not two.sessions.open(path)
    assert asked == [Path("/nowhere/stories")]
    assert "not where it was" in said[-1]
    before = two.sampling
    two.sessions.moved = lambda session, where: "tiny"
    assert two.sessions.open(path)
    settle(two)
    assert "another model" in said[-1]
    assert two.model is not None
    assert two.model.name == "tiny"  # the one in hand stays
    assert two.sampling == before
    two.sessions.moved = lambda session, where: "stories"
    assert two.sessions.open(path)
    settle(two)
    assert two.model.name == "stories"


def test_what_cannot_be_opened_leaves_the_session_in_hand(
    make_context: Make, tmp_path: Path
) -> None:
    context = make_context("stories", "Once upon a time", tokens=2)
    said: list[str] = []
    context.notice.connect(said.append)
    path = context.sessions.save(tmp_path / "a")
    assert path is not None
    trace = context.trace
    session = read(path)
    path.write_text(
        path.read_text().replace(
            f'"token_ids":[{session.branches[0].steps[1].token_ids[0]}]', '"token_ids":[99999]'
        )
    )
    assert context.sessions.open(path)
    assert wait_until(lambda: context.idle)
    assert "token 99999" in said[-1]
    assert context.trace is trace
    path.write_text("nothing")
    assert not context.sessions.open(path)
    assert context.trace is trace


@pytest.mark.parametrize("model", ["tiny", "stories"])
def test_faults_and_context_are_those_of_the_file(
    make_context: Make, tmp_path: Path, model: str
) -> None:
    prompt = "The cat" if model == "tiny" else "Once upon a time"
    one = make_context(model, prompt, tokens=1)
    one.set_fault("no-scale", True)
    settle(one)
    if model == "stories":
        one.set_capacity(32)
        settle(one)
    path = one.sessions.save(tmp_path / "a")
    assert path is not None
    two = make_context(model, prompt)
    assert two.sessions.open(path)
    settle(two)
    assert two.faults == {"no-scale"}
    assert two.capacity == one.capacity


def test_a_session_that_is_opened_stands_still(make_context: Make, tmp_path: Path) -> None:
    one = make_context("stories", "Once upon a time", tokens=3)
    one.seek(Cursor(1, 4))
    path = one.sessions.save(tmp_path / "a")
    assert path is not None
    one.toggle_play()
    assert one.playing
    assert one.sessions.open(path)
    settle(one)
    assert not one.playing
    assert one.cursor == Cursor(1, 4)


def test_what_was_asked_of_the_model_before_is_heard_after_a_new_one_is_told(
    make_context: Make,
) -> None:
    """Both are reported at once, and a panel that hears of a lens draws it over the new model."""
    context = make_context("tiny", "The cat")
    told: list[str] = []
    context.changed.connect(lambda change: told.append("new") if change & Change.MODEL else None)
    context.open_model("stories")
    context.lens.submit("Late", lambda: iter((1,)), heard=lambda _: told.append(context.spec))
    while not context._link._worker.idle:  # nothing is reported while events are not handled
        sleep(0.01)
    settle(context)
    assert told == ["new", "stories"]
