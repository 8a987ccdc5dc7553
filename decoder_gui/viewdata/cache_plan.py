"""What the calculator shows: a cache's size, how many sequences fit, and what sharing saves."""

from __future__ import annotations

from dataclasses import dataclass

from decoder_gui.viewdata.kv_cache import Figure
from decoder_gui.viewdata.numbers import format_bytes, format_count, format_value, plural
from decoder_gui.viewdata.tables import Cell, Column, Table
from model.cache_plan import CachePlan

COLUMNS = (
    Column("sharing", stretch=True),
    Column("heads", number=True, tip="of keys and values"),
    Column("in all", number=True),
    Column("sequences", number=True, tip="that fit in the memory given"),
)


@dataclass(frozen=True)
class CachePlanView:
    """The answers of the calculator."""

    figures: tuple[Figure, ...]
    table: Table
    hint: str


def build_cache_plan(plan: CachePlan, memory: float, *, besides: float = 0.0) -> CachePlanView:
    """The view of a plan and a memory of so many bytes, some of them taken by something else."""
    per_token = plan.bytes_per_token
    fit = plan.sequences_in(memory, besides=besides)
    formula = (
        f"2 × {plan.layers} layers × {plural(plan.kv_heads, 'head')} × {plan.head_dim} × "
        f"{plan.bytes_per_value:g} bytes"
    )
    rest = max(0.0, memory - besides)
    return CachePlanView(
        figures=(
            Figure("Per token", format_bytes(round(per_token)), formula, below=True),
            Figure(
                "Per sequence",
                format_bytes(round(plan.bytes_per_sequence)),
                f"× {format_count(plan.context)} positions",
            ),
            Figure("In all", format_bytes(round(plan.total)), f"× batch of {plan.batch}"),
            Figure(
                "Sequences that fit",
                format_count(fit),
                f"of {format_count(plan.context)} positions in {format_bytes(round(rest))}"
                if rest
                else "the weights alone fill the memory",
            ),
            Figure(
                "Longest context",
                format_count(plan.positions_in(memory, besides=besides)),
                f"positions, at a batch of {plan.batch}",
            ),
        ),
        table=Table(COLUMNS, _variants(plan, memory, besides), marked=_marked(plan)),
        hint=plan.sharing,
    )


def _choices(plan: CachePlan) -> list[int]:
    """Multi-head, the plan's own if it is between, and multi-query."""
    grouped = plan.kv_heads if plan.sharing == "grouped-query" else _middle(plan.heads)
    return sorted({plan.heads, grouped, 1}, reverse=True)


def _middle(heads: int) -> int:
    """A number of key-value heads between one and all that divides the heads, about a quarter."""
    between = (n for n in range(2, heads) if heads % n == 0)
    return min(between, key=lambda n: (abs(n - heads / 4), n), default=1)


def _variants(plan: CachePlan, memory: float, besides: float) -> tuple[tuple[Cell, ...], ...]:
    whole = plan.shared(plan.heads).total
    return tuple(_variant(plan.shared(n), memory, besides, whole, plan) for n in _choices(plan))


def _variant(
    plan: CachePlan, memory: float, besides: float, whole: float, own: CachePlan
) -> tuple[Cell, ...]:
    mine = plan.kv_heads == own.kv_heads
    share = plan.total / whole
    return (
        Cell(plan.sharing, strong=mine),
        Cell(format_count(plan.kv_heads)),
        Cell(
            format_bytes(round(plan.total)),
            share=share,
            tip=f"{format_value(100 * share, 1)}% of multi-head",
        ),
        Cell(format_count(plan.sequences_in(memory, besides=besides))),
    )


def _marked(plan: CachePlan) -> int:
    return _choices(plan).index(plan.kv_heads)
