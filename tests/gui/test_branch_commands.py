"""Commands on branches, through a context with a worker: fork, go back, delete, undo, ablate."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decoder_gui.context import AppContext
from decoder_gui.debugger.branches import Branch
from decoder_gui.debugger.cursor import Cursor, Granularity
from decoder_gui.viewdata.branches import build_branches
from decoder_gui.viewdata.kv_cache import build_kv_cache
from decoder_gui.viewdata.token_strip import build_status
from decoder_gui.viewdata.values import build_values
from decoder_gui.waiting import wait_until
from model.trace import Phase, Trace
from tests.gui.conftest import settle as settle_with_checks

STORY = "Once upon a time there was a little cat named Tom."


@pytest.fixture
def context(make_context: Callable[..., AppContext]) -> AppContext:
    """Five decoded tokens, greedily."""
    return make_context("stories", STORY, tokens=6, temperature=0.0)


def settle(context: AppContext) -> None:
    """Wait until the session has nothing to do; checks may run on."""
    assert wait_until(lambda: not context.running)


def listen(context: AppContext) -> list[str]:
    heard: list[str] = []
    context.notice.connect(heard.append)
    return heard


def go_to(context: AppContext, step: int) -> None:
    assert context.trace is not None
    context.seek(Cursor(step, len(context.trace.operations) - 1))


def take_other(context: AppContext, step: int, rank: int = 1) -> int:
    """Take another token than the one taken after a step."""
    go_to(context, step)
    assert context.moment is not None
    taken = [choice.token_id for choice in context.moment.choices[step : step + 1]]
    others = [c.token_id for c in context.moment.candidates if c.token_id not in taken]
    context.take(others[rank])
    settle(context)
    return others[rank]


def names(context: AppContext) -> list[str]:
    return [branch.name for branch in context.branches.tree]


def active(context: AppContext) -> Branch:
    branch = context.branches.active
    assert branch is not None
    return branch


def trace_of(context: AppContext) -> Trace:
    assert context.trace is not None
    return context.trace


def test_taking_another_token_keeps_the_line_as_a_branch(context: AppContext) -> None:
    old = trace_of(context)
    token = take_other(context, 2)
    assert names(context) == ["main", "branch 1"]
    branch = active(context)
    assert branch.limb.parent == 0
    assert branch.limb.position == old.steps[2].last
    assert context.model is not None
    piece = context.model.tokenizer.piece(token).text
    assert branch.reason == f"took “{piece}” after step 2"
    assert len(old.steps) == 6
    assert trace_of(context).array(1, "logits") is old.array(1, "logits")
    context.branches.switch(0)
    settle(context)
    assert context.trace is old
    assert context.cursor == Cursor(3, len(old.operations) - 1), "the same step"
    context.go_last()
    context.move(1)
    settle(context)
    assert len(trace_of(context).steps) == 7


def test_taking_what_was_taken_goes_there(context: AppContext) -> None:
    heard = listen(context)
    old = trace_of(context)
    token = take_other(context, 2)
    context.branches.switch(0)
    settle(context)
    go_to(context, 2)
    context.take(old.steps[3].token_ids[0])
    settle(context)
    assert len(context.branches.tree) == 2
    assert context.cursor == Cursor(3, len(old.operations) - 1)
    go_to(context, 2)
    context.take(token)
    settle(context)
    assert len(context.branches.tree) == 2
    assert active(context).name == "branch 1"
    assert context.cursor == Cursor(3, len(old.operations) - 1)
    assert heard[-1] == "That token was taken before, in branch 1: this is it."


def test_changing_the_sampling_draws_nothing_and_stepping_on_begins_a_branch(
    make_context: Callable[..., AppContext],
) -> None:
    context = make_context("stories", STORY, tokens=6, temperature=0.9, seed=3)
    old = trace_of(context)
    context.set_granularity(Granularity.TOKEN)
    go_to(context, 0)
    for _ in range(5):
        context.move(1)
    settle(context)
    assert len(context.branches.tree) == 1, "under the same settings the recording is followed"
    go_to(context, 1)
    for temperature in np.linspace(2.0, 30.0, 15):
        context.set_sampling(temperature=float(temperature))
        moment = context.moment
        assert moment is not None
        assert moment.landing is not None
        if moment.landing.token_id != old.steps[2].token_ids[0]:
            break
    assert moment is not None
    assert moment.landing is not None
    landing = moment.landing.token_id
    settle(context)
    assert context.trace is old
    context.move(1)
    settle(context)
    assert names(context) == ["main", "branch 1"]
    assert trace_of(context).steps[2].token_ids == (landing,)
    assert active(context).reason.startswith("sampled “")
    assert context.cursor == Cursor(2, len(old.operations) - 1)
    go_to(context, 1)
    context.move(1)
    settle(context)
    assert len(context.branches.tree) == 2, "now it is what these settings choose"


def test_a_token_taken_by_hand_stays_under_other_settings(context: AppContext) -> None:
    take_other(context, 2)
    context.set_sampling(temperature=5.0)
    context.set_granularity(Granularity.TOKEN)
    go_to(context, 2)
    context.move(1)
    settle(context)
    assert len(context.branches.tree) == 2


def test_drawing_anew_at_an_earlier_step_keeps_what_follows(context: AppContext) -> None:
    context.set_sampling(temperature=0.8)
    old = trace_of(context)
    uniform = old.steps[2].uniform
    go_to(context, 2)
    context.resample()
    settle(context)
    assert names(context) == ["main", "branch 1"]
    assert active(context).reason == "drew anew after step 2"
    assert len(trace_of(context).steps) == 3
    assert trace_of(context).steps[2].uniform != uniform
    assert old.steps[2].uniform == uniform


@pytest.mark.checked
def test_another_text_shares_what_it_begins_with(context: AppContext) -> None:
    old = trace_of(context)
    context.branches.edit_prompt("Once upon a time there was a big dog")
    settle_with_checks(context)
    new = trace_of(context)
    assert context.branches.text(1) == "Once upon a time there was a big dog"
    shared = active(context).limb.position
    assert new.token_ids[:shared] == old.token_ids[:shared]
    assert [step.phase for step in new.steps] == [Phase.PREFILL, Phase.PREFILL]
    array, whole = new.array(0, "blocks.0.resid_pre"), old.array(0, "blocks.0.resid_pre")
    assert array is not None
    assert whole is not None
    assert np.shares_memory(array, whole)
    assert active(context).reason == f"prompt changed from position {shared}"
    assert context.moment is not None
    assert build_kv_cache(context.moment).slab.prefill == len(new.token_ids)
    assert context.at_end
    assert all(check.holds for check in context.checks)
    assert len(context.checks) > 5
    context.move(1)
    settle(context)
    assert trace_of(context).steps[-1].phase is Phase.DECODE
    heard = listen(context)
    context.branches.edit_prompt(context.branches.text(1))
    assert heard == ["The text is the same: there is nothing to branch for."]


@pytest.mark.checked
def test_an_ablated_head_is_zero_and_the_checks_are_of_the_edited_engine(
    context: AppContext,
) -> None:
    old = trace_of(context)
    here = Cursor(3, 4)
    context.seek(here)
    context.branches.zero_head(2, 1, 3)
    settle_with_checks(context)
    new = trace_of(context)
    assert new.token_ids == old.token_ids
    assert context.cursor == here
    z, logits = new.array(3, "blocks.2.attn.z"), new.logits(3)
    assert z is not None
    assert not z[:, 1].any()
    assert z[:, 0].any()
    before = old.logits(3)
    assert before is not None
    assert logits is not None
    assert not np.array_equal(logits, before)
    assert active(context).reason == "zeroed head 2.1 from step 3"
    chips = build_status(context.moment, context.checks, pending=False)
    (edited,) = [chip for chip in chips if chip.text == "Edited"]
    assert "zeroed head 2.1 from position" in edited.detail
    assert "display" in {check.name for check in context.checks}
    context.seek(Cursor(3, new.producer("blocks.2.attn.z")))
    context.select(head=1)
    assert context.moment is not None
    values = build_values(context.moment)
    assert values is not None
    assert values.disagreement.endswith("This run is edited: zeroed head 2.1.")
    context.select(head=0)
    values = build_values(context.moment)
    assert values is not None
    assert not values.disagreement
    assert all(check.holds for check in context.checks)
    assert len(context.checks) > 5
    total = sum(p for p in active(context).run.log_probabilities if p is not None)
    assert total != sum(p for p in context.branches.tree[0].run.log_probabilities if p is not None)


def test_an_ablation_of_one_step_alone(context: AppContext) -> None:
    context.branches.zero_mlp(0, 4, same_tokens=False)
    settle(context)
    assert len(trace_of(context).steps) == 5
    out = trace_of(context).array(4, "blocks.0.mlp.out")
    assert out is not None
    assert not out.any()


def test_a_patch_from_another_branch(context: AppContext) -> None:
    heard = listen(context)
    name = "blocks.1.resid_post"
    context.branches.zero_head(0, 0, 2)
    settle(context)
    ablated = trace_of(context)
    context.branches.switch(0)
    settle(context)
    position = ablated.steps[3].first
    context.branches.patch(name, position, position, branch=1)
    settle(context)
    found, source = trace_of(context).array(3, name), ablated.array(3, name)
    assert found is not None
    assert source is not None
    assert np.array_equal(found, source)
    assert active(context).reason == (
        f"patched {name} at position {position} with position {position} of step 3 of branch 1"
    )
    context.branches.patch("blocks.0.attn.pattern", position, 2)
    context.branches.zero_head(9, 0, 2)
    settle(context)
    assert len(context.branches.tree) == 3
    assert "cannot" in heard[-2] or "from another position" in heard[-2]
    assert heard[-1] == "This model records no blocks.9.attn.z."


def test_deleting_and_undoing(context: AppContext) -> None:
    take_other(context, 2)
    context.move(1)
    settle(context)
    take_other(context, 3)
    assert names(context) == ["main", "branch 1", "branch 2"]
    wanted = [branch.token_ids for branch in context.branches.tree]
    shape = context.branches.tree.shape
    context.branches.delete(1)
    settle(context)
    assert names(context) == ["main", "branch 2"]
    assert context.branches.tree[2].limb.parent == 0
    assert context.branches.undo_words == "deleted branch 1"
    context.branches.undo()
    settle(context)
    assert context.branches.tree.shape == shape
    assert context.branches.tree[1].planned, "what was freed is run again when it is entered"
    assert [branch.token_ids for branch in context.branches.tree] == wanted
    context.branches.switch(1)
    settle(context)
    assert trace_of(context).token_ids == wanted[1]
    assert not active(context).planned
    for held in context.branches.tree:
        assert held.run.trace.complete(len(held.steps) - 1)


def test_deleting_the_branch_in_hand_goes_to_the_one_it_grew_from(context: AppContext) -> None:
    heard = listen(context)
    take_other(context, 2)
    context.branches.delete(1)
    settle(context)
    assert names(context) == ["main"]
    assert len(trace_of(context).steps) == 6
    context.branches.delete(0)
    assert heard[-1] == "The only branch stays: Prefill begins anew."
    context.move(1)
    context.branches.delete(7)
    settle(context)
    assert heard[-1] == "There is no such branch any more."


def test_deleting_frees_the_arrays_and_keeps_what_others_share(context: AppContext) -> None:
    take_other(context, 2)
    array, shared = (trace_of(context).array(step, "blocks.1.attn.z") for step in (3, 1))
    assert array is not None
    own, kept = weakref.ref(array), shared
    assert context.branches.tree.own_bytes()[1] == trace_of(context).nbytes(3)
    del array, shared
    context.branches.delete(1)
    settle(context)
    gc.collect()
    assert own() is None
    assert trace_of(context).array(1, "blocks.1.attn.z") is kept
    assert context.branches.kept == {0: 0}


def test_renaming_can_be_undone(context: AppContext) -> None:
    take_other(context, 2)
    context.branches.rename(1, "  a dog instead ")
    assert names(context) == ["main", "a dog instead"]
    context.branches.undo()
    assert names(context) == ["main", "branch 1"]
    context.branches.redo()
    assert names(context) == ["main", "a dog instead"]
    heard = listen(context)
    context.branches.rename(1, " ")
    assert heard == ["A branch needs a name."]
    assert names(context) == ["main", "a dog instead"]


def test_undoing_a_fork_goes_back_and_redo_brings_back_all_that_was_run(
    context: AppContext,
) -> None:
    take_other(context, 2)
    context.move(1)
    settle(context)
    tokens = trace_of(context).token_ids
    arrays = {(s, n): a.tobytes() for s, n, a in trace_of(context).held()}
    context.branches.undo()
    settle(context)
    assert names(context) == ["main"]
    assert len(trace_of(context).steps) == 6
    assert context.branches.redo_words.startswith("took “")
    context.branches.redo()
    settle(context)
    assert names(context) == ["main", "branch 1"]
    assert trace_of(context).token_ids == tokens
    assert {(s, n): a.tobytes() for s, n, a in trace_of(context).held()} == arrays
    assert context.moment is not None
    assert context.moment.choices[2].by_hand, "how tokens were chosen is remembered"
    heard = listen(context)
    context.branches.redo()
    context.branches.undo()
    context.branches.undo()
    settle(context)
    assert heard[0] == "There is nothing to redo."
    assert heard[-1] == "There is nothing to undo."


def test_faults_keep_the_branches_and_run_them_again_when_entered(context: AppContext) -> None:
    heard = listen(context)
    take_other(context, 2)
    tokens = trace_of(context).token_ids
    context.branches.switch(0)
    settle(context)
    context.set_fault("no-scale", True)
    settle(context)
    assert "1 other branch is run again when entered." in heard
    assert names(context) == ["main", "branch 1"]
    assert context.branches.tree[1].planned
    assert not context.branches.tree[1].run.trace.steps
    context.branches.switch(1)
    settle(context)
    assert trace_of(context).token_ids == tokens
    assert active(context).run.faults == {"no-scale"}
    assert trace_of(context).array(0, "logits") is context.branches.tree[0].run.trace.array(
        0, "logits"
    )
    context.clear_faults()
    settle(context)
    assert context.moment is not None
    assert context.moment.choices[2].by_hand


def test_under_the_stale_cache_fault_a_branch_says_which_row_is_not_restored(
    context: AppContext,
) -> None:
    context.set_fault("stale-cache", True)
    settle(context)
    take_other(context, 2)
    branches = context.branches
    assert context.model is not None
    view = build_branches(branches.tree, context.model.tokenizer, branches.kept)
    position = branches.tree[1].limb.position
    assert f"the cached row of position {position - 1} is" in view.details[1]
    assert "stale-cache" not in view.details[0]


def test_a_context_must_hold_the_longest_branch(context: AppContext) -> None:
    heard = listen(context)
    longest = trace_of(context).positions
    take_other(context, 1)
    context.set_capacity(longest - 1)
    assert heard[-1] == f"{longest} positions are in use and do not fit in {longest - 1}."
    context.set_capacity(longest)
    settle(context)
    assert context.capacity == longest
    assert names(context) == ["main", "branch 1"]


def test_a_new_prompt_begins_without_branches(context: AppContext) -> None:
    take_other(context, 1)
    context.prefill("The cat sat.")
    settle(context)
    assert names(context) == ["main"]
    assert not context.branches.undo_words
    assert len(trace_of(context).steps) == 1
    context.move(1)
    settle(context)
    assert len(trace_of(context).steps) == 2


def test_a_new_prompt_is_not_edited(context: AppContext) -> None:
    context.branches.zero_mlp(0, 1)
    settle(context)
    assert context.moment is not None
    assert context.moment.edits
    context.prefill("The cat sat.")
    settle(context)
    assert context.moment is not None
    assert not context.moment.edits
    out = trace_of(context).array(0, "blocks.0.mlp.out")
    assert out is not None
    assert out.any()


def test_a_branch_that_is_cancelled_before_its_first_step_is_gone(context: AppContext) -> None:
    old = trace_of(context)
    go_to(context, 2)
    context.take(7)
    context.cancel()
    settle(context)
    assert names(context) == ["main"]
    assert context.trace is old
    assert not context.branches.undo_words
    context.go_last()
    context.move(1)
    settle(context)
    assert len(trace_of(context).steps) == 7


def test_commands_given_while_the_session_works_are_done_in_order(context: AppContext) -> None:
    go_to(context, 2)
    context.take(7)
    context.branches.rename(1, "seven")
    context.branches.switch(0)
    context.branches.zero_mlp(0, 1)
    context.branches.undo()
    settle(context)
    assert wait_until(lambda: not context.running)
    settle(context)
    assert names(context) == ["main", "seven"]
    assert active(context).name == "main"


@given(
    actions=st.lists(
        st.tuples(
            st.sampled_from(["take", "switch", "delete", "rename", "zero", "undo", "redo"]),
            st.integers(0, 20),
        ),
        min_size=1,
        max_size=8,
    )
)
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_was_done_undo_leads_back_and_redo_forth(
    make_context: Callable[..., AppContext], actions: list[tuple[str, int]]
) -> None:
    context = make_context("tiny", "The cat", tokens=3, temperature=0.0)
    branches = context.branches
    begun = branches.tree.shape
    for action, number in actions:
        tree = branches.tree
        held = tree.branches[number % len(tree)]
        match action:
            case "take":
                go_to(context, number % len(trace_of(context).steps))
                context.take(number % 4)
            case "switch":
                branches.switch(held.id)
            case "delete":
                branches.delete(held.id)
            case "rename":
                branches.rename(held.id, f"name {number}")
            case "zero":
                branches.zero_mlp(0, number % len(trace_of(context).steps))
            case _:
                getattr(branches, action)()
        settle(context)
    here = branches.tree.shape
    tokens = {branch.id: branch.token_ids for branch in branches.tree}
    count = 0
    while branches.undo_words:
        branches.undo()
        settle(context)
        count += 1
    assert branches.tree.shape.limbs == begun.limbs
    for _ in range(count):
        branches.redo()
        settle(context)
    assert branches.tree.shape.limbs == here.limbs
    for branch in branches.tree:
        assert branch.token_ids == tokens[branch.id]
        branches.switch(branch.id)
        settle(context)
        assert trace_of(context).token_ids == tokens[branch.id]
        assert context.room.session.steps == trace_of(context).steps
    context.close()
