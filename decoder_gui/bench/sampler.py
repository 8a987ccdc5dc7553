"""What one tick of a sampling slider costs, from the moved setting to the panel's words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from decoder_gui.bench.rounds import Progress, median, milliseconds
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.debugger.run import Run
from decoder_gui.debugger.session import Session
from decoder_gui.viewdata.moment import ModelInfo, Selection, build_moment
from decoder_gui.viewdata.next_token import build_next_token
from model.checkpoints import LoadedModel
from model.random_model import random_decoder
from model.ranking import rank
from model.sampling import SamplingConfig
from model.shape import ModelShape
from model.tokenizers import IdTokenizer

VOCABULARIES = (1_024, 50_257, 151_936)  # ours at most, GPT-2's, Qwen's
DISPLAYED = 40  # candidates listed, as in the window
TICKS = 12  # moved settings in a round, a third of them each of temperature, top-k and top-p


@dataclass(frozen=True)
class SamplerFigures:
    """Milliseconds by vocabulary, medians over all ticks of all rounds.

    Attributes:
        redraw: one tick: the distribution from the ranking in hand, the candidates listed, what is
            kept, its entropy, the token that the held draw lands on, and all of it in words.
        rank: validating and sorting the logits, once for every token.
    """

    redraw: dict[int, float]
    rank: dict[int, float]


def measure_sampler(rounds: int, progress: Progress) -> SamplerFigures:
    """Time slider ticks and rankings for each of VOCABULARIES, one after the other in a round."""
    benches = [_Bench(vocabulary) for vocabulary in VOCABULARIES]
    redraws: dict[int, list[float]] = {bench.vocabulary: [] for bench in benches}
    ranks: dict[int, list[float]] = {bench.vocabulary: [] for bench in benches}
    for number in range(rounds):
        progress(f"sampler, round {number + 1} of {rounds}")
        for bench in benches:
            redraws[bench.vocabulary] += bench.ticks(number)
            ranks[bench.vocabulary].append(milliseconds(bench.rank))
    return SamplerFigures(
        redraw={vocabulary: median(times) for vocabulary, times in redraws.items()},
        rank={vocabulary: median(times) for vocabulary, times in ranks.items()},
    )


class _Bench:
    """A narrow random model of one vocabulary after a prefill, with its logits in hand."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        shape = ModelShape(
            depth=1, model_dim=8, num_heads=1, context_length=8, vocabulary=vocabulary
        )
        # Wide weights: logits spread over several nats, as those of trained models are.
        engine = random_decoder(shape, spread=1.0)
        loaded = LoadedModel(
            name="random",
            family="GPT-2",
            engine=engine,
            tokenizer=IdTokenizer(vocabulary, "random weights"),
            path=Path(),
        )
        session = Session(loaded)
        self._model = ModelInfo.of(loaded)
        self._run = Run(engine)
        for update in session.prefill([1, 2, 3]):
            self._run.apply(update)
        self._cursor = Cursor(0, len(engine.operations) - 1)
        logits = self._run.trace.logits(0)
        assert logits is not None
        self._logits = logits
        self._tick(SamplingConfig(temperature=0.77))  # sorts once

    def ticks(self, number: int) -> list[float]:
        """One round of settings, none of them ever seen before."""
        return [
            milliseconds(lambda config=config: self._tick(config))  # type: ignore[misc]
            for config in _settings(number, self.vocabulary)
        ]

    def rank(self) -> None:
        """What a new token costs before the first tick."""
        _ = rank(self._logits).order

    def _tick(self, config: SamplingConfig) -> None:
        moment = build_moment(
            self._model,
            self._run,
            self._cursor,
            Selection(),
            config,
            self._model.shape.context_length,
            displayed=DISPLAYED,
        )
        view = build_next_token(moment)
        assert view.rows


def _settings(number: int, vocabulary: int) -> Iterator[SamplingConfig]:
    base = SamplingConfig(temperature=0.9, top_k=vocabulary // 2, top_p=0.95)
    for tick in range(TICKS // 3):
        at = (number * (TICKS // 3) + tick) % 89 / 89
        yield replace(base, temperature=0.3 + 1.5 * at)
        yield replace(base, top_k=1 + int(at * (vocabulary - 1)))
        yield replace(base, top_p=0.2 + 0.79 * at)
