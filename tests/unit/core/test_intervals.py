from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from noisebank.core.errors import BadRequest
from noisebank.core.intervals import confidence_interval, normal_quantile, quantile_bound

confidences = st.floats(0.001, 0.999999)


@given(confidences)
def test_quantile_is_two_sided(confidence):
    z = normal_quantile(confidence)
    assert norm.cdf(z) - norm.cdf(-z) == pytest.approx(confidence, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("confidence", "z"), [(0.5, 0.67449), (0.9, 1.64485), (0.95, 1.95996), (0.99, 2.57583)])
def test_well_known_quantiles(confidence, z):
    assert normal_quantile(confidence) == pytest.approx(z, abs=1e-5)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 1.5, 95, float("nan"), float("inf")])
def test_refuses_what_is_no_probability(bad):
    with pytest.raises(BadRequest) as caught:
        normal_quantile(bad)
    assert caught.value.parameter == "confidence"
    with pytest.raises(BadRequest):
        confidence_interval(0.0, 1.0, bad)


@given(st.floats(-1e6, 1e6), st.floats(0.1, 1e6), confidences)
def test_interval_holds_the_promised_share(value, stddev, confidence):
    low, high = confidence_interval(value, stddev, confidence)
    share = norm.cdf(high, value, stddev) - norm.cdf(low, value, stddev)
    assert share == pytest.approx(confidence, rel=1e-5)
    assert (low + high) / 2 == pytest.approx(value, abs=1e-6 * (abs(value) + stddev))


@given(st.fractions(min_value=Fraction(1, 1000), max_value=1 - Fraction(1, 10**9)))
def test_the_proven_quantile_is_never_too_small(confidence):
    with mpmath.workdps(60):
        right = mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(confidence.numerator) / confidence.denominator)
        bound = quantile_bound(confidence)
        assert 0 <= mpmath.mpf(bound.numerator) / bound.denominator - right < mpmath.mpf(2) ** -60


def test_a_proven_quantile_is_worked_out_once() -> None:
    """Every relative request asks for it, and a ball of 128 bits takes a while."""
    confidence = Fraction(987, 1000)
    assert quantile_bound(confidence) is quantile_bound(Fraction(1974, 2000))
