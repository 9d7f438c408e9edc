"""Statistics from noisy sums: right without noise, and intervals that are neither too narrow nor too wide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, isclose

import numpy as np
import pytest

from noisebank.account.derived.moments import (
    Moments,
    NoisySum,
    Solution,
    correlation,
    covariance,
    mean_of_x,
    slope,
    solve_fieller,
    variance_of_x,
)
from noisebank.core.entropy import simulation_rng

BOUNDS, Y_BOUNDS = (0.0, 100.0), (-50.0, 150.0)
ROWS, DRAWS = 2_000, 700
RNG = simulation_rng(7)
X = np.clip(RNG.normal(60, 15, ROWS), *BOUNDS)
Y = np.clip(0.5 * X + RNG.normal(10, 20, ROWS), *Y_BOUNDS)
SUMS = {"rows": ROWS, "x": X.sum(), "xx": (X * X).sum(), "y": Y.sum(), "yy": (Y * Y).sum(), "xy": (X * Y).sum()}
STDDEVS = {"rows": 4.0, "x": 300.0, "xx": 15_000.0, "y": 400.0, "yy": 40_000.0, "xy": 30_000.0}
COVARIANCE = float(np.mean(X * Y) - X.mean() * Y.mean())
Statistic = Callable[[Moments, float], Solution]
STATISTICS: dict[str, tuple[Statistic, float]] = {
    "mean": (mean_of_x, float(X.mean())),
    "variance": (lambda moments, confidence: variance_of_x(moments, BOUNDS, confidence), float(X.var())),
    "sample variance": (
        lambda moments, confidence: variance_of_x(moments, BOUNDS, confidence, sample=True),
        float(X.var(ddof=1)),
    ),
    "covariance": (lambda moments, confidence: covariance(moments, BOUNDS, Y_BOUNDS, confidence), COVARIANCE),
    "slope": (lambda moments, confidence: slope(moments, BOUNDS, Y_BOUNDS, confidence), COVARIANCE / float(X.var())),
    "correlation": (
        lambda moments, confidence: correlation(moments, BOUNDS, Y_BOUNDS, confidence),
        float(np.corrcoef(X, Y)[0, 1]),
    ),
}


def draw_moments(stated: float = 1.0, real: float = 1.0) -> Moments:
    return Moments(
        **{
            name: NoisySum(float(total + real * STDDEVS[name] * RNG.standard_normal()), stated * STDDEVS[name])
            for name, total in SUMS.items()
        }
    )


@pytest.mark.parametrize("name", STATISTICS)
def test_without_noise_it_is_the_statistic(name: str) -> None:
    statistic, truth = STATISTICS[name]
    solution = statistic(draw_moments(1e-4, 0.0), 0.95)
    assert isclose(solution.value, truth, rel_tol=1e-9)
    assert solution.low < truth < solution.high and isclose(solution.low, solution.high, rel_tol=1e-2)


@pytest.mark.parametrize("name", STATISTICS)
def test_intervals_cover_as_often_as_they_say(name: str) -> None:
    statistic, truth = STATISTICS[name]

    def coverage(stated: float) -> float:
        solutions = [statistic(draw_moments(stated), 0.95) for _ in range(DRAWS)]
        return sum(each.low <= truth <= each.high for each in solutions) / DRAWS

    noise = 4 * (0.95 * 0.05 / DRAWS) ** 0.5
    assert 0.95 - noise < coverage(1.0) < 0.965 + noise, "right"
    assert coverage(0.7) < 0.95 - noise, "too narrow"
    assert coverage(1.3) > 0.965 + noise / 2, "too wide"


@pytest.mark.parametrize("name", ["variance", "covariance", "correlation"])
def test_with_much_noise_the_interval_is_all_that_is_possible(name: str) -> None:
    statistic, truth = STATISTICS[name]
    for _ in range(50):
        solution = statistic(draw_moments(300.0, 300.0), 0.95)
        assert -5_000 <= solution.low <= solution.value <= solution.high <= 5_000
    wide = statistic(Moments(NoisySum(-5, 4), NoisySum(0, 300), NoisySum(0, 1)), 0.95)
    assert wide.low <= truth <= wide.high or name == "covariance"


def test_noise_that_may_be_shared_makes_intervals_wider() -> None:
    moments = draw_moments()
    alone = variance_of_x(moments, BOUNDS, 0.95)
    shared = variance_of_x(replace(moments, share_noise=True), BOUNDS, 0.95)
    assert shared.value == alone.value and shared.high - shared.low > 1.6 * (alone.high - alone.low)


def test_two_rows_have_a_sample_variance_and_one_row_any() -> None:
    two = Moments(NoisySum(2, 0), NoisySum(30, 1e-9), NoisySum(500, 1e-9))
    assert isclose(variance_of_x(two, BOUNDS, 0.95, sample=True).value, 50)
    one = Moments(NoisySum(1, 0.5), NoisySum(10, 1e-9), NoisySum(100, 1e-9))
    assert variance_of_x(one, BOUNDS, 0.95, sample=True).high <= 5_000


def test_a_slope_is_unknown_where_x_may_be_constant() -> None:
    flat = Moments(
        NoisySum(100, 5), NoisySum(500, 10), NoisySum(2_500, 500), NoisySum(0, 9), NoisySum(9, 9), NoisySum(1, 9)
    )
    assert (slope(flat, BOUNDS, Y_BOUNDS, 0.95).low, slope(flat, BOUNDS, Y_BOUNDS, 0.95).high) == (-inf, inf)


def test_fieller_is_a_normal_interval_where_the_bottom_is_certain() -> None:
    low, high = solve_fieller(10.0, 2.0, [(1.0, 0.0)], 2.0)
    assert isclose(low, 4.0) and isclose(high, 6.0)
    assert solve_fieller(10.0, 2.0, [(0.0, 1.0)], 2.0) == (-inf, inf)
