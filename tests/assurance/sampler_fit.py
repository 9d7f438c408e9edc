"""Noise too small: the sampler itself, draw by draw, against the exact law.

Chi-square with cells of equal weight. A true sampler fails one of the tests with probability 1e-8
each; a scale that is off by a tenth passes with far less than that.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtrc, ndtr

from assurance.report import Finding
from support.internals import MIN_SCALE, SystemEntropy

SMALL_SCALE = 6.0
CELLS = 41
FALSE_ALARM = 1e-8
WRONG = (0.7, 0.9, 1.1, 1.3)
POWERFUL = 12_000
"""Draws that tell a scale from one 10% off: the statistic then moves by about 220 (sd 31) past a limit of 112."""


def cells(scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Upper ends of the cells (the last is open), and the exact probability of each."""
    if scale >= MIN_SCALE:  # here discrete and rounded continuous noise agree to 1e-14
        ends = np.round(np.linspace(-2.8 * scale, 2.8 * scale, CELLS - 1))
        return ends, np.diff(ndtr((ends + 0.5) / scale), prepend=0.0, append=1.0)
    reach = math.ceil(40 * scale)
    support = np.arange(-reach, reach + 1)
    weight = np.exp(-(support.astype(float) ** 2) / (2 * scale * scale))
    ends = np.arange(-(CELLS // 2), CELLS // 2).astype(float)
    below = np.array([weight[support <= end].sum() for end in ends]) / weight.sum()
    return ends, np.diff(below, prepend=0.0, append=1.0)


def fit(draws: np.ndarray, scale: float) -> float:
    """The p-value of the draws under the exact law of this scale."""
    ends, expected = cells(scale)
    counts = np.bincount(np.searchsorted(ends, draws, side="left"), minlength=len(expected))
    theory = expected * len(draws)
    merged_counts, merged_theory = _merged(counts, theory)
    statistic = ((merged_counts - merged_theory) ** 2 / merged_theory).sum()
    return float(chdtrc(len(merged_theory) - 1, statistic))


def _merged(counts: np.ndarray, theory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cells in which fewer than 10 draws are expected join their tail."""
    inside = np.flatnonzero(theory >= 10)
    first, last = inside[0], inside[-1]
    join = [slice(0, first + 1), *(slice(i, i + 1) for i in range(first + 1, last)), slice(last, len(theory))]
    return np.array([counts[part].sum() for part in join]), np.array([theory[part].sum() for part in join])


def sampled(scale: float, count: int) -> np.ndarray:
    """Draws through the bank's one door for randomness."""
    entropy = SystemEntropy()
    return np.array([entropy.discrete_gaussian(scale) for _ in range(count)], dtype=float)


def serial_correlation(draws: np.ndarray) -> float:
    """Lag 1, in standard errors: independent draws stay within 6 but once in 500 million times."""
    return float((draws[:-1] * draws[1:]).sum() / (draws**2).sum() * math.sqrt(len(draws)))


def sampler_fit(share: float) -> Finding:
    """200,000 draws at each of two scales accepted; 0.7x, 0.9x, 1.1x and 1.3x rejected."""
    count = max(POWERFUL, round(200_000 * share))
    scales = {"scale 6": SMALL_SCALE, "scale 2^26": float(MIN_SCALE)}
    accepted: dict[str, float] = {}
    planted: dict[str, bool] = {}
    lags: list[float] = []
    for name, scale in scales.items():
        draws = sampled(scale, count)
        accepted[name] = fit(draws, scale)
        lags.append(serial_correlation(draws))
        for factor in WRONG:
            # A sampler that is really off, and few draws: enough for 10%, more than enough for 30%.
            few = POWERFUL if abs(factor - 1) < 0.2 else POWERFUL // 8
            planted[f"{name} drawn at {factor}x"] = fit(sampled(scale * factor, few), scale) < FALSE_ALARM
    wrong = sum(p < FALSE_ALARM for p in accepted.values()) + sum(abs(lag) > 6 for lag in lags)
    return Finding(
        row="noise too small: fit of the sampler",
        tried=f"{count:,} draws at each of 2 scales; {POWERFUL:,} (30% off: {POWERFUL // 8:,}) at each wrong scale",
        figure="; ".join(f"{name} p = {p:.3f}" for name, p in accepted.items()),
        violations=wrong,
        planted=planted,
        note=f"lag-1 correlations {', '.join(f'{lag:+.2f}' for lag in lags)} standard errors; false alarm 1e-8 each",
    )
