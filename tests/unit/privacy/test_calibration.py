from __future__ import annotations

from fractions import Fraction
from math import exp, log, log1p, sqrt

import pytest
from scipy.optimize import brentq, minimize_scalar

from noisebank.core.errors import BadRequest
from noisebank.core.units import ZERO_PRECISION, Precision, parse_exact
from noisebank.privacy.calibration import (
    DELTA_MARGIN,
    EPSILON_MARGIN,
    EPSILON_STEP,
    Calibration,
    account_epsilon,
    budget_precision,
    check_delta,
    check_epsilon,
    classical_epsilon,
    gaussian_delta,
    request_precision,
)

DELTA = Fraction(1, 10**4)


def classical(epsilon: Fraction, delta: Fraction = DELTA) -> Precision:
    return request_precision(epsilon, delta, Calibration.CLASSICAL)


def excess(epsilon: Fraction, delta: Fraction = DELTA) -> float:
    """Exact delta over the delta that the classical rule claims."""
    return float(gaussian_delta(classical(epsilon, delta), epsilon)) / float(delta)


@pytest.mark.parametrize(
    ("epsilon", "ratio", "digits"),
    [
        ("0.5", 0.0022, 4), (1, 0.0056, 4), (4, 0.091, 3), (7, 0.58, 2), (8, 1.005, 3), (10, 2.74, 2), (15, 23.5, 1),
        (20, 133, 0),
    ],
)  # fmt: skip
def test_classical_rule_is_private_only_below_8(epsilon, ratio, digits):
    assert round(excess(parse_exact(epsilon)), digits) == ratio


@pytest.mark.parametrize(("delta", "limit"), [("1e-4", 7.991), ("1e-5", 8.420), ("1e-6", 8.782)])
def test_limits_of_the_classical_rule(delta, limit):
    found = brentq(lambda epsilon: excess(parse_exact(round(epsilon, 12)), parse_exact(delta)) - 1, 6, 10, xtol=1e-6)
    assert round(found, 3) == limit


@pytest.mark.parametrize(("delta", "valid"), [("1e-4", "7.98"), ("1e-5", "8.41"), ("1e-6", "8.78")])
def test_the_classical_rule_fails_within_two_hundredths_of_the_stated_limits(delta, valid):
    assert excess(parse_exact(valid), parse_exact(delta)) < 1
    assert excess(parse_exact(valid) + Fraction(2, 100), parse_exact(delta)) > 1


@pytest.mark.parametrize(("epsilon", "ratio"), [(1, 1.859), (2, 1.568), (4, 1.283), (8, 1.000), (16, 0.730)])
def test_what_the_analytic_rule_gains(epsilon, ratio):
    analytic = request_precision(Fraction(epsilon), DELTA)
    assert round(float(analytic.exact / classical(Fraction(epsilon)).exact), 3) == ratio


def test_the_budget_of_the_paper():
    assert round(float(request_precision(Fraction(8), DELTA)), 5) == 3.39063
    assert round(float(budget_precision(Fraction(8), DELTA)), 5) == 3.39063
    assert round(float(classical(Fraction(8))), 5) == 3.39217


def test_the_budget_of_the_paper_fails_by_a_hair():
    spent = classical(Fraction(8))
    assert float(gaussian_delta(spent, Fraction(8))) == pytest.approx(1.00477e-4, abs=5e-10)
    assert round(float(account_epsilon(spent, DELTA)), 4) == 8.0023
    assert classical_epsilon(spent, DELTA) == pytest.approx(8, rel=1e-15)


def test_zcdp_would_waste_an_eighth():
    """The best known conversion (Canonne, Kamath, Steinke 2020, Proposition 12) against ours."""

    def delta_of(rho: float) -> float:
        def log_delta(alpha: float) -> float:
            return (alpha - 1) * (alpha * rho - 8) - log(alpha - 1) + alpha * log1p(-1 / alpha)

        return exp(minimize_scalar(log_delta, bounds=(1.01, 50), method="bounded", options={"xatol": 1e-10}).fun)

    rho = brentq(lambda rho: delta_of(rho) - 1e-4, 0.5, 3)
    assert round(2 * rho, 3) == 2.955
    assert 2 * rho < float(budget_precision(Fraction(8), DELTA)) * 0.88


def test_classical_request_is_the_sigma_that_it_names():
    for epsilon, delta in ((Fraction(1, 2), DELTA), (Fraction(20), parse_exact("1e-6"))):
        sigma = sqrt(2 * log(1.25 / float(delta))) / float(epsilon)
        assert float(classical(epsilon, delta)) == pytest.approx(1 / sigma**2, rel=1e-12)


def test_budgets_pay_for_discreteness():
    for epsilon in (Fraction(1, 100), Fraction(1), Fraction(20)):
        budget, request = budget_precision(epsilon, DELTA), request_precision(epsilon, DELTA)
        assert budget < request
        assert gaussian_delta(budget, epsilon - EPSILON_MARGIN) <= 1e-4 * (1 - float(DELTA_MARGIN))
        assert budget.exact > request.exact * (1 - Fraction(1, 10**4))


def test_margins_are_those_of_a_million_draws():
    assert Fraction(1, 2**22) == EPSILON_MARGIN
    assert Fraction(1, 2**22) == DELTA_MARGIN


def test_an_untouched_account_has_lost_nothing():
    assert account_epsilon(ZERO_PRECISION, DELTA) == 0
    assert float(gaussian_delta(ZERO_PRECISION, Fraction(1))) == 0


def test_the_smallest_spend_counts():
    assert account_epsilon(Precision(1), parse_exact("1e-30")) >= EPSILON_MARGIN
    assert account_epsilon(Precision(1), DELTA) >= EPSILON_MARGIN


def test_reported_epsilon_is_a_whole_number_of_steps():
    assert account_epsilon(Precision(12_345_678_901_234_567), DELTA) * 10**9 % 1 == 0
    assert (account_epsilon(Precision(12_345_678_901_234_567), DELTA) / EPSILON_STEP).denominator == 1


@pytest.mark.parametrize("epsilon", ["0", "-1", "0.0000099", "100.01", Fraction(10**400), Fraction(10**5000)])
def test_epsilon_out_of_range(epsilon):
    value = Fraction(epsilon)
    for call in (check_epsilon, lambda e: request_precision(e, DELTA), lambda e: budget_precision(e, DELTA)):
        with pytest.raises(BadRequest, match=r"\[1e-05, 100\]") as caught:
            call(value)
        assert caught.value.parameter == "epsilon"


@pytest.mark.parametrize(
    ("check", "end", "beyond"),
    [
        (check_epsilon, "1e-5", "9.999e-6"), (check_epsilon, "100", "100.001"),
        (check_delta, "1e-30", "9.999e-31"), (check_delta, "0.5", "0.5001"),
    ],
)  # fmt: skip
def test_the_ends_of_the_ranges_are_inside_and_what_is_next_is_not(check, end, beyond):
    assert check(Fraction(end)) == Fraction(end)
    with pytest.raises(BadRequest):
        check(Fraction(beyond))


@pytest.mark.parametrize("delta", ["0", "-1e-6", "1e-31", "0.51", "1", Fraction(10**400)])
def test_delta_out_of_range(delta):
    value, spent = Fraction(delta), Precision(10**18)
    for call in (
        check_delta,
        lambda d: request_precision(Fraction(1), d),
        lambda d: request_precision(Fraction(1), d, Calibration.CLASSICAL),
        lambda d: budget_precision(Fraction(1), d),
        lambda d: account_epsilon(spent, d),
        lambda d: classical_epsilon(spent, d),
    ):
        with pytest.raises(BadRequest, match=r"\[1e-30, 0.5\]") as caught:
            call(value)
        assert caught.value.parameter == "delta"


@pytest.mark.parametrize("epsilon", ["1e-5", "100"])
@pytest.mark.parametrize("delta", ["1e-30", "0.5"])
def test_the_ends_of_the_ranges_work(epsilon, delta):
    eps, dlt = parse_exact(epsilon), parse_exact(delta)
    budget = budget_precision(eps, dlt)
    assert ZERO_PRECISION < budget < request_precision(eps, dlt)
    assert account_epsilon(budget, dlt) <= eps
