"""Many draws against the distribution that they were drawn from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from model.ranking import Floats
from model.sampling import Distribution

EXPECTED_AT_LEAST = 5.0  # counts expected to be smaller are pooled: Pearson's test needs as much


@dataclass(frozen=True, eq=False)
class DrawStatistics:
    """Counts of independent draws beside what was to be expected.

    Attributes:
        counts: (vocab,) how often each token came up.
        total: how many draws.
        chi_square: Pearson's statistic over ``groups`` groups; tokens expected fewer than five
            times are one of them.
        groups: of tokens; degrees of freedom are one fewer.
        p_value: how likely draws from that distribution are to be at least as far off; 1 where
            there is one group only.
        entropy: of the observed shares, nats; on average lower than that of the distribution by
            about ``entropy_bias``.
        entropy_bias: (tokens that can be drawn - 1) / (2 x draws), nats, after Miller and Madow.
        exact_entropy: of the distribution itself, nats.
        entropy_error: standard error of ``entropy``, nats.
    """

    counts: NDArray[np.int64] = field(repr=False)
    total: int
    chi_square: float
    groups: int
    p_value: float
    entropy: float
    entropy_bias: float
    exact_entropy: float
    entropy_error: float

    @property
    def degrees(self) -> int:
        """Degrees of freedom of the statistic."""
        return self.groups - 1


def expected_count(probability: float, draws: int) -> float:
    """How often a token is expected in so many draws."""
    return probability * draws


def standard_error(probability: float, draws: int) -> float:
    """Standard deviation of that count: sqrt(n p (1 - p)), of a binomial distribution."""
    return math.sqrt(draws * probability * max(0.0, 1.0 - probability))


def draw_statistics(source: Distribution, counts: NDArray[np.int64]) -> DrawStatistics:
    """What draws from a distribution look like beside it; ``counts`` is (vocab,)."""
    total = int(counts.sum())
    probabilities = source.stages[-1].ranked
    observed, expected = counts[source.kept].astype(np.float64), probabilities * total
    chi_square, groups = _pearson(observed, expected)
    shares = observed[observed > 0] / max(1, total)
    logarithms = np.log(probabilities)
    spread = float((probabilities * (logarithms + source.entropy) ** 2).sum())
    return DrawStatistics(
        counts=counts,
        total=total,
        chi_square=chi_square,
        groups=groups,
        p_value=chi_square_tail(chi_square, groups - 1),
        entropy=max(0.0, float(-(shares * np.log(shares)).sum())),
        entropy_bias=(source.kept_count - 1) / (2 * total) if total else 0.0,
        exact_entropy=source.entropy,
        entropy_error=math.sqrt(spread / total) if total else 0.0,
    )


def _pearson(observed: Floats, expected: Floats) -> tuple[float, int]:
    """The statistic and its number of groups; the rare ones are pooled until they are enough."""
    rare = expected < EXPECTED_AT_LEAST
    pools = [(float(observed[rare].sum()), float(expected[rare].sum()))] if rare.any() else []
    own = list(zip(observed[~rare].tolist(), expected[~rare].tolist(), strict=True))
    if pools and pools[0][1] < EXPECTED_AT_LEAST and own:  # join the rarest of the others
        seen, due = own.pop()
        pools = [(pools[0][0] + seen, pools[0][1] + due)]
    groups = [(seen, due) for seen, due in own + pools if due > 0]
    return math.fsum((seen - due) ** 2 / due for seen, due in groups), len(groups)


def chi_square_tail(statistic: float, degrees: int) -> float:
    """Probability that chi-square with so many degrees of freedom is at least the statistic."""
    if degrees < 1:
        return 1.0
    return _upper_gamma(degrees / 2.0, statistic / 2.0)


def _upper_gamma(a: float, x: float) -> float:
    """The regularised upper incomplete gamma function Q(a, x), for a > 0 and x >= 0."""
    if x <= 0.0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1.0:  # the power series of the lower function converges fast
        term = total = 1.0 / a
        n = a
        while term > total * 1e-16:
            n += 1.0
            term *= x / n
            total += term
        return min(1.0, max(0.0, 1.0 - total * scale))
    # Lentz's continued fraction of the upper function.
    b = x + 1.0 - a
    c, d = 1e300, 1.0 / b
    value = d
    for i in range(1, 10_000):
        step = -i * (i - a)
        b += 2.0
        d = 1.0 / (step * d + b or 1e-300)
        c = b + step / c or 1e-300
        value *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return min(1.0, max(0.0, scale * value))
