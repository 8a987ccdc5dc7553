"""Branches of a session: what they share is computed once, and what they run is the same bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder_gui.debugger.branch_history import History, Limb, Shape
from decoder_gui.debugger.branches import Tree, shared_prefix
from decoder_gui.debugger.choosing import generate
from decoder_gui.debugger.editing import again_from, continued, patch_of, what_to_prefill
from decoder_gui.debugger.engine_room import EngineRoom, Rearranged, Redrawn, RoomUpdate
from decoder_gui.debugger.library import open_model
from decoder_gui.debugger.lines import Continuation
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import BranchBegan, Session
from model.ablation import ZeroHead, ZeroMlp
from model.checkpoints import LoadedModel
from model.engine import Activations, Cache, Engine, TokenIds
from model.errors import CacheExhausted, EditNotPossible
from model.sampling import SamplingConfig
from model.trace import Phase, Trace

PROMPT = {"stories": "Once upon a time there was a little cat named Tom.", "tiny": "The"}
GREEDY = SamplingConfig(temperature=0.0)


@pytest.fixture(scope="module", params=["stories", "tiny"])
def loaded(request: pytest.FixtureRequest) -> LoadedModel:
    return open_model(str(request.param))


@pytest.fixture(scope="module")
def stories() -> LoadedModel:
    return open_model("stories")


class Desk:
    """A room and the tree of its branches, as the window keeps them; counts what is walked."""

    def __init__(
        self, loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch, **options: Any
    ) -> None:
        self.room = EngineRoom()
        self.room._session = Session(loaded, **options)
        self.walked: list[int] = []  # positions of each pass
        engine = type(loaded.engine)
        original = engine.walk

        def walk(
            own: Engine, token_ids: TokenIds, cache: Cache, **options: Any
        ) -> Iterator[Activations]:
            self.walked.append(token_ids.shape[1])
            return original(own, token_ids, cache, **options)

        monkeypatch.setattr(engine, "walk", walk)
        self.tree = Tree.of(Run(self.session.engine, self.session.faults))

    @property
    def session(self) -> Session:
        return self.room.session

    @property
    def run(self) -> Run:
        return self.tree.active_branch.run

    @property
    def trace(self) -> Trace:
        return self.run.trace

    def prefill(self, tokens: int, config: SamplingConfig = GREEDY) -> None:
        loaded = self.session.loaded
        ids = loaded.tokenizer.encode(PROMPT[loaded.name])
        self.take_in(generate(self.session, ids, config, tokens))
        self.walked.clear()

    def take_in(self, updates: Iterable[RoomUpdate]) -> None:
        for update in updates:
            match update:
                case BranchBegan():
                    self.tree = self.tree.begun(update)
                case Rearranged(entered):
                    if entered is not None:
                        self.tree = self.tree.entered(entered)
                case Redrawn(step):
                    self.trace.replace_last(step)
                case _:
                    self.run.apply(update)  # type: ignore[arg-type]

    def decode(self, token: int, after: int | None = None) -> None:
        step = len(self.trace.steps) - 1 if after is None else after
        self.take_in(self.room.decode(step, token, drawn=True, reason=f"took {token}"))

    def switch(self, branch: int) -> None:
        self.take_in(self.room.rearrange(branch))


def arrays_of(trace: Trace) -> dict[tuple[int, str], bytes]:
    return {(step, name): array.tobytes() for step, name, array in trace.held()}


def fresh(loaded: LoadedModel, trace: Trace, **options: Any) -> Trace:
    """The steps of a trace in a session of their own."""
    session = Session(loaded, **options)
    run = Run(session.engine)
    for step in trace.steps:
        chunk = Continuation(step.phase, step.token_ids, step.checkpoint)
        for update in session.fork(step.first, [chunk]):
            if not isinstance(update, BranchBegan):
                run.apply(update)
    return run.trace


def cache_of(session: Session) -> bytes:
    shape = session.engine.shape
    parts = [session.cache.keys(i).tobytes() for i in range(shape.depth)]
    return b"".join(parts + [session.cache.values(i).tobytes() for i in range(shape.depth)])


def test_a_fork_keeps_the_line_it_leaves_and_computes_only_its_own(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(loaded, monkeypatch)
    desk.prefill(3)
    main = desk.trace
    before, length = arrays_of(main), desk.session.cache.length
    other = (main.steps[1].token_ids[0] + 1) % loaded.engine.shape.vocabulary
    desk.decode(other, after=0)
    assert desk.walked == [1], "only the token that was taken is computed"
    assert len(desk.tree) == 2
    assert desk.tree.active == 1
    assert desk.trace.token_ids == (*main.steps[0].token_ids, other)
    for name in ("logits", "blocks.0.attn.pattern"):
        assert desk.trace.array(0, name) is main.array(0, name), "the same objects"
    assert arrays_of(main) == before
    assert arrays_of(desk.trace) == arrays_of(fresh(loaded, desk.trace))
    held = dict(desk.session.lines.kept_bytes)
    per_position = desk.session.cache.bytes_reserved // desk.session.cache.capacity
    assert held == {0: (length - main.steps[0].last) * per_position, 1: 0}


def test_going_back_and_forth_computes_nothing_and_goes_on_bit_for_bit(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(loaded, monkeypatch)
    desk.prefill(2)
    vocabulary = loaded.engine.shape.vocabulary
    whole = cache_of(desk.session)
    desk.decode((desk.trace.steps[1].token_ids[0] + 1) % vocabulary, after=0)
    branch = cache_of(desk.session)
    desk.walked.clear()
    for _ in range(2):
        desk.switch(0)
        assert cache_of(desk.session) == whole
        desk.switch(1)
        assert cache_of(desk.session) == branch
    desk.switch(0)
    assert desk.walked == []
    desk.decode(1)
    assert arrays_of(desk.trace) == arrays_of(fresh(loaded, desk.trace))
    desk.switch(1)
    desk.decode(2 % vocabulary)
    assert arrays_of(desk.trace) == arrays_of(fresh(loaded, desk.trace))
    assert desk.session.steps == desk.trace.steps


def test_the_generator_follows_the_branch(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(stories, monkeypatch, seed=5)
    desk.prefill(4, SamplingConfig(temperature=0.8))
    uniforms = [step.uniform for step in desk.trace.steps]
    desk.decode(7, after=1)
    assert [step.uniform for step in desk.trace.steps] == uniforms[:3]
    desk.take_in(desk.room.redraw(1))
    redrawn = desk.trace.steps[1].uniform
    assert redrawn == uniforms[2], "the generator's next number"
    assert len(desk.tree) == 3
    assert len(desk.trace.steps) == 2
    desk.switch(0)
    assert [step.uniform for step in desk.trace.steps] == uniforms
    assert [step.uniform for step in desk.session.steps] == uniforms
    desk.switch(2)
    assert desk.session.steps[1].uniform == redrawn
    desk.switch(0)
    desk.decode(9)
    reference = np.random.Generator(np.random.PCG64(5))
    assert [step.uniform for step in desk.trace.steps] == list(reference.random(5))


@given(
    plan=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 30)), max_size=9)
)
@settings(max_examples=25, deadline=None)
def test_whatever_was_forked_each_branch_is_a_run_of_its_own(
    plan: list[tuple[int, int, int]],
) -> None:
    loaded = open_model("stories")
    with pytest.MonkeyPatch.context() as patch:
        desk = Desk(loaded, patch)
        desk.prefill(3)
        for branch, step, token in plan:
            desk.switch(branch % len(desk.tree))
            after = step % len(desk.trace.steps)
            desk.decode(token, after=after)
        assert len(desk.walked) == len(plan), "one pass a token, and none for going back"
        for held in desk.tree:
            desk.switch(held.id)
            assert desk.session.steps == held.run.trace.steps
            alone = fresh(loaded, held.run.trace)
            assert arrays_of(held.run.trace) == arrays_of(alone)
        assert len(desk.walked) == len(plan) + sum(len(b.run.trace.steps) for b in desk.tree)


def edit_text(desk: Desk, ids: Sequence[int]) -> int:
    shared = shared_prefix(ids, desk.trace.token_ids)
    position, chunk = what_to_prefill(desk.trace, ids, shared)
    parts = [continued(chunk)] if chunk else []
    desk.take_in(desk.room.fork(position, parts, reason="prompt"))
    return position


def test_another_prompt_from_a_position_is_a_second_chunk_of_prefill(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(stories, monkeypatch)
    desk.prefill(2)
    main = desk.trace
    old = main.token_ids
    ids = [*old[:5], 40, 41, 42]
    assert edit_text(desk, ids) == 5
    assert desk.walked == [3]
    assert [step.phase for step in desk.trace.steps] == [Phase.PREFILL, Phase.PREFILL]
    assert desk.trace.token_ids == tuple(ids)
    for step, name, array in desk.trace.held():
        if step == 0:
            whole = main.array(0, name)
            assert whole is not None
            assert np.shares_memory(array, whole)
            keys = array.shape[-1] if name.endswith(("scores", "pattern")) else None
            assert np.array_equal(array, whole[..., :5, :keys])
    assert len(desk.run.log_probabilities) == 8
    # The same two chunks in a session of their own, over the rows that the whole prompt left.
    session = Session(stories)
    list(session.prefill(main.steps[0].token_ids))
    session.cache.rewind(5)
    chunk = np.array([ids[5:]])
    walked = session.engine.walk(chunk, session.cache, all_logits=True)
    arrays = {name: array for made in walked for name, array in made.arrays.items()}
    for name, array in arrays.items():
        found = desk.trace.array(1, name)
        assert found is not None
        assert np.array_equal(found, array)
    # And one pass over the new prompt says the same within float32.
    session = Session(stories)
    run = Run(session.engine)
    for update in session.prefill(ids):
        run.apply(update)
    one, two = run.trace.logits(0), desk.trace.logits(1)
    assert one is not None
    assert two is not None
    np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)
    desk.walked.clear()
    desk.switch(0)
    assert desk.walked == []
    desk.decode(3)
    assert arrays_of(desk.trace) == arrays_of(fresh(stories, desk.trace))


def test_a_shortened_prompt_computes_nothing(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(stories, monkeypatch)
    desk.prefill(2)
    logits = desk.trace.array(0, "logits")
    assert logits is not None
    assert edit_text(desk, desk.trace.token_ids[:4]) == 4
    assert desk.walked == []
    shown = desk.trace.logits(0)
    assert shown is not None
    assert np.array_equal(shown, logits[0, 3])
    desk.decode(11)
    assert desk.walked == [1]
    assert desk.session.cache.length == 5


def test_where_the_last_logits_alone_were_kept_the_last_token_is_processed_again(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decoder_gui.debugger.session.PROMPT_LOGITS_BUDGET", 0)
    desk = Desk(stories, monkeypatch)
    desk.prefill(1)
    assert edit_text(desk, desk.trace.token_ids[:4]) == 3
    assert desk.walked == [1]
    assert desk.trace.logits(0) is None
    assert desk.trace.logits(1) is not None


def ablate(desk: Desk, step: int, *edits: Any) -> None:
    position = desk.trace.steps[step].first
    parts = again_from(desk.trace, position)
    desk.take_in(desk.room.fork(position, parts, edits=edits, reason="ablated"))


def test_an_ablation_from_a_step_runs_the_same_tokens_on_an_edited_engine(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(loaded, monkeypatch)
    desk.prefill(3)
    main = desk.trace
    first = main.steps[1].first
    ablate(desk, 1, ZeroHead(0, 0, first))
    assert desk.walked == [1, 1], "not the prefill"
    assert desk.trace.token_ids == main.token_ids
    assert [s.uniform for s in desk.trace.steps] == [s.uniform for s in main.steps]
    z = desk.trace.array(1, "blocks.0.attn.z")
    assert z is not None
    assert not z[:, 0].any()
    assert desk.trace.array(0, "blocks.0.attn.z") is main.array(0, "blocks.0.attn.z")
    assert desk.session.edits == (ZeroHead(0, 0, first),)
    engine = loaded.engine.with_edits([ZeroHead(0, 0, first)])
    logits = engine.forward(np.array([main.token_ids]), engine.new_cache())
    shown = desk.trace.logits(2)
    assert shown is not None
    np.testing.assert_allclose(shown, logits[0, -1], rtol=1e-3, atol=1e-4)
    desk.switch(0)
    assert not desk.session.edits
    desk.decode(1)
    assert arrays_of(desk.trace) == arrays_of(fresh(loaded, desk.trace))


def test_a_branch_of_an_ablated_branch_is_ablated_and_checks_hold_on_it(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(loaded, monkeypatch)
    desk.prefill(2)
    ablate(desk, 1, ZeroMlp(0, desk.trace.steps[1].first))
    desk.decode(1)
    desk.decode(0, after=1)
    assert desk.session.edits
    assert desk.session.edits == desk.tree.active_branch.edits
    ids = desk.trace.token_ids
    split = len(desk.trace.steps[0].token_ids)
    verdicts = [
        update.result  # type: ignore[union-attr]
        for update in desk.room.check(ids[:split], ids[split:], GREEDY)
    ]
    assert len(verdicts) > 5
    assert [verdict.name for verdict in verdicts if not verdict.holds] == []


def test_a_patch_takes_what_another_step_recorded(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(stories, monkeypatch)
    desk.prefill(3)
    main, name = desk.trace, "blocks.1.resid_mid"
    position = main.steps[2].first
    patch = patch_of(name, position, main, 4, head=None)
    assert patch.words == f"patched {name} at position {position} with position 4 of step 0"
    ablate(desk, 2, patch)
    found, source = desk.trace.array(2, name), main.array(0, name)
    assert found is not None
    assert source is not None
    assert np.array_equal(found[0, 0], source[0, 4])
    with pytest.raises(EditNotPossible, match="from another position"):
        patch_of("blocks.1.attn.pattern", position, main, 4, head=None)
    with pytest.raises(EditNotPossible, match="no position 99"):
        patch_of(name, position, main, 99, head=None)
    with pytest.raises(EditNotPossible, match="no head 7"):
        patch_of("blocks.1.attn.z", position, main, 4, head=7)
    with pytest.raises(EditNotPossible, match="not recorded"):
        patch_of("blocks.9.attn.z", position, main, 4, head=None)


def test_freeing_a_branch_frees_what_nobody_shares_and_bringing_it_back_runs_that_again(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(stories, monkeypatch)
    desk.prefill(3)
    main = desk.trace
    alone = desk.session.lines.spent
    desk.decode(7, after=0)
    desk.decode(8)
    branch = arrays_of(desk.trace)
    steps = desk.trace.steps
    assert desk.session.lines.spent > alone
    desk.take_in(desk.room.rearrange(0, remove=[1], known=[0, 1]))
    assert desk.session.lines.spent == alone
    assert dict(desk.session.lines.kept_bytes) == {0: 0}
    held = desk.tree[1].emptied()
    desk.tree = Tree((desk.tree[0], held), 0)
    desk.walked.clear()
    desk.take_in(desk.room.rearrange(1, put_back=[1], known=[0, 1]))
    assert desk.walked == [1, 1], "its own steps; the prefill is still there"
    assert desk.trace.array(0, "logits") is main.array(0, "logits")
    assert desk.trace.steps == steps
    assert arrays_of(desk.trace) == branch
    desk.take_in(desk.room.rearrange(0, remove=[1], known=[0]))
    with pytest.raises(KeyError):
        list(desk.room.rearrange(1, put_back=[1]))


def test_deleting_the_line_that_others_grew_from_leaves_them_whole(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(loaded, monkeypatch)
    desk.prefill(3)
    vocabulary = loaded.engine.shape.vocabulary
    other = (desk.trace.steps[1].token_ids[0] + 1) % vocabulary
    desk.decode(other, after=0)
    desk.decode(1)
    desk.decode(2 % vocabulary, after=1)
    desk.take_in(desk.room.rearrange(2, remove=[0, 1], known=[]))
    desk.walked.clear()
    desk.decode(3 % vocabulary)
    assert desk.walked == [1]
    assert arrays_of(desk.trace) == arrays_of(fresh(loaded, desk.trace))


@pytest.mark.parametrize("options", [{"faults": frozenset({"no-scale"})}, {"capacity": 60}])
def test_after_a_fault_or_another_context_branches_are_run_again_when_entered(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    desk = Desk(stories, monkeypatch)
    desk.prefill(3)
    desk.decode(7, after=0)
    ablate(desk, 1, ZeroMlp(1, desk.trace.steps[1].first))
    desk.switch(0)
    steps = {branch.id: branch.steps for branch in desk.tree}
    wanted = {"capacity": None, "faults": frozenset(), **options}
    updates = desk.room.rebuild(seed=1, steps=steps[0], **wanted)
    next(iter(updates))  # Opened
    desk.tree = desk.tree.emptied()
    desk.walked.clear()
    desk.take_in(updates)
    assert desk.walked == [len(steps[0][0].token_ids), 1, 1]
    assert [branch.planned for branch in desk.tree] == [(), steps[1], steps[2]]
    desk.walked.clear()
    for branch in (1, 2, 0, 1):
        desk.switch(branch)
        assert desk.trace.steps == steps[branch]
        assert not desk.tree[branch].planned
    assert desk.walked == [1, 1], "what the first branch has run again is shared again"
    assert arrays_of(desk.trace) == arrays_of(fresh(stories, desk.trace, **options))
    assert desk.trace.array(0, "logits") is desk.tree[0].run.trace.array(0, "logits")
    assert desk.tree[2].edits == (ZeroMlp(1, steps[1][1].first),)
    desk.switch(2)
    out = desk.trace.array(1, "blocks.1.mlp.out")
    assert out is not None
    assert not out.any()


def test_a_branch_whose_first_step_is_abandoned_is_forgotten(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(stories, monkeypatch)
    desk.prefill(3)
    before = cache_of(desk.session)
    updates = desk.room.decode(0, 7, drawn=True)
    for _ in range(20):
        next(updates)
    updates.close()  # type: ignore[attr-defined]
    assert [line.id for line in desk.session.lines] == [0]
    assert cache_of(desk.session) == before
    desk.decode(9)
    assert arrays_of(desk.trace) == arrays_of(fresh(stories, desk.trace))


def test_the_budget_counts_what_branches_share_once(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(stories, monkeypatch)
    desk.prefill(2)
    desk.decode(7, after=0)
    own = {id(a): a.nbytes for branch in desk.tree for _, _, a in branch.run.trace.held()}
    distinct = {}
    for branch in desk.tree:
        for step, name, array in branch.run.trace.held():
            distinct[id(array)] = array.nbytes
            assert own[id(array)] == array.nbytes, (step, name)
    both = sum(desk.tree.own_bytes().values())
    prefill = sum(
        a.nbytes for a in {id(a): a for step, _, a in desk.trace.held() if step == 0}.values()
    )
    assert both + prefill == sum(distinct.values())
    session = desk.session
    positions = {
        id(a): a.nbytes
        for branch in desk.tree
        for _, name, a in branch.run.trace.held()
        if name == "pos_embed"
    }
    counted = sum(distinct.values()) - sum(positions.values())  # those are rows of a weight
    assert session.lines.spent + session.memory.held == counted


def test_what_does_not_fit_begins_no_branch(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = stories.tokenizer.encode(PROMPT["stories"])
    desk = Desk(stories, monkeypatch, capacity=len(ids) + 1)
    desk.prefill(2)
    with pytest.raises(CacheExhausted):
        list(desk.session.fork(3, [continued(range(len(ids)))]))
    with pytest.raises(EditNotPossible):
        list(desk.session.fork(3, [continued([1])], edits=[ZeroHead(99, 0)]))
    assert [line.id for line in desk.session.lines] == [0]


# ---- the tree


LIMBS = Shape(
    (
        Limb(0, "main"),
        Limb(1, "branch 1", 0, 4),
        Limb(2, "branch 2", 1, 8),
        Limb(3, "branch 3", 0, 6),
    ),
    2,
)


def test_without_a_branch_those_that_grew_from_it_grow_from_its_parent() -> None:
    less = LIMBS.without(1)
    assert less.limbs == (Limb(0, "main"), Limb(2, "branch 2", 0, 4), Limb(3, "branch 3", 0, 6))
    assert less.active == 2
    assert LIMBS.without(2).active == 1


def test_without_the_first_branch_its_first_child_takes_its_place() -> None:
    less = LIMBS.without(0)
    assert less.limbs == (
        Limb(1, "branch 1"),
        Limb(2, "branch 2", 1, 8),
        Limb(3, "branch 3", 1, 4),
    )


@given(
    actions=st.lists(
        st.one_of(
            st.tuples(st.just("name"), st.integers(0, 5)),
            st.tuples(st.just("without"), st.integers(0, 5)),
            st.tuples(st.just("undo"), st.just(0)),
            st.tuples(st.just("redo"), st.just(0)),
        ),
        max_size=20,
    )
)
def test_undo_and_redo_are_inverses(actions: list[tuple[str, int]]) -> None:
    history, shape = History(), LIMBS
    for action, number in actions:
        if action in ("undo", "redo"):
            there, back = history.undo, history.redo
            if action == "redo":
                there, back = back, there
            words = history.undo_words if action == "undo" else history.redo_words
            target = there(shape)
            assert (target is None) == (not words)
            if target is None:
                continue
            assert back(target) == shape
            assert there(shape) == target
            shape = target
            continue
        limb = shape.limbs[number % len(shape.limbs)]
        if action == "without" and len(shape.limbs) == 1:
            continue
        after = shape.named(limb.id, f"n{number}") if action == "name" else shape.without(limb.id)
        history.record(action, shape)
        assert not history.redo_words
        assert history.undo(after) == shape
        assert history.redo(shape) == after
        shape = after
    while (earlier := history.undo(shape)) is not None:
        shape = earlier
    assert shape == LIMBS


def test_what_branches_share_follows_from_where_they_grew(
    stories: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(stories, monkeypatch)
    desk.prefill(5)
    first = [step.first for step in desk.trace.steps]
    desk.decode(7, after=1)
    desk.decode(8)
    desk.decode(9)
    desk.decode(10, after=3)
    desk.switch(0)
    desk.decode(11, after=0)
    tree = desk.tree
    assert tree.shared(0, 1) == tree.shared(1, 0) == first[2]
    assert tree.shared(1, 2) == first[4]
    assert tree.shared(0, 2) == first[2]
    assert tree.shared(2, 3) == tree.shared(0, 3) == first[1]
    assert tree.shared(2, 2) == tree[2].positions


def test_the_shared_beginning_of_two_texts() -> None:
    assert shared_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert shared_prefix([1, 2], [1, 2, 4]) == 2
    assert shared_prefix([], [1]) == 0
