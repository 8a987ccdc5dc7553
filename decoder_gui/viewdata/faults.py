"""Deliberate faults and the verdicts of the checks, as rows to show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from decoder_gui.viewdata.attention_leaks import CheckLine, Verdict
from model.checks import CheckResult, all_checks
from model.faults import all_faults, find_fault

BEHAVIOUR = "causal-behaviour"


@dataclass(frozen=True)
class FaultRow:
    """One fault that can be switched on; ``caught_by`` in words."""

    name: str
    title: str
    explanation: str
    caught_by: str
    on: bool


@dataclass(frozen=True)
class CheckRow:
    """The verdict of one check: OPEN while it is not known.

    ``expected`` is whether a fault that is on must make it fail.
    """

    name: str
    asserts: str
    verdict: Verdict
    detail: str
    expected: bool

    @property
    def shown(self) -> str:
        return f"{self.verdict.value} {self.name}"


@dataclass(frozen=True)
class FaultsView:
    """Everything that the fault panel shows.

    ``banner`` says which faults are on, and is empty while none is; ``verdict`` sums the checks up.
    """

    faults: tuple[FaultRow, ...]
    checks: tuple[CheckRow, ...]
    banner: str
    verdict: str


def build_faults(
    active: Iterable[str], results: Sequence[CheckResult], pending: bool
) -> FaultsView:
    """Rows for all registered faults and checks."""
    on = frozenset(active)
    must_fail = {name for fault in on for name in find_fault(fault).caught_by}
    faults = tuple(
        FaultRow(
            fault.name,
            fault.title,
            fault.explanation,
            "Must fail: " + ", ".join(fault.caught_by),
            fault.name in on,
        )
        for fault in all_faults()
    )
    found = {result.name: result for result in results}
    asserts = {check.name: check.asserts for check in all_checks()}
    names = [*asserts, *(name for name in found if name not in asserts)]
    checks = tuple(
        _row(name, asserts.get(name, ""), found.get(name), pending, name in must_fail)
        for name in names
    )
    return FaultsView(faults, checks, fault_banner(on), _summary(checks, pending))


def _row(
    name: str, asserts: str, result: CheckResult | None, pending: bool, expected: bool
) -> CheckRow:
    if result is None:
        waiting = "checking…" if pending else "not checked for this run"
        return CheckRow(name, asserts, Verdict.OPEN, waiting, expected)
    verdict = Verdict.HOLDS if result.holds else Verdict.FAILS
    verdict = verdict if result.examined else Verdict.OPEN
    return CheckRow(name, asserts, verdict, result.detail, expected)


def _summary(checks: Sequence[CheckRow], pending: bool) -> str:
    if pending:
        return "checking…"
    failing = [row.name for row in checks if row.verdict is Verdict.FAILS]
    if failing:
        return f"{len(failing)} of {len(checks)} checks fail: {', '.join(failing)}"
    if any(row.verdict is Verdict.OPEN for row in checks):
        return "not all checks have been run"
    return f"all {len(checks)} checks hold"


def fault_banner(active: Iterable[str]) -> str:
    """What must be said wherever numbers are shown while a fault is on."""
    names = sorted(active)
    if not names:
        return ""
    word = "Fault" if len(names) == 1 else "Faults"
    return f"{word} on: {', '.join(names)}. The numbers below are wrong on purpose."


def behaviour_line(results: Sequence[CheckResult], pending: bool) -> tuple[CheckLine, str]:
    """The line about the behavioural causality check, and all of its sentence for a tooltip."""
    asserts = next((check.asserts for check in all_checks() if check.name == BEHAVIOUR), "")
    result = next((result for result in results if result.name == BEHAVIOUR), None)
    if result is None:
        text = f"{asserts}: {'checking…' if pending else 'not checked for this run'}"
        return CheckLine(Verdict.OPEN, text), text
    if not result.examined:
        return CheckLine(Verdict.OPEN, f"{asserts}: not examined"), result.detail
    if result.holds:
        return CheckLine(Verdict.HOLDS, asserts), result.detail
    return CheckLine(Verdict.FAILS, result.detail), result.detail
