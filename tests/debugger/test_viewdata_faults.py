"""The fault list and the verdicts follow from the registries of faults and checks."""

from __future__ import annotations

from decoder_gui.viewdata.attention_leaks import Verdict
from decoder_gui.viewdata.faults import behaviour_line, build_faults, fault_banner
from model.checks import CheckResult, all_checks
from model.faults import all_faults, find_fault


def result(name: str, holds: bool) -> CheckResult:
    return CheckResult(name, holds, 0.0 if holds else 0.5, 1e-5, f"what {name} found")


def test_every_fault_is_listed_with_what_must_catch_it() -> None:
    view = build_faults({"no-mask"}, (), pending=False)
    assert [row.name for row in view.faults] == [fault.name for fault in all_faults()]
    for row, fault in zip(view.faults, all_faults(), strict=True):
        assert row.explanation == fault.explanation
        assert all(name in row.caught_by for name in fault.caught_by)
        assert row.on is (row.name == "no-mask")


def test_every_check_has_a_row_whatever_has_been_run() -> None:
    results = (result("causal-weights", False), result("finite", True))
    view = build_faults({"no-mask"}, results, pending=True)
    rows = {row.name: row for row in view.checks}
    assert list(rows) == [check.name for check in all_checks()]
    assert rows["causal-weights"].shown == "✗ causal-weights"
    assert rows["causal-weights"].detail == "what causal-weights found"
    assert rows["finite"].verdict is Verdict.HOLDS
    assert rows["positions"].verdict is Verdict.OPEN
    assert "checking" in rows["positions"].detail
    expected = {row.name for row in view.checks if row.expected}
    assert expected == set(find_fault("no-mask").caught_by)


def test_the_summary_counts_what_fails() -> None:
    results = tuple(result(check.name, True) for check in all_checks())
    assert build_faults((), results, pending=False).verdict == f"all {len(results)} checks hold"
    failing = (result("finite", False), *(r for r in results if r.name != "finite"))
    verdict = build_faults((), failing, pending=False).verdict
    assert verdict == f"1 of {len(results)} checks fail: finite"
    assert build_faults((), (), pending=False).verdict == "not all checks have been run"


def test_the_banner_names_the_faults() -> None:
    assert fault_banner(()) == ""
    assert fault_banner({"no-mask"}) == (
        "Fault on: no-mask. The numbers below are wrong on purpose."
    )
    assert fault_banner({"no-scale", "no-mask"}).startswith("Faults on: no-mask, no-scale.")


def test_the_behaviour_line_waits_holds_and_fails() -> None:
    assert behaviour_line((), pending=True)[0].verdict is Verdict.OPEN
    assert "checking" in behaviour_line((), pending=True)[0].text
    held, detail = behaviour_line((result("causal-behaviour", True),), pending=False)
    assert held.shown == "✓ replacing a later token moves no earlier logit"
    assert detail == "what causal-behaviour found"
    failed, _ = behaviour_line((result("causal-behaviour", False),), pending=False)
    assert failed.shown == "✗ what causal-behaviour found"
