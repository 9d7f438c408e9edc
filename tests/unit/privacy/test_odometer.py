"""The odometer's line: its formula in another arithmetic, its rounding, and what it does not do."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from noisebank.core.errors import BadRequest
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.privacy.calibration import DELTA_MARGIN, EPSILON_MARGIN, EPSILON_STEP, account_epsilon, budget_precision
from noisebank.privacy.odometer import promised_epsilon, raised_epsilon, raised_precision

UNITS = st.integers(1, 10**21)
DELTAS = st.sampled_from([Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**4), Fraction(1, 10**6), Fraction(1, 10**30)])


def line(fixed: int, raised: int, delta: Fraction) -> mpf:
    """ln(1/d)/lambda + (1 + lambda) b/2 where lambda is best for the fixed budget, with mpmath."""
    inner = delta * (1 - DELTA_MARGIN)
    chance = -mp.log(mpf(inner.numerator) / inner.denominator)
    slope = mp.sqrt(2 * chance / (mpf(fixed) / 10**18))
    margin = mpf(EPSILON_MARGIN.numerator) / EPSILON_MARGIN.denominator
    return chance / slope + (1 + slope) * mpf(raised) / 10**18 / 2 + margin


@settings(max_examples=60, deadline=None)
@given(UNITS, UNITS, DELTAS)
def test_the_line_is_the_proofs_and_rounded_up(fixed: int, more: int, delta: Fraction) -> None:
    mp.dps = 60
    found = raised_epsilon(Precision(fixed), Precision(fixed + more), delta)
    exactly = line(fixed, fixed + more, delta)
    assert (found / EPSILON_STEP).denominator == 1
    # The slope is rounded to 2^-64, which makes another true line, hardly a higher one.
    assert exactly * (1 - mpf(10) ** -15) <= mpf(found.numerator) / found.denominator
    assert mpf(found.numerator) / found.denominator <= exactly * (1 + mpf(10) ** -9) + mpf(10) ** -9


@settings(max_examples=60, deadline=None)
@given(UNITS, st.fractions(Fraction(1, 10**5), 100), DELTAS)
def test_what_a_raise_grants_keeps_its_epsilon_and_no_more_would(
    fixed: int, epsilon: Fraction, delta: Fraction
) -> None:
    granted = raised_precision(Precision(fixed), epsilon, delta)
    if granted >= Precision(fixed):
        assert raised_epsilon(Precision(fixed), granted, delta) <= epsilon + EPSILON_STEP
        more = Precision(granted.units + granted.units // 1000 + 10**12)
        assert raised_epsilon(Precision(fixed), more, delta) > epsilon


@settings(max_examples=30, deadline=None)
@given(UNITS, UNITS, UNITS, DELTAS)
def test_larger_budgets_promise_less_and_a_raise_is_dearer_than_an_opening(
    fixed: int, more: int, most: int, delta: Fraction
) -> None:
    low, high = Precision(fixed + more), Precision(fixed + more + most)
    assert raised_epsilon(Precision(fixed), low, delta) <= raised_epsilon(Precision(fixed), high, delta)
    if raised_epsilon(Precision(fixed), low, delta) < 900:
        assert account_epsilon(low, delta) <= raised_epsilon(Precision(fixed), low, delta)


def test_lowering_leaves_the_promise_and_raising_takes_the_line() -> None:
    delta = Fraction(1, 10**6)
    fixed = budget_precision(Fraction(1), delta)
    twice = Precision(2 * fixed.units)
    assert promised_epsilon(fixed, fixed, delta) == account_epsilon(fixed, delta)
    assert promised_epsilon(fixed, twice, delta) == raised_epsilon(fixed, twice, delta) > account_epsilon(twice, delta)
    assert round(float(promised_epsilon(fixed, twice, delta)), 4) == 1.9224


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="a raise from"):
        raised_epsilon(Precision(10), Precision(9), Fraction(1, 100))
    with pytest.raises(ValueError, match="a raise from"):
        raised_epsilon(ZERO_PRECISION, Precision(9), Fraction(1, 100))
    with pytest.raises(BadRequest):
        raised_epsilon(Precision(1), Precision(9), Fraction(2))
    assert raised_precision(Precision(10**18), Fraction(1, 1000), Fraction(1, 10**6)) == ZERO_PRECISION
