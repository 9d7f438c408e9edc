"""Two independent checks that a mechanism is eps-LDP: from its exact output law, and from samples of its reports."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import BadRequest
from noisebank.federated.ldp.law import exp_lower_bound, likelihood_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from noisebank.federated.ldp.mechanism import Mechanism

CUT_COUNT = 256


def exact_ratio(mechanism: Mechanism, inputs: Sequence[float]) -> Fraction | float:
    """Returns the largest likelihood ratio over all outputs and all pairs of these inputs, in exact arithmetic."""
    return likelihood_ratio([mechanism.output_law(x) for x in inputs])


def satisfies_ldp(mechanism: Mechanism, inputs: Sequence[float]) -> bool:
    """Whether `exact_ratio` is at most e^eps: no tolerance, e^eps rounded down."""
    return exact_ratio(mechanism, inputs) <= exp_lower_bound(mechanism.epsilon)


@dataclass(frozen=True, slots=True)
class AuditResult:
    """With this confidence the mechanism is not eps-LDP for any eps below `epsilon_lower_bound`."""

    claimed_epsilon: float
    epsilon_lower_bound: float
    confidence: float
    samples: int

    @property
    def is_refuted(self) -> bool:
        """Whether the samples contradict the claimed epsilon."""
        return self.epsilon_lower_bound > self.claimed_epsilon


def audit_epsilon(
    perturb: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    claimed_epsilon: float,
    samples: int = 1_000_000,
    confidence: float = 1.0 - 1e-6,
) -> AuditResult:
    """Draw `samples` reports on -1 and on +1 and look for an event more than e^claimed times as likely on +1.

    Events are "the report is at least y" (for these mechanisms the most informative ones). One half of the samples
    chooses y, the other measures both probabilities with Chernoff-KL bounds, so the verdict holds for any sample size:
    a mechanism that is eps-LDP is refuted with probability at most 1 - confidence.
    """
    if samples < 1000 or not 0.0 < confidence < 1.0:
        raise BadRequest("samples", samples, "at least 1000, confidence in (0, 1)")
    half = samples // 2
    low, high = perturb(np.full(2 * half, -1.0)), perturb(np.full(2 * half, 1.0))
    chance = (1.0 - confidence) / 2.0
    cuts = np.unique(np.quantile(high[:half], np.linspace(0.0, 0.999, CUT_COUNT), method="lower"))
    best = max(cuts, key=lambda cut: _lower_bound_epsilon(high[:half], low[:half], cut, chance))
    return AuditResult(
        claimed_epsilon, _lower_bound_epsilon(high[half:], low[half:], best, chance), confidence, samples
    )


def _lower_bound_epsilon(
    high: NDArray[np.float64], low: NDArray[np.float64], cut: float, failure_probability: float
) -> float:
    """Returns a lower bound on ln(P(high >= cut) / P(low >= cut)); each of two bounds may fail."""
    often = _bound_probability(int(np.count_nonzero(high >= cut)), len(high), failure_probability, upper=False)
    seldom = _bound_probability(int(np.count_nonzero(low >= cut)), len(low), failure_probability, upper=True)
    return log(often / seldom) if often > 0.0 else -inf


def _bound_probability(hits: int, draws: int, failure_probability: float, upper: bool) -> float:
    """Returns a one-sided bound p that fails with at most this chance: draws KL(hits/draws, p) = ln 1/chance."""
    share, allowed = hits / draws, log(1.0 / failure_probability) / draws
    inside, outside = share, 1.0 if upper else 0.0
    for _ in range(60):
        middle = (inside + outside) / 2.0
        if _kl_divergence(share, middle) <= allowed:
            inside = middle
        else:
            outside = middle
    return outside


def _kl_divergence(share: float, p: float) -> float:
    """Returns the Kullback-Leibler divergence between coins of probability `share` and `p`."""
    if not 0.0 < p < 1.0:
        return 0.0 if share == p else inf
    first = share * log(share / p) if share > 0.0 else 0.0
    second = (1.0 - share) * log((1.0 - share) / (1.0 - p)) if share < 1.0 else 0.0
    return first + second
