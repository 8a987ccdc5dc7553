"""The sampler as a pipeline: a column for each stage, a row for each candidate, where it fell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

from decoder_gui.debugger.laboratory.sampling_code import is_on
from decoder_gui.viewdata.moment import Moment
from decoder_gui.viewdata.next_token import CUT_WORDS
from decoder_gui.viewdata.numbers import format_count, format_percent, format_value, plural
from decoder_gui.viewdata.order_choices import OrderChoice, order_choices, token_text
from decoder_gui.viewdata.token_search import LOOKED_THROUGH, find_tokens
from model.sampling import (
    STAGE_WORDS,
    Distribution,
    SamplingConfig,
    Stage,
    find_order,
)

ROWS = 40  # candidates listed; never changes what is drawn
TITLES = {"raw": "Raw", "repetition_penalty": "Repetition"}  # short enough for a column
LOWER_ID = "Ties at the edge: the lower id stays."
ALL_STAY = "Ties at the edge: all that tie with the k-th stay."
NO_TIES = "Ties have equal shares: none is parted at the edge."


@dataclass(frozen=True)
class StageColumn:
    """One stage. ``name`` is of model.sampling.STAGES, or ``raw`` or ``greedy``.

    Attributes:
        value: of its setting; None for ``raw`` and ``greedy``, which have none.
        on: whether it changes anything.
        kept: how many tokens are left after it.
        kept_text: the same in words.
        edge: which token was the last to stay and which the first to go, and why, in words.
        tie: what becomes of equal tokens at its edge, where that matters.
        movable: whether it can be put at another place.
        plain: whether the setting alone says all that there is to say.
    """

    name: str
    title: str
    value: float | None
    on: bool
    kept: int
    kept_text: str
    edge: str
    tie: str = ""
    movable: bool = True
    plain: bool = False


@dataclass(frozen=True)
class StageCell:
    """A candidate after a stage; ``fell`` is true at the stage that cut it."""

    probability: float
    text: str
    inside: bool
    fell: bool = False


@dataclass(frozen=True)
class PipelineRow:
    """One candidate. ``rank`` counts from 1 by raw probability."""

    token_id: int
    text: str
    rank: int
    cells: tuple[StageCell, ...]
    landing: bool
    occurred: bool  # the repetition penalty counts it
    found: bool  # the search box found it
    fate: str  # whether it stays, or where it falls and why, in a sentence
    spoken: str


@dataclass(frozen=True)
class Pipeline:
    """The panel's contents; without columns there is a ``refusal``."""

    columns: tuple[StageColumn, ...] = ()
    rows: Sequence[PipelineRow] = ()
    orders: tuple[OrderChoice, ...] = ()
    rule: str = ""
    others: str = ""  # what each of the other orders would keep and drop
    summary: str = ""
    outside: str = ""
    search: str = ""  # what the search box found, in words
    full: float = 1.0  # the probability of a bar across a whole column
    refusal: str = ""

    def place_of(self, token: int) -> int:
        """The index of a token's row; 0 where it has none."""
        rows = self.rows
        listed = rows.token_ids if isinstance(rows, CandidateRows) else ()
        return listed.index(token) if token in listed else 0


def build_pipeline(moment: Moment | None, search: str = "") -> Pipeline:
    """The contents at a moment; ``search`` is what stands in the search box."""
    if moment is None or moment.step is None:
        return Pipeline(refusal="Nothing is computed yet: Prefill runs the prompt.")
    shown = moment.distribution
    if shown is None:
        words = moment.sampling_refusal or "the logits of this step are not computed yet"
        return Pipeline(refusal=f"{words[:1].upper()}{words[1:]}.")
    found = find_tokens(search, shown, moment.model.tokenizer)
    listed, orders = _listed(moment, shown, found), order_choices(moment, shown)
    return Pipeline(
        columns=_columns(moment, shown),
        rows=CandidateRows(moment, shown, listed, len(found)),
        orders=orders,
        rule=_rule(moment, shown),
        others=" · ".join(f"{each.title} {each.change}" for each in orders if not each.current),
        summary=(
            f"{format_count(shown.kept_count)} of {plural(shown.ranking.vocabulary, 'token')} kept"
            f" · entropy {format_value(shown.entropy, 2)} nats · "
            f"{format_value(shown.effective, 1)} effective choices"
        ),
        outside=_outside(listed, shown),
        search=_found_words(moment, shown, search, found),
        full=max(float(stage.ranked[0]) for stage in shown.stages),
    )


# ---- columns


def _columns(moment: Moment, shown: Distribution) -> tuple[StageColumn, ...]:
    before: Stage | None = None
    columns = []
    for stage in shown.stages:
        columns.append(_column(moment, shown, before, stage))
        before = stage
    if shown.config.deterministic:  # the others have no say, and stand there switched off
        names = find_order(moment.sampling.order).names
        last = shown.stages[-1]
        columns += [
            _unused(shown.config, name, last.kept_count)
            for name in names
            if name not in ("repetition_penalty", "temperature")
        ]
    return tuple(columns)


def _column(moment: Moment, shown: Distribution, before: Stage | None, stage: Stage) -> StageColumn:
    name = "temperature" if stage.name == "greedy" else stage.name
    value = None if name == "raw" else float(getattr(shown.config, name))
    return StageColumn(
        name=name,
        title=TITLES.get(name, STAGE_WORDS.get(name, name).capitalize()),
        value=value,
        on=name == "raw" or is_on(shown.config, name),
        kept=stage.kept_count,
        kept_text=f"{format_count(stage.kept_count)} left",
        edge=_edge(moment, shown, before, stage),
        tie=_tie(shown, before, stage),
        movable=name != "raw" and not shown.config.deterministic,
        plain=stage.name == "temperature"
        and (before is None or before.kept_count == stage.kept_count),
    )


def _unused(config: SamplingConfig, name: str, kept: int) -> StageColumn:
    return StageColumn(
        name=name,
        title=TITLES.get(name, STAGE_WORDS[name].capitalize()),
        value=float(getattr(config, name)),
        on=False,
        kept=kept,
        kept_text="unused",
        edge="Temperature 0 takes the highest logit: this stage has no say.",
        movable=False,
    )


def _edge(moment: Moment, shown: Distribution, before: Stage | None, stage: Stage) -> str:
    if before is None:
        masked = shown.ranking.vocabulary - stage.kept_count
        out = f" {plural(masked, 'token')} at -infinity are out." if masked else ""
        return f"Softmax of the logits as they are.{out}"
    dropped = before.kept_count - stage.kept_count
    if stage.name == "greedy":
        return f"The highest logit is taken: {token_text(moment, int(stage.kept[0]))}."
    if not is_on(shown.config, stage.name):
        return "Off: nothing changes."
    if stage.name == "repetition_penalty":
        return _penalty_words(shown.config, stage)
    if stage.name == "temperature":
        words = f"logits / {shown.config.temperature:g}."
        return words + (f" {plural(dropped, 'token')} round to 0." if dropped else "")
    return _cut_words(moment, before, stage, dropped)


def _cut_words(moment: Moment, before: Stage, stage: Stage, dropped: int) -> str:
    if not dropped:
        return f"{_limit(stage)}. All {format_count(stage.kept_count)} stay."
    last, first_out = stage.ranking.order[stage.kept_count - 1 : stage.kept_count + 1].tolist()
    return (
        f"{_limit(stage)}. Last to stay {token_text(moment, last)} "
        f"({_at_edge(before, stage, stage.kept_count - 1)}), first to go "
        f"{token_text(moment, first_out)} ({_at_edge(before, stage, stage.kept_count)})."
    )


def _penalty_words(config: SamplingConfig, stage: Stage) -> str:
    count = int(stage.occurred.size)
    if not count:
        return "No token has occurred yet."
    way = "less" if config.repetition_penalty > 1 else "more"
    return (
        f"{plural(count, 'token')} that occurred (↺) become {way} likely: positive logits / "
        f"{config.repetition_penalty:g}, others × {config.repetition_penalty:g}."
    )


def _limit(stage: Stage) -> str:
    config = stage.config
    if stage.name == "top_k":
        return f"at most {config.top_k}"
    if stage.name == "top_p":
        return f"the shortest run that reaches {config.top_p:g}"
    return f"at least {config.min_p:g} of the most likely"


def _at_edge(before: Stage, stage: Stage, at: int) -> str:
    """What decided about the token at a rank: its share, or the mass up to and with it."""
    if stage.name == "top_p":
        # The mass that this top-p measures, which is not always that of the tokens still in.
        mass = float(before.weights[: at + 1].sum()) / before.measure
        return f"mass {format_value(min(mass, 1.0))}"
    if stage.name == "min_p":
        share = math.exp(-float(before.ranking.drop[at]) / before.temperature)
        return f"share {format_value(share)}"
    return f"rank {at + 1}"


def _tie(shown: Distribution, before: Stage | None, stage: Stage) -> str:
    if before is None or stage.name not in ("top_k", "top_p", "min_p", "greedy"):
        return ""
    if stage.name == "min_p":
        return NO_TIES
    if stage.name == "top_k" and shown.config.order == "hugging-face":
        return ALL_STAY
    return LOWER_ID


# ---- rows


class CandidateRows(Sequence[PipelineRow]):
    """The rows of the candidates listed, each made when it is first asked for.

    A moving slider asks for those in sight, a fraction of them.
    """

    def __init__(
        self, moment: Moment, shown: Distribution, token_ids: Sequence[int], found: int
    ) -> None:
        self._moment = moment
        self._shown = shown
        self._found = found  # how many at the front the search box found
        self._made: dict[int, PipelineRow] = {}
        self.token_ids = tuple(token_ids)

    def __len__(self) -> int:
        return len(self.token_ids)

    @overload
    def __getitem__(self, at: int) -> PipelineRow: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[PipelineRow, ...]: ...

    def __getitem__(self, at: int | slice) -> PipelineRow | tuple[PipelineRow, ...]:
        if isinstance(at, slice):
            return tuple(self[index] for index in range(*at.indices(len(self))))
        index = at + len(self) if at < 0 else at
        made = self._made.get(index)
        if made is None:
            token = self.token_ids[index]
            made = _row(self._moment, self._shown, token, index < self._found)
            self._made[index] = made
        return made


def _listed(moment: Moment, shown: Distribution, found: Sequence[int]) -> list[int]:
    """The tokens to list: what the search box found, then the likeliest by raw probability."""
    listed = list(shown.ranking.top(min(ROWS, shown.ranking.vocabulary)).tolist())
    held = set(listed)
    extra = [*shown.stages[-1].ranking.top(min(10, shown.kept_count)).tolist()]
    if moment.landing is not None:
        extra.append(moment.landing.token_id)
    for token in extra:
        if token not in held:
            held.add(token)
            listed.append(token)
    listed.sort(key=lambda token: int(shown.ranking.places[token]))
    return [*found, *(token for token in listed if token not in found)]


def _row(moment: Moment, shown: Distribution, token: int, found: bool) -> PipelineRow:
    cells = []
    inside = True
    for stage in shown.stages:
        holds = stage.holds(token)
        at = int(stage.ranking.places[token])
        probability = float(stage.ranked[at]) if holds else 0.0
        fell = inside and not holds
        inside = holds
        word = CUT_WORDS.get(stage.cut_name, stage.cut_name) if fell else ""
        cells.append(
            StageCell(probability, format_percent(probability) if holds else word, holds, fell)
        )
    if shown.config.deterministic:
        cells += [replace(cells[-1], fell=False)] * 3
    rank = int(shown.ranking.places[token]) + 1
    text = token_text(moment, token)
    landing = moment.landing is not None and moment.landing.token_id == token
    occurred = bool((shown.stages[0].occurred == token).any())
    why = shown.cut_name(token)
    names = [STAGE_WORDS.get(stage.name, stage.name) for stage in shown.stages]
    spoken = [f"{text}, token {token}, rank {rank}"]
    steps = zip(names, cells, strict=False)
    spoken += [f"{name} {cell.text}" for name, cell in steps if cell.inside]
    if why is not None:
        spoken.append(f"cut: {CUT_WORDS.get(why, why)}")
    if landing:
        spoken.append("the held draw lands here")
    if occurred:
        spoken.append("has occurred")
    fate = f"{text}, token {token}, rank {format_count(rank)}: {_fate(shown, token)}"
    return PipelineRow(
        token, text, rank, tuple(cells), landing, occurred, found, fate, "; ".join(spoken)
    )


def _fate(shown: Distribution, token: int) -> str:
    """Whether a token stays to the end, or which stage cuts it and why."""
    before: Stage | None = None
    for stage in shown.stages:
        if not stage.holds(token):
            return _fall(shown, before, stage, int(stage.ranking.places[token]))
        before = stage
    last = shown.stages[-1]
    probability = float(last.ranked[last.ranking.places[token]])
    return f"stays to the end, and is drawn with {format_percent(probability)}."


def _fall(shown: Distribution, before: Stage | None, stage: Stage, at: int) -> str:
    if before is None:
        return "its logit is -infinity; it is masked."
    if stage.name == "greedy":
        return "temperature 0 takes the highest logit, and this is another."
    if stage.name == "top_k":
        return f"falls at top-k: number {at + 1} of those left, and k is {shown.config.top_k}."
    if stage.name == "top_p":
        reached = _at_edge(before, stage, stage.kept_count - 1)
        return f"falls at top-p: those before it reach {shown.config.top_p:g} ({reached})."
    if stage.name == "min_p":
        return f"falls at min-p: {_at_edge(before, stage, at)} is below {shown.config.min_p:g}."
    return "falls at the temperature: its probability rounds to 0."


def _outside(listed: Sequence[int], shown: Distribution) -> str:
    rest = shown.ranking.vocabulary - len(listed)
    if not rest:
        return "Every token of the vocabulary is listed."
    raw = max(0.0, 1.0 - math.fsum(shown.ranking.raw[list(listed)].tolist()))
    last = shown.stages[-1]
    places = last.ranking.places[list(listed)]
    inside = places[places < last.kept_count]
    final = 0.0
    if inside.size < shown.kept_count:
        final = max(0.0, 1.0 - math.fsum(last.ranked[inside].tolist()))
    return (
        f"{plural(rest, 'token')} not listed hold {format_percent(raw)} of the raw mass and "
        f"{format_percent(final)} of the final."
    )


def _rule(moment: Moment, shown: Distribution) -> str:
    rule = find_order(moment.sampling.order).rule
    words = f"{rule[:1].upper()}{rule[1:]}."
    if shown.config.order != moment.sampling.order:
        words += f" The fault {shown.config.order} is on: the columns show what it does."
    return words


def _found_words(moment: Moment, shown: Distribution, search: str, found: Sequence[int]) -> str:
    if not search.strip():
        return ""
    if not found:
        size = shown.ranking.vocabulary
        where = "" if size <= LOOKED_THROUGH else f" of the {LOOKED_THROUGH:,} most likely"
        return f"No token{where} has “{search.strip()}” in it, and no id is that."
    whole = format_count(shown.ranking.vocabulary)
    parts = []
    for token in found:
        rank = int(shown.ranking.places[token]) + 1
        cut = shown.cut_name(token)
        fate = "kept" if cut is None else f"cut by {CUT_WORDS.get(cut, cut)}"
        parts.append(
            f"{token_text(moment, token)} (id {token}) rank {format_count(rank)} of {whole}, {fate}"
        )
    return " · ".join(parts)
