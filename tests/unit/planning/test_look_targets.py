"""Looks: what they may decide, and that intervals stated after them miss as rarely as they say."""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from noisebank.core.errors import BadRequest
from noisebank.core.estimates import Estimate
from noisebank.core.units import MIN_PRECISION, Precision, floor_to_ladder
from noisebank.planning.coarse_looks import (
    ERROR_FACTOR,
    MAX_TOTAL_BITS,
    MIN_GROWTH_BITS,
    STOP_FACTOR,
    ErrorGoal,
    check_looked_confidence,
    choose_growth,
    first_look_precision,
    grow_precision,
    looked_confidence,
    max_growth,
    shrink_bits,
)

GRID = np.linspace(-8, 8, 401)
WEIGHTS = np.array([NormalDist().pdf(float(each)) for each in GRID]) * (GRID[1] - GRID[0])
SHARES = np.linspace(0, 2.0**-MIN_GROWTH_BITS, 9)


def worst_miss(miss: float) -> float:
    """The largest probability that an interval misses after two looks, however they choose: see the proof."""
    z = NormalDist().inv_cdf(1 - miss / 2)
    tail = np.vectorize(NormalDist().cdf)
    worst = np.zeros_like(GRID)
    for share in SHARES:
        middle, spread = np.sqrt(share) * GRID, np.sqrt(1 - share)
        worst = np.maximum(worst, tail((middle - z) / spread) + tail((-z - middle) / spread))
    second = worst
    for share in SHARES:
        points = np.sqrt(share) * GRID[:, None] + np.sqrt(1 - share) * GRID[None, :]
        second = np.maximum(second, (np.interp(points, GRID, worst) * WEIGHTS).sum(axis=1))
    return float((second * WEIGHTS).sum())


@pytest.mark.parametrize("miss", [0.5, 0.05, 1e-3, 2e-6])
def test_intervals_after_looks_miss_as_rarely_as_they_say(miss: float) -> None:
    """Computed for the worst rule that looks could follow; ends at a look included."""
    final, stop = miss / float(ERROR_FACTOR), miss / float(STOP_FACTOR)
    worst = worst_miss(final)
    assert worst + 2.6 * stop <= miss * 1.001
    assert worst > final * 1.01, "a rule that follows what it sees makes a difference"


def test_the_stated_confidence_is_higher_and_has_an_end() -> None:
    assert looked_confidence(Fraction(19, 20)) == 1 - Fraction(1, 34)
    assert looked_confidence(Fraction(19, 20), is_final=False) > looked_confidence(Fraction(19, 20))
    with pytest.raises(BadRequest, match=r"0\.9999"):
        check_looked_confidence(1 - Fraction(1, 10**6))


def test_the_first_look_is_coarse_and_public() -> None:
    precision = first_look_precision(Fraction(1), Fraction(10_000))
    assert 1.96 / float(precision) ** 0.5 == pytest.approx(10_000 / 64, rel=1e-4)
    assert first_look_precision(Fraction(1), Fraction(0)) == MIN_PRECISION
    budget = Precision(10**20)
    bits = shrink_bits(Precision(10**19), budget)
    assert Precision(10**19 >> bits).units <= budget.units >> 12 and not shrink_bits(Precision(10**10), budget)


def test_growth_stays_on_the_ladder_and_within_the_limit() -> None:
    look = floor_to_ladder(Precision(123_456_789_012_345))
    for bits in range(MAX_TOTAL_BITS + 1):
        assert floor_to_ladder(grow_precision(look, bits)) == grow_precision(look, bits)
    most = max_growth(look, Precision(10**18))
    assert grow_precision(look, most) <= Precision(10**18) < grow_precision(look, most + 1)
    assert max_growth(look, Precision(1)) < 0 and max_growth(Precision(1), Precision(2**95)) == MAX_TOTAL_BITS


@pytest.mark.parametrize("enough", range(3, 30))
def test_the_least_growth_that_is_enough_is_chosen(enough: int) -> None:
    assert choose_growth(4, 20, lambda bits: bits >= enough) == min(20, max(4, enough))


@pytest.mark.parametrize(
    ("goal", "interval", "reached"),
    [
        (ErrorGoal(Fraction(5), None), (10, 6, 14), True),
        (ErrorGoal(Fraction(5), None), (10, 6, 16), False),
        (ErrorGoal(None, Fraction(1, 10)), (100, 92, 108), True),
        (ErrorGoal(None, Fraction(1, 10)), (100, 90, 108), False),
        (ErrorGoal(None, Fraction(1, 10)), (-100, -108, -92), True),
        (ErrorGoal(None, Fraction(1, 10)), (1, -1, 3), False),
    ],
)
def test_a_goal_is_reached_if_the_interval_says_so(
    goal: ErrorGoal, interval: tuple[float, float, float], reached: bool
) -> None:
    assert goal.is_reached(Estimate(*interval)) is reached
    assert not goal.is_reached(Estimate(None, None, None))
