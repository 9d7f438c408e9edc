"""Calibration against three other implementations: mpmath, scipy and dp_accounting."""

from __future__ import annotations

import warnings
from fractions import Fraction
from math import exp, sqrt

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from noisebank.core.units import Precision
from noisebank.privacy.calibration import (
    DELTA_MARGIN,
    EPSILON_MARGIN,
    EPSILON_STEP,
    Calibration,
    account_epsilon,
    budget_precision,
    gaussian_delta,
    request_precision,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import dp_accounting

few = settings(max_examples=30, deadline=None)

epsilons = st.integers(10_000, 100 * 10**9).map(lambda n: n * EPSILON_STEP)  # 1e-5 .. 100
usual_epsilons = st.integers(5, 1500).map(lambda n: Fraction(n, 100))
deltas = st.builds(lambda m, e: Fraction(m, 100) / 10**e, st.integers(10, 500), st.integers(1, 29))
usual_deltas = st.builds(lambda m, e: Fraction(m, 100) / 10**e, st.integers(10, 500), st.integers(2, 10))
spends = st.builds(lambda m, e: Precision(m * 10**e), st.integers(1, 10**6), st.integers(0, 14))


def exact_delta(units: int, epsilon: Fraction) -> mpmath.mpf:
    """delta(epsilon) of the Gaussian mechanism with 90 digits, from mpmath's own normal tail."""
    eps = mpmath.mpf(epsilon.numerator) / epsilon.denominator
    mu = mpmath.sqrt(mpmath.mpf(units) / 10**18)
    tail = lambda x: mpmath.erfc(x / mpmath.sqrt(2)) / 2  # noqa: E731
    return tail(eps / mu - mu / 2) - mpmath.exp(eps) * tail(eps / mu + mu / 2)


def as_mpf(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def step_up(epsilon: Fraction) -> Fraction:
    return -(-epsilon // EPSILON_STEP) * EPSILON_STEP


@few
@given(epsilons, deltas)
@example(Fraction(8), Fraction(1, 10**4))
@example(Fraction(1, 10**5), Fraction(1, 10**30))
@example(Fraction(100), Fraction(1, 2))
def test_requests_are_rounded_down_to_the_last_unit(epsilon, delta):
    units = request_precision(epsilon, delta).units
    with mpmath.workdps(90):
        assert exact_delta(units, epsilon) <= as_mpf(delta)
        assert exact_delta(units + 1, epsilon) > as_mpf(delta)


@few
@given(epsilons, deltas)
def test_budgets_are_rounded_down_to_the_last_unit(epsilon, delta):
    units = budget_precision(epsilon, delta).units
    inner_epsilon, inner_delta = epsilon - EPSILON_MARGIN, delta * (1 - DELTA_MARGIN)
    with mpmath.workdps(90):
        assert exact_delta(units, epsilon) < as_mpf(delta)
        assert exact_delta(units, inner_epsilon) <= as_mpf(inner_delta)
        assert exact_delta(units + 1, inner_epsilon) > as_mpf(inner_delta)


@few
@given(epsilons, deltas)
def test_classical_requests_are_rounded_down_to_the_last_unit(epsilon, delta):
    units = request_precision(epsilon, delta, Calibration.CLASSICAL).units
    with mpmath.workdps(90):
        true = as_mpf(epsilon) ** 2 / (2 * mpmath.log(mpmath.mpf(5) / 4 / as_mpf(delta))) * 10**18
        assert units <= true < units + 1


@few
@given(spends, deltas)
def test_reported_epsilon_is_rounded_up_by_less_than_a_step(spent, delta):
    epsilon = account_epsilon(spent, delta)
    inner_delta = as_mpf(delta * (1 - DELTA_MARGIN))
    with mpmath.workdps(90):
        assert exact_delta(spent.units, epsilon - EPSILON_MARGIN) <= inner_delta
        if epsilon - EPSILON_STEP >= EPSILON_MARGIN:
            assert exact_delta(spent.units, epsilon - EPSILON_STEP - EPSILON_MARGIN) > inner_delta


@few
@given(epsilons, deltas)
def test_a_whole_budget_never_reports_more_than_was_granted(epsilon, delta):
    budget = budget_precision(epsilon, delta)
    assert account_epsilon(budget, delta) <= epsilon
    assert budget <= request_precision(epsilon, delta)


@few
@given(st.fractions(min_value=Fraction(1, 10**5), max_value=100, max_denominator=10**15), deltas)
def test_an_epsilon_between_two_steps_reports_at_most_the_next(epsilon, delta):
    assert account_epsilon(budget_precision(epsilon, delta), delta) <= step_up(epsilon)


@few
@given(spends, deltas)
def test_reporting_then_granting_covers_the_spend(spent, delta):
    epsilon = account_epsilon(spent, delta)
    if Fraction(1, 10**5) <= epsilon <= 100:
        assert budget_precision(epsilon, delta) >= spent


@settings(max_examples=12, deadline=None)
@given(epsilons, epsilons, deltas, deltas)
def test_more_privacy_loss_buys_more_precision(e1, e2, d1, d2):
    (e1, e2), (d1, d2) = sorted((e1, e2)), sorted((d1, d2))
    for convert in (
        request_precision,
        budget_precision,
        lambda e, d: request_precision(e, d, Calibration.CLASSICAL),
    ):
        assert convert(e1, d1) <= convert(e2, d1) <= convert(e2, d2)


@few
@given(spends, spends, deltas, deltas)
def test_more_spend_reports_more_epsilon(p1, p2, d1, d2):
    (p1, p2), (d1, d2) = sorted((p1, p2)), sorted((d1, d2))
    assert account_epsilon(p1, d2) <= account_epsilon(p2, d2) <= account_epsilon(p2, d1)


@few
@given(usual_epsilons, usual_deltas)
def test_agrees_with_the_closed_form_in_scipy(epsilon, delta):
    precision = request_precision(epsilon, delta)
    eps, mu = float(epsilon), sqrt(float(precision))
    closed = ndtr(mu / 2 - eps / mu) - exp(eps) * ndtr(-mu / 2 - eps / mu)
    assert closed == pytest.approx(float(delta), rel=1e-9)
    assert float(gaussian_delta(precision, epsilon)) == pytest.approx(closed, rel=1e-9)


@few
@given(usual_epsilons, usual_deltas)
def test_agrees_with_dp_accounting(epsilon, delta):
    sigma = dp_accounting.get_sigma_gaussian(float(epsilon), float(delta), tol=1e-13)
    assert float(request_precision(epsilon, delta)) == pytest.approx(1 / sigma**2, rel=1e-8)

    spent = budget_precision(epsilon, delta)
    theirs = dp_accounting.get_epsilon_gaussian(1 / sqrt(float(spent)), float(delta))
    ours = float(account_epsilon(spent, delta))
    assert theirs <= ours + 1e-9
    assert ours - theirs <= float(EPSILON_MARGIN) + 2 * float(EPSILON_STEP) + 1e-5 * theirs


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 5), (8, 4)])
def test_agrees_with_a_privacy_loss_distribution(epsilon, delta):
    """Ten adaptive measurements that share a budget, composed by dp_accounting's PLD accountant."""
    budget = float(budget_precision(Fraction(epsilon), Fraction(1, 10**delta)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-3)
        accountant.compose(dp_accounting.GaussianDpEvent(1 / sqrt(budget / 10)), 10)
        found = accountant.get_epsilon(10**-delta)
    assert found == pytest.approx(epsilon, rel=5e-3)


@few
@given(usual_epsilons, usual_deltas)
def test_the_classical_rule_wastes_where_it_is_valid(epsilon, delta):
    analytic = request_precision(epsilon, delta)
    classical = request_precision(epsilon, delta, Calibration.CLASSICAL)
    claimed = gaussian_delta(classical, epsilon) <= float(delta) * (1 - 1e-12)
    if claimed:
        assert classical <= analytic
    elif epsilon > 10:
        assert classical > analytic
